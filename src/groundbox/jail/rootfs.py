"""The root directory of a guest: an allow-list, read-only, with one writable tmpfs.

Nothing of the host is there unless it is named: /usr and what links into it, the environment's folders,
a few public files of /etc, and the cache of its fonts. Built once in the template on a tmpfs that becomes
the root (pivot_root(2)); the old root is detached. Every worker then mounts a tmpfs of its own on BOX, which
holds the workdir, /tmp and /dev/shm together, so that one size and one inode count bound them all, and a /proc
of its own that shows nothing but its processes.
"""

import functools
import os
import re
import stat
from collections.abc import Iterable, Sequence
from typing import Final

from . import kernel

BOX: Final = "/box"
WORKDIR: Final = "/box/work"
INPUTS: Final = "/inputs"
"""Where files of the host are, of a sandbox that is given some."""
USUAL_WORKDIRS: Final = ("/mnt/data", "/home/user", "/workspace", "/app")
"""Folders that other sandboxes have as their workdir: ChatGPT's, E2B's, and those of agents and of task images."""
_FOLDERS_IN_BOX: Final = ("work", "tmp", "shm")

_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT = 1, 2, 4, 8, 32
_NOATIME: Final = 1024
_BIND, _REC, _PRIVATE = 0x1000, 0x4000, 0x40000
_DETACH: Final = 2
_INODES: Final = 2048

_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_PUBLIC_ETC: Final = (
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/timezone",
    "/etc/mime.types",
    "/etc/alternatives",
    "/etc/fonts",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/ca-certificates",
)
_FONT_CACHE: Final = "/var/cache/fontconfig"
"""What fontconfig knows of the fonts in /usr; without it each program that draws text looks at all of them."""
_DEVICES: Final = ("null", "zero", "full", "random", "urandom")
_WRITTEN_ETC: Final = {
    "hosts": "127.0.0.1 localhost groundbox\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "resolv.conf": "",
    "hostname": "groundbox\n",
}
_NAMES: Final = {
    "passwd": ("root:x:0:0:root:/:/usr/sbin/nologin\n", "guest:x:{0}:{0}::/tmp:/bin/bash\n"),
    "group": ("root:x:0:\n", "guest:x:{0}:\n"),
}
"""The first line, and that of each guest. They share a root, so all ids of theirs are in it under one name."""
_HUGE_PAGES: Final = "/sys/kernel/mm/transparent_hugepage"
_SIZED_BY_WRITES: Final = (6, 14)
"""From this Linux on, pages of files on a tmpfs have sizes between 4 KiB and 2 MiB, by what is written."""
_COVERED: Final = ("/tmp", "/work", BOX, INPUTS, "/proc", "/dev")
_HOMES: Final = ("/mnt", "/media", "/srv", "/opt", "/run", "/tmp")


def make_private() -> None:
    """Let no mount made here be seen outside, nor one made outside appear here."""
    kernel.mount(None, "/", None, _REC | _PRIVATE)


def build(readable: Sequence[str], *, uids: Iterable[int], mounts: Sequence[tuple[str, str, int, int]] = ()) -> str:
    """Build the new root and return the folder that it is mounted on.

    Args:
        readable: Absolute host paths to show at the same place, read-only.
        uids: The guests' user ids as they see them, for /etc/passwd.
        mounts: Regular files to show below INPUTS: path, place there, and the device and inode that it must have.

    Raises:
        OSError: A path lies where the sandbox has something of its own, or the kernel refuses a step.
    """
    _refuse_what_is_covered(readable)
    base = _mount_point(readable)
    larger_pages()  # as long as /sys is there to be asked
    kernel.mount("tmpfs", base, "tmpfs", _NOSUID | _NODEV, f"size=8m,nr_inodes={_INODES + 2 * len(mounts)},mode=755")
    for path in (*_SYSTEM, *_PUBLIC_ETC, _FONT_CACHE, *readable):
        _show(base, path)
    _devices(base)
    for name, text in _WRITTEN_ETC.items():
        _write(f"{base}/etc/{name}", text)
    guests = list(uids)
    for name, (first, each) in _NAMES.items():
        _write(f"{base}/etc/{name}", first + "".join(map(each.format, guests)))
    for folder in (BOX, "/proc"):
        os.mkdir(base + folder, 0o755)
    os.symlink("box/tmp", f"{base}/tmp")
    os.symlink("box/work", f"{base}/work")
    os.symlink("../box/shm", f"{base}/dev/shm")
    _link_usual_folders(base)
    for path, place, device, inode in mounts:
        _show_file(base, f"{INPUTS}/{place}", path, device, inode)
    return base


