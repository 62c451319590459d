"""Processes that live beside runs: their streams, their terminal, signals, their end, and what bounds them."""

import asyncio
import contextlib
import errno
import functools
import os
import signal
import threading
import time

import pytest

from groundbox import AsyncSandbox, InvalidArgument, Limits, Outcome, Sandbox, SandboxClosed, SandboxLost
from groundbox.errors import GuestProcessError
from groundbox.sandbox.process import MOST_PROCESSES, Exit, _told
from groundbox.testing.base import until


@pytest.fixture
def box():
    with Sandbox(profile="bare") as made:
        yield made


def on_a_loop(test):
    @functools.wraps(test)
    def run():
        asyncio.run(test())

    return run


def everything(process):
    """What it writes until its end, by stream."""
    found = {}
    for stream, data in process.output():
        found[stream] = found.get(stream, b"") + data
    return found


def read_until(process, word):
    seen = b""
    while word not in seen:
        chunk = process.read()
        assert chunk is not None, seen
        seen += chunk.data
    return seen


def test_a_process_reads_what_it_is_given_and_tells_how_it_ended(box):
    process = box.start("cat; echo done >&2; exit 3")

    process.write("given\n")
    process.close_stdin()

    assert everything(process) == {"stdout": b"given\n", "stderr": b"done\n"}
    assert process.wait() == process.exit == Exit(3, None)


def test_output_comes_at_once_while_a_cell_runs(box):
    process = box.start("echo one; read x; echo two; read x; echo three")
    read_until(process, b"one")
    cell = threading.Thread(target=box.run, args=("import time; time.sleep(3)",))
    cell.start()

    begun = time.monotonic()
    for word in (b"two", b"three"):
        process.write("\n")
        read_until(process, word)
    ended = process.wait(timeout_s=2)
    took_s = time.monotonic() - begun
    cell.join()

    assert ended == Exit(0, None)
    assert took_s < 2


def test_signals_and_the_end_are_heard_while_a_cell_blocks_process_one(box):
    process = box.start(["sleep", "600"])
    cell = threading.Thread(target=box.run, args=("import time; time.sleep(3)",))
    cell.start()
    time.sleep(0.3)

    process.signal(signal.SIGTERM)
    ended = process.wait(timeout_s=2)
    is_running = cell.is_alive()
    cell.join()

    assert (ended, is_running) == (Exit(None, signal.SIGTERM), True)


def test_a_program_and_its_arguments_are_not_taken_apart(box):
    process = box.start(["printf", "%s|", "a b", "$HOME", ""])

    assert everything(process) == {"stdout": b"a b|$HOME||"}


def test_a_text_without_a_shell_names_a_program(box):
    assert everything(box.start("pwd", shell=False)) == {"stdout": b"/box/work\n"}
    with pytest.raises(GuestProcessError) as caught:
        box.start("pwd -P", shell=False)
    assert caught.value.errno == errno.ENOENT


def test_it_runs_in_its_folder_with_its_variables(box):
    box.run("import os; os.environ['KEPT'] = 'kept'")

    process = box.start("echo $PWD $KEPT $OWN", cwd="/usr", env={"OWN": "own"})

    assert everything(process) == {"stdout": b"/usr kept own\n"}


def test_without_standard_input_it_is_empty(box):
    process = box.start("cat; echo end", stdin=False)

    with pytest.raises(InvalidArgument, match="stdin=False"):
        process.write("x")

    assert everything(process) == {"stdout": b"end\n"}


def test_its_streams_can_be_opened_by_their_names(box):
    process = box.start("echo out > /dev/stdout; echo err > /dev/stderr; cat /dev/stdin")
    process.write("in\n")
    process.close_stdin()

    assert everything(process) == {"stdout": b"out\nin\n", "stderr": b"err\n"}


