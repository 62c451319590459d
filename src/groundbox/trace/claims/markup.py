"""Prose without its markup: Markdown and LaTeX become the words and signs that they stand for, with the way back.

Tables are found as well: a table of states says of each row what the names at its head were.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

_PIECE: Final = re.compile(
    r"""
    (?P<kept>`[^`\n]{1,2000}` | '(?:[^'\\\n]|\\.){0,2000}' | "(?:[^"\\\n]|\\.){0,2000}")
    | (?P<fence>^[ \t]*```\w*[ \t]*\r?$)
    | (?P<marker>^[ \t]*(?:\#{1,6}[ ] | >+[ ]? | [-*•+–][ ] | (?:\*\*|__)?step[ ]\d{1,3}(?:\*\*|__)?[.):–-](?=[ *\n\r])
        | \d{1,3}[.)](?=[ *]) | \d{1,3}:(?=[ ][A-Z][a-z]) | \(\d{1,2}\)[ ]){1,8})
    | (?P<bold>(?<![\w)\]*])\*\*(?=\S) | (?<=\S)\*\*(?![\w(*]))
    | (?P<raised>[²³])
    | (?P<power>\^\{(?P<exponent>\w{1,9})\})
    | (?P<fraction>\\[dt]?frac\{(?P<over>[\w.]{1,20})\}\{(?P<under>[\w.]{1,20})\})
    | (?P<command>\\(?:[a-zA-Z]{2,16}\b[ ]?\{? | [()\[\]{}_%$,;!]))
    | (?P<own>[\ue000-\uf8ff])
    """,
    re.VERBOSE | re.MULTILINE | re.IGNORECASE,
)
_COMMANDS: Final = {
    "times": "*", "cdot": "*", "div": "/", "le": "<=", "leq": "<=", "ge": ">=", "geq": ">=", "ne": "!=", "neq": "!=",
    "lt": "<", "gt": ">", "rightarrow": "→", "to": "→", "longrightarrow": "→", "implies": "→", "Rightarrow": "→",
    "bmod": "%", "mod": "%", "boxed": "boxed: ", "fbox": "boxed: ", "text": "", "texttt": "", "mathrm": "",
    "mathtt": "", "textbf": "", "mathbf": "", "operatorname": "", "left": "", "right": "", "quad": " ", "qquad": " ",
    "_": "_", "%": "%", "{": "{", "}": "}", "$": "$", "(": " ", ")": " ", "[": " ", "]": " ", ",": " ", ";": " ",
    "!": "",
}  # fmt: skip
"""Signs that commands of LaTeX stand for; other commands stay."""
_ROW: Final = re.compile(r"(?m)^[ \t]*\|?(?=[^\n]*\|)([^\n]+?)\|?[ \t\r]*$")
_RULE: Final = re.compile(r"[\s|:+-]*-[\s|:+-]*")
MOST_CELLS: Final = 2000


class Plain(NamedTuple):
    """Text without markup.

    Attributes:
        places: Where each of its characters begins and ends in the text that it was made of.
    """

    text: str
    places: Sequence[tuple[int, int]]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Characters of the text that it was made of, for at least one of these."""
        return self.places[start][0], self.places[end - 1][1]


class Cell(NamedTuple):
    """Text of a row of a table under a head."""

    head: str
    text: str
    start: int
    end: int


def plain(text: str) -> Plain:
    """A text without markup."""
    signs: list[str] = []
    places: list[tuple[int, int]] = []
    at = 0

    def put(made: str, start: int, end: int) -> None:
        signs.extend(made)
        # Each character of what is said stands for all of the markup, so that a quote of it is the whole.
        places.extend([(start, end)] * len(made))

    for found in _PIECE.finditer(text):
        # Code and quoted text are no markup: `a*b*c` stays as it is.
        if found["kept"]:
            continue
        for place in range(at, found.start()):
            put(text[place], place, place + 1)
        put(_said(found), *found.span())
        at = found.end()
    for place in range(at, len(text)):
        put(text[place], place, place + 1)
    return Plain("".join(signs), places)


def _said(found: re.Match[str]) -> str:
    if found["own"]:
        return "\ufffd"  # stands for an item in what reads the text
    if found["raised"]:
        return "^2" if found[0] == "²" else "^3"
    if found["power"]:
        return f"^{found['exponent']}"
    if found["fraction"]:
        return f"{found['over']}/{found['under']}"
    if found["command"]:
        return _COMMANDS.get(found[0][1:].rstrip(" {") or found[0][1:], found[0])
    return " "


def cells(text: str) -> Iterator[Cell]:
    """The cells of a text's tables, without their heads."""
    heads: list[str] = []
    before: re.Match[str] | None = None
    count = 0
    for row in _ROW.finditer(text):
        follows = before is not None and text[before.end() : row.start()].strip(" \t") in ("\n", "\r\n")
        # `|---|---|` makes the row before it a head, and what follows cells.
        if _RULE.fullmatch(row[1]):
            heads = [each.strip(" \t`*") for each in before[1].split("|")] if follows and before else []
        elif follows and heads:
            at = row.start(1)
            for head, cell in zip(heads, row[1].split("|"), strict=False):
                count += 1
                if count > MOST_CELLS:
                    return
                inner = cell.strip(" \t*")
                start = at + cell.find(inner) if inner else at
                yield Cell(head, inner.strip("`"), start, start + len(inner))
                at += len(cell) + 1
        else:
            heads = []
        before = row
