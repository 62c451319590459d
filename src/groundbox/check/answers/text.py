"""Text as a reader sees it, without invisible and steering characters, and its words in one form each."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final, NamedTuple

from groundbox.check.answers.dates import MONTHS
from groundbox.check.nouns import singular

# Every branch ends at the next escape, so that many openings without an end cost no more than their length.
_ESCAPES: Final = re.compile(
    "\x1b\\[[0-?]{0,64}[ -/]{0,8}[@-~]|\x1b[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\)|\x1b[ -/]?[0-~]?"
    "|\x9b[0-?]{0,64}[ -/]{0,8}[@-~]"
)
# Unicode's embeddings, overrides and isolates (UAX #9): 123 can be made to read 321.
_BIDI: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_KEPT: Final = frozenset("\n\t")


class Visible(NamedTuple):
    """Text without the characters that a reader does not see.

    Attributes:
        places: For each character its position in the text as it was, and one more for the end; None if all are kept.
        hidden: How many characters were left out.
        bidi: Whether some of them turn the direction of the text.
    """

    text: str
    places: list[int] | None
    hidden: int
    bidi: bool

    def place(self, position: int) -> int:
        """Where the character at `position` stood."""
        return position if self.places is None else self.places[position]


def visible(text: str) -> Visible:
    """The visible text. Line breaks and tabs stay, a carriage return becomes a blank."""
    # Most texts; the rest of this function costs a list of all places.
    if text.isascii() and text.isprintable():
        return Visible(text, None, 0, False)
    hidden = {c for c in set(text) - _KEPT - {"\r"} if unicodedata.category(c) in ("Cc", "Cf", "Cs")}
    if not hidden:
        return Visible(text.replace("\r", " "), None, 0, False)
    # An escape sequence is left out as a whole, since its letters are visible characters that no terminal shows.
    bare = _ESCAPES.sub(lambda found: found[0][0] * len(found[0]), text)
    places = [position for position, c in enumerate(bare) if c not in hidden]
    kept = "".join([text[position] for position in places]).replace("\r", " ")
    return Visible(kept, [*places, len(text)], len(text) - len(places), not hidden.isdisjoint(_BIDI))


def blank(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """The text with NULs in place of the spans, so that all places stay as they are."""
    pieces, at = [], 0
    for start, end in sorted(spans):
        if start >= at:
            pieces += [text[at:start], "\0" * (end - start)]
            at = end
    return "".join([*pieces, text[at:]])


_SILENT: Final = """
a an and are as at be been but by for from had has have in into is it its of on or out per so than that the
their there these they this to was we were which while with you your i all each here did do does dtype int
float object name nan none true false
"""
_WORD: Final = re.compile(r"[^\W\d_]+")
_STOP: Final = frozenset(_SILENT.split())
_MOST: Final = 400


def words(text: str) -> frozenset[str]:
    """The telling words of the text, in one form each."""
    found = _WORD.findall(text[: 40 * _MOST])
    return frozenset(stem(word) for word in found[:_MOST] if word.casefold() not in _STOP)


def stem(word: str) -> str:
    """Return one form for singular and plural, and for a month and its abbreviation."""
    folded = word.casefold()
    # `march` and `mar` are one word, `marketing` another.
    return folded[:3] if folded in MONTHS else singular(folded)


def plain(text: str) -> str:
    """A text for comparison: without case, with single blanks and plain quotes."""
    return " ".join(text.translate(_QUOTES).casefold().split())


_QUOTES: Final = str.maketrans("‘’“”„«»−–\u00a0\u202f", '\'\'"""""--  ')
