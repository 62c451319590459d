"""Names and objects at a moment."""

import json

import pytest

from groundbox.testing.traces import CALL, END, body, read, written
from groundbox.trace.run.python_values import handled_value
from groundbox.trace.run.state import State
from groundbox.values.unknown import Unknown

LONG = {"k": "object", "id": 1, "type": "list", "items": list(range(150)), "elided": 500, "tail": list(range(650, 670))}


def described(*records):
    """The state at the end, with object 1 as its last record left it."""
    return written(*records).state_at(len(records))


def mutate(op, **parts):
    return {"k": "mutate", "id": 1, "op": op, **parts}


@pytest.mark.parametrize(
    ("first", "changes", "shown"),
    [
        ({"type": "list", "items": [1, 2]}, [mutate("set", at=[[1, "b"]])], "[1, 'b']"),
        ({"type": "list", "items": [1, 2]}, [mutate("splice", start=1, removed=1, items=[7, 8])], "[1, 7, 8]"),
        ({"type": "list", "items": [1, 2]}, [mutate("replace", items=[])], "[]"),
        ({"type": "dict", "pairs": [["a", 1], ["b", 2]]}, [mutate("remove", at=["a"])], "{'b': 2}"),
        ({"type": "dict", "pairs": [["a", 1]]}, [mutate("set", at=[["c", 3], ["a", 0]])], "{'a': 0, 'c': 3}"),
        ({"type": "dict", "pairs": []}, [mutate("set", at=[[{"tuple": [1, 2]}, 3]])], "{(1, 2): 3}"),
        ({"type": "set", "items": [1, 2]}, [mutate("discard", items=[1]), mutate("add", items=[None])], "{2, None}"),
        ({"type": "set", "items": [1]}, [mutate("discard", items=[1])], "set()"),
        ({"type": "deque", "items": [1, 2], "maxlen": 5}, [], "deque([1, 2], maxlen=5)"),
        ({"type": "bytearray", "hex": "6162", "len": 2}, [], "bytearray(b'ab')"),
        ({"type": "dict", "class": "Counter", "pairs": [["a", 1]]}, [], "Counter({'a': 1})"),
        ({"type": "dict", "class": "Counter", "pairs": []}, [], "Counter()"),
        ({"type": "list", "class": "Stack", "items": [1], "attrs": {"top": 1}}, [], "Stack([1], top=1)"),
        ({"type": "object", "class": "Node", "attrs": {"value": 3, "next": None}}, [], "Node(value=3, next=None)"),
        ({"type": "object", "class": "Node", "attrs": {}}, [mutate("set", at=[["x", {"ref": 1}]])], "Node(x=<#1>)"),
        ({"type": "class", "class": "Node", "attrs": {"count": 0}}, [], "<class Node>"),
        (
            {"type": "array", "class": "numpy.ndarray", "dtype": "int64", "shape": [2, 2], "items": [1, 2, 3, 4]},
            [],
            "array([[1, 2], [3, 4]])",
        ),
        (
            {"type": "array", "class": "numpy.ndarray", "dtype": "int64", "shape": [2, 1], "items": [1, 2]},
            [],
            "array([[1], [2]])",
        ),
    ],
)
def test_an_object_is_shown_as_its_records_left_it(first, changes, shown):
    state = described({"k": "object", "id": 1, **first}, *changes)

    assert state.text({"ref": 1}) == shown


@pytest.mark.parametrize(
    ("shape", "chars", "shown"),
    [
        ([5, 4], 60, "array([[0, 1, 2, 3], [4, 5, 6, 7], … 8 more …, [16, 17, 18, 19]])"),
        ([5, 4], 50, "array([[0, 1, 2, 3], [4, 5, … 12 more …, 18, 19]])"),
        ([5, 4], 40, "array([[0, 1, 2, 3], [… 14 more …, 18, 19]])"),
        ([2, 5, 2], 40, "array([[[0, 1], [2, 3], … 14 more …, [18, 19]]])"),
    ],
)
def test_an_array_that_is_cut_keeps_the_brackets_of_its_rows(shape, chars, shown):
    array = {"type": "array", "class": "numpy.ndarray", "dtype": "int64", "shape": shape, "items": list(range(20))}
    state = described({"k": "object", "id": 1, **array})

    assert state.text({"ref": 1}, chars) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "None"),
        (1.0, "1.0"),
        ("it's", '"it\'s"'),
        ({"float": "nan"}, "nan"),
        ({"int": "12345678901234567890"}, "12345678901234567890"),
        ({"int": {"bits": 5000, "sign": -1, "sha256": "0"}}, "<negative int of 5000 bits>"),
        ({"complex": [1.0, -2.0]}, "(1-2j)"),
        (
            {"str": {"len": 5000, "head": "a" * 200, "tail": "b" * 50, "sha256": "0"}},
            f"{'a' * 66!r} … 4901 more … {'b' * 33!r}",
        ),
        ({"bytes": {"len": 2, "hex": "6162"}}, "b'ab'"),
        ({"tuple": [1]}, "(1,)"),
        ({"tuple": [1, 2], "class": "Point"}, "Point(1, 2)"),
        ({"tuple": [1, 2], "elided": 40, "tail": [9]}, "(1, 2, … 40 more …, 9)"),
        ({"frozenset": [1, 2]}, "frozenset({1, 2})"),
        ({"range": [0, 5, 1]}, "range(0, 5)"),
        ({"range": [5, 0, -1]}, "range(5, 0, -1)"),
        ({"function": "f.<locals>.g"}, "<function f.<locals>.g>"),
        ({"builtin": "len"}, "<built-in len>"),
        ({"method": "append", "of": {"tuple": []}}, "<method append of ()>"),
        ({"class": "int"}, "<class int>"),
        ({"module": "math"}, "<module math>"),
        ({"repr": "Decimal('1.5')", "type": "decimal.Decimal"}, "Decimal('1.5')"),
        ({"opaque": "list_iterator"}, "<list_iterator>"),
    ],
)
def test_a_value_is_shown_as_python_writes_it(value, shown):
    assert State().text(value) == shown


