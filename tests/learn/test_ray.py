"""Judging and rewards on a Ray cluster: several raylets on this machine, of which one is killed."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from judging_fakes import LIMITS, SUM, DeadlyTime, cruxeval, deadly, evaluated, graded, rewarded

from groundbox.dataset.executor import LocalExecutor
from groundbox.errors import GroundboxError, InvalidArgument
from groundbox.learn.evaluation.suites import Wanted, open_suite
from groundbox.learn.rewards.rewarding import Rewards

HERE = Path(__file__).parent
DATASET = HERE.parent / "dataset"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed (extra `ray`)"),
]
if str(DATASET) not in sys.path:
    sys.path.insert(0, str(DATASET))
from ray_clusters import OWN, insist, two_machines  # noqa: E402


@pytest.fixture(scope="module")
def cluster():
    with two_machines(HERE) as started:
        yield started


@pytest.fixture
def rewards(cluster):
    made = Rewards(limits=LIMITS, partial=True, executor=f"ray://{cluster.address}")
    yield made
    made.close()


def executor(cluster, told=None):
    from groundbox.dataset.ray_executor import RayExecutor

    return RayExecutor(cluster.address, tell=(told if told is not None else []).append)


def test_replies_are_judged_there_to_the_same_bytes_as_on_one_machine(cluster, tmp_path):
    problems, replies = cruxeval(tmp_path, 23)
    suite = open_suite(f"cruxeval-output:{problems}", Wanted())

    here = evaluated(suite, replies, tmp_path / "here", LocalExecutor(1))
    there = evaluated(suite, replies, tmp_path / "there", executor(cluster))

    assert there == here
    assert (here[0]["answered"], here[0]["unjudged"]) == (23, [])
    assert here[0]["steps"]["told"] > 20


def test_a_reply_that_ends_each_process_is_not_judged_and_costs_no_other_one(cluster, tmp_path):
    suite, replies = deadly(tmp_path, 30, poison=11)

    report, _ = evaluated(suite, replies, tmp_path / "o", executor(cluster))

    assert (report["answered"], report["right"]) == (29, 29)
    why = "worker-died: its process died, as it does when memory runs out, 3 times"
    assert report["unjudged"] == [{"id": "q11", "why": why}]


def test_samples_of_humaneval_have_the_same_verdicts_as_on_one_machine(cluster):
    programs = [f"def double(n):\n    return n * {n % 3}\n" for n in range(20)] + ["import os\nos._exit(0)"]

    assert graded(programs, executor(cluster)) == graded(programs, LocalExecutor(1, hosts=1))


def test_rewards_are_the_same_as_on_one_machine(rewards):
    local = Rewards(limits=LIMITS, partial=True)

    assert rewarded(rewards) == rewarded(local)
    assert (rewards.failures, local.failures) == (0, 0)


def test_a_completion_that_ends_each_process_is_masked_and_costs_no_other_one(rewards, tmp_path):
    questions = [{"kind": "next_line", "line": 4, "time": 1} for _ in range(9)]
    questions[4] = {"kind": "state", "name": "t", "line": 4, "time": DeadlyTime(str(tmp_path / "told"))}
    answers = [f"Answer: {3 if n % 2 else 4}" for n in range(9)]

    found = rewards.facts(
        answers, source=[SUM] * 9, call=["f"] * 9, args=[[[1, 2, 3]]] * 9, question=questions
    )  # fmt: skip

    assert found == [0.0, 1.0, 0.0, 1.0, None, 1.0, 0.0, 1.0, 0.0]
    assert rewards.failures == 1


def test_rewards_of_a_machine_that_dies_meanwhile_are_scored_by_the_others(cluster, tmp_path):
    node = insist(lambda: cluster.add_node(**OWN))
    told = []
    ray = executor(cluster, told)
    rewards = Rewards(limits=LIMITS, executor=ray)
    programs = [f"import time\ntime.sleep(0.3)\ndef double(n):\n    return n * {n % 3}" for n in range(24)]
    cases = json.dumps([{"args": [2], "expected": 4}])
    found = []

    def score():
        found.extend(rewards.cases(programs, [cases] * 24, ["double"] * 24))

    try:
        scoring = threading.Thread(target=score)
        scoring.start()
        (mine,) = [each for each in ray._machines.values() if each.id == node.node_id]
        while not mine.under_way:
            time.sleep(0.01)
        cluster.remove_node(node, allow_graceful=False)
        scoring.join()
    finally:
        from groundbox.sandbox.portal import PORTAL

        PORTAL.call(ray.close())

    assert found == [0.0, 0.0, 1.0] * 8
    assert rewards.failures == 0
    (words,) = [words for words in told if "is not used any more" in words]
    assert "rewards shard" in words


def test_a_cluster_that_cannot_be_used_is_refused_by_name_before_anything_is_scored(cluster, tmp_path, monkeypatch):
    from groundbox.dataset import ray_executor, worker

    with pytest.raises(InvalidArgument, match="--executor: no Ray cluster at 127.0.0.1:9"):
        Rewards(executor="ray://127.0.0.1:9").answers(["x"], [{"kind": "text", "value": "x"}])
    own = worker.identity()
    monkeypatch.setattr(ray_executor, "identity", lambda environment: own._replace(version="9.9"))
    with pytest.raises(ray_executor.FleetFailed, match=rf"version: 9.9 here, {own.version} there"):
        Rewards(executor=f"ray://{cluster.address}").answers(["x"], [{"kind": "text", "value": "x"}])
    monkeypatch.undo()
    nowhere = Rewards(options={"environment": "nowhere"}, executor=f"ray://{cluster.address}")
    with contextlib.closing(nowhere), pytest.raises(GroundboxError, match="nowhere"):
        nowhere.tests(["x"], [["assert f(1)"]], ["f"])


def test_the_command_judges_on_a_cluster_and_says_so_of_an_address_without_one(cluster, tmp_path):
    items = [{"question": "", "program": f"def solution():\n    return {n}", "answer": n % 2} for n in range(5)]
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(each) + "\n" for each in items))
    command = [sys.executable, "-m", "groundbox", "eval", "pal", "--json", "--samples", str(tmp_path / "s.jsonl")]

    ran = [
        subprocess.run([*command, "--executor", f"ray://{each}"], capture_output=True, text=True, check=False)
        for each in (cluster.address, "127.0.0.1:9")
    ]

    assert (ran[0].returncode, ran[0].stderr) == (0, "")
    assert json.loads(ran[0].stdout)["right"] == 2
    assert ran[1].returncode != 0
    assert "--executor: no Ray cluster at 127.0.0.1:9" in ran[1].stderr


def test_a_trainer_that_does_not_close_its_rewards_ends_without_a_word_of_it(cluster):
    program = (
        "from groundbox.learn.rewards.rewarding import Rewards\n"
        f"rewards = Rewards(executor='ray://{cluster.address}')\n"
        "print(rewards.tests(['def f(x): return x'], [['assert f(1) == 1']], ['f']))\n"
    )

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=os.environ)

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "[1.0]\n", "")
