"""Constants that a query compares columns with, looked for in the data; conditions and names, in the question."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from groundbox.check.nouns import singular
from groundbox.check.sql.finding import Context, Finding, Rule
from groundbox.check.sql.parts import Predicate
from groundbox.check.sql.question import Question, name_stems
from groundbox.check.sql.rules.days import moments
from groundbox.check.sql.source import Kind

_MOST_CHARS: Final = 200
_NUMERIC: Final = re.compile(r"\s*-?\d+(?:\.\d+)?\s*")
_FLAGS: Final = frozenset({"t", "f", "y", "n", "yes", "no", "true", "false", "0", "1"})
_PARTLY: Final = re.compile(
    r"\b(?:contain|includ|substring|start|begin|end|with the (?:word|letter|string|substring)"
    r"|ha(?:s|ve|ving) (?:the|an?)?\s+(?:word|letter|string|substring|text|in)\b)",
    re.IGNORECASE,
)
_SMALL_WORDS: Final = frozenset(
    {
        *("a", "an", "and", "are", "at", "by", "did", "do", "does", "for", "from", "had", "has", "have", "how", "in"),
        *("is", "it", "its", "many", "not", "of", "on", "one", "or", "than", "that", "the", "their", "them", "then"),
        *("there", "these", "they", "this", "those", "to", "was", "were", "what", "which", "who", "with", "find"),
    }
)
_UNITS: Final = (100.0, 1e3, 1e6, 1e9)


def value_absent(c: Context) -> Iterator[Finding]:
    """A constant that the column does not hold: in other letters, in another column, as a text among numbers, or not.

    A text that the column holds with other blanks around it is told as that, and so is any text that is compared with
    a column whose values have blanks around them: nothing without them can be equal to those.
    """
    seen = set()
    for each in c.query.predicates:
        if each.operator not in ("=", "in", "like", "not like") or each.through("Cast"):
            continue
        for value in each.values:
            if not isinstance(value, str) or not value or len(value) > _MOST_CHARS or (each.ref.place, value) in seen:
                continue
            seen.add((each.ref.place, value))
            if moments(c, each, value):
                continue  # `days` says what is wrong
            if each.operator in ("like", "not like"):
                yield from _pattern(c, each, value)
            elif each.ref.declared.kind is Kind.NUMBER:
                if not _NUMERIC.fullmatch(value) and not _is_among_numbers(c, each, value):
                    told = f"{each.ref} is of type {each.ref.declared.type}, and holds no text such as {value!r}"
                    yield _absent(each, value, told, "Compare with a number, or the column that holds such texts.")
            elif each.ref.declared.kind not in (Kind.TIME, Kind.FLAG):
                yield from _text(c, each, value)


def _is_among_numbers(c: Context, each: Predicate, value: str) -> bool:
    """Tell whether a column of numbers holds a text, as SQLite lets it."""
    # SQLite keeps a text in an INTEGER column as it is (type affinity); other engines would have refused it.
    held = c.probes.holds(each.ref.table, each.ref.column, value) if c.query.dialect == "sqlite" else None
    return held is not None and held[0]


def _text(c: Context, each: Predicate, value: str) -> Iterator[Finding]:
    held = c.probes.holds(each.ref.table, each.ref.column, value)
    # MySQL's default collations ignore case.
    insensitive = each.any_case or c.query.dialect == "mysql"
    if held is None or held[0] or (insensitive and held[1]) or (each.through("Trim") and held[2]):
        return
    values = [v for v in c.probes.values(each.ref.table, each.ref.column) if isinstance(v, str)]
    if held[1]:
        real = next((v for v in values if v.casefold() == value.casefold()), value.casefold())
        hint = f"Write it as the column does: {real!r}."
        yield _absent(each, value, f"{each.ref} holds {real!r}, not {value!r}", hint, held=[real])
        return
    padded = sum(v != v.strip() for v in values)
    # Half of the values with blanks: the column was filled from fields of fixed width.
    if held[2] or (padded and 2 * padded >= len(values) and not each.through("Trim")):
        yield _blanks(each, value, held=held[2])
        return
    places = c.probes.elsewhere(c.schema, value, each.ref.place)
    if places:
        told = f"{each.ref} does not hold {value!r}; {', '.join(places[:3])} does"
        yield _absent(each, value, told, f"Compare {places[0]} with it.", held_by=places)
        return
    if c.question is not None and value.strip().casefold() in c.question.text.casefold():
        return  # nobody could find what the question names: that is told by the empty result
    # Long texts are left out: the ratio takes time in the product of both lengths.
    near = difflib.get_close_matches(value, [v for v in values if len(v) <= _MOST_CHARS], 3, 0.6)
    told = f"{each.ref} does not hold {value!r}"
    told += f"; near to it is {' or '.join(map(repr, near))}" if near else ""
    hint = f"Write {near[0]!r}, if that is meant." if near else "Look at the values that the column holds."
    yield _absent(each, value, told, hint, held=near)


def _absent(each: Predicate, value: str, message: str, hint: str, **where: Sequence[str]) -> Finding:
    evidence = {"column": str(each.ref), "value": value, **where}
    return Finding(code="sql.value_absent", message=message, hint=hint, evidence=evidence)


def _blanks(each: Predicate, value: str, *, held: bool) -> Finding:
    told = f"holds {value.strip()!r} with other blanks around it" if held else "holds values with blanks around them"
    return Finding(
        code="sql.value_blanks",
        message=f"{each.ref} {told}: = and IN compare the blanks, too",
        hint=f"Compare TRIM({each.ref.column}), if the blanks have no meaning.",
        evidence={"column": str(each.ref), "value": value},
    )


def _pattern(c: Context, each: Predicate, told: str) -> Iterator[Finding]:
    """LIKE that finds nothing, or more than the text that the column holds as such."""
    inner = told.strip("%")
    # A pattern with wildcards inside stands for no text that the column could hold as such.
    if not inner or "%" in inner or "_" in inner:
        return
    found = c.probes.like(each.ref.table, each.ref.column, told, inner, any_case=each.any_case)
    # -1 is neither nothing nor something: the question could not be asked.
    count, exact = found or (-1, 0)
    if count == 0 and each.operator == "like":
        if c.question is not None and inner.strip().casefold() in c.question.text.casefold():
            return
        yield Finding(
            code="sql.value_absent",
            message=f"no value of {each.ref} is LIKE {told!r}",
            hint="Look at the values that the column holds.",
            evidence={"column": str(each.ref), "pattern": told},
        )
    elif 0 < exact < count and not (c.question is not None and c.question.says(_PARTLY)):
        yield Finding(
            code="sql.pattern_too_wide",
            message=f"{each.ref} holds {inner!r} as such in {exact} rows; LIKE {told!r} finds {count}",
            hint=f"Write = {inner!r}, if that value is meant.",
            evidence={"column": str(each.ref), "pattern": told, "exact": exact, "found": count},
        )


def not_said(c: Context) -> Iterator[Finding]:
    """A condition with a value and a column of which the question says nothing."""
    if c.question is None:
        return
    numbers = c.question.numbers | c.question.number_words
    for each in c.query.predicates:
        if each.operator in ("is null", "is not null") or c.question.mentions_part(each.ref.column):
            continue
        if not all(_is_said(c.question, each, value, numbers) for value in each.values):
            told = c.query.sql(each.node)
            yield Finding(
                code="sql.condition_differs",
                message=f"the question says nothing of {told}",
                hint="Leave the condition out, or take the value from the question.",
                evidence={"condition": told},
            )


def _is_said(question: Question, each: Predicate, value: Any, numbers: set[float]) -> bool:
    if not isinstance(value, str):
        # 0 and 1 are flags, and `a`, `one` or `no` say them.
        return value in (0, 1) or _says_number(question.text, float(value), numbers)
    # `United States` and `united-states` have the same words.
    words = [singular(word) for word in "".join(ch if ch.isalnum() else " " for ch in value).split()]
    # 'USA', 'CS': questions write such codes out.
    code = len(value) in (2, 3) and value.isupper()
    flag = value.casefold() in _FLAGS and name_stems(each.ref.column)[:1] in (["is"], ["has"], ["if"])
    return not flag and (not words or code or any(_begins(question, word) for word in words))


def _says_number(text: str, value: float, numbers: set[float]) -> bool:
    """Tell whether a number is meant: in digits or words, one off for a bound, in thousands, or as part of "1980s"."""
    if any(value + step in numbers or any((value + step) / unit in numbers for unit in _UNITS) for step in (0, 1, -1)):
        return True
    return f"{value:g}" in text or str(int(value)) in text


def _begins(question: Question, word: str) -> bool:
    """Tell whether a word of the question begins like it: French and France, republics and Republic."""
    if len(word) < 3:
        known = question.stem_set - _SMALL_WORDS
        return any(each.startswith(word) for each in known)
    # Without its ending, as in `republic` and `republics`; words that differ more, such as France and French, are
    # compared by their letters below.
    begin = word[: max(3, len(word) - 3)]
    if any(known.startswith(begin) or (len(known) > 2 and word.startswith(known)) for known in question.stem_set):
        return True
    return bool(difflib.get_close_matches(word, question.stem_set, 1, 0.6))


def not_used(c: Context) -> Iterator[Finding]:
    """Yield what the question names and the query does not use: a number, a quoted text, a flag, a table."""
    if c.question is None:
        return
    text = c.query.text.casefold()
    for value in c.question.quoted:
        if value.strip().casefold() not in text and value.strip(" .,!?").casefold() not in text:
            yield _unused(repr(value), "Use it as a condition.")
    for number in sorted(c.question.numbers):
        # `at least 3` may be written as > 2.
        if not any(f"{near:g}" in text for near in (number, int(number), number + 1, number - 1)):
            yield _unused(f"{number:g}", "Use it as a condition or a LIMIT.")
    for place in _flags(c, c.question, text):
        yield _unused(f"what {place} tells", f"Compare {place}.")
    for name in _tables(c, c.question):
        yield _unused(f"the table {name}", f"See whether {name} has to be joined.")


def _unused(what: str, hint: str) -> Finding:
    return Finding(
        code="sql.condition_differs",
        message=f"the question speaks of {what}; the query does not use it",
        hint=hint,
        evidence={"named": what},
    )


def _flags(c: Context, question: Question, text: str) -> Iterator[str]:
    """Columns that say yes or no of what the question names, such as is_member."""
    for table in c.schema:
        for column in table.columns:
            words = name_stems(column.name)
            if len(words) < 2 or words[0] not in ("is", "has", "if") or column.name.casefold() in text:
                continue
            # Only flags of tables that the query reads: columns of others may share the words by chance.
            if set(words[1:]) <= question.stem_set and table.name.casefold() in c.query.table_names:
                yield f"{table.name}.{column.name}"


def _tables(c: Context, question: Question) -> Iterator[str]:
    """Tables that the question names, unless a table or a column of the query has the words, or stands for them."""
    used = [table for table in c.schema if table.name.casefold() in c.query.table_names]
    names = [name for table in used for name in (table.name, *(column.name for column in table.columns))]
    words = {word for name in names for word in name_stems(name)} | _VERBS
    referred = {key.table.casefold() for table in used for key in table.foreign}
    for table in c.schema:
        if table in used or table.name.casefold() in referred or set(name_stems(table.name)) <= words:
            continue
        if question.mentions(table.name):
            yield table.name


_VERBS: Final = frozenset(
    {"show", "list", "order", "name", "number", "count", "find", "give", "return", "sort", "result", "state"}
)
RULES: tuple[Rule, ...] = (value_absent, not_said, not_used)
