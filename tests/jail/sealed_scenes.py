"""Scenes for test_sealed.py, one for each call of this program: a keeper, its guest, and what the guest tries."""

import ctypes
import errno
import json
import mmap
import os
import select
import signal
import socket
import struct
import sys

from groundbox.jail import kernel, namespaces, sealed, seccomp
from groundbox.jail.kernel import Call
from groundbox.jail.sealed import Order, Slot
from groundbox.template.branches import Branches

SHARING = 0x400
GUESTS_CODE = b"\xbf\x2a\x00\x00\x00\xb8\xe7\x00\x00\x00\x0f\x05"  # exit_group(42)
FIXED, SHARED, PRIVATE, ANONYMOUS = 0x10, 1, 2, 0x20


class Stage:
    """A keeper with its guest, as a template has them, without namespaces but the guest's own of processes."""

    def __init__(self, *, guarded=False):
        _move(os.open("/dev/null", os.O_RDWR), Slot.NULL)
        for number in (Slot.OUT, Slot.ERR, Slot.NETWORK, *range(Slot.JOIN, Slot.JOIN_LAST + 1)):
            os.dup2(Slot.NULL, number)
        for slot in (Slot.ORDER, Slot.USER, Slot.WAKE, Slot.RESULT):
            _move(os.memfd_create("slot"), slot)
        _move(os.eventfd(0), Slot.DONE)
        calls = [Call("prctl", (38, 1, 0, 0, 0))]  # no_new_privs, which a filter needs
        if guarded:
            program = seccomp.narrow(internet=False, guarded_below=sealed.GUARDED_BELOW)
            self.filter = seccomp.Filter(program)
            calls.append(Call("seccomp", (1, 0, self.filter._header)))
        self.program = sealed.Program(flags=namespaces.NEWPID, network=False, room=[], calls=calls)

    def open(self, guest):
        """Make the keeper, and let its guest carry out `guest(sock, park)`; the keeper and our end of its socket."""
        wake, ours = os.eventfd(0), self.connect()
        pid, pidfd = namespaces.clone(SHARING)
        if pid == 0:
            try:
                self.program.installed.become_keeper(wake)
                park = ctypes.PYFUNCTYPE(ctypes.c_long, ctypes.c_long, ctypes.c_char_p, ctypes.c_long)
                guest(socket.socket(fileno=Slot.SOCKET), park(self.program.installed.park))
            finally:
                os._exit(1)
        keeper = (pid, pidfd, wake)
        assert self.order(keeper, Order.RUN) >= 0
        return keeper, ours

    def connect(self):
        ours, theirs = socket.socketpair()
        os.dup2(theirs.fileno(), Slot.SOCKET)
        return ours

    def order(self, keeper, order, wake=0):
        """What the keeper answers; minus its exit code when it ended instead."""
        for slot, offset in ((Slot.ORDER, order), (Slot.USER, 0), (Slot.WAKE, wake), (Slot.RESULT, 0)):
            os.lseek(slot, offset, os.SEEK_SET)
        os.write(keeper[2], struct.pack("=Q", 1))
        poll = select.poll()
        poll.register(Slot.DONE, select.POLLIN)
        poll.register(keeper[1], select.POLLIN)
        if any(descriptor == Slot.DONE for descriptor, _ in poll.poll(5000)):
            os.read(Slot.DONE, 8)
            return os.lseek(Slot.RESULT, 0, os.SEEK_CUR)
        return -os.waitstatus_to_exitcode(os.waitpid(keeper[0], 0)[1])

    def copy(self, keeper):
        wake = os.eventfd(0)
        pid = self.order(keeper, Order.COPY, wake)
        return (pid, os.pidfd_open(pid), wake) if pid > 0 else pid


def _move(descriptor, number):
    os.dup2(descriptor, number)
    os.close(descriptor)


def _children():
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(word) for word in file.read().split()]


def _ask(sock, word):
    sock.send(word)
    return sock.recv(200)


def copies():
    state = [0]

    def guest(sock, park):
        while True:
            word = sock.recv(4)
            if word == b"more":
                state[0] += 1
            if word == b"park" and not park(Slot.SOCKET, b"stands", 6):
                continue
            sock.send(b"%d %d" % (state[0], os.getpid()))

    stage = Stage()
    keeper, live = stage.open(guest)
    _ask(live, b"more"), _ask(live, b"more"), _ask(live, b"park")
    kept = stage.copy(keeper)
    seen = {"live": _ask(live, b"more")}
    for name, of in (("copy", kept), ("copy of the copy", None)):
        sock = stage.connect()
        again = stage.copy(of or stage.copy(kept))
        stage.order(again, Order.RUN)
        seen[name] = sock.recv(200)
    return {name: [int(word) for word in told.split()] for name, told in seen.items()}


