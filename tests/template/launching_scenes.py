"""Scenes for test_launching.py, one for each call of this program: a template's side, its launcher, what that makes."""

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import sys

from groundbox.jail import kernel, launch
from groundbox.jail.kernel import Call
from groundbox.jail.sealed import Slot
from groundbox.template import mappings, renewing
from groundbox.template.keepers import Keeper, Keepers
from groundbox.template.launching import Launching

LOW = 0x40000


class Stage:
    """A launcher with a template around it, without namespaces; what it makes carries out `be`."""

    def __init__(self, be, calls=()):
        self.poll = select.poll()
        self.keepers = Keepers(self.poll, self.ended, set)
        self.launching = Launching(None, self.keepers, be, held_bytes=0)
        self.launching._sharing = launch.Entry(calls, flags=0, shift=0)
        self.refused = ""

    def ended(self, keeper):
        self.launching.ended(keeper)

    def launch(self, **order):
        """Make a process; its id and our end of its socket."""
        ours, theirs = socket.socketpair()
        out = os.open("/dev/null", os.O_RDWR)
        made = []

        def steps():
            try:
                pid = yield from self.launching.keeper({"uid": 0, **order}, [theirs.fileno(), out, out])
                made.append(pid)
            except kernel.KernelRefused as refused:
                self.refused = str(refused)

        self.keepers.take(steps())
        while not made and not self.refused:
            for descriptor, _ in self.poll.poll():
                self.keepers.handle(descriptor)
        theirs.close()
        self.keepers.clear()
        return (made[0] if made else 0), ours

    @property
    def launcher(self) -> Keeper:
        return self.launching._keeper


def _told(order):
    """Tell the other end what was asked, and what is mapped."""
    with open("/proc/self/maps") as maps:
        low = [line for line in maps if int(line.split("-")[0], 16) < 1 << 20]
    sock = socket.socket(fileno=Slot.SOCKET)
    sock.sendall(json.dumps({"order": order, "low": low, "parent": os.getppid()}).encode())
    os._exit(0)


def orders():
    stage, told = Stage(_told), []
    for text in ("a long one " * 1000, "short"):
        _, ours = stage.launch(text=text)
        told.append(json.loads(b"".join(iter(lambda: ours.recv(1 << 16), b""))))  # noqa: B023
    return {
        "texts": [each["order"]["text"][:10] for each in told],
        "low": [each["low"] for each in told],
        "children of the template": all(each["parent"] == os.getpid() for each in told),
    }


def fails():
    stage = Stage(_told, [Call("chdir", (b"/",), step="first"), Call("chdir", (b"/not/there",), step="second")])
    pid, _ = stage.launch()
    _, status = os.waitpid(pid, 0)
    return {"said": stage.launching.failure(stage.launching._sharing, os.WEXITSTATUS(status))}


def refused():
    stage = Stage(_told)
    stage.launching._sharing.flags |= 0x800  # CLONE_SIGHAND without CLONE_VM
    stage.launch()
    return {"said": stage.refused, "alive": stage.launcher.alive}


def killed():
    stage = Stage(_told)
    before = stage.launcher
    os.kill(before.pid, signal.SIGKILL)
    select.select([before.pidfd], [], [])
    pid, ours = stage.launch(text="after")
    told = json.loads(ours.recv(1 << 16))
    return {"text": told["order"]["text"], "another": stage.launcher.pid != before.pid, "made": pid > 0}


def pages():
    """What a worker finds on pages that its template has written to since the launcher was made."""
    heap = bytearray(b"before") * (1 << 20)

    def be(order):
        sock = socket.socket(fileno=Slot.SOCKET)
        sock.sendall(bytes(heap[:6]))
        os._exit(0)

    stage = Stage(be)
    heap[:] = b"after!" * (1 << 20)
    _, ours = stage.launch()
    return {"seen": ours.recv(6).decode()}


