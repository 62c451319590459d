"""Printed text on its way into `out` records.

Writes to one stream are put together until the next record, or until something is written to the other stream. Of
over 2,000 characters only what the record shows is kept.
"""

from __future__ import annotations

from .classes import json_text
from .memory import Memory
from .own import protect

protect(globals())

_LONG, _HEAD, _TAIL = 2_000, 1_500, 300
_COMPACT_AT = 64_000


class Printed:
    """Text written since the last record."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._stream = 0
        self.texts: list[str] = []
        """Empty if there is nothing to be told."""
        self._kept = 0
        self._length = 0
        self._head = ""

    def add(self, stream: int, text: str) -> None:
        """Some text was written."""
        if stream != self._stream:
            if self.texts:
                self.flush()
                self._memory.commit()
            self._stream = stream
        self.texts.append(text)
        self._kept += len(text)
        self._length += len(text)
        if self._kept > _COMPACT_AT:
            self._compact()

    def flush(self) -> None:
        """Gather the `out` record, if there is one to come."""
        if not self.texts:
            return
        text, length = "".join(self.texts), self._length
        head = self._head or text[:_HEAD]
        self.texts, self._kept, self._length, self._head = [], 0, 0, ""
        if length == 0:
            return
        shown = f'"text":{json_text(text)}'
        if length > _LONG:
            elided = length - _HEAD - _TAIL
            shown = f'"text":{json_text(head)},"tail":{json_text(text[-_TAIL:])},"elided":{elided}'
        self._memory.add(f'{{"k":"out","s":{self._stream},{shown}}}\n')

    def _compact(self) -> None:
        text = "".join(self.texts)
        self._head = self._head or text[:_HEAD]
        self.texts = [text[-_TAIL:]]
        self._kept = _TAIL
