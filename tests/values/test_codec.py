"""Values between host and guest: they come back as they were, and of plain types, whatever is told."""

import enum
import json
import math
import subprocess
import sys
import time
from collections import OrderedDict, deque
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundbox.values.codec import MOST_DECODED, MOST_DEPTH, NotData, decode, encode, result_of

VALUES = [
    None, True, 0, -(2**80), 2**53, 1.5, float("inf"), "a\ud800", b"\0", 1 + 2j, [1, [2]], (1,), {"a": (1, 2), 3: None},
    {1, 2}, frozenset([1]), range(0, 9, 2), range(10**30), [], (), {}, set(), {"list": 1}, {"tuple": [1]},
]  # fmt: skip
TOLD_BY_NOBODY = [
    {"opaque": "Foo"}, {}, {"list": 3}, {"list": [1], "tuple": [2]}, {"dict": [1]}, {"dict": {"ab": 1}},
    {"dict": [[{"list": []}, 1]]}, {"set": [{"list": []}]}, {"int": "x"}, {"float": []}, {"bytes": 3}, {"bytes": "0"},
    {"range": ["a"]}, {"range": [0, 1, 0]}, {"complex": [1, 2, 3]}, {"set": {}}, {"class": "x"}, {"int": {}},
    {"int": {"bits": 9000, "sign": 1, "sha256": "0"}}, {"int": "9" * 5000}, {"bytes": {"len": 3, "hex": "00"}},
    {"list": [1], "elided": 4}, {"str": {"len": 9000, "head": "a", "tail": "b", "sha256": "0"}}, {"str": 3}, [{"x": 1}],
]  # fmt: skip
atoms = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.binary(max_size=8),
    st.complex_numbers(), st.builds(range, st.integers(), st.integers(), st.integers(1, 9)),
)  # fmt: skip
hashable = st.one_of(atoms, st.tuples(atoms, atoms), st.frozensets(atoms, max_size=3))
values = st.recursive(
    hashable,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner),
        st.sets(hashable, max_size=3),
        st.dictionaries(hashable, inner, max_size=3),
    ),
    max_leaves=12,
)


def written(value):
    """The text of a value, in which its types show, and sets are in one order."""
    if isinstance(value, list | tuple):
        return type(value).__name__ + str(list(map(written, value)))
    if isinstance(value, set | frozenset):
        return type(value).__name__ + str(sorted(map(written, value)))
    if isinstance(value, dict):
        return str([(written(key), written(item)) for key, item in value.items()])
    return repr(value)


def through_json(data):
    return json.loads(json.dumps(data))


@pytest.mark.parametrize("value", VALUES)
def test_data_comes_back_as_it_was(value):
    for data in (encode(value, exact=False), result_of(value)):
        back = decode(through_json(data))

        assert (type(back), back) == (type(value), value)


@given(values)
def test_whatever_is_data_comes_back_from_both_forms(value):
    assert written(decode(through_json(encode(value)))) == written(value)
    assert written(decode(through_json(encode(value, exact=False)))) == written(value)
    assert written(decode(through_json(result_of(value)))) == written(value)


@given(st.frozensets(hashable, max_size=6))
def test_a_set_is_written_alike_however_it_was_made(items):
    other = set()
    for item in sorted(items, key=repr, reverse=True):
        other.add(item)

    assert encode(other) == encode(set(items))


def test_the_order_of_a_set_does_not_depend_on_the_hash_seed():
    program = "import json, groundbox.values.codec as codec\n"
    program += "print(json.dumps(codec.encode({frozenset(pair) for pair in ('az', 'by', 'cx', 'dw', 'ev')})))"

    orders = {
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in "123"
    }

    assert len(orders) == 1


def test_integers_of_more_digits_than_python_writes_are_sorted_too():
    large = {10**5000, -(10**5000), 3}

    assert decode(encode(large)) == large


def test_no_number_comes_back_as_none():
    assert math.isnan(decode(encode(float("nan"))))


def test_a_callers_text_is_text():
    with pytest.raises(NotData, match="half of a surrogate pair"):
        encode(["a\ud800"])


class Colour(enum.IntEnum):
    RED = 1


class Pair(NamedTuple):
    a: int
    b: int


@pytest.mark.parametrize("value", [Colour.RED, OrderedDict(a=1), deque([1]), bytearray(b"x"), object()])
def test_a_caller_gives_built_in_types_alone(value):
    with pytest.raises(NotData, match="is no plain data") as caught:
        encode([value])

    assert caught.value.type_name == type(value).__name__


def test_what_equals_everything_travels_as_what_it_derives_from():
    class Anything(int):
        def __eq__(self, other):
            return True

        __hash__ = int.__hash__

    class Empty(list):
        def __iter__(self):
            return iter(())

    class Unreal(complex):
        real = "x"  # type: ignore[assignment]

    for form in (lambda value: encode(value, exact=False), result_of):
        back = decode(form([Anything(3), Empty([1]), Unreal(1j)]))

        assert [type(each) for each in back] == [int, list, complex]
        assert back == [3, [1], 1j]


