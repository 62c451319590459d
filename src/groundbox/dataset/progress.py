"""Progress of a build for people: what is done, how fast, and how long it will take."""

from __future__ import annotations

import time
from typing import TextIO


class Progress:
    """Is told how far a stage is. This one says nothing."""

    def step(self, stage: str, done: int, total: int, *, resumed: bool) -> None:
        """So many of the stage's items are done; `resumed` ones were done by an earlier process."""

    def end(self) -> None:
        """Nothing more will come."""


class Line(Progress):
    """Progress as a line of a terminal, written over and over."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._stage = ""
        self._begun = 0.0
        self._resumed = 0
        self._width = 0

    def step(self, stage: str, done: int, total: int, *, resumed: bool) -> None:
        """See Progress.step."""
        if stage != self._stage:
            self.end()
            self._stage, self._begun, self._resumed = stage, time.monotonic(), 0
        # What an earlier process did took no time of this one, and would make the rate too high.
        if resumed:
            self._resumed = done
        self._show(line(stage, done, total, done - self._resumed, time.monotonic() - self._begun))

    def end(self) -> None:
        """See Progress.end."""
        if self._width:
            self._stream.write("\n")
            self._stream.flush()
        self._width = 0

    def _show(self, text: str) -> None:
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = len(text)


def line(stage: str, done: int, total: int, new: int, seconds: float) -> str:
    """`run: 120 of 4598 items (3 %), 12.1/s, 6:10 left`."""
    share = f" ({100 * done // total} %)" if total else ""
    text = f"{stage}: {done} of {total} items{share}"
    if new and seconds > 0:
        left = round((total - done) * seconds / new)
        text += f", {new / seconds:.1f}/s, {left // 60}:{left % 60:02d} left"
    return text
