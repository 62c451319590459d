"""Rewards by an executor: other processes give the same ones, in order, and what ends them is masked and named."""

import asyncio
import logging
import multiprocessing
import pickle
import subprocess
import sys

import pytest
from judging_fakes import LIMITS, SUM, DeadlySteps, DeadlyTime, rewarded

from groundbox.dataset.executor import LocalExecutor
from groundbox.errors import InvalidArgument, SandboxLost, SandboxUnavailable
from groundbox.learn.evaluation import judging
from groundbox.learn.rewards.rewarding import Rewards
from groundbox.sandbox.portal import PORTAL


@pytest.fixture
def hosts():
    """Two other processes of this machine."""
    executor = LocalExecutor(2, hosts=2)
    yield executor
    PORTAL.call(executor.close())


@pytest.fixture
def here():
    executor = LocalExecutor(2, hosts=1)
    yield executor
    PORTAL.call(executor.close())


def test_other_processes_give_the_same_rewards_in_the_same_order(hosts):
    local = Rewards(limits=LIMITS, partial=True)
    other = Rewards(limits=LIMITS, partial=True, executor=hosts)

    found, wanted = rewarded(other), rewarded(local)

    assert found == wanted
    assert wanted["tests"] == [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, None]
    assert wanted["answers"] == [1.0, 1.0, 0.0]
    assert wanted["facts"] == [1.0, 1.0, 0.0, None]
    assert [each > 0 for each in wanted["steps"]] == [True, False, False, True]
    assert (local.failures, other.failures) == (0, 0)


def test_what_ends_each_process_is_masked_and_named_and_tried_once_by_an_object(hosts, tmp_path, caplog):
    rewards = Rewards(limits=LIMITS, executor=hosts)
    told = tmp_path / "told"
    questions = [{"kind": "next_line", "line": 4, "time": 1} for _ in range(5)]
    questions[3] = {"kind": "state", "name": "t", "line": 4, "time": DeadlyTime(str(told))}
    about = {"source": [SUM] * 5, "call": ["f"] * 5, "args": [[[1, 2, 3]]] * 5, "question": questions}
    answers = [f"Answer: {n}" for n in range(5)]

    with caplog.at_level(logging.WARNING):
        found = rewards.facts(answers, **about)
    times = told.read_text()
    again = rewards.facts(answers, **about)

    assert found == again == [0.0, 0.0, 0.0, None, 0.0]
    assert rewards.failures == 2
    assert any("no reward: worker-died: its process died" in each for each in caplog.messages)
    assert told.read_text() == times != ""


@pytest.mark.parametrize("name", ["here", "hosts"])
def test_steps_that_end_each_process_which_reads_them_are_masked_and_named_and_tried_once(
    name, request, tmp_path, caplog
):
    told = tmp_path / "told"
    rewards = Rewards(
        limits=LIMITS, step_truth=DeadlySteps(least=1, told=str(told)), executor=request.getfixturevalue(name)
    )
    about = {"source": [SUM] * 2, "call": ["f"] * 2, "args": [[[1, 2]]] * 2}

    with caplog.at_level(logging.WARNING):
        found = rewards.steps(["poison", "`t` becomes 2."], **about)
    again = rewards.steps(["poison", "`t` becomes 2."], **about)

    assert found == again == [None, 1.0]
    assert rewards.failures == 2
    assert any("no reward: worker-died: its process died" in each for each in caplog.messages)
    assert told.read_text() == "xx"


def test_a_sandbox_that_fails_is_told_from_code_that_fails(here, monkeypatch):
    judged = judging.Judge.judge

    async def fails(self, tests, program):
        if "lost" in program:
            raise SandboxLost("it went away")
        return await judged(self, tests, program)

    monkeypatch.setattr(judging.Judge, "judge", fails)
    rewards = Rewards(limits=LIMITS, executor=here)
    programs = ["def double(n): return 2 * n", "def double(n): return n", "# lost\ndef double(n): return 2 * n"]

    found = rewards.tests(programs, [["assert double(1) == 2"]] * 3, ["double"] * 3)

    assert found == [1.0, 0.0, None]
    assert rewards.failures == 1


def test_what_cannot_run_there_at_all_is_raised(here, monkeypatch):
    async def refuses(self, *given, **options):
        raise SandboxUnavailable(["cgroup: not mounted"])

    monkeypatch.setattr(judging.Judge, "judge", refuses)

    with pytest.raises(SandboxUnavailable):
        Rewards(executor=here).tests(["x"], [["assert double(1) == 2"]], ["double"])


def test_a_column_that_cannot_be_meant_is_named_by_other_processes_too(hosts):
    with pytest.raises(InvalidArgument, match="check: is of the kind call, which needs"):
        Rewards(executor=hosts).answers(["a", "b"], [{"kind": "call", "value": "1"}] * 2)


def test_an_executor_by_its_name_is_ended_by_close_and_begun_again():
    others = multiprocessing.active_children()
    rewards = pickle.loads(pickle.dumps(Rewards(limits=LIMITS, executor="local")))
    about = {"source": [SUM], "call": ["f"], "args": [[[1, 2]]]}

    first = rewards.steps(["`t` becomes 9."], **about)
    rewards.close()
    left = [each for each in multiprocessing.active_children() if each not in others]
    second = asyncio.run(PORTAL.wait_for(rewards.score_steps(["`t` becomes 9."], **about)))
    rewards.close()

    assert first == second
    assert left == []


def test_rewards_with_the_callers_executor_are_not_pickled(here):
    with pytest.raises(TypeError, match="give its name, ray://HOST:PORT"):
        pickle.dumps(Rewards(executor=here))


@pytest.mark.parametrize("name", ["rays://1.2.3.4:6379", "ray://1.2.3.4", "ray://"])
def test_an_executor_that_there_is_not_is_refused_at_once(name):
    with pytest.raises(InvalidArgument, match="--executor: takes"):
        Rewards(executor=name)


def test_rewards_of_one_machine_import_nothing_of_ray():
    program = (
        "import sys\nfrom groundbox.learn.rewards.rewarding import Rewards, answer_reward\n"
        "found = answer_reward(['Answer: 1'], [{'kind': 'value', 'value': '1'}])\n"
        "print(found, [name for name in ('ray', 'groundbox.dataset.ray_executor') if name in sys.modules])"
    )

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (ran.stdout, ran.stderr) == ("[1.0] []\n", "")


def test_a_forked_process_does_not_use_the_callers_executor():
    program = (
        "import os\nfrom groundbox.dataset.executor import LocalExecutor\n"
        "from groundbox.learn.rewards.rewarding import Rewards\nfrom groundbox.errors import InvalidArgument\n"
        "rewards = Rewards(executor=LocalExecutor(1, hosts=1))\n"
        "if not os.fork():\n"
        "    try:\n        rewards.answers(['Answer: 1'], [{'kind': 'value', 'value': '1'}])\n"
        "    except InvalidArgument as error:\n        print(error, flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    words = "executor: is of the process that this one was forked from; give its name\n"
    assert (ran.returncode, ran.stdout) == (0, words)