def renewed():
    """Memory of many kinds, as it was and as it is: what is renewed has the same content, in fewer mappings."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    size = 3 << 20
    at = libc.mmap(None, ctypes.c_size_t(2 * size), 3, 0x22, -1, ctypes.c_long(0))
    libc.madvise(ctypes.c_void_p(at), ctypes.c_size_t(size), 14)  # MADV_HUGEPAGE: from here on it is two mappings
    for offset in range(0, size, 4096):
        ctypes.memmove(at + offset, os.urandom(8) * 512, 4096)
    ctypes.memmove(at + size + (1 << 20), b"alone", 5)
    objects = [os.urandom(100) for _ in range(50_000)]
    before, heap = ctypes.string_at(at, 2 * size), b"".join(objects)
    counted = _mappings(at, 2 * size)
    renewing.renew()
    more = [os.urandom(100) for _ in range(50_000)]
    return {
        "same": before == ctypes.string_at(at, 2 * size) and heap == b"".join(objects) and len(set(more)) == 50_000,
        "before": counted,
        "after": _mappings(at, 2 * size),
    }


def wiped():
    """What is wiped in forks stays so, beside memory that is renewed."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    size = 2 << 20
    at = libc.mmap(None, ctypes.c_size_t(3 * size), 3, 0x22, -1, ctypes.c_long(0))
    ctypes.memset(at, 7, 3 * size)
    libc.madvise(ctypes.c_void_p(at + size), ctypes.c_size_t(size), 18)  # MADV_WIPEONFORK
    ctypes.memmove(at + size, b"secret", 6)
    renewing.renew()
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.write(writer, ctypes.string_at(at + size, 6))
        os._exit(0)
    return {"here": ctypes.string_at(at + size, 6).decode(), "in a fork": list(os.read(reader, 6))}


def aligned(taking_the_rest):
    """Memory that is mapped piece by piece between libraries: whether all of it lies in whole huge pages of its own."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    size = 1 << 20

    def mapped(bytes_, permissions, at=None, fixed=0):
        return libc.mmap(ctypes.c_void_p(at), ctypes.c_size_t(bytes_), permissions, 0x22 | fixed, -1, ctypes.c_long(0))

    row = [mapped(size, 3)]
    while len(row) < 16:  # gaps between libraries are taken first, and then it goes down
        at = mapped(size, 3)
        row = [*row, at] if at == row[-1] - size else [at]
    lowest = row[-1]
    rest = (lowest + (1 << 19)) % (2 << 20) + 4096  # the next piece ends in the midst of a huge page
    assert mapped(rest, 0, lowest - rest, 0x100000) == lowest - rest
    with renewing.whole_huge_pages() if taking_the_rest == "yes" else contextlib.nullcontext():
        pieces = [mapped(size, 3) for _ in range(3)]
    mapped(4096, 1)  # a library
    first, last = min(pieces) // (2 << 20) * (2 << 20), -(-(max(pieces) + size) // (2 << 20)) * (2 << 20)
    own = [each for each in mappings.all_now() if each.start < last and first < each.end]
    return {"whole": all(each.permissions == "rw-p" for each in own) and sum(each.size for each in own) >= last - first}


def library():
    """The data of a library, moved into a file: the same, and each process's own from there on."""
    import _json

    before = next(each for each in mappings.all_now() if "/_json." in each.name)
    ((start, end),) = mappings._data_of(before.start)
    content = ctypes.string_at(start, end - start)
    mappings.join()
    moved = [each.name for each in mappings.all_now() if each.start <= start < each.end]
    same = content == ctypes.string_at(start, end - start)
    reader, writer = os.pipe()
    if os.fork() == 0:
        ctypes.memset(start, 7, end - start)
        os.write(writer, b"written")
        os._exit(0)
    return {
        "moved": moved,
        "same": same,
        "said": os.read(reader, 7).decode(),
        "here": content == ctypes.string_at(start, end - start) and _json.scanstring('"a"', 1, True) == ("a", 3),
    }


def _mappings(at, size):
    with open("/proc/self/maps") as maps:
        ranges = [[int(number, 16) for number in line.split()[0].split("-")] for line in maps]
    return sum(first < at + size and at < last for first, last in ranges)


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])))
    sys.stdout.flush()
    os._exit(0)
