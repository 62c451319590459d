"""What a guest has read of the host's files does not have to be read again by the next one."""

import asyncio
import ctypes
import mmap
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import groundbox
from groundbox.jail import cgroup
from groundbox.sandbox import languages, readahead
from groundbox.sandbox import worker as workers
from groundbox.sandbox.readahead import Mapped, mapped_code, pid_of, read_ahead
from groundbox.sandbox.sandbox import load_of

# A library that nobody has loaded.
FIND = """
import glob, os, sys
loaded = open('/proc/self/maps').read()
found = (each for root in sys.path for each in glob.glob(os.path.join(root, '**', '*.so'), recursive=True))
path = max((each for each in found if each not in loaded and os.path.getsize(each) < 8 << 20), key=os.path.getsize)
print(path, end="")
"""
USE = """
import mmap
with open(path, 'rb') as file:
    library = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
ballast = bytearray(b'x') * (32 << 20)
size = len(bytes(library))
"""


@pytest.fixture(autouse=True)
def nothing_was_read(monkeypatch):
    monkeypatch.setattr(readahead, "_READ", {})


def _has_groups() -> bool:
    try:
        cgroup.find()
    except cgroup.CgroupMissing:
        return False
    return True


def _missing(path: str) -> set[int]:
    """The pages of it that are not cached, by mincore(2), which tells that to owners alone."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE) as mapped:
        pages = (ctypes.c_ubyte * (-(-len(mapped) // mmap.PAGESIZE)))()
        here = (ctypes.c_char * len(mapped)).from_buffer(mapped)
        told = libc.mincore(ctypes.c_void_p(ctypes.addressof(here)), ctypes.c_size_t(len(mapped)), pages)
        del here
    assert told == 0, os.strerror(ctypes.get_errno())
    return {number for number, each in enumerate(pages) if not each & 1}


def _is_cached(path: str) -> bool:
    return not _missing(path)


def _forget(path: str) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(file)


def _becomes_cached(path: str, *, within_s: float) -> bool:
    """Whether nine in ten of its pages are, each at some time: a host takes away again what nobody has mapped."""
    few = os.path.getsize(path) // mmap.PAGESIZE // 10
    end = time.monotonic() + within_s
    missing = _missing(path)
    while len(missing) > few and time.monotonic() < end:
        time.sleep(0.02)
        missing &= _missing(path)
    return len(missing) <= few


@pytest.fixture
def file(tmp_path):
    """Not cached."""
    path = tmp_path / "library.so"
    path.write_bytes(os.urandom(1 << 20))
    with open(path, "rb+") as opened:
        os.fsync(opened.fileno())
    _forget(str(path))
    if _becomes_cached(str(path), within_s=0):
        pytest.skip("files here cannot leave the page cache")
    return path


@pytest.fixture
def mapping(file):
    """A process that has mapped it as code."""
    program = (
        "import mmap, sys\nfile = open(sys.argv[1], 'rb')\n"
        "kept = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)\n"
        "print(flush=True)\nsys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        yield process
        process.kill()


@pytest.mark.alone
@pytest.mark.parametrize("rollback", [None, "on_error"])
def test_a_library_that_a_guest_was_the_first_to_read_is_there_for_the_next_one(rollback, monkeypatch):
    if not _has_groups():
        pytest.skip("without control groups nobody's pages are counted")
    monkeypatch.setattr(workers, "LOOK_S", 10.0)  # a busy machine's thread may come later than a user would wait
    with groundbox.Sandbox(rollback=rollback) as box:
        path = box.run(FIND).stdout
        _forget(path)
        if _is_cached(path):
            pytest.skip("somebody else has it mapped, or owns it")
        used = box.run(f"path = {path!r}\n{USE}print(size)")
        assert used.stdout.split() == [str(os.path.getsize(path))]
        assert _is_cached(path)
    # Its group is emptied; without `readahead` it would be gone from then on.
    time.sleep(1.0)

    assert _becomes_cached(path, within_s=10)


def test_what_a_process_has_mapped_is_known_until_it_ends(mapping, file):
    pidfd = os.pidfd_open(mapping.pid)
    try:
        pid = pid_of(pidfd)
        seen = mapped_code(pid)
        os.kill(mapping.pid, signal.SIGKILL)
        mapping.wait()
        after = pid_of(pidfd)
    finally:
        os.close(pidfd)

    assert pid == mapping.pid
    assert Mapped(str(file), file.stat().st_ino) in seen
    assert after is None
    assert mapped_code(pid) == frozenset()


def test_who_keeps_the_look_waiting_is_ended_all_the_same(monkeypatch):
    """A guest can hold the lock on its mappings, and whoever looks at them waits for it."""
    may_end = threading.Event()
    looked = []

    def never_ends(pid):
        looked.append(pid)
        may_end.wait(60)
        return frozenset()

    monkeypatch.setattr(workers, "mapped_code", never_ends)

    async def close_it():
        box = groundbox.AsyncSandbox()
        await box.run("ballast = bytearray(b'x') * (32 << 20)")
        worker = await box.worker()
        try:
            await asyncio.wait_for(box.close(), 30)
            await asyncio.wait_for(worker.wait(), 30)
            return not may_end.is_set()
        finally:
            may_end.set()

    if not _has_groups():
        pytest.skip("without control groups nothing is looked at")
    assert asyncio.run(close_it())
    assert len(looked) == 1


def test_a_run_under_way_is_ended_without_a_look(monkeypatch):
    looked = []
    monkeypatch.setattr(workers, "mapped_code", looked.append)

    async def close_it():
        box = groundbox.AsyncSandbox()
        run = asyncio.ensure_future(box.run("ballast = bytearray(b'x') * (32 << 20)\nwhile True: pass"))
        while (load := load_of(box)) is None or load.memory_bytes < readahead.MAPPED_BYTES:
            assert not run.done()
            await asyncio.sleep(0.01)
        await box.close()
        await asyncio.wait([run])

    if not _has_groups():
        pytest.skip("without control groups nothing is looked at")
    asyncio.run(close_it())
    assert looked == []


def test_a_whole_file_is_read(file):
    read_ahead([Mapped(str(file), file.stat().st_ino)])

    assert _becomes_cached(str(file), within_s=10)


@pytest.mark.parametrize("again_s", [60.0, 0.0], ids=["within a minute", "later"])
def test_a_file_is_read_again_when_a_minute_has_passed(file, monkeypatch, again_s):
    read_ahead([str(file)])
    assert _becomes_cached(str(file), within_s=10)
    _forget(str(file))
    monkeypatch.setattr(readahead, "_AGAIN_S", again_s)

    read_ahead([str(file)])

    assert _becomes_cached(str(file), within_s=0.5 if again_s else 10) is not bool(again_s)


def test_programs_of_other_languages_are_read_beside_the_event_loop(monkeypatch):
    read_by = []
    monkeypatch.setattr(languages, "_FOUND", set())
    monkeypatch.setattr(languages, "_read_ahead", lambda program: read_by.append(threading.current_thread()))

    async def run_it_twice():
        async with groundbox.AsyncSandbox() as box:
            return [await box.run("echo hello", language="shell") for _ in range(2)]

    assert [each.stdout for each in asyncio.run(run_it_twice())] == ["hello\n", "hello\n"]
    assert len(read_by) == 1
    assert read_by[0] is not threading.main_thread()


def test_another_file_of_that_name_is_left_alone(file):
    read_ahead([Mapped(str(file), file.stat().st_ino + 1)])

    assert not _becomes_cached(str(file), within_s=0.5)


def test_more_than_its_share_is_left_alone(file, monkeypatch):
    monkeypatch.setattr(readahead, "_MOST_BYTES", file.stat().st_size - 1)

    read_ahead([str(file)])

    assert not _becomes_cached(str(file), within_s=0.5)


def test_nothing_that_could_wait_is_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")

    read_ahead([str(tmp_path / "pipe"), str(tmp_path), str(tmp_path / "not there"), "/dev/tty", "with\0nul"])
