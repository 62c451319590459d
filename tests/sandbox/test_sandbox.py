"""The sandbox's face: arguments that cannot be meant, what is said of them, and what stays usable."""

import asyncio
import contextlib
import gc
import math
import os
import subprocess
import sys
import threading

import pytest

import groundbox as gb
from groundbox import InvalidArgument, Limits, Network, Outcome, Sandbox
from groundbox.errors import EnvironmentFailed, GuestFileError, SandboxLost
from groundbox.jail import NAMESPACES, cgroup, enter
from groundbox.sandbox.engine import _WAIVABLE
from groundbox.sandbox.worker import Worker
from groundbox.testing.base import until

LAYERS = ", ".join(sorted(_WAIVABLE))

LIMITS = [
    ({"wall_s": 0}, "wall_s: must be above 0, not 0; write None for no limit"),
    ({"wall_s": -1}, "wall_s: must be above 0, not -1; write None for no limit"),
    ({"wall_s": math.nan}, "wall_s: must be finite, not nan; write None for no limit"),
    ({"cpu_s": math.inf}, "cpu_s: must be finite, not inf; write None for no limit"),
    ({"wall_s": "10"}, "wall_s: must be a number of seconds or None, not '10'"),
    ({"wall_s": True}, "wall_s: must be a number of seconds or None, not True"),
    ({"memory_bytes": 0}, "memory_bytes: must be above 0, not 0; write None for no limit"),
    ({"memory_bytes": 1024}, f"memory_bytes: must be at least {16 * gb.MiB}, not 1024"),
    ({"memory_bytes": 1e9}, "memory_bytes: must be a whole number or None, not 1000000000.0"),
    ({"process_count": 0}, "process_count: must be above 0, not 0; write None for no limit"),
    ({"disk_bytes": 1}, f"disk_bytes: must be at least {64 * 1024}, not 1"),
    ({"file_count": 1}, "file_count: must be at least 16, not 1"),
    ({"output_bytes": 1}, "output_bytes: must be at least 16, not 1"),
    ({"output_bytes": 2**60}, f"output_bytes: {2**60} is too large; write None for no limit"),
]


@pytest.mark.parametrize(("limits", "message"), LIMITS)
def test_a_limit_that_cannot_be_meant_is_told(limits, message):
    with pytest.raises(InvalidArgument) as refused:
        Limits(**limits)

    assert str(refused.value) == message
    assert isinstance(refused.value, ValueError)


def test_no_default_is_unlimited():
    assert None not in {getattr(Limits(), name) for name in Limits.__dataclass_fields__}


OPTIONS = [
    ({"backend": "docker"}, "backend: 'docker' is none of namespaces, landlock, gvisor, bare"),
    ({"profile": "large"}, "profile: 'large' is none of bare, science, node"),
    ({"waive": {"walls"}}, "waive: walls is not a layer that can be waived; choose among " + LAYERS),
    (
        {"backend": "bare", "network": Network(loopback=True)},
        "network: the backend bare cannot give any; use namespaces",
    ),
]


@pytest.mark.parametrize(("options", "message"), OPTIONS)
def test_an_option_that_cannot_be_meant_is_told_at_once(options, message):
    with pytest.raises(InvalidArgument) as refused:
        Sandbox(**options)

    assert str(refused.value) == message


def test_an_environment_that_is_not_there_is_told():
    with Sandbox(environment="nowhere") as box, pytest.raises(EnvironmentFailed):
        box.run("1")


RUNS = [
    ({"source": ""}, "source: is empty; give a program to run"),
    ({"source": " \n"}, "source: is empty; give a program to run"),
    ({"source": b"1"}, "source: must be text, not bytes"),
    ({"source": "'\ud800'"}, "source: cannot be encoded as UTF-8; decode the file as it was written"),
    ({"source": "1", "language": "cobol"}, None),
    ({"source": "1", "mode": "notebook"}, "mode: 'notebook' is none of 'cell', 'script', 'call' and 'calls'"),
    ({"source": "1", "argv": ["a"]}, "argv: belongs to a script; add mode='script'"),
    ({"source": "1", "stdin": "a"}, "stdin: belongs to a script; add mode='script'"),
    ({"source": "1", "mode": "script", "argv": "abc"}, "argv: must be a list of texts without NUL"),
    ({"source": "1", "mode": "script", "argv": ["a\0"]}, "argv: must be a list of texts without NUL"),
    ({"source": "1", "wall_s": 0}, "wall_s: must be above 0, not 0; write None for no limit"),
    (
        {"source": "#" * (8 * 1024 * 1024 + 1)},
        f"source: has {8 * 1024 * 1024 + 1} bytes, more than {8 * 1024 * 1024}; put data into files instead",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), RUNS)
