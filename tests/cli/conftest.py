"""Commands as programs see them: exit status, stdout, stderr, and what they leave behind."""

import ctypes
import os
import pty
import re
import select
import subprocess
import sys
import time
from typing import NamedTuple

import pytest

from groundbox.jail import cgroup

SUBREAPER = 36


class Ran(NamedTuple):
    """One command that has ended."""

    code: int
    stdout: str
    stderr: str
    pid: int

    @property
    def complaint(self):
        """What bad usage said, without the usage."""
        return self.stderr.rpartition("\n\n")[2].rstrip("\n")


@pytest.fixture
def scratch(tmp_path):
    """The command's temporary folder."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


@pytest.fixture
def command(tmp_path, scratch):
    """Run `groundbox` in a folder of its own."""
    folder = tmp_path / "here"
    folder.mkdir()

    def run(*arguments, stdin=b"", prefix=("-m", "groundbox")):
        with subprocess.Popen(
            [sys.executable, *prefix, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env={**os.environ, "TMPDIR": str(scratch), "COLUMNS": "80"},
        ) as process:
            stdout, stderr = process.communicate(stdin)
        return Ran(process.returncode, stdout.decode(), stderr.decode(), process.pid)

    vars(run)["folder"] = folder
    return run


@pytest.fixture
def nothing_left(scratch):
    """Whether a command left no process, no control group and no temporary file.

    Orphans of the command become our children, because we say that we reap.
    """
    libc = ctypes.CDLL(None)
    libc.prctl(SUBREAPER, 1, 0, 0, 0)
    before = children()

    def check(pid):
        for _ in range(50):
            left = [*(children() - before), *groups_of(pid), *os.listdir(scratch)]
            if not left:
                return True
            time.sleep(0.02)
        return left

    yield check
    libc.prctl(SUBREAPER, 0, 0, 0, 0)


class Terminal:
    """A person at a terminal."""

    def __init__(self, *arguments):
        self._ours, its = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "groundbox", *arguments],
            stdin=its,
            stdout=its,
            stderr=its,
            start_new_session=True,
            preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),
        )
        os.close(its)
        self._readable = select.poll()  # select(2) knows descriptors below 1024 only
        self._readable.register(self._ours, select.POLLIN)
        self.shown = ""

    def send(self, text):
        """Keys, or what a terminal makes of a paste."""
        os.write(self._ours, text.encode())

    def type(self, text, until):
        """Type, and give back what is shown up to `until`.

        A person looks at the prompt before pressing Ctrl-C; readline loses one that comes in the very moment
        between showing the prompt and waiting for keys.
        """
        if text == "\x03":
            time.sleep(0.5)
        self.send(text)
        return self.wait(until)

    def wait(self, until):
        """What is shown up to the pattern `until`."""
        deadline = time.monotonic() + 30
        while not (found := re.search(until, self.shown)):
            assert time.monotonic() < deadline, f"{until!r} is not in {self.shown!r}"
            if self._readable.poll(100):
                self.shown += os.read(self._ours, 65536).decode().replace("\r\n", "\n")
                self.shown = re.sub("\x1b\\[\\?2004[hl]\r?", "", self.shown)  # tells a terminal to mark pastes
        before, self.shown = self.shown[: found.end()], self.shown[found.end() :]
        return before

    def close(self):
        """Wait for the end, by force if need be."""
        try:
            return self.process.wait(10)
        finally:
            self.end()

    def end(self):
        """End what still runs, and let go of the terminal."""
        self.process.kill()
        self.process.wait()
        if self._ours >= 0:
            os.close(self._ours)
            self._ours = -1


@pytest.fixture
def terminal():
    """Start `groundbox` on a terminal; what still runs at the end is ended."""
    started = []

    def start(*arguments):
        started.append(Terminal(*arguments))
        return started[-1]

    yield start
    for each in started:
        each.end()


def children():
    """Process ids of our children that still run."""
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                state, parent = file.read().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(parent) == os.getpid() and state != "Z":
            found.add(int(name))
    return found


def groups_of(pid):
    """Control groups that the host process `pid` made."""
    try:
        folders = cgroup.find().folders()
    except OSError:
        return []
    return [name for folder in folders for name in os.listdir(folder) if name.startswith(f"{pid}-")]
