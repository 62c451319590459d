"""Words, numbers, strings and signs of a plain text, with their places."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

WORD: Final = "word"
NUMBER: Final = "number"
STRING: Final = "string"
SIGN: Final = "sign"
BREAK: Final = "break"

_LONGEST_STRING: Final = 2000
# Every alternative starts with another character and has no nested repetition: one pass, linear time.
_TOKEN: Final = re.compile(
    r"""
    (?P<space>[ ]+)
    | (?P<break>\n[ \n]*)
    | (?P<number>
        (?:0[xX][0-9a-fA-F_]{1,400} | 0[bB][01_]{1,400}
        | \d{1,3}(?:,\d{3}){1,20}(?![\d,]) (?:\.\d{1,400})?
        | \d[\d_]{0,5000}(?:\.(?=\d)\d{0,400})?(?:[eE][+-]?\d{1,5})?
        | \.\d{1,400}(?:[eE][+-]?\d{1,5})?)
        (?P<suffix>st\b|nd\b|rd\b|th\b|j\b)?
      )
    | (?P<word>[^\W\d]\w{0,200}(?:'(?:t|s|re|ll|ve|d|m)\b)?)
    | (?P<sign>\*{2,3}|//=?|<<|>>(?!>)|==+|!=|<=|>=|->|=>|-->|:=|\+=|-=|\*=|/=|%=|\.{2,10}|…|\S)
    """,
    re.VERBOSE,
)
_QUOTES: Final = "'\""
_PREFIXES: Final = "bu"


class Token(NamedTuple):
    """A piece of text.

    Attributes:
        kind: One of WORD, NUMBER, STRING, SIGN, BREAK.
        text: As it stands in the plain text.
        low: `text` in lower case, with typographic signs in one spelling.
        start: Where it begins.
        end: Where it ends.
        spaced: Whether space comes before it.
        code: Whether it stands in a code span.
    """

    kind: str
    text: str
    low: str
    start: int
    end: int
    spaced: bool
    code: bool


_SPELLINGS: Final = {"≤": "<=", "≥": ">=", "≠": "!=", "->": "→", "=>": "→", "-->": "→", "…": "...", "===": "=="}


def tokenize(text: str, code: Sequence[tuple[int, int]] = ()) -> list[Token]:
    """All tokens of a plain text; `code` are its code spans."""
    tokens: list[Token] = []
    at, spaced, span, depth = 0, True, 0, 0
    length = len(text)
    hopeless = dict.fromkeys(_QUOTES, 0)  # before this place no string with that quote ends: keeps the time linear
    while at < length:
        while span < len(code) and code[span][1] <= at:
            span += 1
        in_code = span < len(code) and code[span][0] <= at
        opening = _opening(text, at)
        if opening is not None and opening >= hopeless[text[opening]]:
            ends, end = string_end(text, opening, code[span][1] if in_code else length)
            if not ends:
                hopeless[text[opening]] = end
            else:
                tokens.append(Token(STRING, text[at:end], text[at:end], at, end, spaced, in_code))
                at, spaced = end, False
                continue
        match = _TOKEN.match(text, at)
        if match is None:  # a form feed and the like
            at, spaced = at + 1, True
            continue
        kind, end = str(match.lastgroup), match.end()
        if kind == NUMBER and depth and "," in match.group():
            end = at + match.group().index(",")
        if kind != "space":
            word = text[at:end]
            depth = 0 if kind == BREAK else max(0, depth + (word in "([{") - (word in ")]}"))
            low = word.lower() if kind == WORD else _SPELLINGS.get(word, word)
            tokens.append(Token(kind, word, low, at, end, spaced or (in_code and at == code[span][0]), in_code))
        spaced = kind in ("space", BREAK)
        at = end
    return _without_emphasis(tokens)


def _opening(text: str, at: int) -> int | None:
    """Where the quote is that opens a string or bytes at `at`, if one may begin there."""
    if text[at] in _QUOTES:
        return at
    is_prefix = text[at] in _PREFIXES and text[at + 1 : at + 2] in ("'", '"') and not text[at - 1 : at].isalnum()
    return at + 1 if is_prefix else None


def _without_emphasis(tokens: list[Token]) -> list[Token]:
    """Without the stars around `**emphasis**`; those of a product or power stay."""
    if not any(token.low in ("*", "**", "***") for token in tokens):
        return tokens
    kept = []
    for at, token in enumerate(tokens):
        if token.low not in ("*", "**", "***") or token.code or not _is_emphasis(tokens, at):
            kept.append(token)
    return kept


def _is_emphasis(tokens: list[Token], at: int) -> bool:
    token = tokens[at]
    after = tokens[at + 1] if at + 1 < len(tokens) else None
    if token.spaced:
        return after is not None and not after.spaced and (at == 0 or tokens[at - 1].kind != NUMBER)
    return after is None or after.spaced or after.kind == BREAK or after.low in (".", ",", ";", ":", "!", "?", ")", "→")


def string_end(text: str, start: int, limit: int) -> tuple[bool, int]:
    """Whether the string that begins here ends on its line, and where; or how far one need not look again."""
    quote = text[start]
    if (
        start
        and text[start - 1].isalnum()
        and not (text[start - 1] in _PREFIXES and not text[start - 2 : start - 1].isalnum())
    ):
        return False, 0
    at, last = start + 1, min(limit, start + _LONGEST_STRING)
    while at < last:
        character = text[at]
        if character == "\\":
            at += 2
            continue
        if character == "\n":
            return False, at
        if character == quote and not (quote == "'" and _inside_a_word(text, at)):
            return True, at + 1
        at += 1
    return False, last


def _inside_a_word(text: str, at: int) -> bool:
    return text[at - 1].isalpha() and at + 1 < len(text) and text[at + 1].isalpha()
