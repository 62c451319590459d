"""Too little of what the host has: a small disk, and memory for a whole server. Both need root."""

import contextlib
import os
import subprocess
from typing import NamedTuple

import pytest

from groundbox.jail import cgroup

_LIMITS = {1: ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"), 2: ("memory.max", "memory.swap.max")}


class Crowd(NamedTuple):
    """A control group for all sandboxes of a server.

    Attributes:
        environ: Lets a process of groundbox make its groups there.
        hierarchy: To make groups there oneself.
    """

    environ: dict[str, str]
    hierarchy: cgroup.Hierarchy


@contextlib.contextmanager
def crowd(memory_bytes):
    """A control group with so much memory for all sandboxes in it together."""
    if os.geteuid() != 0:
        pytest.skip("only root may make a control group for a whole server")
    try:
        found = cgroup.find()
    except cgroup.CgroupMissing as missing:
        pytest.skip(str(missing))
    mounts = cgroup._mounts()
    place = f"/groundbox-test-{os.getpid()}"
    parents = {each: f"{mounts[each if found.version == 1 else ''][0]}{place}" for each in found.parents}
    try:
        for folder in dict.fromkeys(parents.values()):
            os.makedirs(folder, exist_ok=True)
            if found.version == 2:
                cgroup._enable_controllers(os.path.dirname(folder))
                cgroup._enable_controllers(folder)
        swap_bytes = memory_bytes if found.version == 1 else 0
        for name, value in zip(_LIMITS[found.version], (memory_bytes, swap_bytes), strict=True):
            with contextlib.suppress(FileNotFoundError):  # a kernel without swap
                cgroup._write(f"{parents['memory']}/{name}", str(value))
        yield Crowd({cgroup.ROOT_VARIABLE: place}, cgroup.Hierarchy(found.version, parents))
    finally:
        for folder in dict.fromkeys(parents.values()):
            cgroup._remove_tree(folder)


@contextlib.contextmanager
def small_disk(folder, size_bytes):
    """Mount a tmpfs of so many bytes at a folder."""
    folder.mkdir()
    options = f"size={size_bytes},mode=1777"
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", folder], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