def _link_usual_folders(base: str) -> None:
    """Let programs that were written for other interpreters find the workdir where those have it."""
    for path in USUAL_WORKDIRS:
        folder, name = os.path.split(f"{base}{path}")
        os.makedirs(folder, 0o755, exist_ok=True)
        if not os.path.lexists(f"{folder}/{name}"):  # a folder to be shown may lie there
            os.symlink(f"..{WORKDIR}", f"{folder}/{name}")


def show_host(base: str) -> None:
    """Show the host's whole root at /host: what it means to waive this layer."""
    os.mkdir(f"{base}/host")
    kernel.mount("/", f"{base}/host", None, _BIND | _REC)


def readable_trees(readable: Sequence[str]) -> list[str]:
    """The folders and files of the new root that `build` has put there; /proc and BOX are not among them."""
    paths = (*_SYSTEM, "/etc", "/dev", _FONT_CACHE, INPUTS, *readable)
    return [path for path in paths if os.path.exists(path) and not os.path.islink(path)]


def readable_on_host(readable: Sequence[str]) -> list[str]:
    """The same trees where there is no root of our own, so that all of /etc and /dev would be too much."""
    return [path for path in (*_SYSTEM, *_PUBLIC_ETC, _FONT_CACHE, *readable) if os.path.exists(path)]


def mount_proc(target: str, *, only_processes: bool) -> None:
    """Mount a /proc for the calling process's pid namespace.

    Args:
        only_processes: Leave out all that is not about processes: sysctls, kallsyms, the network's tables.
    """
    kernel.mount("proc", target, "proc", _NOSUID | _NODEV | _NOEXEC, "subset=pid" if only_processes else "")


def pivot(base: str) -> None:
    """Make `base` the root of this mount namespace and detach the old one."""
    os.chdir(base)
    kernel.call("pivot_root", b".", b".")
    kernel.unmount(".", _DETACH)
    os.chdir("/")
    kernel.mount(None, "/", None, _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV)


def mount_box(*, disk_bytes: int | None, file_count: int | None, uid: int) -> None:
    """Mount the writable tmpfs, owned by `uid`."""
    kernel.mount(
        "tmpfs", BOX, "tmpfs", _NOSUID | _NODEV | _NOATIME, f"uid={uid},gid={uid},{_options(disk_bytes, file_count)}"
    )


def make_box(*, disk_bytes: int | None, file_count: int | None, uid: int) -> None:
    """`mount_box` and `fill_box` on behalf of `uid`, which no text names: a recorded call may have another one."""
    kernel.mount("tmpfs", BOX, "tmpfs", _NOSUID | _NODEV | _NOATIME, _options(disk_bytes, file_count))
    for name in _FOLDERS_IN_BOX:
        kernel.mkdir(f"{BOX}/{name}", 0o700)
    for path in (BOX, *(f"{BOX}/{name}" for name in _FOLDERS_IN_BOX)):
        kernel.chown(path, uid, uid)


def fill_box() -> None:
    """Make the workdir, /tmp and /dev/shm in it, as their owner, and go to the workdir."""
    for name in _FOLDERS_IN_BOX:
        kernel.mkdir(f"{BOX}/{name}", 0o700)
    kernel.chdir(WORKDIR)


@functools.cache
def larger_pages() -> str:
    """A tmpfs option by which what is written at once takes few large pages, in half the time; empty for none.

    No file takes more room than up to its end. Within it, what is written into a hole takes up to 2 MiB around it. See
    Documentation/admin-guide/mm/transhuge.rst; a kernel without such pages refuses the option.
    """
    version = re.match(r"(\d+)\.(\d+)", os.uname().release)
    is_new = version is not None and tuple(map(int, version.groups())) >= _SIZED_BY_WRITES
    return ",huge=within_size" if is_new and os.path.isdir(_HUGE_PAGES) else ""


