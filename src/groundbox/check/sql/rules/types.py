"""Types that do not fit: numbers and days as texts, texts compared with numbers, whole numbers that are divided."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from groundbox.check.sql.finding import Context, Finding, Rule
from groundbox.check.sql.parts import COMPARISONS, Predicate, Ref, Select, exp, is_one_of, own
from groundbox.check.sql.source import Kind

_NUMERIC: Final = re.compile(r"\s*-?\d+(?:\.\d+)?\s*")
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}|\d{4}/\d{2}/\d{2}")
_ORDERS: Final = ("<", "<=", ">", ">=")
_TEXTS: Final = (
    *("TimeToStr", "Substring", "DPipe", "Concat", "Lower", "Upper", "Trim", "Replace", "Hex", "GroupConcat", "Left"),
    *("Date", "TsOrDsToDate", "CurrentDate", "CurrentTime", "CurrentTimestamp", "Right", "Pad", "Typeof"),
)
"""sqlglot's classes of functions that give a text."""
_TEXT_NAMES: Final = frozenset(
    {"strftime", "substr", "substring", "printf", "format", "hex", "quote", "char", "date", "time", "datetime"}
)
_NUMBERS: Final = ("Count", "Sum", "Avg", "Length", "Round", "Abs", "Add", "Sub", "Mul", "Div", "Mod", "StrPosition")
_BEGINS: Final = re.compile(r"\s*-?\d+(?:\.\d+)?")
_DAYS: Final = ("Date", "TsOrDsToDate", "CurrentDate", "CurrentTimestamp")
_WIDTHS: Final = {"%m": 2, "%d": 2, "%H": 2, "%M": 2, "%S": 2, "%j": 3, "%Y": 4}
"""Digits that SQLite's strftime writes."""
_MOST_DEPTH: Final = 20
Told = tuple[str, str, str]
"""An expression, what is said of it, and a hint."""


def type_mismatch(c: Context) -> Iterator[Finding]:
    """Numbers and days as texts, ordered or compared letter by letter, and whole numbers that are divided."""
    findings = {told: (why, hint) for told, why, hint in (*_compared(c), *_by_function(c), *_ordered(c), *_divided(c))}
    findings |= {told: (why, hint) for told, why, hint in (*_added_up(c), *_subtracted(c), *_padded(c))}
    for told, (why, hint) in findings.items():
        yield Finding(code="sql.type_mismatch", message=f"{told}: {why}", hint=hint, evidence={"expression": told})


def _compared(c: Context) -> Iterator[Told]:
    """A column of texts compared with a number, or with a day in another form."""
    for each in c.query.predicates:
        if each.operator in ("like", "not like", "is null", "is not null"):
            continue
        numbers = [value for value in each.values if isinstance(value, (int, float)) and not isinstance(value, bool)]
        if each.through("Cast"):
            yield from _as_text(c, each, numbers)
            continue
        told, values = c.query.sql(each.node), _texts(c, each.ref)
        days = [value for value in each.values if isinstance(value, str) and _DATE.match(value)]
        if each.ref.declared.kind is Kind.TEXT and numbers:
            ordered = each.operator in _ORDERS
            if not _compares_alike(values, numbers, ordered=ordered):
                why = f"{each.ref.column} holds texts" + (", where '9' comes after '10'" if ordered else "")
                yield told, why, f"CAST({each.ref.column} AS REAL), or compare with a text."
        # '2024-03-05' against texts such as '3/5/24': letter by letter these never agree.
        elif days and each.ref.declared.kind is not Kind.NUMBER and values and not any(map(_DATE.match, values)):
            why = f"{each.ref.column} holds texts such as {values[0]!r}, not days in this form"
            yield told, why, "Write the day as the column does, or turn both into one form."


