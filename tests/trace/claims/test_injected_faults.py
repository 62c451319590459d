"""Faults in what the narrator works out of records are refused where they change a word: its claims are not believed.

Each derived fact is made wrong at one place at a time: how often a loop ran, how a test came out, and so on. The
narration made with it, and the claims that come with that, are held against the record.
"""

import ast
import dataclasses
import functools
from pathlib import Path

import pytest

from groundbox.trace.claims import prove
from groundbox.trace.claims.derivable import derivable
from groundbox.trace.narrate import changes, paths, statements
from groundbox.trace.narrate.document import document
from groundbox.trace.narrate.narrator import narrate
from groundbox.trace.record import schema
from groundbox.trace.record.reading import Trace
from groundbox.trace.run.structure import Loop

pytestmark = pytest.mark.slow

STORED = Path(__file__).parent / "traces"
PLACES = 9
"""Of each run at which a fault is made; more where few runs have such places."""
LEAST = 20
"""Narrations of each kind of fault that have to have changed, so that a test says something."""

QUEUES = """\
def main(items):
    left, right = [1, 2], [1, 2]
    seen = [0]
    for item in items:
        left.append(item)
        right.append(item)
        first = left.pop(0)
        last = right.pop()
        seen.insert(1, first)
        if last > 3:
            seen.append(last)
    while left:
        left.pop()
        right.pop(0)
    return seen
"""
CAUGHT = """\
def main(items):
    kinds = []
    for item in items:
        try:
            found = 6 // item
        except ZeroDivisionError:
            kinds.append(0)
        except TypeError:
            kinds.append(1)
        except ValueError:
            kinds.append(2)
    return kinds
"""
CALLS = """\
def half(n):
    if n % 2:
        return n * 3 + 1
    return n // 2

def fact(n):
    if n < 2:
        return 1
    return n * fact(n - 1)

def main(items):
    total = 0
    for item in items:
        total += half(item)
        total -= half(item + 1)
    return total + fact(6)
"""
FOLDED = "def main(n):\n    total = 0\n" + "".join(
    f"    for j in range({9 + number}):\n        total += j\n" for number in range(24)
) + "    return total\n"  # fmt: skip


@functools.cache
def programs():
    return {path.stem: path.read_bytes() for path in sorted(STORED.glob("*.jsonl"))}


@pytest.fixture(scope="module")
def runs(recorded):
    """Runs as bytes: each fault is made in a trace of its own."""
    return programs() | {
        "queues": recorded(QUEUES, "main", [5, 3, 8, 1, 9, 4]).dumps(),
        "caught": recorded(CAUGHT, "main", [2, *[0, "a"] * 12]).dumps(),
        "calls": recorded(CALLS, "main", [5, 8, 3, 6, 7]).dumps(),
    }


def told(trace, detail="normal"):
    narration = narrate(trace, detail=detail, seed=1)
    return narration, document(narration, trace)


def facts(claims):
    """Claims without their words."""
    said = (claim for sentence in claims["sentences"] for claim in sentence["claims"])
    return {(claim["kind"], claim["subject"], claim["value"], claim.get("step")) for claim in said}


def conditions(trace):
    """What records say of conditions, as claims without words."""
    lines, header = trace.source.splitlines(), 0
    for at, record in enumerate(trace.records):
        if isinstance(record, schema.Line):
            header = at
        elif isinstance(record, schema.Test):
            line, begin, _, end = record.at
            yield "test", lines[line - 1][begin:end], str(record.v), header


def jumps(narration, trace):
    return len(derivable(narration.sentences, trace).jumps)


def refused(runs, make_faulty, monkeypatch, *, detail="normal", places=PLACES):
    """How many narrations changed by a fault are refused, and the changed sentences of those that pass and are false.

    A text is refused where a claim is not borne out, or where a value does not follow from what is told, as those that
    do without the fault. What a fault only keeps from being said leaves a true text, of which each claim is made of the
    same record without the fault, too, and each word stands in one.

    Args:
        make_faulty: Makes the fault of a number in a trace; raises IndexError where there is no place of it.
    """
    changed, passed = 0, []
    for name, data in runs.items():
        narration, _ = told(Trace.loads(data), detail)
        true, without_fault = narration.text, jumps(narration, Trace.loads(data))
        sound_claims = {*conditions(Trace.loads(data))}
        for each in ("normal", "full"):
            sound_claims |= facts(told(Trace.loads(data), each)[1])
        for place in range(places):
            trace = Trace.loads(data)
            with monkeypatch.context() as patched:
                try:
                    make_faulty(trace, place, patched)
                except IndexError:
                    break
                try:
                    narration, claims = told(trace, detail)
                except (AssertionError, KeyError, IndexError, TypeError):
                    continue  # the narrator itself does not get through
            text, sound = narration.text, Trace.loads(data)
            if text == true:
                continue
            if not prove(text, sound, claims=claims).passes or jumps(narration, sound) > without_fault:
                changed += 1
            elif not (facts(claims) <= sound_claims and prove(text, sound, claims=claims, strict=True).passes):
                passed.append((name, place, [one for one in text.split(". ") if one not in true][:2]))
    return changed, passed


