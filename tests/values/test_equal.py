"""Equality of values: what is equal as it stands, within tolerances, as it was told, and as JSON."""

import copy
import math
from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundbox.values.equal import as_told, close_numbers, equal, equal_as_json, frozen, identical

NAN = math.nan
atoms = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from([0.0, -0.0, 1.0, 0.5, math.nan, math.inf]),
    st.sampled_from(["", "a", b"", b"a", 1j]),
)  # fmt: skip
keys = atoms.filter(lambda key: not isinstance(key, bool))  # for which True and 1 are one, but not in `frozen`
values = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.lists(inner, max_size=2).map(deque),
        st.tuples(inner),
        st.sets(keys, max_size=2),
        st.frozensets(keys, max_size=2),
        st.dictionaries(keys, inner, max_size=2),
    ),
    max_leaves=5,
)


def nan():
    """A nan of its own, so that identity does not stand for equality."""
    return float("nan")


@given(values)
def test_a_copy_is_equal_by_every_measure(value):
    other = copy.deepcopy(value)

    assert equal(value, other)
    assert equal(value, other, rel_tol=1e-9, abs_tol=1e-9, sequences_alike=True, blanks_alike=True)
    assert as_told(value, other)
    assert identical(value, other)
    assert equal_as_json(value, other)
    assert frozen(value) == frozen(other)


def test_sets_in_a_deque_are_identical_in_whatever_order_they_lie():
    one, other = {8, 0}, {0, 8}  # which have one place in a small table, so that the first one is written first

    assert repr(one) != repr(other)
    assert identical(deque([one], maxlen=3), deque([other], maxlen=3))
    assert not identical(deque([one]), deque([one], maxlen=3))


@given(values, values)
def test_equality_has_no_direction_and_grows_with_what_may_differ(one, other):
    assert equal(one, other) is equal(other, one)
    if identical(one, other):
        assert equal(one, other)
    if equal(one, other):
        assert equal(one, other, rel_tol=1e-9)
        assert equal(one, other, sequences_alike=True)


@given(values, values)
def test_values_share_a_key_if_and_only_if_they_are_equal(one, other):
    assert (frozen(one) == frozen(other)) is equal(one, other)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1.0, True),
        (1, True, False),
        ([1, 2], [1, 2.0], True),
        ([1, 2], (1, 2), False),
        ([1], [True], False),
        (nan(), nan(), True),
        ({nan(): 1}, {nan(): 1}, True),
        ({nan()}, {nan()}, True),
        (0.0, -0.0, True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({1: "a"}, {True: "a"}, True),
        (0.1 + 0.2, 0.3, False),
        (None, NAN, False),
        ({1}, frozenset({1}), False),
        (10**400, 1.5, False),
        (deque([1, nan()]), deque([1.0, nan()]), True),
        (deque([1]), deque([True]), False),
        (deque([1]), [1], False),
        ({nan(), nan()}, {nan()}, False),
    ],
)
def test_values_are_equal_with_their_types(one, other, same):
    assert equal(one, other) is same


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ([1, 2], (1, 2.0), True),
        (True, 1, False),
        ("1", 1, False),
        ({"a": 1.0}, {"a": 1}, True),
        ({"a": 1}, {"b": 1}, False),
        (10**400, 10**400 + 1, False),
        (10**18, 10**18 + 1, False),
        (10**400, 1.5, False),
        (float("inf"), float("inf"), True),
        (None, NAN, True),
        (None, 0, False),
        ([0.1 + 0.2, None], (0.3, NAN), True),
        (1.0, 1.0 + 2e-9, False),
    ],
)
def test_cells_of_tables_are_equal_within_a_tolerance(one, other, same):
    options: dict[str, Any] = {"rel_tol": 1e-9, "abs_tol": 1e-12, "sequences_alike": True, "blanks_alike": True}

    assert equal(one, other, **options) is same


def test_a_tolerance_holds_to_its_limit():
    assert close_numbers(100.0, 101.0, rel_tol=0.0, abs_tol=1.0)
    assert not close_numbers(100.0, 101.000001, rel_tol=0.0, abs_tol=1.0)
    assert close_numbers(0.0, 1e-13, rel_tol=1e-9, abs_tol=1e-12)
    assert not close_numbers(0.0, 1e-13, rel_tol=1e-9)
    assert not close_numbers(100, 101, rel_tol=0.5, abs_tol=5.0)


@pytest.mark.parametrize(
    ("actual", "said", "decimals", "same"),
    [
        (0.1 + 0.2, 0.3, None, True),
        (3.14159, 3.14, 2, True),
        (3.14159, 3.14, None, False),
        (3.14159, 3.1, 1, False),
        (3.149, 3.14, 2, False),
        (2.0, 2, None, True),
        (2, 2.0, None, True),
        (1.0, True, None, False),
        (nan(), nan(), None, True),
        (math.inf, 10**400, None, False),
        ([3.14159], [3.14], 2, False),
    ],
)
def test_a_number_is_told_with_as_many_digits_as_were_given(actual, said, decimals, same):
    assert as_told(actual, said, decimals) is same


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1.0, False),
        (0.0, -0.0, False),
        ({1}, {True}, False),
        ({1: "a"}, {True: "a"}, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ([nan()], [nan()], True),
        ({"b", "a"}, {"a", "b"}, True),
    ],
)
def test_identical_literals_are_of_equal_types_in_all_parts(one, other, same):
    assert identical(one, other) is same


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ((1, 2), [1, 2], True),
        ({1: "a"}, {"1": "a"}, True),
        (0.1 + 0.2, 0.3, True),
        (1, 1.0, True),
        (1, True, False),
        (0.30001, 0.3, False),
        (math.nan, math.nan, True),
        ([1], [1, 1], False),
        ("1", 1, False),
        ({3, 1}, [1, 3], True),
        (10**400, 1.0, False),
    ],
)
def test_recorded_outputs_are_compared_as_json_with_close_floats(one, other, same):
    assert equal_as_json(one, other) is same