def _as_text(c: Context, each: Predicate, numbers: list[int | float]) -> Iterator[Told]:
    """CAST(x AS TEXT) < 10, which SQLite compares letter by letter."""
    cast = each.node.find(exp.Cast)
    if c.query.dialect != "sqlite" or not numbers or each.operator not in _ORDERS or cast.find(exp.Column) is None:
        return
    values = [str(value) for value in c.probes.values(each.ref.table, each.ref.column) if value not in (None, "")]
    if cast.is_type("text", "varchar", "char") and values and not _compares_alike(values, numbers, ordered=True):
        why = f"{c.query.sql(cast)} is a text, and as texts '9' comes after '10'"
        yield c.query.sql(each.node), why, f"Compare {each.ref.column} itself, or CAST({each.ref.column} AS REAL)."


def _texts(c: Context, ref: Ref) -> list[str]:
    if ref.declared.kind is Kind.NUMBER:
        return []
    return [str(value) for value in c.probes.values(ref.table, ref.column) if value not in (None, "")]


def _compares_alike(values: list[str], numbers: list[int | float], *, ordered: bool) -> bool:
    """Tell whether a number is compared with these texts as it should be: it is held, or all are years or alike."""
    if not ordered:
        return any(f"{number:g}" in values for number in numbers)
    # Of equal length, digits compare as their numbers do: years as texts are no mistake.
    lengths = {len(value) for value in [*values, *(str(number) for number in numbers)]}
    return bool(values) and all(value.isdigit() for value in values) and len(lengths) == 1


def _ordered(c: Context) -> Iterator[Told]:
    """ORDER BY, MIN or MAX of a column of texts that holds numbers."""
    for select in c.query.selects:
        nodes = [*own(select.node, (exp.Min, exp.Max))]
        nodes += select.node.args["order"].expressions if select.has("order") else []
        for node in nodes:
            ref = select.ref(node.this)
            if ref is None or ref.declared.kind is not Kind.TEXT:
                continue
            values = _texts(c, ref)
            # Nine of ten: a column of numbers with an `n/a` in it is still one of numbers.
            numeric = sum(1 for value in values if _NUMERIC.fullmatch(value))
            lengths = {len(value.split(".")[0]) for value in values}
            if values and numeric >= 0.9 * len(values) and len(lengths) > 1:
                why = f"{ref} holds numbers as texts, where '9' comes after '10'"
                yield c.query.sql(node), why, f"CAST({ref.column} AS REAL) before ordering or aggregating."


def _by_function(c: Context) -> Iterator[Told]:
    """A function that gives a text, compared with a number, or the other way round: in SQLite they are never equal.

    SQLite turns one into the other for columns and CASTs only (https://www.sqlite.org/datatype3.html#affinity), and
    takes every text for greater than every number.
    """
    if c.query.dialect != "sqlite":
        return
    for select in c.query.selects:
        for node in own(select.node, (*(getattr(exp, name) for name in COMPARISONS), exp.In, exp.Between, exp.Case)):
            left, others = node.this, _compared_with(node)
            for one, rest in ((left, others), *((other, [left]) for other in others)):
                text = next((_text_as_number(each) for each in rest if _text_as_number(each)), "")
                if one is None or not rest:
                    continue
                if _gives_text(c, select, one) and any(_gives_number(c, select, each) for each in rest):
                    told = f"{c.query.sql(one)} gives a text, which is greater than every number and equal to none"
                    yield c.query.sql(node), told, f"CAST({c.query.sql(one)} AS INTEGER), or compare with a text."
                    break
                if text and _gives_number(c, select, one) and not isinstance(one, exp.Literal):
                    told = f"{c.query.sql(one)} gives a number, which is less than every text and equal to none"
                    yield c.query.sql(node), told, f"Write {text} without quotes."
                    break


def _compared_with(node: Any) -> list[Any]:
    if isinstance(node, exp.In):
        return list(node.expressions)
    if isinstance(node, exp.Between):
        return [node.args["low"], node.args["high"]]
    if isinstance(node, exp.Case):
        return [branch.this for branch in node.args["ifs"]] if node.this is not None else []
    return [node.expression]


