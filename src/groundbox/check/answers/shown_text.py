"""Reads numbers out of text that a program printed: lines, columns, dictionaries, prints of tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from groundbox.check.answers.dates import dates
from groundbox.check.answers.sources import NO_WORDS, Count, Group, Place, Shown, Sources
from groundbox.check.answers.wording import words
from groundbox.check.english import NUMERAL, Number, numerals

_UNIT_NAMES: Final = """
k K M B s ms us µs ns min h d x b kb KB MB GB TB KiB MiB GiB kB g kg mg km cm mm m C F Hz j
"""
MOST_LINE: Final = 2_000_000
_AFTER: Final = re.compile(r"[A-Za-zµ_]\w{0,7}")
"""As much as tells a unit from a name; all of it, behind each digit of `1e1e1e…`, would be read again and again."""
_UNITS: Final = frozenset(_UNIT_NAMES.split())
_SCALES: Final = {"k": 3, "K": 3, "M": 6, "B": 9}
_RULE: Final = re.compile(r"[\s\-=+|:_─═┼│]*\Z")
_PAIR: Final = re.compile(r"[:=|]\s*['\"$€£(]{0,3}\Z")
_LISTING: Final = re.compile(r"[\[({]")


class _Token(NamedTuple):
    number: Number
    start: int
    end: int
    percent: bool


class _Line(NamedTuple):
    number: int
    text: str
    tokens: Sequence[_Token]


def read_text(text: str, place: Place, into: Sources, labels: frozenset[str] = NO_WORDS) -> None:
    """Takes the numbers, dates, columns and words of `text`."""
    into.say(text, place)
    block: list[_Line] = []
    header = ""
    for number, line in enumerate(text.splitlines(), 1):
        if _RULE.match(line) and (line.strip() or not block):
            continue
        read = _Line(
            number, line[:MOST_LINE], list(_tokens(line[:MOST_LINE], place._replace(where=f"line {number}"), into))
        )
        if len(line) > MOST_LINE:
            into.drop("characters shown", len(line) - MOST_LINE)
        if block and len(block[-1].tokens) != len(read.tokens):
            _take(block, header, place, into, labels)
            block = []
        if read.tokens:
            block.append(read)
        else:
            header = line
    _take(block, header, place, into, labels)


def _tokens(line: str, place: Place, into: Sources) -> Iterator[_Token]:
    line = _without_dates(line, place, into)
    for match in NUMERAL.finditer(line):
        before = line[max(0, match.start() - 2) : match.start()]
        after = _AFTER.match(line, match.end())
        if _is_name(before) or (after and after[0] not in _UNITS):
            continue
        scale = _SCALES.get(after[0], 0) if after else 0
        sign = -1 if before[-1:] in ("-", "−") and not (before[:-1].isalnum() or before[:-1] in ")]") else 1
        percent = line[match.end() : match.end() + 1] == "%" or line[match.end() : match.end() + 2] == " %"
        yield from _numbers(match, Decimal(sign).scaleb(scale), percent)


def _without_dates(line: str, place: Place, into: Sources) -> str:
    pieces, at = [], 0
    for date in dates(line):
        into.date(date, place)
        pieces += [line[at : date.start], "\0" * (date.end - date.start)]
        at = date.end
    return "".join([*pieces, line[at:]])


def _numbers(match: re.Match[str], factor: Decimal, percent: bool) -> Iterator[_Token]:
    """Both readings of `1,234`: the number, and two fields of a line of CSV."""
    for one in numerals(match[0], match.start()):
        if one.readings:
            number = one.readings[0]
            yield _Token(Number(number.value * factor, number.quantum * abs(factor)), one.start, one.end, percent)


def _is_name(before: str) -> bool:
    last = before[-1:]
    return last.isalpha() or (last == "_" and before[:-1].isalnum()) or (last == "-" and before[:-1].isalpha())


def _take(block: list[_Line], header: str, place: Place, into: Sources, labels: frozenset[str]) -> None:
    """Takes the lines of a block that have as many numbers each."""
    if not block:
        return
    width = len(block[0].tokens)
    names = _names(header, width)
    weak = _is_index(block)
    columns: list[list[Shown]] = [[] for _ in range(width)]
    for line in block:
        for position, shown in enumerate(_line(line, names, labels, place)):
            shown = shown._replace(weak=weak and position == 0)
            into.show(shown)
            columns[position].append(shown)
        if width > 1 and _LISTING.search(line.text):
            shown_here = [one[-1] for one in columns]
            into.groups.append(Group("the values", shown_here[0].place, shown_here, words(line.text)))
            into.counts.append(Count(width, "values listed", shown_here[0].place, words(line.text)))
    if len(block) > 1:
        where = place._replace(where=f"lines {block[0].number} to {block[-1].number}")
        title = words(header) | labels
        into.counts.append(Count(len(block), "lines with values", where, title))
        for name, column in zip(names, columns, strict=True):
            if not column[0].weak:
                into.groups.append(Group(name or "the values", where, column, words(name) | title))


def _line(line: _Line, names: Sequence[str], labels: frozenset[str], place: Place) -> Iterator[Shown]:
    where = place._replace(where=f"line {line.number}")
    leading, at = words(line.text[: line.tokens[0].start]), 0
    for token, name in zip(line.tokens, names, strict=True):
        between = line.text[at : token.start]
        row = words(between[-200:])
        if not (_PAIR.search(between) and row):
            row |= leading
        row |= words(line.text[token.end : token.end + 24].partition(",")[0])
        beside = row | words(name) | labels
        yield Shown(token.number, line.text[token.start : token.end], where, beside, token.percent, row=row)
        at = token.end


def _names(header: str, width: int) -> list[str]:
    """The last words of the line above as names of the columns."""
    parts = [part for part in re.split(r"\s{2,}|\t|[|,;]", header.strip()) if part.strip()]
    if len(parts) < width:
        parts = header.split()
    return parts[-width:] if len(parts) >= width else [""] * width


def _is_index(block: list[_Line]) -> bool:
    """Whether the lines begin with 0, 1, 2 … and go on."""
    if len(block) < 2 or block[0].tokens[0].number.value not in (0, 1):
        return False
    first = block[0].tokens[0].number.value
    return all(
        line.tokens[0].number.value == first + position
        and not line.text[: line.tokens[0].start].strip(" |#")
        and line.text[line.tokens[0].end :].strip()
        for position, line in enumerate(block)
    )
