"""Questions to a trace: which values a name took, why a line ran, where two runs part."""

import pytest

import groundbox

SOURCE = """\
def total(xs, most):
    kept = []
    s = 0
    for x in xs:
        if x > most:
            continue
        kept.append(x)
        s += x
    if s > 100:
        s = 100
    return s

print(total([4, 9, 2], 5))
"""


@pytest.fixture(scope="module")
def trace(traced):
    return traced(SOURCE)


def test_the_history_of_a_name_is_every_value_it_took(trace):
    assert str(trace.history("s")) == "line 3, total: s = 0\nline 8, total: s = 4\nline 8, total: s = 6"


def test_the_history_of_a_parameter_begins_with_the_argument(trace):
    (value,) = trace.history("most")

    assert (value.how, value.line, value.value, value.text, value.frame) == ("argument", 1, 5, "5", 2)


def test_changes_of_the_object_that_a_name_holds_are_part_of_its_history(trace):
    assert [(value.how, value.text) for value in trace.history("kept")] == [
        ("assigned", "[]"),
        ("changed", "[4]"),
        ("changed", "[4, 2]"),
    ]


def test_the_history_may_be_of_one_call_only(traced):
    trace = traced("def f(n):\n    m = n * 2\n    return m\nf(1)\nf(2)\n")

    assert [str(value) for value in trace.history("m", frame=3)] == ["line 2, f: m = 4"]
    assert len(trace.history("m")) == 2
    assert list(trace.history("nothing")) == []


def test_a_line_that_ran_is_explained_by_what_led_to_it(trace):
    assert str(trace.why(6)) == (
        "line 6, `continue`, ran once\n"
        "  line 4, `for x in xs`, led there: xs = [4, 9, 2] (passed to the call)\n"
        "  line 5, `if x > most`, led there: x = 9 (line 4: for x in xs:); most = 5 (passed to the call)\n"
        "  total was called in line 13"
    )


def test_a_line_that_never_ran_is_explained_by_what_kept_the_program_from_it(trace):
    why = trace.why(10)

    assert (why.times, why.step, [cause.held for cause in why.causes]) == (0, None, [False])
    assert str(why) == (
        "line 10, `s = 100`, never ran\n  line 9, `if s > 100`, did not lead there: s = 6 (line 8: s += x)"
    )


def test_a_function_that_was_never_called_is_said_to_be_so(traced):
    trace = traced("def f():\n    return 1\n\nx = 2\n")

    assert str(trace.why(2)) == "line 2, `return 1`, never ran\n  f was never called"
    assert str(trace.why(3)) == "line 3 holds no statement of its own"
    assert str(trace.why(4)) == "line 4, `x = 2`, ran once"


def test_a_branch_inside_one_that_was_not_taken_is_explained_by_the_outer(traced):
    trace = traced("n = 1\nif n > 5:\n    if n > 7:\n        n = 0\nelse:\n    n = 2\n")

    assert str(trace.why(4)).splitlines()[1:] == ["  line 2, `if n > 5`, did not lead there: n = 1 (line 1: n = 1)"]
    assert str(trace.why(6)).splitlines()[1:] == ["  line 2, `if n > 5 … else`, led there: n = 1 (line 1: n = 1)"]


def test_two_equal_runs_do_not_differ(trace, traced):
    difference = trace.diff(traced(SOURCE))

    assert (bool(difference), difference.same, str(difference)) == (False, True, f"the same {difference.steps} steps")


def test_two_versions_part_at_the_first_step_that_does_something_else(trace, traced):
    other = traced(SOURCE.replace("x > most", "x >= most - 1"))

    difference = trace.diff(other)

    assert (difference.control, difference.left.line, difference.right.line) == (False, 5, 5)
    assert str(difference) == (
        "after 5 steps in common they did different things\n"
        "  left:  step 14, line 5 of total: if x > most:   # the test was false\n"
        "  right: step 14, line 5 of total: if x >= most - 1:   # the test was true"
    )


def test_two_inputs_part_at_the_value_that_differs(traced):
    source = "def f(n):\n    m = n + 1\n    return m * 2\n"
    left, right = (traced(source, mode="call", call="f", args=[n]) for n in (1, 2))

    difference = left.diff(right)

    assert [(name, a, b) for name, a, b in difference.names if name == "m"] == [("m", "2", "3")]
    assert (difference.left.effects, difference.right.effects) == (("m = 2",), ("m = 3",))


def test_a_run_that_ends_earlier_differs(traced):
    left = traced("for i in range(2):\n    pass\n")
    right = traced("for i in range(2):\n    pass\nx = 1\n")

    difference = left.diff(right)

    assert (difference.control, str(difference.left)) == (True, "had ended")
    assert "line 3 of <module>: x = 1" in str(difference)


def test_labels_are_not_compared(traced):
    left = traced("a = [1]\nb = [2]\n")
    right = traced("a = [1]\n[0].clear()\nb = [2]\n")

    assert right.diff(right).same
    assert left.diff(right).right.source == "[0].clear()"


def test_a_query_is_answered_for_a_run_that_was_stopped():
    execution = groundbox.run(
        "n = 0\nwhile True:\n    n += 1\n",
        mode="script",
        trace=groundbox.TraceOptions(max_events=500),
        limits=groundbox.Limits(cpu_s=1.0),
    )

    assert not execution.trace.complete
    assert execution.trace.history("n")[5].text == "5"
    assert str(execution.trace.why(3)).startswith("line 3, `n += 1`, ran ")
