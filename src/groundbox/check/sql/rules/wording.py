"""Rules on wording: the query does it the other way round, or by another aggregate. English only."""

from __future__ import annotations

import re
from collections.abc import Iterator

from groundbox.check.sql.finding import Context, Finding, Rule
from groundbox.check.sql.parts import COMPARISONS, NEGATED, TURNED, constant, exp
from groundbox.check.sql.question import (
    ASCENDING,
    AVERAGE,
    COUNT,
    DESCENDING,
    EXTREME,
    NEGATION,
    TOTAL,
    Question,
    name_stems,
)

_LEAST = re.compile(
    r"\b(?<!at )(?:least|fewest|smallest|lowest|minimum|shortest|cheapest|lightest|slowest)\b", re.IGNORECASE
)
_GREATEST = re.compile(
    r"\b(?<!at )(?:most|largest|biggest|highest|maximum|longest|greatest|richest|heaviest|tallest)\b", re.IGNORECASE
)
_YOUNG = re.compile(r"\byoungest|\bnewest", re.IGNORECASE)
_OLD = re.compile(r"\boldest", re.IGNORECASE)
# `from least to most` and `not the largest` say both ends.
_TWO_WAYS = re.compile(r"\bnot\b|\bleast to most\b|\bto (?:high|low|larg|small|great|young|old)", re.IGNORECASE)
_RATIO = re.compile(r"percent|proportion|ratio|share|fraction|rate|typical|often", re.IGNORECASE)
_COUNTING = re.compile(
    r"more than|less than|at least|at most|fewer|only|single|multiple|popular|common|several|all|\bany\b|rare"
    r"|frequent|once|twice|both|repeat|duplicate|same",
    re.IGNORECASE,
)
_LEAVING_OUT = re.compile(r"\b(?:not|except)\b", re.IGNORECASE)
_AGGREGATE = "Check which aggregate is meant."
Told = tuple[str, str, str]
"""What the question asks for, what the query does, and how to write it."""


def wording_differs(c: Context) -> Iterator[Finding]:
    """An order, an extreme, a bound or an aggregate that is not the one of the question."""
    question = c.question
    if question is None:
        return
    told = (*_order(c, question), *_extreme(c, question), *_bounds(c, question), *_aggregates(c, question))
    for asked, done, hint in told:
        yield Finding(
            code="sql.wording_differs",
            message=f"the question asks for {asked}; the query {done}",
            hint=hint,
            evidence={"asked": asked},
        )


def _order(c: Context, question: Question) -> Iterator[Told]:
    top = c.query.top
    # With LIMIT the order only chooses; see `_extreme`.
    if top is None or not top.has("order") or top.has("limit"):
        return
    falls = bool(top.node.args["order"].expressions[0].args.get("desc"))
    if question.says(DESCENDING) != question.says(ASCENDING):
        if falls != question.says(DESCENDING):
            asked, done = ("descending", "ascending") if question.says(DESCENDING) else ("ascending", "descending")
            yield f"{asked} order", f"gives {done} order", f"ORDER BY … {'ASC' if falls else 'DESC'}."
    elif falls and not question.says(DESCENDING) and not question.superlative:
        yield "an order and says no more", "orders from high to low", "Without a word, an order is ascending."


def _extreme(c: Context, question: Question) -> Iterator[Told]:
    """The least is asked for and the query takes the first from above, or the other way round."""
    if question.says(_TWO_WAYS):
        return
    for select in c.query.selects:
        if not select.has("order", "limit") or constant(select.node.args["limit"].expression) != 1:
            continue
        first = select.node.args["order"].expressions[0]
        key, falls = c.query.sql(first.this), bool(first.args.get("desc"))
        lower, upper = _ends(question, key)
        if lower != upper and falls == lower:
            asked = f"the {'least' if lower else 'most'}"
            hint = f"ORDER BY {key} {'ASC' if lower else 'DESC'}."
            yield asked, f"takes the first of {'falling' if falls else 'rising'} {key}", hint


def _ends(question: Question, key: str) -> tuple[bool, bool]:
    """Tell whether the question asks for the lower or the upper end of what is ordered by."""
    words = set(name_stems(key))
    lower, upper = question.says(_LEAST), question.says(_GREATEST)
    # The youngest has the lowest age and the latest birthday.
    if words & {"age"}:
        lower, upper = lower or question.says(_YOUNG), upper or question.says(_OLD)
    if words & {"birth", "birthday", "birthdate", "born", "dob", "founded", "built", "opened"}:
        lower, upper = lower or question.says(_OLD), upper or question.says(_YOUNG)
    return lower, upper


def _bounds(c: Context, question: Question) -> Iterator[Told]:
    """A bound that includes its number where the question excludes it, or the other way round."""
    asked = question.bounds
    numbers = [number for _, number in asked]
    for node in c.query.qualified.find_all(exp.GT, exp.GTE, exp.LT, exp.LTE):
        number, operator = constant(node.expression), COMPARISONS[type(node).__name__]
        # `3 < x` has its number on the left.
        if number is None:
            number, operator = constant(node.this), TURNED[operator]
        # A number that the question bounds twice cannot be told apart.
        if isinstance(number, str) or number is None or numbers.count(float(number)) != 1 or question.says(NEGATION):
            continue
        wanted = asked[numbers.index(float(number))][0]
        # NOT (x > 3) or EXCEPT may ask for the opposite on purpose.
        left_out = operator == NEGATED[wanted] and _LEAVING_OUT.search(c.query.text)
        if wanted != operator and not left_out:
            yield f"{wanted} {number}", f"says {c.query.sql(node)}", f"Write {wanted} {number}."


def _aggregates(c: Context, question: Question) -> Iterator[Told]:
    """An average, a sum, an extreme or a count that is asked for and not taken, or taken and not asked for."""
    text = c.query.text.casefold()
    if question.says(AVERAGE) and not any(word in text for word in ("avg", "average", "/")):
        yield "an average", "takes none", _AGGREGATE
    if question.says(TOTAL) and not any(word in text for word in ("sum(", "count(", "total")):
        yield "a total", "adds nothing", _AGGREGATE
    if question.says(EXTREME) and not any(word in text for word in ("max", "min", "order by")):
        yield "a maximum or minimum", "takes none", _AGGREGATE
    # A share is counted, summed or averaged, as one likes.
    if _RATIO.search(question.text):
        return
    average = c.query.qualified.find(exp.Avg)
    if average is not None and not question.says(AVERAGE):
        yield "no average", f"takes {c.query.sql(average)}", _AGGREGATE
    counting = question.says(COUNT) or question.superlative or question.top_n is not None or question.says(TOTAL)
    counting = (
        counting or bool(question.numbers or question.number_words) or _COUNTING.search(question.text) is not None
    )
    shown = c.query.top.projections if c.query.top is not None else []
    count = next((each for each in shown if isinstance(each, exp.Count)), None)
    if count is not None and not counting:
        yield "no number of things", f"shows {c.query.sql(count)}", _AGGREGATE


RULES: tuple[Rule, ...] = (wording_differs,)
