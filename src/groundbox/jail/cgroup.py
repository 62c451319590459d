"""Control groups: bounds on what a whole process tree uses, and the only honest count of it.

Covered: memory of all kinds (heap, shared mappings, tmpfs, pipe and socket buffers), processes and threads,
and the processor time used. Where the `cpu` controller is there, a group has one share of the processors, however many
processes and sessions it makes; without it each session has one, where the kernel groups by sessions. Version 1 counts
the buffers of internet sockets apart from all else, so they have a bound of their own: an eighth of the memory on top.

How it works: the host makes one group per sandbox, ahead of need, and hands the worker a descriptor of its
`tasks` file (version 1) or `cgroup.procs` (version 2); the worker writes itself in as its first step, because
moving another process costs a lock over all threads of the machine. The kernel checks the opener's rights,
so the guest needs none. Groups live under `groundbox/<host process>`; those of a host process that is gone are
removed by the next one, which finds them by a list in the runtime folder, as the next one may be in another group
than the last was: a login has one of its own. See cgroups(7).

In version 1, where making and removing three folders costs more than the sandbox's other layers together, an empty
group is used again (`renewed`): what it has counted is set back, and one that still holds memory is not taken.
"""

import contextlib
import errno
import functools
import itertools
import os
import re
import signal
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from . import scope
from .openfiles import OpenFiles

_Result = TypeVar("_Result")

ROOT_VARIABLE: Final = "GROUNDBOX_CGROUP"
CONTROLLERS: Final = ("memory", "pids", "cpuacct")
_WEIGHING: Final = "cpu"
"""Used where it is there. All groups weigh the same, and those of all host processes together like one program."""
_V2_CONTROLLERS: Final = ("memory", "pids")
"""Version 2 counts processor time without a controller."""
_GROUP: Final = "groundbox"
_LISTED: Final = "groups-"
_NOWHERE: Final = "/proc/self/no-group"
_USUAL_PLACE: Final = "/sys/fs/cgroup"
_HOST: Final = "host"
"""The group into which processes of ours are moved, so that the group around it can have controllers (version 2)."""
_ENGINES: Final = itertools.count(1)
"""A process may have an engine for each of its event loops; when one ends, the groups of the others stay."""
_NO_LIMIT: Final = {1: "-1", 2: "max"}
_SOCKETS_SHARE: Final = 8
_SWAP_SLACK_BYTES: Final = 64 << 10
"""Of memory and swap together over memory alone, in version 1: with equal limits, that of both refuses first, which
Linux 6.18 does not count (`memory_limit_hits`). The kernel kills for eight pages at most; larger requests just fail."""
_STILL_HELD_BYTES: Final = 1 << 20
"""What the kernel keeps in stock for a group, 256 KiB for each processor, and has not given back yet."""
_PAGES: Final = ("inactive_anon", "active_anon", "inactive_file", "active_file", "unevictable")
_BOTH_WAYS: Final = frozenset({"memory.max_usage_in_bytes", "cpuacct.usage"})


class CgroupMissing(OSError):
    """No usable control groups; the message says which and why.

    Attributes:
        mend: What root can do about it, in one sentence without its full stop; empty where groups are there, and
            this process may not use them.
    """

    def __init__(self, message: str, mend: str = "") -> None:
        super().__init__(message)
        self.mend = mend


@dataclass(frozen=True)
class Hierarchy:
    """Where this process may make groups.

    Attributes:
        version: 1 or 2.
        parents: Controller to the folder in which groups are made. Version 2 has one folder for all.
    """

    version: int
    parents: dict[str, str]

    def weighs(self) -> bool:
        """Whether each group has one share of the processors."""
        if self.version == 1:
            return _WEIGHING in self.parents
        return os.path.exists(f"{self.parents[_WEIGHING]}/cpu.weight")

    def folders(self) -> list[str]:
        """The distinct parent folders."""
        return list(dict.fromkeys(self.parents.values()))


