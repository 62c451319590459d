"""A hundred texts by hand about twenty programs, half of them with one error, 30 held out while a table was made.

They come without claims, mostly in the manner of our narrator, of which the table of wordings reads little: what it
does not read does not pass.
"""

import collections
import json
from pathlib import Path

import pytest

from groundbox.trace.claims import Status, prove
from groundbox.trace.record.reading import Trace

HERE = Path(__file__).parent
PROGRAMS = sorted((HERE / "programs").glob("*.py"))
ROWS = [
    (path.stem, row) for path in sorted((HERE / "prose").glob("*.json")) for row in json.loads(path.read_text())
]  # fmt: skip


def stored(program):
    return Trace.loads((HERE / "traces" / f"{program}.jsonl").read_bytes())


@pytest.mark.parametrize(("held_out", "right", "wrong"), [(False, 15, 4), (True, 7, 0)])
def test_few_true_texts_pass_and_hardly_any_wrong_one(held_out, right, wrong):
    passing, refuted = collections.Counter(), []
    for program, row in ROWS:
        if row["held_out"] is held_out:
            proof = prove(row["text"], stored(program))
            passing[row["wrong"] is None] += proof.passes
            refuted += [(program, row["text"])] * (row["wrong"] is None and proof.count(Status.REFUTED) > 0)

    assert passing[True] >= right
    assert passing[False] <= wrong
    assert refuted == []


def test_there_are_a_hundred_texts_and_half_have_an_error():
    counts = collections.Counter((row["held_out"], row["wrong"] is None) for _, row in ROWS)

    assert counts == {(False, True): 34, (False, False): 36, (True, True): 16, (True, False): 14}


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_every_stored_trace_is_of_the_program_beside_it(path):
    assert stored(path.stem).source == path.read_text()
