"""Every value that a name took in the course of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from groundbox.trace.record import schema
from groundbox.trace.record.schema import V
from groundbox.trace.record.value import ref_of
from groundbox.trace.run.state import State

if TYPE_CHECKING:
    from groundbox.trace.record.reading import Trace

ARGUMENT, ASSIGNED, CHANGED, DELETED = "argument", "assigned", "changed", "deleted"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Value:
    """Value of a name.

    Attributes:
        step: The record that tells it.
        line: The line that gave it.
        how: `argument`, `assigned`, `changed` (the object that the name holds was changed), `deleted`.
        text: The value as text at that moment; empty when deleted.
    """

    step: int
    frame: int
    function: str
    line: int
    name: str
    how: str
    value: V
    text: str

    def __str__(self) -> str:
        said = {DELETED: f"del {self.name}", CHANGED: f"{self.name} is now {self.text}"}
        return f"line {self.line}, {self.function}: {said.get(self.how, f'{self.name} = {self.text}')}"


class History(tuple[Value, ...]):
    """Values in the order in which they came; `str` of it is a line for each."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n".join(map(str, self))


def history(trace: Trace, name: str, frame: int | None = None, *, max_chars: int = 200) -> History:
    """Every value that `name` took: as a parameter, by assignment, and by changes of the object that it holds.

    Changes deeper inside that object are not told; ask for the name that holds them.

    Args:
        frame: Only this activation's name; None for the names of all.
        max_chars: Of each value's text.
    """
    return History(_values(trace, name, frame, max_chars))


def _values(trace: Trace, name: str, frame: int | None, max_chars: int) -> Iterator[Value]:
    state = State()
    # By frame, as long as it is under way: the label of the object that the name holds there.
    held: dict[int, int | None] = {}
    for t, record in enumerate(trace.records):
        # Before the record is applied: a `set` is told on the line that made it, and the frame is there still.
        before = state.frames.get(getattr(record, "f", 0))
        line = before.line if before is not None else getattr(record, "n", 0)
        state.apply(record)
        if isinstance(record, schema.Call) and name in record.args and frame in (None, record.f):
            held[record.f] = ref_of(record.args[name])
            yield _value(state, t, record.f, record.n, name, ARGUMENT, record.args[name], max_chars)
        elif isinstance(record, schema.Set) and record.name == name and frame in (None, record.f):
            held[record.f] = ref_of(record.v)
            yield _value(state, t, record.f, line, name, ASSIGNED, record.v, max_chars)
        elif isinstance(record, schema.Del) and record.name == name and frame in (None, record.f):
            held.pop(record.f, None)
            yield _value(state, t, record.f, line, name, DELETED, None, max_chars)
        elif isinstance(record, schema.Mutate):
            yield from _changes(state, t, record.id, held, name, max_chars)
        elif isinstance(record, (schema.Return, schema.Unwind)):
            held.pop(record.f, None)


def _changes(
    state: State, t: int, label: int, held: dict[int, int | None], name: str, max_chars: int
) -> Iterator[Value]:
    """A change is told for the innermost frame whose name holds the object."""
    # In the order in which the names took it: the innermost call is the last one.
    frames = [number for number, holds in held.items() if holds == label]
    if frames:
        line = state.frames[frames[-1]].line
        yield _value(state, t, frames[-1], line, name, CHANGED, {"ref": label}, max_chars)


def _value(state: State, t: int, frame: int, line: int, name: str, how: str, value: V, max_chars: int) -> Value:
    return Value(
        step=t,
        frame=frame,
        function=state.frames[frame].name,
        line=line,
        name=name,
        how=how,
        value=value,
        text="" if how == DELETED else state.text(value, max_chars),
    )
