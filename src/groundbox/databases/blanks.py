"""What stands between the words of a statement: blanks and comments, stepped over without going back.

Written out, because possessive expressions with a choice in them match wrongly in CPython before 3.11.5 (gh-106052).
"""

from __future__ import annotations

import re
from typing import Final

_SPACE: Final = re.compile(r"\s*")
_WORD: Final = re.compile(r"\w*")


def after(text: str, at: int = 0, *, hashes: bool = False, dashes_alone: bool = True) -> int:
    """The place behind all blanks and comments from `at` on. A comment without an end is none, and ends the search.

    Args:
        hashes: Whether `#` begins a comment.
        dashes_alone: Whether `--` begins one also where no blank follows.
    """
    while True:
        at = _space(text, at)
        dashes = text.startswith("--", at) and (dashes_alone or text[at + 2 : at + 3].isspace())
        if dashes or (hashes and text.startswith("#", at)):
            end = text.find("\n", at)
            at = len(text) if end < 0 else end + 1
        elif text.startswith("/*", at) and not text.startswith(("/*!", "/*M!"), at):
            end = text.find("*/", at + 2)
            if end < 0:
                return at
            at = end + 2
        else:
            return at


def word_at(text: str, at: int) -> str:
    """The word that begins there, or ""."""
    found = _WORD.match(text, at)
    return found[0] if found else ""


def _space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
