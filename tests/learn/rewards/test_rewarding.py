"""Rewards: right is 1, wrong is 0, and where a sandbox fails or nothing can be said there is none."""

import asyncio
import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys

import pytest

import groundbox as gb
from groundbox.errors import InvalidArgument, SandboxLost, SandboxUnavailable
from groundbox.learn.evaluation import judging
from groundbox.learn.rewards import rewarding
from groundbox.learn.rewards.rewarding import (
    Rewards,
    answer_reward,
    cases_reward,
    fact_reward,
    hidden_tests_reward,
    step_truth_reward,
)
from groundbox.learn.rewards.step_truth import StepTruth
from groundbox.sandbox.portal import PORTAL

GOOD = "So:\n```python\ndef double(n):\n    return n * 2\n```"
BAD = "```python\ndef double(n):\n    return n\n```"
CASES = json.dumps([{"args": [2], "expected": 4}, {"args": [0], "expected": 0}])
SUM = "def f(xs):\n    t = 0\n    for x in xs:\n        if x > 1:\n            t += x\n    return t\n"


@pytest.mark.parametrize(
    "tests",
    [["assert double(2) == 4", "assert double(-1) == -2"], "def check(candidate):\n    assert candidate(2) == 4\n"],
)
def test_hidden_tests_judge_the_last_program(tests):
    chat = [{"role": "assistant", "content": GOOD}]

    found = hidden_tests_reward(
        completions=[GOOD, BAD, chat, "no"], tests=[tests] * 4, entry_point=["double"] * 4, prompts=None
    )

    assert found == [1.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    "program",
    [
        "class Any(int):\n    def __eq__(self, o): return True\ndef double(n): return Any()",
        "import os\ndef double(n): os._exit(0)",
        "def double(n):\n    while True: pass",
        "def double(n): return 'x' * (64 << 20)",
        "def double(n): return [0] * 10 ** 12",
        "import sys\nsys.setrecursionlimit(10 ** 9)\ndef double(n): return double(n)",
        "def double(n) return 2 * n",
        "def double(n): return double",
        "\0",
        "\ud800",
        "",
    ],
)
def test_a_program_that_fails_has_no_reward(program):
    rewards = Rewards(limits=gb.Limits(wall_s=0.8, cpu_s=1, memory_bytes=256 << 20))

    assert rewards.cases([program], [CASES], ["double"]) == [0.0]
    assert rewards.tests([program], [["assert double(2) == 4"]], ["double"]) == [0.0]
    assert rewards.failures == 0


def test_cases_compare_as_recorded_outputs_do_and_can_give_a_share():
    cases = json.dumps([{"args": [{"$tuple": [1, 2]}], "expected": [1, 2]}, {"kwargs": {"x": 1}, "expected": 0.3}])
    source = "def f(x):\n    return x if isinstance(x, tuple) else 0.1 + 0.2"

    assert cases_reward([source], [cases], ["f"]) == [1.0]
    assert Rewards(partial=True).cases([source.replace("0.2", "1")], [cases], ["f"]) == [0.5]


def test_a_case_after_one_that_hangs_counts_in_a_share():
    hangs = "def double(n):\n    while n == 2: pass\n    return 0"

    assert Rewards(partial=True, limits=gb.Limits(wall_s=0.5)).cases([hangs], [CASES], ["double"]) == [0.5]


def test_a_setup_stands_before_program_and_tests():
    found = hidden_tests_reward(
        ["def f(x): return helper(x)"], [["assert f(1) == helper(1)"]], ["f"], setup=["def helper(x): return x + 1"]
    )

    assert found == [1.0]


def test_answers_are_judged_by_their_check():
    checks = [
        {"kind": "value", "value": "[1, 2]"},
        json.dumps({"kind": "value", "value": "(1, 2)"}),
        {"kind": "call", "value": "5"},
        {"kind": "call", "value": "5"},
        {"kind": "call", "value": "5"},
        {"kind": "text", "value": "two words"},
    ]
    replies = ["1, 2", "(1, 2)", "f([2, 3])", "f([2])", "g([5])", "two  words."]
    completions = [f"Thus\nAnswer: {reply}" for reply in ["[1, 2]", *replies[1:]]]

    assert answer_reward(completions, checks, source=[SUM] * 6, entry=["f"] * 6) == [1.0, 1.0, 1.0, 0.0, 0.0, 1.0]


