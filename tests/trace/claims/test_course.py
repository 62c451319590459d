"""Iterations, ends of loops and outcomes of conditions are held against the records that tell them."""

import pytest

from groundbox.trace.claims import prove
from groundbox.trace.record import schema
from groundbox.trace.record.reading import Trace

LOOPS = """\
def main(xs):
    t = 0
    for x in xs: t += x
    while t > 3: t -= 3
    while True:
        for x in xs:
            if x: break
        t += 1
        if (t > 4
                and t):
            break
    for x in range(9):
        t += x
    return t
"""
LINES = {"inline for": 3, "inline while": 4, "endless": 5, "left": 6, "last": 12}
OBJECTS = """\
class Box:
    def __init__(self, n):
        self.n = n

    def __repr__(self):
        return f'<Box {self.n}>'

    def __lt__(self, other):
        return self.n < other.n

def larger(one, other):
    if one < other and other:
        return other
    return one

def main(n):
    left = [1]
    if not left.clear() and sorted([n, 2])[0] == 2:
        n += 1
    try:
        n = larger(Box(n), Box(7)).n // 0
    except KeyError:
        n = 0
    except (ZeroDivisionError, TypeError): n = 1
    return n
"""


@pytest.fixture(scope="module")
def loops(recorded):
    return recorded(LOOPS, "main", [2, 5, 1])


@pytest.fixture(scope="module")
def objects(recorded):
    return recorded(OBJECTS, "main", 5)


def judged(trace, kind, subject, value, step):
    claim = {"kind": kind, "subject": subject, "value": value, "step": step}
    given = {"schema": "groundbox.claims/1", "sentences": [{"text": "It is so.", "claims": [claim]}]}
    (verdict,) = prove("It is so.", trace, claims=given).verdicts
    return str(verdict.status)


def steps(trace, kind, **fields):
    found = [each for each in enumerate(trace.records) if type(each[1]).__name__ == kind]
    return [at for at, each in found if all(getattr(each, name) == value for name, value in fields.items())]


@pytest.mark.parametrize(
    ("loop", "count", "exit"),
    [
        ("inline for", 3, "exhausted"),
        ("inline while", 2, "false"),
        ("endless", 3, "break"),
        ("left", 1, "break"),
        ("last", 9, "exhausted"),
    ],
)
def test_how_often_a_loop_ran_is_told_by_its_iterations(loops, loop, count, exit):
    line, end = f"line {LINES[loop]}", steps(loops, "Return")[-1]

    assert judged(loops, "count", line, str(count), end) == "supported"
    assert judged(loops, "count", line, str(count + 1), end) == "refuted"
    assert judged(loops, "count", line, str(count - 1), end) == "refuted"
    assert judged(loops, "exit", line, repr(exit), end) == "supported"
    assert judged(loops, "exit", line, "'raise'", end) == "refuted"


@pytest.mark.parametrize("loop", ["inline for", "inline while", "endless", "left", "last"])
def test_the_number_of_an_iteration_is_the_recorded_one(loops, loop):
    line = LINES[loop]
    headers = steps(loops, "Line", n=line)
    numbers = [loops.records[at].number for at in steps(loops, "Iteration", n=line)]

    for header, number in zip(headers, numbers, strict=False):
        assert judged(loops, "iteration", f"line {line}", str(number), header) == "supported"
        assert judged(loops, "iteration", f"line {line}", str(number + 1), header) == "refuted"
        assert judged(loops, "iteration", f"line {line}", str(number - 1), header) == "refuted"


def test_iterations_that_were_not_recorded_are_counted(recorded):
    folded = recorded(LOOPS, "main", [2, 5, 1], soft_events=10)
    (fold,) = [at for at in steps(folded, "Fold") if folded.records[at].n == LINES["last"]]
    end = steps(folded, "Return")[-1]

    assert judged(folded, "count", f"line {LINES['last']}", "9", end) == "supported"
    assert judged(folded, "count", f"line {LINES['last']}", "10", end) == "refuted"
    assert judged(folded, "count", "folded iterations", str(folded.records[fold].iterations), fold) == "supported"


def test_a_condition_is_what_its_records_say(loops, objects):
    (asked,) = steps(loops, "Line", n=9)[-1:]
    (mine,) = steps(objects, "Line", n=18)
    (other,) = steps(objects, "Line", n=12)

    assert judged(loops, "test", "t > 4 and t", "True", asked) == "supported"
    assert judged(loops, "test", "t > 4 and t", "False", asked) == "refuted"
    assert judged(objects, "test", "not left.clear() and sorted([n, 2])[0] == 2", "True", mine) == "supported"
    assert judged(objects, "test", "not left.clear()", "False", mine) == "refuted"
    assert judged(objects, "test", "one < other and other", "True", other) == "supported"
    assert judged(objects, "test", "one < other", "False", other) == "refuted"


