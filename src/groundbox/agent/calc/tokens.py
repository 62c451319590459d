"""Tokens of an expression."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final, NamedTuple

from groundbox.agent.calc.bounds import MOST_CHARS, MOST_DIGITS, CalculationError

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>(?:\d{1,3}(?:,\d{3})+(?![\d])|\d[\d_]*)(?:\.\d+)?(?:[eE][+-]?\d{1,3}(?!\w))?|\.\d+)"
    r"|(?P<name>[A-Za-zπ]\w*)|(?P<money>[$€£¥₹])|(?P<operator>\*\*|//|<=|>=|==|!=|[-+*/%^()<>=!,×÷·−–≤≥≠√]))"
)
_PLAIN: Final = {
    "^": "**", "×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "≤": "<=", "≥": ">=", "≠": "!=", "=": "==",
    "minus": "-", "times": "*",
}  # fmt: skip


class Token(NamedTuple):
    """One token; `value` of a number."""

    kind: str
    text: str
    position: int
    value: Fraction = Fraction(0)


def tokens(expression: str) -> list[Token]:
    """The tokens, with one of kind `end` behind them.

    Raises:
        CalculationError: The expression is too long, or holds what is no token.
    """
    if len(expression) > MOST_CHARS:
        raise CalculationError(f"the expression has {len(expression)} characters, and {MOST_CHARS} is the most")
    found, at, text = [], 0, expression.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            blank = len(text) - len(text[at:].lstrip())
            raise CalculationError(f"{text[blank]!r} is nothing that can be worked out here", blank)
        kind = match.lastgroup or ""
        found.append(_token(kind, match[kind], match.start(kind)))
        at = match.end()
    return [*found, Token("end", "", len(text))]


def _token(kind: str, text: str, position: int) -> Token:
    if kind == "number":
        if len(text) > MOST_DIGITS:
            raise CalculationError(f"a number of {len(text)} digits; {MOST_DIGITS} is the most", position)
        return Token(kind, text, position, Fraction(text.replace(",", "").replace("_", "")))
    return Token(kind, _PLAIN.get(text, text), position)
