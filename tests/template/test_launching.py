"""The launcher, without the rest of a sandbox, and what makes its copies cheap.

Each scene runs in a process of its own (launching_scenes.py), because a launcher takes up fixed descriptors.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import groundbox as gb
from groundbox.jail import NAMESPACES, enter, kernel, landlock, sealed

pytestmark = pytest.mark.skipif(kernel.MACHINE != "x86_64", reason="machine code is for x86_64")
SCENES = Path(__file__).with_name("launching_scenes.py")


def _scene(name, *arguments):
    command = [sys.executable, str(SCENES), name, *arguments]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environ)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


def test_each_process_has_its_order_and_nothing_of_another():
    told = _scene("orders")

    assert told == {"texts": ["a long one", "short"], "low": [[], []], "children of the template": True}


def test_what_fails_on_its_way_into_the_jail_says_where_and_why():
    assert _scene("fails") == {"said": "second: chdir: No such file or directory"}


def test_what_cannot_be_made_is_told_with_the_kernels_reason_and_the_launcher_stays():
    assert _scene("refused") == {"said": "[Errno 22] clone: Invalid argument", "alive": True}


def test_a_launcher_that_was_killed_is_replaced():
    assert _scene("killed") == {"text": "after", "another": True, "made": True}


def test_it_stays_as_its_template_was_whatever_that_does_since():
    assert _scene("pages") == {"seen": "before"}


def test_memory_that_is_renewed_has_the_same_content_in_one_mapping():
    for _ in range(5):  # what is lost would be lost now and then
        told = _scene("renewed")

        assert told["same"]
        assert (told["before"], told["after"]) == (2, 1)


def test_every_step_of_a_workers_way_is_recorded():
    """So that what the launcher makes goes through what a template's own copy goes through (jail/enter.py)."""
    plan = enter.Plan(backend=NAMESPACES, uid_base=1 << 20, landlock_abi=landlock.abi())
    sizes = {"disk_bytes": 1 << 20, "file_count": 100, "process_count": None}
    entry = enter.launched_entry(plan, **sizes, cpu_s=1.0, memory_bytes=1 << 20, held_bytes=0)

    layers = {name.partition(":")[0] for name in entry._assembly.steps}

    expected = {step.layer for step in enter.WORKER if NAMESPACES in step.backends} - {"network"}
    assert expected <= layers
    assert max(sealed.Slot) == sealed.Slot.LAST_OWN


def test_a_sandbox_outlives_the_launcher_it_came_from_and_others_are_made():
    async def scene():
        async with gb.AsyncSandbox(profile="bare") as box:
            await box.run("x = 1")
            ended = _end_launchers()
            said = (await box.run("print(x)")).stdout
            fresh = [await gb.run_async("print(2)", profile="bare") for _ in range(6)]
            return ended, said, [execution.stdout for execution in fresh]

    ended, said, fresh = asyncio.run(scene())

    assert ended
    assert said == "1\n"
    assert fresh == ["2\n"] * 6


def _end_launchers():
    """Kill all launchers below this process; how many there were."""
    count = 0
    waiting = [os.getpid()]
    while waiting:
        pid = waiting.pop()
        for thread in os.listdir(f"/proc/{pid}/task"):
            children = Path(f"/proc/{pid}/task/{thread}/children").read_text().split()
            waiting += map(int, children)
        if Path(f"/proc/{pid}/maps").read_text().startswith("00040000-"):
            os.kill(pid, signal.SIGKILL)
            count += 1
    return count
