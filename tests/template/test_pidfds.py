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


def a_sleeper():
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    return child


def test_a_descriptor_can_be_read_when_its_process_has_ended_and_not_before():
    child = a_sleeper()
    descriptor = os.pidfd_open(child)

    before = select.select([descriptor], [], [], 0)[0]
    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    after = select.select([descriptor], [], [], 10)[0]

    assert (before, after) == ([], [descriptor])
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    os.close(descriptor)


def test_a_process_that_has_ended_already_is_told_at_once():
    child = a_sleeper()
    os.kill(child, signal.SIGKILL)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)

    descriptor = os.pidfd_open(child)

    assert select.select([descriptor], [], [], 0)[0] == [descriptor]
    os.waitpid(child, 0)
    os.close(descriptor)


def test_poll_tells_of_it_too():
    child = a_sleeper()
    descriptor, poll = os.pidfd_open(child), select.poll()
    poll.register(descriptor, select.POLLIN)

    os.kill(child, signal.SIGKILL)

    assert [each for each, _ in poll.poll(10_000)] == [descriptor]
    os.waitpid(child, 0)
    os.close(descriptor)


def test_a_kernel_that_has_them_keeps_its_own(monkeypatch):
    monkeypatch.undo()
    own = os.pidfd_open

    replaced = pidfds.install()

    assert (replaced, os.pidfd_open) == (False, own)
