"""Whole narrations: what they say, that they say it again, and that they stay within their limits."""

from __future__ import annotations

import ast
import dataclasses
import itertools
import json
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from groundbox.trace.claims import Status, decode, prove
from groundbox.trace.narrate import loops
from groundbox.trace.narrate.document import document
from groundbox.trace.narrate.narration import ClaimKind, Witness
from groundbox.trace.narrate.narrator import narrate
from groundbox.trace.record import schema

SEARCH = """\
We call `search` with `values` = [1, 3, 5, 7, 9] and `wanted` = 7. `low` starts at 0 and `high` is set to \
`len(values) - 1` = 5 - 1 = 4. The loop runs as long as `low <= high` is true. In iteration 1 (0 <= 4), `middle` \
takes the value `(low + high) // 2` = (0 + 4) // 2 = 2. 5 != 7, so `values[middle] == wanted` does not hold. As 5 < 7 \
and so `values[middle] < wanted` holds, `low` becomes `middle + 1` = 2 + 1 = 3. In iteration 2 (3 <= 4), `middle` is \
set to (3 + 4) // 2 = 3. Since 7 == 7 and so `values[middle] == wanted` is true, the function ends here.

So search returns 3."""


def test_a_search_is_told_with_the_values_that_decided(trace_of):
    told = narrate(trace_of("search"))

    assert told.text == SEARCH


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("i, (u, (v, w))", "`i, (u, (v, w))`"),
        ("(y, x), value", "`(y, x), value`"),
        ("(a, b)", "`a, b`"),
        ("(a,)", "`a,`"),
        ("found[(1)]", "`found[1]`"),
    ],
)
def test_a_loop_names_all_that_it_assigns(target, told):
    loop: Any = SimpleNamespace(statement=ast.parse(f"for {target} in items: pass").body[0])

    assert loops._target(loop) == told


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("search", "So search returns 3."),
        ("totals", "So totals returns (6, [7, 9])."),
        ("steps", "So steps returns 8."),
        ("chain", "So chain returns 4."),
        ("shared", "So shared returns [5, 2]."),
        ("guarded", "So guarded returns ([3], 2)."),
        ("evens", "So evens returns (2, {0: '00', 2: '22', 4: '44'})."),
        ("table", "So table returns [[0, 0, 0], [0, 1, 2], [0, 2, 4]]."),
        ("shape", "So shape returns ['number', 'list from 2', 'other']."),
        ("fails", "So fails raises KeyError('b')."),
        ("greet", "So the program prints 'Hello, Ann\\n2\\n'."),
    ],
)
def test_the_last_sentence_is_the_answer(trace_of, name, answer):
    told = narrate(trace_of(name))

    assert (told.answer, told.sentences[-1].text) == (answer, answer)
    assert told.text.endswith(answer)
    assert [claim.kind for claim in told.sentences[-1].claims] == [ClaimKind.ANSWER]


def test_the_same_seed_gives_the_same_text(program):
    assert narrate(program, seed=5) == narrate(program, seed=5)


def test_a_seed_changes_the_wording(trace_of):
    texts = {narrate(trace_of("totals"), seed=seed).text for seed in range(20)}

    assert len(texts) == 20


@pytest.mark.parametrize("detail", ["brief", "parts", "normal", "full"])
def test_a_seed_does_not_change_what_is_claimed(program, detail):
    claims = [Counter(narrate(program, seed=seed, detail=detail).claims) for seed in range(4)]

    assert claims == [claims[0]] * 4


def test_no_wording_comes_twice_in_a_row(trace_of):
    told = narrate(trace_of("table"), detail="full")

    ends = [sentence.text.split(" after ")[0] for sentence in told.sentences if "3 iterations" in sentence.text]
    assert len(ends) == 4
    assert all(first != second for first, second in itertools.pairwise(ends))


def test_more_detail_is_longer(trace_of):
    lengths = [len(narrate(trace_of("table"), detail=detail).text) for detail in ("brief", "parts", "normal", "full")]

    assert lengths == sorted(set(lengths))