def test_a_run_that_cannot_be_meant_is_told_and_costs_nothing(arguments, message):
    with Sandbox(profile="bare") as box:
        box.run("kept = 1")

        with pytest.raises(InvalidArgument) as refused:
            box.run(**arguments)

        assert message is None or str(refused.value) == message
        assert box.run("kept").text == "1"


def test_a_source_at_the_largest_size_runs():
    with Sandbox(profile="bare") as box:
        assert box.run("x = 1 #" + "y" * (8 * 1024 * 1024 - 7)).outcome is Outcome.OK


def test_a_run_may_shorten_the_deadline_and_not_lengthen_it():
    with Sandbox(profile="bare", limits=Limits(wall_s=0.3)) as box:
        assert box.run("while True: pass", wall_s=600).outcome is Outcome.TIMEOUT


def test_one_program_one_sandbox():
    execution = gb.run("print(6 * 7)")

    assert (execution.stdout, execution.outcome, execution.state) == ("42\n", Outcome.OK, "ended")


def test_one_program_with_files():
    execution = gb.run(
        "print(open('d/in.txt').read()); open('out.txt', 'w').write('made')", files={"d/in.txt": "given"}
    )

    assert execution.stdout == "given\n"
    assert {path: a.read() for path, a in execution.artifacts.items()} == {"out.txt": b"made"}


def test_many_threads_may_use_one_sandbox():
    with Sandbox(profile="bare") as box:
        box.run("total = 0")
        threads = [threading.Thread(target=box.run, args=("total += 1",)) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert box.run("total").text == "20"


def test_who_asks_while_the_first_run_begins_gets_its_process():
    async def ask():
        async with gb.AsyncSandbox(profile="bare") as box:
            _, files, worker = await asyncio.gather(
                box.run("open('here', 'w').close(); x = 1"), box.files.list(), box.worker()
            )
            return files, worker is await box.worker(), (await box.run("print(x)")).stdout, await box.files.list()

    files, same, said, later = asyncio.run(ask())

    assert files in ({}, {"here": 0})
    assert (same, said, later) == (True, "1\n", {"here": 0})


def test_closing_twice_and_closing_unused_are_nothing():
    box = Sandbox(profile="bare")
    box.close()
    box.close()


def test_closing_during_a_run_ends_it():
    with Sandbox(profile="bare") as box:
        events = box.stream("print(1, flush=True)\nwhile True: pass")
        next(events)
        box.close()
        last = list(events)[-1].execution

    assert last is not None
    assert last.outcome is not Outcome.OK


def test_a_large_artifact_can_be_read_after_the_sandbox_is_closed():
    with Sandbox(profile="bare") as box:
        execution = box.run("open('large', 'wb').write(b'x' * (3 << 20))")

    assert execution.artifacts["large"].read() == b"x" * (3 << 20)


def test_a_large_artifact_that_a_later_run_changed_is_told(monkeypatch):
    monkeypatch.setattr("groundbox.sandbox.workdir._HELD_BYTES", 1 << 20)
    with Sandbox(profile="bare") as box:
        first = box.run("open('large', 'wb').write(b'x' * (3 << 20))")
        box.run("open('large', 'wb').write(b'y' * (3 << 20))")

        with pytest.raises(GuestFileError) as changed:
            first.artifacts["large"].read()

    assert str(changed.value) == "large: it has changed since the run that made it"


def test_results_let_go_of_their_workdir():
    with Sandbox(profile="bare") as box:
        box.run("1")
    before = _descriptors()
    for _ in range(5):
        gb.run("open('large', 'wb').write(b'x' * (3 << 20))", profile="bare")

    gc.collect()

    assert _descriptors() <= before + 12  # the pool may have grown by two workers of four each


def _descriptors():
    return len(os.listdir("/proc/self/fd"))


def test_a_waived_layer_is_named_in_every_result():
    with Sandbox(profile="bare", waive={"keyring", "uts_ns"}) as box:
        isolation = box.run("1").isolation

    assert isolation.missing == ("keyring", "uts_ns")
    assert not {"keyring", "uts_ns"} & set(isolation.layers)


def test_control_groups_that_the_host_does_not_have_are_named_as_missing(monkeypatch):
    def find():
        raise cgroup.CgroupMissing("none here")

    async def scenario():
        async with gb.AsyncSandbox(profile="bare", backend="bare") as box:
            return (await box.run("1")).isolation

    monkeypatch.setattr(cgroup, "find", find)
    isolation = asyncio.run(scenario())

    assert "cgroup" not in isolation.layers
    assert isolation.missing == ("cgroup",)


def test_an_ordinary_users_result_claims_no_host_id_of_its_own():
    plan = enter.Plan(backend=NAMESPACES, uid_base=None)

    assert "uid" not in enter.standing_layers(plan)


def test_every_guest_has_a_name():
    program = "import grp, os, pwd\nprint(pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(os.getgid()).gr_name)"
    with Sandbox(profile="bare") as first, Sandbox(profile="bare") as second:
        assert [box.run(program).stdout for box in (first, second)] == ["guest guest\n"] * 2


@pytest.mark.parametrize("name", sorted(enter.STRUCTURAL))
def test_what_is_no_layer_cannot_be_waived(name):
    with pytest.raises(InvalidArgument):
        Sandbox(waive={name})


def test_many_event_loops_one_after_another():
    async def once():
        async with gb.AsyncSandbox(profile="bare") as box:
            return (await box.run("6 * 7")).text

    assert [asyncio.run(once()) for _ in range(3)] == ["42"] * 3


def test_an_interpreter_that_ends_without_closing_ends_quietly():
    program = "import groundbox as gb\nbox = gb.Sandbox(profile='bare')\nprint(box.run('6 * 7').text)"

    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=_with_source(), timeout=60
    )

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "42\n", "")


