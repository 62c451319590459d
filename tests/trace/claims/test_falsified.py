"""Tellings of twenty programs with their claims, and errors put into them by hand, of which nearly all are noticed.

`falsified/NAME.json` has tellings with their claims as the narrator made them, and for each error what was replaced in
the text. The claims stay with the sentence that was changed; a quote whose words are gone is what it was.
"""

import functools
import json
from pathlib import Path

import pytest

from groundbox.trace.claims import prove
from groundbox.trace.record.reading import Trace

HERE = Path(__file__).parent / "falsified"
PROGRAMS = sorted(path.stem for path in HERE.glob("*.json"))
PASSING = [("long", "range", "`i` goes from 0 to 400")]
"""Errors that are not noticed: that the loop goes from 0 to 400 is said of `range(0, 400)`, which has no 400."""


@functools.cache
def stored(name):
    trace = Trace.loads((HERE / "traces" / f"{name}.jsonl").read_bytes())
    return trace, json.loads((HERE / f"{name}.json").read_text())


def rows_of(text, claims):
    """Sentences as [start, end, [(claim, first, last)]] in characters of the text; None for a whole sentence."""
    at, rows = 0, []
    for sentence in claims["sentences"]:
        start = text.index(sentence["text"], at)
        at = start + len(sentence["text"])
        row = []
        for claim in sentence["claims"]:
            first = start + claim.get("at", 0) if claim.get("quote") else None
            row.append((claim, first, None if first is None else first + len(claim["quote"])))
        rows.append([start, at, row])
    return rows


def replaced(text, rows, before, after):
    """A text with `after` in place of `before`, and where its sentences and quotes are then."""
    place, same_start = text.index(before), 0
    while same_start < min(len(before), len(after)) and before[same_start] == after[same_start]:
        same_start += 1
    same_end = 0
    while same_end < min(len(before), len(after)) - same_start and before[-1 - same_end] == after[-1 - same_end]:
        same_end += 1
    start, end = place + same_start, place + len(before) - same_end
    new = after[same_start : len(after) - same_end]
    longer = len(new) - (end - start)
    text = text[:start] + new + text[end:]

    def moved(at, *, is_end):
        if at < start or (at == start and not is_end):
            return at
        return at + longer if at >= end else start + len(new) * is_end

    kept = []
    for first, last, claims in rows:
        first, last = moved(first, is_end=False), moved(last, is_end=True)
        if not any(sign.isalnum() for sign in text[first:last]) or (
            start <= first and last <= start + len(new) == start
        ):
            continue  # the sentence is gone, and takes its claims along
        claims = [
            (claim, one, other) if one is None else (claim, moved(one, is_end=False), moved(other, is_end=True))
            for claim, one, other in claims
        ]
        if kept and kept[-1][1] > first:  # two sentences were made one
            kept[-1] = [kept[-1][0], max(last, kept[-1][1]), kept[-1][2] + claims]
        else:
            kept.append([first, last, claims])
    return text, kept


def with_changes(telling, changes):
    """A text with the changes, and its claims."""
    text, rows = telling["text"], rows_of(telling["text"], telling["claims"])
    for before, after in changes:
        text, rows = replaced(text, rows, before, after)
    sentences = []
    for start, end, claims in rows:
        told = [
            claim if first is None or first >= last else claim | {"quote": text[first:last], "at": first - start}
            for claim, first, last in claims
        ]
        sentences.append({"text": text[start:end], "claims": told})
    return text, telling["claims"] | {"sentences": sentences}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_not_falsified_passes(name):
    trace, row = stored(name)

    for telling in row["tellings"].values():
        assert prove(telling["text"], trace, claims=telling["claims"], strict=True).passes


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_error_is_noticed_or_known_not_to_be(name):
    trace, row = stored(name)
    passing = []
    for error in row["errors"]:
        text, claims = with_changes(row["tellings"][error["detail"]], error["changes"])
        if prove(text, trace, claims=claims, strict=True).passes:
            passing.append((name, error["kind"], error["changes"][0][1]))

    assert passing == [each for each in PASSING if each[0] == name]


def test_there_are_hundreds_of_errors():
    assert sum(len(stored(name)[1]["errors"]) for name in PROGRAMS) == 379