@pytest.mark.parametrize("max_chars", [60, 200, 400, 700, 1000, 5000])
def test_a_text_fits_its_limit_and_keeps_the_answer(program, max_chars):
    whole = narrate(program, detail="full")

    told = narrate(program, detail="full", max_chars=max_chars)

    assert len(told.text) <= max(max_chars, len(whole.answer))
    assert told.text.endswith(whole.answer)
    assert told == whole or len(whole.text) > max_chars


def test_a_limit_below_the_answer_leaves_the_answer(trace_of):
    told = narrate(trace_of("table"), max_chars=10)

    assert told.text == "So table returns [[0, 0, 0], [0, 1, 2], [0, 2, 4]]."
    assert told.detail == "answer"


def test_steps_are_numbered_sentences(trace_of):
    told = narrate(trace_of("totals"), style="steps")

    lines = told.text.split("\n")
    assert lines == [f"{number}. {sentence.text}" for number, sentence in enumerate(told.sentences, 1)]
    assert lines[0] == "1. The module has `LIMIT` = 5." or lines[0] == "1. Given in the module: `LIMIT` = 5."


def test_going_back_ends_at_an_input_that_can_be_run(trace_of):
    told = narrate(trace_of("search"), style="backward")

    assert told.witness == Witness(call="search", args=[[1, 3, 5, 7, 9], 7])
    assert "`values` = [1, 3, 5, 7, 9] and `wanted` = 7" in told.sentences[-2].text
    assert "leads to" in told.sentences[0].text or "result to reach is 3" in told.sentences[0].text


def test_going_back_names_what_the_input_itself_must_meet(recorded):
    trace = recorded("def half(n):\n    if n % 2 == 0:\n        return n // 2\n    return n\n", "half", 6)

    told = narrate(trace, style="backward")

    assert [claim.subject for claim in told.sentences[-3].claims] == ["n % 2 == 0"]
    assert "`n % 2 == 0`" in told.sentences[-3].text


def test_a_script_has_no_input_to_go_back_to(trace_of):
    with pytest.raises(ValueError, match="only a run of one function has an input to go back to"):
        narrate(trace_of("greet"), style="backward")


def test_an_unknown_style_is_refused(trace_of):
    with pytest.raises(ValueError, match="style is one of prose, steps, backward, and not 'song'"):
        narrate(trace_of("search"), style="song")  # type: ignore[arg-type]  # refused


def test_a_record_that_breaks_off_is_said_to(recorded):
    trace = recorded("def f():\n    return 1\n", "g")

    told = narrate(trace)

    assert told.text == "The record ends before g returns."


def test_the_end_of_a_recursion_is_told_as_it_was_then(recorded):
    source = (
        "def below(n):\n    if n == 0:\n        return []\n    found = below(n - 1)\n    found.append(n)\n"
        "    return found\n\ndef main():\n    for n in range(2, 9):\n        below(n).append(0)\n"
    )

    told = narrate(recorded(source, "main"), detail="parts")

    assert "`below(0)`, which returns []" in told.text
    assert "`below(0)`, which returns [1" not in told.text


def test_an_array_that_a_call_returned_is_called_an_array(recorded):
    source = (
        "from array import array\n\ndef made():\n    return array('i', range(30))\n\ndef main():\n"
        "    rows = made()\n    return len(rows)\n"
    )

    told = narrate(recorded(source, "main"))

    assert "the array that `made()` returned" in told.text


def test_the_items_of_a_comprehension_stand_apart_from_what_is_before_them(recorded):
    source = (
        "def main():\n    out = []\n    for y in range(2):\n        out.append([i for i in range(4) if i != y])\n"
        "    for x in range(2):\n        rest = [i for i in range(4) if i != x]\n    return rest, out\n"
    )

    told = narrate(recorded(source, "main"))

    assert "the items 1, 2, 3 of range(0, 4) pass `i != x`" in told.text


NESTED = """\
def main(n):
    total = 0
    for x in range(n):
        for y in range(8):
            total += x * y
    return total
"""


