"""The plain core's way out: a buffer in which a count of whole bytes stands before the data; and printed text.

Bytes 0 to 7 are the little-endian count, data begins at offset 8. The count is raised only when whole records stand
behind it, so whoever reads the buffer of a killed process finds records, and no part of one.

The records of one event are gathered and written together. If they would lead beyond `max_events` or the end of the
buffer (less what `lost` and `end` need), none of them is written but a `lost` record, and the memory is closed.
"""

from __future__ import annotations

from typing import Any

from ..classes import json_text
from ..own import protect

protect(globals())

HEAD_BYTES = 8
KEPT_BYTES = 512
"""Kept free at the end for the last `lost` and `end`."""
_LONG_TEXT, _TEXT_HEAD, _TEXT_TAIL = 2_000, 1_500, 300
_COMPACT_AT = 64_000


class Memory:
    """Writes records to a buffer."""

    def __init__(self, buffer: Any, *, max_events: int) -> None:
        self._view = memoryview(buffer).cast("B")
        self._committed = self._view[:HEAD_BYTES].cast("Q")
        self._max_bytes = len(self._view) - HEAD_BYTES
        self._room = self._max_bytes - KEPT_BYTES
        self._max_events = max_events
        self._used = 0
        self._count = 0
        self._gathered: list[str] = []
        self._gathered_bytes = 0
        self.closed = False
        self._committed[0] = 0

    def add(self, record: str) -> None:
        """Gather a record of the present event, its newline included; closes if there is no room for the event."""
        # The records of an event are committed together, or not at all: one alone might refer to an object that was not
        # told.
        self._gathered.append(record)
        self._gathered_bytes += len(record)
        if self._used + self._gathered_bytes > self._room or self._count + len(self._gathered) > self._max_events:
            self.commit()

    def commit(self) -> None:
        """Write what was gathered; if there is no room for it, a `lost` record in its place, and close."""
        count, data = len(self._gathered), "".join(self._gathered).encode("ascii")
        if not count:
            return
        self._gathered.clear()
        self._gathered_bytes = 0
        fits = self._used + len(data) <= self._room
        if not fits or self._count + count > self._max_events:
            reached = f"max_events={self._max_events}" if fits else f"max_bytes={self._max_bytes}"
            why = f"the trace reached {reached} in the core plain, which folds nothing"
            self._write(f'{{"k":"lost","why":{json_text(why)}}}\n'.encode("ascii"), 1)
            self.closed = True
        else:
            self._write(data, count)

    def lost(self, why: str) -> None:
        """Write a `lost` record after what was gathered."""
        self._last(f'{{"k":"lost","why":{json_text(why[:200])}}}\n')

    def end(self) -> None:
        """Write `end` and close."""
        self._last('{"k":"end"}\n')
        self.closed = True

    def abandon(self) -> None:
        """Never write again."""
        self.closed = True
        self._gathered.clear()

    def release(self) -> None:
        """Give the buffer back."""
        self.closed = True
        self._committed.release()
        self._view.release()

    def _last(self, record: str) -> None:
        """Write a record into the room that is kept free, after what was gathered."""
        self.commit()
        self._write(record.encode("ascii"), 1)

    def _write(self, data: bytes, count: int) -> None:
        # The host says itself that a trace without `end` is not complete.
        if self.closed or self._used + len(data) > self._max_bytes:
            return
        start = HEAD_BYTES + self._used
        self._view[start : start + len(data)] = data
        self._used += len(data)
        # After the bytes that it counts: of a process that is killed in between, the host reads whole records.
        self._committed[0] = self._used
        self._count += count


class Printed:
    """Text written since the last record, on its way into an `out` record.

    Writes to one stream are put together until the next record, or until something is written to the other stream. Of
    over 2,000 characters only what the record shows is kept.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._stream = 0
        self._texts: list[str] = []
        self._kept = 0
        self._length = 0
        self._head = ""

    def add(self, stream: int, text: str) -> None:
        """Some text was written."""
        if stream != self._stream:
            if self._texts:
                # What was printed before goes out before, so that the order of both streams is kept.
                self.flush()
                self._memory.commit()
            self._stream = stream
        self._texts.append(text)
        self._kept += len(text)
        self._length += len(text)
        if self._kept > _COMPACT_AT:
            written = "".join(self._texts)
            # A program that prints without end costs no memory: beginning and end are all that a record shows.
            self._head = self._head or written[:_TEXT_HEAD]
            self._texts = [written[-_TEXT_TAIL:]]
            self._kept = _TEXT_TAIL

    def flush(self) -> None:
        """Gather the `out` record, if there is one to come."""
        text, length, head = "".join(self._texts), self._length, self._head
        self._texts, self._kept, self._length, self._head = [], 0, 0, ""
        if length == 0:
            return
        shown = f'"text":{json_text(text)}'
        if length > _LONG_TEXT:
            tail, elided = json_text(text[-_TEXT_TAIL:]), length - _TEXT_HEAD - _TEXT_TAIL
            shown = f'"text":{json_text(head or text[:_TEXT_HEAD])},"tail":{tail},"elided":{elided}'
        self._memory.add(f'{{"k":"out","s":{self._stream},{shown}}}\n')
