"""Claims about what the program prints, at once or with several prints."""

from __future__ import annotations

import io
import sys

import pytest

from groundbox.trace.proof.prover import prove

SHOP = """\
def main(count):
    print(count)
    x = 'a'
    print(x, 3)
    print('b', end='')
    print('c')
    x = 'd'
    print(count)
    print('e\\nf\\ng')
    return x
"""
TRUE = [
    "x becomes 'd'. The program prints 'f\\ng'.",
    "It prints 'bc\\n2\\ne'.",
    "The program prints '2\\na 3\\n'.",
    "The program prints '2\\na 3\\nbc\\n2\\ne\\nf\\ng\\n'. x becomes 'a'.",
    "The program prints 2 and x becomes 'a'. It prints 'a 3\\nbc'. x becomes 'd'.",
    "The program prints 2. It prints 'a 3'. So far the program prints '2\\na 3'. x becomes 'd'.",
]
FALSE = [
    "x becomes 'd'. The program prints 'e\\nf\\ng'. The program prints 'e\\nf\\ng'.",
    "x becomes 'd'. The program prints 'e\\ng'.",
    "The program prints '2\\na 4\\n'.",
    "The program prints 'a 3\\n2\\nbc'.",
    "The program prints '2\\nbc'.",
    "The program prints '2\\na'.",
    "The program prints '3\\nbc'.",
    "The program prints 'a 3\\nb'.",
    "The program prints 'c\\n2'.",
    "The program prints 'bc\\n2'. It prints '2\\na 3'.",
    "The program prints 'bc\\n2'. x becomes 'a'.",
]


@pytest.mark.parametrize("text", TRUE)
def test_a_text_may_be_that_of_several_prints(recorded, text):
    proof = prove(text, recorded(SHOP, "main", 2))

    assert proof.failed == []
    assert proof.faithful


@pytest.mark.parametrize("text", FALSE)
def test_another_text_another_order_and_half_a_line_are_caught(recorded, text):
    proof = prove(text, recorded(SHOP, "main", 2))

    assert not proof.faithful


def test_the_first_of_several_prints_shows_their_text(recorded):
    trace = recorded(SHOP, "main", 2)

    proof = prove("The program prints 'a 3\\nbc'.", trace)

    assert [trace.records[verdict.step].text for verdict in proof.verdicts] == ["a 3\n"]


def test_what_is_written_to_standard_output_is_not_written_to_standard_error(recorded, monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(io.BytesIO()))  # as a program finds it
    trace = recorded("import sys\nprint('to all')\nprint('to log', file=sys.stderr)\n")

    assert prove("'to log\\n' is written to standard error.", trace).faithful
    assert not prove("'to all\\n' is written to standard error.", trace).faithful
