"""Commands as programs see them: exit status, stdout, stderr, and what they leave behind."""

import ctypes
import os
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

    run.folder = folder
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
