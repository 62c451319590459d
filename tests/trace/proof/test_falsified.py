"""Narrations of twenty programs, falsified by hand in other ways than `mutation` knows, most of which are caught.

`falsified/NAME.json` has the texts of a program, and for each error what was replaced and whether the prover catches it.
"""

import json
from pathlib import Path

import pytest

from groundbox.trace.proof.prover import prove
from groundbox.trace.reading import Trace

HERE = Path(__file__).parent / "falsified"
PROGRAMS = sorted(path.stem for path in HERE.glob("*.json"))


@pytest.fixture(params=PROGRAMS)
def program(request):
    """The trace of a program, and its row of the corpus."""
    trace = Trace.loads((HERE.parents[1] / "claims" / "falsified" / "traces" / f"{request.param}.jsonl").read_bytes())
    return trace, json.loads((HERE / f"{request.param}.json").read_text())


def test_what_is_not_falsified_is_faithful(program):
    trace, row = program

    assert [detail for detail, text in row["texts"].items() if not prove(text, trace).faithful] == []


def test_each_error_is_caught_or_known_not_to_be(program):
    trace, row = program
    misjudged = []
    for error in row["errors"]:
        text = row["texts"][error["detail"]]
        for before, after in error["changes"]:
            assert before in text
            text = text.replace(before, after, 1)
        if prove(text, trace).faithful is error["caught"]:
            misjudged.append(error["changes"])

    assert misjudged == []


def test_there_are_hundreds_of_errors():
    errors = [error for name in PROGRAMS for error in json.loads((HERE / f"{name}.json").read_text())["errors"]]

    assert (len(errors), sum(error["caught"] for error in errors)) == (379, 305)
