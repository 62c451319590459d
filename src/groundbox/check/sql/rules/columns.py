"""Columns that the question names, beside those that the query shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from groundbox.check.sql.finding import Context, Finding, Rule
from groundbox.check.sql.parts import exp
from groundbox.check.sql.question import EVERYTHING, Question, name_stems

_WITH_COUNT = re.compile(
    r"\band (?:its |their |the |his |her )?(?:how many|number|count|total|corresponding|amount)|how many .*\?"
    r"|\bnumber of [\w ]+\band\b|along with",
    re.IGNORECASE,
)


def not_asked(c: Context) -> Iterator[Finding]:
    """Columns that are shown and not asked for: all by a star, what rows are chosen by, or others."""
    top = c.query.top
    if c.question is None or top is None or not c.has_rows:
        return
    # One of these is told: they are three views of one mistake, the plainest first.
    told = _star(c, c.question) or _chosen_by(c, c.question, top) or _more(c, c.question, top)
    if told:
        yield Finding(
            code="sql.columns_not_asked",
            message=told,
            hint="Select only what the question asks for; ORDER BY may name other columns all the same.",
            evidence={"shown": len(top.projections)},
        )


def _star(c: Context, question: Question) -> str:
    shown = c.query.tree.expressions
    stars = [
        n for n in shown if isinstance(n, exp.Star) or (isinstance(n, exp.Column) and isinstance(n.this, exp.Star))
    ]
    if not stars or (question.says(EVERYTHING) and re.search(r"\ball\b|\beverything\b|\bfull\b", question.text, re.I)):
        return ""
    return "SELECT * shows every column; the question does not ask for all"


def _chosen_by(c: Context, question: Question, top: Any) -> str:
    """A number that a superlative chooses by, shown beside what is asked for."""
    if not question.superlative or not top.has("order", "limit") or _WITH_COUNT.search(question.text):
        return ""
    counted = len(top.projections) > 1 and any(isinstance(each, exp.AggFunc) for each in top.projections)
    if not counted or not _sorted_by(c, top):
        return ""
    return "the number that the rows are chosen by is shown, too; the question asks for what has the most or least"


def _more(c: Context, question: Question, top: Any) -> str:
    if question.asked is None or question.says(EVERYTHING):
        return ""
    items, all_of_them = question.asked
    # `for each country` may show the country beside what is asked for.
    shown, room = len(top.projections), len(items) + (1 if question.each else 0)
    if shown <= room or not all_of_them:
        return ""
    extra = _sorted_by(c, top)
    return f"the result has {shown} columns; the question asks for {', '.join(items)}" + (
        f", and {extra} is only what the rows are chosen by" if extra else ""
    )


def _sorted_by(c: Context, top: Any) -> str:
    """A shown column that the rows are ordered by."""
    if not top.has("order"):
        return ""
    keys = {c.query.sql(each.this) for each in top.node.args["order"].expressions}
    for projection in top.node.expressions:
        alias = projection.alias
        if {c.query.sql(projection.unalias()), alias, f'"{alias}"', f"`{alias}`"} & keys:
            return str(projection.alias_or_name)
    return ""


def other_column(c: Context) -> Iterator[Finding]:
    """Fewer columns than are asked for, or one whose name says less of the question than that of another."""
    question, top = c.question, c.query.top
    if question is None or top is None or question.asked is None or question.says(EVERYTHING) or not c.has_rows:
        return
    items, shown = question.asked[0], len(top.projections)
    if shown < len(items):
        yield Finding(
            code="sql.other_column",
            message=f"the question asks for {len(items)} things ({', '.join(items)}); the result has {shown} columns",
            hint="Select each of them.",
            evidence={"asked": items, "shown": shown},
        )
    places = c.query.column_places()
    for column in top.shown_columns():
        ref = top.ref(column)
        if ref is None:
            continue
        words, owner = set(name_stems(ref.column)), set(name_stems(ref.table))
        for other in ref.owner.columns:
            more = set(name_stems(other.name))
            if (ref.table.casefold(), other.name.casefold()) in places or not more <= question.stem_set:
                continue
            # `name` where `first name` is asked for: the other column has all words of this one and more of the
            # question, which are not just the table's own (`singer_name` of singer says nothing more than `name`).
            if words < more and more - words - owner:
                yield Finding(
                    code="sql.other_column",
                    message=f"{ref.column} is shown; {other.name} has more words of the question",
                    hint=f"See whether {other.name} is meant.",
                    evidence={"shown": ref.column, "closer": other.name},
                )
                return


RULES: tuple[Rule, ...] = (not_asked, other_column)
