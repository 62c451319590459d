"""Comprehensions, item by item: which items were kept, and what became of them.

The records have no steps inside a comprehension; what is told here is worked out from the values at that moment,
and only where the whole expression then has the recorded value.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from groundbox.trace.narrate.evaluation import Evaluation
from groundbox.trace.narrate.literals import literal
from groundbox.trace.record.syntax import walked
from groundbox.values.unknown import Unknown

MAX_ITEMS: Final = 10
MAX_TEXT: Final = 160
_CONTAINERS: Final = frozenset(("frozenset", "list", "set", "sorted", "tuple"))

_Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp


class Detail(NamedTuple):
    """A statement about the items of a comprehension: its text, its code, and what is said of that."""

    text: str
    code: str
    value: str


def details(node: ast.expr, evaluation: Evaluation) -> Sequence[Detail]:
    """What to say of the one comprehension in an expression; nothing where it cannot be worked out, or is long."""
    found = [part for part in walked(node) if isinstance(part, ast.comprehension)]
    holders = [part for part in walked(node) if isinstance(part, _Comprehension)]
    if len(found) != 1 or len(holders) != 1:
        return ()
    try:
        said = _details(holders[0], found[0], evaluation, whole=_shows_all(node, holders[0]))
    except Unknown:
        return ()
    return [detail for detail in said if len(detail.text) <= MAX_TEXT]


def _details(holder: _Comprehension, clause: ast.comprehension, evaluation: Evaluation, *, whole: bool) -> list[Detail]:
    """For `whole`, the value of the line shows what became of the items."""
    items = evaluation.value(clause.iter)
    if not isinstance(clause.target, ast.Name) or isinstance(items, set | dict | frozenset) or len(items) > MAX_ITEMS:
        raise Unknown("it is not told")
    name = clause.target.id
    kept = [item for item in items if all(evaluation.value_with(test, name, item) for test in clause.ifs)]
    said: list[Detail] = []
    if clause.ifs and items:
        code = ast.unparse(clause.ifs[0] if len(clause.ifs) == 1 else ast.BoolOp(ast.And(), clause.ifs))
        row = "all" if len(kept) == len(items) else f"the items {_row(kept)}" if kept else "none"
        said.append(Detail(f"{row} of {literal(items)} pass `{code}`", code, row))
    if kept and not whole and not (isinstance(holder.elt, ast.Name) and holder.elt.id == name):
        code = ast.unparse(holder.elt)
        row = _row([evaluation.value_with(holder.elt, name, item) for item in kept])
        said.append(Detail(f"`{code}` gives {row} for the items {_row(kept)}", code, row))
    return said


def _shows_all(node: ast.expr, holder: _Comprehension) -> bool:
    """Whether the value of the expression is the comprehension's, or its items in a container."""
    makes = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CONTAINERS
    return node is holder or (isinstance(node, ast.Call) and makes and node.args == [holder])


def _row(items: Sequence[Any]) -> str:
    return ", ".join(literal(item) for item in items)