def _options(disk_bytes: int | None, file_count: int | None) -> str:
    size = "" if disk_bytes is None else f",size={disk_bytes}"
    inodes = "" if file_count is None else f",nr_inodes={file_count + len(_FOLDERS_IN_BOX) + 1}"
    return f"mode=755{size}{inodes}{larger_pages()}"


def _refuse_what_is_covered(readable: Iterable[str]) -> None:
    for path in readable:
        for folder in _COVERED:
            if path == folder or path.startswith(folder + "/"):
                raise OSError(
                    f"{path} cannot be shown, because {folder} in a sandbox is its own; it has to lie elsewhere"
                )


def _mount_point(readable: Iterable[str]) -> str:
    for folder in _HOMES:
        inside = (path == folder or path.startswith(folder + "/") for path in readable)
        if os.path.isdir(folder) and not os.path.islink(folder) and not any(inside):
            return folder
    raise OSError(f"none of {', '.join(_HOMES)} is free to mount a new root on")


def _show(base: str, path: str) -> None:
    target = base + path
    if not os.path.lexists(path) or os.path.lexists(target):
        return
    os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
    if os.path.islink(path):
        os.symlink(os.readlink(path), target)
        return
    if os.path.isdir(path):
        os.mkdir(target, 0o755)
    else:
        _write(target, "")
    kernel.mount(path, target, None, _BIND | _REC)
    _make_read_only(target)


def _show_file(base: str, shown: str, path: str, device: int, inode: int) -> None:
    """Mount one regular file, if it is still the one that the host has looked at.

    It is mounted by its descriptor, so that whoever exchanges the path meanwhile exchanges nothing. Errors name the
    place where guests see it: the client of a server must not learn the path.
    """
    target = f"{base}{shown}"
    try:
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise OSError(f"the file of {shown} cannot be opened any more: {error.strerror}") from None
    try:
        found = os.fstat(descriptor)
        if (found.st_dev, found.st_ino) != (device, inode) or not stat.S_ISREG(found.st_mode):
            raise OSError(f"{shown} is another file than it was when the sandbox was made; make the sandbox again")
        _write(target, "")
        kernel.mount(f"/proc/self/fd/{descriptor}", target, None, _BIND)
    finally:
        os.close(descriptor)
    flags = _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV | _NOEXEC | _kept_flags(target)
    kernel.mount(None, target, None, flags)


def _make_read_only(target: str) -> None:
    """Remount read-only, and whatever else is mounted beneath as well."""
    for mounted in _mounts_beneath(target):
        kernel.mount(None, mounted, None, _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV | _kept_flags(mounted))


def _kept_flags(mounted: str) -> int:
    """Flags that an unprivileged remount must not drop: the kernel locks them."""
    flags = os.statvfs(mounted).f_flag
    noexec = _NOEXEC if flags & os.ST_NOEXEC else 0
    noatime = _NOATIME if flags & os.ST_NOATIME else 0
    nodiratime = 2048 if flags & os.ST_NODIRATIME else 0
    relatime = (1 << 21) if flags & os.ST_RELATIME else 0
    return noexec | noatime | nodiratime | relatime


def _mounts_beneath(target: str) -> list[str]:
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        points = [_unescape(line.split(" ")[4]) for line in file]
    return [point for point in points if point == target or point.startswith(target + "/")]


def _unescape(point: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        point = point.replace(code, character)
    return point


def _devices(base: str) -> None:
    os.makedirs(f"{base}/dev", 0o755, exist_ok=True)
    for name in _DEVICES:
        _write(f"{base}/dev/{name}", "")
        kernel.mount(f"/dev/{name}", f"{base}/dev/{name}", None, _BIND)
        # Writing to a device is possible on a read-only mount; setting its times, which the host would see, is not.
        flags = _REMOUNT | _BIND | _RDONLY | _NOSUID | _NOEXEC | _kept_flags(f"{base}/dev/{name}")
        kernel.mount(None, f"{base}/dev/{name}", None, flags)
    for name, aim in (("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        os.symlink(f"/proc/self/{aim}", f"{base}/dev/{name}")


def _write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