def test_a_long_list_shows_its_ends_and_counts_the_rest():
    assert described(LONG).text({"ref": 1}, 60) == "[0, 1, 2, 3, 4, 5, 6, 7, … 658 more …, 666, 667, 668, 669]"


def test_what_is_put_into_the_hidden_part_of_a_list_is_known_from_then_on():
    state = described(LONG, mutate("set", at=[[300, "x"]]), mutate("splice", start=670, removed=0, items=["end"]))

    items = state.heap[1].items
    assert (len(items), items.unknown) == (671, 499)
    assert [items.get(index) for index in (149, 299, 300, 301, 670)] == [(149,), None, ("x",), None, ("end",)]


def test_a_key_that_may_be_one_of_the_hidden_ones_makes_the_count_uncertain():
    pairs = [[number, number] for number in range(150)]
    state = described(
        {"k": "object", "id": 1, "type": "dict", "pairs": pairs, "elided": 9, "tail": []}, mutate("set", at=[["k", 1]])
    )

    assert state.text({"ref": 1}, 60).startswith("{0: 0, 1: 1,")
    assert "… more …" in state.text({"ref": 1}, 60)


def test_text_stays_within_its_bound():
    node = {"k": "object", "type": "list"}
    deep = [
        node | {"id": n, "items": [{"ref": n - 1}, {"ref": n - 1}, "a" * 50] if n > 1 else []} for n in range(1, 60)
    ]
    state = described(*deep)

    assert all(len(state.text({"ref": 59}, most)) <= most + 20 for most in (10, 40, 100, 1000))


CALL_F = {"k": "call", "f": 2, "p": 1, "name": "outer", "n": 2, "args": {"n": 1}}
CALL_G = {"k": "call", "f": 3, "p": 2, "name": "outer.<locals>.inner", "n": 3}


def test_names_are_those_of_the_frame():
    state = described(
        {"k": "set", "f": 1, "name": "x", "v": 1},
        CALL_F,
        {"k": "set", "f": 2, "name": "x", "v": 2},
        {"k": "del", "f": 2, "name": "n"},
    )

    assert (state.names(1), state.names(2)) == ({"x": 1}, {"x": 2})
    assert (state.lookup(2, "x"), state.lookup(1, "x")) == (2, 1)
    with pytest.raises(KeyError):
        state.lookup(2, "n")


def test_a_global_that_a_function_sets_is_the_modules():
    state = described(CALL_F, {"k": "set", "f": 2, "name": "g", "v": 5, "scope": "global"})

    assert (state.names(1), state.lookup(2, "g")) == ({"g": 5}, 5)


def test_a_nonlocal_name_is_the_enclosing_functions():
    setting = {"k": "set", "f": 3, "name": "n", "v": 9, "scope": "nonlocal"}

    state = described(CALL_F, CALL_G, setting)

    assert (state.names(2), state.lookup(3, "n"), state.lookup(2, "n")) == ({"n": 9}, 9, 9)


def test_a_nonlocal_name_that_may_be_of_several_calls_is_known_in_none_of_them():
    again = CALL_F | {"f": 3}
    inner = CALL_G | {"f": 4, "p": 3}

    state = described(CALL_F, again, inner, {"k": "set", "f": 4, "name": "n", "v": 9, "scope": "nonlocal"})

    assert (state.names(2), state.names(3), state.lookup(4, "n")) == ({}, {}, 9)
    with pytest.raises(Unknown):
        state.lookup(2, "n")


