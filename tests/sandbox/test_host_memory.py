"""Memory that runs out around a sandbox is a failure of the machine; a limit of the sandbox is an outcome."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time

import pytest

import groundbox as gb
from groundbox.errors import HostExhausted, SandboxLost
from groundbox.jail import cgroup
from groundbox.remote import refusals as remote_refusals
from groundbox.server.refusals import refusal_of

MiB = 1 << 20
TAKE = "import time; data = b'x' * ({} << 20); print('ok', flush=True); time.sleep({})"
RUNS = """
import asyncio, json, sys
import groundbox as gb
from groundbox.errors import HostExhausted

async def run(source, memory_mib, **options):
    limits = gb.Limits(wall_s=60, cpu_s=60, memory_bytes=memory_mib * gb.MiB)
    try:
        execution = await gb.run_async(source, limits=limits, engine="own", **options)
    except HostExhausted as error:
        return str(error)
    return execution.outcome.value

async def main():
    child = "import subprocess; print(subprocess.run(['python3', '-c', {!r}]).returncode)"
    take = "data = b'x' * (200 << 20)"
    answers = {
        "around": await run(take, 1000),
        "a script": await run(take, 1000, mode="script"),
        "a child": await run(child.format(take), 1000),
        "own": await run(take, 60),
        "own, a script": await run(take, 60, mode="script"),
        "own, a child": await run(child.format(take), 60),
        "neither": await run("print(1)", 1000),
    }
    async with gb.AsyncSandbox(limits=gb.Limits(memory_bytes=1000 * gb.MiB), restart="auto") as box:
        await box.files.write("kept", "42")
        try:
            await box.run(take)
        except HostExhausted as error:
            answers["kept"] = [error.program_ran, error.sandbox_usable]
        execution = await box.run("open('kept').read()")
        answers["after"] = [execution.text, [each.code for each in execution.warnings]]
    print(json.dumps(answers))

asyncio.run(main())
"""


@pytest.fixture
def around(crowd):
    with crowd(120 * MiB) as made:
        yield made


def start_in(group, program):
    """Start a program in a group."""
    descriptors = group.join_descriptors()

    def join():
        for descriptor in descriptors:
            os.write(descriptor, b"0")

    process = subprocess.Popen([sys.executable, "-S", "-c", program], preexec_fn=join, stdout=subprocess.PIPE)
    for descriptor in descriptors:
        os.close(descriptor)
    return process


def test_a_group_tells_its_own_limit_from_memory_that_ran_out_around_it(around):
    victim, other = cgroup.Cgroup(around.hierarchy, "victim"), cgroup.Cgroup(around.hierarchy, "other")
    for group in (victim, other):
        group.limit(memory_bytes=100 * MiB, process_count=10)
    with start_in(victim, TAKE.format(80, 60)) as first:
        first.stdout.readline()
        with start_in(other, TAKE.format(70, 0)) as second:
            second.stdout.readline()
    killed = victim if first.returncode == -signal.SIGKILL else other

    assert killed.out_of_memory_kills() > 0
    assert killed.memory_limit_hits() == 0

    again = killed.renewed() or killed
    with start_in(again, TAKE.format(110, 0)) as third:
        pass
    assert third.returncode == -signal.SIGKILL
    assert again.memory_limit_hits() > 0
    after = again.renewed() or cgroup.Cgroup(around.hierarchy, "after")
    assert after.memory_limit_hits() == 0


def test_a_group_that_reads_more_than_its_limit_is_known_to_have_been_at_it(around):
    """The kernel drops what was read before, again and again, and kills nobody."""
    folder = os.path.dirname(sys.executable)
    largest = max((entry.path for entry in os.scandir(folder) if entry.is_file()), key=os.path.getsize)
    assert os.path.getsize(largest) > 24 * MiB
    with open(largest, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # else the pages are somebody else's
    group = cgroup.Cgroup(around.hierarchy, "reads")
    group.limit(memory_bytes=16 * MiB, process_count=10)

    reads = f"file = open({largest!r}, 'rb')\nwhile file.read(1 << 20): pass"
    with start_in(group, reads) as process:
        assert process.wait() == 0

    assert group.out_of_memory_kills() == 0
    assert group.memory_limit_reached() > 0


def test_a_kill_for_memory_around_a_sandbox_raises_and_one_at_its_own_limit_is_an_outcome(around):
    environ = {**os.environ, **around.environ}
    told = subprocess.run([sys.executable, "-c", RUNS], env=environ, capture_output=True, text=True, timeout=120)
    assert told.returncode == 0, told.stderr
    answers = json.loads(told.stdout)

    for name in ("around", "a script", "a child"):
        assert "memory around it ran out" in answers[name], (name, answers[name])
    assert (answers["own"], answers["own, a script"], answers["own, a child"]) == ("memory", "memory", "ok")
    assert answers["neither"] == "ok"
    assert answers["kept"] == [True, False]
    assert answers["after"] == ["'42'", ["session.restarted"]]


def test_the_failure_of_the_machine_is_503_and_the_same_exception_for_a_client():
    error = HostExhausted("memory around it ran out")

    refused = refusal_of(error)
    read = remote_refusals.refusal_of(refused.status, refused.to_dict()["error"])

    assert (refused.status, refused.code, refused.headers) == (503, "machine_failed", {"Retry-After": "1"})
    assert type(read) is HostExhausted
    assert isinstance(read, SandboxLost)
    assert str(read) == str(error)
    assert read.program_ran


LOOPS = "while True: pass"


@pytest.mark.parametrize(
    ("stalled_share", "hits_a_call", "expected"),
    [(0.9, 0, "machine"), (0.1, 0, "timeout"), (0.9, 1, "timeout"), (None, 0, "timeout")],
)
@pytest.mark.parametrize("last", [True, False])
def test_a_time_limit_is_no_result_where_processes_waited_for_memory(
    monkeypatch, stalled_share, hits_a_call, expected, last
):
    """Half of the time is enough, unless the sandbox was at its own limit of memory, or the kernel does not count."""
    hits = iter(range(0, 1000, hits_a_call) if hits_a_call else [0] * 1000)
    stall_s = None if stalled_share is None else (lambda: stalled_share * time.monotonic())
    monkeypatch.setattr(cgroup.Cgroup, "memory_stall_s", lambda self: stall_s and stall_s())
    monkeypatch.setattr(cgroup.Cgroup, "memory_limit_reached", lambda self: next(hits))

    async def run():
        async with gb.AsyncSandbox(limits=gb.Limits(wall_s=0.5)) as box:
            try:
                execution = await (box.run_last if last else box.run)(LOOPS)
            except HostExhausted as error:
                return "machine" if "processes waited for memory for" in str(error) else str(error)
            return execution.outcome.value

    assert asyncio.run(run()) == expected


def test_the_kernel_counts_how_long_processes_wait_for_memory(tmp_path):
    (tmp_path / "memory").write_text(
        "some avg10=0.00 avg60=0.00 avg300=0.23 total=565119054\nfull avg10=0.00 total=2\n"
    )

    assert cgroup.memory_stall_s(str(tmp_path / "memory")) == 565.119054
    assert cgroup.memory_stall_s(str(tmp_path / "nothing")) is None