def test_questions_about_a_run_are_answered_by_its_record():
    questions = [
        {"kind": "state", "name": "t", "line": 4, "time": 3},
        {"kind": "next_line", "line": 4, "time": 1},
        {"kind": "next_line", "line": 4, "time": 2},
        {"kind": "branch", "line": 4},
        {"kind": "state", "name": "t", "line": 4, "time": 9},
        {"kind": "state", "name": "nobody", "line": 4},
        {"kind": "branch", "line": 2},
    ]
    completions = [f"Answer: {each}" for each in ("2", "3", "5", "[False, True, True]", "2", "2", "[]")]
    columns = {"source": [SUM] * 7, "call": ["f"] * 7, "args": ["[[1, 2, 3]]"] * 7}

    right = fact_reward(completions, question=questions, **columns)
    wrong = fact_reward(["Answer: 7"] * 7, question=list(map(json.dumps, questions)), **columns)

    assert right == [1.0, 1.0, 1.0, 1.0, None, None, None]
    assert wrong == [0.0, 0.0, 0.0, 0.0, None, None, None]


@pytest.mark.parametrize("args", [[[(1, 2)]], ['[{"$tuple": [1, 2]}]']])
def test_a_run_is_given_the_arguments_that_a_column_holds(args):
    source = "def f(pair):\n    t = type(pair).__name__\n    return t\n"
    question = {"kind": "state", "name": "t", "line": 3, "time": 1}
    about = {"source": [source] * 2, "call": ["f"] * 2, "args": args * 2}

    facts = fact_reward(["Answer: 'tuple'", "Answer: 'list'"], question=[question] * 2, **about)
    steps = Rewards(step_truth=StepTruth(least=1)).steps(["`t` is 'tuple'.", "`t` is 'list'."], **about)

    assert facts == [1.0, 0.0]
    assert steps == [1.0, -1.0]


WHOLE = "`t` is 0. First `x` is 1, and `x > 1` is False. Then `x` is 2, so `t` becomes 2. The function returns 2."


def steps_of(*texts, **how):
    """Rewards for the steps of replies about `f([1, 2])`."""
    return Rewards(step_truth=StepTruth(**how)).steps(
        [f"{text}\n\nAnswer: 2" for text in texts],
        [SUM] * len(texts),
        ["f"] * len(texts),
        args=["[[1, 2]]"] * len(texts),
    )


def test_true_steps_are_paid_and_refuted_ones_cost():
    half = WHOLE.replace("becomes 2", "becomes 7")
    chat = [[{"role": "assistant", "content": f"<think>`t` becomes 9.</think>{WHOLE}\n\nAnswer: 2"}]]

    whole, wrong, silent, false = steps_of(WHOLE, half, "I am sure.", "`t` becomes 9.", least=1)

    assert (whole, silent, false) == (1.0, -1.0, -1.0)
    assert 0 < wrong < 0.8
    assert step_truth_reward(chat, source=[SUM], call=["f"], args=[[[1, 2]]]) == [1.0]
    assert steps_of("", half, silent=-0.5, refuted=0.0) == [-0.5, pytest.approx(5 / 6, abs=0.1)]


def test_steps_told_again_or_one_safe_step_gain_nothing():
    padded = "`t` becomes 9. " + "At first `t` is 0. `t` is 0 at the start. " * 20

    once, again, safe, long = steps_of("`t` becomes 9. `t` is 0.", padded, "`t` is 0.", "`t` becomes 9. " * 2_000)

    assert once == again == 0.0
    assert safe == pytest.approx(1 / 3)
    assert -1 <= long < 0


