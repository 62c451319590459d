"""Code that leads to an object: the name, attribute or item by which the program, or a reader, finds it."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from groundbox.trace.narrate.evaluation import Evaluation
from groundbox.trace.narrate.literals import literal
from groundbox.trace.record.schema import V
from groundbox.trace.record.syntax import copied
from groundbox.trace.record.value import labels_in, ref_of
from groundbox.trace.run.state import Obj, State
from groundbox.values.parsing import expression_of
from groundbox.values.unknown import Unknown

MOST_NAMES: Final = 200
MAX_REACHED: Final = 2000
"""Objects that are looked at for one that has changed; a value that leads to more may lead to it."""


def path_to(state: State, frame: int, label: int, nodes: Sequence[ast.AST], evaluation: Evaluation) -> str | None:
    """The shortest known way to an object from a frame: as the statement has it, or as the frame's names do."""
    return next(_ways(state, frame, label, nodes, evaluation), None)


def leads_to(heap: Mapping[int, Obj], values: Iterable[V], labels: Collection[int]) -> bool:
    """Return whether values lead to one of some objects, or to so many objects that they may."""
    reached: set[int] = set()
    # Where nothing changed, there is nothing that they could lead to.
    waiting = [label for value in values for label in labels_in(value)] if labels else []
    while waiting:
        label = waiting.pop()
        if label in labels or len(reached) >= MAX_REACHED:
            return True
        if label not in reached and label in heap:
            reached.add(label)
            waiting.extend(found for part in heap[label].parts() for found in labels_in(part))
    return False


def _ways(state: State, frame: int, label: int, nodes: Sequence[ast.AST], evaluation: Evaluation) -> Iterator[str]:
    # As the statement itself writes it: a reader sees the same code there.
    for node in nodes:
        for part in ast.walk(node):
            if isinstance(part, ast.Name | ast.Attribute | ast.Subscript) and _leads_to(part, label, evaluation):
                yield with_indexes(part, evaluation)
    # Shorter ways first: the object's own name, and then one step from another object's.
    names = list(state.names(frame).items())[:MOST_NAMES]
    yield from (name for name, value in names if ref_of(value) == label)
    for name, value in names:
        yield from (f"{name}{way}" for way in _inside(state, ref_of(value), label))


def _leads_to(node: ast.expr, label: int, evaluation: Evaluation) -> bool:
    try:
        return ref_of(evaluation.reference(node)) == label
    except Unknown:
        return False


def _inside(state: State, holder: int | None, label: int) -> Iterator[str]:
    """Attributes, items and keys of one object that lead to the other."""
    if holder is None:
        return
    held = state.heap[holder]
    yield from (f".{name}" for name, value in held.attrs.items() if ref_of(value) == label)
    if held.items is not None and held.type == "list":
        items = held.items.all() or []
        yield from (f"[{index}]" for index, value in enumerate(items) if ref_of(value) == label)
    for key, value in (held.pairs or {}).values():
        if ref_of(value) == label:
            yield f"[{state.text(key, 40)}]"


def with_indexes(node: ast.expr, evaluation: Evaluation) -> str:
    """The code of a name, attribute or item, with the values of its indexes: `grid[0][2]` for `grid[row][column]`."""
    return ast.unparse(_Indexes(evaluation).visit(copied(node)))


class _Indexes(ast.NodeTransformer):
    def __init__(self, evaluation: Evaluation) -> None:
        self._evaluation = evaluation

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        node.value = self.visit(node.value)
        if isinstance(node.slice, ast.Slice):
            for name in ("lower", "upper", "step"):
                part = getattr(node.slice, name)
                if part is not None:
                    setattr(node.slice, name, self._value(part))
        else:
            node.slice = self._value(node.slice)
        return node

    def _value(self, node: ast.expr) -> ast.expr:
        try:
            return expression_of(literal(self._evaluation.value(node)))
        except (Unknown, SyntaxError):
            return node
