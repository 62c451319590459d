"""What changed in an object, as `mutate` records.

`tell_changes(entry, shadow, now, contents, …)` compares two `Contents` by the identity of items. `now` is what
`contents` is compared by: itself, or the texts of its items when objects must not be kept alive (`Told`). In this
order:

- attributes of a container changed: `replace`, of everything
- LIST: same length and at most 16 items differ: `set`. Else, with the longest common beginning and then the longest
  common end of what is left set aside: `splice`, if it shows at most 100 items. Else `replace`.
- DICT, OBJECT, CLASS: removed keys, then changed and new ones in the present order, if removing and then setting
  leads to the present order and there are at most 100 in all: `remove`, then `set`. Else `replace`. A dict's keys are
  compared by identity, names of attributes by their text.
- SET: `discard`, then `add`, each sorted by JSON text, if there are at most 100 in all. Else `replace`.
- BYTES, ARRAY: `replace`
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress
from operator import is_, is_not
from typing import Any

from .classes import ARRAY, BYTES, DICT, LIST, SET, json_text
from .contents import Contents, same
from .describing import fields
from .own import protect
from .values import Values

protect(globals())

_MOST_SET = 16
MOST_TOLD = 100


class Told(str):
    """The JSON text of an item, in place of the item."""

    __slots__ = ()


class Change:
    """One object's difference: from its shadow to its contents now."""

    def __init__(
        self, entry: Any, value: Any, now: Contents, contents: Contents, values: Values, tell: Callable[[str], None]
    ) -> None:
        """Args:
        now: What `contents` is compared by: itself, or the texts of its items.
        """
        self._entry = entry
        self._value = value
        self._shadow: Contents = entry.shadow
        self._now = now
        self._contents = contents
        self._values = values
        self._tell = tell

    def tell(self) -> None:
        """Write the records."""
        what = self._entry.kind.kind
        if what in (BYTES, ARRAY) or self._extra_changed():
            self._replace()
        elif what == LIST:
            self._list()
        elif what == SET:
            self._set()
        else:
            self._pairs(names=what != DICT)

    def _extra_changed(self) -> bool:
        extra, now = self._shadow.extra, self._now.extra
        return extra is not None and now is not None and not same(extra, now, self._entry.kind)

    def _mutate(self, rest: str) -> None:
        self._tell(f'{{"k":"mutate","id":{self._entry.label},"op":{rest}}}\n')

    def _replace(self) -> None:
        told = fields(self._entry.kind, self._value, self._contents, self._values)
        self._mutate(f'"replace"{told}')

    def _list(self) -> None:
        old, new, shown = self._shadow.items, self._now.items, self._contents.items
        if len(old) == len(new):
            places = list(compress(range(len(new)), map(is_not, old, new)))
            if len(places) <= _MOST_SET:
                told = ",".join([f"[{place},{self._values.text(shown[place])}]" for place in places])
                self._mutate(f'"set","at":[{told}]')
                return
        start = _common(old, new)
        end = _common(old[start:][::-1], new[start:][::-1])
        stop = len(new) - end
        if stop - start > MOST_TOLD:
            self._replace()
            return
        items = self._values.several(shown[start:stop])
        self._mutate(f'"splice","start":{start},"removed":{len(old) - end - start},"items":[{items}]')

    def _set(self) -> None:
        old, new = {id(item) for item in self._shadow.items}, {id(item) for item in self._now.items}
        gone = [item for item in self._shadow.items if id(item) not in new]
        come = [shown for item, shown in zip(self._now.items, self._contents.items, strict=True) if id(item) not in old]
        if len(gone) + len(come) > MOST_TOLD:
            self._replace()
            return
        if gone:
            self._mutate(f'"discard","items":[{",".join(sorted([self._text(item) for item in gone]))}]')
        if come:
            self._mutate(f'"add","items":[{",".join(sorted([self._text(item) for item in come]))}]')

    def _pairs(self, *, names: bool) -> None:
        old_keys, new_keys = self._shadow.keys, self._now.keys
        assert old_keys is not None
        assert new_keys is not None
        assert self._contents.keys is not None
        mark: Callable[[Any], Any] = (lambda key: key) if names else id
        old = {mark(key): item for key, item in zip(old_keys, self._shadow.items, strict=True)}
        marks = [mark(key) for key in new_keys]
        present = set(marks)
        gone = [key for key in old_keys if mark(key) not in present]
        places = [
            place
            for place, (key, item) in enumerate(zip(marks, self._now.items, strict=True))
            if key not in old or old[key] is not item
        ]
        order = [key for key in map(mark, old_keys) if key in present]
        order += [marks[place] for place in places if marks[place] not in old]
        if order != marks or len(gone) + len(places) > MOST_TOLD:
            self._replace()
            return
        write: Callable[[Any], str] = json_text if names else self._text
        if gone:
            self._mutate(f'"remove","at":[{",".join([write(key) for key in gone])}]')
        if places:
            keys, items = self._contents.keys, self._contents.items
            told = ",".join([f"[{write(keys[place])},{self._values.text(items[place])}]" for place in places])
            self._mutate(f'"set","at":[{told}]')

    def _text(self, item: Any) -> str:
        return str(item) if type(item) is Told else self._values.text(item)


def _common(one: list[Any], other: list[Any]) -> int:
    """How many first items are the same."""
    count = min(len(one), len(other))
    if all(map(is_, one, other)):
        return count
    return next((place for place in range(count) if one[place] is not other[place]), count)