def _text_as_number(node: Any) -> str:
    """The number that a text in quotes holds, or ""."""
    is_number = isinstance(node, exp.Literal) and node.is_string and _NUMERIC.fullmatch(node.this)
    return str(node.this).strip() if is_number else ""


def _gives_text(c: Context, select: Select, node: Any) -> bool:
    select, node = _meant(c, select, node)
    if isinstance(node, exp.Coalesce):
        return _gives_text(c, select, node.this)
    if isinstance(node, (exp.Case, exp.If)):
        given = _branches(node)
        return bool(given) and all(_gives_text(c, select, each) or each.is_string for each in given)
    if isinstance(node, (exp.Min, exp.Max)):
        ref = select.ref(node.this)
        return _gives_text(c, select, node.this) or (ref is not None and ref.declared.kind is Kind.TEXT)
    if isinstance(node, exp.Anonymous):
        return node.name.casefold() in _TEXT_NAMES
    return is_one_of(node, _TEXTS)


def _branches(node: Any) -> list[Any]:
    """What CASE or IIF gives, apart from NULL."""
    is_case = isinstance(node, exp.Case)
    given = [branch.args.get("true") for branch in (node.args["ifs"] if is_case else [node])]
    given.append(node.args.get("default" if is_case else "false"))
    return [each for each in given if each is not None and not isinstance(each, exp.Null)]


def _gives_number(c: Context, select: Select, node: Any) -> bool:
    select, node = _meant(c, select, node)
    if isinstance(node, exp.Neg):
        return _gives_number(c, select, node.this)
    if isinstance(node, exp.Literal):
        return not node.is_string
    return is_one_of(node, _NUMBERS)


def _meant(c: Context, select: Select, node: Any) -> tuple[Select, Any]:
    """The expression that a node stands for, and its select: out of brackets, subqueries and columns of those."""
    for _ in range(_MOST_DEPTH):
        if isinstance(node, exp.Paren):
            node = node.this
            continue
        inner, name = None, ""
        if isinstance(node, exp.Subquery):
            inner = node.this
        elif isinstance(node, exp.Column):
            source = select.scope.sources.get(node.table)
            inner, name = getattr(source, "expression", None), node.name.casefold()
        found = next((each for each in c.query.selects if each.node is inner), None)
        shown = (
            [each for each in found.node.expressions if name in ("", each.alias_or_name.casefold())] if found else []
        )
        if found is None or len(shown) != 1:
            break
        select, node = found, shown[0].unalias()
    return select, node


def _added_up(c: Context) -> Iterator[Told]:
    """SUM, AVG or CAST of texts that begin with a number, of which SQLite and MySQL read the beginning only."""
    if c.query.dialect not in ("sqlite", "mysql"):
        return
    for select in c.query.selects:
        for node in own(select.node, (exp.Sum, exp.Avg, exp.Cast)):
            is_number = not isinstance(node, exp.Cast) or node.to.is_type(*exp.DataType.NUMERIC_TYPES)
            ref = select.ref(node.this)
            if ref is None or ref.declared.kind is not Kind.TEXT or not is_number:
                continue
            values = _texts(c, ref)
            cut = [value for value in values if _BEGINS.match(value) and not _NUMERIC.fullmatch(value)]
            # Nine of ten begin so: of a street's number in front of its name nobody makes a sum.
            if cut and sum(1 for value in values if _BEGINS.match(value)) >= 0.9 * len(values):
                if all(_DATE.match(value) for value in cut):
                    continue
                read = _BEGINS.match(cut[0])[0].strip()  # type: ignore[index]
                why = f"{ref} holds texts such as {cut[0]!r}, of which {read} is read"
                yield c.query.sql(node), why, f"REPLACE({ref.column}, ',', '') or the like before the number is taken."


