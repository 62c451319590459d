"""Where the program prints a text, and whether its result is the answer."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Final

from groundbox.trace import schema
from groundbox.trace.proof.claims import Answer, Printed
from groundbox.trace.proof.moments.hit import Hit, Uncheckable
from groundbox.trace.proof.moments.search import Search
from groundbox.trace.proof.values.likeness import listed, said_value, same

_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")


def printed(search: Search, claim: Printed, low: int, now: int, after: int) -> Hit | None:
    """The program writes the text, at once or with several prints."""
    said = claim.text.strip("\n")
    if claim.whole:
        printed = [line.rstrip() for line in search.ledger.stdout.strip().splitlines()]
        return Hit(now, now) if printed == [line.rstrip() for line in claim.text.strip().splitlines()] else None
    if claim.again and search.ledger.stdout.strip("\n") == said:
        return Hit(now, now)
    for t in search.ledger.outs:
        record = search.ledger.records[t]
        assert isinstance(record, schema.Out)
        if claim.to_error and record.s == 1:
            continue
        if claim.cut is not None:
            if t >= low and t > after and same(claim.cut, record.text):
                return Hit(t, t)
            continue
        if (
            t >= low
            and t > after
            and (record.text == claim.text or said in record.text.splitlines() or record.text.strip("\n") == said)
        ):
            return Hit(t, t)
    return None if claim.cut is not None else _printed_together(search, claim, said, low, now, after)


def _printed_together(search: Search, claim: Printed, said: str, low: int, now: int, after: int) -> Hit | None:
    """Several prints whose texts are, one after the other, the text.

    They hold where the first of them is. A text that takes in what was told last looks back, and holds now;
    so does all that the run prints.
    """
    for pieces in itertools.islice(_streams(search), int(claim.to_error), None):
        told = max((t for t, _ in pieces if t <= now), default=-1)
        for first, last in _together(search, pieces, said):
            is_whole = first == pieces[0][0] and last == pieces[-1][0]
            if first < last and (is_whole or first <= told <= last):
                return Hit(now, first)
            if first >= low and first > after:
                return Hit(first, first)
    return None


def _streams(search: Search) -> Iterator[Sequence[tuple[int, str]]]:
    """What was written to standard output, and to standard error: lines and parts of lines, each with its record."""
    for stream in (1, 2):
        outs = [(t, search.record(t)) for t in search.ledger.outs if search.record(t).s == stream]
        yield [(t, piece) for t, record in outs for piece in _LINE.findall(record.text)]


def _together(search: Search, pieces: Sequence[tuple[int, str]], said: str) -> Iterator[tuple[int, int]]:
    """The first and last record of each row of prints that write the text as whole lines."""
    texts = [text for _, text in pieces]
    for first in range(len(texts) if said else 0):
        if texts[first] == "\n" or (first and not texts[first - 1].endswith("\n")):
            continue
        whole = ""
        for last in range(first, len(texts)):
            search.ledger.spend()
            whole += texts[last]
            ends = whole.endswith("\n") or texts[last + 1 : last + 2] in ([], ["\n"])
            if ends and whole.strip("\n") == said:
                yield pieces[first][0], pieces[last][0]
                break
            if search.record(pieces[last][0]).elided or not said.startswith(whole.strip("\n")):
                break


def answer(search: Search, claim: Answer, low: int, now: int, after: int) -> Hit | None:
    """The run has the result."""
    entry = search.ledger.entry
    last = len(search.ledger.records) - 1
    if claim.value is None:
        raise Uncheckable("no value is said")
    known, said = said_value(claim.value)
    if entry is None or entry.outcome != "return":
        return Hit(now, last) if str(said).strip() == search.ledger.stdout.strip() else None
    actual = search.ledger.memory.read(entry.value, entry.last)
    if not known:
        raise Uncheckable("the value cannot be worked out")
    return (
        Hit(now, entry.last)
        if same(said, actual, about=claim.about) or same(listed(said), listed(actual), about=claim.about)
        else None
    )
