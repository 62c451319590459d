"""Dates, months, quarters and times of day, in answers and in what was shown.

A date is a span of days: `2024-03-05` is one day, `March 2024` a month, `Q1 2024` a quarter.
`3/4/2024` has two readings.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from groundbox.check.answers.unspaced import spaced
from groundbox.values.numbers import ORDINALS

_MONTH_NAMES: Final = """
january february march april may june july august september october november december
"""
MONTHS: Final = {name[:length]: number for number, name in enumerate(_MONTH_NAMES.split(), 1) for length in (3, None)}
"""`jan` and `january`."""
MONTHS["sept"] = MONTHS["september"]
_MONTH: Final = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?)\.?"
)
_YEAR: Final = r"(?:1[5-9]|20|21)\d\d"
_DATE: Final = re.compile(
    rf"(?<![\w.,-])(?:"
    # The order decides: a branch that reads more stands before one that would read its beginning. None may begin behind
    # a digit, a point or a hyphen, and none may end before one, so that 2024-03-05 in a longer id is no date.
    rf"(?P<iso>{_YEAR}-\d\d-\d\d)(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{{1,9}})?)?(?:Z|[+-]\d\d:?\d\d)?)?(?![\w-]|\.\d)"
    rf"|(?P<ym>{_YEAR}-(?:0[1-9]|1[0-2]))(?![\w-]|\.\d)"
    rf"|(?P<slash>\d{{1,4}}/\d{{1,2}}/\d{{2,4}})(?![\w/])"
    rf"|(?P<dots>\d{{1,2}}\.\d{{1,2}}\.{_YEAR})(?![\w])"
    rf"|(?P<mdy>{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?,? {_YEAR})(?!\w)"
    rf"|(?P<dmy>\d{{1,2}}(?:st|nd|rd|th)?(?: of)? {_MONTH},? {_YEAR})(?!\w)"
    rf"|(?P<my>{_MONTH},? {_YEAR})(?!\w)"
    rf"|(?P<quarter>Q[1-4][ /-]?{_YEAR}|{_YEAR}[ -]?Q[1-4]|Q[1-4])(?!\w)"
    rf"|(?P<wordy>(?i:(?:first|second|third|fourth|1st|2nd|3rd|4th)[ -]quarter)(?: of)? {_YEAR})(?!\w)"
    rf"|(?P<md>{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?)(?![\w,]*\d|\w)"
    # `section 5 May be read` names no day: behind May, a number has to follow.
    rf"|(?P<dm>\d{{1,2}}(?:st|nd|rd|th)?(?: of)? (?!May\b(?! \d)){_MONTH})(?!\w)"
    rf"|(?P<time>(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d)?(?:\.\d{{1,9}})?)(?![\w:])"
    rf")"
)
_NUMBERS: Final = re.compile(r"\d+")
_UNSPACED: Final = re.compile(
    rf"(?<!\d)(?:(?P<year>{_YEAR}) ?[年년] ?)?(?P<month>1[0-2]|0?[1-9]) ?[月월](?: ?(?P<day>\d{{1,2}}) ?[日号號일])?"
)
"""`2024年3月6日` and its parts; a month alone is a number with a name."""


class Span(NamedTuple):
    """Days from `first` to `last`; with `any_year` the year says nothing; a time of day has no days."""

    first: datetime.date
    last: datetime.date
    any_year: bool = False


class Date(NamedTuple):
    """A date as it was written, with each way to read it. A time of day has no reading."""

    start: int
    end: int
    text: str
    readings: Sequence[Span]
    quarter: int = 0


def dates(text: str) -> Iterator[Date]:
    """The dates of the text that the calendar has."""
    pieces, at = [], 0
    for date in _unspaced(text):
        yield date
        pieces += [text[at : date.start], "\0" * (date.end - date.start)]
        at = date.end
    text = spaced("".join([*pieces, text[at:]]))
    for found in _DATE.finditer(text):
        kind = found.lastgroup or ""
        if kind == "time":
            yield Date(found.start(), found.end(), found[0], ())
            continue
        readings = [span for span in _read(kind, found[kind]) if span is not None]
        quarter = int(found[kind][1]) if kind == "quarter" and len(found[kind]) == 2 else 0
        # `2024-13-45` has the form of a date and no day in the calendar; its digits are then read as numbers.
        if readings or quarter:
            yield Date(found.start(), found.end(), found[0], readings, quarter)


def _unspaced(text: str) -> Iterator[Date]:
    if text.isascii():
        return
    for found in _UNSPACED.finditer(text):
        month = int(found["month"])
        if found["day"]:
            span = _day(int(found["year"] or 2024), month, int(found["day"]))
            reading = span if span is None or found["year"] else span._replace(any_year=True)
        else:
            reading = _months(int(found["year"]), month, 1) if found["year"] else None
        if reading is not None:
            yield Date(found.start(), found.end(), found[0], [reading])


def _read(kind: str, text: str) -> Iterator[Span | None]:
    numbers = [int(n) for n in _NUMBERS.findall(text)]
    month = _month(text)
    if kind == "iso":
        yield _day(*numbers)
    elif kind == "ym":
        yield _months(numbers[0], numbers[1], 1)
    elif kind == "slash":
        yield from _slashes(numbers)
    elif kind == "dots":
        yield _day(numbers[2], numbers[1], numbers[0])
    elif kind == "mdy" or kind == "dmy":
        yield _day(numbers[1], month, numbers[0])
    elif kind == "my":
        yield _months(numbers[0], month, 1)
    elif kind in ("md", "dm"):
        # A leap year, so that February 29 is one of its days; the year is never looked at.
        day = _day(2024, month, numbers[0])
        yield None if day is None else day._replace(any_year=True)
    elif kind == "wordy":
        quarter = ORDINALS.get(re.split("[ -]", text.casefold())[0]) or int(text[0])
        yield _months(numbers[-1], 3 * quarter - 2, 3)
    elif kind == "quarter" and len(numbers) == 2:
        quarter, year = sorted(numbers)
        yield _months(year, 3 * quarter - 2, 3)


def _slashes(numbers: list[int]) -> Iterator[Span | None]:
    one, two, three = numbers
    # 2024/03/05 is written by one order alone; 03/04/2024 by two, and the answer is told that it is ambiguous.
    if one > 31:
        yield _day(one, two, three)
        return
    # Nobody reports on 1924 with two digits in what is checked here.
    year = three + 2000 if three < 100 else three
    yield _day(year, one, two)
    if one != two:
        yield _day(year, two, one)


def _month(text: str) -> int:
    found = re.search(r"[A-Za-z]{3,9}", re.sub(r"(?<=\d)(?:st|nd|rd|th)|\bof\b", "", text))
    return MONTHS.get(found[0].casefold(), 0) if found else 0


def _day(year: int, month: int, day: int) -> Span | None:
    try:
        date = datetime.date(year, month, day)
    except ValueError:
        return None
    return Span(date, date)


def _months(year: int, month: int, count: int) -> Span:
    end = year * 12 + month - 1 + count
    return Span(datetime.date(year, month, 1), datetime.date(end // 12, end % 12 + 1, 1) - datetime.timedelta(1))
