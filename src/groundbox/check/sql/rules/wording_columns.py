"""Columns and tables that the question names, beside those that the query shows and reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from groundbox.check.sql.finding import Context, Finding, Rule
from groundbox.check.sql.parts import own, resolve, sqlglot_module
from groundbox.check.sql.question import Question, name_stems


def shown_columns(c: Context) -> Iterator[Finding]:
    """More columns, or fewer, than the question asks for."""
    question, top = c.question, c.query.top
    if question is None or top is None:
        return
    if _has_star(c):
        if not question.everything:
            yield Finding(
                code="sql.star",
                message="SELECT * shows every column; the question does not ask for all",
                hint="Select the columns that the question names.",
            )
        elif not re.search(r"\ball\b|\beverything\b|\bfull\b|\bcomplete\b", question.text, re.I):
            yield Finding(
                code="sql.star_for_details",
                message="SELECT * shows every column; the question asks for details, which may be some of them",
                hint="See whether a column is called so.",
            )
        return
    asked = question.asked
    if asked is None:
        return
    items, all_of_them = asked
    shown, wanted = len(top.projections), len(items)
    if shown < wanted and not question.everything:
        yield Finding(
            code="sql.columns_missing",
            message=f"the question asks for {wanted} things ({', '.join(items)}); the result has {shown} columns",
            hint="Select each of them.",
            evidence={"asked": items, "shown": shown},
        )
    room = wanted + (1 if question.each else 0)
    if shown > room and all_of_them and not question.everything:
        extra = _sorted_by(c, top)
        yield Finding(
            code="sql.sort_key_shown" if extra else "sql.columns_not_asked",
            message=f"the result has {shown} columns; the question asks for {', '.join(items)}"
            + (f", and {extra} is only what the rows are chosen by" if extra else ""),
            hint="Select only what the question asks for.",
            evidence={"asked": items, "shown": shown},
        )


def _has_star(c: Context) -> bool:
    """Whether it shows every column."""
    exp = sqlglot_module("expressions")
    shown = c.query.tree.expressions
    return any(isinstance(n, exp.Star) or (isinstance(n, exp.Column) and isinstance(n.this, exp.Star)) for n in shown)


def _sorted_by(c: Context, top: Any) -> str:
    """A shown column that the rows are ordered by, and that the question does not ask for."""
    if not top.has("order"):
        return ""
    keys = {c.query.sql(each.this) for each in top.node.args["order"].expressions}
    for projection in top.node.expressions:
        if {
            c.query.sql(projection.unalias()),
            projection.alias,
            f'"{projection.alias}"',
            f"`{projection.alias}`",
        } & keys:
            return str(projection.alias_or_name)
    return ""


def counted_and_shown(c: Context) -> Iterator[Finding]:
    """The count that a superlative chooses by, shown beside what is asked for."""
    question, top = c.question, c.query.top
    if question is None or top is None or not question.superlative or not top.has("order", "limit"):
        return
    if re.search(
        r"\band (?:its |their |the |his |her )?(?:how many|number|count|total|corresponding|amount)|how many .*\?"
        r"|\bnumber of [\w ]+\band\b|along with",
        question.text,
        re.I,
    ):
        return
    exp = sqlglot_module("expressions")
    if (
        len(top.projections) > 1
        and any(isinstance(each, exp.AggFunc) for each in top.projections)
        and _sorted_by(c, top)
    ):
        yield Finding(
            code="sql.count_shown",
            message="the number that the rows are chosen by is shown, too; the question asks only for what has "
            "the most or least",
            hint="Leave it out of SELECT; ORDER BY may name it all the same.",
        )


def tables_not_used(c: Context) -> Iterator[Finding]:
    """A table that the question names and the query does not read."""
    question = c.question
    if question is None:
        return
    used = c.query.table_names
    used_words = {word for name in used for word in name_stems(c.schema.table(name).name)} if used else set()  # type: ignore[union-attr]
    columns = {
        word
        for table in c.schema
        if table.name.casefold() in used
        for column in table.columns
        for word in name_stems(column.name)
    }
    for table in c.schema:
        words = name_stems(table.name)
        if table.name.casefold() in used or not words or set(words) <= used_words | columns | _VERBS:
            continue
        named = table.name.casefold()
        stands_for_it = any(key.table.casefold() == named for name in used for key in c.schema.table(name).foreign)  # type: ignore[union-attr]
        if question.mentions(table.name) and not stands_for_it:
            yield Finding(
                code="sql.table_not_used",
                message=f"the question speaks of {table.name}; the query does not read that table",
                hint=f"See whether {table.name} has to be joined.",
                evidence={"table": table.name},
            )


_VERBS = frozenset(
    {"show", "list", "order", "name", "number", "count", "find", "give", "return", "sort", "result", "state"}
)


def columns_not_used(c: Context) -> Iterator[Finding]:
    """A column that the question names word by word and the query does not use."""
    question = c.question
    if question is None:
        return
    used = c.query.column_places()
    used_words = {tuple(name_stems(column)) for _, column in used}
    flat = {word for words in used_words for word in words}
    text = c.query.text.casefold()
    for table in c.schema:
        for column in table.columns:
            words = name_stems(column.name)
            if table.name.casefold() not in c.query.table_names or len(words) == 0 or tuple(words) in used_words:
                continue
            if set(words) <= flat or (len(words) == 1 and (len(words[0]) < 4 or words[0] in _table_words(c))):
                continue
            if len(words) == 1 and words[0] in _DESCRIBING and not _is_noun(question, words[0]):
                continue
            if question.mentions(column.name) and column.name.casefold() not in text:
                yield Finding(
                    code="sql.column_not_used",
                    message=f"the question names {column.name}, a column of {table.name}; the query does not use it",
                    hint=f"See whether {table.name}.{column.name} is meant.",
                    evidence={"column": f"{table.name}.{column.name}"},
                )
                return


_DESCRIBING = frozenset(
    {
        *("highest", "lowest", "average", "total", "maximum", "minimum", "largest", "smallest", "best", "worst"),
        *("longest", "shortest", "oldest", "youngest", "latest", "earliest", "first", "last", "name"),
    }
)


def _is_noun(question: Question, word: str) -> bool:
    """Whether a word such as "average" stands for something by itself, as in "the average of all"."""
    places = [place for place, each in enumerate(question.stems) if each == word]
    after = [question.stems[place + 1] if place + 1 < len(question.stems) else "of" for place in places]
    return word != "name" and any(each in ("of", "for", "in", "on", "at", "is", "was") for each in after)


def _table_words(c: Context) -> set[str]:
    return {word for table in c.schema for word in name_stems(table.name)}


def shown_not_named(c: Context) -> Iterator[Finding]:
    """The one column that is shown has no word in common with the question, and another of the same table has."""
    exp = sqlglot_module("expressions")
    question, top = c.question, c.query.top
    if question is None or top is None or question.asked is None or _has_star(c):
        return
    items = question.asked[0]
    head = {word for item in items for word in (name_stems(item.replace(" ", "_")))}
    if items in (["which"], ["number"]):
        return
    for projection in top.projections:
        if isinstance(projection, exp.Count):
            continue
        for column in own(projection, exp.Column):
            ref = resolve(column, top.scope, c.schema)
            if ref is None:
                continue
            words = set(name_stems(ref.column))
            if words & (question.stem_set | head) or set(name_stems(ref.table)) & question.stem_set & words:
                continue
            table = c.schema.table(ref.table)
            shown = {each.name.casefold() for node in top.projections for each in own(node, exp.Column)}
            named = [each.name for each in table.columns if set(name_stems(each.name)) & head] if table else []
            better = [name for name in named if name.casefold() not in shown]
            if better:
                yield Finding(
                    code="sql.other_column_shown",
                    message=f"{ref.column} is shown, which the question does not name; it names "
                    f"{', '.join(better[:3])}",
                    hint=f"See whether {better[0]} is meant.",
                    evidence={"shown": ref.column, "named": better[:5]},
                )
                return


def closer_column(c: Context) -> Iterator[Finding]:
    """A column is used whose name says less than that of another, which the question spells out: name and song_name."""
    question, top = c.question, c.query.top
    if question is None or top is None:
        return
    exp = sqlglot_module("expressions")
    places = c.query.column_places()
    for projection in top.projections:
        for column in own(projection, exp.Column):
            ref = resolve(column, top.scope, c.schema)
            table = c.schema.table(ref.table) if ref else None
            if ref is None or table is None:
                continue
            words, owner = set(name_stems(ref.column)), set(name_stems(table.name))
            for other in table.columns:
                more = set(name_stems(other.name))
                added = more - words - owner
                if (
                    words < more
                    and added
                    and more <= question.stem_set
                    and (table.name.casefold(), other.name.casefold()) not in places
                ):
                    yield Finding(
                        code="sql.closer_column",
                        message=f"{ref.column} is shown; {other.name} has more words of the question",
                        hint=f"See whether {other.name} is meant.",
                        evidence={"shown": ref.column, "closer": other.name},
                    )
                    return


def flag_not_used(c: Context) -> Iterator[Finding]:
    """A column that says yes or no of what the question names, and that the query does not use."""
    if c.question is None:
        return
    text = c.query.text.casefold()
    for table in c.schema:
        for column in table.columns:
            words = name_stems(column.name)
            if len(words) < 2 or words[0] not in ("is", "has", "if") or column.name.casefold() in text:
                continue
            if set(words[1:]) <= c.question.stem_set and table.name.casefold() in c.query.table_names:
                yield Finding(
                    code="sql.flag_not_used",
                    message=f"the question says {' '.join(words[1:])}, of which {table.name}.{column.name} tells; "
                    "the query does not use it",
                    hint=f"Compare {column.name}.",
                    evidence={"column": f"{table.name}.{column.name}"},
                )


RULES: tuple[Rule, ...] = (
    closer_column,
    flag_not_used,
    shown_columns,
    counted_and_shown,
    tables_not_used,
    columns_not_used,
    shown_not_named,
)
