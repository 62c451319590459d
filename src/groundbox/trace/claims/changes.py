"""Changes of objects as claims write them, as statements, and what a recorded change has of them."""

from __future__ import annotations

import ast
import functools
from typing import NamedTuple

from groundbox.trace.claims.data import MOST_CODE
from groundbox.trace.claims.items import statements
from groundbox.trace.claims.told import told
from groundbox.trace.record import schema
from groundbox.trace.record.schema import V
from groundbox.trace.run.objects import Obj
from groundbox.trace.run.state import State
from groundbox.values.equal import as_told
from groundbox.values.unknown import Unknown


class SaidChange(NamedTuple):
    """A change as a claim writes it: `owner.method(item)`, `owner[key] = item`, `del owner[key]`."""

    owner: ast.expr
    method: str
    key: ast.expr | str | None
    item: ast.expr | None


@functools.lru_cache(maxsize=1024)
def said_change(code: str) -> SaidChange | None:
    """The change that a statement is; None for another statement."""
    match statements(code) if len(code) <= MOST_CODE else None:
        case [ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr=method), args=args))]:
            if method == "insert" and len(args) == 2:
                return SaidChange(owner, method, args[0], _item(args[1]))
            if method == "pop" and args:
                return SaidChange(owner, method, args[0], None)
            return SaidChange(owner, method, None, _item(args[0]) if args else None)
        case [ast.Assign(targets=[ast.Subscript(value=owner, slice=key)], value=item)]:
            return SaidChange(owner, "=", key, _item(item))
        case [ast.Assign(targets=[ast.Attribute(value=owner, attr=name)], value=item)]:
            return SaidChange(owner, "=", name, _item(item))
        case [ast.Delete(targets=[ast.Subscript(value=owner, slice=key)])]:
            return SaidChange(owner, "del", key, None)
        case [ast.Delete(targets=[ast.Attribute(value=owner, attr=name)])]:
            return SaidChange(owner, "del", name, None)
    return None


def _item(node: ast.expr) -> ast.expr | None:
    return None if isinstance(node, ast.Constant) and node.value is ... else node


def changed_items(said: SaidChange, state: State, record: schema.Mutate, before: Obj) -> list[V] | None:
    """Return the items that came in or went out by a change as it is told; None if the record is of another one.

    Args:
        before: The object as it was before the record.
    """
    if record.op == "splice" and before.items is not None:
        return _spliced(said, state, record, before)
    keys = record.at or ()
    if record.op == "set" and said.method == "=" and said.key is not None:
        return next(([value] for key, value in keys if _is_key(said.key, key, state)), None)
    if record.op in ("add", "discard"):
        methods = {"add": ("add", "update"), "discard": ("discard", "remove", "pop", "difference_update")}
        return list(record.items or ()) if said.method in methods[record.op] else None
    if record.op == "remove" and said.method in ("del", "pop", "popitem"):
        return list(keys) if said.key is None or any(_is_key(said.key, key, state) for key in keys) else None
    return None


def _spliced(said: SaidChange, state: State, record: schema.Mutate, before: Obj) -> list[V] | None:
    # Records tell a change of a list by places alone: which method it was follows from where and how many.
    start, removed, items = record.start or 0, record.removed or 0, list(record.items or ())
    at_end = start + removed == before.size
    if items and not removed:
        fits = {
            "append": at_end and len(items) == 1,
            "extend": at_end,
            "appendleft": start == 0 and len(items) == 1,
            "insert": len(items) == 1 and (start == 0 if said.key is None else _is_key(said.key, start, state)),
        }
        return items if fits.get(said.method, False) else None
    if removed == 1 and not items:
        gone = before.items.get(start) if before.items is not None else None
        # `del xs[-1]` counts from the end, a record from the beginning.
        key = said.key is None or any(_is_key(said.key, place, state) for place in (start, start - before.size))
        fits = {
            "pop": at_end if said.key is None else key,
            "popleft": start == 0,
            # It takes the first equal item, which may stand anywhere.
            "remove": True,
            "del": key,
        }
        return None if gone is None or not fits.get(said.method, False) else [gone[0]]
    return None


def _is_key(said: ast.expr | str, key: V, state: State) -> bool:
    if isinstance(said, str):
        return bool(said == key)
    if isinstance(said, ast.Constant) and said.value is ...:
        return True
    code = ast.unparse(said)
    text = told(code)
    if not text.known:
        # Keys that are no literals go by their text, as cut as a telling cuts it.
        return code in (state.text(key, 60), state.text(key, len(code) + 8))
    try:
        return as_told(state.python_value(key), text.value)
    except Unknown:
        return state.text(key, 60) == code