def test_a_forked_child_of_the_host_has_an_engine_of_its_own():
    program = (
        "import groundbox as gb, os\nprint(gb.run('1 + 1', profile='bare').text, flush=True)\n"
        "child = os.fork()\nprint(gb.run('2 + 2', profile='bare').text, flush=True)\n"
        "if child: os.waitpid(child, 0)"
    )

    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=_with_source(), timeout=60
    )

    assert sorted(ran.stdout.split()) == ["2", "4", "4"], ran.stderr


def _with_source():
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def test_a_stream_left_open_does_not_hold_up_the_end_of_the_interpreter():
    program = (
        "import groundbox as gb\nbox = gb.Sandbox(profile='bare')\n"
        "events = box.stream('print(1, flush=True)\\nwhile True: pass')\nnext(events)"
    )

    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=_with_source(), timeout=60
    )

    assert (ran.returncode, ran.stdout) == (0, "")


def test_an_interrupt_between_runs_is_ignored_whatever_takes_the_place_of_functions_for_threads():
    """As gevent puts its own there. Process 1 would end of it otherwise."""
    with Sandbox(profile="bare") as box:
        box.run(
            "import subprocess, threading\n"
            "threading.get_ident = lambda: 1\n"
            "subprocess.Popen(['sh', '-c', 'sleep 0.3; kill -INT 1; touch told'])"
        )

        assert until(lambda: "told" in box.files.list())
        assert box.run("print('alive')").stdout == "alive\n"


@pytest.mark.parametrize(("ending", "status"), [("pass", 0), ("sys.exit(3)", 3), ("1 / 0", 1)])
def test_a_child_that_a_cell_forks_ends_where_its_cell_does(ending, status):
    """It has the worker's socket, and answered for its parent once."""
    fork = f"""import os, sys
pid = os.fork()
if pid == 0:
    print("child", flush=True)
    {ending}
else:
    print("parent", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"""
    with Sandbox(profile="bare") as box:
        assert box.run(fork).stdout == f"child\nparent {status}\n"
        assert [box.run("pid > 0").text for _ in range(3)] == ["True"] * 3


