"""Words of a text as the check compares them: without case, plural endings and words that say nothing."""

from __future__ import annotations

import re
from typing import Final

from groundbox.check.english import singular

_SILENT: Final = """
a an and are as at be been but by for from had has have in into is it its of on or out per so than that the
their there these they this to was we were which while with you your i all each here did do does dtype int
float object name nan none true false
"""
_SHORT_MONTHS: Final = """
jan feb mar apr may jun jul aug sep oct nov dec
"""
_LONG_MONTHS: Final = """
jan january feb february mar march apr april may jun june jul july aug august sep sept september oct october
nov november dec december
"""
_WORD: Final = re.compile(r"[^\W\d_]+")
_STOP: Final = frozenset(_SILENT.split())
_MONTHS: Final = frozenset(_SHORT_MONTHS.split())
_MOST: Final = 400


def words(text: str) -> frozenset[str]:
    """The telling words of the text, in one form each."""
    found = _WORD.findall(text if len(text) <= 40 * _MOST else text[: 40 * _MOST])
    return frozenset(stem(word) for word in found[:_MOST] if word.casefold() not in _STOP)


def stem(word: str) -> str:
    """One form for singular and plural, and for a month and its abbreviation."""
    folded = word.casefold()
    return folded[:3] if folded[:3] in _MONTHS and folded in _FULL else singular(folded)


_FULL: Final = frozenset(_LONG_MONTHS.split())


def plain(text: str) -> str:
    """A text for comparison: without case, with single blanks and plain quotes."""
    return " ".join(text.translate(_QUOTES).casefold().split())


_QUOTES: Final = str.maketrans("‘’“”„«»−–\u00a0\u202f", '\'\'"""""--  ')
