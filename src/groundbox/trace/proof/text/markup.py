"""Markup made plain without moving a character, so that spans in the plain text are spans in the original.

Backticks, mathematical markup and typographic signs become spaces or the operators they stand for,
padded to their old length. Which stretches were code is kept beside the text.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from groundbox.trace.proof.text.tokens import string_end

_SIGNS: Final = str.maketrans(
    {
        "‘": "'", "’": "'", "“": '"', "”": '"', "−": "-", "×": "*", "÷": "/", "·": "*", "⋅": "*",
        "⇒": "→", "⟶": "→", "➜": "→", "➔": "→", "⟹": "→", "↦": "→", "∈": "∈", "\u00a0": " ", "\t": " ",
    }
)  # fmt: skip
_COMMANDS: Final = {
    "times": "*", "cdot": "*", "ast": "*", "bmod": "%", "mod": "%", "div": "/", "le": "<=", "leq": "<=", "ge": ">=",
    "geq": ">=", "lt": "<", "gt": ">", "ne": "!=", "neq": "!=", "to": "→", "rightarrow": "→", "Rightarrow": "→",
    "implies": "→", "approx": "≈", "in": "in", "land": "and", "lor": "or", "neg": "not", "lnot": "not",
}  # fmt: skip
_FENCE: Final = re.compile(r"^ {0,3}(?:```|~~~).*$", re.MULTILINE)
_MARK: Final = re.compile(r"[`'\"]")
_QUOTE: Final = re.compile(r"['\"]")
_CODE: Final = re.compile(r"(`{1,2})([^`\n]{1,2000})\1")
_LATEX: Final = re.compile(r"\\([A-Za-z]{1,20}|[,;:!{}()\[\] %_$])")


class Plain(NamedTuple):
    """Text of the same length without markup.

    Attributes:
        text: The plain text.
        code: Stretches `(start, end)` that were code spans, in their order, without their backticks.
        fenced: Stretches `(start, end)` that were fenced blocks, without their fences.
    """

    text: str
    code: list[tuple[int, int]]
    fenced: list[tuple[int, int]]


def plain(text: str) -> Plain:
    """Replaces markup by spaces and signs by operators, each in its old length."""
    text = _with_plain_signs(text).replace("\r", "\n")
    fenced, text = _without_fences(text)
    code, strings = _spans(text)
    pieces, at = [], 0
    for start, end in sorted([*code, *strings]):
        pieces += [_prose(text[at:start].replace("`", " ")), text[start:end]]
        at = end
    pieces.append(_prose(text[at:].replace("`", " ")))
    return Plain("".join(pieces), code, fenced)


def _with_plain_signs(text: str) -> str:
    """Typographic signs stand for others, but in strings, where they mean themselves."""
    if text.translate(_SIGNS) == text:
        return text
    pieces, at, looked = [], 0, 0
    hopeless = dict.fromkeys("'\"", 0)  # as in `tokenize`: keeps the time linear
    while (mark := _QUOTE.search(text, looked)) is not None:
        looked = mark.end()
        if mark.start() < hopeless[mark.group()]:
            continue
        ends, end = string_end(text, mark.start(), len(text))
        if ends:
            pieces += [text[at : mark.start()].translate(_SIGNS), text[mark.start() : end]]
            at = looked = end
        else:
            hopeless[mark.group()] = max(hopeless[mark.group()], end)
    return "".join([*pieces, text[at:].translate(_SIGNS)])


def _spans(text: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The code spans, and the strings of the prose that hold backticks, which are no markup."""
    code: list[tuple[int, int]] = []
    strings: list[tuple[int, int]] = []
    hopeless = dict.fromkeys("'\"", 0)  # as in `tokenize`: keeps the time linear
    at = 0
    while (mark := _MARK.search(text, at)) is not None:
        at = mark.start()
        quote = text[at]
        if quote == "`":
            span = _CODE.match(text, at)
            at = span.end() if span is not None else at + 1
            code += [span.span(2)] if span is not None else []
            continue
        ends, end = string_end(text, at, len(text)) if at >= hopeless[quote] else (False, 0)
        if ends and "`" in text[at:end]:
            strings.append((at, end))
        elif not ends:
            hopeless[quote] = max(hopeless[quote], end)
        at = end if ends else at + 1
    return code, strings


def _without_fences(text: str) -> tuple[list[tuple[int, int]], str]:
    marks = list(_FENCE.finditer(text))
    blocks = []
    for opening, closing in zip(marks[::2], marks[1::2], strict=False):
        blocks.append((min(opening.end() + 1, closing.start()), closing.start()))
    return blocks, _FENCE.sub(lambda match: " " * len(match.group()), text) if marks else text


def _prose(text: str) -> str:
    """Without mathematical markup, but for strings, in which `{3}$` and `\\d` mean themselves."""
    if "\\" not in text and "$" not in text:
        return text
    pieces, at = [], 0
    for match in _QUOTED.finditer(text):
        pieces += [_mathematics(text[at : match.start()]), match.group()]
        at = match.end()
    return "".join([*pieces, _mathematics(text[at:])])


def _mathematics(text: str) -> str:
    if "\\" in text and _MATHEMATICS.search(text):
        text = _LATEX.sub(_operator, text)
        text = _DOLLARS.sub(_without_dollars, text)
        return _BRACED.sub(lambda match: f" {match.group(1)} ", text)
    return _DOLLARS.sub(_without_dollars, text) if "$" in text else text


_MATHEMATICS: Final = re.compile(r"\$|\\\(|\\\[|\\(?:boxed|times|cdot|text|frac|bmod|leq?|geq?)\b")
_QUOTED: Final = re.compile(r"(?<![\w'\"])[bu]?(['\"])(?=[^\n]*[\\$])(?:\\.|(?!\1)[^\\\n])*\1(?!\w)")
_DOLLARS: Final = re.compile(r"\$(?=[^\s$])([^$\n'\"]{0,200})\$")
_BRACED: Final = re.compile(r"\{([^{}:,\n]{0,80})\}")


def _without_dollars(match: re.Match[str]) -> str:
    return f" {match.group(1)} "


def _operator(match: re.Match[str]) -> str:
    if match.group(1) in ("n", "t", "r"):  # more likely of a string
        return match.group()
    return _COMMANDS.get(match.group(1), "").ljust(len(match.group()))[: len(match.group())]
