"""The files that figures of docs/proof.md come from: refutations as they were read, and texts written for this."""

import collections
import importlib.util
import json
from pathlib import Path

import pytest

from groundbox.trace.claims import Status, prove

HERE = Path(__file__).parent
SCRIPT = HERE.parents[2] / "scripts" / "measure_claims.py"


def rows(name):
    return [json.loads(line) for line in (HERE / name).read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("reading", ["first", "second"])
def test_nine_of_ten_refutations_were_found_right(reading):
    read = [row[reading] for row in rows("refutations.jsonl")]

    assert len(read) == 152
    assert sum(read) >= 0.9 * len(read)


@pytest.mark.slow
def test_written_texts_pass_when_they_are_right():
    spec = importlib.util.spec_from_file_location("measure_claims", SCRIPT)
    measure = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(measure)
    passed, refuted = collections.Counter(), collections.Counter()

    for row in rows("written.jsonl"):
        proof = prove(row["text"], measure.recorded(row["program"], row["call"]))
        passed[row["right"]] += proof.passes
        refuted[row["right"]] += proof.count(Status.REFUTED) > 0

    assert passed[True] >= 24  # of 27
    assert passed[False] == 0  # of 16
    assert refuted[True] == 0