def test_a_process_has_three_descriptors_and_usual_signals(box):
    box.run("import os, signal; leaked = os.dup(1); os.set_inheritable(leaked, True)")
    box.run("signal.signal(signal.SIGHUP, signal.SIG_IGN); signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))")

    process = box.start(["sh", "-c", "ls /proc/self/fd; grep -E 'Sig(Ign|Blk)' /proc/self/status"])

    *descriptors, _, blocked, _, ignored = everything(process)["stdout"].split()
    # The fourth is the folder that ls lists. glibc lets programs that it spawns ignore its own two signals, 32 and 33.
    assert descriptors == [b"0", b"1", b"2", b"3"]
    assert (int(blocked, 16), int(ignored, 16) & ~0x1_8000_0000) == (0, 0)


def test_it_lives_on_when_a_script_ends_and_so_does_all_that_descends_from_it(box):
    process = box.start("setsid sh -c 'sleep 600 & exec sleep 601' & read x; echo heard")
    box.run("sleep 602 & disown", language="shell", keep_processes=True)

    execution = box.run("print('script')", mode="script")
    listed = box.run("cat /proc/*/cmdline | tr '\\0' ' '", language="shell").stdout

    assert execution.stdout == "script\n"
    assert [number in listed for number in ("sleep 600", "sleep 601", "sleep 602")] == [True, True, False]
    process.write("\n")
    assert everything(process) == {"stdout": b"heard\n"}


def test_what_it_leaves_at_its_end_is_ended_with_the_next_script(box):
    process = box.start("sleep 600 >&- 2>&- & exit 0")
    process.wait()

    before = box.run("cat /proc/*/cmdline | tr '\\0' ' '", language="shell").stdout
    after = box.run("cat /proc/*/cmdline | tr '\\0' ' '", language="shell").stdout

    assert ("sleep 600" in before, "sleep 600" in after) == (True, False)


def test_its_end_is_told_though_another_holds_its_output(box):
    process = box.start("echo last; sleep 600 &")

    assert everything(process) == {"stdout": b"last\n"}
    assert process.wait(timeout_s=0.1) == Exit(0, None)


def test_a_kill_ends_all_that_descends_from_it(box):
    process = box.start("(setsid sh -c 'sleep 600 & sleep 600' &) ; echo started; sleep 600")
    read_until(process, b"started")

    process.kill()

    assert process.wait(timeout_s=10) == Exit(None, signal.SIGKILL)
    listed = box.run("import glob; [open(p).read() for p in glob.glob('/proc/[0-9]*/cmdline')]").text
    assert "sleep" not in listed


def test_processes_are_listed_by_pid_as_long_as_they_live(box):
    first, second = box.start(["sleep", "600"], tag="first"), box.start("read x")

    assert {pid: each.tag for pid, each in box.processes.items()} == {first.pid: "first", second.pid: None}
    assert box.run(f"open('/proc/{first.pid}/cmdline').read()").text == repr("sleep\x00600\x00")

    second.close_stdin()
    second.wait()

    assert list(box.processes) == [first.pid]


@pytest.mark.parametrize("how", ["restart", "close"])
def test_it_ends_with_the_process_of_its_sandbox(box, how):
    process = box.start("echo written; read x")
    read_until(process, b"written")

    getattr(box, how)()

    assert process.wait(timeout_s=1) == Exit(None, signal.SIGKILL)
    assert everything(process) == {}
    assert box.processes == {}


def test_it_ends_when_a_cell_ends_the_sandbox(box):
    process = box.start(["sleep", "600"])

    box.run("import os; os._exit(1)")

    assert process.wait(timeout_s=5) == Exit(None, signal.SIGKILL)
    with pytest.raises(SandboxLost):
        box.start("true")
    box.restart()
    assert box.start("exit 4").wait() == Exit(4, None)


def test_nothing_is_started_in_a_closed_sandbox(box):
    box.close()

    with pytest.raises(SandboxClosed):
        box.start("true")