def find() -> Hierarchy:
    """The hierarchy that this process may use.

    Raises:
        CgroupMissing: There is none, with the reason for each place that was tried.
    """
    mounts = _mounts()
    if all(controller in mounts for controller in ("memory", "pids")):
        return _find_v1(mounts)
    if "" not in mounts:
        raise _not_mounted()
    try:
        return _find_v2(*mounts[""])
    except CgroupMissing as missing:
        if missing.mend or os.geteuid() == 0 or not scope.is_offered():
            raise
        refused = scope.enter()
        if refused:
            raise CgroupMissing(f"{missing}; {refused}") from None
    return _find_v2(*_mounts()[""])


def joining_waits(found: Hierarchy, *, release: str, mountinfo: str) -> str:
    """What to mount again so that joining a group waits for no lock over all threads of the machine; empty for nothing.

    Since Linux 6.0 that lock is cheap for those who fork, and slow for those who move a process, unless the file system
    is mounted with `favordynmods`. In version 1 a thread that moves itself needs no lock.

    Args:
        release: As uname(2) tells it.
        mountinfo: What /proc/self/mountinfo says.
    """
    numbers = re.match(r"(\d+)\.(\d+)", release)
    if found.version == 1 or (numbers is not None and (int(numbers[1]), int(numbers[2])) < (6, 0)):
        return ""
    for line in mountinfo.splitlines():
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split()[:3]
        if kind == "cgroup2" and "favordynmods" not in options.split(","):  # what is not named again is switched off
            return f"mount -o remount,{options},favordynmods {fields.split()[4]}"
    return ""


