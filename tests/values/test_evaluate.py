"""Expressions worked out over known values: what Python would answer, or that it is not known."""

import ast
from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundbox.values.evaluate import MOST_OPERATIONS, Meter, evaluate
from groundbox.values.unknown import Handle, Unknown

KNOWN = {"n": 3, "xs": [1, 2, 3], "d": {"a": 1}, "s": "abc"}
atoms = st.one_of(st.integers(-9, 9).map(str), st.sampled_from(["n", "len(xs)", "0.5", "True", "d['a']", "xs[-1]"]))
expressions = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "//", "%", "<", "<=", "==", "!=", "and", "or"]), inner).map(
            lambda parts: f"({' '.join(parts)})"
        ),
        st.tuples(inner, inner, inner).map(lambda parts: "({} if {} else {})".format(*parts)),
        st.tuples(inner, inner, inner).map(lambda parts: "({} < {} <= {})".format(*parts)),
        inner.map(lambda part: f"(not {part})"),
    ),
    max_leaves=8,
)


def lookup(name):
    if name == "hidden":
        raise Unknown("it is hidden")
    return KNOWN[name]


def value_of(source):
    return evaluate(ast.parse(source, mode="eval").body, lookup)


@given(expressions)
def test_the_answer_is_pythons(source):
    try:
        wanted = eval(source, dict(KNOWN))
    except ZeroDivisionError:
        with pytest.raises(Unknown, match="ZeroDivisionError"):
            value_of(source)
        return

    found = value_of(source)

    assert (type(found), found) == (type(wanted), wanted)


@pytest.mark.parametrize(
    "source",
    ["True or hidden", "0 and hidden", "1 if n else hidden", "1 > 2 > hidden", "[x for x in xs if x > 9 > hidden]"],
)
def test_a_part_that_python_leaves_out_need_not_be_known(source):
    assert value_of(source) == eval(source, {**KNOWN, "hidden": None})


@pytest.mark.parametrize(
    "source", ["hidden", "hidden and 0", "10 ** 10 ** 9", "'a' * 10 ** 9", "print(n)", "list({1, 2})"]
)
def test_what_is_not_certain_is_unknown(source):
    with pytest.raises(Unknown):
        value_of(source)


@pytest.mark.parametrize(
    "source",
    [
        "[[[1] * 300] * 300] * 300",
        "len(str([[[1] * 300] * 300] * 300))",
        "[[1] * 1000 for x in range(1000)] == []",
        "[[['a' * 1000] * 10] * 10] * 10",
        "tuple([(0,) * 90000 for x in xs] * 4)",
        "{1: [[0] * 1000] * 1000}",
    ],
)
def test_what_is_shared_in_a_result_counts_each_time(source):
    with pytest.raises(Unknown, match="too large"):
        value_of(source)


def test_a_result_may_be_as_large_as_a_million_items_and_characters():
    assert value_of("len([[0] * 900] * 900)") == 900
    assert value_of("[[x] * 3 for x in xs] + [[n]]") == [[1] * 3, [2] * 3, [3] * 3, [3]]


@pytest.mark.parametrize("digits", ["-10 ** 5", "10 ** 5"])
def test_a_number_is_not_rounded_to_more_digits_than_can_be_worked_out(digits):
    """Python works out ten to the power of the digits: of 10^9 digits here, once."""
    assert value_of("round(12345, -2)") == 12300
    assert value_of("round(2.567, 1)") == 2.6
    assert type(value_of("round(2.567)")) is int
    with pytest.raises(Unknown, match="takes too long"):
        value_of(f"round(1, {digits})")


@pytest.mark.parametrize(
    "source", ["set({})", "frozenset({})", "dict(zip({}, {}))", "set().union({})", "{{1}}.issuperset({})"]
)
def test_keys_that_all_have_one_hash_are_not_made_a_table(source):
    """2^61 - 1 is what CPython takes integers modulo for their hash."""
    few, many = (f"range(0, {count} * (2**61 - 1), 2**61 - 1)" for count in (100, 20_000))

    value_of(source.format(few, few))
    with pytest.raises(Unknown, match="the same hash"):
        value_of(source.format(many, many))


