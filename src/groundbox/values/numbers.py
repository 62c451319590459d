"""Numbers as English writes them, in digits and in words.

Digits: `1,234.5`, `1.234,5`, `1'234.5`, `12,34,567`, `١٬٢٣٤٫٥` and `1 234` (with a no-break blank) have one reading
each. What could be both, such as `1.234` in a text with decimal commas, has two, and either one that was shown is
support enough.

Words: twelve, twenty-five, two hundred and forty, three million, a dozen, and the ordinals up to twelfth.

Questions about databases (`groundbox.check.sql`) and answers (`groundbox.check.answers`) are read by this module alone;
what is said of runs (`groundbox.trace.claims`) has its words and its plain digits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import Final, NamedTuple

MOST_DIGITS: Final = 400
MOST_EXPONENT: Final = 400
GROUPED: Final = r"\d+(?:,\d{3})*(?:\.\d+)?"
"""Digits with commas between thousands at most, for other expressions: as programs print them and models write them."""
_BLANKS: Final = "\u00a0\u202f\u2009"
DIGITS: Final = rf"\d+(?:[.,'’_٬٫{_BLANKS}]\d+)*"
_EXPONENT: Final = (
    r"(?:[eE][+-]?\d{1,4}(?![\w])| ?[×x*] ?10(?:\^[({]?[+\-−]?\d{1,3}[)}]?|\*\*-?\d{1,3}|[⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,3}))?"
)
NUMERAL: Final = re.compile(DIGITS + _EXPONENT)
_COMMA_LOCALE: Final = re.compile(
    r"\d\.\d{3},\d|\d,\d{1,2}(?:[ \u00a0\u202f]?[%€]|[ \u00a0\u202f](?:EUR|Euro|Prozent|Mio|Mrd)\b)"
)
_ARABIC: Final = str.maketrans("٬٫", "'.")
"""Separators of thousands and of decimals among Arabic digits."""
_SUPERSCRIPT: Final = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻−", "0123456789+--")


class Number(NamedTuple):
    """A number as it was written.

    Attributes:
        quantum: The unit of its last digit: 0.1 for `3.2`, 100000 for `3.2 million`.
    """

    value: Decimal
    quantum: Decimal

    def times(self, factor: Decimal) -> Number:
        """The number and its precision in another unit."""
        return Number(self.value * factor, self.quantum * factor)


class Numeral(NamedTuple):
    """One number of a run of digits, with each way to read it; none if it is no number, such as `1.2.3`."""

    start: int
    end: int
    readings: Sequence[Number]


def has_decimal_commas(text: str) -> bool:
    """Whether the text writes 1,5 for one and a half somewhere where it can mean nothing else."""
    return _COMMA_LOCALE.search(text) is not None


def numerals(run: str, start: int = 0, *, comma: bool = False) -> Iterator[Numeral]:
    """The numbers of one match of `NUMERAL`."""
    found = re.match(DIGITS, run)
    assert found is not None
    body, exponent = run[: found.end()].translate(_ARABIC), _exponent(run[found.end() :])
    if exponent is None or len(body) > MOST_DIGITS:
        yield Numeral(start, start + len(run), ())
        return
    whole = _readings(body, comma)
    if whole is None:
        at = 0
        for part in re.split(r"[,'’_]", body):
            yield Numeral(start + at, start + at + len(part), _readings(part, comma) or ())
            at += len(part) + 1
        return
    yield Numeral(start, start + len(run), [number.times(Decimal(1).scaleb(exponent)) for number in whole])


def _exponent(text: str) -> int | None:
    """The power of ten that is written behind the digits; None if it is beyond all reason."""
    if not text:
        return 0
    if text[0] in "eE":
        power = text[1:]
    else:
        tail = text[text.index("10") + 2 :].translate(_SUPERSCRIPT)
        power = tail.strip("^*(){} ")
    value = int(power)
    return value if abs(value) <= MOST_EXPONENT else None


def _readings(body: str, comma: bool) -> list[Number] | None:
    """Each way to read the digits as one number, the likely one first; None for several numbers."""
    separators = re.findall(r"[^\d]", body)
    groups = re.split(r"[^\d]", body)
    if not separators:
        return [_number(body, "")]
    kinds = list(dict.fromkeys(separators))
    if len(kinds) == 1:
        return _one_kind(kinds[0], groups, comma)
    if len(kinds) == 2 and separators.count(kinds[1]) == 1 and kinds[1] in ".," and _grouped(groups[:-1]):
        return [_number("".join(groups[:-1]), groups[-1])]
    return None


def _one_kind(kind: str, groups: list[str], comma: bool) -> list[Number] | None:
    joined, grouped = "".join(groups), _grouped(groups)
    if len(groups) == 2 and kind in ".,":
        decimal, thousands = _number(*groups), [_number(joined, "")] if grouped and groups[0] != "0" else []
        if kind == ".":
            return [*thousands, decimal] if comma and thousands else [decimal]
        if comma:
            return [decimal, *thousands]
        return thousands or None
    if grouped:
        return [_number(joined, "")]
    return [] if kind == "." else None


def _grouped(groups: list[str]) -> bool:
    """Whether these are thousands in groups of three, or of two and three as in India."""
    first, *rest = groups
    if not 1 <= len(first) <= 3 or not rest:
        return False
    if all(len(group) == 3 for group in rest):
        return True
    return len(first) <= 2 and len(rest) > 1 and len(rest[-1]) == 3 and all(len(group) == 2 for group in rest[:-1])


def _number(whole: str, fraction: str) -> Number:
    try:
        value = Decimal(f"{whole}.{fraction}" if fraction else whole)
    except InvalidOperation:  # digits of scripts that Decimal does not know
        value = Decimal(0)
    return Number(value, Decimal(1).scaleb(-len(fraction)))


_UNIT_WORDS: Final = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen
"""
_TEN_WORDS: Final = """
twenty thirty forty fifty sixty seventy eighty ninety
"""
_ORDINAL_WORDS: Final = """
first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth
"""
UNITS: Final = {word: value for value, word in enumerate(_UNIT_WORDS.split())}
_TENS: Final = {word: 10 * value for value, word in enumerate(_TEN_WORDS.split(), 2)}
_SCALES: Final = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
ORDINALS: Final = {word: value for value, word in enumerate(_ORDINAL_WORDS.split(), 1)}
TIMES: Final = {"never": 0, "once": 1, "twice": 2, "thrice": 3}
_SMALL: Final = {**UNITS, **_TENS, "dozen": 12}
_KNOWN: Final = {*_SMALL, *_SCALES, "hundred"}
_ANY: Final = "|".join(sorted(_KNOWN, key=len, reverse=True))  # the longest first: `six` is the beginning of `sixty`
CARDINAL: Final = rf"(?:{_ANY})(?:(?:-| and | )(?:{_ANY})(?![\w]))*(?![\w])"
"""A run of number words, for other expressions; `cardinal` reads what it matches."""
_RUN: Final = re.compile(rf"(?<![\w-]){CARDINAL}", re.IGNORECASE)
_ORDINAL: Final = re.compile(rf"(?<![\w-])(?:{'|'.join(ORDINALS)})(?!\w)", re.IGNORECASE)


