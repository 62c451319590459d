"""What a whole expression of a statement gave, as the trace shows it by what the statement did with it.

Nobody can work out `re.split(',', line)` here, but `parts = re.split(',', line)` leaves its value in `parts`,
and `return f(x)` hands it over. Only what is kept as it is counts: the right side of an assignment to a name,
an attribute or an item, and what is returned.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from groundbox.trace import schema
from groundbox.trace.proof.records.frames import MISSING
from groundbox.trace.proof.records.ledger import Ledger
from groundbox.trace.proof.values.bounds import Unknowable
from groundbox.trace.proof.values.code import loaded
from groundbox.trace.structure import Step

_OVERRIDES: Final = ("__setattr__", "__setitem__")


class Outcomes:
    """Results of expressions, for the steps of one ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._crowded = _crowded(ledger.structure.syntax.tree)

    def of(self, source: ast.expr, step: Step) -> Any:
        """What `source`, a node of the step's statement, gave there; MISSING where nothing shows it."""
        statement = step.statement
        if step.part != "statement" or step.raised is not None or statement is None or self._is_crowded(statement):
            return MISSING
        if isinstance(statement, ast.Return) and statement.value is source:
            return self._returned(step)
        if isinstance(statement, ast.Expr) and _appended(statement.value) is source:
            return self._appended(step)
        for target, value in assigned(statement):
            if value is source:
                return self._kept(target, step)
        return MISSING

    def _is_crowded(self, statement: ast.stmt) -> bool:
        """Whether another statement stands on its lines, so that the step did more than this one says."""
        return not self._crowded.isdisjoint(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))

    def _returned(self, step: Step) -> Any:
        ledger = self._ledger
        activation = ledger.structure.activations.get(step.frame)
        if activation is None or activation.outcome != "return" or ledger.course.step_of(activation.last) is not step:
            return MISSING  # a `finally` may return something else
        return ledger.memory.read(activation.value, activation.last)

    def _appended(self, step: Step) -> Any:
        """The item that came to the end of the one list to which the step itself added something."""
        records = [(t, self._ledger.records[t]) for t in step.effects]
        changes = [(t, each) for t, each in records if isinstance(each, schema.Mutate) and (each.items or each.at)]
        if len(changes) != 1:
            return MISSING
        [(t, change)] = changes
        holder = self._ledger.memory.object(change.id, t)
        is_plain = holder is not None and holder.type == "list" and holder.class_ is None
        if not is_plain or change.op != "splice" or change.removed or len(change.items or ()) != 1:
            return MISSING
        return self._ledger.memory.read((change.items or [None])[0], t)

    def _kept(self, target: ast.expr, step: Step) -> Any:
        if isinstance(target, ast.Name):
            value = self._ledger.frames.raw(target.id, step.frame, step.last)
            return value if value is MISSING else self._ledger.memory.read(value, step.last)
        if any(call.name.endswith(_OVERRIDES) for call in step.calls):
            return MISSING
        try:
            return self._ledger.value(target, step.last, step.frame)
        except Unknowable:
            return MISSING


def _appended(node: ast.expr) -> ast.expr | None:
    """The argument of `xs.append(…)`."""
    is_append = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append"
    return (
        node.args[0] if isinstance(node, ast.Call) and is_append and len(node.args) == 1 and not node.keywords else None
    )


def assigned(statement: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The places that an assignment fills, each with the expression whose value it takes whole."""
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        yield from _pairs(statement.target, statement.value)
    elif isinstance(statement, ast.Assign):
        for target in statement.targets:
            yield from _pairs(target, statement.value)


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    rows = (ast.Tuple, ast.List)
    if isinstance(target, ast.Name):
        yield target, value
    elif isinstance(target, ast.Attribute | ast.Subscript):
        yield loaded(target), value
    elif isinstance(target, rows) and isinstance(value, rows) and len(target.elts) == len(value.elts):
        parts = [*target.elts, *value.elts]
        if all(isinstance(part, ast.Name) for part in target.elts) and not any(
            isinstance(part, ast.Starred) for part in parts
        ):
            yield from zip(target.elts, value.elts, strict=True)


def _crowded(tree: ast.Module | None) -> frozenset[int]:
    """Lines on which more than one simple statement stands."""
    found = (node for node in ast.walk(tree) if isinstance(node, ast.stmt)) if tree is not None else ()
    simple = [node for node in found if not hasattr(node, "body") and not isinstance(node, ast.Match)]
    lines = Counter(line for node in simple for line in range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return frozenset(line for line, count in lines.items() if count > 1)
