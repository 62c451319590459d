"""Which call goes on after another one, and what it is given."""

from __future__ import annotations

import pytest

from groundbox.trace.proof.prover import prove

FACT = """\
def fact(n):
    if n <= 1:
        return 1
    rest = fact(n - 1)
    return n * rest
"""
FIB = """\
def fib(n):
    if n < 2:
        return n
    return fib(n - 1) + fib(n - 2)
"""
DOWN = "We call `fact` with `n` = 4. `fact` runs with `n` = 3. `fact` runs with `n` = 2. `fact(2)` returns 2. "
UP = DOWN + "Back in `fact(3)`, `rest` becomes 2 and `fact(3)` returns 6. "


@pytest.mark.parametrize(
    "text",
    [
        UP + "Back in `fact(4)`, `rest` becomes 6.",
        UP + "Back in `fact`, `rest` becomes 6.",
        DOWN + "Back in `fact(4)`, `rest` becomes 6.",
    ],
)
def test_a_call_that_waited_goes_on(recorded, text):
    proof = prove(text, recorded(FACT, "fact", 4))

    assert proof.failed == []
    assert proof.faithful


@pytest.mark.parametrize(
    "text",
    [
        UP + "Back in `fact(5)`, `rest` becomes 6.",
        DOWN + "Back in `fact(4)`, `rest` becomes 2.",
    ],
)
def test_another_call_does_not_go_on(recorded, text):
    assert not prove(text, recorded(FACT, "fact", 4)).faithful


def test_how_often_a_function_is_called_is_no_call(recorded):
    trace = recorded(FIB, "fib", 3)

    assert prove("fib(3) returns 2. In total fib is called 5 times.", trace).faithful
    assert not prove("fib(3) returns 2. In total fib is called 4 times.", trace).faithful
