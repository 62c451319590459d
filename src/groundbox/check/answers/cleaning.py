"""Text as a reader sees it: without terminal escapes, invisible and steering characters."""

from __future__ import annotations

import re
import unicodedata
from typing import Final, NamedTuple

# Every branch ends at the next escape, so that many openings without an end cost no more than their length.
_ESCAPES: Final = re.compile(
    "\x1b\\[[0-?]{0,64}[ -/]{0,8}[@-~]|\x1b[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\)|\x1b[ -/]?[0-~]?"
    "|\x9b[0-?]{0,64}[ -/]{0,8}[@-~]"
)
_BIDI: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_KEPT: Final = frozenset("\n\t")


class Visible(NamedTuple):
    """What a reader sees of a text.

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
    if text.isascii() and text.isprintable():
        return Visible(text, None, 0, False)
    hidden = {c for c in set(text) - _KEPT - {"\r"} if unicodedata.category(c) in ("Cc", "Cf", "Cs")}
    if not hidden:
        return Visible(text.replace("\r", " "), None, 0, False)
    kept: list[str] = []
    places: list[int] = []
    at = 0
    for start, end in (*((m.start(), m.end()) for m in _ESCAPES.finditer(text)), (len(text), len(text))):
        for position in range(at, start):
            if text[position] not in hidden:
                kept.append(text[position])
                places.append(position)
        at = end
    places.append(len(text))
    return Visible("".join(kept).replace("\r", " "), places, len(text) - len(kept), not hidden.isdisjoint(_BIDI))