@pytest.mark.parametrize(
    ("command", "options", "number", "words"),
    [
        (["no-such-program"], {}, errno.ENOENT, "no-such-program: No such file or directory"),
        (["/etc/passwd"], {}, errno.EACCES, "/etc/passwd: Permission denied"),
        ("true", {"cwd": "/nowhere"}, errno.ENOENT, "true: cwd '/nowhere': No such file or directory"),
        ("true", {"env": {"X": "x" * 200_000}}, errno.E2BIG, "true: Argument list too long"),
    ],
)
def test_what_cannot_be_started_is_told_in_the_kernels_words(box, command, options, number, words):
    with pytest.raises(GuestProcessError) as caught:
        box.start(command, **options)

    assert (caught.value.errno, str(caught.value)) == (number, words)
    assert box.processes == {}
    assert box.run("1 + 1").text == "2"


def test_a_process_too_many_is_refused_by_name():
    with Sandbox(profile="bare", limits=Limits(process_count=6)) as box:
        box.start(["sleep", "600"])
        box.start(["sleep", "600"])  # each has a supervisor, and process 1 counts too

        with pytest.raises(GuestProcessError, match="process_count") as caught:
            box.start(["sleep", "600"])

        assert caught.value.errno == errno.EAGAIN


def test_the_host_holds_so_many_processes_of_one_sandbox():
    with Sandbox(profile="bare", limits=Limits(process_count=None)) as box:
        processes = [box.start(["sleep", "600"]) for _ in range(MOST_PROCESSES)]

        with pytest.raises(GuestProcessError, match=f"{MOST_PROCESSES} processes") as caught:
            box.start("true")

        assert caught.value.errno == errno.EAGAIN
        processes[0].kill()
        processes[0].wait()
        assert box.start("true").wait() == Exit(0, None)


