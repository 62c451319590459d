"""Constants that a query compares columns with, looked for in the data."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Final

from groundbox.check.sql.finding import Context, Finding, Rule
from groundbox.check.sql.parts import Predicate
from groundbox.check.sql.question import name_stems, stem
from groundbox.check.sql.schema import Kind

_MOST_CHARS: Final = 200
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


def value_absent(c: Context) -> Iterator[Finding]:
    """A text that the column does not hold: in other letters, with blanks, in another column, or nowhere."""
    seen = set()
    for each in c.query.predicates:
        if each.operator not in ("=", "!=", "in", "not in") or each.column.kind in (Kind.NUMBER, Kind.TIME, Kind.FLAG):
            continue
        for value in each.values:
            if not isinstance(value, str) or not value or len(value) > _MOST_CHARS or (each.ref.place, value) in seen:
                continue
            seen.add((each.ref.place, value))
            yield from _absent(c, each, value)


def _absent(c: Context, each: Predicate, value: str) -> Iterator[Finding]:
    held = c.probes.holds(each.ref.table, each.ref.column, [value])
    if held is None or held[0] or (each.any_case and held[1]) or (each.through("Trim") and held[2]):
        return
    place = f"{each.ref.table}.{each.ref.column}"
    evidence = {"column": place, "value": value}
    insensitive = c.query.dialect == "mysql"
    if held[1] and not insensitive:
        real = _alike(c, each, value)
        yield Finding(
            code="sql.value_case",
            message=f"{place} holds {real!r}, not {value!r}",
            hint=f"Write it as the column does: {real!r}.",
            evidence={**evidence, "held": real},
        )
        return
    if held[2]:
        yield Finding(
            code="sql.value_blanks",
            message=f"{place} holds {value.strip()!r} with other blanks around it",
            hint=f"Compare TRIM({each.ref.column}).",
            evidence=evidence,
        )
        return
    places = c.probes.elsewhere(c.schema, value, each.ref.place)
    if places:
        yield Finding(
            code="sql.value_elsewhere",
            message=f"{place} does not hold {value!r}; {', '.join(places[:3])} does",
            hint=f"Compare {places[0]} with it.",
            evidence={**evidence, "held_by": places},
        )
        return
    texts = [v for v in c.probes.values(*_names(each)) if isinstance(v, str) and len(v) <= _MOST_CHARS]
    near = difflib.get_close_matches(value, texts, 3, 0.6)
    negated = each.operator in ("!=", "not in")
    code = "sql.value_near" if near else "sql.value_absent_negated" if negated else "sql.value_absent"
    yield Finding(
        code=code,
        message=f"{place} does not hold {value!r}"
        + (f"; near to it is {' or '.join(map(repr, near))}" if near else ""),
        hint=f"Write {near[0]!r}, if that is meant." if near else "Look at the values that the column holds.",
        evidence={**evidence, "near": near},
    )


def _names(each: Predicate) -> tuple[str, str]:
    return each.ref.table, each.ref.column


def _alike(c: Context, each: Predicate, value: str) -> str:
    held = [v for v in c.probes.values(*_names(each)) if isinstance(v, str)]
    return next((v for v in held if v.casefold() == value.casefold()), value.casefold())


def pattern(c: Context) -> Iterator[Finding]:
    """LIKE that finds nothing, or more than the text that the column holds as such."""
    for each in c.query.predicates:
        if each.operator not in ("like", "not like") or not isinstance(each.values[0], str):
            continue
        told = each.values[0]
        inner = told.strip("%")
        if not inner or "%" in inner or "_" in inner or len(told) > _MOST_CHARS:
            continue
        partly = c.question is not None and c.question.says(_PARTLY)
        found = c.probes.like(each.ref.table, each.ref.column, told, inner, any_case=each.any_case)
        if found is None:
            continue
        count, exact = found
        place = f"{each.ref.table}.{each.ref.column}"
        if count == 0:
            yield Finding(
                code="sql.pattern_absent",
                message=f"no value of {place} is LIKE {told!r}",
                hint="Look at the values that the column holds.",
                evidence={"column": place, "pattern": told},
            )
        elif 0 < exact < count and not partly:
            yield Finding(
                code="sql.pattern_too_wide",
                message=f"{place} holds {inner!r} as such in {exact} rows; LIKE {told!r} finds {count}",
                hint=f"Write = {inner!r}, if that value is meant.",
                evidence={"column": place, "pattern": told, "exact": exact, "found": count},
            )


def not_said(c: Context) -> Iterator[Finding]:
    """A condition with a value and a column of which the question says nothing."""
    if c.question is None:
        return
    numbers = c.question.numbers | c.question.number_words
    for each in c.query.predicates:
        if each.operator in ("is null", "is not null") or c.question.mentions_part(each.ref.column):
            continue
        for value in each.values:
            if isinstance(value, str):
                words = [stem(word) for word in "".join(ch if ch.isalnum() else " " for ch in value).split()]
                code = len(value) in (2, 3) and value.isupper()
                flag = value.casefold() in _FLAGS and _is_flag(each.ref.column)
                said = not flag and (not words or code or any(_begins(c, word) for word in words))
            else:
                said = value in (0, 1) or _says_number(c.question.text, float(value), numbers)
            if not said:
                told = c.query.sql(each.node)
                yield Finding(
                    code="sql.condition_not_asked",
                    message=f"the question says nothing of {told}",
                    hint="Leave the condition out, or take the value from the question.",
                    evidence={"condition": told},
                )
                break


def _says_number(text: str, value: float, numbers: set[float]) -> bool:
    """Whether a number is meant: in digits or words, one off for a bound, in thousands, or as part of "1980s"."""
    if any(value + step in numbers or any((value + step) / unit in numbers for unit in _UNITS) for step in (0, 1, -1)):
        return True
    return f"{value:g}" in text or str(int(value)) in text


_UNITS: Final = (100.0, 1e3, 1e6, 1e9)


def _is_flag(column: str) -> bool:
    return name_stems(column)[:1] in (["is"], ["has"], ["if"])


def _begins(c: Context, word: str) -> bool:
    """Whether a word of the question begins like it: French and France, republics and Republic."""
    assert c.question is not None
    if len(word) < 3:
        known = c.question.stem_set - _SMALL_WORDS
        return any(each.startswith(word) for each in known)
    begin = word[: max(3, len(word) - 3)]
    if any(known.startswith(begin) or (len(known) > 2 and word.startswith(known)) for known in c.question.stem_set):
        return True
    return bool(difflib.get_close_matches(word, c.question.stem_set, 1, 0.6))


def not_used(c: Context) -> Iterator[Finding]:
    """A number or a text in quotes that the question has and the query has not."""
    if c.question is None:
        return
    text = c.query.text.casefold()
    for value in c.question.quoted:
        if value.strip().casefold() not in text and value.strip(" .,!?").casefold() not in text:
            yield Finding(
                code="sql.value_not_used",
                message=f"the question says {value!r}, the query does not",
                hint="Use it as a condition.",
                evidence={"value": value},
            )
    for number in sorted(c.question.numbers):
        told = f"{number:g}"
        if (
            told not in text
            and str(int(number)) not in text
            and f"{number + 1:g}" not in text
            and f"{number - 1:g}" not in text
        ):
            yield Finding(
                code="sql.number_not_used",
                message=f"the question says {told}, the query does not",
                hint="Use it as a condition or a LIMIT.",
                evidence={"value": number},
            )


RULES: tuple[Rule, ...] = (value_absent, pattern, not_said, not_used)
