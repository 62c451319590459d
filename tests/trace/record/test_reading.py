"""What a guest wrote becomes a trace, whatever it is; what is read from a file must be as it was written."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from groundbox.testing.traces import CALL, END, LIMITS, body, read, written
from groundbox.trace.record import reading
from groundbox.trace.record.checking import Checker
from groundbox.trace.record.errors import InvalidTrace
from groundbox.trace.record.reading import Trace
from groundbox.trace.record.schema import Record
from groundbox.trace.record.value import InvalidRecord
from groundbox.trace.show.terminal import terminal

LINE = {"k": "line", "f": 1, "n": 2}
LIST = {"k": "object", "id": 1, "type": "list", "items": [1, 2]}


def setting(value):
    return {"k": "set", "f": 1, "name": "x", "v": value}


def test_a_trace_is_read_as_it_was_written():
    trace = written(LINE, LIST, setting({"ref": 1}))

    again = Trace.loads(trace.dumps())

    assert again == trace
    assert (again.complete, again.reasons, again.folded) == (True, [], False)
    assert again.counts == {"call": 1, "end": 1, "line": 1, "object": 1, "return": 1, "set": 1}
    assert [type(record).__name__ for record in again.records] == ["Call", "Line", "Object", "Set", "Return", "End"]


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (LINE | {"f": 2}, "frame 2 was not called"),
        (LINE | {"n": 21}, "the source has no line 21"),
        (LINE | {"n": 0}, "the source has no line 0"),
        (CALL | {"f": 1}, "frame 1 is called after frame 1"),
        (CALL | {"f": 2, "p": 9}, "frame 9 was not called"),
        (setting({"ref": 1}), "label 1 is not described"),
        (setting({"what": 1}), "an object with the keys 'what' is no value"),
        (setting([1]), "a JSON array is no value"),
        (setting(2**53), "an integer of 2^53 or more stands for itself"),
        (setting("a" * 401), "a string of 401 characters is not shortened"),
        (setting({"int": "12"}), "an int of 2^53 or more is decimal digits"),
        (setting({"float": "1.5"}), "a float in words is nan, inf or -inf"),
        (setting({"bytes": {"len": 3, "hex": "6162"}}), "3 bytes are written by 2"),
        (setting({"tuple": [1], "ref": 1}), "'tuple' does not go with 'ref'"),
        (setting({"range": [1, 2, 0]}), "a range has a step"),
        (setting(1) | {"scope": "cell"}, "a scope is global or nonlocal"),
        ({"k": "object", "id": 0, "type": "list", "items": []}, "labels are counted from 1"),
        ({"k": "object", "id": 1, "type": "tree"}, "'tree' is no type of object"),
        ({"k": "object", "id": 1, "type": "list"}, "a list has items"),
        ({"k": "object", "id": 1, "type": "list", "items": [], "pairs": [[1, 2]]}, "a list has no pairs"),
        ({"k": "object", "id": 1, "type": "list", "items": [], "tail": [1]}, "only what is elided has a tail"),
        ({"k": "mutate", "id": 1, "op": "set", "at": [[0, 1]]}, "label 1 is not described"),
        ({"k": "resume", "f": 1, "p": 0, "n": 1}, "frame 1 goes on without having waited"),
        ({"k": "fold", "f": 1, "n": 1, "what": "all", "steps": 1}, "a loop or a call is folded"),
        ({"k": "out", "s": 3, "text": ""}, "output goes to 1 or 2"),
        (LINE | {"why": 1}, "Object contains unknown field `why`"),
        (LINE | {"n": "2"}, "Expected `int`, got `str` - at `$.n`"),
        ({"k": "nothing"}, "Invalid value 'nothing' - at `$.k`"),
    ],
)
def test_reading_stops_at_the_first_record_that_is_not_valid(record, problem):
    trace = read(body(CALL, LINE, record, LINE, *END))

    assert trace.reasons == [f"record 2: {problem}"]
    assert (trace.complete, len(trace)) == (False, 2)
    assert Trace.loads(trace.dumps()) == trace


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"op": "set", "at": [[2, 1]]}, "an index is inside its list"),
        ({"op": "set", "at": [["0", 1]]}, "an index is inside its list"),
        ({"op": "splice", "start": 1, "removed": 2, "items": []}, "a list of 2 items has no such part"),
        ({"op": "add", "items": [1]}, "a list is not changed by 'add'"),
        ({"op": "set", "at": [[0, 1]], "items": [1]}, "'set' does not go with items"),
        ({"op": "replace"}, "a list has items"),
    ],
)
def test_a_change_must_fit_its_object(record, problem):
    trace = read(body(CALL, LINE, LIST, {"k": "mutate", "id": 1, **record}))

    assert trace.reasons == [f"record 3: {problem}"]


def test_an_index_after_a_splice_is_checked_against_the_new_length():
    longer = {"k": "mutate", "id": 1, "op": "splice", "start": 2, "removed": 0, "items": [3]}
    last = {"k": "mutate", "id": 1, "op": "set", "at": [[2, 9]]}

    trace = written(LIST, longer, last)

    assert trace.state_at(3).text({"ref": 1}) == "[1, 2, 9]"


def test_an_object_may_refer_to_one_that_is_described_with_it():
    first = {"k": "object", "id": 1, "type": "list", "items": [{"ref": 2}]}
    second = {"k": "object", "id": 2, "type": "list", "items": [{"ref": 1}]}

    trace = written(LINE, first, second, setting({"ref": 1}))

    assert trace.complete
    assert trace.state_at(4).text({"ref": 1}) == "[[<#1>]]"


def test_descriptions_that_refer_to_nothing_are_left_out_together():
    first = {"k": "object", "id": 1, "type": "list", "items": [{"ref": 3}]}
    second = {"k": "object", "id": 2, "type": "list", "items": []}

    trace = read(body(CALL, LINE, first, second, setting({"ref": 1})))

    assert (trace.reasons, len(trace)) == (["record 4: label 3 is referred to and not described"], 2)
    assert Trace.loads(trace.dumps()) == trace


def test_nothing_may_run_in_a_frame_that_has_ended():
    trace = read(body(CALL, END[0], LINE))

    assert trace.reasons == ["record 2: frame 1 has ended"]


def test_a_record_that_is_cut_short_is_left_out():
    trace = read(body(CALL, LINE)[:-5])

    assert (trace.reasons, len(trace)) == (["record 1: it is cut short"], 1)


def test_a_trace_without_an_end_is_not_complete():
    assert read(body(CALL, LINE)).reasons == ["the records have no end"]


def test_what_was_lost_is_a_reason():
    trace = written({"k": "lost", "why": "the trace reached max_events=10"})

    assert (trace.complete, trace.reasons) == (False, ["the trace reached max_events=10"])


def test_a_program_that_was_stopped_has_no_complete_trace():
    trace = written(LINE, outcome="timeout", why="the program was stopped at cpu_s=20")

    assert trace.reasons == ["timeout: the program was stopped at cpu_s=20"]


def test_more_records_than_the_limit_are_not_read():
    many = [LINE] * 10_020

    trace = read(body(CALL, *many), limits=LIMITS | {"max_events": 10})

    assert (trace.reasons, len(trace)) == (["record 10010: it is over the limits of the trace"], 10_010)


def test_lone_surrogates_are_kept():
    trace = written(setting("\ud800"), source='x = "\\ud800"\n')

    assert Trace.loads(trace.dumps()).records[1].v == "\ud800"


@pytest.mark.parametrize("value", ["\ud800", "\U0001f600"])
def test_lone_surrogates_that_take_long_to_read_end_a_trace(monkeypatch, value):
    monkeypatch.setattr(reading, "_MOST_SLOW_BYTES", 1000)

    trace = read(body(CALL, LINE, *([setting(value)] * 100), *END), source='x = "\ud800"\n' * 9)

    if value == "\ud800":
        assert trace.reasons[0].endswith("more than 1000 bytes of records have half of a surrogate pair")
        assert 10 < len(trace.records) < 30
    else:
        assert (trace.complete, trace.reasons) == (True, [])


@pytest.mark.parametrize("value", [{"ref": 1}, "\ud800", {"float": "nan"}, 1.5, 2**53 - 1])
def test_what_we_wrote_ourselves_is_read_as_anything_is(value):
    trace = written(LINE, LIST, setting(value), source='x = "\ud800"\n' * 9)

    again = Trace.loads(trace.dumps(), own=True)

    assert (again, again.records) == (trace, trace.records)


def test_what_we_wrote_ourselves_is_looked_at_when_it_has_changed():
    data = written(LINE, setting(1)).dumps()

    with pytest.raises(InvalidTrace, match="sha256 is not what the lines say"):
        Trace.loads(data.replace(b'"v":1', b'"v":2'), own=True)


def test_the_same_bytes_are_not_checked_again_while_somebody_holds_the_trace(monkeypatch):
    first = written(LINE, setting(1))

    with monkeypatch.context() as patched:
        patched.setattr(reading, "_read", None)
        again = written(LINE, setting(1))
    assert again.records is first.records

    del first, again
    assert written(LINE, setting(1)).records[2].v == 1


def test_the_same_bytes_of_another_source_are_checked():
    kept = written(LINE, setting(1))

    assert kept.complete
    assert written(LINE, setting(1), source="x\n").reasons == ["record 1: the source has no line 2"]


def test_deep_nesting_is_refused_and_not_followed():
    deep = b'{"k":"set","f":1,"name":"x","v":' + b'{"tuple":[' * 50_000 + b"1" + b"]}" * 50_000 + b"}\n"

    assert read(body(CALL) + deep).reasons == ["record 1: it is nested too deeply"]


def changed(trace, **fields):
    first, _, rest = trace.dumps().partition(b"\n")
    return json.dumps(json.loads(first) | fields).encode() + b"\n" + rest


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"schema": "other/1"}, "schema is 'other/1', and 'groundbox.trace/1' and 'groundbox.trace/2' can be read"),
        ({"source": "y = 2"}, "source_sha256 is not that of the source"),
        ({"sha256": "0"}, "sha256 is not what the lines say"),
        ({"counts": {"line": 1}}, "counts is not what the lines say"),
        ({"folded": True}, "folded is not what the lines say"),
        ({"outcome": "timeout"}, "complete is not what the lines say"),
        ({"complete": False}, "reasons is not what the lines say"),
    ],
)
def test_a_header_that_says_what_the_lines_do_not_is_refused(fields, problem):
    with pytest.raises(InvalidTrace) as refused:
        Trace.loads(changed(written(LINE), **fields))

    assert (refused.value.line, refused.value.problem) == (1, problem)


def test_a_file_is_refused_by_the_line_that_is_wrong():
    trace = written(LINE, setting(1))

    with pytest.raises(InvalidTrace, match=r"^line 4 of the trace: frame 7 was not called$"):
        Trace.loads(trace.dumps().replace(b'"k":"set","f":1', b'"k":"set","f":7'))


@pytest.mark.parametrize("data", [b"", b"{}", b"nothing\n", b"\xff\xfe", b'{"k":"line"}\n', b"[" * 100_000])
def test_what_is_no_trace_is_refused(data):
    with pytest.raises(InvalidTrace, match="line 1 of the trace: this is no header of a trace"):
        Trace.loads(data)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_read_to_an_end_and_are_never_complete(data):
    trace = read(data)

    assert not trace.complete
    assert Trace.loads(trace.dumps()) == trace


WHOLE = body(
    CALL,
    LINE,
    LIST,
    setting({"ref": 1}),
    LINE,
    {"k": "call", "f": 2, "p": 1, "name": "f", "n": 3, "args": {"a": {"tuple": [1.5, None, True]}}},
    {"k": "line", "f": 2, "n": 4},
    {"k": "mutate", "id": 1, "op": "splice", "start": 1, "removed": 1, "items": ["é", {"ref": 1}]},
    {"k": "return", "f": 2, "n": 4, "v": {"ref": 1}},
    *END,
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_a_trace_with_changed_bytes_is_complete_only_if_all_of_it_is_valid(changes):
    data = bytearray(WHOLE)
    for place, byte in changes:
        data[place] = byte

    trace = read(bytes(data))

    if trace.complete:
        assert trace.dumps().partition(b"\n")[2] == bytes(data)
        assert len(trace) == bytes(data).count(b"\n")
    again = Trace.loads(trace.dumps())
    assert again == trace
    assert isinstance(terminal(again), str)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.integers(0, 2000), st.integers(0, 255))
def test_a_file_with_a_changed_byte_is_the_same_trace_or_refused(place, byte):
    data = bytearray(read(WHOLE).dumps())
    place %= len(data)
    before = data[place]
    data[place] = byte

    try:
        trace = Trace.loads(bytes(data))
    except InvalidTrace:
        assert byte != before
    else:
        assert trace.dumps().partition(b"\n")[2] == WHOLE


FRAMES = st.integers(0, 4)
LABELS = st.integers(0, 4)
LINES = st.integers(1, 12)
ATOMS = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.sampled_from(["a", "b"]), st.floats(-2, 2))
VALUES = st.one_of(
    ATOMS,
    LABELS.map(lambda label: {"ref": label}),
    st.lists(ATOMS, max_size=2).map(lambda items: {"tuple": items}),
)
PLACES = st.lists(st.tuples(st.one_of(st.integers(0, 3), st.just("a")), VALUES).map(list), max_size=2)
RECORDS = st.one_of(
    st.fixed_dictionaries(
        {
            "k": st.just("call"),
            "f": FRAMES,
            "p": FRAMES,
            "name": st.sampled_from(["f", "<lambda>", "f.<locals>.g"]),
            "n": LINES,
        }
    ),
    st.fixed_dictionaries({"k": st.just("line"), "f": FRAMES, "n": LINES}),
    st.fixed_dictionaries(
        {"k": st.just("set"), "f": FRAMES, "name": st.sampled_from("xyi"), "v": VALUES},
        optional={"scope": st.sampled_from(["global", "nonlocal"])},
    ),
    st.fixed_dictionaries({"k": st.just("del"), "f": FRAMES, "name": st.sampled_from("xyi")}),
    st.fixed_dictionaries(
        {
            "k": st.just("object"),
            "id": LABELS,
            "type": st.sampled_from(["list", "set", "deque"]),
            "items": st.lists(VALUES, max_size=3),
        },
        optional={"elided": st.integers(0, 3)},
    ),
    st.fixed_dictionaries({"k": st.just("object"), "id": LABELS, "type": st.just("dict"), "pairs": PLACES}),
    st.fixed_dictionaries(
        {
            "k": st.just("object"),
            "id": LABELS,
            "type": st.just("object"),
            "class": st.just("N"),
            "attrs": st.just({"a": 1}),
        }
    ),
    st.fixed_dictionaries({"k": st.just("mutate"), "id": LABELS, "op": st.just("set"), "at": PLACES}),
    st.fixed_dictionaries(
        {
            "k": st.just("mutate"),
            "id": LABELS,
            "op": st.sampled_from(["add", "discard", "replace"]),
            "items": st.lists(VALUES, max_size=2),
        }
    ),
    st.fixed_dictionaries(
        {
            "k": st.just("mutate"),
            "id": LABELS,
            "op": st.just("splice"),
            "start": st.integers(0, 3),
            "removed": st.integers(0, 3),
            "items": st.lists(VALUES, max_size=2),
        }
    ),
    st.fixed_dictionaries({"k": st.sampled_from(["return", "yield"]), "f": FRAMES, "n": LINES, "v": VALUES}),
    st.fixed_dictionaries({"k": st.just("resume"), "f": FRAMES, "p": FRAMES, "n": LINES}),
    st.fixed_dictionaries(
        {"k": st.just("raise"), "f": FRAMES, "n": LINES, "type": st.sampled_from(["KeyError", "StopIteration"])}
    ),
    st.fixed_dictionaries({"k": st.just("unwind"), "f": FRAMES, "n": LINES}),
    st.fixed_dictionaries({"k": st.just("out"), "s": st.integers(1, 2), "text": st.just("out")}),
    st.fixed_dictionaries(
        {
            "k": st.just("fold"),
            "f": FRAMES,
            "n": LINES,
            "what": st.sampled_from(["loop", "call"]),
            "steps": st.integers(0, 9),
            "iterations": st.integers(0, 9),
        }
    ),
)
SOURCE = """def f(x):
    for i in x:
        if i: y = 1
        while True:
            with x:
                break
    try:
        y = [a
             for a in x]
    except KeyError: y = 2
    def g(): yield lambda: 1
