"""The records' way out: a buffer in which a count of whole bytes stands before the data.

Bytes 0 to 7 are the little-endian count, data begins at offset 8. The count is raised only when whole records stand
behind it, so whoever reads the buffer of a killed process finds records, and no part of one.

The records of one event are gathered and written together; they count against `max_events` one by one. Records of
tests and iterations (`more`) are not in `count`, which says where folding begins. If they
would lead beyond `max_events` or the end of the buffer (less what `lost` and `end` need), none of them is written but a
`lost` record, and the memory is closed.
"""

from __future__ import annotations

from typing import Any

from .classes import json_text
from .own import protect

protect(globals())

HEAD_BYTES = 8
KEPT_BYTES = 512
"""Kept free at the end for the last `lost` and `end`."""


class Full(Exception):
    """No more records can be taken."""


class Memory:
    """Writes records to a buffer."""

    def __init__(self, buffer: Any, *, max_events: int) -> None:
        self._view = memoryview(buffer).cast("B")
        self._committed = self._view[:HEAD_BYTES].cast("Q")
        self._max_bytes = len(self._view) - HEAD_BYTES
        self._room = self._max_bytes - KEPT_BYTES
        self._max_events = max_events
        self._used = 0
        self._gathered = 0
        self.parts: list[str] = []
        """Records of the present event, newlines included. Small ones may be appended here; see `add`."""
        self.count = 0
        """Records that were written, but those of tests and iterations."""
        self.more = 0
        """How many of `parts` tell tests and iterations."""
        self._more_written = 0
        self.closed = False
        self._committed[0] = 0

    def add(self, record: str) -> None:
        """Gather a record that may be large, or one of many.

        Raises:
            Full: The event leads beyond what there is room for.
        """
        self.parts.append(record)
        self._gathered += len(record)
        if (
            self._used + self._gathered > self._room
            or self.count + self._more_written + len(self.parts) > self._max_events
        ):
            self.commit()

    def commit(self) -> None:
        """Write what was gathered.

        Raises:
            Full: There is no room for it; a `lost` record was written in its place.
        """
        parts = self.parts
        if not parts:
            return
        data = "".join(parts).encode("ascii")
        start = HEAD_BYTES + self._used
        used = self._used + len(data)
        written = self.count + self._more_written + len(parts)
        if used > self._room or written > self._max_events or self.closed:
            self._close(f"max_events={self._max_events}" if used <= self._room else f"max_bytes={self._max_bytes}")
        self._view[start : start + len(data)] = data
        self._committed[0] = self._used = used
        self.count += len(parts) - self.more
        self._more_written += self.more
        self._gathered = self.more = 0
        parts.clear()

    def lost(self, why: str) -> None:
        """Write a `lost` record after what was gathered."""
        try:
            self.commit()
        except Full:
            return
        self._last(f'{{"k":"lost","why":{json_text(why[:200])}}}\n')

    def end(self) -> None:
        """Write `end` and close."""
        try:
            self.commit()
        except Full:
            return
        self._last('{"k":"end"}\n')
        self.closed = True

    def abandon(self) -> None:
        """Never write again: this is another process."""
        self.closed = True
        self.parts.clear()

    def release(self) -> None:
        """Give the buffer back."""
        self.closed = True
        self._committed.release()
        self._view.release()

    def _close(self, reached: str) -> None:
        self.parts.clear()
        self._last(f'{{"k":"lost","why":{json_text(f"the trace reached {reached}")}}}\n')
        self.closed = True
        raise Full

    def _last(self, record: str) -> None:
        """Write a record into the room that is kept free."""
        data = record.encode("ascii")
        if self.closed or self._used + len(data) > self._max_bytes:
            return
        start = HEAD_BYTES + self._used
        self._view[start : start + len(data)] = data
        self._used += len(data)
        self._committed[0] = self._used
        self.count += 1
