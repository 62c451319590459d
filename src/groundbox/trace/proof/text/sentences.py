"""Where sentences begin and end: prose, list items, table rows, lines of a fenced block."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

from groundbox.trace.proof.text.markup import Plain
from groundbox.trace.proof.text.tokens import BREAK, NUMBER, SIGN, WORD, Token

_WRAPPED: Final = 55
_NO_END: Final = frozenset({"e", "g", "i", "etc", "vs", "cf", "resp", "eq", "no"})
_RULE: Final = re.compile(r"[|\s:+-]*-[|\s:+-]*")


class Form(StrEnum):
    """What a sentence is written as."""

    PROSE = "prose"
    ITEM = "item"
    ROW = "row"
    FENCED = "fenced"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sentence:
    """One sentence.

    Attributes:
        start: Where it begins in the text.
        end: Where it ends.
        tokens: Its words and signs, without a list mark at its beginning.
        header: Of a table row: the header's cells; None for the header itself.
    """

    number: int
    start: int
    end: int
    form: Form
    tokens: Sequence[Token]
    header: tuple[str, ...] | None = None


def split(plain: Plain, tokens: Sequence[Token]) -> list[Sentence]:
    """All sentences of a text."""
    sentences: list[Sentence] = []
    table: tuple[str, ...] | None = None
    for line in _lines(plain.text, tokens):
        text = plain.text[line[0].start : line[-1].end]
        fenced = any(start <= line[0].start < end for start, end in plain.fenced)
        if text.startswith("|") and not fenced:
            if _RULE.fullmatch(text):
                continue
            number = len(sentences)
            sentences.append(_sentence(number, Form.ROW, line, table))
            table = table or tuple(cell.strip() for cell in text.strip().strip("|").split("|"))
            continue
        table = None
        if fenced:
            sentences.append(_sentence(len(sentences), Form.FENCED, line, None))
            continue
        rest = _without_mark(line)
        form = Form.ITEM if len(rest) < len(line) else Form.PROSE
        for part in _parts(rest):
            sentences.append(_sentence(len(sentences), form, part, None))
    return sentences


def _sentence(number: int, form: Form, tokens: Sequence[Token], header: tuple[str, ...] | None) -> Sentence:
    return Sentence(number=number, start=tokens[0].start, end=tokens[-1].end, form=form, tokens=tokens, header=header)


def _lines(text: str, tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Runs of tokens between line breaks that end something."""
    begin = 0
    for at, token in enumerate(tokens):
        if token.kind is not BREAK and token.kind != BREAK:
            continue
        if at > begin and _is_wrapped(text, tokens, at):
            continue
        if at > begin:
            yield [token for token in tokens[begin:at] if token.kind != BREAK]
        begin = at + 1
    if begin < len(tokens):
        yield [token for token in tokens[begin:] if token.kind != BREAK]


def _is_wrapped(text: str, tokens: Sequence[Token], at: int) -> bool:
    """Whether the line break at `at` only wraps a long line of prose."""
    if tokens[at].text.count("\n") > 1 or at + 1 >= len(tokens):
        return False
    before, after = tokens[at - 1], tokens[at + 1]
    line = text.rfind("\n", 0, before.end) + 1
    if before.end - line < _WRAPPED or before.low in (".", ":", ";", "!", "?", "|"):
        return False
    return after.kind == WORD and (after.text.islower() or after.code)


def _without_mark(line: Sequence[Token]) -> Sequence[Token]:
    """A line without its bullet, number or heading signs."""
    at = 0
    while at < len(line) and line[at].low in ("#", ">", "-", "*", "+", "•", "–", "—", "◦", "=>"):
        if at + 1 < len(line) and not line[at + 1].spaced and line[at].low in ("-", "*", "+"):
            break
        at += 1
    is_number = at + 1 < len(line) and line[at].kind == NUMBER and line[at + 1].low in (".", ")")
    if is_number and not line[at + 1].spaced and (at + 2 >= len(line) or line[at + 2].spaced):
        at += 2
    return line[at:] if at < len(line) else line


def _parts(line: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """The sentences of a line."""
    begin = 0
    for at, token in enumerate(line):
        if token.kind == SIGN and token.low in (".", "!", "?") and _ends(line, at):
            yield line[begin : at + 1]
            begin = at + 1
    if begin < len(line):
        yield line[begin:]


def _ends(line: Sequence[Token], at: int) -> bool:
    if at + 1 == len(line):
        return True
    before, after = line[at - 1] if at else line[at], line[at + 1]
    if not after.spaced or line[at].code or (line[at].low == "!" and after.low == "="):
        return False
    return not (before.kind == WORD and before.low in _NO_END and not line[at].spaced and after.text[:1].islower()
                and not before.code and (before.low not in ("i", "g", "e", "no") or not before.spaced))  # fmt: skip
