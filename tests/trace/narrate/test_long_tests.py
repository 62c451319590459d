"""A test that is too long to be shown is named by its line."""

from __future__ import annotations

import json
import re

import pytest

from groundbox.trace.claims import prove
from groundbox.trace.narrate.document import document
from groundbox.trace.narrate.narrator import narrate

LONG_TESTS = """\
def canonical(text, n):
    if (not text or len(text) not in (10, 13) or text in ("0000000000", "0000000000000")
            or text.find("X") in range(0, 9) or n > 90):
        return ""
    if (text and len(text) in (10, 13) and text not in ("0000000000", "0000000000000")
            and text.find("X") not in range(0, 9) and text.find("x") == -1 and n < 90):
        n += 1
    return n

print(canonical("0201616220", 4))
"""


@pytest.mark.parametrize("style", ["prose", "steps"])
def test_the_line_is_told_and_proven(recorded, unproven, style):
    trace = recorded(LONG_TESTS)

    for seed in range(3):
        told = narrate(trace, style=style, seed=seed)

        lines = re.findall(r"[Tt]he test on line (\d) (?:fails|does not hold|is false|holds|is true)", told.text)
        assert lines == ["2", "5"]
        assert unproven(told, trace) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("The test on line 2 does not hold", "The test on line 2 holds"),
        ("The test on line 5 holds", "The test on line 5 does not hold"),
        ("The test on line 2 does", "The test on line 4 does"),
        ("The test on line 5", "The test on line 2"),
    ],
)
def test_its_opposite_and_another_line_are_caught(recorded, before, after):
    trace = recorded(LONG_TESTS)
    told = narrate(trace, seed=1)
    claims = json.dumps(document(told, trace))
    assert before in told.text

    changed = claims.replace(before, after).encode()

    assert not prove(told.text.replace(before, after), trace, claims=changed, strict=True).passes


@pytest.mark.parametrize(("line", "holds"), [(2, False), (5, True)])
def test_the_test_itself_is_held_against_the_record(recorded, is_so, line, holds):
    trace = recorded(LONG_TESTS)
    claims = [claim for sentence in document(narrate(trace), trace)["sentences"] for claim in sentence["claims"]]
    tests = [claim for claim in claims if claim["kind"] == "test"]
    subject = tests[line > 2]["subject"]

    assert is_so(trace, "test", subject, str(holds))
    assert not is_so(trace, "test", subject, str(not holds))
