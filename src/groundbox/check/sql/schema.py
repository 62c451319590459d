"""What a database is made of: tables, columns, keys. Names are found without regard to case."""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

_NUMBER: Final = re.compile(r"INT|REAL|FLOA|DOUB|NUM|DEC|MONEY|SERIAL|NUMBER|\bYEAR\b|BIT\b|HUGE", re.IGNORECASE)
_TEXT: Final = re.compile(r"CHAR|CLOB|TEXT|STRING|ENUM|UUID|\bNAME\b", re.IGNORECASE)
_TIME: Final = re.compile(r"DATE|TIME|INTERVAL", re.IGNORECASE)
_FLAG: Final = re.compile(r"BOOL", re.IGNORECASE)


class Kind(enum.Enum):
    """What a column's declared type says about its values."""

    NUMBER = "number"
    TEXT = "text"
    TIME = "time"
    FLAG = "boolean"
    OTHER = "other"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Column:
    """One column; `type` in the words of the engine."""

    name: str
    type: str = ""
    nullable: bool = True

    @property
    def kind(self) -> Kind:
        """The family of its type."""
        for pattern, kind in ((_FLAG, Kind.FLAG), (_TIME, Kind.TIME), (_TEXT, Kind.TEXT), (_NUMBER, Kind.NUMBER)):
            if pattern.search(self.type):
                return kind
        return Kind.OTHER


@dataclasses.dataclass(frozen=True, kw_only=True)
class ForeignKey:
    """Columns that name a row of another table; `other_columns` in the same order."""

    columns: tuple[str, ...]
    table: str
    other_columns: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Table:
    """One table or view.

    Attributes:
        primary: Its primary key; empty without one.
        unique: Every set of columns that no two rows share, the primary key among them.
        declares: Whether somebody said what its keys are. Where nobody did, `unique` has what was found in the data.
    """

    name: str
    columns: Sequence[Column]
    primary: tuple[str, ...] = ()
    unique: Sequence[frozenset[str]] = ()
    foreign: Sequence[ForeignKey] = ()
    is_view: bool = False
    declares: bool = True

    def column(self, name: str) -> Column | None:
        """The column of that name."""
        folded = name.casefold()
        return next((column for column in self.columns if column.name.casefold() == folded), None)

    def is_key(self, columns: set[str]) -> bool:
        """Whether these columns, folded, hold a key: no two rows are alike in them."""
        keys = [frozenset(self.primary)] if self.primary else []
        return any({name.casefold() for name in key} <= columns for key in [*keys, *self.unique])


class Schema:
    """The tables of a database.

    Attributes:
        complete: Whether all of them are here.
    """

    def __init__(self, tables: Sequence[Table] = (), *, complete: bool = True) -> None:
        self._tables = {table.name.casefold(): table for table in tables}
        self.complete = complete

    def __iter__(self) -> Iterator[Table]:
        return iter(self._tables.values())

    def __len__(self) -> int:
        return len(self._tables)

    def table(self, name: str) -> Table | None:
        """The table of that name."""
        return self._tables.get(name.casefold())

    def has_foreign_keys(self) -> bool:
        """Whether any relation is declared at all."""
        return any(table.foreign for table in self)

    def as_mapping(self) -> Mapping[str, Mapping[str, str]]:
        """Table to column to type, as sqlglot takes it."""
        return {table.name: {c.name: c.type or "TEXT" for c in table.columns} for table in self}


def related(schema: Schema, one: tuple[str, str], other: tuple[str, str]) -> bool:
    """Whether a foreign key is declared between two (table, column)s, in either direction."""
    return _refers(schema, one, other) or _refers(schema, other, one)


def _refers(schema: Schema, child: tuple[str, str], parent: tuple[str, str]) -> bool:
    table = schema.table(child[0])
    for key in table.foreign if table else ():
        if key.table.casefold() != parent[0].casefold():
            continue
        pairs = zip(key.columns, key.other_columns, strict=False)
        if any(_same(a, child[1]) and _same(b, parent[1]) for a, b in pairs):
            return True
    return False


def parents(schema: Schema, table: str, column: str) -> set[tuple[str, str]]:
    """What a column refers to, over any number of tables, folded; itself when it is a key of its table."""
    result: set[tuple[str, str]] = set()
    waiting = [(table.casefold(), column.casefold())]
    while waiting:
        place = waiting.pop()
        found = schema.table(place[0])
        for key in found.foreign if found else ():
            for own, other in zip(key.columns, key.other_columns, strict=False):
                target = (key.table.casefold(), other.casefold())
                if _same(own, place[1]) and target not in result:
                    result.add(target)
                    waiting.append(target)
    found = schema.table(table)
    if found is not None and found.is_key({column.casefold()}):
        result.add((table.casefold(), column.casefold()))
    return result


def direct_keys(schema: Schema, one: str, other: str) -> list[tuple[str, str]]:
    """The pairs of columns, of `one` and of `other`, by which two tables are declared to belong together."""
    found = []
    for child, parent, turned in ((one, other, False), (other, one, True)):
        table = schema.table(child)
        for key in table.foreign if table else ():
            if _same(key.table, parent):
                pairs = zip(key.columns, key.other_columns, strict=False)
                found += [(b, a) if turned else (a, b) for a, b in pairs]
    return found


def _same(one: str, other: str) -> bool:
    return one.casefold() == other.casefold()
