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


class RecordedChange:
    """Recorded change of an object, to be compared with one that is told."""

    def __init__(self, state: State, record: schema.Mutate, before: Obj) -> None:
        self._state = state
        self._record = record
        self._before = before
        self._size = before.size

    def items(self, said: SaidChange) -> list[V] | None:
        """Return items that came in or went out by such a change; None if the record is of another one."""
        record = self._record
        if record.op == "splice" and self._before.items is not None:
            return self._spliced(said, record.start or 0, record.removed or 0, list(record.items or ()))
        if record.op == "set":
            return self._placed(said)
        if record.op in ("add", "discard"):
            methods = {"add": ("add", "update"), "discard": ("discard", "remove", "pop", "difference_update")}
            return list(record.items or ()) if said.method in methods[record.op] else None
        if record.op == "remove" and said.method in ("del", "pop", "popitem"):
            return self._removed(said)
        return None

    def _spliced(self, said: SaidChange, start: int, removed: int, items: list[V]) -> list[V] | None:
        # Records tell a change of a list by places alone: which method it was follows from where and how many.
        at_end = start + removed == self._size
        if items and not removed:
            fits = {
                "append": at_end and len(items) == 1,
                "extend": at_end,
                "appendleft": start == 0 and len(items) == 1,
                "insert": len(items) == 1 and (start == 0 if said.key is None else self._is_key(said.key, start)),
            }
            return items if fits.get(said.method, False) else None
        if removed == 1 and not items:
            held = self._before.items
            gone = held.get(start) if held is not None else None
            # `del xs[-1]` counts from the end, a record from the beginning.
            key = said.key is None or self._is_key(said.key, start) or self._is_key(said.key, start - self._size)
            fits = {
                "pop": at_end if said.key is None else key,
                "popleft": start == 0,
                # It takes the first equal item, which may stand anywhere.
                "remove": True,
                "del": key,
            }
            return None if gone is None or not fits.get(said.method, False) else [gone[0]]
        return None

    def _placed(self, said: SaidChange) -> list[V] | None:
        if said.method != "=" or said.key is None:
            return None
        for key, value in self._record.at or ():
            if self._is_key(said.key, key):
                return [value]
        return None

    def _removed(self, said: SaidChange) -> list[V] | None:
        keys = list(self._record.at or ())
        if said.key is None or any(self._is_key(said.key, key) for key in keys):
            return keys
        return None

    def _is_key(self, said: ast.expr | str, key: V) -> bool:
        if isinstance(said, str):
            return bool(said == key)
        if isinstance(said, ast.Constant) and said.value is ...:
            return True
        code = ast.unparse(said)
        text = told(code)
        if not text.known:
            # Keys that are no literals go by their text, as cut as a telling cuts it.
            return code in (self._state.text(key, 60), self._state.text(key, len(code) + 8))
        try:
            return as_told(self._state.python_value(key), text.value)
        except Unknown:
            return self._state.text(key, 60) == code
