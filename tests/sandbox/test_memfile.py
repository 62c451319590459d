"""Files in memory that nobody can change any more."""

import asyncio
import contextlib
import errno
import fcntl
import mmap
import os
import threading

import pytest

import groundbox as gb
from groundbox.sandbox import memfile
from groundbox.sandbox.sandbox import AsyncSandbox
from groundbox.trace import recorder


def in_memory():
    """The files in memory for runs that this process has open; other threads open and close other things."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}").startswith(("/memfd:groundbox-input", "/memfd:groundbox-trace")):
                found.add(os.stat(f"/proc/self/fd/{name}").st_ino)
    return found


class Fcntl:
    """The module, with another `fcntl` for the module that is tried, and for no other one."""

    def __init__(self, function):
        self.fcntl = function

    def __getattr__(self, name):
        return getattr(fcntl, name)


def refused(act, *arguments):
    """The name of the error that an act ends with."""
    with pytest.raises(OSError) as raised:
        act(*arguments)
    return errno.errorcode[raised.value.errno]


@pytest.fixture
def only_old_seals(monkeypatch):
    """A kernel that knows no seal of future writes, and answers the other one with each of `answers` first."""
    real, answers = fcntl.fcntl, []

    def old(descriptor, command, seals):
        if seals & memfile._FUTURE_WRITE:
            raise OSError(errno.EINVAL, "no such seal")
        if answers:
            raise OSError(answers.pop(), "not now")
        return real(descriptor, command, seals)

    monkeypatch.setattr(memfile, "fcntl", Fcntl(old))
    return answers


def check_that_nothing_changes(descriptor):
    again = os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR)

    assert refused(os.write, again, b"x") == "EPERM"
    assert refused(os.ftruncate, again, 1) == "EPERM"
    assert refused(os.ftruncate, again, 100) == "EPERM"
    assert refused(mmap.mmap, again, 5) == "EPERM"
    assert refused(fcntl.fcntl, descriptor, fcntl.F_ADD_SEALS, 0) == "EPERM"
    assert os.read(descriptor, 10) == b"given"
    os.close(again)
    os.close(descriptor)


def test_what_is_sealed_cannot_be_changed():
    check_that_nothing_changes(memfile.sealed(b"given"))


def test_on_an_old_kernel_it_is_sealed_as_well(only_old_seals):
    check_that_nothing_changes(memfile.sealed(b"given"))


def test_on_an_old_kernel_a_page_in_use_is_waited_for(only_old_seals):
    only_old_seals += [errno.EBUSY] * (memfile._TRIES - 1)

    check_that_nothing_changes(memfile.sealed(b"given"))


def test_a_page_in_use_is_no_obstacle(monkeypatch):
    """Like a page that the kernel holds, a mapping lets the seal of all writes fail."""
    copied, mapped = memfile.copied, []

    def used(data):
        descriptor = copied(data)
        mapped.append(mmap.mmap(descriptor, len(data)))
        return descriptor

    monkeypatch.setattr(memfile, "copied", used)
    descriptor = memfile.sealed(b"given")

    assert refused(os.write, descriptor, b"x") == "EPERM"
    os.close(descriptor)


@pytest.mark.parametrize("code", [errno.EPERM, errno.EBUSY])
def test_a_descriptor_that_cannot_be_sealed_is_closed(only_old_seals, code):
    only_old_seals += [code] * memfile._TRIES
    before = in_memory()

    with pytest.raises(OSError) as raised:
        memfile.sealed(b"given")

    assert raised.value.errno == code
    assert in_memory() <= before


def test_the_memory_of_a_trace_that_cannot_be_sealed_is_closed(monkeypatch):
    def fail(*_):
        raise OSError(errno.EBUSY, "not now")

    monkeypatch.setattr(recorder, "fcntl", Fcntl(fail))
    before = in_memory()

    with pytest.raises(OSError, match="not now"):
        recorder.memory(gb.TraceOptions())

    assert in_memory() <= before


def test_large_files_in_memory_are_closed_by_threads(monkeypatch):
    closed = []
    close = os.close

    def noted(descriptor):
        if os.fstat(descriptor).st_size > 1 << 20:
            closed.append(threading.current_thread())
        close(descriptor)

    async def main():
        async with AsyncSandbox() as box:
            monkeypatch.setattr(os, "close", noted)
            await box.files.write("a", b"x" * (2 << 20))
            await box.guest_files.write("b", b"y" * (2 << 20))
            assert await box.guest_files.read("b") == b"y" * (2 << 20)
            await box.guest_files.write("c", b"small")
        return threading.current_thread()

    loop_thread = asyncio.run(main())

    assert len(closed) == 3
    assert loop_thread not in closed
