"""Started processes and terminals: what a guest can do with what it is given of the host's, and to its supervisor."""

# ruff: noqa: E501  (programs of one line each are tables, and read as such)

import gc
import os
import resource
import signal
import time

import pytest

from groundbox import Limits
from groundbox.sandbox.process import Exit
from groundbox.testing.base import until

TERMINAL = """
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def ioctl(request, argument):
    return errno.errorcode[ctypes.get_errno()] if libc.ioctl(0, request, argument) else 'done'
"""


@pytest.fixture
def mark(nonce):
    return f"groundbox-started-{nonce}"


def _alive(mark):
    """Processes on this host with `mark` in their command line."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if mark.encode() in file.read():
                    found.append(int(pid))
        except OSError:
            continue
    return found


def _everything(process):
    return b"".join(data for _, data in process.output())


def _memory_bytes():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def _controlling_terminal():
    with open("/proc/self/stat") as file:
        return file.read().rpartition(")")[2].split()[4]


@pytest.mark.layers(holds=[""], breaks=["seccomp"])
def test_no_line_discipline_is_chosen_for_a_terminal(sandbox, waive, breached):
    """The usual one is asked for, which changes nothing: another one would load its module."""
    process = sandbox(waive=waive).start(
        ["python3", "-c", TERMINAL + "print(ioctl(0x5423, ctypes.byref(ctypes.c_int(0))))"], pty=(24, 80)
    )

    assert _everything(process) == (b"done\r\n" if breached else b"EPERM\r\n")


@pytest.mark.parametrize("request_", [0x5412, 0x541C], ids=["TIOCSTI", "TIOCLINUX"])
def test_nothing_is_typed_into_a_real_terminal(sandbox, request_):
    process = sandbox().start(["python3", "-c", TERMINAL + f"print(ioctl({request_}, b'\\x06x'))"], pty=(24, 80))

    assert _everything(process) == b"EPERM\r\n"


def test_a_real_terminal_is_what_refuses_nothing_else(sandbox):
    """The control: what editors and shells ask of a terminal works on the same descriptor."""
    source = "import os, termios, tty; tty.setraw(0); os.tcsetpgrp(0, os.getpgrp()); termios.tcflow(1, termios.TCOON); os.write(1, str(os.get_terminal_size(0)[:]).encode())"

    process = sandbox().start(["python3", "-c", source], pty=(24, 80))

    assert _everything(process) == b"(80, 24)"


def test_a_terminal_never_controls_the_host(sandbox):
    before = _controlling_terminal()
    box = sandbox()

    process = box.start("kill -INT 0; stty -a", pty=(24, 80))
    process.wait()

    assert _controlling_terminal() == before


@pytest.mark.needs_root
def test_the_device_of_a_terminal_stays_closed_to_others(sandbox):
    source = "import os\nfor change in (lambda: os.fchmod(0, 0o666), lambda: os.open('/proc/self/fd/0', os.O_RDWR)):\n    try: print(change())\n    except OSError as error: print(type(error).__name__)"

    process = sandbox().start(["python3", "-c", source], pty=(24, 80))

    assert _everything(process) == b"PermissionError\r\nPermissionError\r\n"


@pytest.mark.parametrize("pty", [None, (24, 80)], ids=["pipes", "terminal"])
def test_a_flood_waits_and_does_not_grow_the_host(sandbox, pty):
    box = sandbox()
    process = box.start("yes flood >&2 & exec yes flood", pty=pty)
    process.read()
    before = _memory_bytes()

    time.sleep(1.5)
    unread = _memory_bytes() - before
    read_bytes = sum(len(process.read().data) for _ in range(200))
    read = _memory_bytes() - before
    begun = time.monotonic()
    process.kill()
    process.wait(timeout_s=10)

    assert read_bytes > 100_000
    assert (unread < 4 << 20, read < 4 << 20) == (True, True)
    assert time.monotonic() - begun < 5
    assert len(_everything(process)) < 3 << 20


def test_a_terminal_that_stops_and_floods_holds_nobody_up(sandbox, heartbeat):
    source = "import os, termios, tty; tty.setraw(0); os.write(1, b'x' * 4000); termios.tcflow(1, termios.TCOOFF); os.write(1, b'y')"
    box = sandbox()
    process = box.start(["python3", "-c", source], pty=(24, 80))
    process.read()

    begun = time.monotonic()
    box.close()

    assert time.monotonic() - begun < 2
    assert process.exit == Exit(None, signal.SIGKILL)


def test_a_terminal_that_everybody_has_let_go_of_keeps_nobody_busy(sandbox):
    """Its other end is then at its end of file for good, which a loop would be told of without end."""
    process = sandbox().start("echo gone; exec <&- >&- 2>&-; sleep 2; exit 6", pty=(24, 80))

    begun_s = time.process_time()
    shown = _everything(process)
    spent_s = time.process_time() - begun_s

    assert (shown, process.exit) == (b"gone\r\n", Exit(6, None))
    assert spent_s < 0.7


# Each leaves a process behind whose command line holds MARK.
LEAVING = {
    "a daemon": "(setsid bash -c 'exec -a MARK sleep 600' &)",
    "a daemon that is stopped": "(setsid bash -c 'kill -STOP $$; : MARK' &)",
    "one that ignores signals": "(trap '' TERM HUP INT; setsid bash -c 'exec -a MARK sleep 600' &)",
    "many": "for i in 1 2 3 4 5 6 7 8; do (setsid bash -c 'exec -a MARK sleep 600' &); done",
}


@pytest.mark.parametrize("kind", LEAVING)
@pytest.mark.parametrize("how", ["kill", "close"])
def test_what_a_process_has_let_go_of_is_ended(sandbox, mark, kind, how):
    box = sandbox()
    process = box.start(LEAVING[kind].replace("MARK", mark) + "\nexec sleep 600")
    assert until(lambda: _alive(mark))

    process.kill() if how == "kill" else box.close()

    assert until(lambda: not _alive(mark))


@pytest.mark.parametrize("backend", ["namespaces", "bare"])
def test_nothing_started_outlives_its_sandbox(sandbox, mark, backend):
    box = sandbox(backend=backend)
    box.start(["bash", "-c", f"exec -a {mark} sleep 600"])
    box.start(["bash", "-c", f"exec -a {mark} sleep 600"], pty=(24, 80))
    assert until(lambda: len(_alive(mark)) == 2)

    box.close()

    assert until(lambda: not _alive(mark))


# A signal to a supervisor, and the end that is told then.
STOPPING = {
    "stopped": (signal.SIGSTOP, None),
    "killed": (signal.SIGKILL, Exit(None, signal.SIGKILL)),
}


@pytest.mark.parametrize("kind", STOPPING)
def test_a_supervisor_that_the_guest_has_stopped_holds_nobody_up(sandbox, mark, kind):
    number, told = STOPPING[kind]
    box = sandbox()
    process = box.start(["bash", "-c", f"exec -a {mark} sleep 600"])
    assert until(lambda: _alive(mark))

    box.run(
        f"import os; os.kill(os.stat('/proc/{process.pid}') and int(open('/proc/{process.pid}/stat').read().split()[3]), {int(number)})"
    )
    process.kill()
    if told is not None:
        assert process.wait(timeout_s=5) == told
        assert until(lambda: not _alive(mark))
    begun = time.monotonic()
    box.close()

    assert time.monotonic() - begun < 2
    assert process.exit == Exit(None, signal.SIGKILL)
    assert until(lambda: not _alive(mark))


# What a supervisor does in place of telling the end; a cell has changed it before it was forked.
LYING = {
    "another end": ("os.write(self._control, b'exit 42\\n')", Exit(42, None)),
    "no end": ("os.close(self._control)", Exit(None, 9)),
    "no line": ("os.write(self._control, b'exit ' + b'9' * 10 ** 5)", Exit(None, 9)),
    "two lines": ("os.write(self._control, b'exit 0\\nexit 1\\n')", Exit(None, 9)),
    "a descriptor": ("socket.send_fds(socket.socket(fileno=self._control), [b'exit 0\\n'], [2])", Exit(None, 9)),
}


@pytest.mark.parametrize("kind", LYING)
def test_who_forges_an_end_lies_about_that_one_only(sandbox, kind):
    lie, told = LYING[kind]
    box = sandbox()
    honest = box.start("read x; exit 7")
    box.run(
        f"import os, socket, sys\nsupervisor = sys.modules['groundbox.guest.processes']._Supervisor\nbefore = supervisor._tell\nsupervisor._tell = lambda self, status: {lie}"
    )

    lying = box.start("exit 1")
    ended = lying.wait(timeout_s=10)
    box.run("supervisor._tell = before")
    honest.write("\n")

    assert ended == told
    assert honest.wait(timeout_s=10) == Exit(7, None)
    assert box.start("exit 8").wait(timeout_s=10) == Exit(8, None)


def test_an_end_that_is_told_too_early_costs_the_program_its_streams(sandbox, mark):
    box = sandbox()
    box.run("import os, sys, time\nsys.modules['groundbox.guest.processes']._Supervisor._attend = lambda self: 0")

    process = box.start(["bash", "-c", f"exec -a {mark} sleep 600"])

    assert process.wait(timeout_s=10) == Exit(0, None)
    assert until(lambda: not _alive(mark))


def test_an_answer_that_is_no_process_is_refused(sandbox):
    box = sandbox()
    box.run(
        "import sys\nsys.modules['groundbox.guest.processes'].Processes.start = lambda *_: {'ok': True, 'value': {'pid': -1}}"
    )

    with pytest.raises(Exception, match="does not fit the schema"):
        box.start("true")

    assert box.processes == {}


@pytest.mark.layers(holds=[""], breaks=["dumpable"])
def test_the_descriptors_of_supervisors_are_closed_to_other_processes(sandbox, waive, breached):
    box = sandbox(waive=waive)
    other = box.start(["sleep", "600"])
    source = f"import os\nsupervisor = open('/proc/{other.pid}/stat').read().split()[3]\ntry: print(len(os.listdir(f'/proc/{{supervisor}}/fd')) > 3)\nexcept OSError as error: print(type(error).__name__)"

    process = box.start(["python3", "-c", source])

    assert _everything(process) == (b"True\n" if breached else b"PermissionError\n")


def test_processes_inherit_nothing_of_each_other(sandbox):
    box = sandbox()
    for pty in (None, (24, 80)):
        box.start(["sleep", "600"], pty=pty)

    process = box.start(["python3", "-c", "import os; print(os.listdir('/proc/self/fd'))"])

    assert _everything(process) == b"['0', '1', '2', '3']\n"  # the last is the folder that is listed


def test_memory_of_what_is_started_is_the_sandboxs(sandbox):
    box = sandbox(limits=Limits(memory_bytes=128 << 20))

    process = box.start(["python3", "-c", "x = bytearray(1 << 30)"])

    assert process.wait(timeout_s=30) in (Exit(None, signal.SIGKILL), Exit(1, None))
