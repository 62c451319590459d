"""Recorded values in a form that can be compared with what a text says, and computed with.

Builtin values become Python values of their own type. What has no such form, or is not wholly shown,
becomes a `Thing` or a `Part`, which are equal to nothing but what they are known to equal.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final


@dataclasses.dataclass(frozen=True)
class Thing:
    """An instance, a class, a function, a module: something that is known by name.

    Attributes:
        kind: `object`, `class`, `function`, `builtin`, `method`, `module`, `repr` or `opaque`.
        name: Of its class, or its own.
        attrs: Of an instance, at the moment of reading.
        label: Its identity, 0 where it has none.
        type: Of a `repr`, the last name of its type.
    """

    kind: str
    name: str
    attrs: dict[str, Any] = dataclasses.field(default_factory=dict)
    label: int = 0
    type: str = ""

    def __hash__(self) -> int:
        return hash((self.kind, self.name, self.label))


@dataclasses.dataclass(frozen=True, eq=False)
class Part:
    """A value of which not everything is shown.

    Attributes:
        head: What is shown of its beginning; items or characters. Of an integer, its sign.
        tail: The same of its end.
        length: How long it is; of an integer, its bits.
        runs: Of a sequence, all that is shown: rows of items, and how many are left out between two of them.
        origin: Which object it is and since when, of an integer a digest of it; None where that is not known, so that
            it equals no other part.
        name: Of its class, where that is one of the program.
        attrs: Of an instance of such a class.
    """

    type: str
    head: Any
    tail: Any
    length: int
    runs: tuple[Any, ...] = ()
    origin: tuple[int, int] | None = None
    name: str = ""
    attrs: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def shown(self) -> list[Any]:
        """The items of a sequence that are shown, wherever they stand."""
        return [item for run in self.runs if not isinstance(run, int) for item in run] or [*self.head, *self.tail]

    def item(self, index: int) -> tuple[Any] | None:
        """The item of a sequence at an index from 0 on, or None where it is not shown."""
        for run in self.runs or (self.head, self.length - len(self.head) - len(self.tail), self.tail):
            size = run if isinstance(run, int) else len(run)
            if index < size:
                return None if isinstance(run, int) else (run[index],)
            index -= size
        return None


_NO_ATTRS: Final[Mapping[str, Any]] = MappingProxyType({})


class OwnList(list[Any]):
    """A list of a class of the program."""

    name = ""
    attrs = _NO_ATTRS


class OwnDict(dict[Any, Any]):
    """A dict of a class of the program."""

    name = ""
    attrs = _NO_ATTRS


class OwnSet(set[Any]):
    """A set of a class of the program."""

    name = ""
    attrs = _NO_ATTRS


class Named(tuple[Any, ...]):
    """A named tuple with the name of its class."""

    name = ""


@dataclasses.dataclass(frozen=True)
class Array:
    """An array of numpy or the standard library, whose operators are not those of a list.

    Attributes:
        items: All of them in a row, whatever the shape, or a Part; of a text, as it nests them.
        shape: Its sizes; empty where that is not known.
    """

    items: Any
    shape: tuple[int, ...] = ()

    def __len__(self) -> int:
        return self.shape[0] if self.shape else self.items.length if isinstance(self.items, Part) else len(self.items)

    def nested(self) -> Any:
        """The items by the shape, as far as that can be written."""
        rows = self.items
        for size in reversed(self.shape[1:]) if not isinstance(rows, Part) else ():
            if size < 1:
                return self.items
            rows = [rows[at : at + size] for at in range(0, len(rows), size)]
        return rows


@dataclasses.dataclass(frozen=True, eq=False)
class Written:
    """What a text writes as a call that makes a value: `Decimal('1.5')`, `Point(1, 2)`, `Stack([3], limit=9)`."""

    name: str
    args: tuple[Any, ...]
    text: str
    attrs: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, eq=False)
class Gap:
    """Stands in a value that a text writes for what it leaves out: so many items, or None where it does not say."""

    count: int | None

    def __repr__(self) -> str:
        return "…" if self.count is None else f"… {self.count} more …"


@dataclasses.dataclass(frozen=True, eq=False)
class Opaque:
    """A value that a text writes as `<kind>`. Two that are written alike need not be the same."""

    text: str

    def __repr__(self) -> str:
        return f"<{self.text}>"


def int_words(part: Part) -> str:
    """How an integer is written that is too long for its digits."""
    return f"{'negative ' * (part.head < 0)}int of {part.length} bits"
