"""The truth of a step's condition: as the recorder told it of each operand, never worked out from where lines went.

Only whether a `case` matched is seen by the line that came next: its patterns are not told.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from groundbox.trace.record import schema
from groundbox.trace.record.operands import Range, range_of
from groundbox.trace.record.syntax import Place


def condition_of(before: Place, place: Place | None, end: str, tests: Iterable[schema.Test]) -> bool | None:
    """The truth of a step's test; None where it has none, or it is not told.

    Args:
        before: Where the step stands.
        place: Where the frame went, None when it ended or went to no known place.
        end: `return`, `unwind` or `open` when it ended.
        tests: The step's own.
    """
    statement, clause = before.statement, before.clause
    # An operand is tested once in an execution of its statement, if at all.
    told = {record.at: record.v for record in tests}
    if isinstance(statement, ast.Assert):
        return truth_of(statement.test, told)
    if before.part == "test" and isinstance(statement, (ast.If, ast.While)):
        return truth_of(statement.test, told)
    if before.part == "except" and isinstance(clause, ast.ExceptHandler):
        # A bare `except` takes whatever comes, and tests nothing.
        return True if clause.type is None else told.get(range_of(clause.type))
    if before.part == "case" and isinstance(clause, ast.match_case):
        guard = None if clause.guard is None else truth_of(clause.guard, told)
        # The guard is only come to where the pattern fits, so that it decides.
        return _case(before, place, end) if guard is None else guard
    return None


def truth_of(test: ast.expr, told: Mapping[Range, bool]) -> bool | None:
    """Return what a condition was, by the outcomes of its operands; None if one that decides is not told."""
    try:
        return _truth(test, told)
    except RecursionError:
        return None


def _truth(test: ast.expr, told: Mapping[Range, bool]) -> bool | None:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _truth(test.operand, told)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        is_and = isinstance(test.op, ast.And)
        for value in test.values:
            outcome = _truth(value, told)
            # False ends an `and`, True an `or`; what is not known may have ended either.
            if outcome is not is_and:
                return outcome
        return is_and
    if isinstance(test, ast.IfExp):
        chosen = _truth(test.test, told)
        return None if chosen is None else _truth(test.body if chosen else test.orelse, told)
    # The compiler left it out, and no record tells of it.
    if isinstance(test, ast.Constant):
        return bool(test.value)
    return told.get(range_of(test))


def _case(before: Place, place: Place | None, end: str) -> bool | None:
    if place is not None and place.inside(before.statement, "body", before.clause):
        return True
    # `case 1: x = 2` on one line goes on from there in either case.
    if before.inline or end == "open":
        return False if place is not None and place.statement is before.statement and not before.inline else None
    return False
