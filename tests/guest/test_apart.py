"""Programs that are started apart: whose turn it is, what they inherit, and what is told when they cannot be."""

import ctypes
import platform
import struct
import subprocess
import sys
import threading

import pytest

from groundbox.guest import apart
from groundbox.guest.apart import Turns

GETATTR = {"x86_64": 315, "aarch64": 275}.get(platform.machine())


@pytest.fixture
def turns(monkeypatch):
    """Those of a kernel that restricts nothing: this process is not to be restricted."""
    monkeypatch.setattr(apart, "_LANDLOCK_RESTRICT_SELF", {"x86_64": 39, "aarch64": 172}[platform.machine()])  # getpid
    monkeypatch.setattr(apart, "_SYSCALL", lambda number, *rest: 0 if number in (39, 172) else SYSCALL(number, *rest))
    made = Turns(0)
    yield made
    made.end()


SYSCALL = apart._SYSCALL


def slice_ns():
    attributes = ctypes.create_string_buffer(48)
    assert ctypes.CDLL(None).syscall(GETATTR, 0, attributes, 48, 0) == 0
    return struct.unpack("=IIQiIQQQ", attributes.raw)[5]


def test_two_threads_take_turns(turns):
    asked = [turns.order(threading.get_ident).answer() for _ in range(6)]

    assert len(set(asked)) == 2
    assert asked == asked[:2] * 3


def test_the_order_s_own_failure_is_told_and_the_next_is_carried_out(turns):
    def fail():
        raise FileNotFoundError(2, "no bash")

    with pytest.raises(FileNotFoundError, match="no bash"):
        turns.order(fail).answer()
    assert turns.order(lambda: 5).answer() == 5


def test_without_a_domain_nothing_is_started(tmp_path):
    """Descriptor 0 is no ruleset."""
    turns = Turns(0)
    for _ in range(3):
        with pytest.raises(OSError, match="kept apart"):
            turns.order(lambda: (tmp_path / "started").touch()).answer()
    turns.end()

    assert not (tmp_path / "started").exists()


def test_who_is_started_has_turns_on_the_processor_as_ever(turns):
    before = slice_ns()
    theirs = {turns.order(slice_ns).answer() for _ in range(4)}
    ours = slice_ns()
    turns.end()
    after = slice_ns()
    theirs.add(turns.order(slice_ns).answer())

    assert theirs == {before} == {after}
    assert ours == slice_ns() != before


FAMILY = """
import os
from groundbox.guest import apart
from groundbox.guest.children import Children

apart._SYSCALL = lambda *call: 0
turns, children = apart.Turns(0), Children(alone=False, guarded=False)

def start():
    return children.start(["sleep", "600"], os.environ, {})

elsewhere = turns.order(start).answer()
gone = [children.are_gone()]
here = start()
gone.append(children.are_gone())
os.kill(here, 9)
os.waitid(os.P_PID, here, os.WEXITED | os.WNOWAIT)
gone.append(children.are_gone())
os.kill(elsewhere, 9)
os.waitpid(elsewhere, 0)
print(gone)
"""


def test_children_of_other_threads_do_not_count():
    said = subprocess.run([sys.executable, "-c", FAMILY], capture_output=True, text=True, timeout=120)

    assert said.stdout == "[True, False, True]\n", said.stderr
