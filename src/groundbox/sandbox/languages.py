"""Finding the runtime of a language by its name, without the engine knowing any language."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any, Final, Protocol

from groundbox.errors import InvalidArgument

ENTRY_POINTS: Final = "groundbox.runtimes"
_OWN: Final = ("python",)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Program:
    """What is to be run.

    Attributes:
        mode: `cell` (state is kept, the last expression is the value), `script` (a program of its own)
            or `call` (a module of its own, then a call of one of its functions; the result is the value).
        argv: Arguments of a script.
        stdin: Standard input of a script; None for an empty one.
        filename: What tracebacks call a script or module.
        call: The function that is called, with `args` and `kwargs`, which are plain data.
    """

    source: str
    mode: str = "cell"
    argv: Sequence[str] = ()
    stdin: bytes | None = None
    filename: str = "main.py"
    call: str | None = None
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)


class Runtime(Protocol):
    """What one language needs. A module is enough, with these as functions."""

    def profile(self, source: str) -> str:
        """Which template suits a sandbox that runs only this: `bare` or `science`."""

    def order(self, program: Program) -> dict[str, Any]:
        """The order for the worker, without limits and id.

        Raises:
            InvalidArgument: The program's mode or arguments make no sense in this language.
        """


def find(language: str) -> Runtime:
    """The runtime called `language`.

    Raises:
        InvalidArgument: There is none; the message lists those there are.
    """
    if language in _OWN:
        return importlib.import_module(f"groundbox.runtimes.{language}")
    others = {point.name: point for point in metadata.entry_points(group=ENTRY_POINTS)}
    if language in others:
        runtime: Runtime = others[language].load()
        return runtime
    known = ", ".join(sorted({*_OWN, *others}))
    raise InvalidArgument("language", f"{language!r} is not known here; there is: {known}")
