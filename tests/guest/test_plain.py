"""Data between the sandboxes: what comes back is built of plain types, whatever a guest tells."""

import math
import time
from typing import Any

import pytest

from groundbox.guest.python.plain import decode, encode
from groundbox.learn.evaluation.canonical import MIME, NoPlainData, value_of

VALUES = [
    None, True, 0, -(2**80), 1.5, float("inf"), "a\ud800", b"\0", 1 + 2j, [1, [2]], (1,), {"a": (1, 2), 3: None},
    {1, 2}, frozenset([1]), range(0, 9, 2),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES)
def test_data_comes_back_as_it_was(value):
    back = decode(encode(value))

    assert (type(back), back) == (type(value), value)


def test_no_number_comes_back_as_none():
    assert math.isnan(decode(encode(float("nan"))))


def test_what_equals_everything_travels_as_what_it_derives_from():
    class Anything(int):
        def __eq__(self, other):
            return True

        __hash__ = int.__hash__

    back = decode(encode(Anything(3)))

    assert type(back) is int
    assert back == 3


def test_an_object_is_no_data():
    with pytest.raises(ValueError, match="a object is no plain data"):
        encode([object()])


@pytest.mark.parametrize(
    "data",
    [
        {"opaque": "Foo"}, {}, [], {"list": 3}, {"list": [1], "tuple": [2]}, {"dict": [1]}, {"dict": [[[], 1]]},
        {"dict": [[{"list": []}, 1]]}, {"set": [{"list": []}]}, {"int": "x"}, {"float": []}, {"bytes": 3},
        {"range": ["a"]}, {"complex": [1, 2, 3]}, {"set": {}}, {"class": "x"}, {"int": {}},
    ],
)  # fmt: skip
def test_data_that_a_guest_made_up_is_refused(data):
    with pytest.raises(NoPlainData):
        value_of({MIME: data})


def test_data_that_is_too_deep_is_refused():
    data: Any = 1
    for _ in range(100):
        data = {"list": [data]}

    with pytest.raises(NoPlainData, match="too deep"):
        value_of({MIME: data})


def test_a_huge_range_stays_a_range():
    assert value_of({MIME: {"range": [0, 10**30, 1]}}) == range(10**30)


@pytest.mark.parametrize("kind", ["set", "frozenset", "dict"])
def test_keys_that_all_have_one_hash_are_refused(kind):
    keys = [{"int": hex(n * (2**61 - 1))} for n in range(20_000)]
    told = {kind: [[key, 0] for key in keys] if kind == "dict" else keys}
    begun = time.thread_time()

    with pytest.raises(ValueError, match="more than 100 keys have the same hash"):
        decode(told)
    with pytest.raises(NoPlainData):
        value_of({MIME: {kind: [[n * (2**61 - 1), 0] if kind == "dict" else n * (2**61 - 1) for n in range(20_000)]}})

    assert time.thread_time() - begun < 0.5
    assert len(decode({kind: told[kind][:100]})) == 100