def test_an_instance_of_a_subclass_is_told_with_its_class():
    pair = Pair(1, 2)

    assert result_of(pair) == {"tuple": [1, 2], "class": "Pair"}
    assert result_of({"x": object()}) == {"dict": [["x", {"opaque": "object"}]]}
    assert decode(result_of(pair)) == (1, 2)


def test_an_object_is_no_data():
    with pytest.raises(NotData, match="a object is no plain data"):
        encode([object()], exact=False)


@pytest.mark.parametrize("data", TOLD_BY_NOBODY)
@pytest.mark.parametrize("literals", [False, True])
def test_data_that_a_guest_made_up_is_refused(data, literals):
    with pytest.raises(NotData):
        decode(data, literals=literals)


_TAGS = ("int", "float", "complex", "str", "bytes", "range", "list", "deque", "tuple", "set", "frozenset", "dict")
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from([*_TAGS, "class", "elided", "x"]),
            inner,
            max_size=2,
        ),
    ),
    max_leaves=20,
)


@given(json_values)
def test_any_json_is_a_value_or_refused(data):
    plain = (type(None), bool, int, float, str, complex, bytes, range, list, tuple, set, frozenset, dict)
    try:
        value = decode(data)
    except NotData:
        return

    assert type(value) in plain


@pytest.mark.parametrize("data", [{"range": [0, 1, 1]}, {"deque": []}, {"list": [], "class": "Stack"}])
def test_what_no_literal_makes_is_refused_where_literals_are_wanted(data):
    decode(data)

    with pytest.raises(NotData, match="is no literal"):
        decode([data], literals=True)


def test_depth_is_bounded_on_both_ways():
    value: Any = 1
    data: Any = 1
    for _ in range(MOST_DEPTH):
        value = [value]
    for _ in range(MOST_DECODED):
        data = {"list": [data]}

    assert decode(encode(value)) == value
    decode(data)
    for exact in (True, False):
        with pytest.raises(NotData, match=f"deeper than {MOST_DEPTH}"):
            encode([value], exact=exact)
    with pytest.raises(NotData, match="too deep"):
        decode([data])
    assert result_of([value]) is None


def test_a_result_that_is_too_large_is_none():
    assert result_of(list(range(100_000))) is None
    assert result_of(10**5000) is None
    assert result_of([range(10**5000)]) is None
    assert result_of(range(10**1000)) == {"range": [0, 10**1000, 1]}


@pytest.mark.parametrize("kind", ["set", "frozenset", "dict"])
def test_keys_that_all_have_one_hash_are_refused(kind):
    keys = [{"int": hex(n * (2**61 - 1))} for n in range(20_000)]
    told = {kind: [[key, 0] for key in keys] if kind == "dict" else keys}
    others = [{"int": hex(n * (2**61 - 1) + n)} for n in range(20_000)]
    harmless = {kind: [[key, 0] for key in others] if kind == "dict" else others}
    begun = time.thread_time()

    with pytest.raises(NotData, match="more than 100 keys have the same hash"):
        decode(told)

    refused = time.thread_time()
    assert len(decode(harmless)) == 20_000
    assert refused - begun < 10 * (time.thread_time() - refused)  # without a bound: hundreds of times as long
    assert len(decode({kind: told[kind][:100]})) == 100
    assert len(decode({kind: told[kind][:200]}, most_alike=None)) == 200


def keys_that_meet(count, filled, bits=17):
    """Integers that are their own hashes, and of which each is looked for in thousands of places of a dict.

    The first of them fill those that CPython visits one after another where nothing is left of a hash; the others have
    the bits that lead there through filled places alone.
    """
    mask = (1 << bits) - 1
    path = [0]
    while len(path) < filled:
        path.append((5 * path[-1] + 1) & mask)
    taken = set(path)
    others = []
    number = mask
    while len(others) < count:
        number += 1
        at, left = number & mask, number
        while left and at in taken:
            left >>= 5
            at = (5 * at + 1 + left) & mask
        if at in taken:
            others.append(number)
    return path + others


def test_keys_that_meet_in_a_table_are_given_up():
    told = {"dict": [[key, 0] for key in keys_that_meet(12_000, filled=43_000)]}
    begun = time.thread_time()

    with pytest.raises(NotData, match="take too long to tell apart"):
        decode(told)

    assert time.thread_time() - begun < 1.5  # 3 to 8 seconds without the clock
    assert len(decode({"dict": told["dict"][:43_000]})) == 43_000


def test_as_many_keys_as_a_frame_holds_are_told_apart():
    keys = [*range(60_000), *(f"key {n}" for n in range(60_000)), *(n / 7 for n in range(7, 60_000, 7))]

    assert len(decode({"set": keys})) == len(set(keys))
    assert len(decode({"dict": [[key, 0] for key in keys]})) == len(set(keys))


def test_loading_the_codec_loads_little():
    """A template loads it, and each sandbox begins with a copy of the template."""
    program = "import sys, math, collections, typing; before = set(sys.modules)\nimport groundbox.values.codec\n"
    program += "print(*sorted(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()

    assert [name for name in loaded if name.startswith("groundbox.values")] == [
        "groundbox.values",
        "groundbox.values.codec",
    ]
