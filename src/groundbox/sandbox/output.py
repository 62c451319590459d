"""What a program printed: read as it comes, kept as head and tail, the rest within reach.

The program is never stopped for talking too much. What is over `output_bytes` is left out of the text, counted,
and kept in an unnamed temporary file, so that it can be paged through or searched, up to SPILL_BYTES for one
stream and SPILL_TOTAL_BYTES for all results of this process that are still held.
"""

from __future__ import annotations

import collections
import os
import re
import tempfile
import threading
from collections.abc import Iterator
from typing import IO, Any, Final

from groundbox.result_parts import Match

SPILL_BYTES: Final = 64 * 1024 * 1024
SPILL_TOTAL_BYTES: Final = 2 * 1024 * 1024 * 1024
_PAGE: Final = 1 << 20


class _Budget:
    """Bytes that are left for all results of this process.

    A result may be collected while its own thread is inside `take`. `give_back` therefore takes no lock: it appends to
    a deque, which the next `take` adds up.
    """

    def __init__(self, left_bytes: int) -> None:
        self._left = left_bytes
        self._lock = threading.Lock()
        self._returned: collections.deque[int] = collections.deque()

    def take(self, most_bytes: int) -> int:
        """Take as many of `most_bytes` as there are."""
        with self._lock:
            while self._returned:
                self._left += self._returned.popleft()
            taken = min(most_bytes, self._left)
            self._left -= taken
            return taken

    def give_back(self, taken_bytes: int) -> None:
        """Return bytes. A finaliser calls this."""
        if taken_bytes:
            self._returned.append(taken_bytes)


_BUDGET: Final = _Budget(SPILL_TOTAL_BYTES)


class Output:
    """One stream of one run.

    Attributes:
        total_bytes: All that the program wrote.
        dropped_bytes: What is missing from `text()`.
        lost_bytes: What is missing from `read()` as well, because it was over SPILL_BYTES or SPILL_TOTAL_BYTES.
    """

    def __init__(self, limit_bytes: int | None) -> None:
        self._limit = limit_bytes
        self._kept = bytearray()
        self._spill: IO[bytes] | None = None
        self._spilled_bytes = 0
        self._budget = _BUDGET
        self.total_bytes = 0
        self.lost_bytes = 0

    def __del__(self) -> None:
        self._budget.give_back(self._spilled_bytes)

    def __deepcopy__(self, memo: object) -> Output:
        """The same one: it belongs to a run that is over, and does not change any more."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if self._spill is None:
            spilled = tail = None
        else:
            spilled, tail = self.read(0, self._spilled_bytes), bytes(self._tail)
        return _restored, (self._limit, bytes(self._kept), tail, spilled, self.total_bytes, self.lost_bytes)

    def add(self, data: bytes) -> None:
        """Take what was just read."""
        self.total_bytes += len(data)
        if self._spill is None:
            self._kept += data
            if self._limit is None or len(self._kept) <= self._limit:
                return
            self._open_spill()
            data, self._kept = bytes(self._kept), bytearray(self._kept[: self._limit // 2])
            self._tail = bytearray()
        self._keep(data)
        assert self._limit is not None
        tail = self._limit - self._limit // 2
        self._tail += data[-tail:]
        del self._tail[:-tail]

    def _open_spill(self) -> None:
        """Open the temporary file; if the host's disk takes none, an empty one that takes no writes."""
        try:
            self._spill = tempfile.TemporaryFile(prefix="groundbox-output-", buffering=0)  # noqa: SIM115
        except OSError:
            self._spill = open(os.devnull, "rb", buffering=0)  # noqa: SIM115

    def _keep(self, data: bytes) -> None:
        assert self._spill is not None
        room = self._budget.take(min(len(data), SPILL_BYTES - self._spilled_bytes))
        try:
            written = self._spill.write(data[:room])
        except OSError:  # the host's disk is full: lost, counted, and no reason to fail the run
            written = 0
        self._budget.give_back(room - written)
        self._spilled_bytes += written
        self.lost_bytes += len(data) - written

    @property
    def dropped_bytes(self) -> int:
        """Bytes left out between head and tail."""
        if self._spill is None:
            return 0
        return self.total_bytes - len(self._kept) - len(self._tail)

    def text(self) -> str:
        """Head, a line that says how much is missing, and tail. What is not UTF-8 becomes U+FFFD."""
        if self._spill is None:
            return self._kept.decode("utf-8", "replace")
        dropped = self.dropped_bytes
        if dropped == 0:
            return bytes(self._kept + self._tail).decode("utf-8", "replace")
        head = self._kept.decode("utf-8", "replace")
        tail = self._tail.decode("utf-8", "replace")
        return f"{head}\n… {dropped} bytes left out …\n{tail}"

    def last(self, size: int) -> str:
        """The last `size` bytes of `text()`, or fewer, as text."""
        kept = self._kept if self._spill is None else self._tail
        return kept[-size:].decode("utf-8", "replace")

    def read(self, offset: int = 0, size: int = _PAGE) -> bytes:
        """`size` bytes from `offset` of all that was written."""
        if self._spill is None:
            return bytes(self._kept[offset : offset + size])
        return os.pread(self._spill.fileno(), size, offset)  # several threads may read at once

    def search(self, pattern: str, most: int = 100) -> list[Match]:
        """The first `most` lines that match the regular expression `pattern`."""
        expression = re.compile(pattern)
        found: list[Match] = []
        for number, line in enumerate(self._lines(), 1):
            if expression.search(line):
                found.append(Match(number, line))
                if len(found) == most:
                    break
        return found

    def _lines(self) -> Iterator[str]:
        rest, offset = b"", 0
        while data := self.read(offset):
            offset += len(data)
            *lines, rest = (rest + data).split(b"\n")
            yield from (line.decode("utf-8", "replace") for line in lines)
        if rest:
            yield rest.decode("utf-8", "replace")


def _restored(
    limit: int | None, kept: bytes, tail: bytes | None, spilled: bytes | None, total_bytes: int, lost_bytes: int
) -> Output:
    """What was pickled. Where there is no room for what was left out of the text, it is lost, and counted."""
    output = Output(limit)
    output._kept = bytearray(kept)
    output.total_bytes, output.lost_bytes = total_bytes, lost_bytes
    if spilled is not None and tail is not None:
        output._open_spill()
        output._tail = bytearray(tail)
        output._keep(spilled)
    return output
