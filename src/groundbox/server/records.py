"""Executions that can be asked for after their reply: their output by pages and by search, their files, their trace."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from groundbox.execution import Execution
from groundbox.server.keys import Key
from groundbox.server.refusals import not_found

_PAGE: Final = 1 << 20
_RECORD_BYTES: Final = 8 * 1024


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


class Records:
    """Bounded by number, by memory and by age; the oldest go first."""

    def __init__(self, *, most: int, most_bytes: int, kept_s: float) -> None:
        self._most, self._most_bytes, self._kept_s = most, most_bytes, kept_s
        self._records: OrderedDict[str, Record] = OrderedDict()
        self._bytes = 0

    def add(self, key: Key, execution: Execution, sandbox_id: str, source: str) -> Record:
        """Keep one."""
        record = Record(
            key_id=key.id,
            sandbox_id=sandbox_id,
            source=source,
            execution=execution,
            ended=time.time(),
            size_bytes=_size(execution) + len(source),
        )
        self._records[execution.execution_id] = record
        self._bytes += record.size_bytes
        while self._records and (len(self._records) > self._most or self._bytes > self._most_bytes):
            self._drop_oldest()
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
        return [
            each
            for each in reversed(self._records.values())
            if each.key_id == key.id and sandbox_id in (None, each.sandbox_id)
        ]

    def _drop_old(self) -> None:
        before = time.time() - self._kept_s
        while self._records and next(iter(self._records.values())).ended < before:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        _, record = self._records.popitem(last=False)
        self._bytes -= record.size_bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """A line with the searched text; `number` counts from 1, `offset` is that of its first byte."""

    number: int
    offset: int
    line: str


async def search(
    execution: Execution, stream: str, text: str, *, most: int = 100, line_chars: int = 2000
) -> list[Found]:
    """Lines of a stream that contain a text, upper and lower case told apart. No patterns: one can take for ever."""
    return await asyncio.to_thread(lambda: list(_matches(execution, stream, text.encode(), most, line_chars)))


def _matches(execution: Execution, stream: str, text: bytes, most: int, line_chars: int) -> Iterator[Found]:
    handle = execution.outputs[stream]
    rest, offset, number, found = b"", 0, 0, 0
    while data := handle.read(offset, _PAGE):
        begun = offset - len(rest)
        offset += len(data)
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            number += 1
            if text in line:
                yield Found(number, begun, line.decode("utf-8", "replace")[:line_chars])
                found += 1
                if found == most:
                    return
            begun += len(line) + 1
    if text in rest:
        yield Found(number + 1, offset - len(rest), rest.decode("utf-8", "replace")[:line_chars])


def _size(execution: Execution) -> int:
    """Memory of an execution, about: texts, displays, and the bytes of its files, which are kept with it."""
    size = _RECORD_BYTES + len(execution.stdout) + len(execution.stderr)
    for bundle in [*(each.data for each in execution.displays), execution.value or {}]:
        size += sum(len(bundle[kind]) if isinstance(bundle[kind], str) else 4096 for kind in bundle)
    return size + sum(each.size_bytes + len(each.preview or b"") for each in execution.artifacts.values())