class NumberWords(NamedTuple):
    """A number in words."""

    start: int
    end: int
    value: int
    ordinal: bool = False


def cardinal(run: str) -> int:
    """The first number of a run that `CARDINAL` matches."""
    return next(_cardinals(run, 0)).value


def number_words(text: str) -> Iterator[NumberWords]:
    """Cardinals and ordinals of the text, cardinals first."""
    for found in _RUN.finditer(text):
        yield from _cardinals(found[0], found.start())
    for found in _ORDINAL.finditer(text):
        yield NumberWords(found.start(), found.end(), ORDINALS[found[0].casefold()], True)


def _cardinals(run: str, start: int) -> Iterator[NumberWords]:
    """The numbers of a run of number words: `one two` are two, `twenty two` is one."""
    done, part = 0, 0
    begin = end = -1
    lowest = 0
    for word in re.finditer(r"[a-z]+", run, re.IGNORECASE):
        token = word[0].casefold()
        if token == "and":
            continue
        value, size = _SMALL.get(token, 0), 10 if token in _TENS else 1
        if (begin >= 0 and value and size >= lowest) or (token == "zero" and begin >= 0):
            yield NumberWords(start + begin, start + end, done + part)
            done = part = 0
            begin = -1
        if begin < 0:
            begin = word.start()
        if token in _SCALES:
            done, part, lowest = (done + (part or 1) * _SCALES[token]), 0, 1000
        elif token == "hundred":
            part, lowest = (part or 1) * 100, 100
        else:
            part, lowest = part + value, size
        end = word.end()
    if begin >= 0:
        yield NumberWords(start + begin, start + end, done + part)


def ordinal(number: int) -> str:
    """`1st`, `2nd`, `11th`."""
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"
