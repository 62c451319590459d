"""Simple aggregates of one table, worked out from its rows in Python: COUNT, SUM, AVG, MIN, MAX, in groups or not.

Texts that mean numbers or days (`meanings`) are compared and added up as such, and a division keeps what is behind the
point. All else is done as SQL does it, NULL and three-valued logic included. Where that depends on the engine, such as
the order of texts, or is not simple, there is no result, and nothing is said of the query.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from groundbox.check.sql.meanings import meaning_of, number
from groundbox.check.sql.parts import constant, sqlglot_module

Row = Sequence[Any]
_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "EQ": operator.eq,
    "NEQ": operator.ne,
    "LT": operator.lt,
    "LTE": operator.le,
    "GT": operator.gt,
    "GTE": operator.ge,
}
_TURNED: Final = {"LT": "GT", "GT": "LT", "LTE": "GTE", "GTE": "LTE"}
_ARITHMETIC: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Div": operator.truediv,
}
_FRACTIONS: Final = ("FLOAT", "DOUBLE", "DECIMAL", "REAL", "UDOUBLE", "UDECIMAL")


class NotSimple(Exception):
    """A part of a query that is not worked out."""


class Recomputed:
    """What an aggregating select of one table gives, by what its texts mean.

    Attributes:
        meant: Folded column to `numbers` or `days`, where texts of it that mean such were added up or compared.
        divided: Whether whole numbers were divided.
    """

    def __init__(self, select: Any, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Args:
        columns: Folded names, in the order of the values of a row.

        Raises:
            NotSimple: Its conditions are not worked out.
        """
        self._exp, self._select = sqlglot_module("expressions"), select
        self._place = {name: i for i, name in enumerate(columns)}
        read = {name: meaning_of([row[i] for row in rows]) for name, i in self._place.items()}
        self._meanings = {name: meaning for name, meaning in read.items() if meaning is not None}
        self.meant: dict[str, str] = {}
        self.divided = False
        where = select.args.get("where")
        self._rows = [row for row in rows if where is None or self._truth(where.this, row)]

    def values(self) -> dict[tuple[Any, ...], list[Any]]:
        """The values of a group's columns, as they are grouped by, to what each projection is for the group.

        Raises:
            NotSimple: A projection is not worked out.
        """
        group = self._select.args.get("group")
        keys = [self._column(node) for node in (group.expressions if group is not None else ())]
        groups: dict[tuple[Any, ...], list[Row]] = {} if keys else {(): []}
        for row in self._rows:
            groups.setdefault(tuple(row[i] for i in keys), []).append(row)
        told = [each.unalias() for each in self._select.expressions]
        return {key: [self._shown(each, keys, rows) for each in told] for key, rows in groups.items()}

    def read(self, column: str, value: Any) -> Any:
        """What a value of a column means."""
        meaning = self._meanings.get(column)
        return value if meaning is None else meaning.read(value)

    def _shown(self, node: Any, keys: list[int], rows: Sequence[Row]) -> Any:
        if not isinstance(node, self._exp.Column):
            return self._value(node, rows)
        if self._column(node) not in keys:
            raise NotSimple
        return rows[0][self._column(node)]

    def _column(self, node: Any) -> int:
        place = self._place.get(node.name.casefold()) if isinstance(node, self._exp.Column) else None
        if place is None:
            raise NotSimple
        return place

    def _value(self, node: Any, rows: Sequence[Row]) -> Any:
        exp, kind = self._exp, type(node).__name__
        if isinstance(node, (exp.Paren, exp.Round)) or self._is_fraction(node):
            value = self._value(node.this, rows)
            return float(value) if self._is_fraction(node) and value is not None else value
        if isinstance(node, exp.Literal):
            return constant(node) if not node.is_string else _refuse()
        if kind in _ARITHMETIC:
            return self._arithmetic(kind, self._value(node.left, rows), self._value(node.right, rows))
        if isinstance(node, exp.Count):
            return self._count(node.this, rows)
        return self._of_values(kind, node.this, rows)

    def _is_fraction(self, node: Any) -> bool:
        return isinstance(node, self._exp.Cast) and node.to.this.name in _FRACTIONS

    def _arithmetic(self, kind: str, one: Any, other: Any) -> Any:
        if one is None or other is None or (kind == "Div" and not other):
            return None
        if not all(isinstance(value, (int, float)) for value in (one, other)):
            raise NotSimple
        self.divided = self.divided or (kind == "Div" and isinstance(one, int) and isinstance(other, int))
        return _ARITHMETIC[kind](one, other)

    def _count(self, node: Any, rows: Sequence[Row]) -> int:
        if isinstance(node, self._exp.Star) or isinstance(constant(node), int):
            return len(rows)
        place = self._column(node)
        return sum(row[place] is not None for row in rows)

    def _of_values(self, kind: str, node: Any, rows: Sequence[Row]) -> Any:
        if kind not in ("Sum", "Avg", "Min", "Max"):
            raise NotSimple
        column = node.this if self._is_fraction(node) else node
        place = self._column(column)
        values = self._meant(column.name.casefold(), [row[place] for row in rows if row[place] is not None])
        if not values:
            return None
        if any(isinstance(value, str) for value in values):
            raise NotSimple
        if kind in ("Min", "Max"):
            return min(values) if kind == "Min" else max(values)
        if not all(isinstance(value, (int, float)) for value in values):
            raise NotSimple
        return sum(values) / len(values) if kind == "Avg" else sum(values)

    def _meant(self, name: str, values: list[Any]) -> list[Any]:
        if name not in self._meanings:
            return values
        sort, read = self._meanings[name]
        if any(isinstance(value, str) for value in values):
            self.meant[name] = sort
        return [value for value in map(read, values) if value is not None]

    def _truth(self, node: Any, row: Row) -> bool | None:
        exp, kind = self._exp, type(node).__name__
        if isinstance(node, exp.Paren):
            return self._truth(node.this, row)
        if isinstance(node, exp.Not):
            told = self._truth(node.this, row)
            return None if told is None else not told
        if isinstance(node, (exp.And, exp.Or)):
            return _joined([self._truth(node.left, row), self._truth(node.right, row)], isinstance(node, exp.Or))
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            return row[self._column(node.this)] is None
        if isinstance(node, exp.Between):
            ends = (("GTE", node.args["low"]), ("LTE", node.args["high"]))
            return _joined([self._compared(name, node.this, end, row) for name, end in ends], decided=False)
        if isinstance(node, exp.In) and node.expressions:
            return _joined([self._compared("EQ", node.this, each, row) for each in node.expressions], decided=True)
        if kind in _COMPARISONS:
            turned = not isinstance(node.left, exp.Column)
            sides = (node.right, node.left) if turned else (node.left, node.right)
            return self._compared(_TURNED.get(kind, kind) if turned else kind, *sides, row)
        raise NotSimple

    def _compared(self, kind: str, column: Any, other: Any, row: Row) -> bool | None:
        value, wanted = row[self._column(column)], constant(other)
        if wanted is None or isinstance(wanted, bool):
            raise NotSimple
        if value is None:
            return None
        as_it_is = kind in ("EQ", "NEQ") and isinstance(wanted, str)
        name = column.name.casefold()
        if name in self._meanings and not as_it_is:
            sort, read = self._meanings[name]
            if isinstance(value, str):
                self.meant[name] = sort
            value, wanted = read(value), read(wanted)
            if wanted is None:
                raise NotSimple
            if value is None:
                return None
        elif isinstance(value, (int, float)) and isinstance(wanted, str):
            wanted = number(wanted)
        if isinstance(value, str) != isinstance(wanted, str) or wanted is None:
            raise NotSimple
        if isinstance(value, str) and kind not in ("EQ", "NEQ"):
            raise NotSimple
        return _COMPARISONS[kind](value, wanted)


def _joined(sides: list[bool | None], decided: bool) -> bool | None:
    """OR of sides when `decided`, else AND."""
    return decided if decided in sides else None if None in sides else not decided


def _refuse() -> Any:
    raise NotSimple
