"""Objects with an identity, for the plain core: their labels, their descriptions, and what changed in them.

**Labels.** An object gets the next label when it is first seen. New objects are found depth first, parts in the order
in which they are shown; labels are given going down, `object` records are written coming up. Parts that are not shown
(elided) are not visited. One event describes at most 2,000 objects: later ones get a label and a record that shows
nothing, and are not entered. The parts of a set are visited in the set's own order.

**Changes.** `tell_changes` takes the contents of all labelled objects, in the order of their labels, and tells the
differences from what was told last. A list that is being sorted is passed over: it is empty meanwhile.

**Life.** Labelled objects are kept alive, so that no address is used twice. When there are twice as many as after the
last sweep, those that only this table holds are dropped.

If the source waits for the end of objects (`facts.Facts.holds` is false), nothing but atoms is kept alive. Then changes
are looked for in what can be reached from names. Where the type allows it, a weak reference tells that an object is
gone; a list, a dict, or an instance with slots only keeps its label until an object of another type is found at its
address, so that a later list may take over the label of one that is gone. Parts that are elided are described, too.
"""

from __future__ import annotations

import sys
from _weakref import ref as _weakref
from collections.abc import Callable
from typing import Any

from ..classes import (
    ATOMS,
    BYTES,
    CLASS,
    FROZENSET,
    LEAF,
    METHOD,
    SET,
    TUPLE,
    Kind,
    json_text,
    type_mro,
    type_qualname,
)
from ..own import protect
from ..values import EXACT, Values, inner_objects
from .contents import Change, Contents, Token, description, is_being_sorted, same, stub, take

protect(globals())

_MOST_NEW = 2_000
_FIRST_SWEEP = 200
_OURS = 3  # references to an object that only we hold: the entry, a local variable, the argument
_getrefcount = sys.getrefcount


class _Entry:
    """A labelled object. `shadow` is None while it is being described."""

    __slots__ = ("kind", "label", "reference", "shadow", "value")

    def __init__(self, value: Any, kind: Kind, label: int) -> None:
        self.value = value
        self.kind = kind
        self.label = label
        self.reference: Any = None
        self.shadow: Contents | None = None


