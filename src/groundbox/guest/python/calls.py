"""Calls: a program is run as a module, then one of its functions is called with given data.

The module is named `program`, so that what stands under `if __name__ == "__main__"` does not run.
The result is told as text, as every value, and as data that the host can compare.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from typing import Any, Final

from groundbox.values.codec import RESULT_MIME, decode, result_of

from .fault import nearest
from .hints import Hinted
from .source import remember_lines

_MOST_SHOWN: Final = 5


class Program:
    """One module and the call that is wanted of it."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        self.source: str = order["source"]
        self.filename: str = order["filename"]
        self.module = types.ModuleType("program")
        self.module.__file__ = self.filename
        self._call: str = order["call"]
        self._args = decode(order["args"], most_alike=None)
        self._kwargs = {name: decode(value, most_alike=None) for name, value in order["kwargs"].items()}
        sys.modules["program"] = self.module
        remember_lines(self.filename, self.source)

    def compiled(self) -> types.CodeType:
        """The module's code."""
        return compile(self.source, self.filename, "exec", dont_inherit=True)

    def run(self, code: types.CodeType) -> Any:
        """Run the module, then the call; its result."""
        exec(code, self.module.__dict__)
        return self._function()(*self._args, **self._kwargs)

    def _function(self) -> Any:
        """What is to be called.

        Raises:
            NoSuchFunction: The program does not define it.
        """
        found: Any = self.module
        for part in self._call.split("."):
            try:
                found = getattr(found, part)
            except AttributeError:
                raise _not_there(self._call, part, found) from None
        return found


class NoSuchFunction(Hinted, AttributeError):
    """What was to be called is not there."""

    __module__ = "builtins"  # tracebacks tell a class of ours by its name alone


def _not_there(call: str, part: str, place: Any) -> NoSuchFunction:
    where = "the program" if isinstance(place, types.ModuleType) else f"`{call.rpartition('.')[0]}`"
    try:
        there = [name for name, value in vars(place).items() if callable(value) and not name.startswith("_")]
        shown = ", ".join(f"`{name}`" for name in (nearest(part, there) or there)[:_MOST_SHOWN])
    except Exception:  # an object of the program's own, which may do anything
        shown = ""
    return NoSuchFunction(f"{where} has no `{part}` to call", *([f"It has {shown}."] if shown else []))


LOST: Final[Mapping[str, Any]] = {"lost": "ended"}
_MOST_MESSAGE: Final = 1000


def answer_of(code: types.CodeType, order: Mapping[str, Any]) -> Mapping[str, Any]:
    """Make one call, in a module made anew, and tell its `value`, what it `raised`, or why it is `lost`."""
    program = Program(order)
    try:
        result = program.run(code)
        told = result_of(result)
    except (SystemExit, KeyboardInterrupt):
        return LOST
    except MemoryError:
        return {"lost": "memory"}
    except BaseException as error:
        return {"raised": type(error).__name__[:_MOST_MESSAGE], "message": _message(error)}
    return {"lost": "too-large"} if told is None and result is not None else {"value": told}


def _message(error: BaseException) -> str:
    try:
        return str(error)[:_MOST_MESSAGE]
    except Exception:
        return ""


def with_data(bundle: dict[str, Any] | None, value: Any) -> dict[str, Any]:
    """The bundle of a result, with the data itself if it is not too large."""
    told = result_of(value)
    data = {} if told is None and value is not None else {RESULT_MIME: told}
    return {**(bundle or {"text/plain": "None"}), **data}
