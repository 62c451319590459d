"""Recorded values as text for people and models: `[1, 2, Node(value=3, next=None)]`.

The text is of Python's literals where there are any. An object inside itself is `<#4>`, by its label.
What is not shown is counted: `[1, 2, … 96 more …, 99]`.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from groundbox.trace.record.schema import V
from groundbox.trace.record.value import kind_of
from groundbox.trace.run.python_values import atom
from groundbox.values.parsing import expression_of

if TYPE_CHECKING:
    from groundbox.trace.run.objects import Obj
    from groundbox.trace.run.state import State


class _Measure(NamedTuple):
    """Measure of what is shown of a value: items of each container, levels, characters of each string."""

    items: int
    depth: int
    chars: int


# Tried one after the other until the text is short enough: from all there is to next to nothing.
_MEASURES: Final = tuple(
    _Measure(*each)
    for each in (
        (10**9, 50, 10**9), (40, 10, 400), (24, 8, 200), (16, 8, 100), (12, 6, 60), (8, 5, 40),
        (6, 4, 30), (5, 4, 24), (4, 3, 20), (3, 3, 16), (2, 2, 12), (2, 1, 10), (1, 1, 8), (0, 1, 8), (0, 0, 4),
    )
)  # fmt: skip


class _TooLong(Exception):
    pass


def text(state: State, value: V, max_chars: int = 200) -> str:
    """A value as it was in `state`, as whole as `max_chars` characters allow.

    Never longer than `max_chars` but for a few characters that count what is left out.
    """
    if type(value) is not dict and (type(value) is not str or len(value) + 2 <= max_chars):
        whole = repr(value)
        # Numbers are never cut: their digits say little without the others.
        if len(whole) <= max_chars or type(value) is not str:
            return whole
    for measure in _MEASURES:
        try:
            return _Writer(state, measure, max_chars).write(value, 0)
        except _TooLong:
            continue
    return _summary(state, value)


def _summary(state: State, value: V) -> str:
    obj = state.heap.get(value["ref"]) if kind_of(value) == "ref" else None
    if obj is not None:
        return f"<{obj.class_ or obj.type}>"
    if kind_of(value) == "repr":
        return _type_of_repr(value)
    return f"<{'str' if type(value) is str else kind_of(value)}>"


class _Writer:
    def __init__(self, state: State, measure: _Measure, most: int) -> None:
        self._heap = state.heap
        self._measure = measure
        self._left = most
        self._open: set[int] = set()

    def write(self, value: V, depth: int) -> str:
        if type(value) is not dict:
            return self._spend(_shortened(value, self._measure.chars) if type(value) is str else repr(value))
        kind = kind_of(value)
        if kind == "ref":
            return self._object(value["ref"], depth)
        if kind == "tuple":
            return self._tuple(value, depth)
        if kind == "frozenset":
            items = self._elided(value["frozenset"], value.get("elided", 0), value.get("tail", ()), depth)
            return self._spend("frozenset()") if items == "" else f"{value.get('class', 'frozenset')}({{{items}}})"
        if kind == "method":
            return f"<method {self._spend(_word(value['method']))} of {self.write(value['of'], depth + 1)}>"
        if kind == "repr":
            return self._spend(_repr_text(value, self._measure.chars))
        return self._spend(_atom(value, kind, self._measure.chars))

    def _spend(self, piece: str) -> str:
        self._left -= len(piece)
        if self._left < 0:
            raise _TooLong
        return piece

    def _tuple(self, value: dict[str, Any], depth: int) -> str:
        items = self._elided(value["tuple"], value.get("elided", 0), value.get("tail", ()), depth)
        if "class" in value:
            return f"{self._spend(_word(value['class']))}({items})"
        one = len(value["tuple"]) == 1 and not value.get("elided") and self._measure.items
        return f"({items},)" if one and depth < self._measure.depth else f"({items})"

    def _object(self, label: int, depth: int) -> str:
        obj = self._heap.get(label)
        if obj is None or label in self._open:
            # Inside itself, or described by a record that is still to come.
            return self._spend(f"<#{label}>")
        if obj.type == "class":
            return self._spend(f"<class {_word(obj.class_ or '?')}>")
        self._open.add(label)
        # Brackets and commas count as well, roughly: what matters is that a list of thousands is given up early.
        self._spend("[]")
        made = self._content(obj, depth)
        self._open.discard(label)
        return made

    def _content(self, obj: Obj, depth: int) -> str:
        if obj.type == "object":
            return f"{self._spend(_word(obj.class_ or 'object'))}({self._attrs(obj, depth)})"
        inner = self._builtin(obj, depth)
        named = obj.class_ if obj.class_ not in (None, obj.type) else None
        if named is None and obj.type not in ("deque", "bytearray", "array"):
            return inner
        name = obj.type if named is None or obj.type == "array" else _word(named)
        more = self._attrs(obj, depth) if obj.attrs else ""
        if obj.maxlen is not None:
            more = f"maxlen={obj.maxlen}" + (f", {more}" if more else "")
        # `Counter()`, and not `Counter({})`, as Python has it.
        inner = "" if inner in ("set()", "{}", "[]") and named else inner
        return self._spend(name) + "(" + ", ".join(part for part in (inner, more) if part) + ")"

    def _builtin(self, obj: Obj, depth: int) -> str:
        if obj.type == "bytearray":
            return self._spend(_bytes_text(obj.hex or "", obj.length or 0, self._measure.chars))
        if obj.type == "dict":
            return "{" + self._pairs(obj, depth) + "}"
        assert obj.items is not None
        if obj.type == "array" and (nested := self._nested(obj, depth)):
            return nested
        items = self._runs(obj.items.runs, depth)
        if obj.type == "set":
            return "{" + items + "}" if items else "set()"
        return f"[{items}]"

    def _attrs(self, obj: Obj, depth: int) -> str:
        if depth >= self._measure.depth and obj.attrs:
            return self._spend(_more(len(obj.attrs) + obj.unknown_attrs))
        shown = list(obj.attrs.items())
        hidden = obj.unknown_attrs
        if len(shown) > max(1, self._measure.items):
            shown, hidden = shown[: self._measure.items], hidden + len(shown) - self._measure.items
        parts = [f"{self._spend(_word(name))}={self.write(value, depth + 1)}" for name, value in shown]
        return ", ".join([*parts, self._spend(_more(hidden))] if hidden else parts)

    def _pairs(self, obj: Obj, depth: int) -> str:
        assert obj.pairs is not None
        pairs = list(obj.pairs.values())
        if depth >= self._measure.depth and pairs:
            return self._spend(_more(len(pairs) + obj.unknown_pairs))
        cut = len(pairs) - obj.tail_pairs if obj.unknown_pairs else len(pairs)
        head, tail, hidden = _cut(pairs[:cut], obj.unknown_pairs, pairs[cut:], self._measure.items)
        parts = [self._pair(each, depth) for each in head]
        if hidden:
            parts.append(self._spend("… more …" if obj.loose else _more(hidden)))
        parts.extend(self._pair(each, depth) for each in tail)
        return ", ".join(parts)

    def _pair(self, pair: tuple[V, V], depth: int) -> str:
        self._spend("    ")
        return f"{self.write(pair[0], depth + 1)}: {self.write(pair[1], depth + 1)}"

    def _elided(self, head: Sequence[V], elided: int, tail: Sequence[V], depth: int) -> str:
        return self._runs([list(head), elided, list(tail)], depth)

    def _runs(self, runs: Sequence[list[V] | int], depth: int) -> str:
        """Known runs and gaps, in order; more than two known runs are shown by their ends."""
        known = [run for run in runs if isinstance(run, list) and run]
        total = sum(run if isinstance(run, int) else len(run) for run in runs)
        if depth >= self._measure.depth and total:
            return self._spend(_more(total))
        # Parts in the middle of a long list that became known by being changed.
        if len(known) > 2 and sum(map(len, known)) <= self._measure.items:
            parts = [self._run(run, depth) for run in runs if run]
            return ", ".join(parts)
        head, tail, hidden = self._ends(runs, total)
        parts = [self._item(value, depth) for value in head]
        if hidden:
            parts.append(self._spend(_more(hidden)))
        parts.extend(self._item(value, depth) for value in tail)
        return ", ".join(parts)

    def _ends(self, runs: Sequence[list[V] | int], total: int) -> tuple[Sequence[V], Sequence[V], int]:
        """The first and the last ones that are shown, and how many stand between them."""
        first = runs[0] if runs and isinstance(runs[0], list) else []
        last = runs[-1] if len(runs) > 1 and isinstance(runs[-1], list) else []
        return _cut(first, total - len(first) - len(last), last, self._measure.items)

    def _run(self, run: list[V] | int, depth: int) -> str:
        if isinstance(run, int):
            return self._spend(_more(run))
        return ", ".join(self._item(value, depth) for value in run)

    def _item(self, value: V, depth: int) -> str:
        self._spend("  ")
        return self.write(value, depth + 1)

    def _nested(self, obj: Obj, depth: int) -> str:
        """An array's items by its shape, with the brackets of the rows around what is left out."""
        assert obj.items is not None
        runs = obj.items.runs
        # Of the rows of each level, from the innermost: 3 and 6 of a shape of (2, 3). An item at a multiple of a size
        # begins a row.
        sizes = list(itertools.accumulate(reversed(obj.shape or []), operator.mul))
        total = sum(run if isinstance(run, int) else len(run) for run in runs)
        is_deep = depth >= self._measure.depth and total > self._measure.items
        if len(sizes) < 2 or sizes[-1] != total or not total or is_deep:
            return ""
        head, tail, hidden = self._ends(runs, total)
        parts = [self._in_rows(value, at, sizes, depth) for at, value in enumerate(head)]
        if hidden:
            after = len(head) + hidden
            # Rows that begin, and that end, among the items that are left out; those that do both there need no
            # bracket.
            opened = sum(-(-after // size) - -(-len(head) // size) for size in sizes)
            closed = sum(after // size - len(head) // size for size in sizes)
            more = "[" * (opened - closed) + _more(hidden) + "]" * (closed - opened)
            parts.append(self._spend(more))
        parts += [self._in_rows(value, at, sizes, depth) for at, value in enumerate(tail, total - len(tail))]
        return ", ".join(parts)

    def _in_rows(self, value: V, at: int, sizes: Sequence[int], depth: int) -> str:
        """An item with the brackets that open before it and close behind it."""
        opened, closed = (sum(place % size == 0 for size in sizes) for place in (at, at + 1))
        return "[" * opened + self._item(value, depth) + "]" * closed


def _cut(head: Sequence[Any], hidden: int, tail: Sequence[Any], most: int) -> tuple[Sequence[Any], Sequence[Any], int]:
    """At most `most` of the known ones, two thirds from the beginning, and how many are hidden then."""
    if len(head) + len(tail) <= most:
        return head, tail, hidden
    total = len(head) + len(tail) + hidden
    first = min(len(head), (2 * most + 2) // 3)
    last = most - first
    # All are known: the last ones are taken from the same row.
    if not tail and not hidden:
        return head[:first], head[len(head) - last :], total - first - last
    last = min(last, len(tail))
    return head[:first], tail[len(tail) - last :], total - first - last


def _more(count: int) -> str:
    return f"… {count} more …"


def _word(name: str) -> str:
    """A name that a guest chose, kept to one line and to printable characters."""
    name = name if len(name) <= 80 else name[:60] + "…" + name[-15:]
    return name if name.isprintable() else repr(name)[1:-1]


def _shortened(value: str, most: int) -> str:
    if len(value) <= most:
        return repr(value)
    head, tail = max(1, most * 2 // 3), max(1, most // 3)
    return _joined(value[:head], value[-tail:], len(value))


def _joined(head: str, tail: str, length: int) -> str:
    return f"{head!r} {_more(length - len(head) - len(tail))} {tail!r}"


def _bytes_text(text: str, length: int, most: int) -> str:
    shown = bytes.fromhex(text)[:most]
    return repr(shown) if len(shown) == length else f"{shown!r} {_more(length - len(shown))}"


def _atom(value: dict[str, Any], kind: str, chars: int) -> str:
    inner = value[kind]
    if kind == "int":
        return _int_text(inner, chars)
    if kind == "str":
        head, tail = inner["head"], inner["tail"]
        return _joined(head[: max(1, chars * 2 // 3)], tail[-max(1, chars // 3) :] if tail else "", inner["len"])
    if kind == "bytes":
        return _bytes_text(inner["hex"], inner["len"], chars)
    if kind in ("complex", "range"):
        return repr(atom(value, kind))
    return _NAMED.get(kind, "{}").format(_word(inner))


_NAMED: Final = {
    "function": "<function {}>",
    "builtin": "<built-in {}>",
    "class": "<class {}>",
    "module": "<module {}>",
    "opaque": "<{}>",
}


def _repr_text(value: dict[str, Any], chars: int) -> str:
    """Return how a value of a standard type shows itself; its type where that is long, or is no code.

    A pattern of `re` cuts its own text at 200 characters, in the middle of a string.
    """
    shown: str = value["repr"]
    # A guest says what the repr is: one that is no code of one line might pass for words around it.
    is_short = len(shown) <= max(_SHORT_REPR, chars)
    return shown if is_short and shown.isprintable() and _is_code(shown) else _type_of_repr(value)


_SHORT_REPR: Final = 60


@functools.lru_cache(maxsize=4096)
def _is_code(text: str) -> bool:
    try:
        expression_of(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return True


def _type_of_repr(value: dict[str, Any]) -> str:
    return f"<{_word(value['type'].rpartition('.')[2])}>"


def _int_text(inner: Any, chars: int) -> str:
    if type(inner) is dict:
        return f"<int of {inner['bits']} bits>" if inner["sign"] > 0 else f"<negative int of {inner['bits']} bits>"
    if len(inner) <= max(40, chars):
        return str(inner)
    return f"{inner[:20]}… {len(inner) - 30} more digits …{inner[-10:]}"
