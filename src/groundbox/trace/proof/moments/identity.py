"""Which object an expression stands for."""

from __future__ import annotations

import ast
from typing import Any

from groundbox.trace.proof.records.ledger import Ledger
from groundbox.trace.proof.records.memory import refs
from groundbox.trace.proof.values.bounds import Unknowable
from groundbox.trace.proof.values.code import names_in
from groundbox.trace.proof.values.likeness import same
from groundbox.trace.proof.values.things import Thing


def is_target(ledger: Ledger, node: ast.expr, t: int, label: int) -> bool:
    """Whether the object that changed at `t` is the one that a text names."""
    found = label_of(ledger, node, t)
    if found is None:
        found = label_of(ledger, node, t - 1)
    return found == label


def is_a_container(ledger: Ledger, node: ast.expr) -> bool:
    """Whether a name ever stands for an object."""
    return any(label_of(ledger, node, t) is not None for t in ledger.histories.moments(names_in(node)))


def label_of(ledger: Ledger, node: ast.expr, t: int) -> int | None:
    """The label of the object that an expression stands for."""
    value = _value(ledger, node, t)
    found = refs(value) if isinstance(value, dict) and "ref" in value else []
    return found[0] if found else None


def _item_of_tuple(ledger: Ledger, holder: dict[str, Any], index: ast.expr, t: int) -> Any:
    try:
        at = ledger.value(index, t)
    except Unknowable:
        return None
    head, tail = holder["tuple"], holder.get("tail", ())
    length = len(head) + holder.get("elided", 0) + len(tail)
    if type(at) is not int or not -length <= at < length:
        return None
    at %= length
    return head[at] if at < len(head) else tail[at - length] if at >= length - len(tail) else None


def _value(ledger: Ledger, node: ast.expr, t: int) -> Any:
    if isinstance(node, ast.Name):
        value = ledger.frames.visible(node.id, t)
        return None if isinstance(value, Thing) else value
    if not isinstance(node, ast.Attribute | ast.Subscript):
        return None
    holder = _value(ledger, node.value, t)
    if isinstance(node, ast.Subscript) and isinstance(holder, dict) and "tuple" in holder:
        return _item_of_tuple(ledger, holder, node.slice, t)
    owner = label_of(ledger, node.value, t)
    obj = ledger.memory.object(owner, t) if owner is not None else None
    if obj is None:
        return None
    if isinstance(node, ast.Attribute):
        return obj.attrs.get(node.attr)
    try:
        index = ledger.value(node.slice, t)
    except Unknowable:
        return None
    if obj.items is not None and isinstance(index, int):
        found = obj.items.get(index if index >= 0 else index + len(obj.items))
        return found[0] if found is not None else None
    for key, value in (obj.pairs or {}).values():
        if same(index, ledger.memory.read(key, t)):
            return value
    return None
