"""Text of a guest, made safe for a terminal.

A terminal obeys what it is sent: sequences that move the cursor, rename the window, answer as if typed, or
turn the direction of writing. On a terminal all of that is taken out and the rest shown.
A pipe or a file gets the text as it is, because programs read it.
"""

from __future__ import annotations

import re
import sys
from typing import Final, TextIO

# OSC, DCS and their like. The string stops at another opening, so that the search stays linear.
_OPENING: Final = r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])"
_STRING: Final = r"[^\x07\x1b\x90\x98\x9c-\x9f]*"
_SEQUENCE: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    rf"|{_OPENING}{_STRING}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-OQ-WYZ\\`-~]"
)
_UNFINISHED: Final = re.compile(rf"(?:(?:\x1b\[|\x9b)[0-?]*[ -/]*|{_OPENING}{_STRING}\x1b?|\x1b[ -/]*)\Z")
_CONTROL: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufff9-\ufffb\ud800-\udfff]"
)
_LONGEST_UNFINISHED: Final = 4096


class Plain:
    """Takes a stream of text in pieces and gives it back without control sequences.

    A sequence that a piece ends in the middle of waits for the next piece. Whatever the pieces,
    no escape or other control character but newline and tab comes out.
    """

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """What can be shown now."""
        text = _SEQUENCE.sub("", self._held + piece)
        unfinished = _UNFINISHED.search(text)
        start = unfinished.start() if unfinished else len(text) - text.endswith("\r")
        if len(text) - start > _LONGEST_UNFINISHED:
            start = len(text)
        text, self._held = text[:start], text[start:]
        return _without_controls(text)

    def end(self) -> str:
        """What was still held back, as far as it can be shown."""
        text, self._held = self._held, ""
        return _without_controls(text)


def plain(text: str) -> str:
    """A whole text without control sequences."""
    return _without_controls(_SEQUENCE.sub("", text))


def one_line(text: str) -> str:
    """A file's name, or another text that must not pretend to be a line of ours; for pipes as well."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text).replace("\n", " ").replace("\t", " ")


def _without_controls(text: str) -> str:
    return _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


class Screen:
    """One of our own streams, to which text of the guest and of groundbox goes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._plain = Plain() if stream.isatty() else None
        self._at_line_start = True
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")

    def guest(self, text: str) -> None:
        """A piece of what the guest wrote, at once."""
        self._write(self._plain.feed(text) if self._plain else text)

    def line_was_typed(self) -> None:
        """A person has ended the line that the guest had begun."""
        self._at_line_start = True

    def end_guest(self) -> None:
        """The guest writes no more: show what was held back, and end its last line."""
        if self._plain:
            self._write(self._plain.end())
        if not self._at_line_start:
            self._write("\n")

    def say(self, text: str) -> None:
        """A text on lines of its own."""
        self._write((plain(text) if self._plain else text) + "\n")

    def _write(self, text: str) -> None:
        if text:
            self._at_line_start = text.endswith("\n")
            self._stream.write(text)
            self._stream.flush()


def screens() -> tuple[Screen, Screen]:
    """Of stdout and stderr."""
    return Screen(sys.stdout), Screen(sys.stderr)


def bytes_text(count: int) -> str:
    """A number of bytes for people: `512 B`, `1.5 KiB`, `40 MiB`."""
    size, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.0f} {unit}" if unit == "B" or size >= 10 else f"{size:.1f} {unit}"


def seconds_text(seconds: float) -> str:
    """A time for people: `1.2 ms`, `45 ms`, `3.1 s`."""
    if seconds >= 0.9995:
        return f"{seconds:.1f} s"
    milliseconds = seconds * 1000
    return f"{milliseconds:.1f} ms" if milliseconds < 10 else f"{milliseconds:.0f} ms"
