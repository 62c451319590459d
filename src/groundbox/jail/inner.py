"""Roots of guests in a kernel without mount namespaces: gVisor's, where one sandbox holds a template and its guests.

Each worker gets a folder that shows the container's root, in which its own box, /proc and devices are mounted, and
goes into it by chroot(2) while it still has the privilege. Without any, and with no descriptor of a folder outside, it
cannot leave. The template takes the mounts away when the worker has ended.
The box lies on a tmpfs of the host, made for this worker and as large as its disk may be: the host reads results there.
"""

import os
from typing import Final

from . import kernel
from .rootfs import BOX, WORKDIR

_ROOTS: Final = "/tmp/roots"
_DEVICES: Final = "/tmp/dev"
_NUMBERS: Final = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9)}
_LINKS: Final = {"fd": "fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
_BIND, _DETACH = 0x1000, 2
_PARTS: Final = ("/proc", BOX, "/dev", "")


def prepare() -> None:
    """Make what all roots have in common. Call it in the template, before the filters."""
    os.mkdir(_ROOTS, 0o711)
    os.mkdir(_DEVICES, 0o755)
    for name, (major, minor) in _NUMBERS.items():
        os.mknod(f"{_DEVICES}/{name}", 0o666 | 0o020000, os.makedev(major, minor))
        os.chmod(f"{_DEVICES}/{name}", 0o666)
    for name, aim in _LINKS.items():
        os.symlink(f"/proc/self/{aim}", f"{_DEVICES}/{name}")
    os.symlink(f"..{BOX}/shm", f"{_DEVICES}/shm")


def enter(folder: str) -> None:
    """Go into a root of one's own, whose box is `folder`, as process 1 of a new pid namespace."""
    root = _root_of(folder)
    kernel.mkdir(root, 0o755)
    kernel.mount("/", root, None, _BIND)
    kernel.mount(_DEVICES, f"{root}/dev", None, _BIND)
    kernel.mount(folder, f"{root}{BOX}", None, _BIND)
    kernel.mount("proc", f"{root}/proc", "proc", 0)
    kernel.call("chroot", os.fsencode(root))
    kernel.chdir(WORKDIR)


def leave(folder: str) -> None:
    """Take a root away whose worker has ended, or never came to be."""
    root = _root_of(folder)
    for part in _PARTS:
        try:
            kernel.unmount(root + part, _DETACH)
        except OSError:
            continue
    try:
        os.rmdir(root)
    except OSError:
        return


def _root_of(folder: str) -> str:
    return f"{_ROOTS}/{folder.rpartition('/')[2]}"
