"""Judging by an executor: other processes give the same bytes, and what ends them costs itself alone."""

import asyncio
import subprocess
import sys

import pytest
from judging_fakes import LIMITS, Numbers, cruxeval, deadly, evaluated, graded, humaneval

from groundbox.dataset.executor import DIED, LocalExecutor, WorkerDied
from groundbox.errors import InvalidArgument
from groundbox.learn.evaluation.pal import Item, score_all
from groundbox.learn.evaluation.suites import Wanted, open_suite


class Elsewhere:
    """An executor that is not this process, as far as anybody can see; it takes nothing."""

    capacity, workers = 1, 1

    async def close(self):
        pass


@pytest.mark.parametrize("name", ["cruxeval-output", "cruxeval-input", "humaneval"])
def test_other_processes_judge_to_the_same_bytes(name, tmp_path):
    problems, replies = humaneval(tmp_path) if name == "humaneval" else cruxeval(tmp_path, 11, name)
    suite = open_suite(f"{name}:{problems}", Wanted())

    here = evaluated(suite, replies, tmp_path / "here", LocalExecutor(2, hosts=1))
    there = evaluated(suite, replies, tmp_path / "there", LocalExecutor(2, hosts=2))

    assert there == here
    assert here[0]["right"]
    assert not here[0]["unjudged"]
    assert bool(here[0]["steps"]) is (name == "cruxeval-output")


def test_a_reply_that_ends_each_process_is_not_judged_and_costs_no_other_one(tmp_path):
    suite, replies = deadly(tmp_path, 40, poison=21)

    report, _ = evaluated(suite, replies, tmp_path / "o", LocalExecutor(2, hosts=2))

    assert (report["answered"], report["right"]) == (39, 39)
    why = "worker-died: its process died, as it does when memory runs out"
    assert report["unjudged"] == [{"id": "q21", "why": why}]


def test_replies_whose_proofs_end_their_processes_are_counted_by_one_reason(tmp_path):
    class Dying(LocalExecutor):
        async def compute(self, work, shard):
            raise WorkerDied(shard, DIED)

    problems, replies = cruxeval(tmp_path, 6)

    report, _ = evaluated(open_suite(f"cruxeval-output:{problems}", Wanted()), replies, tmp_path / "o", Dying(1))

    assert report["steps"]["missing"][f"worker-died: {DIED}"] == 4


def test_a_suite_that_is_judged_by_this_process_alone_is_refused_before_anything_is_asked(tmp_path):
    replies = tmp_path / "r.jsonl"
    replies.write_text('{"id": "q0", "reply": "Answer: 0"}\n')

    with pytest.raises(InvalidArgument, match="--executor: has to be local for the suite numbers"):
        evaluated(Numbers(1), replies, tmp_path / "o", Elsewhere())


def test_it_is_judged_here_however_many_processes_others_are_judged_by(tmp_path):
    replies = tmp_path / "r.jsonl"
    replies.write_text('{"id": "q0", "reply": "Answer: 0"}\n')

    report, _ = evaluated(Numbers(1), replies, tmp_path / "o", LocalExecutor(2, hosts=2))

    assert report["right"] == 1


def test_samples_of_humaneval_have_the_same_verdicts_in_the_same_order():
    programs = [f"def double(n):\n    return n * {n % 3}\n" for n in range(12)] + [
        "def double(n",
        "import os\nos._exit(0)",
    ]

    here = graded(programs, LocalExecutor(2, hosts=1))
    there = graded(programs, LocalExecutor(2, hosts=2))

    assert there == here
    assert [each.reason for each in here] == [*["failed", "failed", "passed"] * 4, "error", "ended"]


def test_recorded_programs_have_the_same_scores_in_the_same_order():
    items = [Item(question="", program=f"def solution():\n    return {n}", answer=n % 2) for n in range(9)]

    async def scored(executor):
        try:
            return await score_all(items, limits=LIMITS, options={}, tolerance=0.001, executor=executor)
        finally:
            await executor.close()

    here, there = (asyncio.run(scored(LocalExecutor(2, hosts=hosts))) for hosts in (1, 2))

    assert there == here
    assert [each.value for each in here] == list(range(9))


def test_an_address_that_is_none_is_bad_usage(tmp_path):
    command = [sys.executable, "-m", "groundbox", "eval", "pal", "--samples", str(tmp_path / "x")]

    ran = subprocess.run([*command, "--executor", "ray://here"], capture_output=True, text=True, check=False)

    assert ran.returncode == 2
    assert "Error: --executor takes ray://HOST:PORT, and 'ray://here' has no port" in ran.stderr
