"""Executions that can be asked for after their reply: their output by pages and by search, their files, their trace."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import sys
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from groundbox.execution import Execution
from groundbox.server.keeping import Ledger, size_of
from groundbox.server.keys import Key
from groundbox.server.refusals import Refused, not_found

_PAGE: Final = 1 << 20
_PAUSE_S: Final = 0.004
"""Between two pages of a search, in which its thread leaves the interpreter's lock to the event loop. Without it each
system call of the loop would wait for the lock, for up to a switch interval (5 ms)."""
_RECORD_BYTES: Final = 8 * 1024
_TRACE_RECORD_BYTES: Final = 512
_DISPLAY_BYTES: Final = 512
_TOOL_CALL_BYTES: Final = 1024
_FILE_BYTES: Final = 1024


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One execution that is kept.

    Attributes:
        key_id: Whose it is.
        sandbox_id: Where it ran, or "" for a sandbox of its own.
        source: The program.
        ended: Seconds since the epoch.
        size_bytes: Memory that it takes, about.
    """

    key_id: str
    sandbox_id: str
    source: str
    execution: Execution
    ended: float
    size_bytes: int


@dataclasses.dataclass(eq=False, slots=True)
class _OfKey:
    records: OrderedDict[str, Record] = dataclasses.field(default_factory=OrderedDict)
    size_bytes: int = 0


class Records:
    """Bounded by number, by memory and by age. The oldest go first, of the key that has the most of what there is too
    much of, so that a key's flood drives out none of another key's."""

    def __init__(self, *, most: int, most_bytes: int, kept_s: float, ledger: Ledger | None = None) -> None:
        self._most, self._most_bytes, self._kept_s = most, most_bytes, kept_s
        self._ledger = ledger or Ledger(lambda: most_bytes)
        self._ledger.forget_by(self._forget_oldest)
        self._records: dict[str, Record] = {}
        self._of_keys: dict[str, _OfKey] = {}
        self._bytes = 0

    def add(self, key: Key, execution: Execution, sandbox_id: str, source: str) -> Record:
        """Keep one, unless it is larger than what one key may keep."""
        record = Record(
            key_id=key.id,
            sandbox_id=sandbox_id,
            source=source,
            execution=execution,
            ended=time.time(),
            size_bytes=_size(execution) + sys.getsizeof(source) - sys.getsizeof(""),
        )
        try:
            self._ledger.take(key.id, record.size_bytes, "result")
        except Refused:
            return record
        self._records[execution.execution_id] = record
        of_key = self._of_keys.setdefault(key.id, _OfKey())
        of_key.records[execution.execution_id] = record
        of_key.size_bytes += record.size_bytes
        self._bytes += record.size_bytes
        self._drop_old()
        while len(self._records) > self._most:
            self._drop_oldest(max(self._of_keys, key=lambda each: len(self._of_keys[each].records)))
        while self._records and self._bytes > self._most_bytes:
            self._drop_oldest(max(self._of_keys, key=lambda each: self._of_keys[each].size_bytes))
        return record

    def get(self, key: Key, execution_id: str) -> Record:
        """The record of this id, if it is this key's.

        Raises:
            Refused: 404 else.
        """
        self._drop_old()
        record = self._records.get(execution_id)
        if record is None or record.key_id != key.id:
            raise not_found("execution, or it is kept no longer")
        return record

    def list(self, key: Key, sandbox_id: str | None = None) -> list[Record]:
        """Those of a key, or of one of its sandboxes, the newest first."""
        self._drop_old()
        of_key = self._of_keys.get(key.id)
        if of_key is None:
            return []
        return [each for each in reversed(of_key.records.values()) if sandbox_id in (None, each.sandbox_id)]

    def _drop_old(self) -> None:
        before = time.time() - self._kept_s
        while self._records and (record := next(iter(self._records.values()))).ended < before:
            self._drop_oldest(record.key_id)

    def _drop_oldest(self, key_id: str) -> None:
        of_key = self._of_keys[key_id]
        execution_id, record = of_key.records.popitem(last=False)
        of_key.size_bytes -= record.size_bytes
        if not of_key.records:
            del self._of_keys[key_id]
        del self._records[execution_id]
        self._bytes -= record.size_bytes
        self._ledger.give_back(key_id, record.size_bytes)

    def _forget_oldest(self, key_id: str) -> bool:
        if key_id not in self._of_keys:
            return False
        self._drop_oldest(key_id)
        return True


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """A line with the searched text; `number` counts from 1, `offset` is that of its first byte."""

    number: int
    offset: int
    line: str


async def search(
    execution: Execution, stream: str, text: str, *, most: int = 100, line_chars: int = 2000
) -> list[Found]:
    """Return lines of a stream that contain a text; case matters. There are no patterns: one can take for ever.

    The time grows with the bytes of the stream, which are bounded, and with nothing else.
    """

    def look() -> list[Found]:
        return list(itertools.islice(_matches(execution.outputs[stream], text.encode(), line_chars), most))

    return await asyncio.to_thread(look)


def _matches(output: Any, text: bytes, line_chars: int) -> Iterator[Found]:
    """Yield lines with `text`. A page is looked through by `bytes.find`: no step is done for each line or each byte."""
    if not text or b"\n" in text:
        return
    line_bytes = 4 * line_chars
    number, begun, head, has_match = 0, 0, b"", False  # of the line that has not ended: lines before it, and its start
    overlap, offset = b"", 0
    while data := output.read(offset, _PAGE):
        page, base = overlap + data, offset - len(overlap)
        at, look_from = len(overlap), 0  # what is before `at` was looked through, but for a match across two pages
        while True:
            if has_match:
                end = page.find(b"\n", at)
                head += page[at : end if end >= 0 else None][: max(0, line_bytes - len(head))]
                if end < 0:
                    break
                yield Found(number + 1, begun, head.decode("utf-8", "replace")[:line_chars])
                number, begun, head, has_match = number + 1, base + end + 1, b"", False
                at = look_from = end + 1
            match = page.find(text, look_from)
            end = page.rfind(b"\n", at, match if match >= 0 else None)
            if end >= 0:
                number += page.count(b"\n", at, end + 1)
                begun, head, at = base + end + 1, b"", end + 1
            if match < 0:
                head += page[at:][: max(0, line_bytes - len(head))]
                break
            has_match = True
        offset += len(data)
        time.sleep(_PAUSE_S)
        overlap = page[max(0, len(page) - len(text) + 1) :]
    if has_match:
        yield Found(number + 1, begun, head.decode("utf-8", "replace")[:line_chars])


def _size(execution: Execution) -> int:
    """Memory of an execution, about: texts, displays, its whole output, its trace, and the bytes of its files."""
    size = _RECORD_BYTES + sys.getsizeof(execution.stdout) + sys.getsizeof(execution.stderr)
    for display in execution.displays:
        size += _DISPLAY_BYTES + size_of(display.data) + len(display.preview or b"")
    if execution.value is not None:
        size += size_of({kind: execution.value[kind] for kind in execution.value})
    if execution.tool_calls is not None:
        size += _TOOL_CALL_BYTES * len(execution.tool_calls.calls)
    outputs: Mapping[str, Any] = execution.outputs
    for handle in outputs.values():
        size += handle.total_bytes - handle.lost_bytes
    if execution.trace is not None:
        size += _TRACE_RECORD_BYTES * len(execution.trace.records)
    for path, each in execution.artifacts.items():
        size += _FILE_BYTES + 2 * sys.getsizeof(path) + each.size_bytes + len(each.preview or b"")
    return size
