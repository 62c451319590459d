"""The interface of a tracer, which records what a program does, and how one is found.

Sandboxes know tracers by this interface alone. A tracer is an entry point of the group `groundbox.tracers`, whose
object implements `Tracer`; a module is enough. groundbox brings one, called `groundbox`.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol

from groundbox.errors import InvalidArgument

if TYPE_CHECKING:
    from importlib import metadata

    from groundbox.trace_options import TraceOptions

ENTRY_POINTS: Final = "groundbox.tracers"
USUAL: Final = "groundbox"
CHOSEN_BY: Final = "GROUNDBOX_TRACER"
"""The environment variable that names another tracer."""

Effort = Literal["find", "copy", "build"]
"""How far a tracer goes for a native part: look for one that is ready, copy one that came along, or compile one."""


class Interpreter(Protocol):
    """The interpreter of an environment, for which the native part of a tracer is made."""

    @property
    def python(self) -> Path:
        """The path of its executable."""

    @property
    def python_version(self) -> tuple[int, int, int]:
        """The version of Python."""

    @property
    def base_prefix(self) -> Path:
        """The folder of the interpreter that the environment was made with."""


class Origin(NamedTuple):
    """Where an environment's native tracer is from, and why from there.

    Attributes:
        origin: "prebuilt" (it came with groundbox), "compiled" (here), or None: there is none.
        passed_over: Why what would have been taken before was not, in the order of trying.
    """

    origin: str | None
    passed_over: tuple[str, ...]

    @property
    def words(self) -> str:
        """The same as a phrase."""
        why = "; ".join(self.passed_over)
        if self.origin is None:
            return f"no native tracer: {why}"
        return f"native tracer {self.origin}" + (f" ({why})" if why else "")


class Native(NamedTuple):
    """The native part of a tracer for one environment.

    Attributes:
        file: The file that the guest loads, below the folder that was given; None if the tracer works without.
    """

    file: Path | None
    origin: Origin


class TraceMemory(Protocol):
    """Memory that a guest writes one run's records to."""

    @property
    def descriptor(self) -> int:
        """The descriptor that the guest gets; the caller closes it."""

    def order(self) -> dict[str, Any]:
        """Return what the guest's side of the tracer is told, as JSON holds it."""

    def is_large(self) -> bool:
        """Return whether `read` takes so long that it belongs into a thread."""


class TracedRun(NamedTuple):
    """What the host knows of a run that was recorded.

    Attributes:
        source: The program.
        call: The function that was called with `args` and `kwargs`, or None.
        python: The version of the interpreter.
        outcome: How the run ended, such as `ok`.
        why: What stopped the program, for an outcome that is neither `ok` nor `error`.
        core: Which core recorded it, as the guest says.
    """

    source: str
    filename: str
    mode: str
    call: str | None
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    python: str
    hash_seed: int | None
    outcome: str
    why: str
    core: str


class Tracer(Protocol):
    """What records runs."""

    def for_environment(self, environment: Interpreter, folder: Path, *, effort: Effort) -> Native:
        """Return the native part for an environment's interpreter. May take seconds, unless `effort` is "find".

        Args:
            folder: Where native parts of all environments are kept. Guests can read it.
        """

    def memory(self, options: TraceOptions) -> TraceMemory:
        """Return new memory for the records of one run."""

    def read(self, memory: TraceMemory, run: TracedRun) -> Any:
        """Return the trace: whatever `Execution.trace` is to be, with methods `summary` and `dumps`.

        All of the memory is a claim of the guest, who may still change it.
        """

    def loads(self, data: bytes, core: str | None = None) -> Any:
        """Return the trace that `dumps` of one gave, as a server sent it."""


def find() -> Tracer:
    """Return the tracer of this process: the one that `GROUNDBOX_TRACER` names, by default groundbox's own.

    Raises:
        InvalidArgument: No tracer of this name is installed. The message lists those that are.
    """
    return _loaded(os.environ.get(CHOSEN_BY) or USUAL)


@functools.cache
def _loaded(name: str) -> Tracer:
    points = _points()
    if name not in points:
        known = f"installed are {', '.join(sorted(points))}" if points else "none is installed"
        raise InvalidArgument("trace", f"there is no tracer {name!r}; {known}")
    tracer: Tracer = points[name].load()
    return tracer


def _points() -> dict[str, metadata.EntryPoint]:
    from importlib import metadata

    points = {point.name: point for point in metadata.entry_points(group=ENTRY_POINTS)}
    return points if USUAL in points else {**_of_checkout(), **points}


def _of_checkout() -> dict[str, metadata.EntryPoint]:
    """Return the entry points of the checkout that this file is in, if it is in one.

    The metadata of an editable installation are those of the day it was made, and there may be none at all.
    """
    import tomllib
    from importlib import metadata

    try:
        project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
        own = project["entry-points"][ENTRY_POINTS] if project["name"] == USUAL else {}
    except (OSError, ValueError, KeyError):
        return {}
    return {name: metadata.EntryPoint(name, value, ENTRY_POINTS) for name, value in own.items()}
