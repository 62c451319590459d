"""What is over: names, generators, loops, exceptions."""

from __future__ import annotations

import pytest

from groundbox.trace.proof.prover import prove

PROGRAM = """\
def few(xs):
    for x in xs:
        yield x

def risky(x):
    return 6 // x

def main(xs):
    spare = 1
    kept = 2
    out = []
    for x in few(xs):
        out.append(x)
    try:
        risky(0)
    except ZeroDivisionError:
        out.append(0)
    del spare
    for y in xs:
        if y > 2:
            break
    return out
"""
PLAIN = """\
def main(xs):
    total = 0
    for x in xs:
        total += x
    return total
"""
UNCAUGHT = """\
def main(x):
    y = 6 // x
    return y
"""
TEXT = "`main` runs with `xs` = [1, 3, 4]. {}"


@pytest.mark.parametrize(
    "text",
    [
        "0 is appended to `out`. `spare` is deleted.",
        "The name `spare` is removed. `kept` is not deleted.",
        "`few` has nothing more to give. 0 is appended to `out`.",
        "The generator `few` is exhausted. 0 is appended to `out`.",
        "With no items left, the loop ends. The loop stops early.",
        "This raises ZeroDivisionError and the exception is caught in `main`.",
        "This raises ZeroDivisionError and the exception is handled.",
        "An exception is raised. 0 is appended to `out`.",
    ],
)
def test_what_is_over_is_proven(recorded, text):
    proof = prove(TEXT.format(text), recorded(PROGRAM, "main", [1, 3, 4]))

    assert proof.failed == []
    assert proof.sentence_coverage == 1.0


@pytest.mark.parametrize(
    "text",
    [
        "`spare` is not deleted.",
        "`kept` is deleted.",
        "The name `kept` is removed.",
        "`few` has nothing more to give. 1 is appended to `out`.",
        "The loop never ends.",
        "This raises ZeroDivisionError and the exception is caught in `few`.",
    ],
)
def test_what_is_not_over_is_not(recorded, text):
    assert not prove(TEXT.format(text), recorded(PROGRAM, "main", [1, 3, 4])).faithful


@pytest.mark.parametrize(
    "text",
    ["The loop stops early.", "With 2 items left, the loop ends.", "An exception is raised.", "The loop never ends."],
)
def test_a_loop_that_takes_all_items_ends_in_no_other_way(recorded, text):
    assert not prove(TEXT.format(text), recorded(PLAIN, "main", [1, 3, 4])).faithful


@pytest.mark.parametrize(
    ("text", "faithful"),
    [
        ("Nothing catches it.", True),
        ("The exception is not handled.", True),
        ("The exception is handled.", False),
        ("The exception is caught in `main`.", False),
    ],
)
def test_an_exception_that_leaves_is_not_handled(recorded, text, faithful):
    trace = recorded(UNCAUGHT, "main", 0)

    assert prove(f"`main` runs with `x` = 0. This raises ZeroDivisionError. {text}", trace).faithful is faithful


def test_what_is_deleted_from_somewhere_may_have_the_name_of_a_variable(recorded):
    trace = recorded("def main(d, key):\n    d.pop(key)\n    return d\n", "main", {"a": 1}, "a")

    assert prove("`main` runs with `key` = 'a'. `key` is deleted.", trace).failed == []


def test_the_line_that_deletes_a_name_may_do_more(recorded):
    program = """\
def main(xs):
    out = []
    for x in xs:
        try:
            6 // x
        except ZeroDivisionError as error:
            out.append(x)
            continue
    return out
"""
    text = (
        "`main` runs with `xs` = [0]. 0 is appended to `out`, `error` is deleted, and a continue ends this iteration."
    )

    assert prove(text, recorded(program, "main", [0])).failed == []


@pytest.mark.parametrize(
    "text", ["The loop never ends early.", "The loop never goes on.", "The loop stops early if `x` is 3."]
)
def test_other_words_about_a_loop_are_no_claims_of_its_end(recorded, text):
    assert prove(TEXT.format(text), recorded(PLAIN, "main", [1, 3, 4])).faithful


def test_what_is_not_caught_in_a_function_may_be_caught_elsewhere(recorded):
    trace = recorded(PROGRAM, "main", [1, 3, 4])
    text = TEXT.format("This raises ZeroDivisionError, `except ZeroDivisionError` catches it. {}")

    assert prove(text.format("The exception is not caught in `risky`."), trace).faithful
    assert not prove(text.format("The exception is not caught in `main`."), trace).faithful
