"""How iterations and loops end, which handler takes an exception, and which calls it leaves."""

from __future__ import annotations

import pytest

from groundbox.trace.proof.prover import prove

SEEK = """\
def main(xs):
    found = None
    for i, x in enumerate(xs):
        if x < 0:
            continue
        if x > 10:
            found = i
            break
    for x in xs:
        found += x
    return found
"""
PARSE = """\
def read(text):
    return int(text)

def main(text):
    try:
        value = read(text)
    except KeyError:
        value = 1
    except (TypeError, ValueError):
        value = 2
    return value
"""
MISSED = "We call `main` with `text` = 'x'. "
SEEN = "We call `main` with `xs` = [1, -2, 11, 4]. "


@pytest.mark.parametrize(
    "text",
    [
        SEEN + "With `i` = 1 and `x` = -2, -2 < 0; a continue skips the rest of this iteration.",
        SEEN + "With `i` = 2 and `x` = 11, `found` becomes 2; a break ends the loop.",
        SEEN + "With `i` = 2 and `x` = 11, `found` becomes 2; a break ends the loop in iteration 3.",
        SEEN + "`found` becomes 2. `found` goes from 12 to 16. With no items left, the loop ends after 4 iterations.",
        SEEN + "Because of a break, the loop ends after 3 iterations.",
    ],
)
def test_ways_out_of_a_loop_are_proven(recorded, text):
    proof = prove(text, recorded(SEEK, "main", [1, -2, 11, 4]))

    assert proof.failed == []
    assert proof.faithful


@pytest.mark.parametrize(
    "text",
    [
        SEEN + "With `i` = 1 and `x` = -2, -2 < 0; a break ends the loop.",
        SEEN + "With `i` = 0 and `x` = 1, a continue ends this iteration.",
        SEEN + "With `i` = 2 and `x` = 11, `found` becomes 2; a continue ends this iteration.",
        SEEN + "`found` becomes 2. `found` goes from 12 to 16; a break ends the loop in iteration 4.",
        SEEN + "`found` becomes 2. `found` goes from 12 to 16. Because of a break, the loop ends after 4 iterations.",
        SEEN + "With no items left, the loop ends after 3 iterations.",
    ],
)
def test_other_ways_out_of_a_loop_are_not(recorded, text):
    assert not prove(text, recorded(SEEK, "main", [1, -2, 11, 4])).faithful


@pytest.mark.parametrize(
    "text",
    [
        MISSED + "The exception leaves `read`. `except (TypeError, ValueError)` catches it.",
        MISSED + "The exception leaves `read('x')`. The handler `except (TypeError, ValueError)` takes over.",
        MISSED + "The exception does not match `except KeyError`. `value` is set to 2.",
        MISSED + "`except KeyError` does not catch it.",
    ],
)
def test_handlers_and_calls_that_are_left_are_proven(recorded, text):
    proof = prove(text, recorded(PARSE, "main", "x"))

    assert proof.failed == []
    assert proof.faithful
    assert proof.sentence_coverage == 1.0


@pytest.mark.parametrize(
    "text",
    [
        MISSED + "The exception leaves `main`.",
        MISSED + "The exception leaves `read('y')`.",
        MISSED + "`except KeyError` catches it.",
        MISSED + "The handler `except ValueError` takes over.",
        MISSED + "`except (TypeError, ValueError)` does not catch it.",
        MISSED + "The exception does not match `except (TypeError, ValueError)`.",
    ],
)
def test_other_handlers_and_calls_are_not(recorded, text):
    assert not prove(text, recorded(PARSE, "main", "x")).faithful
