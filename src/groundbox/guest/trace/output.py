"""Standard output and error, so that what is printed gets its place among the records.

`sys.stdout` and `sys.stderr` (and `sys.__stdout__`, `sys.__stderr__`, if they are the same) are replaced by streams of
a subclass over the same buffers, whose `write` tells the recorder. Text that does not go through these streams
(`os.write`, `sys.stdout.buffer`, other processes) is printed as ever, and not in the trace.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any

from .own import protect

protect(globals())

Tell = Callable[[int, str], None]
_plain_text = str.__str__


class _Stream(io.TextIOWrapper):
    def write(self, text: str, /) -> int:
        # Written first: what cannot be encoded raises here, and is not told.
        count = super().write(text)
        if self._tell is not None:
            self._tell(self._number, text if type(text) is str else _plain_text(text))
        return count

    _tell: Tell | None = None
    _number = 0


# `type(sys.stdout)` shows itself as it does without a tracer.
_Stream.__name__ = _Stream.__qualname__ = "TextIOWrapper"
_Stream.__module__ = "_io"


class Output:
    """Both streams, while a trace is written."""

    def __init__(self, tell: Tell) -> None:
        self._replaced: list[tuple[str, Any, Any]] = []
        for number, name in ((1, "stdout"), (2, "stderr")):
            self._replace(name, number, tell)

    def _replace(self, name: str, number: int, tell: Tell) -> None:
        old = getattr(sys, name)
        # A stream of another kind was put there before the run; what is written to it is not in the trace.
        if type(old) is not io.TextIOWrapper:
            return
        # Both streams write to one buffer: what waits in the old one comes first.
        old.flush()
        new = _Stream(
            _buffer(old),
            encoding=old.encoding,
            errors=old.errors,
            newline="\n",  # nothing is translated, as in the interpreter's own on POSIX
            line_buffering=old.line_buffering,
            write_through=old.write_through,
        )
        # The interpreter sets it on its own streams, and a new wrapper has none.
        if hasattr(old, "mode"):
            new.mode = old.mode  # type: ignore[misc]
        new._number, new._tell = number, tell
        for where in (name, f"__{name}__"):
            if getattr(sys, where) is old:
                setattr(sys, where, new)
                self._replaced.append((where, old, new))

    def put_back(self) -> None:
        """Put the former streams back, unless the program has put others in place of ours, which stay open."""
        for where, old, new in self._replaced:
            new._tell = None
            try:
                new.flush()
            except (OSError, ValueError):
                pass
            if getattr(sys, where, None) is new:
                # A program that has put a stream of its own there, as by `redirect_stdout`, keeps it.
                setattr(sys, where, old)
        _KEPT.extend(new for _, _, new in self._replaced)
        self._replaced.clear()


def _buffer(stream: io.TextIOWrapper) -> Any:
    """Return the stream's own buffer, or one like it where its file was put in place of another that could seek.

    A FileIO remembers that it can, and TextIOWrapper asks it where it is.
    """
    try:
        if stream.buffer.seekable():
            stream.buffer.tell()  # type: ignore[attr-defined]
    except OSError:
        return io.BufferedWriter(io.FileIO(stream.fileno(), "wb", closefd=False))
    return stream.buffer


_KEPT: list[Any] = []
"""A stream that is dropped closes its buffer."""
