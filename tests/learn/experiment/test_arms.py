"""Arms of the experiment: what each tells, and how logs are read."""

from __future__ import annotations

import random

import pytest

import groundbox
from groundbox.learn.experiment import arms
from groundbox.learn.experiment.arms import Example, claims_of_log, mutants, reply
from groundbox.learn.experiment.data import Run
from groundbox.learn.experiment.scoring import score
from groundbox.trace.claims import prove
from groundbox.trace.narrate.narrator import narrate
from groundbox.trace.record.reading import Trace

SOURCE = """def step(x):
    return x - 2


def f(a, b):
    while a > 3:
        a = step(a)
    if b % 2 == 0:
        b = b * 3
    c = a + b
    return c
"""


def traced(source: str = SOURCE, args: tuple[int, ...] = (7, 4)) -> Trace:
    trace = groundbox.run(source, mode="call", call="f", args=list(args), trace=True).trace
    assert isinstance(trace, Trace)
    return trace


@pytest.fixture(scope="module")
def example() -> Example:
    trace = traced()
    narration = narrate(trace, style="steps", seed=3).text
    return Example(id="one", source=SOURCE, call="f(7, 4)", answer="15", narration=narration, trace=trace)


@pytest.fixture(scope="module")
def run(example: Example) -> Run:
    replies = {arm: told(arm, example) for arm in arms.ARMS}
    return Run(id="one", prompt=example.prompt, answer="15", steps=12, replies=replies, trace=example.trace)


def told(arm: str, example: Example, seed: int = 0) -> str:
    return reply(arm, example, [example], random.Random(seed))


def test_every_arm_ends_with_the_answer_of_its_run(example: Example) -> None:
    for arm in arms.ARMS:
        assert told(arm, example).splitlines()[-1] == "Answer: 15"


def test_a_narration_without_its_words_is_its_values_and_how_they_came_about() -> None:
    narration = "\n".join(
        [
            "1. We call `f` with `a` = 8 and `b` = 9.",
            "2. Since 9 > 2 and so `b <= 2` does not hold, `a` takes the value `b + 7` = 9 + 7 = 16.",
            "3. `i` runs over `range(2)`.",
            "4. For `i` = 0, `c` becomes `b - 12` = 9 - 12 = -3 and `g` is set to `c == 3` = -3 == 3 = False.",
            "5. When `i` is 1, nothing is changed.",
            "6. The loop ends after 2 iterations, as no items are left.",
            "7. In iteration 1 (5 > 1), `b` is set to 5 - 5 = 0.",
            "8. 2 % 2 = 0 and 0 != 1, so `a % 2 == 1` is false.",
            "9. `step` returns `x - 2` = 9 - 2 = 7; `d` becomes `step(9)` = 7.",
            "10. So f returns 7.",
        ]
    )

    assert arms.bare(narration).splitlines() == [
        "a = 8; b = 9",
        "9 > 2; a = 9 + 7 = 16",
        "i = 0; c = 9 - 12 = -3; g = -3 == 3 = False",
        "i = 1",
        "5 > 1; b = 5 - 5 = 0",
        "2 % 2 = 0 and 0 != 1",
        "step = 9 - 2 = 7; d = 7",
    ]


def test_values_without_words_are_held_against_those_of_the_run(example: Example) -> None:
    true = told("bare", example)
    run = Run(id="one", prompt="", answer="15", steps=12, replies={"bare": true}, trace=example.trace)

    as_told = score("bare", "same", run, true, tokens=9, finished=True)
    changed = score("bare", "same", run, true.replace("a = 7", "a = 6", 1), tokens=9, finished=True)

    assert (as_told.told, as_told.refuted, as_told.right) == (as_told.borne_out, 0, True)
    assert as_told.told > 5
    assert (changed.told, changed.refuted) == (as_told.told, 1)
    assert list(arms.claims_without_words("bare", "")) == []