class Cgroup:
    """One sandbox's group. Made empty; the worker joins by itself.

    Attributes:
        keepers: Members that are ours and not the guest's, such as checkpoints. They count as memory of the sandbox,
            and not among its processes.
        expected: Those of them that are not there yet, or may not be.
    """

    def __init__(self, hierarchy: Hierarchy, name: str) -> None:
        self._version = hierarchy.version
        self.keepers = self.expected = 0
        self._limits: tuple[int | None, int | None, int] | None = None
        self._kills_before = self._limit_hits_before = 0
        self._files: OpenFiles | None = None
        self._folders = {c: f"{parent}/{name}" for c, parent in hierarchy.parents.items()}
        for folder in dict.fromkeys(self._folders.values()):
            os.mkdir(folder, 0o755)

    def renewed(self) -> "Cgroup | None":
        """The same group for another sandbox, as if new; None when it has to be removed instead.

        What is asked of this object from here on finds no group, so that the facts of one sandbox never
        come from the next one's.
        """
        try:
            if self._version != 1 or not self._set_back():
                return None
        except OSError:
            return None
        after = Cgroup.__new__(Cgroup)
        after.__dict__.update(self.__dict__)
        after._files = self._files or OpenFiles.one_more()
        self._files = None
        self._folders = dict.fromkeys(self._folders, _NOWHERE)
        after.keepers = after.expected = 0
        return after

    def _set_back(self) -> bool:
        """Forget what was counted, unless something is left to count."""
        if self.process_count() or self.memory_bytes() > _STILL_HELD_BYTES:
            return False
        self._write("memory", "memory.max_usage_in_bytes", "0")
        self._write("cpuacct", "cpuacct.usage", "0")
        self._kills_before += self.out_of_memory_kills()
        self._limit_hits_before += self.memory_limit_hits()
        return True

    def keep_open(self) -> None:
        """Keep the files that are used from now on open, as long as not too many groups do so."""
        if self._files is None:
            self._files = OpenFiles.one_more()

    def join_descriptors(self) -> list[int]:
        """New descriptors, owned by the caller, by which a process can write itself into the group."""
        name = "tasks" if self._version == 1 else "cgroup.procs"
        paths = [f"{folder}/{name}" for folder in dict.fromkeys(self._folders.values())]
        found: list[int] = []
        try:
            for path in paths:
                found.append(
                    os.open(path, os.O_WRONLY | os.O_CLOEXEC)
                    if self._files is None
                    else os.dup(self._files.descriptor(path, os.O_WRONLY))
                )
        except OSError:
            for descriptor in found:
                os.close(descriptor)
            raise
        return found

    def limit(self, *, memory_bytes: int | None, process_count: int | None) -> None:
        """Set both bounds; None lifts one. Costs nothing when they are set so already."""
        room = self.keepers + self.expected
        if self._limits == (memory_bytes, process_count, room):
            return
        is_first = self._limits is None
        before, _, room_before = self._limits or (None, None, 0)
        changed = is_first or before != memory_bytes
        self._limits = (memory_bytes, process_count, room)
        self._write("pids", "pids.max", "max" if process_count is None else str(process_count + room))
        if self._version == 2 and (is_first or bool(room_before) != bool(room)):
            self._write("memory", "memory.oom.group", "0" if room else "1")
        if not changed:
            return
        memory = _NO_LIMIT[self._version] if memory_bytes is None else str(memory_bytes)
        if self._version == 1:
            limits = [("memory.limit_in_bytes", memory)]
            if _counts_swap(os.path.dirname(self._folders["memory"])):
                with_swap = memory if memory_bytes is None else str(memory_bytes + _SWAP_SLACK_BYTES)
                limits.append(("memory.memsw.limit_in_bytes", with_swap))
            else:
                self._write("memory", "memory.swappiness", "0")  # what cannot be counted is not to be used
            if before is not None and (memory_bytes is None or memory_bytes > before):
                limits.reverse()  # memory and swap together may at no moment be below memory alone
            for name, value in limits:
                self._write("memory", name, value)
            with contextlib.suppress(FileNotFoundError):  # a kernel without internet sockets
                self._write("memory", "memory.kmem.tcp.limit_in_bytes", _share(memory_bytes))
        else:
            self._write("memory", "memory.max", memory)
            with contextlib.suppress(FileNotFoundError):
                self._write("memory", "memory.swap.max", "0")

    def count_keepers(self, more: int) -> None:
        """So many members more are ours. Their room is made before they come, and taken away after they went."""
        self.keepers += more
        self._make_room()

    def expect_keepers(self, more: int) -> None:
        """Make room for members of ours that come at some moment; until then they hide none of the guest's."""
        self.expected += more
        self._make_room()

    def _make_room(self) -> None:
        if self._limits is not None:
            memory_bytes, process_count, _ = self._limits
            self.limit(memory_bytes=memory_bytes, process_count=process_count)

    def cpu_s(self) -> float:
        """Processor time of all members that ever were, in seconds."""
        if self._version == 1:
            return int(self._read("cpuacct", "cpuacct.usage")) / 1e9
        return self._field("cpu", "cpu.stat", "usage_usec") / 1e6

    def peak_memory_bytes(self) -> int | None:
        """The most memory the group ever held; None where the kernel does not keep it (before 5.19)."""
        name = "memory.max_usage_in_bytes" if self._version == 1 else "memory.peak"
        try:
            return int(self._read("memory", name))
        except FileNotFoundError:
            return None

    def memory_bytes(self) -> int:
        """The memory that is charged to the group now."""
        return int(self._read("memory", "memory.usage_in_bytes" if self._version == 1 else "memory.current"))

    def out_of_memory_kills(self) -> int:
        """How many members the kernel killed to free memory, of this group, of a group around it, or of the machine."""
        name = "memory.oom_control" if self._version == 1 else "memory.events"
        return self._field("memory", name, "oom_kill") - self._kills_before

    def memory_limit_hits(self) -> int:
        """How often the group's own memory limit refused memory. It rises before each kill at that limit.

        A kill without such a rise freed memory of a group around this one, or of the machine. Version 2 counts an event
        where the limit is; version 1 also counts what succeeded once the kernel had dropped cached files.
        """
        if self._version == 2:
            return self._field("memory", "memory.events", "oom")
        return int(self._read("memory", "memory.failcnt")) - self._limit_hits_before

    def memory_limit_reached(self) -> int:
        """How often the group was at its own memory limit, also where the kernel found something to drop then."""
        return self._field("memory", "memory.events", "max") if self._version == 2 else self.memory_limit_hits()

    def memory_stall_s(self) -> float | None:
        """Return how long processes have waited for memory so far, as PSI counts it; None where the kernel does not.

        In version 2 those of the group; version 1 has that for the whole machine only.
        """
        if self._version == 2:
            return memory_stall_s(f"{self._folders['memory']}/memory.pressure")
        return memory_stall_s()

    def process_count(self) -> int:
        """Processes and threads of the guest in the group now."""
        return max(0, int(self._read("pids", "pids.current")) - self.keepers)

    def freeze(self, frozen: bool) -> None:
        """Let no member run until this is undone; they can still be killed. Without effect in version 1."""
        if self._version == 2:
            self._write("pids", "cgroup.freeze", str(int(frozen)))

    def kill(self) -> None:
        """End every member. Used where no pid namespace does it."""
        if self._version == 2:
            with contextlib.suppress(FileNotFoundError):
                self._write("pids", "cgroup.kill", "1")
                return
        for pid in self._members():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def holds_pages(self) -> bool:
        """Whether pages are charged to the group, such as those of the host's files that it was the first to read.

        Removed with them, the group would live on in the kernel, unseen, for as long as anybody uses one of them. What
        the kernel itself keeps (names that were looked up and are not there, in large numbers) would be left, too.
        """
        return self.memory_bytes() > _STILL_HELD_BYTES or _holds_pages(self._folders["memory"])

    def let_go(self) -> None:
        """Have the kernel take back what is charged to the group. Without members only; takes a second per GiB."""
        _let_go(self._folders["memory"])

    def remove(self) -> bool:
        """Remove the group; False when a member is still ending, then call again."""
        for folder in dict.fromkeys(self._folders.values()):
            try:
                os.rmdir(folder)
            except FileNotFoundError:
                continue
            except OSError:
                return False
        return True

    def _members(self) -> Iterator[int]:
        for line in self._read("pids", "cgroup.procs").split():
            if line != "0":  # a process of another pid namespace; to kill(2) it would mean our own group
                yield int(line)

    def _field(self, controller: str, name: str, key: str) -> int:
        for line in self._read(controller, name).splitlines():
            found, _, value = line.partition(" ")
            if found == key:
                return int(value)
        return 0

    def _read(self, controller: str, name: str) -> str:
        return self._with_file(controller, name, os.O_RDONLY, lambda file: os.pread(file, 1 << 16, 0)).decode()

    def _write(self, controller: str, name: str, text: str) -> None:
        self._with_file(controller, name, os.O_WRONLY, lambda file: os.pwrite(file, text.encode(), 0))

    def _with_file(self, controller: str, name: str, flags: int, use: Callable[[int], _Result]) -> _Result:
        path = f"{self._folders[controller]}/{name}"
        if self._files is not None:
            descriptor = self._files.descriptor(path, os.O_RDWR if name in _BOTH_WAYS else flags)
            try:
                return use(descriptor)
            except OSError as error:
                if error.errno == errno.ENODEV:  # what an open file of a group says when the group has been removed
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None
                raise
        file = os.open(path, flags | os.O_CLOEXEC)
        try:
            return use(file)
        finally:
            os.close(file)


