"""Why an expression has its value, in the values of one moment."""

from __future__ import annotations

import ast

import pytest

from groundbox.trace.narrate.explanation import Explanation

SOURCE = """\
import math
class Box:
    def __init__(self, content):
        self.content = content
def f(a, b, xs, table, word, box, none):
    done = True
    return done
"""


@pytest.fixture
def explanation(recorded):
    trace = recorded(SOURCE + "def main():\n    return f(3, 5, [4, 0, 7], {'k': 2}, 'abc', Box(9), None)\n", "main")
    inner = next(activation for activation in trace.structure.activations.values() if activation.name == "f")
    state = trace.state_at(inner.last)
    return Explanation(state, inner.frame, assigned=trace.structure.syntax.assigned)


def parsed(code):
    return ast.parse(code, mode="eval").body


@pytest.mark.parametrize(("code", "truth", "reason"), [
    ("a < b", True, "3 < 5"),
    ("a > b", False, "3 <= 5"),
    ("a == 4", False, "3 != 4"),
    ("b % 2 == 1", True, "5 % 2 = 1"),
    ("a * 2 > b + 4", False, "3 * 2 = 6 and 5 + 4 = 9 and 6 <= 9"),
    ("a in xs", False, "3 is not in [4, 0, 7]"),
    ("'k' in table", True, "'k' is in {'k': 2}"),
    ("0 <= a < 3", False, "3 >= 3"),
    ("0 <= a < b", True, "0 <= 3 and 3 < 5"),
    ("a < 0 or b < 0", False, "3 >= 0 and 5 >= 0"),
    ("a < 0 or b > 0", True, "5 > 0"),
    ("a > 0 and xs[1]", False, "`xs[1]` is 0"),
    ("not xs", False, "`xs` is not empty"),
    ("xs[1:1]", False, "`xs[1:1]` is empty"),
    ("none is None", True, "`none` is None"),
    ("box is not None", True, "`box` is not None"),
    ("box", True, "`box` is not None"),
    ("box.content > a", True, "9 > 3"),
    ("done", True, "`done` is True"),
    ("word.isalpha()", True, "`word.isalpha()` is True"),
    ("len(xs) == a", True, "3 == 3"),
])  # fmt: skip
def test_a_condition_has_the_reason_that_decided_it(explanation, code, truth, reason):
    assert explanation.reason(parsed(code), truth) == reason


@pytest.mark.parametrize(("code", "truth"), [
    ("a < b", False), ("unknown > 1", True), ("f(a) > 1", True), ("box.other", True), ("True", True),
])  # fmt: skip
def test_a_reason_that_is_not_certain_is_not_given(explanation, code, truth):
    assert explanation.reason(parsed(code), truth) is None


@pytest.mark.parametrize(("code", "result", "workings"), [
    ("(a + b) // 2", "4", "(3 + 5) // 2"),
    ("xs[2] - table['k']", "5", "7 - 2"),
    ("len(xs) - 1", "2", "3 - 1"),
    ("max(a, b)", "5", "max(3, 5)"),
    ("-a ** 2", "-9", "-3 ** 2"),
    ("(a - b) ** 2", "4", "(3 - 5) ** 2"),
    ("math.sqrt(xs[0])", "2.0", "math.sqrt(4)"),
    ("word + 'd'", "'abcd'", "'abc' + 'd'"),
    ("not done", "False", "not True"),
    ("a", "3", None),
    ("a + b", "9", None),
    ("g(a)", "3", None),
])  # fmt: skip
def test_workings_are_the_expression_with_values(explanation, code, result, workings):
    assert explanation.workings(parsed(code), result) == workings