@pytest.mark.parametrize(
    "source",
    [
        "set()", "frozenset()", "dict()", "set([1, 1])", "frozenset('ab')", "dict([(1, 2)])", "dict(d, b=2)",
        "dict(b=1)", "{1}.union([2], (3,))", "{1, 2}.issubset([1, 2, 3])", "{1, 2} - {2}", "{1}.isdisjoint({2: 3})",
        "{1, 2}.copy()",
    ],
)  # fmt: skip
def test_sets_and_dicts_are_those_of_python(source):
    wanted = eval(source, dict(KNOWN))

    assert (type(value_of(source)), value_of(source)) == (type(wanted), wanted)


@pytest.mark.parametrize(
    "source",
    [
        "reversed(s) == s", "[reversed(xs)] == [xs[::-1]]", "len(zip(xs, s))", "str(enumerate(s))",
        "(x for x in xs) == xs", "zip(xs, s)[0]", "zip(xs, s) + []", "reversed(reversed(xs))", "f'{zip(xs, s)}'",
        "sorted([zip(xs), zip(s)])",
    ],
)  # fmt: skip
def test_an_iterator_is_no_list(source):
    """A program that takes it for one, as `word == reversed(word)` does, has another answer than a list gives."""
    with pytest.raises(Unknown):
        value_of(source)


@pytest.mark.parametrize(
    "source",
    [
        "list(zip(xs, s))", "[*reversed(xs)]", "dict(enumerate(s))", "sum(x for x in xs)", "''.join(reversed(s))",
        "1 if zip([], []) else 2", "not (x for x in [])", "(1, 'a') in zip(xs, s)", "max(x for x in xs)", "bool(zip())",
        "[b for a, b in zip(xs, s)]", "list(enumerate(zip(xs, s), 1))", "set(x % 2 for x in xs)", "tuple(reversed(xs))",
    ],
)  # fmt: skip
def test_an_iterator_is_iterated(source):
    wanted = eval(source, dict(KNOWN))

    assert (type(value_of(source)), value_of(source)) == (type(wanted), wanted)


def test_the_items_of_an_iterator_are_told_as_a_list():
    assert value_of("zip(xs, s)") == [(1, "a"), (2, "b"), (3, "c")]


@pytest.mark.parametrize("source", ["[x for x in r]", "[*r]", "[a for a, b in [r]]"])
def test_a_range_of_a_billion_is_not_made_into_a_list(source):
    with pytest.raises(Unknown, match="it is too long"):
        evaluate(ast.parse(source, mode="eval").body, {"r": range(10**9)}.__getitem__)


def test_views_of_an_ordered_dict_are_iterated_as_those_of_a_dict():
    names = {"d": OrderedDict(b=1, a=2)}

    assert evaluate(ast.parse("[k for k in d.keys()]", mode="eval").body, names.__getitem__) == ["b", "a"]


def test_operations_are_bounded_and_counted():
    meter = Meter()

    with pytest.raises(Unknown, match="too many operations"):
        evaluate(ast.parse("[x + y for x in range(1000) for y in range(1000)]", mode="eval").body, lookup, meter)

    assert meter.used > MOST_OPERATIONS


def test_a_handle_is_asked_for_nothing_that_would_run_the_program():
    for source in ("h == 1", "h in [2]", "not h", "{h: 1}", "h.size", "h[0]", "len(h)", "str(h)"):
        with pytest.raises(Unknown):
            bool(evaluate(ast.parse(source, mode="eval").body, {"h": Handle(7)}.__getitem__))

    assert evaluate(ast.parse("h is h", mode="eval").body, {"h": Handle(7)}.__getitem__)
