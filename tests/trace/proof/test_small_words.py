"""Small words that say which place, which object, which stream, which way."""

from __future__ import annotations

import io
import sys

import pytest

from groundbox.trace.proof.prover import prove

PROGRAM = """\
def main(xs):
    b = xs
    c = list(xs)
    c.insert(0, 4)
    xs.pop(1)
    c.append(5)
    for x in c:
        if x == 1:
            break
    return b
"""
TEXT = "`main` runs with `xs` = [1, 2, 3]. {}"


@pytest.mark.parametrize(
    "text",
    [
        "`c` is another list than `xs`.",
        "`c` gets 4 at its beginning.",
        "The second item, 2, is removed from `xs`.",
        "`x` is 4, so the loop goes on.",
    ],
)
def test_what_small_words_say_is_proven(recorded, text):
    proof = prove(TEXT.format(text), recorded(PROGRAM, "main", [1, 2, 3]))

    assert proof.failed == []
    assert proof.sentence_coverage == 1.0


@pytest.mark.parametrize(
    "text",
    [
        "`b` is another list than `xs`.",
        "`c` gets 5 at its beginning.",
        "The third item, 2, is removed from `xs`.",
        "5 is appended to `c`. For `x` = 1, `x == 1` is true, so the loop goes on.",
    ],
)
def test_what_small_words_say_otherwise_is_not(recorded, text):
    assert not prove(TEXT.format(text), recorded(PROGRAM, "main", [1, 2, 3])).faithful


def test_output_has_its_stream_and_its_line(recorded, monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(io.BytesIO()))  # as a program finds it
    trace = recorded("import sys\nprint('a')\nprint('b')\nprint('log', file=sys.stderr)\n")

    assert prove("This prints 'log\\n' to stderr. The second line of output is 'b'.", trace).faithful
    assert not prove("This prints 'b\\n' to stderr.", trace).faithful
    assert not prove("This prints 'b\\n'. The second line of the output is 'a'.", trace).faithful
