"""Processes started before their program is there: a run in one of them is like any other."""

import contextlib
import math
import os
import select
import signal
import subprocess
import time
from typing import Any

import pytest

from groundbox import Sandbox
from groundbox.guest.children import Children
from groundbox.guest.command import Commands
from groundbox.guest.spares import Gate, Way
from groundbox.runtimes import shell
from groundbox.sandbox.languages import Program

# bash says of BASH_ARGC that it may be inconsistent, and tells of SECONDS whether it was set; the others differ from
# run to run.
LOOK = """
declare -p | grep -vE '(BASH_ARGC|SECONDS|BASHPID|PPID|EPOCH|RANDOM|SRANDOM|BASH_LINENO|LINENO|PIPESTATUS)'
set -o; shopt; ulimit -a; umask; trap -p; pwd; ls -l /proc/self/fd | awk '{print $9, $1}'; echo "$0 $# $- $?"
"""


@pytest.fixture
def box():
    with Sandbox(profile="bare") as made:
        yield made


def run(box, source, **options):
    return box.run(source, language="shell", **options)


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """Those of a worker in this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for name in ("BASH_ENV", "POSIXLY_CORRECT"):
        monkeypatch.delenv(name, raising=False)
    made = Commands(Children(alone=False, guarded=False), lambda frame: None)
    yield made
    made.spares.drop()


class Asked:
    """Runs scripts as a worker does, and reads what they leave in a file."""

    def __init__(self, commands):
        self.commands = commands

    def __call__(self, source="echo $$ > said", **more):
        program = Program(source=source, mode="script", filename="main.sh", **more)
        order = {**shell.order(program), "limits": {"cpu_s": 5.0}}
        answer = self.commands.run(order, [])
        assert answer["ok"], answer
        self.waited_early = self.waiting is not None
        self.commands.was_told()
        with open("said") as file:
            return file.read().strip()

    @property
    def waiting(self):
        spare = self.commands.spares.waiting
        return None if spare is None else spare.pid


def test_the_third_of_a_kind_runs_in_a_process_that_waited(commands):
    ask = Asked(commands)
    ask()
    assert ask.waiting is None
    ask()
    waiting = ask.waiting

    assert ask() == str(waiting)
    assert ask.waiting not in (None, waiting)


def test_where_runs_follow_at_once_one_is_started_before_the_result_is_told(commands, monkeypatch):
    ask = Asked(commands)
    waited = []
    for idle_since in (math.inf, math.inf, math.inf, -math.inf, math.inf):
        monkeypatch.setattr(commands, "_idle_since", idle_since)
        ask()
        waited.append((ask.waited_early, ask.waiting is not None))

    assert waited == [(False, False), (True, True), (True, True), (False, True), (True, True)]


@pytest.mark.parametrize(
    "change", [{"argv": ["b"]}, {"options": {"env": {"A": "b"}}}, {"options": {"cwd": "/"}}], ids=str
)
def test_one_that_waits_for_something_else_is_ended(commands, change):
    ask = Asked(commands)
    ask()
    ask()
    waiting = ask.waiting

    said = ask(f"echo $$ $1 $A > {os.getcwd()}/said", **change).split()

    assert said[0] != str(waiting)
    assert said[1:] == (["b"] if "cwd" not in str(change) else [])
    assert not os.path.exists(f"/proc/{waiting}")


def test_one_that_has_ended_is_not_waited_for(commands):
    ask = Asked(commands)
    ask()
    ask()
    waiting = ask.waiting
    os.kill(waiting, signal.SIGKILL)
    os.waitid(os.P_PID, waiting, os.WEXITED | os.WNOWAIT)

    assert ask() != str(waiting)


def test_nothing_is_left_of_one_that_is_dropped(commands, tmp_path):
    ask = Asked(commands)
    ask()
    ask()
    waiting = ask.waiting
    before = set(os.listdir("/proc/self/fd"))
    commands.spares.drop()

    assert not os.path.exists(f"/proc/{waiting}")
    assert len(before) - len(os.listdir("/proc/self/fd")) == 2
    assert os.listdir(tmp_path) == ["said"]


def test_one_that_waits_does_not_go_on_when_it_is_ended(commands):
    ask = Asked(commands)
    ask()
    ask()
    with open("main.sh", "w") as file:
        file.write("echo went on > said")
    os.unlink("said")
    commands.spares.drop()

    assert not os.path.exists("said")


def test_one_that_waits_does_not_go_on_when_its_worker_dies(commands, tmp_path):
    """Its gate is then at its end, and bash would run the script of that name."""
    reader, writer = os.pipe()
    worker = os.fork()
    if worker == 0:
        try:
            ask = Asked(commands)
            ask()
            ask()
            with open("main.sh", "w") as file:
                file.write("echo went on > said")
            os.unlink("said")
            os.write(writer, str(ask.waiting).encode())
            signal.pause()
        finally:
            os._exit(1)
    waiting = os.pidfd_open(int(os.read(reader, 20)))
    os.kill(worker, signal.SIGKILL)
    os.waitpid(worker, 0)

    ended = select.poll()
    ended.register(waiting, select.POLLIN)
    assert ended.poll(30_000)
    assert os.listdir(tmp_path) == ["main.sh"]
    for descriptor in (reader, writer, waiting):
        os.close(descriptor)


@pytest.mark.parametrize(
    "name",
    [
        *("BASH_ENV", "POSIXLY_CORRECT", "SECONDS", "SHELLOPTS", "BASH_FUNC_unset%%", "BASH_XTRACEFD", "TMOUT"),
        *("LD_LIBRARY_PATH", "LOCPATH"),
    ],
)
def test_none_is_started_where_bash_would_not_wait(commands, monkeypatch, name):
    numbers = {"SECONDS": "100", "TMOUT": "100", "BASH_XTRACEFD": "2"}
    value = {"SHELLOPTS": "posix", "BASH_FUNC_unset%%": "() { :; }", **numbers}.get(name, os.devnull)
    monkeypatch.setenv(name, value)
    ask = Asked(commands)
    for _ in range(3):
        ask()

        assert ask.waiting is None


def test_what_is_listed_keeps_bash_from_waiting(tmp_path):
    """Without the list, the script would run before its time."""
    (tmp_path / "main.sh").write_text("echo early")
    reader, writer = os.pipe()
    environ = {"PATH": os.environ["PATH"], "BASH_ENV": f"/dev/fd/{reader}", "POSIXLY_CORRECT": "1"}
    said = subprocess.run(
        ["bash", "--", "main.sh"], cwd=tmp_path, env=environ, pass_fds=[reader], capture_output=True, timeout=60
    )
    os.close(reader)
    os.close(writer)

    assert said.stdout == b"early\n"


def test_a_script_finds_everything_as_without_waiting(box):
    first, second, third = (run(box, LOOK).stdout for _ in range(3))

    assert first == second == third
    assert "BASH_ENV" not in third


def test_time_is_counted_from_the_script(box):
    for _ in range(2):
        run(box, "true")
    time.sleep(1.1)  # bash counts whole seconds

    assert run(box, "echo $SECONDS").stdout == "0\n"


def test_a_cell_has_none_beside_it(box):
    for _ in range(3):
        run(box, "true")
    seen = box.run(
        "import os, tempfile\n"
        "names = [open(f'/proc/{n}/comm').read() for n in os.listdir('/proc') if n.isdigit()]\n"
        "print('bash\\n' in names, os.listdir(tempfile.gettempdir()))"
    )

    assert seen.stdout == "False []\n"


def test_standard_input_comes_as_ever(box):
    for _ in range(3):
        run(box, "cat")

    assert run(box, "cat", stdin=b"given").stdout == "given"
    assert run(box, "cat").stdout == ""


def test_a_file_of_the_scripts_name_is_not_run_before_its_time(box):
    box.files.write("main.sh", "echo early >> log")
    outputs = [run(box, "echo mine; cat log").stdout for _ in range(4)]

    assert outputs == ["mine\n"] * 4


def test_a_graph_larger_than_a_pipe_is_drawn_whole(box):
    pytest.importorskip("groundbox.runtimes.dot")
    small = "digraph { a -> b }"
    large = "digraph { a -> b\n" + "// nothing to see\n" * 6000 + "c -> d }"
    for _ in range(3):
        box.run(small, language="dot", argv=["-Tsvg"])
    drawn = box.run(large, language="dot", argv=["-Tsvg"])

    assert ">d</title>" in drawn.displays[0].data["image/svg+xml"]
    again = box.run(small, language="dot", argv=["-Tsvg"])
    assert again.displays[0].data == box.run(small, language="dot", argv=["-Tsvg"]).displays[0].data


def test_what_bash_says_at_its_start_belongs_to_its_own_run(box):
    heard = [run(box, "echo then >&2", env={"LC_ALL": "xx_YY"}).stderr.splitlines() for _ in range(4)]

    assert [(len(lines), "setlocale" in lines[0], lines[1]) for lines in heard] == [(2, True, "then")] * 4
    assert box.run("1").stderr == ""


def test_who_says_much_at_its_start_is_not_waited_for(commands, monkeypatch):
    """Nobody reads it before its run begins."""
    says = f"for i in {{1..5}}; do echo {'x' * 20_000}; done\nkill -9 $$\n"
    monkeypatch.setattr(shell, "_AHEAD", {**shell._AHEAD, "opening": says})
    ask = Asked(commands)
    ask()
    ask()
    ended = select.poll()
    ended.register(commands.spares.waiting.alive, select.POLLIN)

    assert ended.poll(30_000)
    assert ask()


def test_none_is_started_with_an_opening_that_no_pipe_holds(commands, monkeypatch):
    monkeypatch.setattr(shell, "_AHEAD", {**shell._AHEAD, "opening": " " * (1 << 20)})
    ask = Asked(commands)
    for _ in range(3):
        ask()

        assert ask.waiting is None


def test_a_graph_is_drawn_where_no_folder_can_be_made_for_the_next(box):
    """The third run would have used it."""
    pytest.importorskip("groundbox.runtimes.dot")
    fill = (
        "import os\ntry:\n    for i in range(10**6): open(f'f{i}', 'x').close()\nexcept OSError: pass\n"
        "for i in range(%d): os.unlink(f'f{i}')"
    )
    for free in (0, 1, 2, 3):
        box.run(fill % free)
        drawn = [box.run("digraph { a -> b }", language="dot", argv=["-Tsvg"]) for _ in range(4)]

        assert len({each.ok for each in drawn}) == 1, free
        box.run("for i in range(10**6):\n    try: os.unlink(f'f{i}')\n    except OSError: break")
        box.run("for name in os.listdir(): os.unlink(name)")
    assert drawn[-1].ok


def test_what_was_started_is_ended_where_it_cannot_be_waited_for(commands, monkeypatch):
    started: Any = []
    before = commands._children.start
    monkeypatch.setattr(commands._children, "start", lambda *order: started.append(before(*order)) or started[-1])
    monkeypatch.setattr(os, "pidfd_open", refuse)
    program = Program(source="sleep 600", mode="script", filename="main.sh")
    answer = commands.run({**shell.order(program), "limits": {}}, [])

    assert not answer["ok"]
    assert "could not be started" in answer["error"]["message"]
    with contextlib.suppress(ChildProcessError):  # it has been heard of already
        assert os.WTERMSIG(os.waitpid(started[0], 0)[1]) == signal.SIGKILL


def refuse(*_):
    raise OSError(12, "Cannot allocate memory")


def test_one_that_was_given_less_of_the_processors_is_not_used(commands, monkeypatch):
    ask = Asked(commands)
    ask()
    ask()
    waiting = ask.waiting
    monkeypatch.setattr(commands.spares, "_waiting", commands.spares.waiting._replace(is_apart=True))
    os.setpriority(os.PRIO_PROCESS, waiting, 5)

    assert ask("echo $$ $(nice) > said").split()[1] == str(os.getpriority(os.PRIO_PROCESS, 0))
    assert not os.path.exists(f"/proc/{waiting}")


def test_nothing_waits_beside_what_lives_on(commands):
    ask = Asked(commands)
    for _ in range(3):
        ask(options={"keep_processes": True})

        assert ask.waiting is None


def test_none_waits_beside_a_resident(commands):
    ask = Asked(commands)
    commands._children.keep(os.getppid())
    for _ in range(3):
        ask()

        assert ask.waiting is None


def test_of_what_is_more_than_a_pipe_holds_nothing_is_read():
    gate, alive = Gate(Way(None, "", ())), os.pidfd_open(os.getpid())
    (reader,) = gate.descriptors.values()

    assert not gate.open(b" " * (1 << 20) + b" ", alive)
    arrived = select.poll()
    arrived.register(reader, select.POLLIN)
    assert arrived.poll(0) == []
    assert gate.open(b"small", alive)
    assert os.read(reader, 10) == b"small"
    gate.close()
    os.close(alive)


def test_a_folder_that_was_removed_is_made_anew(box):
    for _ in range(2):
        box.run("digraph { a -> b }", language="dot", argv=["-Tsvg"])
    (folder,) = (each.name for each in box.guest_files.list("/tmp").entries if each.name.startswith("program-"))
    box.guest_files.remove(f"/tmp/{folder}")
    drawn = box.run("digraph { a -> b }", language="dot", argv=["-Tsvg"])

    assert ">b</title>" in drawn.displays[0].data["image/svg+xml"]


def test_a_run_without_end_is_ended_as_ever(box):
    for _ in range(2):
        run(box, "true")
    ended = run(box, "sleep 100", wall_s=0.3)

    assert ended.outcome == "timeout"
    assert run(box, "echo on").stdout == "on\n"
