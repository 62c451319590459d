"""Orphans of a cell: processes that a cell's children left behind, and that have ended.

A cell runs in process 1 of the sandbox, to which the kernel gives orphans. Nobody would wait for them, and each counts
as a process of the sandbox until somebody does. So each end of a child makes us look: if there are many that have
ended and that the cell did not start itself, they are reaped. What the cell starts is written down, because only the
cell may wait for it.

A library may start processes in machine code, which nobody writes down. They are safe as long as there are few of them.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import functools
import os
from collections.abc import Callable
from os import getpid, waitpid  # by these names, because programs set them to what they like
from typing import Any, Final

_SHARE: Final = 8
_USUAL: Final = 16
_MOST_OWN: Final = 10_000

_limit = _USUAL
_own: set[int] = set()
_starting: list[None] = []


def install() -> None:
    """Adapt the functions that start processes."""
    for name in ("fork", "forkpty", "posix_spawn", "posix_spawnp"):
        setattr(os, name, _noting(getattr(os, name)))
    if not hasattr(os.system, "__wrapped__"):
        os.system = _waiting(os.system)


def allow(process_count: int | None) -> None:
    """Take note of how many processes the sandbox may have."""
    global _limit
    limit = _USUAL if process_count is None else max(1, process_count // _SHARE)
    if limit != _limit:  # otherwise no page has to be copied
        _limit = limit


def adapt(subprocess: Any) -> None:
    """Adapt that module, too, when it is imported."""
    import _posixsubprocess

    if not hasattr(_posixsubprocess.fork_exec, "__wrapped__"):
        _posixsubprocess.fork_exec = _noting(_posixsubprocess.fork_exec)
    if hasattr(subprocess, "_fork_exec"):
        subprocess._fork_exec = _posixsubprocess.fork_exec


def _noting(real: Callable[..., Any]) -> Callable[..., Any]:
    if hasattr(real, "__wrapped__"):  # done before
        return real

    @functools.wraps(real)
    def start(*args: Any, **options: Any) -> Any:
        if getpid() != 1:
            return real(*args, **options)
        _watch()
        _starting.append(None)
        try:
            started = real(*args, **options)
            _own.add(started[0] if isinstance(started, tuple) else started)
            return started
        finally:
            _starting.pop()

    return start


def _waiting(real: Callable[..., int]) -> Callable[..., int]:
    """Return `os.system` so that it waits in Python; in the C library no end of another child would be noticed."""

    @functools.wraps(real)
    def system(command: Any) -> int:
        if getpid() != 1:
            return real(command)
        argv: list[str | bytes] = ["sh", "-c", os.fsencode(command)]
        pid = os.posix_spawn("/bin/sh", argv, os.environ, setsigdef=[_signal.SIGINT, _signal.SIGQUIT])
        return waitpid(pid, 0)[1]

    return system


def _watch() -> None:
    """Be called at each end of a child, unless the program wants to be."""
    try:
        if _signal.getsignal(_signal.SIGCHLD) == _signal.SIG_DFL:
            _signal.signal(_signal.SIGCHLD, _look)
    except ValueError:  # in another thread
        return


def _look(number: int, frame: object) -> None:
    if getpid() != 1 or _starting:
        return
    children = _children()
    if len(_own) > _MOST_OWN:
        _own.intersection_update(children)
    strange = [pid for pid in children if pid not in _own]
    if len(strange) < _limit:
        return
    for pid in strange:
        try:
            waitpid(pid, os.WNOHANG)
        except OSError:
            continue


def _children() -> list[int]:
    try:
        with open("/proc/1/task/1/children", "rb") as file:
            return [int(each) for each in file.read().split()]
    except (OSError, ValueError):
        return []
