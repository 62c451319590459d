"""Sentences and paragraphs of an answer: which words and which numbers stand together."""

from __future__ import annotations

import bisect
import re
from collections.abc import Sequence
from typing import Final

from groundbox.check.answers.found import Found
from groundbox.check.answers.wording import words

_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+(?=[^a-z\s])|\n\s*\n|\n(?=[ \t]*(?:[-*+|#>]|\d{1,3}[.)]))")
_ITEM: Final = re.compile(r"[ \t]*(?:[-*+|]|\d{1,3}[.)])[ \t]")
_PARAGRAPH: Final = re.compile(r"\n\s*\n")


class Scopes:
    """Where each mention stands."""

    def __init__(self, text: str, found: Sequence[Found]) -> None:
        self._text, self._found = text, found
        self._sentences = _starts(_SENTENCE, text)
        self._paragraphs = _starts(_PARAGRAPH, text)
        self._words: dict[tuple[int, int], frozenset[str]] = {}
        self._said: dict[tuple[re.Pattern[str], tuple[int, int]], bool] = {}

    def sentence(self, one: Found) -> tuple[int, int]:
        """Start and end of the sentence, of the list item or of the row of a table."""
        return _span(self._sentences, one.start, len(self._text))

    def paragraph(self, one: Found) -> tuple[int, int]:
        """Start and end of the text between two empty lines."""
        return _span(self._paragraphs, one.start, len(self._text))

    def is_item(self, one: Found) -> bool:
        """Whether it stands in a list item or the row of a table."""
        return _ITEM.match(self._text, self.sentence(one)[0]) is not None

    def neighbourhood(self, one: Found) -> tuple[int, int]:
        """Its sentence and the one before in the same paragraph; a list item or the row of a table stands alone."""
        start, end = self.sentence(one)
        if _ITEM.match(self._text, start):
            return start, end
        at = bisect.bisect_left(self._sentences, start)
        before = self._sentences[at - 1] if at else start
        if before < self.paragraph(one)[0] or _ITEM.match(self._text, before):
            return start, end
        return before, end

    def text(self, span: tuple[int, int]) -> str:
        """The text of a span, without its end where that is far away."""
        return self._text[span[0] : min(span[1], span[0] + 4000)]

    def says(self, pattern: re.Pattern[str], span: tuple[int, int]) -> bool:
        """Whether the pattern is in the text of a span; looked for once, for a span may have thousands of numbers."""
        key = (pattern, span)
        if key not in self._said:
            self._said[key] = pattern.search(self.text(span)) is not None
        return self._said[key]

    def words(self, span: tuple[int, int]) -> frozenset[str]:
        """The telling words of a span; those of the head of its table too."""
        if span not in self._words:
            text = self.text(span)
            head = self._head(span) if text.lstrip().startswith("|") else ""
            self._words[span] = words(f"{head} {text}".replace("_", " "))
        return self._words[span]

    def _head(self, span: tuple[int, int]) -> str:
        """The first row of the table that a row belongs to."""
        start, end = _span(self._paragraphs, span[0], len(self._text))
        for line in self._text[start : min(end, start + 4000)].splitlines():
            if line.lstrip().startswith("|"):
                return line
        return ""


def _starts(pattern: re.Pattern[str], text: str) -> list[int]:
    return [0, *(match.end() for match in pattern.finditer(text))]


def _span(starts: list[int], position: int, length: int) -> tuple[int, int]:
    at = bisect.bisect_right(starts, position)
    return starts[at - 1], starts[at] if at < len(starts) else length
