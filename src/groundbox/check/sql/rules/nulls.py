"""Rows that are left out because a column is NULL there: by a negation, by COUNT of the column, or by a computation.

`x <> 1` and `NOT (x = 1)` are neither true nor false for NULL, so a row without a value is not among "all others".
Whether rows without a value are meant, nobody but the question can say; so the findings tell how the result changes
with them, and are silent where it does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from groundbox.check.sql.finding import Context, Finding, Rule
from groundbox.check.sql.parts import COMPARISONS, Ref, Select, exp, is_negated, nullable_aliases, own
from groundbox.check.sql.source import Rows

CODES: Final[Mapping[str, str]] = {
    "sql.null_left_out": "rows are left out because a column is NULL there: by a negation, by COUNT of it, or in "
    "a computation with other columns"
}
_NEGATED: Final = (*COMPARISONS, "In", "Like", "ILike", "Glob", "RegexpLike", "Between")
_MOST_TRIED: Final = 4


def negation(c: Context) -> Iterator[Finding]:
    """`<>`, NOT IN, NOT LIKE, NOT BETWEEN or NOT (…) on a column that is NULL in some rows."""
    tried = 0
    for select in c.query.selects:
        outer = nullable_aliases(select.node)
        for node in own(select.node, tuple(getattr(exp, name) for name in _NEGATED)):
            for ref in _compared(select, node):
                if ref.alias in outer or not ref.declared.nullable or _is_asked(select, ref):
                    continue
                if not _leaves_out(node) or tried >= _MOST_TRIED or not _holds_null(c, ref):
                    continue
                tried += 1
                changed = _result_with(c, node, _with_null(node, ref))
                if changed is not None:
                    yield _finding(c, c.query.sql(_whole(node)), f"add OR {ref.column} IS NULL", changed, ref)


def counted(c: Context) -> Iterator[Finding]:
    """COUNT of a column that is NULL in some rows, where the question does not ask for the column."""
    for select in c.query.selects:
        outer, counts = nullable_aliases(select.node), list(own(select.node, exp.Count))
        if any(isinstance(count.this, exp.Star) for count in counts):
            continue  # COUNT(*) beside COUNT(x) tells how many are missing
        for count in counts:
            ref = select.ref(count.this)
            if ref is None or ref.alias in outer or not ref.declared.nullable or not _holds_null(c, ref):
                continue
            if c.question is not None and c.question.mentions(ref.column):
                continue
            changed = _result_with(c, count, exp.Count(this=exp.Star()))
            if changed is not None:
                yield _finding(c, c.query.sql(count), "write COUNT(*)", changed, ref)


def computed(c: Context) -> Iterator[Finding]:
    """A computation of several columns, which gives NULL for a row in which one of them is NULL."""
    tried = 0
    for select in c.query.selects:
        outer = nullable_aliases(select.node)
        for node in own(select.node, (exp.DPipe, exp.Add, exp.Sub, exp.Mul, exp.Div)):
            # The outermost one, of what is shown or added up.
            if isinstance(_above(node), (exp.Binary, exp.Neg)) or node.find_ancestor(*_PLACES) is not select.node:
                continue
            refs = [ref for column in _operands(node) if (ref := select.ref(column)) is not None]
            if len({ref.place for ref in refs}) < 2:
                continue
            for column in _operands(node):
                ref = select.ref(column)
                if ref is None or ref.alias in outer or not ref.declared.nullable or _is_asked(select, ref):
                    continue
                if tried >= _MOST_TRIED or not _holds_null(c, ref):
                    continue
                tried += 1
                instead = exp.Literal.string("") if isinstance(node, exp.DPipe) else exp.Literal.number(0)
                told = c.query.sql(node)
                changed = _result_with(c, column, exp.Coalesce(this=column.copy(), expressions=[instead]))
                if changed is not None:
                    write = f"COALESCE({ref.column}, {c.query.sql(instead)})"
                    yield _finding(c, told, f"write {write}", changed, ref, how="is NULL for")


_PLACES: Final = (exp.Select, exp.Where, exp.Join, exp.Having, exp.Order, exp.Group, exp.Case, exp.If, exp.Coalesce)
"""What a computation stands in; of a condition, or of what looks for NULL itself, nothing is said."""


def _above(node: Any) -> Any:
    node = node.parent
    while isinstance(node, exp.Paren):
        node = node.parent
    return node


def _operands(node: Any) -> Iterator[Any]:
    """The columns that a computation is made of, without those within functions."""
    for side in (node.this, node.args.get("expression")):
        while isinstance(side, exp.Paren):
            side = side.this
        if isinstance(side, exp.Column):
            yield side
        elif isinstance(side, (exp.DPipe, exp.Add, exp.Sub, exp.Mul, exp.Div)):
            yield from _operands(side)


def _finding(c: Context, told: str, instead: str, changed: Rows, ref: Ref, how: str = "leaves out") -> Finding:
    rows = c.rows.rows if c.rows is not None else []
    if len(rows) == len(changed.rows) == 1 and len(rows[0]) == 1:
        difference = f"the result is {rows[0][0]!r}, and with them {changed.rows[0][0]!r}"
    else:
        difference = f"the result has {len(rows)} rows, and with them {len(changed.rows)}, or other values"
    return Finding(
        code="sql.null_left_out",
        message=f"{told} {how} rows in which {ref} is NULL: {difference}",
        hint=f"If rows without a value are meant too, {instead}.",
        evidence={"column": str(ref), "rows": len(rows), "rows_with_null": len(changed.rows)},
    )


def _compared(select: Select, node: Any) -> list[Ref]:
    sides = [node.this, node.args.get("expression")]
    return [ref for ref in (_plain(select, side) for side in sides if side is not None) if ref is not None]


def _plain(select: Select, node: Any) -> Ref | None:
    while isinstance(node, (exp.Paren, exp.Lower, exp.Upper, exp.Trim, exp.Cast, exp.Collate)):
        node = node.this
    return select.ref(node)


def _is_asked(select: Select, ref: Ref) -> bool:
    """Return whether the query looks for NULL itself, or joins by the column."""
    asked = (select.ref(each.this) for each in own(select.node, exp.Is))
    return any(each == ref for each in asked) or any(one == ref for one, _ in select.joins())


def _leaves_out(node: Any) -> bool:
    """Return whether a comparison is a negation: `NOT (x <> 1)` is none, and NOT IN (1, NULL) leaves out every row."""
    return is_negated(node) ^ isinstance(node, exp.NEQ) and not any(isinstance(n, exp.Null) for n in node.expressions)


def _holds_null(c: Context, ref: Ref) -> bool:
    sql = f"SELECT 1 FROM {c.probes.name(ref.table)} WHERE {c.probes.name(ref.column)} IS NULL"
    answer = c.budget.ask(sql, f"NULL in {ref}", max_rows=1)
    return answer is not None and bool(answer.rows)


def _with_null(node: Any, ref: Ref) -> Any:
    """The comparison, changed so that a row with NULL satisfies the negation."""
    column = exp.column(exp.to_identifier(ref.column, quoted=True), table=exp.to_identifier(ref.alias, quoted=True))
    missing = exp.Is(this=column, expression=exp.Null())
    if isinstance(node, exp.NEQ) or node.args.get("negate"):
        return exp.paren(exp.or_(node.copy(), missing))
    return exp.paren(exp.and_(node.copy(), exp.not_(missing)))


def _whole(node: Any) -> Any:
    """The comparison with the NOTs directly around it."""
    whole = node
    while isinstance(node.parent, (exp.Paren, exp.Not)):
        node = node.parent
        whole = node if isinstance(node, exp.Not) else whole
    return whole


def _result_with(c: Context, node: Any, other: Any) -> Rows | None:
    """The result of the query with another expression in the place of one; None if it is the same."""
    if c.rows is None or not c.rows.complete:
        return None
    node.replace(other)
    try:
        sql = c.query.sql(c.query.qualified)
    finally:
        other.replace(node)
    answer = c.budget.ask(sql, "the result with rows that have NULL")
    if answer is None or sorted(map(repr, answer.rows)) == sorted(map(repr, c.rows.rows)):
        return None
    return answer


RULES: tuple[Rule, ...] = (negation, counted, computed)
