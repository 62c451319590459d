"""Where an exception comes up."""

from __future__ import annotations

from typing import Any

from groundbox.trace import schema
from groundbox.trace.proof.claims import Raised
from groundbox.trace.proof.moments.hit import Hit
from groundbox.trace.proof.moments.search import Search
from groundbox.trace.proof.records.scene import is_called
from groundbox.trace.proof.values.likeness import same


def raised(search: Search, claim: Raised, low: int, now: int, after: int) -> Hit | None:
    """The exception comes up."""
    for t in search.ledger.raises:
        record = search.ledger.records[t]
        assert isinstance(record, schema.Raise)
        if t < low or (claim.type is not None and record.type.rpartition(".")[2] != claim.type):
            continue
        if claim.message is not None and not _is_message(search, claim.message, record, t):
            continue
        if claim.by is not None and not _by(search, record.f, claim.by):
            continue
        if claim.handled and not any(
            step.handled is not None and step.step >= 0
            for step in search.ledger.course.steps
            if step.raised is not None
        ):
            continue
        return Hit(t, t)
    return None


def _is_message(search: Search, said: Any, record: schema.Raise, t: int) -> bool:
    given = [search.ledger.memory.read(value, t) for value in record.args[:1]]
    return any(same(said, value) or said == str(value) for value in given)


def _by(search: Search, frame: int, name: str) -> bool:
    activation = search.ledger.structure.activations.get(frame)
    return activation is not None and is_called(activation, name)