def test_a_child_that_a_cell_forks_shows_no_figures_of_its_parent():
    with Sandbox() as box:
        ran = box.run(
            "import os\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\npid = os.fork()\n"
            "if pid:\n    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"
        )

        assert (ran.stdout, len(ran.displays)) == ("0\n", 1)


def test_an_order_that_was_cancelled_is_named_by_the_next_run(monkeypatch):
    """It ends the process, which was told as a program that SIGKILL had ended."""
    run = Worker.run

    async def scenario(**options):
        begun = asyncio.Event()

        async def told(worker, order):
            begun.set()  # whoever waits for it goes on before an answer is read
            return await run(worker, order)

        async with gb.AsyncSandbox(profile="bare", **options) as box:
            await box.run("a = 1")
            monkeypatch.setattr(Worker, "run", told)
            writing = asyncio.ensure_future(box.files.write("d.csv", b"1,2\n" * 5_000_000))
            await begun.wait()
            writing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await writing
            return await box.run("6 * 7")

    with pytest.raises(SandboxLost, match="cancelled"):
        asyncio.run(scenario())
    ran = asyncio.run(scenario(restart="auto"))
    assert ran.text == "42"
    assert "cancelled" in ran.warnings[0].message


def test_a_name_that_the_guest_cannot_be_told_is_refused():
    with Sandbox(profile="bare") as box:
        for act in (box.files.mkdir, box.files.remove, lambda path: box.files.write(path, b"x")):
            with pytest.raises(InvalidArgument, match="no UTF-8"):
                act("\udcff.txt")
        box.run("import os; open(b'\\xff.txt', 'w').write('made by the guest')")

        assert box.files.read("\udcff.txt") == b"made by the guest"


def test_a_pipe_that_the_guest_sets_to_packets_is_read_to_its_end():
    """Each read gives one packet then (O_DIRECT of pipe(2)), and the setting stays for later runs."""
    with Sandbox(profile="bare") as box:
        box.run("import fcntl, os; fcntl.fcntl(1, fcntl.F_SETFL, fcntl.fcntl(1, fcntl.F_GETFL) | os.O_DIRECT)")

        for number in range(3):
            ran = box.run(f"for n in range(15): os.write(1, b'{number}.%d\\n' % n)")
            assert ran.stdout == "".join(f"{number}.{n}\n" for n in range(15))


def test_a_run_that_is_stopped_in_time_keeps_its_output_and_names_the_line():
    execution = gb.run("print('begun')\nwhile True:\n    n = 1\n", limits=gb.Limits(wall_s=0.5))

    assert (execution.outcome, execution.stdout, execution.state) == (gb.Outcome.TIMEOUT, "begun\n", "ended")
    assert execution.error.line in (2, 3)


def test_the_last_run_of_a_stream_reads_files_when_all_processes_have_ended():
    source = "import subprocess\nopen('kept', 'w').write('x')\nsubprocess.Popen(['sleep', '60'])\n"

    async def streamed():
        async with gb.AsyncSandbox(profile="bare") as box:
            events = [event async for event in box.stream(source, last=True)]
            return events[-1].execution, box._loan.worker.ended

    execution, ended = asyncio.run(streamed())

    assert list(execution.artifacts) == ["kept"]
    assert ended is not None


def test_a_cell_after_others_opens_no_file_of_its_control_group(monkeypatch):
    opened = []
    real = os.open

    def counting(path, *arguments, **named):
        opened.append(os.path.dirname(str(path)))
        return real(path, *arguments, **named)

    async def third_run():
        async with gb.AsyncSandbox() as box:
            await box.run("1")
            await box.run("2")
            group = (await box.worker()).cgroup
            monkeypatch.setattr(os, "open", counting)
            await box.run("3")
            monkeypatch.setattr(os, "open", real)
        return set() if group is None else set(group._folders.values())

    monkeypatch.setattr("groundbox.jail.openfiles._MOST_KEEPERS", 1000)  # whatever other tests have left open
    folders = asyncio.run(third_run())  # of this sandbox alone; the pool makes and ends others meanwhile

    if not folders:
        pytest.skip("there are no control groups here")
    assert not folders & set(opened)