def replace(way, guard):
    at, size = sealed.CODE_AT, sealed.CODE_BYTES

    def call(name, *arguments):
        try:
            return kernel.call(name, *arguments)
        except OSError:
            return None

    def attack():
        code = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=7)
        code.write((b"\x90" * (size - len(GUESTS_CODE))) + GUESTS_CODE)
        where = ctypes.addressof(ctypes.c_char.from_buffer(code))
        if way == "munmap":
            if call("munmap", at, size) is None:
                return True
            call("mmap", at, size, 7, PRIVATE | ANONYMOUS | FIXED, -1, 0)
        elif way == "mmap":
            if call("mmap", at, size, 7, PRIVATE | ANONYMOUS | FIXED, -1, 0) is None:
                return True
        elif way == "mprotect":
            return call("mprotect", at, size, 7) is None
        elif way == "madvise":
            return call("madvise", at, size, 9) is None  # MADV_REMOVE
        elif way == "mremap away":
            return call("mremap", at, size, size, 1) is None
        elif way == "mremap over":
            return call("mremap", where, size, size, 3, at) is None
        elif way == "shmat":
            key = kernel.call("shmget", 0, size, 0o1777)
            if call("shmat", key, at, 0o140000) is None:  # SHM_REMAP, SHM_EXEC
                return True
        elif way == "brk":
            if not _move_heap(at, size) or call("brk", at) != at:  # shrunk, which unmaps all that it had
                return True
            call("mmap", at, size, 7, PRIVATE | ANONYMOUS, -1, 0)  # nothing is there, so that a hint is enough
        ctypes.memmove(at, where, size)
        return False

    def guest(sock, park):
        sock.recv(4)
        sock.send(b"refused" if attack() else b"done")
        sock.recv(4)

    stage = Stage(guarded=guard == "guarded")
    keeper, live = stage.open(guest)
    refused = _ask(live, b"go") == b"refused"
    kept = stage.copy(keeper)
    keeper_does = "copies" if isinstance(kept, tuple) else "ran the guest's code" if kept == -42 else f"ended: {kept}"
    return {"refused": refused, "keeper": keeper_does}


def _move_heap(at, size):
    """Tell the kernel that the heap is what lies there (PR_SET_MM_MAP, without a privilege); whether it agrees."""
    with open("/proc/self/stat") as file:
        told = [0, 0, 0, *map(int, file.read().rpartition(")")[2].split()[1:])]  # from the fourth field on; proc(5)
    code, stack, data, arguments = told[25:27], told[27], told[44:46], told[47:51]
    area = struct.pack("=12QIi", *code, *data, at, at + size, stack, *arguments, 0, 0, -1)
    try:
        kernel.call("prctl", 35, 14, area, len(area), 0)
    except OSError:
        return False
    return True


def proc_mem():
    def guest(sock, park):
        sock.recv(4)
        private = 0x7000000
        kernel.call("mmap", private, 4096, 5, PRIVATE | ANONYMOUS | FIXED, -1, 0)
        told = {}
        for name, at in (("sealed", sealed.CODE_AT), ("private", private)):
            with open(
                "/proc/thread-self/mem" if os.path.exists("/proc/thread-self") else "/proc/self/mem", "r+b", 0
            ) as file:
                try:
                    file.seek(at)
                    file.write(b"\x90")
                    told[name] = "written"
                except OSError:
                    told[name] = "refused"
        sock.send(json.dumps(told).encode())
        sock.recv(4)

    stage = Stage()
    namespaces.unshare(namespaces.NEWNS)
    _, live = stage.open(guest)
    return json.loads(_ask(live, b"go"))


def surroundings():
    def registered():
        area = ctypes.create_string_buffer(64)
        aligned = ctypes.c_void_p((ctypes.addressof(area) + 31) & ~31)
        try:
            kernel.call("rseq", aligned, 32, 0, 0x53053053)
            kernel.call("rseq", aligned, 32, 1, 0x53053053)
        except OSError as error:
            return "no such call" if error.errno == errno.ENOSYS else "registered"
        return "none"

    def guest(sock, park):
        sock.send(registered().encode())
        sock.recv(4)

    stage = Stage()
    before = registered()
    keeper, live = stage.open(guest)
    after = live.recv(200).decode()
    with open(f"/proc/{keeper[0]}/status") as file:
        told = {name: value.strip() for name, _, value in (line.partition(":") for line in file)}
    return {"rseq before": before, "rseq after": after, "blocked": told["SigBlk"]}


def dies(when):
    """A keeper dies as it makes a copy, and its template hears of that before it hears the answer, if there is one."""
    poll, told = select.poll(), {"made": 0, "refused": False}
    of = Branches(None, poll, lambda keeper: None, set)
    program = sealed.Program(flags=namespaces.NEWPID, network=False, room=[], calls=[])
    wake = os.eventfd(0)
    pid, pidfd = namespaces.clone(SHARING)
    if pid == 0:
        program.installed.become_keeper(wake)
    keeper = of.adopt(pid, pidfd, wake)

    def steps():
        try:
            told["made"] = (yield from of.copy(keeper)).pid
        except kernel.KernelRefused:
            told["refused"] = True

    of.take(steps())
    select.select([Slot.DONE], [], [])
    if when == "before it answers":
        os.read(Slot.DONE, 8)
    keeper.end()
    select.select([pidfd], [], [])
    of.handle(pidfd)
    if when == "after it answered":
        of.handle(Slot.DONE)  # seen by the same look, and taken already
    children = _children()
    return {"adopted": children == [told["made"]], "refused": told["refused"], "children": len(children)}


def shared():
    memory = mmap.mmap(-1, 4096)

    def guest(sock, park):
        while True:
            word = sock.recv(4)
            if word == b"park" and park(Slot.SOCKET, b"stands", 6):
                memory[:19] = b"written by the copy"
                sock.send(b"wrote")
            elif word == b"read":
                sock.send(memory[:19])

    stage = Stage()
    keeper, live = stage.open(guest)
    _ask(live, b"park")
    kept = stage.copy(keeper)
    sock = stage.connect()
    stage.order(kept, Order.RUN)
    sock.recv(200)
    return {"live reads": _ask(live, b"read").decode()}


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])))
    sys.stdout.flush()
    for child in _children():  # one that has only just begun would not end with us
        os.kill(child, signal.SIGKILL)
    os._exit(0)
