"""Claims that were once left unchecked: what is true of them is proven, what is false is caught."""

from __future__ import annotations

import pytest

from groundbox.trace.narration.narrator import narrate
from groundbox.trace.proof.prover import prove
from groundbox.trace.proof.verdicts import Status

WALK = """\
def steps(n):
    at = 0
    while at < n:
        yield at
        at += 2

def main(n):
    total = 0
    for x in steps(n):
        total += x
    return total
"""
SQUARES = """\
def is_square(n):
    return (n ** 0.5).is_integer()

def main(n):
    root = (n ** 0.5).is_integer()
    return [k for k in range(10, n) if is_square(k)], root
"""
ENCODED = """\
def main(text, codes):
    written = ""
    for letter in text:
        written += codes[letter]
    return written
"""
CODES = {"a": "0" * 9, "b": "10" * 6, "c": "110" * 5}
CELLS = """\
def main(n):
    for row in range(n):
        at = 0
        while at < 2:
            at += 1
            if row == 1:
                continue
    return n
"""
PROGRAMS = {
    "walk": (WALK, 5),
    "squares": (SQUARES, 30),
    "encoded": (ENCODED, "abc" * 20, CODES),
    "cells": (CELLS, 3),
}


@pytest.mark.parametrize(
    ("program", "text", "is_so"),
    [
        # a name of a generator, told before the generator goes on
        ("walk", "`steps` yields 0. 2 is added to `at`, which goes from 0 to 2, and `steps` yields 2.", True),
        ("walk", "`steps` yields 0. 3 is added to `at`, which goes from 0 to 2, and `steps` yields 2.", False),
        ("walk", "`steps` yields 0. 2 is added to `at`, which goes from 2 to 4, and `steps` yields 2.", False),
        ("walk", "`total` begins as 0. For `x` = 2, 2 is added to `total`.", True),
        ("walk", "`total` begins as 0. For `x` = 2, 3 is added to `total`.", False),
        ("walk", "`total` begins as 0. 7 is added to `total`.", False),
        # a method of something that is worked out, written with its values
        ("squares", "`root` becomes `(n ** 0.5).is_integer()` = (30 ** 0.5).is_integer() = False.", True),
        ("squares", "`root` becomes `(n ** 0.5).is_integer()` = (31 ** 0.5).is_integer() = False.", False),
        ("squares", "`root` becomes `(n ** 0.5).is_integer()` = (30 ** 1.5).is_integer() = False.", False),
        ("squares", "`root` becomes `(n ** 0.5).is_integer()` = (30 ** 0.5).is_integer() = True.", False),
        # an operation of which one operand is written as a name, looked back to
        ("encoded", f"Earlier, `written` becomes written + '{'0' * 9}' = '{'0' * 9 + '10' * 6 + '110' * 5 + '0' * 9}'.", True),
        ("encoded", f"Earlier, `written` becomes written + '{'0' * 8}' = '{'0' * 9 + '10' * 6 + '110' * 5 + '0' * 9}'.", False),
        ("encoded", f"Earlier, `written` becomes written + '{'0' * 9}' = '{'0' * 9 + '10' * 6 + '110' * 5 + '0' * 8}'.", False),
        # the inner loop of which there are several
        ("cells", "For `row` = 0, in iteration 2 of the inner loop (1 < 2), `at` goes from 1 to 2. `row == 1` fails.", True),
        ("cells", "For `row` = 0, in iteration 2 of the inner loop (1 < 2), `at` goes from 0 to 2. `row == 1` fails.", False),
    ],
)  # fmt: skip
def test_a_claim_is_checked(recorded, program, text, is_so):
    source, *arguments = PROGRAMS[program]

    proof = prove(text, recorded(source, "main", *arguments))

    assert proof.faithful is is_so
    assert Status.UNCHECKABLE not in [verdict.status for verdict in proof.verdicts]


@pytest.mark.parametrize("style", ["prose", "steps", "backward"])
@pytest.mark.parametrize("detail", ["brief", "normal", "full"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_narrators_own_are_all_proven(recorded, program, style, detail):
    source, *arguments = PROGRAMS[program]
    trace = recorded(source, "main", *arguments)

    proof = prove(narrate(trace, style=style, detail=detail).text, trace)

    assert [each.quote for each in proof.verdicts if each.status is not Status.SUPPORTED] == []
    assert proof.faithful


NAMED = """\
def main({name}, more):
    total = 0
    for {item} in range({name}):
        total += {item} * more
    {more} = total
    return total, {more}
"""


WORDS = ["changes", "down", "false", "falls", "grows", "input", "items", "left", "out", "returns", "still"]


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("role", ["name", "item", "more"])
def test_names_that_are_words_of_the_text_are_told_apart_from_them(recorded, word, role):
    trace = recorded(NAMED.format(**{"name": "n", "item": "i", "more": "last", role: word}), "main", 9, 1)

    for style in ("prose", "backward"):
        proof = prove(narrate(trace, style=style).text, trace)

        assert [each.quote for each in proof.verdicts if each.status is not Status.SUPPORTED] == []
        assert proof.faithful