def memory_stall_s(path: str = "/proc/pressure/memory") -> float | None:
    """Return the total of a file of PSI: seconds in which at least one process waited for memory.

    The rules are in the kernel's Documentation/accounting/psi.rst. None is returned where they are not counted.
    """
    try:
        with open(path, "rb", 0) as file:
            found = re.match(rb"some .*total=(\d+)", file.read(200))
    except OSError:
        return None
    return int(found[1]) / 1e6 if found else None


def _holds_pages(folder: str) -> bool:
    try:
        with open(f"{folder}/memory.stat") as file:
            counts = dict(line.split() for line in file)
    except OSError:
        return False
    return any(int(counts.get(name, 0)) for name in _PAGES)


def _let_go(folder: str) -> None:
    """Version 1 empties a group; version 2 (since 5.19) takes back as much as it is told."""
    if os.path.exists(f"{folder}/memory.force_empty"):
        _write(f"{folder}/memory.force_empty", "0")
    elif os.path.exists(f"{folder}/memory.reclaim"):
        with open(f"{folder}/memory.current") as file, contextlib.suppress(BlockingIOError):  # it took what it could
            _write(f"{folder}/memory.reclaim", file.read().strip())


def _share(memory_bytes: int | None) -> str:
    """What the buffers of internet sockets may take; without a bound they could take all that the host's own have."""
    return _NO_LIMIT[1] if memory_bytes is None else str(memory_bytes // _SOCKETS_SHARE)


def own_hierarchy(found: Hierarchy) -> Hierarchy:
    """Groups of one engine of this host process, inside `found`. Removes those of host processes that are gone."""
    remove_abandoned(found)
    name = f"{os.getpid()}-{start_time(os.getpid())}-{pid_namespace()}-{next(_ENGINES)}"
    parents = {controller: f"{parent}/{name}" for controller, parent in found.parents.items()}
    own = Hierarchy(found.version, parents)
    _list(name, own.folders())
    for folder in own.folders():
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o755)
        if found.version == 2:
            _enable_controllers(folder)
    return own


