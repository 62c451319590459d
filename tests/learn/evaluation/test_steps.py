"""Which claims of a reasoning count, and what the run says to them."""

import pytest

from groundbox.learn.evaluation.steps import steps_of
from groundbox.sandbox.portal import run

SOURCE = """\
def f(x):
    y = x - 4
    if x > 3:
        y = y + 1
    while y < 6 and x != 0:
        y += 1
    return y
"""


@pytest.fixture(scope="module")
def trace():
    """f(7), where `y` is 3, 4, 5 and 6."""
    return run(SOURCE, mode="call", call="f", args=[7], trace=True).trace


@pytest.mark.parametrize(
    ("text", "told", "borne_out", "refuted"),
    [
        ("7 > 3, so `x > 3` is true.", 2, 2, 0),
        ("`x > 3` is true (7 > 3).", 2, 2, 0),
        ("3 < 7, so `x > 3` is true.", 2, 2, 0),
        ("`y < 6` is false (6 >= 6).", 2, 2, 0),
        ("`x > 3` is true (7 > 3), and `y < 6` is true (4 < 6).", 4, 4, 0),
        ("7 > -3, so `x > 3` is true.", 2, 1, 1),
        ("`x > 3` is true because 7 > -3.", 2, 1, 1),
        ("-3 < 7, so `x > 3` is true.", 2, 1, 1),
        ("8 > 3, so `x > 3` is true.", 2, 1, 1),
        ("2 > 3, so `x > 3` is true.", 2, 1, 1),
        ("`y < 6` is false (8 >= 6).", 2, 1, 1),
        ("`x > 3` is true (7 > 3), and `y < 6` is true (2 < 6).", 4, 3, 1),
        ("Since 7 > -3, `y` becomes 4.", 1, 1, 0),
        ("7 > 3 is true.", 0, 0, 0),
        ("`x > 3` is true. 7 > -3 is true.", 1, 1, 0),
        ("Since 7 > -3 and so `x > 3` holds, `y` becomes 4.", 3, 2, 1),
        ("`y` is set to `x - 4` = 7 - 4 = 3 and 7 != 3.", 3, 3, 0),
        ("7 - 4 = 3.", 1, 1, 0),
        ("9 - 6 = 3.", 0, 0, 0),
    ],
)
def test_a_comparison_of_numbers_counts_as_the_operands_of_the_condition_of_its_sentence(
    trace, text, told, borne_out, refuted
):
    steps = steps_of(text, trace)

    assert (steps.told, steps.borne_out, steps.refuted) == (told, borne_out, refuted)


def test_the_first_false_sentence_is_that_of_the_false_operand(trace):
    steps = steps_of("`y` becomes 3. 7 > -3, so `x > 3` is true. `y` becomes 4.", trace)

    assert (steps.sentences, steps.first_false, steps.first_unproven) == (3, 2, 2)