def test_iterations_say_of_which_loop_they_are_where_another_one_was_told_in_between(recorded, unproven):
    trace = recorded(NESTED, "main", 9)

    narration = narrate(trace, detail="parts")
    told = narration.text

    assert "In iterations 3 to 7 `y` takes the values 2, 3, 4, 5, 6 and" in told
    assert "In iterations 7 to 8 of the loop over `x`, `x` takes the values 6, 7, after which `total` is 784." in told
    assert unproven(narration, trace) == []
    other = json.dumps(document(narration, trace)).replace("8 of the loop over `x`", "8 of the loop over `y`").encode()
    assert not prove(decode(other).text, trace, claims=other, strict=True).passes


def test_iterations_that_were_not_recorded_say_of_which_loop_they_are(recorded, unproven):
    trace = recorded(NESTED, "main", 9, soft_events=30)

    narration = narrate(trace)
    told = narration.text

    assert "Iterations 1 to 8 of the loop over `y` ran" in told or "Iterations 1 to 8 of the loop over `y` were" in told
    assert unproven(narration, trace) == []


def test_a_single_iteration_that_was_not_recorded_says_of_which_loop_it_is(recorded, unproven):
    trace = recorded(NESTED, "main", 9, soft_events=240)

    narration = narrate(trace, detail="brief")
    told = narration.text

    assert "Iteration 9 of the loop over `x` ran without" in told
    assert unproven(narration, trace) == []


@pytest.mark.parametrize(
    ("loop", "number", "x", "holds"),
    [
        ("for x in range(n)", "9", "8", True),
        ("for y in range(8)", "9", "8", False),
        ("for x in range(n)", "9", "6", False),
    ],
)
def test_the_loop_of_a_single_iteration_is_checked(recorded, loop, number, x, holds):
    trace = recorded(NESTED, "main", 9)
    text, found = "It is so.", set()
    for step in (at for at, record in enumerate(trace.records) if isinstance(record, schema.Line)):
        said = [("iteration", loop, number), ("value", "x", x)]
        claims = [{"kind": kind, "subject": subject, "value": value, "step": step} for kind, subject, value in said]
        proof = prove(
            text, trace, claims={"schema": "groundbox.claims/1", "sentences": [{"text": text, "claims": claims}]}
        )
        found.add(proof.count(Status.SUPPORTED) == len(said))

    assert (True in found) is holds


WAITING = """\
def main(n):
    total = 0
    while n > 0:
        for y in range(3):
            total += y
        n -= 1
    return total
"""


def test_a_loop_without_items_is_named_by_its_condition(recorded, unproven):
    trace = recorded(WAITING, "main", 12)

    narration = narrate(trace, detail="parts")
    told = narration.text

    assert " of the loop with the condition `n > 0`" in told
    assert unproven(narration, trace) == []


def test_a_function_whose_call_never_began_is_not_said_to_be_of_a_library(recorded):
    trace = recorded("def main(items):\n    yield from items\n", "main", [1])

    assert narrate(trace).text.endswith("The record holds no call of main.")


def test_a_called_function_of_a_library_is_not_said_to_go_on(recorded):
    trace = recorded("from math import gcd as main\n", "main", 4, 6)

    narration = narrate(trace)

    assert narration.text.endswith("The record holds nothing of main, which is no code of the program.")
    assert [each["claims"] for each in document(narration, trace)["sentences"]] == [[]]


@pytest.mark.parametrize("call", [None, "fails"])
def test_an_exception_that_the_record_leaves_out_is_told_as_such(recorded, call):
    """A trace is its program's claim: frames may be left by an exception that never came up in it."""
    source = "def fails(values):\n    total = 0\n    return values[total + 9]\n"
    whole = recorded(source, call, [1]) if call else recorded(f"{source}fails([1])\n")
    records = [record for record in whole.records if not isinstance(record, schema.Raise)]
    without = dataclasses.replace(whole, records=records)

    told = narrate(without)

    assert told.text.endswith(f"So {call or 'the program'} ends with an exception of which the record holds nothing.")
    if call:
        assert narrate(without, style="backward").text
