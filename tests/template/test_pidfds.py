"""Descriptors of processes where the kernel has none."""

import os
import select
import signal

import pytest

from groundbox.template import pidfds


@pytest.fixture(autouse=True)
def without_those_of_the_kernel(monkeypatch):
    monkeypatch.setattr(os, "pidfd_open", pidfds._open)
    monkeypatch.setattr(signal, "pidfd_send_signal", pidfds._send_signal)
    before = signal.signal(signal.SIGCHLD, pidfds._look)
    yield
    signal.signal(signal.SIGCHLD, before)


@pytest.fixture
def sleeper():
    """A child that waits for a signal, and is gone at the end of the test, however that ends: a copy of a process of
    tests that stayed would keep the ends of all its pipes."""
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    yield child
    try:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    except (ProcessLookupError, ChildProcessError):
        pass


def readable(descriptor, wait_ms=0):
    poll = select.poll()  # select() takes none above 1,023
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(wait_ms))


def test_a_descriptor_can_be_read_when_its_process_has_ended_and_not_before(sleeper):
    descriptor = os.pidfd_open(sleeper)

    before = readable(descriptor)
    signal.pidfd_send_signal(descriptor, signal.SIGKILL)

    assert (before, readable(descriptor, 10_000)) == (False, True)
    assert os.waitpid(sleeper, 0)[1] == signal.SIGKILL
    os.close(descriptor)


def test_a_process_that_has_ended_already_is_told_at_once(sleeper):
    os.kill(sleeper, signal.SIGKILL)
    os.waitid(os.P_PID, sleeper, os.WEXITED | os.WNOWAIT)

    descriptor = os.pidfd_open(sleeper)

    assert readable(descriptor)
    os.close(descriptor)


def test_an_end_is_told_while_somebody_waits_for_it(sleeper):
    descriptor = os.pidfd_open(sleeper)

    os.kill(sleeper, signal.SIGKILL)

    assert readable(descriptor, 10_000)
    os.close(descriptor)


def test_a_kernel_that_has_them_keeps_its_own(monkeypatch):
    monkeypatch.undo()
    own = os.pidfd_open

    replaced = pidfds.install()

    assert (replaced, os.pidfd_open) == (False, own)
