"""What is left out when a run is told, and that nothing is left out unsaid."""

import pytest

import groundbox
from groundbox.trace.run.folding import ALL, Begin, Done, Enter, Folding, Leave, Skip, told

LOOP = "t = 0\nfor i in range(10):\n    t += i\n"
NESTED = "t = 0\nfor i in range(6):\n    for j in range(5):\n        t += j\n"
RECURSION = "def f(n):\n    if n == 0:\n        return 0\n    return 1 + f(n - 1)\nf(9)\n"
GENERATOR = "def g():\n    for i in range(9):\n        yield i\nt = 0\nfor x in g():\n    t += x\n"


def gaps(trace, folding=None):
    return [moment.gap.text for moment in told(trace.structure, folding) if isinstance(moment, Skip)]


def steps(trace, folding=None):
    return [moment.step for moment in told(trace.structure, folding) if isinstance(moment, Done)]


def test_the_first_two_iterations_and_the_last_are_told(traced):
    trace = traced(LOOP)

    assert gaps(trace) == ["… 7 more iterations of line 2 (14 steps) …"]
    assert [step.line for step in steps(trace)] == [1, 2, 3, 2, 3, 2, 3, 2]


def test_a_loop_that_is_as_short_as_its_marker_is_told_whole(traced):
    assert gaps(traced(LOOP.replace("10", "4"))) == []


def test_loops_inside_loops_are_folded_too(traced):
    assert gaps(traced(NESTED)) == [
        "… 2 more iterations of line 3 (4 steps) …",
        "… 2 more iterations of line 3 (4 steps) …",
        "… 3 more iterations of line 2 (36 steps) …",
        "… 2 more iterations of line 3 (4 steps) …",
    ]


def test_deep_recursion_is_told_by_arguments_and_results(traced):
    trace = traced(RECURSION)
    moments = told(trace.structure, Folding(recursion=3))

    entered = [
        moment.activation.args["n"] for moment in moments if isinstance(moment, Enter) and moment.activation.args
    ]
    left = [moment.activation.value for moment in moments if isinstance(moment, Leave) and moment.activation.args]
    assert (entered, left) == ([9, 8, 7, 6], [6, 7, 8, 9])
    assert gaps(trace, Folding(recursion=3)) == ["… 14 steps of f …"]


def test_nothing_is_left_out_when_all_is_asked_for(traced):
    for source in (LOOP, NESTED, RECURSION, GENERATOR):
        trace = traced(source)

        assert (gaps(trace, ALL), len(steps(trace, ALL))) == ([], len(trace.structure.steps))


@pytest.mark.parametrize("source", [LOOP, NESTED, RECURSION, GENERATOR])
def test_every_step_is_told_or_counted(traced, source):
    trace = traced(source)
    moments = told(trace.structure)

    counted = sum(moment.gap.steps for moment in moments if isinstance(moment, Skip))

    assert len(steps(trace)) + counted == len(trace.structure.steps)


def test_what_a_generator_did_for_a_folded_iteration_is_folded_with_it(traced):
    trace = traced(GENERATOR)

    lines = [step.line for step in steps(trace)]

    assert lines.count(3) == lines.count(6) == 3


def test_a_step_that_calls_begins_before_its_calls_and_is_done_after_them(traced):
    trace = traced("def g():\n    return 1\nx = g()\n")

    order = [
        (type(m).__name__, getattr(getattr(m, "step", None), "line", None))
        for m in told(trace.structure)
        if isinstance(m, Begin | Done)
    ]

    assert order == [("Done", 1), ("Begin", 3), ("Done", 2), ("Done", 3)]


def test_what_was_not_recorded_has_a_marker_with_what_it_changed(traced):
    trace = traced(LOOP.replace("10", "300"), trace=groundbox.TraceOptions(soft_events=20))
    (skip,) = [moment for moment in told(trace.structure, ALL) if isinstance(moment, Skip)]

    changed = {trace.records[t].name: trace.records[t].v for t in skip.gap.effects}
    assert changed == {"t": 44850, "i": 299}
    assert skip.gap.iterations + sum(step.line == 3 for step in steps(trace, ALL)) == 300


def test_a_step_in_which_nothing_happens_after_its_call_is_over_after_that_call(traced):
    trace = traced("def f(x):\n    return x\ny = f(1)\nf(1)\ny = f(1)\n")
    order = [
        (type(moment).__name__, moment.step.line if isinstance(moment, Done) else moment.activation.short_name)
        for moment in told(trace.structure, ALL)
        if isinstance(moment, Done | Leave)
    ]

    assert [each for each in order if each != ("Done", 2)] == [
        ("Done", 1), ("Leave", "f"), ("Done", 3), ("Leave", "f"), ("Done", 4), ("Leave", "f"), ("Done", 5),
        ("Leave", "<module>"),
    ]  # fmt: skip
