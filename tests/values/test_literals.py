"""Data values: their JSON form and their text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundbox.values import literals
from groundbox.values.literals import NotALiteral

real_atoms = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.binary(max_size=8))


def nested(atoms):
    pairs = st.tuples(atoms, atoms)
    hashable = st.one_of(atoms, pairs, st.frozensets(atoms, max_size=3), st.tuples(pairs, atoms))
    return st.recursive(
        hashable,
        lambda inner: st.one_of(
            st.lists(inner, max_size=4),
            st.tuples(inner),
            st.sets(hashable, max_size=3),
            st.dictionaries(hashable, inner, max_size=3),
        ),
        max_leaves=12,
    )


values = nested(st.one_of(real_atoms, st.complex_numbers()))


@given(values)
def test_what_is_written_of_a_value_is_read_as_it(value):
    """Complex numbers, too: Python itself reads `-0j` and `nanj` otherwise than it writes them."""
    assert literals.text(literals.parse(literals.text(value))) == literals.text(value)


@given(values)
def test_every_literal_comes_back_from_json(value):
    back = literals.decode(json.loads(json.dumps(literals.encode(value))))

    assert literals.text(back) == literals.text(value)
    assert type(back) is type(value)


@given(st.lists(st.one_of(st.integers(), st.text(max_size=5)), max_size=5))
def test_the_text_of_a_set_does_not_depend_on_the_order_of_its_making(items):
    backwards = list(reversed(items))

    assert literals.text(set(items)) == literals.text(set(backwards))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ((), "()"),
        ((1,), "(1,)"),
        (set(), "set()"),
        ({"b", "a"}, "{'a', 'b'}"),
        (frozenset({1}), "frozenset({1})"),
        ({"a": [(1, 2)]}, "{'a': [(1, 2)]}"),
        (b"x", "b'x'"),
    ],
)
def test_values_are_written_as_python_writes_them(value, text):
    assert literals.text(value) == text
    assert eval(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "f(1)",
        "x",
        "[1][0]",
        "lambda: 1",
        "1 if True else 2",
        "",
        "1 +",
        "{**{}}",
        "[x]",
        "frozenset([x])",
        "j",
        "-(1+2j)",
        "1-(-2j)",
        "frozenset({1}, {2})",
    ],
)
def test_what_is_no_literal_is_refused(text):
    with pytest.raises(NotALiteral):
        literals.parse(text)


def test_a_key_that_looks_like_a_tag_stays_a_key():
    value = {"$tuple": [1], "": 2}

    assert literals.decode(literals.encode(value)) == value


@pytest.mark.parametrize(
    "data",
    [
        {"$no": 1}, {"$tuple": 5}, {"$tuple": [], "more": 1}, {"$float": "x"}, {"$float": 10**400}, {"$complex": {}},
        {"$complex": ["1"]}, {"$complex": ["1", 10**400]}, {"$bytes": [0]}, {"$set": [[]]}, {"$dict": [[[], 1]]},
        {"$dict": [1]},
    ],
)  # fmt: skip
def test_a_foreign_tag_is_refused(data):
    with pytest.raises(NotALiteral):
        literals.decode(data)


def test_the_digest_tells_types_and_orders_apart():
    digests = {literals.digest(value) for value in (1, 1.0, True, "1", [1], (1,), {"a": 1, "b": 2}, {"b": 2, "a": 1})}

    assert len(digests) == 8


@pytest.mark.parametrize(
    "told", [{"set": [{"list": []}]}, {"dict": [[{"list": []}, 1]]}, {"int": 3}, {"range": [0, 1, 1]}]
)
def test_a_result_that_is_no_literal_has_no_text(told):
    assert literals.text_of(told) == ""
    assert literals.text_of({"list": [1, {"tuple": [{"int": str(2**70)}]}]}) == "[1, (1180591620717411303424,)]"


@pytest.mark.parametrize("words", ["{}", "-{}", "[{}]", "{{1: {}}}", "{{({},)}}", "{}+1j"])
def test_integers_of_more_digits_than_python_writes_are_no_literals(words):
    """Python reads them from hexadecimal digits, and whatever writes the value later would raise."""
    with pytest.raises(NotALiteral):
        literals.parse(words.format("0x" + "f" * 5000))


def test_an_integer_that_python_does_not_write_has_no_text():
    assert literals.text_of({"int": hex(10**4299)}) == "1" + "0" * 4299
    assert literals.text_of({"list": [{"int": hex(10**4300)}]}) == ""
