"""Comprehensions worked out item by item, and what a text says of their items.

`[x * 2 for x in xs if x > 1]` has no steps in a trace; its parts are worked out here on recorded values.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from groundbox.trace.proof.values.bounds import MOST
from groundbox.trace.proof.values.things import Array, Part

Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp
Evaluate = Callable[[ast.expr, Any], Any]


class Bound:
    """Names of a moment, some of which a comprehension has given values."""

    def __init__(self, outer: Any, names: dict[str, Any]) -> None:
        self._outer = outer
        self._names = names
        for name in ("call", "object"):
            if hasattr(outer, name):
                setattr(self, name, getattr(outer, name))

    def __call__(self, name: str) -> Any:
        return self._names[name] if name in self._names else self._outer(name)


def scopes(generators: Sequence[ast.comprehension], lookup: Any, evaluate: Evaluate, *, ordered: bool) -> Iterator[Any]:
    """The names of each round of a comprehension, in their order.

    Args:
        ordered: Whether the order of the rounds matters, so that it cannot be that of a set.

    Raises:
        TypeError: Nobody knows what it goes through.
    """
    if not generators:
        yield lookup
        return
    clause, *inner = generators
    items = evaluate(clause.iter, lookup)
    unordered = isinstance(items, set | frozenset) and ordered
    if (
        unordered
        or clause.is_async
        or isinstance(items, Part | Array)
        or not hasattr(items, "__len__")
        or len(items) > MOST
    ):
        raise TypeError("the items of a comprehension are not known")
    for item in items:
        bound = Bound(lookup, _bound(clause.target, item))
        if all(evaluate(test, bound) for test in clause.ifs):
            yield from scopes(inner, bound, evaluate, ordered=ordered)


def _bound(target: ast.expr, value: Any) -> dict[str, Any]:
    if isinstance(target, ast.Name):
        return {target.id: value}
    if not isinstance(target, ast.Tuple | ast.List) or len(target.elts) != len(value):
        raise TypeError("no simple target")
    return {
        name: part for each, item in zip(target.elts, value, strict=True) for name, part in _bound(each, item).items()
    }


def found_in(statement: ast.stmt | None) -> Iterator[tuple[Comprehension, ast.comprehension]]:
    """Comprehensions of a statement that go through one thing, by a name for each item."""
    for node in ast.walk(statement) if statement is not None else ():
        if isinstance(node, Comprehension) and len(node.generators) == 1 and _is_named(node.generators[0]):
            yield node, node.generators[0]


def _is_named(clause: ast.comprehension) -> bool:
    return isinstance(clause.target, ast.Name)
