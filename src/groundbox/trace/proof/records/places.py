"""Calls of one statement in the order in which they are made, so that each is known from the others of its function."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_OUT_OF_ORDER = (ast.IfExp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Place(NamedTuple):
    """A call is one of `total` calls of its function; `number` of them come before it."""

    number: int
    total: int


def places(tree: ast.AST | None) -> Mapping[int, Place]:
    """The places of the calls of a program by the ids of their nodes, where the order is the one in which they stand.

    What makes none of its calls, or one of them several times, has other counts in the run than here.
    """
    found: dict[int, Place] = {}
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.stmt):
            for calls in _by_name(node).values():
                found.update((id(call), Place(at, len(calls))) for at, call in enumerate(calls))
    return found


def _by_name(statement: ast.stmt) -> dict[str, list[ast.Call]]:
    """The calls of a statement's own part by the names of their functions, in the order in which they are over."""
    parts = [part for own in _own(statement) for part in ast.walk(own)]
    calls = [part for part in parts if isinstance(part, ast.Call)]
    if any(isinstance(part, _OUT_OF_ORDER) for part in parts) or any(map(_takes_a_later_star_first, calls)):
        return {}
    found: dict[str, list[ast.Call]] = defaultdict(list)
    for call in sorted(calls, key=lambda call: (call.end_lineno or 0, call.end_col_offset or 0)):
        found[getattr(call.func, "id", "") or getattr(call.func, "attr", "")].append(call)
    return found


def _takes_a_later_star_first(call: ast.Call) -> bool:
    """In `g(k=f(1), *f(2))` all that is positional is worked out before the keywords."""
    if not (call.args and call.keywords):
        return False
    last, first = call.args[-1], call.keywords[0]
    return (first.lineno, first.col_offset) < (last.lineno, last.col_offset)


def _own(statement: ast.stmt) -> Iterator[ast.expr]:
    """The one expression of a statement that may make calls, or none."""
    if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        calls = [part for target in targets for part in ast.walk(target) if isinstance(part, ast.Call)]
        if statement.value is not None and not calls:
            yield statement.value
    elif isinstance(statement, ast.If | ast.While | ast.Assert):
        yield statement.test
    elif isinstance(statement, ast.Expr | ast.Return) and statement.value is not None:
        yield statement.value