@pytest.mark.parametrize(
    ("argument", "command", "options"),
    [
        ("command", "", {}),
        ("command", [], {}),
        ("command", [""], {}),
        ("command", ["a", 1], {}),
        ("command", b"true", {}),
        ("command", "a\0b", {}),
        ("command", ["\ud800"], {}),
        ("command", ["x" * 9_000_000], {}),
        ("cwd", "true", {"cwd": ""}),
        ("env", "true", {"env": {"A=B": "c"}}),
        ("env", "true", {"env": {"A": 1}}),
        ("env", "true", {"env": ["A"]}),
        ("stdin", "true", {"stdin": "text"}),
        ("pty", "true", {"pty": True}),
        ("pty", "true", {"pty": (0, 80)}),
        ("pty", "true", {"pty": (24, 80, 1)}),
        ("tag", "true", {"tag": 1}),
        ("shell", "true", {"shell": "bash"}),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(argument, command, options):
    with Sandbox(backend="bare", profile="bare") as box, pytest.raises(InvalidArgument) as caught:
        box.start(command, **options)

    assert caught.value.argument == argument


def test_no_input_is_taken_after_the_end(box):
    process = box.start("exec <&-; echo closed; sleep 600")
    read_until(process, b"closed")

    with pytest.raises(GuestProcessError, match="reads no more"):
        process.write("x" * 100_000)
    process.kill()
    process.wait()
    with pytest.raises(GuestProcessError, match="is closed"):
        process.write("x")
    process.signal(signal.SIGTERM)
    process.close_stdin()


def test_there_are_only_so_many_signals(box):
    process = box.start("cat")

    for number in (0, 65, "TERM"):
        with pytest.raises(InvalidArgument):
            process.signal(number)
    with pytest.raises(InvalidArgument, match="pty"):
        process.resize(rows=1, columns=1)


@on_a_loop
async def test_input_that_nobody_reads_is_waited_for():
    async with AsyncSandbox(profile="bare") as box:
        process = await box.start("read -N 1 x; sleep 0.5; cat | wc -c")
        writing = asyncio.ensure_future(process.write(b"x" * 2_000_000))

        done, _ = await asyncio.wait([writing], timeout=0.3)
        assert not done

        await writing
        await process.close_stdin()
        assert [chunk async for chunk in process.output()] == [("stdout", b"1999999\n")]


@on_a_loop
async def test_who_waits_with_input_hears_of_the_end():
    async with AsyncSandbox(profile="bare") as box:
        process = await box.start(["sleep", "600"])
        writing = asyncio.ensure_future(process.write(b"x" * 2_000_000))
        await asyncio.sleep(0.1)

        process.kill()

        with pytest.raises(GuestProcessError, match="standard input"):
            await writing


@on_a_loop
async def test_output_that_nobody_reads_makes_the_program_wait_and_is_not_lost():
    async with AsyncSandbox(profile="bare") as box:
        process = await box.start("head -c 3000000 /dev/zero; echo written >&2")

        with pytest.raises(TimeoutError, match="lives on after 0.5 s"):
            await process.wait(timeout_s=0.5)
        sizes = {"stdout": 0, "stderr": 0}
        async for stream, data in process.output():
            sizes[stream] += len(data)

        assert sizes == {"stdout": 3_000_000, "stderr": 8}


@on_a_loop
async def test_a_reader_of_much_lets_others_have_their_turn_between_two_pieces():
    async with AsyncSandbox(profile="bare") as box:
        process = await box.start("head -c 60000 /dev/zero; head -c 60000 /dev/zero >&2; echo > written; read x")
        await box.run("import os, time\nwhile not os.path.exists('written'): time.sleep(0.01)")
        order = []

        for name in ("first", "second"):
            asyncio.get_running_loop().call_soon(order.append, f"another before the {name}")
            await process.read()
            order.append(name)

        assert order == ["another before the first", "first", "another before the second", "second"]


@on_a_loop
async def test_one_reader_at_a_time_and_the_next_goes_on_where_it_stopped():
    async with AsyncSandbox(profile="bare") as box:
        process = await box.start("echo first; read x; echo second")
        assert await process.read() == ("stdout", b"first\n")
        reading = asyncio.ensure_future(process.read())
        await asyncio.sleep(0.05)

        with pytest.raises(InvalidArgument, match="one reader"):
            await process.read()
        reading.cancel()
        await asyncio.wait([reading])
        await process.write("\n")

        assert [chunk async for chunk in process.output()] == [("stdout", b"second\n")]


def test_a_terminal_has_a_size_a_type_and_jobs(box):
    terminal = box.start(["bash", "--norc", "-i"], pty=(30, 100))

    terminal.write("stty size; echo $TERM; sleep 600 & kill %1; wait; exit 4\n")
    shown = everything(terminal)["pty"]

    assert b"30 100\r\n" in shown
    assert b"xterm-256color\r\n" in shown
    assert b"no job control" not in shown
    assert terminal.exit == Exit(4, None)


def test_a_terminal_hears_of_another_size_and_of_keys(box):
    terminal = box.start(
        ["bash", "-c", "trap 'stty size; echo changed' WINCH; echo ready; while :; do sleep 0.05; done"], pty=(24, 80)
    )
    read_until(terminal, b"ready")

    terminal.resize(rows=50, columns=132)
    shown = read_until(terminal, b"changed")
    terminal.write(b"\x03")

    assert b"50 132" in shown
    assert terminal.wait(timeout_s=5) == Exit(None, signal.SIGINT)


def test_a_terminal_is_read_to_its_last_word_and_ends_by_a_character(box):
    terminal = box.start("cat; seq 20000; echo the-end", pty=(24, 80))
    with pytest.raises(InvalidArgument, match="x04"):
        terminal.close_stdin()

    terminal.write(b"\x04")
    shown = everything(terminal)["pty"]

    assert shown.endswith(b"20000\r\nthe-end\r\n")


def test_results_after_a_start_are_the_guests_word():
    with Sandbox(profile="bare") as box:
        before = box.run("print(1)", mode="script")
        box.start("true").wait()
        after = box.run("print(1)", mode="script")
        box.restart()
        afresh = box.run("print(1)", mode="script")

    assert (before.trust, after.trust, afresh.trust) == ("kernel", "guest", "kernel")


def test_files_that_it_changes_are_among_the_artifacts_of_the_next_run(box):
    process = box.start("read x; echo made > made.txt; read x")
    assert dict(box.run("1").artifacts) == {}
    process.write("\n")
    assert until(lambda: "made.txt" in box.files.list())

    execution = box.run("2")

    assert {path: artifact.read() for path, artifact in execution.artifacts.items()} == {"made.txt": b"made\n"}


def test_a_busy_process_counts_to_the_runs_processor_time_and_the_result_says_so():
    with Sandbox(profile="bare", limits=Limits(cpu_s=1.0)) as box:
        box.run("1")
        box.start("while :; do :; done")

        execution = box.run("import time; time.sleep(20)")

    assert execution.outcome is Outcome.TIMEOUT
    assert "Processor time of processes started beside the run counts, too; 1 live." in execution.error.hints


def test_a_busy_process_is_ended_at_the_limit_between_runs_too():
    with Sandbox(profile="bare", limits=Limits(cpu_s=0.5)) as box:
        process = box.start("while :; do :; done")

        assert process.wait(timeout_s=20) == Exit(None, signal.SIGKILL)
        with pytest.raises(SandboxLost, match="cpu_s"):
            box.start("true")


@pytest.mark.parametrize("pty", [None, (24, 80)], ids=["pipes", "terminal"])
def test_nothing_of_a_process_stays_open_on_the_host(box, pty):
    process = box.start("echo unread; exec sleep 600", pty=pty)
    ours = process.asynchronous
    numbers = {*ours._sources.values(), ours._stdin, ours._control.fileno()}
    held = {os.readlink(f"/proc/self/fd/{number}") for number in numbers}

    process.kill()
    process.wait()

    assert not held & set(_open_files())


def test_nothing_of_what_could_not_be_started_stays_open_on_the_host(box):
    box.start("true").wait()
    before = len(_open_files())

    for pty in [None, (24, 80)] * 20:
        with pytest.raises(GuestProcessError):
            box.start(["no-such-program"], pty=pty)

    assert len(_open_files()) < before + 40  # others come and go with the pool


def _open_files():
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    return found


def test_a_start_waits_for_the_run_that_is_going_on(box):
    box.run("1")
    cell = threading.Thread(target=box.run, args=("import time; time.sleep(1); done = True",))
    cell.start()
    time.sleep(0.3)

    begun = time.monotonic()
    process = box.start("true")
    waited_s = time.monotonic() - begun
    cell.join()

    assert process.wait() == Exit(0, None)
    assert waited_s > 0.4


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"exit 0\n", Exit(0, None)),
        (b"exit 255\n", Exit(255, None)),
        (b"signal 15\n", Exit(None, 15)),
        (b"exit 256\n", Exit(None, 9)),
        (b"signal 0\n", Exit(None, 9)),
        (b"signal 65\n", Exit(None, 9)),
        (b"exit 0\nexit 0\n", Exit(None, 9)),
        ("exit ٣\n".encode(), Exit(None, 9)),
        (b"exit 0", Exit(None, 9)),
        (b"", Exit(None, 9)),
    ],
)
def test_an_end_is_told_by_one_line_and_all_else_is_no_word(line, told):
    assert _told(line) == told


def test_processes_live_without_a_wall_too():
    with Sandbox(backend="bare", profile="bare") as box:
        terminal = box.start("read x; echo $x; exit 5", pty=(24, 80))
        kept = box.start("sleep 600 & sleep 600")
        box.run("print(1)", mode="script")

        terminal.write("typed\n")
        shown = everything(terminal)["pty"]
        kept.kill()

        assert shown.endswith(b"typed\r\n")
        assert (terminal.wait(), kept.wait(timeout_s=5)) == (Exit(5, None), Exit(None, signal.SIGKILL))
