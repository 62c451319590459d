"""Where a comprehension made these values of these items, or kept these items: worked out again."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from groundbox.trace.proof.claims import Claim, Mapped, Passed
from groundbox.trace.proof.moments.hit import Hit, Uncheckable
from groundbox.trace.proof.moments.search import Search
from groundbox.trace.proof.values.bounds import Unknowable
from groundbox.trace.proof.values.code import shape
from groundbox.trace.proof.values.comprehensions import Bound, Comprehension, found_in
from groundbox.trace.proof.values.evaluation import evaluate
from groundbox.trace.proof.values.likeness import is_written, same
from groundbox.trace.proof.values.operators import truth
from groundbox.trace.structure import Step

_FEW: Final = 3
"""Steps with such a comprehension that are looked at."""


def mapped(search: Search, claim: Mapped, low: int, now: int, after: int) -> Hit | None:
    """What became of the items of a comprehension, worked out again."""

    def holds(holder: Comprehension, clause: ast.comprehension, step: Step) -> bool | None:
        if shape(holder.elt) != shape(claim.code) or len(claim.items) != len(claim.values):
            return None
        made = [_for_item(search, claim.code, clause, search.item(item, step.step), step) for item in claim.items]
        pairs = zip(claim.values, made, strict=True)
        return all(is_written(node, one) or same(search.item(node, step.step), one) for node, one in pairs)

    return _in_a_comprehension(search, claim, claim.code, holds, low, now)


def passed(search: Search, claim: Passed, low: int, now: int, after: int) -> Hit | None:
    """Which items a comprehension kept."""

    def holds(holder: Comprehension, clause: ast.comprehension, step: Step) -> bool | None:
        if not clause.ifs or shape(_joined(clause.ifs)) != shape(claim.test):
            return None
        through = search.ledger.value(clause.iter, step.step, step.frame, step.calls)
        if not same(search.ledger.value(claim.through, step.step, step.frame, step.calls), through):
            return False
        kept = [item for item in through if truth(_for_item(search, claim.test, clause, item, step))]
        said = through if claim.items is None else [search.item(node, step.step) for node in claim.items]
        return same(list(said), kept)

    test = claim.test
    first = test.values[0] if isinstance(test, ast.BoolOp) else test
    return _in_a_comprehension(search, claim, first, holds, low, now)


def _in_a_comprehension(
    search: Search,
    claim: Claim,
    code: ast.expr,
    holds: Callable[[Comprehension, ast.comprehension, Step], bool | None],
    low: int,
    now: int,
) -> Hit | None:
    """Where what is said of `code`, a part of a comprehension, holds."""
    unknown = ""
    for step in search.ledger.course.steps if claim.recap else _told_now(search, code, low, now):
        for holder, clause in found_in(step.statement):
            try:
                if holds(holder, clause, step):
                    return Hit(max(now, step.step), step.step)
            except Unknowable as why:
                unknown = str(why)
    if unknown:
        raise Uncheckable(unknown)
    return None


def _told_now(search: Search, code: ast.expr, low: int, now: int) -> Iterator[Step]:
    """The steps that a sentence may tell, and the next ones with such a comprehension, past the steps of generators."""
    yield from search.told_now(low, now)
    for t in dict.fromkeys((low, now)):
        yield from itertools.islice(search.code.working_out(code, t, far=False), _FEW)


def _for_item(search: Search, code: ast.expr, clause: ast.comprehension, item: Any, step: Step) -> Any:
    assert isinstance(clause.target, ast.Name)
    search.ledger.spend()
    lookup = search.ledger.lookup(step.step, step.frame, step.calls)
    return evaluate(code, Bound(lookup, {clause.target.id: item}))


def _joined(tests: Sequence[ast.expr]) -> ast.expr:
    return tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), list(tests))
