"""Where a name, an item or a call has the value that is said, where some name has it, where parts are equal.

Where it comes to have it is the matter of `changes`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from groundbox.trace import schema
from groundbox.trace.proof.claims import Equal, Has, How, Row, Yields
from groundbox.trace.proof.moments.changes import becomes
from groundbox.trace.proof.moments.hit import Hit, Uncheckable
from groundbox.trace.proof.moments.search import Search
from groundbox.trace.proof.values.bounds import Unknowable
from groundbox.trace.proof.values.code import names_in
from groundbox.trace.proof.values.likeness import said_value, same
from groundbox.trace.proof.values.things import Thing, Written


def has(search: Search, claim: Has, low: int, now: int, after: int) -> Hit | None:
    """The subject has the value, or has another one."""
    if isinstance(claim.subject, ast.Name) and claim.subject.id not in search.ledger.names:
        return None
    if claim.how is How.BECOMES:
        return becomes(search, claim, low, after)
    says = search.sayer(claim.value, about=claim.about)
    wanted = claim.how is not How.IS_NOT
    if isinstance(claim.subject, ast.Call) and (hit := _called_value(search, claim, says, low, now)) is not None:
        return hit

    def holds(t: int) -> bool:
        actual = search.ledger.value(claim.subject, t)
        return says(actual, t) is wanted

    ended = isinstance(search.record(now), schema.Return | schema.Yield)
    begin = low if claim.reason or claim.recap or ended else max(low, now)
    return search.first(names_in(claim.subject) | names_in(claim.value), begin, holds)


def _called_value(search: Search, claim: Has, says: Callable[[Any, int], bool], low: int, now: int) -> Hit | None:
    """What a call gave in a step that goes on, or in the next one."""
    steps = search.code.working_out(claim.subject, 0, far=True) if claim.recap else search.told_now(low, now)
    for step in steps:
        try:
            actual = search.equations.given(claim.subject, step)
            if says(actual, step.step) is (claim.how is not How.IS_NOT):
                return Hit(max(now, step.step), step.step)
        except Unknowable:
            continue
    return None


def row(search: Search, claim: Row, low: int, now: int, after: int) -> Hit | None:
    """All cells have their values at one moment."""
    names = frozenset[str]().union(*(names_in(cell.subject) | names_in(cell.value) for cell in claim.cells))
    sayers = [(cell.subject, search.sayer(cell.value, about=cell.about)) for cell in claim.cells]
    return search.first(names, low, lambda t: all(says(search.ledger.value(subject, t), t) for subject, says in sayers))


def yields(search: Search, claim: Yields, low: int, now: int, after: int) -> Hit | None:
    """Some name or call has the value now."""
    known, said = said_value(claim.value)
    if not known:
        raise Uncheckable("the value cannot be worked out")
    going_on = search.ledger.course.open_steps(now)[:1] if isinstance(said, Thing | Written) else []
    if going_on:  # an instance may be told after calls that were made while it was
        low = min(low, going_on[0].step)
    for t in range(low, len(search.ledger.records)):
        value = _new_value(search.ledger.records[t])
        if value is None:
            continue
        search.ledger.spend()
        if same(said, search.ledger.memory.read(value[0], t), about=claim.about):
            return Hit(t, t)
    return None


def equals(search: Search, claim: Equal, low: int, now: int, after: int) -> Hit | None:
    """All parts are equal."""
    found = search.equations.first(claim.parts, low, now, about=claim.about, far=claim.recap)
    if found is None:
        raise Uncheckable("it cannot be worked out from the trace")
    return Hit(*found) if found else None


def _new_value(record: Any) -> tuple[Any] | None:
    if isinstance(record, schema.Set | schema.Return | schema.Yield):
        return (record.v,)
    return ({"ref": record.id},) if isinstance(record, schema.Mutate) else None
