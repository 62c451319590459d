"""Where a call returns or yields a value, and where a name keeps what one returned."""

from __future__ import annotations

import ast
import bisect
import itertools
from collections.abc import Iterator
from typing import Any

from groundbox.trace import schema
from groundbox.trace.proof.claims import How, Kept, Returned
from groundbox.trace.proof.moments.calls import is_given
from groundbox.trace.proof.moments.hit import Hit, Uncheckable
from groundbox.trace.proof.moments.search import Search, entries_from
from groundbox.trace.proof.records.histories import Entry
from groundbox.trace.proof.records.ledger import Ledger
from groundbox.trace.proof.records.memory import equal
from groundbox.trace.proof.records.outcomes import assigned
from groundbox.trace.proof.records.scene import is_called
from groundbox.trace.proof.values.bounds import Unknowable
from groundbox.trace.proof.values.functions import METHODS
from groundbox.trace.structure import Activation, Step


def returned(search: Search, claim: Returned, low: int, now: int, after: int) -> Hit | None:
    """The call returns the value, or gives it out."""
    if claim.call is not None and (method := _of_a_standard_type(search, claim.call, now)) is not None:
        return Hit(now, now) if search.sayer(claim.value, about=claim.about)(method[0], now) else None
    if claim.yields:
        found = _yielded(search, claim, low, after)
        if found is not None:
            return found
    says = search.sayer(claim.value, about=claim.about)
    for activation in _returns_from(search, claim, low):
        if activation.last <= after and activation is not search.ledger.entry:  # the result may be told twice
            continue
        search.ledger.spend()
        try:
            if says(given(search.ledger, claim, activation), activation.last - 1):
                return Hit(activation.last, activation.last)
        except Unknowable:
            raise Uncheckable("the value cannot be worked out") from None
    return None if claim.yields else _yielded(search, claim, low, after)


def _returns_from(search: Search, claim: Returned, low: int) -> Iterator[Activation]:
    """Calls that may be the one that a text speaks of, from `low` on."""
    ledger, name = search.ledger, claim.function
    rows = ledger.course.returns if name is None else ledger.calls.returns_of(name)
    later = itertools.islice(rows, bisect.bisect_left(rows, low, key=lambda each: each.last), None)
    return (each for each in later if (_is_a_call(each) if name is None else is_given(search, claim, each)))


def _of_a_standard_type(search: Search, call: ast.Call, now: int) -> tuple[Any] | None:
    """What a method of a builtin type gives, though the program has a function of that name; None for all others."""
    if not isinstance(call.func, ast.Attribute):
        return None
    try:
        owner = search.ledger.value(call.func.value, now)
        return (search.ledger.value(call, now),) if type(owner) in METHODS else None
    except Unknowable:
        return None


def given(ledger: Ledger, claim: Kept | Returned, activation: Activation) -> Any:
    """What a call gave to its caller: for one that makes an instance, that."""
    return ledger.memory.read(_given(claim, activation), activation.last)


def _given(claim: Kept | Returned, activation: Activation) -> Any:
    return next(iter(activation.args.values())) if makes(claim, activation) else activation.value


def makes(claim: Kept | Returned, activation: Activation) -> bool:
    """Whether a text calls the class: `Node(3)` gives the instance, whereas `Node.__init__(3)` returns None."""
    is_init = activation.name.endswith("__init__") and bool(activation.args)
    return is_init and claim.function is not None and not claim.function.endswith("__init__")


def kept(search: Search, claim: Kept, low: int, now: int, after: int) -> Hit | None:
    """The subject takes what such a call returned, or has it already."""
    entries = search.ledger.histories.of(claim.subject)
    for entry in entries_from(entries, low, after):
        if _is_kept(search, claim, entry):
            return Hit(entry.t, entry.t)
    has = [entry for entry in entries if entry.t <= now][-1:]
    return Hit(now, has[0].t) if claim.how is How.IS and has and _is_kept(search, claim, has[0]) else None


def _is_kept(search: Search, claim: Kept, entry: Entry) -> bool:
    """Whether the step that made a change called the function and has what it returned."""
    search.ledger.spend()
    step = search.ledger.course.step_of(entry.t)
    return step is not None and any(
        call.outcome == "return"
        and (is_called(call, claim.function) or _is_object_called(claim.function, call, step))
        and is_given(search, claim, call)
        and equal(search.ledger.memory.read(_given(claim, call), entry.t), entry.new)
        for call in step.calls
    )


def _is_object_called(name: str, call: Activation, step: Step) -> bool:
    """Whether the call is one of an object's `__call__`, and a step keeps what the object of that name gave."""
    values = [value for _, value in assigned(step.statement)] if step.statement is not None else []
    called = [value.func for value in values if isinstance(value, ast.Call)]
    last = [each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "") for each in called]
    return call.name.endswith(".__call__") and name.rpartition(".")[2] in last


def may_return(search: Search, claim: Returned, activation: Activation) -> bool:
    """Whether an activation can be the call that a text speaks of."""
    if claim.function is None:
        return _is_a_call(activation)
    return search.ledger.calls.is_of(activation, claim.function) and is_given(search, claim, activation)


def _is_a_call(activation: Activation) -> bool:
    return activation.name != "<module>" and not activation.class_body


def _yielded(search: Search, claim: Returned, low: int, after: int) -> Hit | None:
    says = search.sayer(claim.value, about=claim.about)
    yields = search.ledger.yields
    for t in itertools.islice(yields, bisect.bisect_left(yields, low), None):
        record = search.ledger.records[t]
        assert isinstance(record, schema.Yield)
        activation = search.ledger.structure.activations.get(record.f)
        if (
            t <= after
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
