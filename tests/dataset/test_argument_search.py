"""Searches for arguments: what is tried first, and what each result leads to."""

import pytest
from dataset_fakes import run_here

from groundbox.dataset.argument_search import MOST, compared, seek
from groundbox.dataset.item import Answer, Fault, Tried
from groundbox.dataset.problem import Case, Problem, Provenance
from groundbox.dataset.program_runner import Request
from groundbox.values import literals

PLACE = Provenance(file="p.jsonl", line=1, format="plain")


def problem(source, statement=""):
    return Problem(id="p", source=source, statement=statement, entry="f", cases=(), provenance=PLACE)


def searched(source, wanted, statement=""):
    """All that was tried."""
    tried = []
    while guess := seek(problem(source, statement), wanted, tried):
        ran = run_here(Request(source=source, entry="f", case=guess.case, hash_seed=0, traced=False, cpu_s=1.0))
        tried.append(Tried(case=guess.case, why=guess.why, answer=ran.answer, sha256=""))
        if ran.answer.text == literals.text(wanted):
            break
    return tried


def given(tried):
    return [dict(each.case.kwargs) for each in tried]


def answer(value=None, fault=None):
    return Answer(value=value, text="" if fault else literals.text(value), stdout="", fault=fault)


def test_a_test_that_guards_the_wanted_constant_is_met_at_once():
    source = (
        "def f(age: int, member: bool):\n    if age < 18:\n        return 'child'\n"
        "    if member:\n        return 'member'\n    return 'guest'\n"
    )

    (child,) = searched(source, "child")
    (guest,) = searched(source, "guest")

    assert child.case.kwargs["age"] < 18
    assert child.why == "The program returns 'child' where `age < 18` is to be true."
    assert guest.case.kwargs == {"age": 18, "member": False}
    assert guest.why == "The program returns 'guest' where `age < 18` is to be false and `member` is to be false."


def test_a_relation_that_held_is_turned_round():
    tried = searched("def f(s: str):\n    return s[::-1]\n", "groundbox")

    assert given(tried)[-1] == {"s": "xobdnuorg"}
    assert tried[-1].why == "Here the result is `s` in reverse, so `s` is to be 'xobdnuorg'."


def test_a_relation_that_cannot_be_turned_round_for_the_wanted_result_is_passed_over():
    tried = searched("def f(s: str):\n    return {} if len(s) > 30 else s[::-1]\n", {})

    assert (given(tried)[0], len(tried)) == ({"s": "ab"}, MOST)


def test_a_relation_that_held_by_chance_is_given_up():
    tried = searched("def f(n: int):\n    return n if n < 5 else n * 2\n", 40)

    assert given(tried)[:2] == [{"n": 3}, {"n": 40}]
    assert given(tried)[-1] == {"n": 20}


def test_a_number_is_followed_along_a_line():
    tried = searched("def f(n: int):\n    return 4 * n + 100\n", 500)

    assert given(tried)[-1] == {"n": 100}
    assert tried[-1].why.endswith("at this rate 500 needs about `n` = 100.")


def test_too_short_asks_for_more():
    tried = searched("def f(n: int):\n    return ['x' for _ in range(n)]\n", ["x"] * 6)

    assert given(tried) == [{"n": 3}, {"n": 6}]


@pytest.mark.parametrize(
    ("statement", "first"),
    [
        ("Input:\n  `v` (int): a number", 3),
        ("Input:\n  `v` (list of int): numbers", [3, 1, 2]),
        ("Input:\n  `v` (list of list of int): a table", [[1, 2], [3, 4]]),
        ("Input:\n  - v (str): a text", "ab"),
        ("Input:\n  `v` (float): a number", 2.5),
    ],
)
def test_kinds_are_read_in_the_statement(statement, first):
    guess = seek(problem("def f(v):\n    return v\n", statement), "wanted", [])

    assert guess.case.kwargs == {"v": first}


@pytest.mark.parametrize(
    ("source", "statement"),
    [
        ("def f(v):\n    return v\n", ""),
        ("def f(v: dict):\n    return v\n", ""),
        ("def f(v, /):\n    return v\n", "`v` (int)"),
        ("def f(*v):\n    return v\n", "`v` (int)"),
        ("f = len\n", ""),
        ("def f(:\n", ""),
    ],
)
def test_where_nothing_is_known_of_the_parameters_nothing_is_tried(source, statement):
    assert seek(problem(source, statement), 5, []) is None


def test_a_search_ends_after_a_few_tries_and_repeats_none():
    tried = searched("def f(n: int, s: str):\n    return 'never'\n", "wanted")

    assert len(tried) == MOST
    assert len({each.case.key() for each in tried}) == MOST


def test_numbers_stay_small():
    tried = searched("def f(n: int):\n    return n % 3\n", 10**9)

    assert all(abs(each["n"]) <= 10_000 for each in given(tried))


@pytest.mark.parametrize(
    ("got", "wanted", "words"),
    [
        (3, 5, "It returns 3, and 5 is wanted: too small."),
        (7.5, 5, "It returns 7.5, and 5 is wanted: too large."),
        ("a", "abc", "It returns 'a', and 'abc' is wanted: too short."),
        ([1, 2], [2, 1], "It returns [1, 2], and [2, 1] is wanted: as long, but not the same."),
        (True, 1, "It returns True, and 1 is wanted: a value of type bool in place of int."),
        (5, 5, "It returns 5, which is the wanted result."),
        (5.0, 5, "It returns 5.0, and 5 is wanted: a number of another type."),
        (None, 5, "It returns None, and 5 is wanted: a value of type NoneType in place of int."),
    ],
)
def test_a_result_is_set_beside_the_wanted_one(got, wanted, words):
    assert compared(answer(got), wanted) == words


def test_an_exception_leads_to_no_result():
    raised = answer(fault=Fault(type="KeyError", message="1", line=2))

    assert compared(raised, 5) == "It ends with KeyError, so these arguments lead to no result."


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), 10**400, -(10**400), [[]], {"a": 1}, {1}, None, b"x", 2j]
)
@pytest.mark.parametrize("result", [float("nan"), float("inf"), 10**400, 0, "", [], None])
def test_odd_values_are_no_trouble(value, result):
    source = "def f(n: int, xs: list[int], s: str):\n    return n\n"
    first = seek(problem(source), value, [])

    following = seek(problem(source), value, [Tried(case=first.case, why="", answer=answer(result), sha256="")])

    assert isinstance(first.case, Case)
    assert following is None or following.case.key() != first.case.key()