x = 1; y = 2
"""


def first_valid(records):
    """As many of the records as make a trace, leaving out those that do not fit."""
    kept = [CALL]
    for record in records:
        if not read(body(*kept, record), source=SOURCE).reasons[0].startswith("record"):
            kept.append(record)
    return kept


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(RECORDS, max_size=25))
def test_whatever_order_records_claim_to_have_they_can_be_shown(records):
    trace = read(body(*first_valid(records), {"k": "end"}), source=SOURCE)

    assert [type(record).__name__.lower() for record in trace.records][-1] in ("end", "object", "call")
    assert isinstance(terminal(trace), str)
    assert len(trace.structure.steps) <= trace.counts.get("line", 0)
    for t in range(-1, len(trace)):
        assert msgspec.to_builtins(trace.state_at(t).t) == t


@pytest.mark.parametrize(
    "last",
    [
        {"k": "line", "f": 1, "n": 3},
        {"k": "line", "f": 1, "n": 0},
        {"k": "line", "f": 1, "n": 4},
        {"k": "line", "f": 0, "n": 1},
        {"k": "line", "f": 2, "n": 1},
        setting(2**53 - 1),
        setting(2**53),
        setting(-(2**53)),
        setting("x" * 400),
        setting("x" * 401),
        setting(True),
        setting(None),
        setting(1.5),
        setting([1]),
        setting({"ref": 1}),
        setting({"ref": 2}),
        setting(1) | {"f": 2},
        setting(1) | {"name": "x" * 1001},
        setting(1) | {"scope": "global"},
        setting(1) | {"scope": "other"},
    ],
)
@pytest.mark.parametrize(
    "before", [[CALL, LIST], [CALL, LIST, END[0]], [CALL, LIST, *END], [CALL, LIST | {"items": [{"ref": 9}]}]]
)
def test_what_is_taken_many_at_a_time_is_what_is_checked_one_by_one(before, last):
    records = msgspec.convert([*before, last], list[Record])

    problems: list[tuple[Any, ...]] = []
    for feed in (taken, checked):
        kept, checker = [], Checker(3)
        try:
            feed(checker, records, kept)
            problems.append((kept, None, checker.ended, checker.owing))
        except InvalidRecord as problem:
            problems.append((kept, str(problem), checker.ended, checker.owing))

    assert problems[0] == problems[1]


def taken(checker, records, kept):
    checker.take(records, kept)


def checked(checker, records, kept):
    for record in records:
        checker.check(record)
        kept.append(record)


def test_a_piece_of_the_body_ends_anywhere(monkeypatch):
    whole = read(WHOLE)

    for size in range(1, len(WHOLE) + 1, 7):
        monkeypatch.setattr(reading, "_PIECE_BYTES", size)
        assert read(WHOLE) == whole
        assert read(WHOLE[:-3]).reasons == ["record 10: it is cut short"]