def steps(trace):
    return [step for activation in trace.structure.activations.values() for step in activation.steps()]


def loops(trace):
    def inside(nodes):
        for node in nodes:
            if isinstance(node, Loop):
                yield node
                for iteration in node.iterations:
                    yield from inside(iteration.body)

    return [loop for activation in trace.structure.activations.values() for loop in inside(activation.body)]


def count(trace, place, patched):
    found = loops(trace)
    target, true = found[place], vars(Loop)["count"].fget
    patched.setattr(Loop, "count", property(lambda loop: true(loop) + (loop is target)))


def number(trace, place, patched):
    found = [iteration for loop in loops(trace) for iteration in loop.iterations]
    found[place].number += 1


def outcome(trace, place, patched):
    found = [step for step in steps(trace) if step.condition is not None]
    found[place].condition = not found[place].condition


def order(trace, place, patched):
    found = [loop for loop in loops(trace) if len(loop.iterations) > 1]
    first, second, *_ = found[place].iterations
    first.body, second.body = second.body, first.body
    first.header, second.header = second.header, first.header


def which_call(trace, place, patched):
    found = [call for call in trace.structure.activations.values() if call.name != "<module>" and call.parent]
    one, other = found[place], found[(place + 1) % len(found)]
    one.value, other.value = other.value, one.value


def arguments(trace, place, patched):
    found = [call for call in trace.structure.activations.values() if call.name != "<module>" and call.parent]
    one, other = found[place], found[(place + 1) % len(found)]
    one.args, other.args = other.args, one.args


def which_object(trace, place, patched):
    true, calls = paths.path_to, []

    def path_to(state, frame, label, *rest):
        path = true(state, frame, label, *rest)
        calls.append(path)
        if len(calls) != place + 1 or path is None:
            return path
        names = [name for name, value in state.names(frame).items() if isinstance(value, dict) and "ref" in value]
        others = [name for name in names if state.names(frame)[name]["ref"] != label]
        return others[0] if others else path

    patched.setattr(statements, "path_to", path_to)


def at_end(trace, place, patched):
    true, calls = changes.note, []

    def note(state, ref, record):
        made = true(state, ref, record)
        calls.append(made)
        if len(calls) != place + 1 or record.op != "splice":
            return made
        return dataclasses.replace(made, start=0 if made.start else made.old_length - len(made.gone))

    patched.setattr(changes, "note", note)


def fold(trace, place, patched):
    found = [fold for loop in loops(trace) for fold in loop.folds]
    found[place].iterations += 1


def fold_after(trace, place, patched):
    found = [fold for loop in loops(trace) for fold in loop.folds]
    found[place].after += 1


def caught(trace, place, patched):
    found = [step for step in steps(trace) if isinstance(step.clause, ast.ExceptHandler)]
    others = [step.clause for step in found]
    found[place].clause = next((each for each in others if each is not found[place].clause), found[place].clause)


FAULTS = [count, number, outcome, order, which_call, arguments, which_object, at_end, caught]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_that_changes_a_word_is_refused(runs, fault, monkeypatch):
    detail = "full" if fault is caught else "normal"
    places = 40 if fault in (caught, which_call) else PLACES
    changed, passed = refused(runs, fault, monkeypatch, detail=detail, places=places)

    assert passed == []
    assert changed >= LEAST


@pytest.mark.parametrize("fault", [fold, fold_after], ids=lambda fault: fault.__name__)
def test_a_fault_about_what_was_not_recorded_is_refused(recorded, fault, monkeypatch):
    folded = recorded(FOLDED, "main", 14, soft_events=10)
    assert any(isinstance(record, schema.Fold) for record in folded.records)

    changed, passed = refused({"folded": folded.dumps()}, fault, monkeypatch, detail="full", places=40)

    assert passed == []
    assert changed >= LEAST


def test_without_a_fault_all_of_them_pass(runs):
    for data in runs.values():
        trace = Trace.loads(data)
        narration, claims = told(trace)
        assert prove(narration.text, trace, claims=claims).passes
