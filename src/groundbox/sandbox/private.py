"""Folders on disk for workers of the landlock backend, which has no tmpfs of its own.

Named after the host process, so that the next one can tell which were left behind by one that was killed. A process id
means something only within its pid namespace, and containers may share a folder for temporary files.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import subprocess
import tempfile
import time
from typing import Final

from groundbox.jail.cgroup import pid_namespace, start_time

_NAME: Final = re.compile(r"groundbox-(\d+)-(\d+)-(\d+)-\w+")
_REMOVE: Final = ("rm", "-rf", "--one-file-system", "--")
_REMOVING_S: Final = 10.0
_KEPT_S: Final = 7 * 24 * 3600
_REMOVING: Final[list[subprocess.Popen[bytes]]] = []


def make() -> str:
    """A new folder that others can pass through but not list; workers' folders in it are closed to all but them."""
    prefix = f"groundbox-{os.getpid()}-{start_time(os.getpid())}-{pid_namespace()}-"
    folder = tempfile.mkdtemp(prefix=prefix)
    os.chmod(folder, 0o711)
    return folder


def remove_abandoned() -> None:
    """Remove the folders of host processes of this user that are gone."""
    parent = tempfile.gettempdir()
    for entry in os.scandir(parent):
        match = _NAME.fullmatch(entry.name)
        if match is None or int(match[3]) != pid_namespace() or str(start_time(int(match[1]))) == match[2]:
            continue
        with contextlib.suppress(FileNotFoundError):  # another process removes them, too
            found = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
                remove(entry.path)


def make_kept(prefix: str) -> str:
    """A new folder of this user alone for files that a person may want to look at. Those older than a week are removed.

    Whoever made them may have been killed; nothing else would ever remove them then.
    """
    parent = tempfile.gettempdir()
    for entry in os.scandir(parent):
        if entry.name.startswith(prefix):
            with contextlib.suppress(FileNotFoundError):  # another process removes them, too
                found = entry.stat(follow_symlinks=False)
                own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
                if own and time.time() - found.st_mtime > _KEPT_S:
                    remove(entry.path)
    return tempfile.mkdtemp(prefix=prefix)


def remove(folder: str) -> None:
    """Remove a folder that a guest has filled. By rm(1), which follows no link and has no limit of depth.

    This waits _REMOVING_S at most; rm(1) then continues by itself.
    """
    process = subprocess.Popen([*_REMOVE, folder], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_REMOVING_S)


def remove_soon(folder: str) -> None:
    """The same without waiting: a guest may have made a million files, and other sandboxes wait for the event loop."""
    _REMOVING[:] = [running for running in _REMOVING if running.poll() is None]
    _REMOVING.append(subprocess.Popen([*_REMOVE, folder], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