def remove_abandoned(found: Hierarchy) -> list[str]:
    """End and remove what a host process left behind that was killed; returns the folders removed."""
    left = {f"{parent}/{name}" for parent in found.folders() for name in os.listdir(parent) if _is_abandoned(name)}
    noted = {name: folders for name, folders in _listed().items() if _is_abandoned(name)}
    left |= {folder for folders in noted.values() for folder in folders if os.path.isdir(folder)}
    removed = [folder for folder in sorted(left) if _remove_tree(folder)]
    for name, folders in noted.items():
        if not any(os.path.isdir(folder) for folder in folders):
            _unlist(name)
    return removed


def _is_abandoned(name: str) -> bool:
    """Whether groups of this name belong to a process of our pid namespace that is gone."""
    match = re.fullmatch(rf"(\d+)-(\d+)-{pid_namespace()}-\d+", name)
    return match is not None and str(start_time(int(match[1]))) != match[2]


def _runtime_folder() -> str | None:
    """A folder of this user alone; None where there is none. Not in TMPDIR, which differs from program to program."""
    if os.geteuid() == 0:
        folder = "/run/groundbox"
    else:
        above = os.environ.get("XDG_RUNTIME_DIR", "")
        folder = f"{above}/groundbox" if os.path.isdir(above) else f"/tmp/groundbox-{os.geteuid()}"
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        found = os.lstat(folder)
    except OSError:
        return None
    own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022
    return folder if own else None


def _list(name: str, folders: Sequence[str]) -> None:
    """Note where the groups of this process are. Without the note they are found by their parent alone."""
    runtime = _runtime_folder()
    if runtime is not None:
        with contextlib.suppress(OSError):
            _write(f"{runtime}/{_LISTED}{name}", "".join(f"{folder}\n" for folder in folders))


def _listed() -> dict[str, list[str]]:
    """Names of host processes, gone or not, to the folders that they noted. Only what is named after them counts."""
    runtime = _runtime_folder()
    noted: dict[str, list[str]] = {}
    for file_name in os.listdir(runtime) if runtime is not None else []:
        name = file_name.removeprefix(_LISTED)
        if name != file_name:
            with contextlib.suppress(OSError), open(f"{runtime}/{file_name}") as file:
                noted[name] = [line for line in file.read().splitlines() if os.path.basename(line) == name]
    return noted


