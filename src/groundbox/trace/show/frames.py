"""A frame for each event, between tokens of its own, with the names of the frame as JSON.

A frame says what is about to happen and what the names are then; a model that reads a frame writes the next.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from groundbox.trace.record import schema
from groundbox.trace.run.folding import Folding, hidden_spans
from groundbox.trace.show.telling import Telling

if TYPE_CHECKING:
    from groundbox.trace.record.reading import Trace

CALL: Final = "<|trace_call|>"
LINE: Final = "<|trace_line|>"
RETURN: Final = "<|trace_return|>"
YIELD: Final = "<|trace_yield|>"
RAISE: Final = "<|trace_raise|>"
SKIP: Final = "<|trace_skip|>"
CODE: Final = "<|trace_code|>"
VALUE: Final = "<|trace_value|>"
END: Final = "<|trace_end|>"
TOKENS: Final = (CALL, LINE, RETURN, YIELD, RAISE, SKIP, CODE, VALUE, END)
"""To be added to a tokenizer as special tokens."""
SAME: Final = ".."
"""What stands for a value that has not changed since the frame's last token."""


def frames(trace: Trace, *, folding: Folding | None = None, max_chars: int = 120) -> str:
    """Frames, one in each line:

    ```text
    <|trace_call|>{"n":"2"}<|trace_code|>def square_sum(n):
    <|trace_line|>{"n":".."}<|trace_code|>total = 0
    <|trace_return|>{"n":"..","total":"5"}<|trace_code|>return total<|trace_value|>5
    <|trace_end|>
    ```
    """
    return _Framing(trace, folding, max_chars).text()


class _Framing:
    def __init__(self, trace: Trace, folding: Folding | None, max_chars: int) -> None:
        self._telling = Telling(trace, folding, max_chars)
        self._shown: dict[int, dict[str, str]] = {}
        self._hidden = _hidden_records(trace, folding)
        self._lines: list[str] = []

    def text(self) -> str:
        state = self._telling.state
        for t, record in enumerate(self._telling.trace.records):
            if t in self._hidden:
                if self._hidden[t]:
                    self._lines.append(f"{SKIP}{self._hidden[t]}")
                state.apply(record)
                continue
            state.apply(record)
            self._tell(record)
        self._lines.append(END)
        return "".join(f"{line}\n" for line in self._lines)

    def _tell(self, record: schema.Record) -> None:
        value = self._telling.value
        if isinstance(record, schema.Call):
            self._frame(CALL, record.f, record.n)
        elif isinstance(record, schema.Line):
            self._frame(LINE, record.f, record.n)
        elif isinstance(record, schema.Return):
            self._frame(RETURN, record.f, record.n, value(record.v))
        elif isinstance(record, schema.Yield):
            self._frame(YIELD, record.f, record.n, value(record.v))
        elif isinstance(record, schema.Raise):
            self._frame(RAISE, record.f, record.n, f"{record.type}({', '.join(map(value, record.args))})")

    def _frame(self, token: str, frame: int, line: int, value: str | None = None) -> None:
        names = self._telling.names(frame)
        before = self._shown.get(frame, {})
        said = {name: SAME if before.get(name) == text else text for name, text in names.items()}
        self._shown[frame] = names
        source = self._telling.source(line)
        self._lines.append(f"{token}{_json(said)}{CODE}{source}" + ("" if value is None else f"{VALUE}{value}"))


def _hidden_records(trace: Trace, folding: Folding | None) -> Mapping[int, str]:
    """Records that are left out; the first of each gap with the words that stand in its place."""
    hidden: dict[int, str] = {}
    for first, last, gap in hidden_spans(trace.structure, folding):
        hidden.update(dict.fromkeys(range(first, last + 1), ""))
        hidden[first] = gap.text
    return hidden


def _json(names: Mapping[str, str]) -> str:
    return json.dumps(names, ensure_ascii=False, separators=(",", ":"))
