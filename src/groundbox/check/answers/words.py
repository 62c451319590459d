"""Number words: twelve, twenty-five, two hundred and forty, three million, a dozen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

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
_UNITS: Final = {word: value for value, word in enumerate(_UNIT_WORDS.split())}
_TENS: Final = {word: 10 * value for value, word in enumerate(_TEN_WORDS.split(), 2)}
_SCALES: Final = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_DOZEN: Final = {"dozen": 12}
_ORDINALS: Final = {
    word: value
    for value, word in enumerate(
        _ORDINAL_WORDS.split(),
        1,
    )
}
_KNOWN: Final = {*_UNITS, *_TENS, *_SCALES, *_DOZEN, "hundred"}
_RUN: Final = re.compile(
    rf"(?<![\w-])(?:{'|'.join(sorted(_KNOWN, key=len, reverse=True))})"
    rf"(?:(?:-| and | )(?:{'|'.join(sorted(_KNOWN, key=len, reverse=True))})(?![\w]))*(?![\w])",
    re.IGNORECASE,
)
_ORDINAL: Final = re.compile(rf"(?<![\w-])(?:{'|'.join(_ORDINALS)})(?!\w)", re.IGNORECASE)


class Words(NamedTuple):
    """A number in words."""

    start: int
    end: int
    value: int
    ordinal: bool = False


def number_words(text: str) -> Iterator[Words]:
    """Cardinals and ordinals of the text, cardinals first."""
    for found in _RUN.finditer(text):
        yield from _cardinals(found[0], found.start())
    for found in _ORDINAL.finditer(text):
        yield Words(found.start(), found.end(), _ORDINALS[found[0].casefold()], True)


def _cardinals(run: str, start: int) -> Iterator[Words]:
    """The numbers of a run of number words: `one two` are two, `twenty two` is one."""
    done, part = 0, 0
    begin = end = -1
    lowest = 0
    for word in re.finditer(r"[a-z]+", run, re.IGNORECASE):
        token = word[0].casefold()
        if token == "and":
            continue
        value = _UNITS.get(token, _TENS.get(token, _DOZEN.get(token, 0)))
        size = 1 if token in _UNITS else 10 if token in _TENS else 1
        if (begin >= 0 and value and size >= lowest) or (token == "zero" and begin >= 0):
            yield Words(start + begin, start + end, done + part)
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
        yield Words(start + begin, start + end, done + part)