def _unlist(name: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(f"{_runtime_folder()}/{_LISTED}{name}")


def remove_own(own: Hierarchy) -> None:
    """End and remove what `own_hierarchy` made. A member that was just killed is waited for."""
    for folder in own.folders():
        _remove_tree(folder)
    _unlist(os.path.basename(own.folders()[0]))


def delegate(uid: int, gid: int) -> list[str]:
    """As root: make groups that an ordinary user may use, and return their folders. Idempotent.

    In version 2 processes can be moved only by who may write to the group above both places. systemd gives each user a
    slice with all logins in it, so there the user gets this right over the slice. Elsewhere the user's processes that
    are in the caller's group are moved into the new one, which is theirs.

    Raises:
        CgroupMissing: No control groups are mounted.
    """
    mounts = _mounts()
    if all(controller in mounts for controller in ("memory", "pids")):
        places = [mounts[controller] for controller in (*CONTROLLERS, _WEIGHING) if controller in mounts]
        folders = [f"{mount}{own.rstrip('/')}/{_GROUP}-{uid}" for mount, own in places]
        for folder in folders:
            _give(folder, uid, gid)
        return list(dict.fromkeys(folders))
    if "" not in mounts:
        raise _not_mounted()
    mount, own = mounts[""]
    logins = f"{mount}/user.slice/user-{uid}.slice"
    above = logins if os.path.isdir(logins) else f"{mount}{_without_host(own)}"
    folder = f"{above}/{_GROUP}-{uid}"
    _give(folder, uid, gid)
    _make_room(above, folder)
    for each in (above, folder):
        _enable_controllers(each)
    if above == logins:
        os.chown(f"{above}/cgroup.procs", uid, gid)
    else:
        os.makedirs(f"{folder}/{_HOST}", exist_ok=True)
        for pid in _processes_of(uid, {each.removeprefix(mount) or "/" for each in (above, f"{above}/{_HOST}")}):
            with contextlib.suppress(OSError):  # it has ended
                _write(f"{folder}/{_HOST}/cgroup.procs", pid)
    return [folder]


def delegated_until() -> str:
    """Return how often `delegate` is needed: a slice or a group of version 2 lasts as long as a user's logins."""
    mounts = _mounts()
    return "once per boot" if all(each in mounts for each in ("memory", "pids")) else "after each login"


def _give(folder: str, uid: int, gid: int) -> None:
    """Make a group that a user may make others in, and move processes within."""
    os.makedirs(folder, exist_ok=True)
    os.chown(folder, uid, gid)
    for name in ("tasks", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"):
        with contextlib.suppress(FileNotFoundError):
            os.chown(f"{folder}/{name}", uid, gid)


def _processes_of(uid: int, places: set[str]) -> Iterator[str]:
    """Yield the processes of a user that are in one of these groups of version 2."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{pid}").st_uid == uid:
                with open(f"/proc/{pid}/cgroup") as file:
                    if any(line.startswith("0::") and line[3:].rstrip("\n") in places for line in file):
                        yield pid


def _without_host(own: str) -> str:
    """Return the group around one that `_make_room` made, and any other as it is, without a slash at its end."""
    return own.rstrip("/").removesuffix(f"/{_HOST}")


def _find_v1(mounts: dict[str, tuple[str, str]]) -> Hierarchy:
    parents: dict[str, str] = {}
    for controller in CONTROLLERS:
        if controller not in mounts:
            raise CgroupMissing(f"the {controller} controller is not mounted")
        mount, own = mounts[controller]
        parents[controller] = _usable_folder(mount, own, controller)
    if _WEIGHING in mounts:
        with contextlib.suppress(CgroupMissing):  # an older delegation did not hand it over
            parents[_WEIGHING] = _usable_folder(*mounts[_WEIGHING], _WEIGHING)
    return Hierarchy(1, parents)


def _find_v2(mount: str, own: str) -> Hierarchy:
    with open(f"{mount}/cgroup.controllers") as file:
        present = file.read().split()
    lacking = [c for c in _V2_CONTROLLERS if c not in present]
    if lacking:
        words = f"the group {mount} has no controllers {', '.join(lacking)}"
        raise CgroupMissing(words, "Have the host give this container the controllers memory and pids")
    folder = _usable_folder(mount, own, "", _prepare_v2)
    return Hierarchy(2, dict.fromkeys((*_V2_CONTROLLERS, "cpu"), folder))


def _prepare_v2(own: str, folder: str) -> str:
    """Make `folder` one whose groups have our controllers; the reason when it cannot be, else nothing.

    A process may only be moved by who may write to the `cgroup.procs` of the group above both places.
    """
    shared = os.path.commonpath([own, folder])
    if not os.access(f"{shared}/cgroup.procs", os.W_OK):
        return f"processes of {own} cannot be moved there"
    _make_room(own, folder)
    _enable_controllers(os.path.dirname(folder))
    _enable_controllers(folder)
    with open(f"{folder}/cgroup.subtree_control") as file:
        lacking = set(_V2_CONTROLLERS) - set(file.read().split())
    return f"the controllers {', '.join(sorted(lacking))} cannot be switched on" if lacking else ""


def _usable_folder(
    mount: str, own: str, controller: str, prepare: Callable[[str, str], str] = lambda own, folder: ""
) -> str:
    """The first place in which this process can make and use groups, and that `prepare` finds nothing wrong with."""
    here = f"{mount}{own}".rstrip("/")
    uid, tried = os.geteuid(), []
    own = _without_host(own) if controller == "" else own.rstrip("/")
    named = os.environ.get(ROOT_VARIABLE)
    places = [named] if named else []
    places += [f"{own}/{_GROUP}", f"{own}/{_GROUP}-{uid}"]
    while own:
        own = own.rpartition("/")[0]
        places += [f"{own}/{_GROUP}-{uid}"]
    if uid == 0:
        places.append(f"/{_GROUP}")
    for place in places:
        folder = f"{mount}{place}"
        try:
            os.makedirs(folder, 0o755, exist_ok=True)
            probe = f"{folder}/probe-{os.getpid()}-{time.monotonic_ns()}"
            os.mkdir(probe)
            os.rmdir(probe)
            problem = prepare(here, folder)
        except OSError as error:
            problem = str(error.strerror)
        if not problem:
            return folder
        tried.append((folder, problem))
    raise CgroupMissing(f"no group can be made for {controller or 'cgroup v2'} {_refusals(tried)}")


def _refusals(tried: Sequence[tuple[str, str]]) -> str:
    """Why each folder is none: in short, if the reason is always the same."""
    reasons = {problem for _, problem in tried}
    if len(tried) > 1 and len(reasons) == 1:
        return f"in {tried[0][0]} and {len(tried) - 1} more places: {reasons.pop()}"
    return "in " + "; ".join(f"{folder}: {problem}" for folder, problem in tried)


class _Mount(NamedTuple):
    """A mounted cgroup file system: version 2 has the one controller ''."""

    controllers: list[str]
    root: str
    point: str
    device: str

    def is_reachable(self) -> bool:
        """Return False if the mount point cannot be entered, or another mount covers it."""
        try:
            found = os.stat(self.point).st_dev
        except OSError:
            return False
        return f"{os.major(found)}:{os.minor(found)}" == self.device


def _mounted() -> list[_Mount]:
    """All mounted cgroup file systems; those below /sys/fs/cgroup first, as others may be in somebody's chroot."""
    mounted = []
    with open("/proc/self/mountinfo") as file:
        for line in file:
            fields, _, rest = line.partition(" - ")
            kind, _, options = rest.split()[:3]
            _, _, device, root, point = fields.split()[:5]
            if kind in ("cgroup", "cgroup2"):
                controllers = [""] if kind == "cgroup2" else options.split(",")
                mounted.append(_Mount(controllers, _unescape(root), _unescape(point), device))
    return sorted(mounted, key=lambda mount: not f"{mount.point}/".startswith(f"{_USUAL_PLACE}/"))


def _unescape(path: str) -> str:
    """Return a path of /proc/self/mountinfo, which writes blanks as octal numbers, as it is."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)


def _places() -> dict[str, str]:
    """Map each controller (or '' for version 2) to the group of this process."""
    places: dict[str, str] = {}
    with open("/proc/self/cgroup") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            places |= dict.fromkeys(controllers.split(","), path)
    return places


def _mounts() -> dict[str, tuple[str, str]]:
    """Map each controller (or '' for version 2) to its mount point and this process's place below that."""
    own = _places()
    mounts: dict[str, tuple[str, str]] = {}
    for mount in _mounted():
        wanted = [each for each in mount.controllers if each in own and each not in mounts]
        if wanted and mount.is_reachable():
            mounts |= {each: (mount.point, _below(own[each], mount.root)) for each in wanted}
    return mounts


def _not_mounted() -> CgroupMissing:
    """Return the error for a host on which no cgroup file system can be reached, with the commands that mount one."""
    covered = [mount.point for mount in _mounted() if not mount.is_reachable()]
    if covered:
        point = os.path.commonpath(covered)
        return CgroupMissing(f"another mount covers the control groups at {point}", f"Uncover them: `umount {point}`")
    message = "no cgroup file system with the memory and pids controllers is mounted"
    try:
        with open("/proc/cgroups") as file:
            hierarchies = {name: hierarchy for name, hierarchy, *_ in map(str.split, file) if name in CONTROLLERS}
            used = dict.fromkeys(hierarchies.values())
    except OSError:
        hierarchies, used = {}, {}
    if not {"memory", "pids"} <= set(hierarchies):
        return CgroupMissing(message, "Use a kernel with the memory and pids controllers")
    commands = [] if os.path.isdir(_USUAL_PLACE) else ["mount -t sysfs none /sys"]
    if used == {"0": None}:
        commands.append(f"mount -t cgroup2 none {_USUAL_PLACE}")
        return CgroupMissing(message, f"Mount it: `{' && '.join(commands)}`")
    commands.append(f"mount -t tmpfs none {_USUAL_PLACE}")  # version 1 has a file system for each hierarchy
    for each in used:
        names = ",".join(name for name, hierarchy in hierarchies.items() if hierarchy == each)
        commands += [f"mkdir {_USUAL_PLACE}/{names}", f"mount -t cgroup -o {names} none {_USUAL_PLACE}/{names}"]
    return CgroupMissing(message, f"Mount them: `{' && '.join(commands)}`")


def _below(path: str, root: str) -> str:
    """`path` as seen under a mount that shows only what is below `root`."""
    if root == "/":
        return path
    return path[len(root) :] if path.startswith(root) else "/"


def _make_room(own: str, folder: str) -> None:
    """Version 2 lets a group have controllers or processes, not both: move our own out of the way.

    Only the root of all groups may have both, and has no `cgroup.type`; that of a container is none.
    """
    if os.path.dirname(folder) != own or not os.path.exists(f"{own}/cgroup.type"):
        return
    with open(f"{own}/cgroup.procs") as file:
        members = file.read().split()
    if not members or not os.access(f"{own}/cgroup.subtree_control", os.W_OK):
        return
    os.makedirs(f"{own}/{_HOST}", exist_ok=True)
    for pid in members:
        with contextlib.suppress(OSError):
            _write(f"{own}/{_HOST}/cgroup.procs", pid)


def _enable_controllers(folder: str) -> None:
    for controller in (*_V2_CONTROLLERS, _WEIGHING):
        with contextlib.suppress(OSError):
            _write(f"{folder}/cgroup.subtree_control", f"+{controller}")


@functools.cache
def pid_namespace() -> int:
    """Process ids mean something only in here; another container's must not be judged."""
    return os.stat("/proc/self/ns/pid").st_ino


@functools.cache
def _counts_swap(folder: str) -> bool:
    return os.path.exists(f"{folder}/memory.memsw.limit_in_bytes")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def start_time(pid: int) -> int | None:
    """When a process began, in clock ticks since boot; None when there is none. With the id it names one for good."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None


def _remove_tree(folder: str) -> bool:
    """End every process below `folder` and remove it; gives up after a second."""
    for _ in range(100):
        groups: Sequence[str] = [path for path, _, _ in os.walk(folder, topdown=False)]
        for group in groups:
            members: list[str] = []
            with contextlib.suppress(OSError), open(f"{group}/cgroup.procs") as file:
                members = file.read().split()
            if not members and _holds_pages(group):
                with contextlib.suppress(OSError):
                    _let_go(group)
            with contextlib.suppress(OSError):
                for pid in members:
                    if pid != "0":  # a process of another pid namespace; to kill(2) it would mean our own group
                        os.kill(int(pid), signal.SIGKILL)
            with contextlib.suppress(OSError):
                os.rmdir(group)
        if not os.path.exists(folder):
            return True
        time.sleep(0.01)
    return False