def test_arithmetic_that_holds_in_any_run_is_no_step():
    farmed = "Since 7 > 3 is true, we go on. 8 > 3 holds. 9 - 4 = 5. 6 * 7 = 42."
    told = "First `x` is 1, and `x > 1` is false (1 > 1)."

    alone, beside, operands, other = steps_of(
        farmed, f"`t` becomes 9. {farmed}", told, told.replace("(1 > 1)", "(9 > 10)"), least=1
    )

    assert (alone, beside) == (-1.0, -1.0)
    assert other < operands == 1.0


def test_a_run_without_a_whole_record_has_no_steps_to_pay():
    hangs = "def f(xs):\n    while True:\n        pass\n"
    rewards = Rewards(limits=gb.Limits(wall_s=0.5))

    assert rewards.steps([WHOLE], [hangs], ["f"], args=[[[1, 2]]]) == [None]
    assert PORTAL.call(rewards.score_steps([WHOLE], [SUM], ["f"], args=[[[1, 2]]])) == [1.0]


def test_a_text_that_the_prover_fails_on_is_worth_silence(monkeypatch):
    monkeypatch.setattr("groundbox.learn.rewards.step_truth.prove", lambda text, trace: 1 / 0)

    assert steps_of(WHOLE) == [-1.0]


def test_a_run_that_hangs_answers_nothing():
    rewards = Rewards(limits=gb.Limits(wall_s=0.5))
    question = {"kind": "state", "name": "x", "line": 2}

    assert rewards.facts(["Answer: 1"], ["def f():\n    x = 1\n    while x: pass"], ["f"], [question]) == [None]


def test_tests_that_do_not_run_are_no_verdict():
    ends = "import os\ndef check(candidate):\n    os._exit(0)\n"

    assert hidden_tests_reward([GOOD], [ends], ["double"]) == [None]
    assert hidden_tests_reward([GOOD], [["assert ("]], ["double"]) == [None]


def test_a_program_that_ends_its_tests_by_a_result_has_no_reward():
    ends = "import os\ndef check(candidate):\n    candidate(2) == 4 or os._exit(0)\n"

    assert hidden_tests_reward([GOOD, BAD], [ends, ends], ["double"] * 2) == [1.0, 0.0]


def test_a_sandbox_that_fails_is_tried_again_and_is_no_zero(monkeypatch):
    judged, left = judging.Judge.judge_cases, [2]

    async def fails(self, *given, **options):
        left[0] -= 1
        if left[0] >= 0:
            raise SandboxLost("it went away")
        return await judged(self, *given, **options)

    monkeypatch.setattr(judging.Judge, "judge_cases", fails)
    rewards = Rewards()

    assert rewards.cases([GOOD], [CASES], ["double"]) == [1.0]
    assert rewards.failures == 0
    left[0] = 99
    assert rewards.cases([GOOD], [CASES], ["double"]) == [None]
    assert rewards.failures == 1


def test_a_run_whose_process_is_killed_is_recorded_again(monkeypatch):
    program, left, run = f"import time\n{SUM}\ntime.sleep(0.3)\n", [1], gb.AsyncSandbox.run

    async def killed_once(box, *given, **options):
        running = asyncio.ensure_future(run(box, *given, **options))
        if left:
            left.pop()
            await asyncio.sleep(0.2)
            (await box.worker())._signal(signal.SIGKILL)
        return await running

    monkeypatch.setattr(gb.AsyncSandbox, "run", killed_once)
    question = {"kind": "state", "name": "t", "line": 7, "time": 1}

    assert fact_reward(["Answer: 5"], [program], ["f"], [question], args=[[[1, 2, 3]]]) == [1.0]
    assert not left


def test_what_cannot_run_here_at_all_is_raised(monkeypatch):
    async def refuses(self, *given, **options):
        raise SandboxUnavailable(["cgroup: not mounted"])

    monkeypatch.setattr(judging.Judge, "judge_cases", refuses)

    with pytest.raises(SandboxUnavailable):
        cases_reward([GOOD], [CASES], ["double"])


