"""Lines of a prompt: typed with a line editor, pasted, or from a pipe.

A paste comes in one burst. What follows the first line of it is taken at once, so that a blank line inside a function
can be told from the one that ends it: by the line after it, which is there already. Of a pipe the same is true as long
as whoever writes does not wait for an answer; then nothing is there, and the blank line ends the cell.

A cell's `input()` takes its lines from the same place, one after the other, while the cell runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

import click

from groundbox.cli.terminal import one_line

_BURST_S: Final = 0.02
"""Within a burst the next piece is there sooner; a person, and a program that has read an answer, comes later."""
_PIECE: Final = 65536
_PASTE_MARKS: Final = ("\x1b[200~", "\x1b[201~")
_END: Final = "\x04"

Complete = Callable[[str, int], list[str]]
"""Takes the line up to the cursor and where the part begins that is to be replaced; gives replacements of that part."""


class Dropped(Exception):
    """Ctrl-C at a prompt: what was begun is not wanted."""


class Lines(Protocol):
    """Where cells come from."""

    def read(self, goes_on: bool) -> str:
        """Wait for the next line; told whether it goes on with a cell.

        Raises:
            EOFError: There is none.
            Dropped: What was begun is to be dropped, and the next line asked for.
        """

    def peek(self) -> str | None:
        """The next line with something on it, if it is there already."""


class PipedLines:
    """Lines of standard input, where that is no terminal."""

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self._lines: deque[str] = deque()
        self._rest = b""
        self._ended = False

    def read(self, goes_on: bool) -> str:
        """See `Lines`."""
        while not self._lines:
            self._take_in()
        return self._lines.popleft()

    def peek(self) -> str | None:
        """See `Lines`."""
        while not (found := next(filter(str.strip, self._lines), None)):
            if self._ended or not _readable(self._descriptor):
                return None
            with contextlib.suppress(EOFError):
                self._take_in()
        return found

    async def answer(self) -> str | None:
        """The next line, for a cell that asks for one; None at the end."""
        while not self._lines:
            await _until_readable(self._descriptor)
            try:
                self._take_in()
            except EOFError:
                return None
        return self._lines.popleft()

    def _take_in(self) -> None:
        """Read a piece, which may hold many lines or no whole one."""
        if self._ended:
            raise EOFError
        data = os.read(self._descriptor, _PIECE)
        *lines, self._rest = (self._rest + data).split(b"\n")
        if not data:
            self._ended = True
            lines, self._rest = ([self._rest] if self._rest else []), b""
        self._lines += (line.decode("utf-8", "replace").rstrip("\r") for line in lines)


class TypedLines:
    """Lines that a person types at a terminal, or pastes.

    Attributes:
        place: Shown before each prompt.
    """

    def __init__(self, descriptor: int = 0, *, complete: Complete | None = None) -> None:
        """Args:
        complete: Asked when Tab is pressed.
        """
        self._descriptor = descriptor
        self._pasted: deque[str] = deque()
        self._begun = ""
        self.place = ""
        self._editor = _editor(_Completer(complete) if complete is not None else None)

    def read(self, goes_on: bool) -> str:
        """See `Lines`."""
        prompt = self.place + ("... " if goes_on else ">>> ")
        if self._pasted:
            line = self._pasted.popleft()
            click.echo(f"{prompt}{one_line(line)}")
            return line
        line = self._edited(prompt)
        first, *more = line.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._pasted += more
        if not self._pasted:
            self._take_in(0)
        return first

    def peek(self) -> str | None:
        """See `Lines`."""
        while not (found := next(filter(str.strip, self._pasted), None)):
            if not self._take_in(_BURST_S):
                return self._begun if self._begun.strip() else None
        return found

    async def answer(self) -> str | None:
        """A line that is typed while a cell runs, without the line editor; None for Ctrl-D."""
        if self._pasted:
            return self._pasted.popleft()
        await _until_readable(self._descriptor)
        data = os.read(self._descriptor, _PIECE)
        first, *more = data.decode("utf-8", "replace").removesuffix("\n").split("\n")
        self._pasted += more
        return first if data else None

    def _edited(self, prompt: str) -> str:
        begun, self._begun = self._begun, ""
        if begun == _END:
            raise EOFError
        if self._editor is not None and begun:
            self._editor.set_startup_hook(lambda: self._editor.insert_text(begun))
        try:
            return input(prompt)
        except KeyboardInterrupt:
            click.echo(err=True)
            raise Dropped from None
        except EOFError:
            click.echo(err=True)
            raise
        finally:
            if self._editor is not None:
                self._editor.set_startup_hook(None)

    def _take_in(self, wait_s: float) -> bool:
        """Take what has come after the line that was read, if anything has."""
        if not _readable(self._descriptor, wait_s):
            return False
        data = os.read(self._descriptor, _PIECE).decode("utf-8", "replace")
        for mark in _PASTE_MARKS:
            data = data.replace(mark, "")
        *lines, self._begun = (self._begun + data).replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._pasted += lines
        return bool(data)


class _Completer:
    """What readline asks for: one replacement after the other, until None."""

    def __init__(self, complete: Complete) -> None:
        self._complete = complete
        self._found: list[str] = []

    def __call__(self, text: str, state: int) -> str | None:
        import readline

        if state == 0:
            line = readline.get_line_buffer()[: readline.get_endidx()]
            if not line.strip():
                readline.insert_text("    ")
                readline.redisplay()
                return ""
            self._found = self._complete(line, readline.get_begidx())
        return self._found[state] if state < len(self._found) else None


def _editor(complete: _Completer | None) -> Any:
    """The line editor, which `input` uses once it is there; None where Python has none."""
    try:
        import readline
    except ImportError:
        return None
    if "libedit" in (readline.__doc__ or ""):
        readline.parse_and_bind("bind ^I rl_complete")
    else:
        readline.parse_and_bind("tab: complete")
        readline.parse_and_bind("set enable-bracketed-paste on")
    readline.set_completer_delims(" \t\n`~!@#$%^&*()-=+[{]}\\|;:'\",<>?")
    readline.set_completer(complete)
    return readline


def _readable(descriptor: int, wait_s: float = _BURST_S) -> bool:
    return bool(select.select([descriptor], [], [], wait_s)[0])


async def _until_readable(descriptor: int) -> None:
    """Wait without holding the loop. A file on disk always is readable, and cannot be waited for."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except PermissionError:
        return
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