class Objects:
    """Table of all labelled objects of a run. Records are given to `tell`."""

    def __init__(self, values: Values, tell: Callable[[str], None], *, holds: bool) -> None:
        self._values = values
        self._kinds = values.kinds
        self._tell = tell
        self._holds = holds
        self._table: dict[int, _Entry] = {}
        """By address, in the order of labels."""
        self._tokens: dict[str, Token] = {}
        self._count = 0
        self._new = 0
        self._sweep_at = _FIRST_SWEEP
        values.label = self._label

    def begin(self) -> None:
        """An event begins: 2,000 objects may be described."""
        self._new = 0
        if self._holds and len(self._table) > self._sweep_at:
            for key, entry in list(self._table.items()):
                value = entry.value
                # Nobody but this table has it, so that it can be neither seen nor changed any more.
                if _getrefcount(value) == _OURS:
                    del self._table[key]
                    entry.value = entry.shadow = None
            self._sweep_at = max(_FIRST_SWEEP, 2 * len(self._table))

    def tell_changes(self, roots: Callable[[], list[Any]]) -> None:
        """Tell what changed in any labelled object.

        Args:
            roots: Gives the values from which objects are reached, if they must not be kept alive.
        """
        if self._holds:
            # A copy, since telling a change may find new objects, which are entered. They need no look: they are told
            # as they are.
            for entry in list(self._table.values()):
                self._compare(entry, entry.value)
        else:
            for entry, value in self._reached(roots()):
                self._compare(entry, value)

    def _reached(self, roots: list[Any]) -> list[tuple[_Entry, Any]]:
        """Return the labelled objects that roots lead to, in the order of their labels."""
        found: list[tuple[_Entry, Any]] = []
        seen: dict[int, Any] = {}
        todo = list(roots)
        while todo:
            value = todo.pop()
            kind = self._kinds.of(type(value))
            # `seen` holds the values themselves, too, or an address might be used again meanwhile.
            if id(value) in seen:
                continue
            seen[id(value)] = value
            if issubclass(type(value), BaseException):  # it may have no label, but what it was raised with may
                todo.append(self._values.exception_args(value))
            if kind.kind == LEAF:
                continue
            if kind.kind in (TUPLE, FROZENSET, METHOD):
                todo += inner_objects(value, kind, self._kinds)
                continue
            entry = self._find(value)
            if entry is not None:
                found.append((entry, value))
            if entry is not None or kind.kind != CLASS:
                todo += take(value, kind).parts(shown=False)
            if kind.kind == CLASS:  # its attributes are looked up in the classes that it is derived from, too
                todo += type_mro(value)[1:]
            # `Node.count` is reached from an instance, without a name of the class.
            if kind.own:
                todo.append(kind.type)
        return sorted(found, key=lambda pair: pair[0].label)

    def _compare(self, entry: _Entry, value: Any) -> None:
        kind, shadow = entry.kind, entry.shadow
        if shadow is None or (kind.base is list and is_being_sorted(value)):
            return
        contents = take(value, kind)
        now = self._remembered(contents, kind)
        if not same(now, shadow, kind):
            for operation in Change(kind, value, shadow, now, contents, self._values).operations():
                self._tell(f'{{"k":"mutate","id":{entry.label},"op":{operation}}}\n')
            # Only now: the texts of operations may describe new objects, whose parts lead back here.
            entry.shadow = now

    def _remembered(self, contents: Contents, kind: Kind) -> Contents:
        """Return what is kept of contents: all, or tokens."""
        if self._holds or kind.kind >= BYTES:
            return contents
        keys = None if contents.keys is None else list(map(self._token, contents.keys))
        extra = None if contents.extra is None else self._remembered(contents.extra, kind)
        return Contents(list(map(self._token, contents.items)), keys, extra)

    def _token(self, item: Any) -> Any:
        if id(type(item)) in ATOMS:
            return item
        text = self._values.text(item)
        return self._tokens.setdefault(text, Token(text))

    def _find(self, value: Any) -> _Entry | None:
        entry = self._table.get(id(value))
        if entry is None or self._holds:
            return entry
        if entry.reference() is value if entry.reference is not None else type(value) is entry.kind.type:
            return entry
        # The object that had this address is gone; the one that is there now is new.
        del self._table[id(value)]
        return None

    def _label(self, value: Any, kind: Kind) -> str:
        entry = self._find(value)
        return f'{{"ref":{self._describe(value, kind) if entry is None else entry.label}}}'

    def _describe(self, value: Any, kind: Kind) -> int:
        """Label and describe a new object, and the new ones among its parts; gives its label."""
        first, contents = self._add(value, kind)
        # A stack rather than recursion: a linked list of a thousand nodes is described from its last node up.
        going = [] if contents is None else [(first, contents, value, self._parts(contents, kind))]
        while going:
            entry, contents, owner, parts = going[-1]
            if parts:
                part = parts.pop()
                kind = self._kinds.of(type(part))
                if kind.kind in (TUPLE, FROZENSET, METHOD):
                    parts += inner_objects(part, kind, self._kinds)[::-1]
                elif self._is_new(part, kind):
                    inner, inside = self._add(part, kind)
                    if inside is not None:
                        going.append((inner, inside, part, self._parts(inside, kind)))
                continue
            going.pop()
            self._tell_object(entry, owner, description(entry.kind, owner, contents, self._values))
            entry.shadow = self._remembered(contents, entry.kind)
        return first.label

    def _is_new(self, value: Any, kind: Kind) -> bool:
        return kind.kind != LEAF and (kind.kind != CLASS or self._kinds.is_own(value)) and self._find(value) is None

    def _parts(self, contents: Contents, kind: Kind) -> list[Any]:
        """Return the parts to be visited, last first."""
        found = contents.parts(shown=self._holds and kind.kind != SET)
        return [part for part in reversed(found) if id(type(part)) not in EXACT]

    def _add(self, value: Any, kind: Kind) -> tuple[_Entry, Contents | None]:
        """Label a new object; gives its contents, if it is to be described with them."""
        self._count += 1
        self._new += 1
        entry = _Entry(value, kind, self._count)
        # Taken out first, so that it stands at the end: the table is in the order of labels.
        self._table.pop(id(value), None)
        self._table[id(value)] = entry
        if not self._holds:
            entry.value, entry.reference = None, _weak(value)
        contents = take(value, kind)
        if self._new <= _MOST_NEW:
            return entry, contents
        self._tell_object(entry, value, stub(kind, value, contents))
        entry.shadow = contents if self._holds else Contents([_UNKNOWN], contents.keys and [_UNKNOWN])
        return entry, None

    def _tell_object(self, entry: _Entry, value: Any, fields: str) -> None:
        kind = entry.kind
        name = json_text(type_qualname(value)) if kind.kind == CLASS else kind.name
        told = "" if name is None else f',"class":{name}'
        self._tell(f'{{"k":"object","id":{entry.label},"type":"{kind.word}"{told}{fields}}}\n')


_UNKNOWN = Token("null")


def _weak(value: Any) -> Any:
    try:
        # list, dict and instances of classes with `__slots__` cannot be referred to so.
        return _weakref(value)
    except TypeError:
        return None
