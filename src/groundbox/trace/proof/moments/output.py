"""Where the program prints a text, and whether its result is the answer."""

from __future__ import annotations

from groundbox.trace import schema
from groundbox.trace.proof.claims import Answer, Printed
from groundbox.trace.proof.moments.hit import Hit, Uncheckable
from groundbox.trace.proof.moments.search import Search
from groundbox.trace.proof.values.likeness import listed, said_value, same


def printed(search: Search, claim: Printed, low: int, now: int, after: int) -> Hit | None:
    """The program writes the text."""
    said = claim.text.strip("\n")
    if claim.whole:
        printed = [line.rstrip() for line in search.ledger.stdout.strip().splitlines()]
        return Hit(now, now) if printed == [line.rstrip() for line in claim.text.strip().splitlines()] else None
    for t in search.ledger.outs:
        record = search.ledger.records[t]
        assert isinstance(record, schema.Out)
        if (
            t >= low
            and t > after
            and (record.text == claim.text or said in record.text.splitlines() or record.text.strip("\n") == said)
        ):
            return Hit(t, t)
    return Hit(now, now) if low > 0 and said and "\n" in said and said in search.ledger.stdout else None


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
