"""What the question says and the query does not do, or does otherwise. English only."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from groundbox.check.sql.finding import Context, Finding, Rule
from groundbox.check.sql.parts import Predicate, Select, constant, own, sqlglot_module
from groundbox.check.sql.question import Question, name_stems

_LEAST = re.compile(
    r"\b(?<!at )(?:least|fewest|smallest|lowest|minimum|shortest|cheapest|lightest|slowest)\b", re.IGNORECASE
)
_GREATEST = re.compile(
    r"\b(?<!at )(?:most|largest|biggest|highest|maximum|longest|greatest|richest|heaviest|tallest)\b", re.IGNORECASE
)
_YOUNG = re.compile(r"\byoungest|\bnewest", re.IGNORECASE)
_OLD = re.compile(r"\boldest", re.IGNORECASE)
_TWO_WAYS = re.compile(r"\bnot\b|\bleast to most\b|\bto (?:high|low|larg|small|great|young|old)", re.IGNORECASE)
_NEGATING = re.compile(r"\bnot\b|!=|<>|\bexcept\b|\bis null\b|= 0\b|'f'|'false'|'no'|\bmax\b|\bmin\b|<|>")


def both(c: Context) -> Iterator[Finding]:
    """ "A and B" of one thing, where the query takes rows of either, or one row that is both."""
    if c.question is None or c.question.either:
        return
    text = c.question.text.casefold()
    exp = sqlglot_module("expressions")
    for select in c.query.selects:
        if any(isinstance(each, (exp.Sum, exp.Avg, exp.Min, exp.Max)) for each in select.aggregates()):
            continue
        pairs = [(one, other) for one, other in itertools.combinations(select.predicates, 2) if one.ref == other.ref]
        told: Predicate | None = None
        for one, other in pairs:
            if one.operator != other.operator and {one.operator[0], other.operator[0]} != {"<", ">"}:
                continue
            apart = one.in_or and other.in_or and one.group != other.group
            alike = (
                not one.in_or and not other.in_or and one.operator in ("=", "like") and one.operator == other.operator
            )
            if (apart or alike) and _joined_by_and(text, one.values[0], other.values[0]):
                told = one
        for each in select.predicates:
            if each.operator == "in" and len(each.values) == 2 and _joined_by_and(text, *each.values):
                told = each
        if told is not None and not select.has("group", "having") and not _names_what_is_shown(c, select, told):
            yield Finding(
                code="sql.both_or_either",
                message=f"the question joins two values of {told.ref.column} by 'and'; the query looks for one "
                "row with either or both",
                hint="For what has the one and the other use INTERSECT, or two EXISTS.",
                evidence={"column": f"{told.ref.table}.{told.ref.column}"},
            )


def _names_what_is_shown(c: Context, select: Select, told: Predicate) -> bool:
    """Whether a row that is shown has one value only, as in "the ages of Ada and Alan": then either is right.

    A bound names no row; there it is what is shown that must tell rows apart.
    """
    exp = sqlglot_module("expressions")
    columns = [column for node in select.projections for column in own(node, exp.Column)]
    if {column.table for column in columns} != {told.ref.alias}:
        return False
    if told.operator[0] not in "<>":
        return c.probes.repeats(told.ref.table, [told.ref.column]) is False
    return c.probes.repeats(told.ref.table, list(dict.fromkeys(column.name for column in columns))) is False


def _joined_by_and(text: str, one: object, other: object) -> bool:
    a, b = (re.escape(str(value).strip("%").casefold()) for value in (one, other))
    if not a or not b:
        return False
    between = r"(?:(?!\bor\b).){0,60}\band\b(?:(?!\bor\b).){0,60}"
    return re.search(rf"{a}\b{between}\b{b}|{b}\b{between}\b{a}", text) is not None and f"between {one}" not in text


def negation(c: Context) -> Iterator[Finding]:
    """A question with a negation, a query without one; or the other way round."""
    if c.question is None:
        return
    text = c.query.text.casefold()
    joined_out = "left join" in text or "right join" in text
    if c.question.negated and not _NEGATING.search(text) and not joined_out:
        yield Finding(
            code="sql.negation_missing",
            message="the question says that something is not so; no condition of the query does",
            hint="Use NOT IN, NOT EXISTS or EXCEPT.",
        )
    if not c.question.negated and re.search(r"\bnot in\b|\bexcept\b|\bnot exists\b", text):
        yield Finding(
            code="sql.negation_not_asked",
            message="the query leaves something out by negation; the question does not say so",
            hint="Check that the opposite is not meant.",
        )


def aggregates(c: Context) -> Iterator[Finding]:
    """An average, a sum or an extreme that is asked for and not taken, or taken and not asked for."""
    question = c.question
    if question is None:
        return
    text = c.query.text.casefold()
    if question.average and "avg" not in text and "average" not in text and "/" not in text:
        yield Finding(
            code="sql.average_missing",
            message="the question asks for an average; the query takes none",
            hint="Use AVG.",
        )
    if question.total and "sum(" not in text and "count(" not in text and "total" not in text:
        yield Finding(
            code="sql.total_missing", message="the question asks for a total; the query adds nothing", hint="Use SUM."
        )
    named = any(word in text for word in ("max", "min", "order by"))
    if question.extreme and not named:
        yield Finding(
            code="sql.extreme_missing",
            message="the question asks for a maximum or minimum; the query takes none",
            hint="Use MAX or MIN.",
        )
    exp = sqlglot_module("expressions")
    if not question.average and not re.search(r"percent|ratio|rate|typical", question.text, re.IGNORECASE):
        for node in c.query.qualified.find_all(exp.Avg):
            yield Finding(
                code="sql.average_not_asked",
                message=f"{c.query.sql(node)} is an average; the question asks for none",
                hint="Check which aggregate is meant.",
            )
            break
    counting = question.counts or question.superlative or question.top_n is not None or question.total
    counting = counting or bool(question.numbers or question.number_words)
    if not counting and not re.search(
        r"more than|less than|at least|at most|fewer|only|single|multiple|popular|common|several|all|\bany\b"
        r"|percent|proportion|ratio|share|fraction|often",
        question.text,
        re.I,
    ):
        for node in c.query.qualified.find_all(exp.Count):
            yield Finding(
                code="sql.count_not_asked",
                message=f"{c.query.sql(node)} counts; the question asks for no number",
                hint="Select what the question asks for.",
            )
            break
    if re.search(r"how many people|how many (?:residents|inhabitants)|total population", question.text, re.I) and (
        "sum(" not in text
        and re.search(r"population|residents|inhabitants", text)
        and (c.rows is None or len(c.rows.rows) != 1)
    ):
        yield Finding(
            code="sql.sum_missing",
            message="the question asks for a number of people; the query gives one for each row",
            hint="Use SUM.",
        )


def order(c: Context) -> Iterator[Finding]:
    """An order that is asked for and missing, or the other way round."""
    question, top = c.question, c.query.top
    if question is None or top is None:
        return
    if not top.has("order"):
        if question.ordered and (c.rows is None or len(c.rows.rows) > 1):
            yield Finding(
                code="sql.order_missing",
                message="the question asks for an order; the query has none",
                hint="Use ORDER BY.",
            )
        return
    if top.has("limit"):
        return
    first = top.node.args["order"].expressions[0]
    falls = bool(first.args.get("desc"))
    if question.descending != question.ascending and falls != question.descending:
        asked, done = ("descending", "ascending") if question.descending else ("ascending", "descending")
        yield Finding(
            code="sql.order_direction",
            message=f"the question asks for {asked} order; the query gives {done} order",
            hint=f"ORDER BY … {'DESC' if question.descending else 'ASC'}.",
            evidence={"asked": asked},
        )
    elif falls and not question.descending and not question.superlative and not question.ascending:
        yield Finding(
            code="sql.descending_not_asked",
            message="the query orders from high to low; the question does not say so",
            hint="Without a word, an order is ascending.",
        )
    if not question.ordered and not question.superlative and question.top_n is None:
        yield Finding(
            code="sql.order_not_asked",
            message="the query orders its rows; the question does not ask for that",
            hint="Leave ORDER BY out if the order has no meaning.",
        )


def superlative_direction(c: Context) -> Iterator[Finding]:
    """The least is asked for and the query takes the first from above, or the other way round."""
    question = c.question
    if question is None or question.says(_TWO_WAYS):
        return
    for select in c.query.selects:
        if not select.has("order", "limit") or constant(select.node.args["limit"].expression) != 1:
            continue
        first = select.node.args["order"].expressions[0]
        lower, upper = _direction(question, c.query.sql(first.this))
        falls = bool(first.args.get("desc"))
        if lower != upper and falls == lower:
            yield Finding(
                code="sql.superlative_direction",
                message=f"the question asks for the {'least' if lower else 'most'}; the query takes the first of "
                f"{'falling' if falls else 'rising'} {c.query.sql(first.this)}",
                hint=f"ORDER BY {c.query.sql(first.this)} {'ASC' if lower else 'DESC'}.",
                evidence={"order": c.query.sql(first)},
            )


def _direction(question: Question, key: str) -> tuple[bool, bool]:
    """Whether the question asks for the lower or the upper end of what is ordered by."""
    words = set(name_stems(key))
    lower, upper = question.says(_LEAST), question.says(_GREATEST)
    if words & {"age"}:
        lower, upper = lower or question.says(_YOUNG), upper or question.says(_OLD)
    if words & {"birth", "birthday", "birthdate", "born", "dob", "founded", "built", "opened"}:
        lower, upper = lower or question.says(_OLD), upper or question.says(_YOUNG)
    return lower, upper


def distinct(c: Context) -> Iterator[Finding]:
    """Different ones are asked for, and nothing makes them different."""
    question, top = c.question, c.query.top
    if question is None or top is None or not question.distinct:
        return
    text = c.query.text.casefold()
    if "distinct" in text or top.has("group") or any(word in text for word in ("union", "intersect", "except")):
        return
    repeated = c.rows is not None and len(c.rows.rows) != len(set(c.rows.rows))
    counted = bool(top.aggregates())
    if repeated or counted:
        yield Finding(
            code="sql.distinct_missing",
            message="the question asks for different ones; the query does not make them different",
            hint="Use DISTINCT, or COUNT(DISTINCT …).",
        )


def than_any(c: Context) -> Iterator[Finding]:
    """ "more than any": more than each of them, or than one of them."""
    text = c.query.text.casefold()
    if (
        c.question is None
        or not c.question.says(re.compile(r"\bthan (?:that of |those of )?any\b", re.I))
        or not re.search(r"\(\s*select\s+(?:max|min)", text)
    ):
        return
    less = re.search(r"<\s*\(\s*select\s+min", text)
    more = re.search(r">\s*\(\s*select\s+max", text)
    if less or more:
        yield Finding(
            code="sql.than_any",
            message="the question says 'than any', which the query takes for each of them; it may mean one of them",
            hint=f"Compare with {'MAX' if less else 'MIN'} if one of them is enough.",
        )


def bounds(c: Context) -> Iterator[Finding]:
    """A bound that includes its number where the question excludes it, or the other way round."""
    if c.question is None:
        return
    exp = sqlglot_module("expressions")
    asked = c.question.bounds
    numbers = [number for _, number in asked]
    for node in c.query.qualified.find_all(exp.GT, exp.GTE, exp.LT, exp.LTE):
        number, operator = constant(node.expression), _OPERATORS[type(node).__name__]
        if number is None:
            number, operator = constant(node.this), _TURNED[operator]
        if isinstance(number, str) or number is None or numbers.count(float(number)) != 1:
            continue
        wanted = asked[numbers.index(float(number))][0]
        if wanted != operator and not c.question.negated:
            yield Finding(
                code="sql.bound_differs",
                message=f"the question asks for {wanted} {number}; the query says {c.query.sql(node)}",
                hint=f"Write {wanted} {number}.",
                evidence={"asked": wanted, "number": number},
            )


_OPERATORS = {"GT": ">", "GTE": ">=", "LT": "<", "LTE": "<="}
_TURNED = {">": "<", ">=": "<=", "<": ">", "<=": ">="}
RULES: tuple[Rule, ...] = (both, negation, aggregates, order, superlative_direction, distinct, than_any, bounds)
