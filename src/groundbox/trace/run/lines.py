"""Records given to the activations that they belong to, in one pass over a trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from groundbox.trace.record import schema
from groundbox.trace.record.schema import Record
from groundbox.trace.record.syntax import Syntax
from groundbox.trace.run.loops import OPEN, Grower
from groundbox.trace.run.structure import Activation

_FRAMELESS: Final = (schema.Object, schema.Mutate, schema.Out)


def grown(records: Sequence[Record], syntax: Syntax) -> dict[int, Activation]:
    """The activations of a trace by frame, each with its steps and loops."""
    growers: dict[int, Grower] = {}
    pending: list[int] = []
    for t, record in enumerate(records):
        if isinstance(record, _FRAMELESS):
            # Whose it is, the next record says: objects and changes stand before what they are told for.
            pending.append(t)
            continue
        # What stands before a call is what the caller's line did so far.
        owner = growers.get(record.p if isinstance(record, schema.Call | schema.Resume) else getattr(record, "f", 0))
        if owner is not None:
            owner.take_effects(pending)
        pending = []
        if isinstance(record, schema.Call):
            activation = _called(t, record, syntax, None if owner is None else owner.activation)
            growers[record.f] = Grower(activation, records)
            if owner is not None:
                owner.take_call(activation)
        elif owner is not None:
            owner.take(t, record)
    running = [grower for grower in growers.values() if grower.activation.outcome == OPEN]
    # The one that was called last is the one that the trace broke off in.
    if running:
        running[-1].take_effects(pending)
    for grower in running:
        grower.activation.last = len(records) - 1
        grower.finish(len(records), OPEN)
    return {frame: grower.activation for frame, grower in growers.items()}


def _called(t: int, record: schema.Call, syntax: Syntax, caller: Activation | None) -> Activation:
    return Activation(
        frame=record.f,
        parent=record.p,
        name=record.name,
        line=record.n,
        args=record.args,
        thread=record.thread,
        class_body=record.body,
        code=syntax.code(record.name, record.n, record.args),
        first=t,
        last=t,
        depth=1 if caller is None else caller.depth + 1,
    )