def test_any_moment_is_the_same_by_keyframe_and_by_walking():
    appends = [mutate("splice", start=n, removed=0, items=[n]) for n in range(1500)]
    trace = written(
        {"k": "object", "id": 1, "type": "list", "items": []},
        {"k": "set", "f": 1, "name": "xs", "v": {"ref": 1}},
        *appends,
    )
    walking = State()
    texts = []
    for record in trace.records:
        walking.apply(record)
        texts.append(walking.text({"ref": 1}, 100))

    assert [trace.state_at(t).text({"ref": 1}, 100) for t in (1502, 3, 700, 701, 1400, 2)] == [
        texts[t] for t in (1502, 3, 700, 701, 1400, 2)
    ]


def test_a_state_is_its_owners_alone():
    trace = written({"k": "object", "id": 1, "type": "list", "items": [1]}, mutate("set", at=[[0, 2]]))
    first = trace.state_at(1)

    first.apply(trace.records[2])

    assert (first.text({"ref": 1}), trace.state_at(1).text({"ref": 1})) == ("[2]", "[1]")


def test_plain_values_come_back_as_python_values():
    shared = {"k": "object", "id": 2, "type": "list", "items": [{"float": "inf"}, {"bytes": {"len": 1, "hex": "61"}}]}
    outer = {
        "k": "object",
        "id": 1,
        "type": "dict",
        "pairs": [["a", {"ref": 2}], [{"tuple": [1, {"frozenset": [2]}]}, {"ref": 2}]],
    }

    value = described(shared, outer).python_value({"ref": 1})

    assert value == {"a": [float("inf"), b"a"], (1, frozenset({2})): [float("inf"), b"a"]}
    assert value["a"] is value[1, frozenset({2})]


@pytest.mark.parametrize(
    "record",
    [
        LONG,
        {"k": "object", "id": 1, "type": "object", "class": "Node", "attrs": {}},
        {"k": "object", "id": 1, "type": "list", "items": [{"ref": 1}]},
        {"k": "object", "id": 1, "type": "list", "items": [{"opaque": "socket"}]},
        {"k": "object", "id": 1, "type": "list", "class": "Stack", "items": [], "attrs": {}},
        {"k": "object", "id": 1, "type": "set", "items": [{"ref": 1}]},
    ],
)
def test_what_is_not_known_whole_is_no_python_value(record):
    with pytest.raises(Unknown):
        described(record).python_value({"ref": 1})


def test_there_is_no_moment_outside_of_the_trace():
    trace = read(body(CALL, *END))

    assert trace.state_at(-1).frames == {}
    with pytest.raises(IndexError, match="the trace has records 0 to 2, and no 3"):
        trace.state_at(3)


def test_the_text_of_recorded_json_is_what_python_would_write(traced):
    data = [1, -2.5, "tab\t'quote'", None, True, [[]], {"k": {"a": [1, 2]}}, [10**20]]

    trace = traced(f"import json\nx = json.loads({json.dumps(json.dumps(data))})\n")

    state = trace.state_at(len(trace) - 1)
    assert state.text(state.names(1)["x"], 1000) == repr(data)
    assert state.python_value(state.names(1)["x"]) == data


def test_a_nonlocal_name_is_unknown_after_very_many_calls_of_its_function():
    calls = [CALL_F | {"f": number} for number in range(2, 80)]
    inner = CALL_G | {"f": 80, "p": 79}

    state = described(*calls, inner, {"k": "set", "f": 80, "name": "n", "v": 9, "scope": "nonlocal"})

    assert (state.names(2), state.names(79), state.lookup(80, "n")) == ({}, {}, 9)
    with pytest.raises(Unknown):
        state.lookup(79, "n")


def doubled(times):
    """The state in which object n holds object n - 1 twice; written out, the last has 2^times items."""
    first = {"k": "object", "id": 1, "type": "list", "items": []}
    pairs = [{"k": "object", "id": n, "type": "list", "items": [{"ref": n - 1}] * 2} for n in range(2, times + 2)]
    return described(first, *pairs)


def test_a_value_is_as_large_as_it_would_be_written():
    state = doubled(60)

    small = state.python_value({"ref": 11})

    assert str(small).count("[]") == 2**10
    assert small[0] is small[1]
    for label in (16, 61):
        with pytest.raises(Unknown, match="too large"):
            state.python_value({"ref": label})


def test_what_is_too_large_in_a_value_is_a_handle():
    value = handled_value(doubled(60), {"ref": 61})

    assert len(str(value)) < 10_000_000
    with pytest.raises(Unknown):
        bool(value == handled_value(doubled(60), {"ref": 61}))


@pytest.mark.parametrize("kind", ["set", "dict", "Counter"])
def test_a_table_of_keys_with_one_hash_is_not_built(kind):
    keys = [{"int": str((n + 1) * (2**61 - 1))} for n in range(10_000)]
    parts = {"items": keys} if kind == "set" else {"pairs": [[key, 0] for key in keys]}
    named = {"class": kind} if kind == "Counter" else {}
    state = described({"k": "object", "id": 1, "type": "set" if kind == "set" else "dict", **named, **parts})

    with pytest.raises(Unknown, match="the same hash"):
        state.python_value({"ref": 1})
