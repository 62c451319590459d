"""Arithmetic needs no sandbox; everything else gets one."""

import pytest

import groundbox as gb
from groundbox.agent.calc.straight import NotArithmetic
from groundbox.agent.routing import route, route_question, run_arithmetic


def test_arithmetic_goes_to_calc_and_tells_what_it_leaves():
    found = route("a = 3\nb, c = a * 2, 1\nprint(b)")

    assert (found.tier, list(found.assigns)) == ("calc", ["a", "b", "c"])


@pytest.mark.parametrize(
    ("source", "language", "reason"),
    [
        ("SELECT 1", "sql", "sql runs in the sandbox"),
        ("x + 1", "python", "x is not assigned in it"),
        ("import pandas", "python", "it imports more than math"),
        ("", "python", "there is nothing in it"),
        ("# 1 + 1", "python", "there is nothing in it"),
        ("1 +", "python", "it does not parse"),
    ],
)
def test_everything_else_goes_to_the_sandbox_with_a_reason(source, language, reason):
    found = route(source, language)

    assert (found.tier, found.reason) == ("sandbox", reason)


@pytest.mark.parametrize(
    ("question", "expression"),
    [
        ("What is 15 % of 200?", "15 % of 200"),
        ("what's 2+2", "2+2"),
        ("Calculate 3 km in m", "3 km in m"),
        ("How much is 20% off $80?", "20% off $80"),
        ("12 * 12 = ?", "12 * 12"),
    ],
)
def test_a_plain_sum_is_asked_of_calc(question, expression):
    found = route_question(question)

    assert (found.tier, found.expression) == ("calc", expression)


@pytest.mark.parametrize(
    "question",
    [
        "How many regions are there?",
        "What is the capital of France?",
        "What is 2024?",
        "What is 2024-03-05?",
        "What is Python 3.11?",
        "What is 1/0?",
        "What is 15 % of the revenue?",
        "15 % of 200",
        "?",
        "",
        "what is " + "1+" * 500 + "1?",
        "what is 1" + " " * 380 + "x",
    ],
)
def test_every_other_question_is_not(question):
    assert route_question(question).tier == "sandbox"


PROGRAMS = [
    "x = 7\ny = x / 3\nprint(x, y, f'{y:.3f}')\nround(y, 2)",
    "print('a', 2 ** 70, -7 // 2, -7 % 3, 1e16)\n'text'",
    "def solution():\n    n = 12\n    return n * 1.5\nprint(solution())",
    "a = True\na and 3",
    "None",
]


@pytest.mark.parametrize("source", PROGRAMS)
def test_a_result_is_that_of_the_sandbox(source):
    with gb.Sandbox() as box:
        there = box.run(source)

    here = run_arithmetic(source)

    assert (here.stdout, here.text, here.outcome, here.exit_code) == (there.stdout, there.text, there.outcome, 0)
    assert set(here.to_dict()) == set(there.to_dict())
    assert (here.isolation.backend, list(here.isolation.layers)) == ("calc", [])


def test_a_script_has_no_value():
    assert run_arithmetic("print(1)\n2", mode="script").value is None


def test_what_raises_is_left_to_the_sandbox():
    assert route("1 / 0").tier == "calc"
    with pytest.raises(NotArithmetic, match="it raises ZeroDivisionError"):
        run_arithmetic("print(1)\n1 / 0")