def test_the_same_work_of_a_batch_is_done_once(monkeypatch):
    judged, count = judging.Judge.judge_cases, []

    async def counts(self, program, *given, **options):
        count.append(program)
        return await judged(self, program, *given, **options)

    monkeypatch.setattr(judging.Judge, "judge_cases", counts)

    assert cases_reward([GOOD, BAD] * 8, [CASES] * 16, ["double"] * 16) == [1.0, 0.0] * 8
    assert len(count) == 2


@pytest.mark.parametrize(
    ("method", "columns", "message"),
    [
        ("cases", {"cases": [CASES], "entry_point": ["f"]}, "cases: has to be a list with one entry for each of 2"),
        ("cases", {"cases": ["{"] * 2, "entry_point": ["f"] * 2}, "cases: is no JSON"),
        ("cases", {"cases": [[]] * 2, "entry_point": ["f"] * 2}, "cases: has to be a list of"),
        ("cases", {"cases": [[{}]] * 2, "entry_point": ["f"] * 2}, "cases: has one that cannot be read"),
        ("cases", {"cases": [CASES] * 2, "entry_point": ["f()"] * 2}, "entry_point: has to be the name of a function"),
        ("tests", {"tests": [[]] * 2, "entry_point": ["f"] * 2}, "tests: has to be a program that defines check"),
        ("answers", {"check": ["{}"] * 2}, "check: has to be"),
        ("answers", {"check": [{"kind": "x", "value": ""}] * 2}, "check: is of the kind 'x'"),
        ("answers", {"check": [{"kind": "call", "value": "1"}] * 2}, "check: is of the kind call, which needs"),
        ("facts", {"source": [""] * 2, "call": ["f"] * 2, "question": [{}] * 2}, "question: has to have a kind"),
        ("steps", {"source": [""] * 2, "call": ["f"] * 2, "args": [[{1: 2}]] * 2}, "args: has one that cannot be read"),
    ],
)
def test_columns_that_cannot_be_meant_are_named(method, columns, message):
    with pytest.raises(InvalidArgument, match=message):
        getattr(Rewards(), method)(["a", "b"], **columns)


IN_A_CHILD = """
import json, multiprocessing, os, sys
from groundbox.learn.rewards.rewarding import Rewards

def in_a_child(rewards, into):
    into.put((os.getpid(), rewards.cases(replies, [cases] * 2, ["double"] * 2)))
    into.close()
    into.join_thread()

method, *replies, cases = sys.argv[1:]
if __name__ == "__main__":
    rewards = Rewards()
    before = rewards.cases(replies, [cases] * 2, ["double"] * 2)
    context = multiprocessing.get_context(method)
    into = context.Queue()
    child = context.Process(target=in_a_child, args=(rewards, into), daemon=True)
    child.start()
    pid, found = into.get(timeout=60)
    child.join(60)
    after = rewards.cases(replies, [cases] * 2, ["double"] * 2)
    print(json.dumps([before, found, after, child.exitcode, pid != os.getpid()]))
"""


# In a process of its own: this one has threads of other tests, and a fork copies the locks that they hold just then.
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes_have_sandboxes_of_their_own(method, tmp_path):
    (tmp_path / "rewarded.py").write_text(IN_A_CHILD)
    command = [sys.executable, tmp_path / "rewarded.py", method, GOOD, BAD, CASES]

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            told, _ = process.communicate(timeout=120)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    assert json.loads(told) == [[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], 0, True]


def test_rewards_can_be_pickled_closed_and_used_on():
    rewards = pickle.loads(pickle.dumps(Rewards(partial=True)))

    assert rewards.tests([GOOD], [["assert double(2) == 4"]], ["double"]) == [1.0]
    rewards.close()
    rewards.close()
    assert rewards.tests([GOOD], [["assert double(2) == 4"]], ["double"]) == [1.0]


def test_code_on_another_event_loop_can_wait_for_rewards():
    import asyncio

    async def asked():
        row = {"entry_point": "double", "cases": CASES}
        return await PORTAL.wait_for(rewarding._USUAL.score_program("def double(n): return 2 * n", row))

    assert asyncio.run(asked()) == 1.0