def test_which_handler_took_over_is_told_by_its_test(objects):
    (first,), (second,) = steps(objects, "Line", n=22), steps(objects, "Line", n=24)[:1]

    assert judged(objects, "catch", "except KeyError", "False", first) == "supported"
    assert judged(objects, "catch", "except KeyError", "True", first) == "refuted"
    assert judged(objects, "catch", "except (ZeroDivisionError, TypeError)", "True", second) == "supported"
    assert judged(objects, "catch", "except (ZeroDivisionError, TypeError)", "False", second) == "refuted"


def test_an_outcome_that_is_recorded_otherwise_is_refuted(loops):
    """A record decides, not the value of a condition that could be worked out."""
    (asked,) = steps(loops, "Line", n=9)[-1:]
    told = next(at for at in range(asked, len(loops.records)) if isinstance(loops.records[at], schema.Test))
    records = list(loops.records)
    records[told] = schema.Test(f=records[told].f, at=records[told].at, v=False)
    other = Trace(loops.header, records)

    assert judged(other, "test", "t > 4", "True", asked) == "refuted"
    assert judged(other, "test", "t > 4", "False", asked) == "supported"


def test_arguments_that_are_no_code_are_compared_as_they_are_shown(recorded):
    source = "class Box:\n    def __repr__(self):\n        return '<a, b>'\n\n"
    source += "def take(n, box):\n    return n\n\ndef main(n):\n    return take(n, Box())\n"
    run = recorded(source, "main", 3)
    (made,) = steps(run, "Call", name="take")
    shown = run.state_at(made).text(run.records[made].args["box"], 60)

    assert judged(run, "call", f"take(3, {shown})", "", made) == "supported"
    assert judged(run, "call", "take(3, <Other>)", "", made) == "refuted"
    assert judged(run, "call", f"take(4, {shown})", "", made) == "refuted"


def test_workings_with_another_value_are_refuted_although_both_give_none(recorded):
    run = recorded("def main(d, k):\n    return d.get(k)\n", "main", {1: 1}, 2)
    (line,) = steps(run, "Line", n=2)

    assert judged(run, "value", "d.get(k)", "d.get(2)", line) == "supported"
    assert judged(run, "value", "d.get(k)", "d.get(3)", line) == "refuted"


def test_of_a_file_without_records_of_iterations_nothing_is_said(loops):
    kinds = schema.Test | schema.Iteration | schema.Ended
    older = Trace(loops.header, [each for each in loops.records if not isinstance(each, kinds)])

    for line in LINES.values():
        for count in range(10):
            assert judged(older, "count", f"line {line}", str(count), len(older.records) - 1) == "not_found"


CALLS = """\
class Pile:
    def __init__(self, size, step=2):
        self.size = size

    def push(self, item, times=1):
        return item

    def shift(this, by):
        return by

    @staticmethod
    def read(text, base=10):
        return text

def add(one, other=0):
    return one

def gather(*items, **options):
    return len(items)

def main(n):
    pile = Pile(1)
    pile.push(4)
    pile.shift(3)
    Pile.read('a')
    gather(1, 2, a=1, b=2)
    return add(n)
"""


@pytest.fixture(scope="module")
def calls(recorded):
    return recorded(CALLS, "main", 7)


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("add", ["add(7)", "add(7, 0)", "add(one=7)", "add(7, other=...)"],
         ["add(7, 0, 7)", "add(7, 7)", "add(7, one=7)", "add(7, more=7)", "add()", "add(7, 0, ...)",
          "add(other=0)"]),
        ("Pile.push", ["pile.push(4)", "push(4, 1)", "push(4, times=1)", "Pile.push(pile, 4)"],
         ["push(4, 4)", "Pile.push(pile, 5)", "Pile.push(4, 4)", "push(4, item=4)", "push(4, 1, 1)", "push(1)"]),
        ("Pile.shift", ["pile.shift(3)", "shift(by=3)", "Pile.shift(pile, 3)"], ["pile.shift(4)", "pile.shift(3, 3)"]),
        ("Pile.read", ["Pile.read('a')", "Pile.read('a', 10)"], ["Pile.read('b')", "Pile.read('a', 2)"]),
        ("Pile.__init__", ["Pile(1)", "Pile(1, 2)", "Pile(1, step=2)"], ["Pile(2)", "Pile(1, 1)", "Pile(1, 2, 1)"]),
        ("gather", ["gather(1, 2, a=1, b=2)", "gather(1, 2, b=2, a=1)", "gather(1, 2, ...)",
                    "gather(items=...)", "gather(items=(1, 2), a=1)"],
         ["gather(2, 1, a=1, b=2)", "gather(1, 2, a=2, b=1)", "gather(1, a=1, b=2)", "gather(1, 2, c=1)",
          "gather(1, 2, 1, a=1)", "gather(1, 2, 2)", "gather(items=(1, 3))"]),
    ],
)  # fmt: skip
def test_an_argument_is_held_against_the_parameter_that_takes_it(calls, name, right, wrong):
    (step,) = steps(calls, "Call", name=name)

    assert {call: judged(calls, "call", call, "", step) for call in right} == dict.fromkeys(right, "supported")
    assert {call: judged(calls, "call", call, "", step) for call in wrong} == dict.fromkeys(wrong, "refuted")
