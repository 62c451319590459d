"""Expressions worked out over known values: what Python would answer, or that it is not known."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundbox.values.evaluate import MOST_OPERATIONS, Meter, evaluate, truth
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


def test_operations_are_bounded_and_counted():
    meter = Meter()

    with pytest.raises(Unknown, match="too many operations"):
        evaluate(ast.parse("[x + y for x in range(1000) for y in range(1000)]", mode="eval").body, lookup, meter)

    assert meter.used > MOST_OPERATIONS


def test_a_handle_is_asked_for_nothing_that_would_run_the_program():
    for source in ("h == 1", "h in [2]", "not h", "{h: 1}", "h.size", "h[0]", "len(h)", "str(h)"):
        with pytest.raises(Unknown):
            truth(ast.parse(source, mode="eval").body, {"h": Handle(7)}.__getitem__)

    assert truth(ast.parse("h is h", mode="eval").body, {"h": Handle(7)}.__getitem__)