LOOPS = """def step(x):
    return x - 2


def f(a, b):
    while a > 3:
        a = a - 1
    for i in range(2):
        c = step(b)
    return c
"""
SNOOP = """>>> Call to f
...... a = 8
...... b = 4
   5 | def f(a, b):
   6 |     while a > 3:
   7 |         a = a - 1
.............. a = 7
   6 |     while a > 3:
   7 |         a = a - 1
.............. a = 6
   6 |     while a > 3:
   7 |         a = a - 1
.............. a = 5
   6 |     while a > 3:
   7 |         a = a - 1
.............. a = 4
   6 |     while a > 3:
   7 |         a = a - 1
.............. a = 3
   6 |     while a > 3:
   8 |     for i in range(2):
.......... i = 0
   9 |         c = step(b)
    >>> Call to step
    ...... x = 4
       1 | def step(x):
       2 |     return x - 2
    <<< Return value from step: 2
   9 |         c = step(b)
.............. c = 2
   8 |     for i in range(2):
.......... i = 1
   9 |         c = step(b)
    >>> Call to step
    ...... x = 4
       1 | def step(x):
       2 |     return x - 2
    <<< Return value from step: 2
   9 |         c = step(b)
   8 |     for i in range(2):
  10 |     return c
<<< Return value from f: 2"""
"""Printed by snoop 0.6.0 with the paper's settings (`columns=""`, the file left out of the head of a call)."""


def test_the_raw_log_is_what_snoop_prints_and_no_round_is_left_out() -> None:
    assert arms.raw(traced(LOOPS, (8, 4))) == SNOOP


def test_no_round_is_left_out_of_the_concise_log() -> None:
    assert arms.concise(traced(LOOPS, (8, 4))).count("7: a = ") == 5


def test_jumps_tells_fewer_steps_and_nothing_else(example: Example) -> None:
    whole = [line.partition(". ")[2] for line in told("proven", example).splitlines()]
    some = [line.partition(". ")[2] for line in told("jumps", example, seed=1).splitlines()]
    assert len(some) < len(whole)
    assert set(some) <= set(whole)


@pytest.mark.parametrize("arm", ["false8", "false25"])
def test_false_arms_change_values_that_the_record_then_does_not_bear_out(arm: str, example: Example) -> None:
    texts = [told(arm, example, seed) for seed in range(40)]
    changed = [text for text in texts if text != told("proven", example)]
    assert changed
    passed = [text for text in changed if prove(text.rpartition("\nAnswer")[0], example.trace).passes]
    assert len(passed) <= 0.1 * len(changed)  # "7 > -3" for "7 > 3" is true as well
    assert prove(told("proven", example).rpartition("\nAnswer")[0], example.trace).passes


def test_a_mutant_differs_in_one_place_and_still_parses() -> None:
    found = list(mutants(SOURCE, random.Random(0)))
    assert len(found) == len(set(found)) == 11
    for each in found:
        compile(each, "mutant", "exec")


@pytest.mark.parametrize("arm", ["raw", "concise"])
def test_every_claim_of_a_true_log_is_so_and_a_false_one_is_found(arm: str, run: Run, example: Example) -> None:
    log = told(arm, example)
    true = score(arm, "same", run, log, tokens=9, finished=True)
    assert (true.right, true.refuted) == (True, 0)
    assert true.told == true.borne_out >= 6

    changed = log.replace("a = 5", "a = 6", 1)
    assert changed != log
    false = score(arm, "same", run, changed, tokens=9, finished=True)
    assert (false.told, false.refuted) == (true.told, 1)


def test_a_step_too_many_in_a_log_is_no_claim_that_holds(run: Run, example: Example) -> None:
    longer = told("raw", example).replace("<<< Return value from f", ".............. a = 1\n<<< Return value from f")
    assert score("raw", "same", run, longer, tokens=9, finished=True).refuted == 1


def test_claims_of_a_log_know_place_and_time() -> None:
    log = "   3 |     a = 1\n.......... a = 1\n   3 |     a = 1\n.......... a = 2\n<<< Return value from f: 2"
    assert list(claims_of_log(log)) == [("3 a", 1, "1"), ("3 a", 2, "2"), ("return f", 1, "2")]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\x00" * 50,
        "Answer: ",
        "|||\n. = \n" * 50,
        ">>> Call to\n...... = \n9 |",
        "¹²³ | x\n٣: a = 1",
        "return \nreturn",
    ],
)
@pytest.mark.parametrize("arm", arms.ARMS)
def test_replies_of_any_kind_are_scored(arm: str, text: str, run: Run) -> None:
    scored = score(arm, "same", run, text, tokens=3, finished=True)
    assert not scored.right
    assert scored.borne_out == 0


def test_an_answer_counts_only_in_a_reply_that_the_model_ended(run: Run) -> None:
    assert score("direct", "same", run, "Answer: 15", tokens=3, finished=True).right
    assert not score("direct", "same", run, "Answer: 15", tokens=3, finished=False).right
    assert not score("direct", "same", run, "Answer: 15\nAnswer: 16", tokens=3, finished=True).right
