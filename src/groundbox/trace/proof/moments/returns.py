"""Where a call returns or yields a value."""

from __future__ import annotations

from groundbox.trace import schema
from groundbox.trace.proof.claims import Returned
from groundbox.trace.proof.moments.calls import is_given
from groundbox.trace.proof.moments.hit import Hit, Uncheckable
from groundbox.trace.proof.moments.search import Search
from groundbox.trace.proof.records.scene import is_called
from groundbox.trace.proof.values.bounds import Unknowable
from groundbox.trace.structure import Activation


def returned(search: Search, claim: Returned, low: int, now: int, after: int) -> Hit | None:
    """The call returns the value, or gives it out."""
    if claim.yields:
        found = _yielded(search, claim, low, after)
        if found is not None:
            return found
    says = search.sayer(claim.value, about=claim.about)
    for activation in search.ledger.course.returns:
        if activation.last < low or not _may_return(search, claim, activation):
            continue
        if activation.last <= after and activation is not search.ledger.entry:  # the result may be told twice
            continue
        search.ledger.spend()
        try:
            if says(search.ledger.memory.read(activation.value, activation.last), activation.last - 1):
                return Hit(activation.last, activation.last)
        except Unknowable:
            raise Uncheckable("the value cannot be worked out") from None
    return None if claim.yields else _yielded(search, claim, low, after)


def _may_return(search: Search, claim: Returned, activation: Activation) -> bool:
    if claim.function is None:
        return activation.name != "<module>" and not activation.class_body
    return is_called(activation, claim.function) and is_given(search, claim, activation)


def _yielded(search: Search, claim: Returned, low: int, after: int) -> Hit | None:
    says = search.sayer(claim.value, about=claim.about)
    for t in search.ledger.yields:
        record = search.ledger.records[t]
        assert isinstance(record, schema.Yield)
        activation = search.ledger.structure.activations.get(record.f)
        if (
            t < low
            or t <= after
            or activation is None
            or (claim.function is not None and not is_called(activation, claim.function))
        ):
            continue
        search.ledger.spend()
        try:
            if says(search.ledger.memory.read(record.v, t), t):
                return Hit(t, t)
        except Unknowable:
            continue
    return None
