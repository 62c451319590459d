"""The launcher, without the rest of a sandbox, and what makes its copies cheap.

Each scene runs in a process of its own (launching_scenes.py), because a launcher takes up fixed descriptors.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import groundbox as gb
from groundbox.jail import NAMESPACES, enter, kernel, landlock

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
    assert _scene("refused") == {"said": "[Errno 22] the launcher: Invalid argument", "alive": True}


def test_a_launcher_that_was_killed_is_replaced():
    assert _scene("killed") == {"text": "after", "another": True, "made": True}


def test_it_stays_as_its_template_was_whatever_that_does_since():
    assert _scene("pages") == {"seen": "before"}


def test_memory_that_is_renewed_has_the_same_content_in_one_mapping():
    for _ in range(5):  # what is lost would be lost now and then
        told = _scene("renewed")

        assert told["same"]
        assert (told["before"], told["after"]) == (2, 1)


def test_memory_that_is_wiped_in_forks_stays_so():
    """As the C library's generator of random numbers is, where the kernel offers it: else all would draw the same."""
    assert _scene("wiped") == {"here": "secret", "in a fork": [0] * 6}


def test_a_heap_takes_no_huge_page_that_a_library_has_a_part_of():
    assert _scene("aligned", "yes") == {"whole": True}
    assert _scene("aligned", "no") == {"whole": False}


def test_data_of_libraries_lies_in_a_file_that_a_fork_need_not_copy_and_stays_each_processs_own():
    assert _scene("library") == {
        "moved": ["/memfd:groundbox-data (deleted)"],
        "same": True,
        "said": "written",
        "here": True,
    }


def test_every_step_of_a_workers_way_is_recorded():
    """So that what the launcher makes goes through what a template's own copy goes through (jail/enter.py)."""
    plan = enter.Plan(backend=NAMESPACES, uid_base=1 << 20, landlock_abi=landlock.abi())
    sizes = {"disk_bytes": 1 << 20, "file_count": 100, "process_count": None}
    entry = enter.launched_entry(plan, **sizes, cpu_s=1.0, memory_bytes=1 << 20, held_bytes=0)

    layers = {name.partition(":")[0] for name in entry._assembly.steps}

    expected = {step.layer for step in enter.WORKER if NAMESPACES in step.backends} - {"network"}
    assert expected <= layers


def test_a_way_into_the_jail_that_opens_too_much_is_refused():
    """Else numbers beyond would be taken, which are others'."""
    with kernel.recording(range(5, 7)):
        assert [kernel.open_nothing(), kernel.open_nothing()] == [5, 6]
        with pytest.raises(kernel.KernelRefused, match="openat: more than 2 descriptors"):
            kernel.open_nothing()


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


def test_a_shortage_of_descriptors_costs_what_is_asked_for_and_no_sandbox_that_lives():
    """Where the limit leaves room for some sandboxes and not for as many as are asked for at once."""
    source = """
import asyncio, groundbox as gb
async def scene():
    async with gb.AsyncSandbox(profile="bare") as box:
        await box.run("x = 1")
        more = [gb.run_async("print(2)", profile="bare") for _ in range(24)]
        await asyncio.gather(*more, return_exceptions=True)
        for _ in range(50):  # this process has no descriptors left for a moment, either
            try:
                return (await box.run("print(x)")).stdout
            except OSError:
                await asyncio.sleep(0.2)
print(repr(asyncio.run(scene())))
"""
    command = ["prlimit", "--nofile=110:110", sys.executable, "-c", source]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environ)

    assert ended.stdout == "'1\\n'\n", ended.stderr[-2000:]


def test_workers_are_made_while_a_keeper_of_copies_does_not_answer():
    """Nor do orders that wait for that one keep others away, however many they are."""

    async def scene():
        async with gb.AsyncSandbox(profile="bare", branching=True) as box:
            await box.run("x = 1")
            state = await box.checkpoint()
            stopped = _keepers()
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            try:
                going_back = asyncio.ensure_future(box.restore(state))
                more = [gb.AsyncSandbox(profile="bare", branching=True) for _ in range(12)]
                waiting = [asyncio.ensure_future(each.run("1")) for each in more]
                await asyncio.sleep(0.5)
                others = await asyncio.wait_for(
                    asyncio.gather(*(gb.run_async("print(2)", profile="bare") for _ in range(6))), 30
                )
                waits = not going_back.done()
            finally:
                for pid in stopped:
                    with contextlib.suppress(ProcessLookupError):  # going back ends the keeper of who ran
                        os.kill(pid, signal.SIGCONT)
            await asyncio.gather(going_back, *waiting)
            await asyncio.gather(*(each.close() for each in more))
            return bool(stopped), waits, {execution.stdout for execution in others}

    assert asyncio.run(scene()) == (True, True, {"2\n"})


def _keepers():
    """Those who wait in the sealed code of keepers, without the guests, who are process 1."""
    found = []
    for pid in _descendants():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/maps").read_text().startswith("00010000-"):
                status = Path(f"/proc/{pid}/status").read_text()
                if status.partition("NSpid:")[2].split("\n")[0].split()[-1] != "1":
                    found.append(pid)
    return found


def _descendants():
    waiting, found = [os.getpid()], []
    while waiting:
        pid = waiting.pop()
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                children = [int(child) for child in Path(f"/proc/{pid}/task/{thread}/children").read_text().split()]
                waiting += children
                found += children
    return found


def _end_launchers():
    """Kill all launchers below this process; how many there were."""
    launchers = []
    for pid in _descendants():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/maps").read_text().startswith("00040000-"):
                launchers.append(pid)
    for pid in launchers:
        os.kill(pid, signal.SIGKILL)
    return len(launchers)
