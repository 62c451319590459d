"""Records of tests and iterations are claims: the host holds them against the source and against each other."""

import json

import pytest

from groundbox.testing.traces import CALL, END, body, read, written
from groundbox.trace.record import schema
from groundbox.trace.record.errors import InvalidTrace
from groundbox.trace.record.reading import Trace

SOURCE = """\
for i in xs:
    for a, b in i:
        if a and not b in c: pass
    while a: a = b or c
try:
    d = 1 if a < b else 2
except (KeyError, E):
    pass
"""
IF_A = [3, 11, 3, 12]


def line(n):
    return {"k": "line", "f": 1, "n": n}


def outcome(at, v):
    return {"k": "test", "f": 1, "at": at, "v": v}


def iteration(n, number, **more):
    return {"k": "iteration", "f": 1, "n": n, "number": number, **more}


def ended(n, iterations):
    return {"k": "ended", "f": 1, "n": n, "iterations": iterations}


def fold(n):
    return {"k": "fold", "f": 1, "n": n, "what": "loop", "iterations": 5, "steps": 9}


def test_tests_and_iterations_are_read_as_values():
    trace = read(body(CALL, line(1), iteration(1, 1, items=[4]), line(3), outcome(IF_A, False), *END), source=SOURCE)

    assert trace.complete, trace.reasons
    assert trace.records[2] == schema.Iteration(f=1, n=1, number=1, items=[4])
    assert trace.records[4] == schema.Test(f=1, at=(3, 11, 3, 12), v=False)
    assert trace.header.schema == "groundbox.trace/2"


@pytest.mark.parametrize(
    "records",
    [
        [line(3), outcome([3, 21, 3, 27], True)],  # `b in c`, of which `not` is a part
        [line(4), outcome([4, 10, 4, 11], True), iteration(4, 1), outcome([4, 17, 4, 18], True), ended(4, 1)],
        [line(6), outcome([6, 13, 6, 18], True)],
        [line(7), outcome([7, 7, 7, 20], True)],
        [line(1), iteration(1, 1), line(2), iteration(2, 1), ended(2, 1), iteration(1, 2), iteration(2, 1)],
        [line(1), ended(1, 0)],
        [line(1), iteration(1, 1), fold(1), ended(1, 6)],
        [line(1), iteration(1, 1), fold(1), iteration(1, 8), iteration(1, 9), ended(1, 9)],
        [line(2), iteration(2, 1, items=[{"tuple": [1]}, None])],
    ],
)
def test_what_can_have_been_is_taken(records):
    assert read(body(CALL, *records, *END), source=SOURCE).reasons == []


@pytest.mark.parametrize(
    ("records", "problem"),
    [
        ([line(3), outcome([3, 11, 3, 13], True)], "nothing is tested at 3,11,3,13"),
        (
            [line(3), outcome([3, 11, 3, 27], True)],
            "nothing is tested at 3,11,3,27",
        ),  # the whole condition is no operand
        ([line(4), outcome([4, 22, 4, 23], True)], "nothing is tested at 4,22,4,23"),  # nor is the last of a value's
        ([line(2), outcome(IF_A, True)], "what is tested in line 3 is no part of line 2"),
        ([outcome(IF_A, True)], "what is tested in line 3 is no part of line 0"),
        ([line(3), outcome([3, -1, 3, 12], True)], "a column is inside its line"),
        ([line(3), outcome([3, 11, 9, 12], True)], "the source has no lines 3 to 9"),
        ([line(3), outcome(IF_A, True) | {"f": 2}], "frame 2 was not called"),
        ([line(3), iteration(3, 1)], "no loop begins in line 3"),
        ([line(1), iteration(1, 2)], "iteration 2 of line 1 follows 0"),
        ([line(1), iteration(1, 1), iteration(1, 1)], "iteration 1 of line 1 follows 1"),
        ([line(1), iteration(1, 1), iteration(1, 3)], "iteration 3 of line 1 follows 1"),
        ([line(1), iteration(1, 1), fold(1), iteration(1, 1)], "iteration 1 of line 1 follows 1"),
        (
            [line(1), iteration(1, 1), iteration(4, 1), iteration(2, 1), iteration(4, 1)],
            "iteration 1 of line 4 follows 1",
        ),
        ([line(2), iteration(2, 1, items=[1])], "an item is told for each name"),
        ([line(2), iteration(2, 1, items=[1, {"ref": 3}])], "label 3 is not described"),
        ([line(1), ended(1, 1)], "the loop of line 1 ends after 0 iterations"),
        ([line(1), iteration(1, 1), ended(1, 2)], "the loop of line 1 ends after 1 iterations"),
        ([line(5), ended(5, 0)], "no loop begins in line 5"),
    ],
)
def test_what_cannot_have_been_ends_the_trace(records, problem):
    trace = read(body(CALL, *records, *END), source=SOURCE)

    assert trace.reasons == [f"record {len(records)}: {problem}"]
    assert len(trace.records) == len(records)


@pytest.mark.parametrize("record", [line(3) | {"k": "test", "at": [3, 1], "v": True}, outcome(IF_A, True) | {"v": 1}])
def test_other_shapes_are_no_records(record):
    assert not read(body(CALL, line(3), record, *END), source=SOURCE).complete


def test_of_a_source_that_does_not_parse_lines_are_checked():
    source = "%magic\nwhile x\n"
    records = [line(2), outcome([2, 6, 2, 7], True), iteration(2, 1), iteration(2, 1), ended(2, 1)]

    assert read(body(CALL, *records, *END), source=source).reasons == []
    assert not read(body(CALL, *records, outcome([3, 0, 3, 1], True), *END), source=source).complete


def test_a_source_of_many_loops_is_read_once():
    source = "".join(f"for x{n} in y: pass\n" for n in range(5_000))
    records = [each for n in range(1, 5_000) for each in (line(n), iteration(n, 1), ended(n, 1))]

    assert read(body(CALL, *records, *END), source=source).complete


def test_files_of_the_first_schema_have_no_tests():
    plain = written(line(1), source="while x: pass\n").dumps().replace(b"groundbox.trace/2", b"groundbox.trace/1")
    with_tests = written(line(1), outcome([1, 6, 1, 7], True), source="while x: pass\n").dumps()

    assert Trace.loads(plain).header.schema == "groundbox.trace/1"
    assert json.loads(Trace.loads(plain).dumps().partition(b"\n")[0])["schema"] == "groundbox.trace/1"
    with pytest.raises(InvalidTrace, match="groundbox.trace/1 has no record 'test'"):
        Trace.loads(with_tests.replace(b"groundbox.trace/2", b"groundbox.trace/1"))


def test_an_end_is_a_value_too():
    assert written(ended(1, 0), source="while x: pass\n").records[1] == schema.Ended(f=1, n=1, iterations=0)


def test_what_is_tested_in_a_later_line_of_a_with_is_part_of_it():
    source = "with open(a if x else b) as c, \\\n     open(d if y else e) as f:\n    pass\n"

    trace = read(
        body(CALL, line(1), outcome([1, 15, 1, 16], True), line(2), outcome([2, 15, 2, 16], False), *END), source=source
    )

    assert trace.complete, trace.reasons