def _subtracted(c: Context) -> Iterator[Told]:
    """A day minus a day, which SQLite takes for the years that they begin with."""
    if c.query.dialect != "sqlite":
        return
    for select in c.query.selects:
        for node in own(select.node, exp.Sub):
            if _is_day(c, select, node.left) and _is_day(c, select, node.right):
                why = "days are texts here, of which the year alone is subtracted"
                yield c.query.sql(node), why, "JULIANDAY(…) - JULIANDAY(…) gives days."


def _is_day(c: Context, select: Select, node: Any) -> bool:
    select, node = _meant(c, select, node)
    if isinstance(node, exp.Literal):
        return node.is_string and _DATE.match(node.this) is not None
    if is_one_of(node, _DAYS):
        return True
    if isinstance(node, (exp.Min, exp.Max)):
        node = node.this
    ref = select.ref(node)
    values = _texts(c, ref) if ref is not None and ref.declared.kind is not Kind.NUMBER else []
    return bool(values) and all(map(_DATE.match, values))


def _padded(c: Context) -> Iterator[Told]:
    """strftime('%m', day) = '1', which is '01'."""
    if c.query.dialect != "sqlite":
        return
    for select in c.query.selects:
        for node in own(select.node, (*(getattr(exp, name) for name in COMPARISONS), exp.In, exp.Between)):
            sides = [node.this, *_compared_with(node)]
            formats = [side.args["format"].name for side in sides if isinstance(side, exp.TimeToStr)]
            width = _WIDTHS.get(formats[0]) if len(formats) == 1 else None
            for side in sides if width else ():
                text = _text_as_number(side)
                if text.isdigit() and len(text) < (width or 0):
                    why = f"{formats[0]} gives texts of {width} digits, so that {text!r} is none of them"
                    yield c.query.sql(node), why, f"Write '{text.zfill(width or 0)}'."
                    break


def _divided(c: Context) -> Iterator[Told]:
    """A whole number divided by a whole number, where the engine drops what is behind the point."""
    # There `/` keeps what is behind the point; PostgreSQL and SQLite divide whole numbers to whole ones.
    if c.query.dialect in ("duckdb", "mysql"):
        return
    for select in c.query.selects:
        for node in own(select.node, exp.Div):
            if all(_is_whole(c, select, side, _MOST_DEPTH) for side in (node.left, node.right)):
                why = "a division of whole numbers, which drops what is behind the point"
                yield c.query.sql(node), why, "Multiply one side by 1.0."


def _is_whole(c: Context, select: Select, node: Any, deep: int) -> bool:
    """Return whether an expression gives whole numbers, or NULL, only."""
    select, node = _meant(c, select, node)
    if deep == 0 or node is None:
        return False
    if isinstance(node, (exp.Count, exp.Length)) or (isinstance(node, exp.Predicate) and c.query.dialect == "sqlite"):
        return True
    if isinstance(node, exp.Literal):
        return not node.is_string and node.this.isdigit()
    if isinstance(node, exp.Cast):
        return "INT" in node.to.sql().upper()
    if isinstance(node, (exp.Case, exp.If)):
        parts = _branches(node)
    elif isinstance(node, exp.Coalesce):
        parts = [node.this, *node.expressions]
    elif isinstance(node, (exp.Add, exp.Sub, exp.Mul, exp.Mod)):
        parts = [node.left, node.right]
    elif isinstance(
        node, (exp.Sum, exp.Max, exp.Min, exp.Abs, exp.Neg, exp.Distinct, exp.Filter, exp.Window, exp.Nullif)
    ):
        parts = node.expressions if isinstance(node, exp.Distinct) else [node.this]
    else:
        ref = select.ref(node)
        return ref is not None and "INT" in ref.declared.type.upper()
    return bool(parts) and all(_is_whole(c, select, part, deep - 1) for part in parts)


RULES: tuple[Rule, ...] = (type_mismatch,)
