"""Hints for failures that the wall or the limits caused: files, network, memory, processes, input."""

from __future__ import annotations

import errno
import os
import re
import socket
from collections.abc import Iterator
from typing import Any, Final

from .fault import Fault, either, listing, nearest
from .frames import is_beneath

FILES: Final = 200
_FOLDERS_DEEP: Final = 3
_HOST: Final = (
    re.compile(r"https?://(?:[^/@\s'\"]*@)?([A-Za-z0-9.-]+)"),
    re.compile(r"host='([A-Za-z0-9.-]+)'"),
    re.compile(r"Cannot connect to host ([A-Za-z0-9.-]+)"),
)
_KERNELS: Final = re.compile(r"/(proc|sys)(/|$)")
_NETWORK_WORDS: Final = re.compile(
    r"Temporary failure in name resolution|Name or service not known|Network is unreachable"
    r"|nodename nor servname|Failed to resolve|Tunnel connection failed|Cannot connect to (host|proxy)"
    r"|ProxyError"
)
_REFUSED: Final = re.compile(r"Tunnel connection failed: 403|403 Forbidden|Proxy.* 403")


def missing_file(fault: Fault) -> list[str]:
    """FileNotFoundError: near names, or the files there are; for the kernel's own files, what is there instead."""
    exc = fault.exc
    if not isinstance(exc, FileNotFoundError) or not isinstance(exc.filename, (str, bytes)):
        return []
    wanted = os.fsdecode(exc.filename)
    if "subprocess" in fault.packages() and os.sep not in wanted:
        return [f"There is no program `{wanted}` in this sandbox."]
    if _KERNELS.match(wanted):
        return [
            f"`{wanted}` is not there: /proc shows this sandbox's processes only, and there is no /sys. "
            "os.sched_getaffinity(0), resource.getrusage and platform tell what programs may know."
        ]
    found = list(_files(fault.scene.workdir))
    close = nearest(os.path.basename(wanted), [os.path.basename(path) for path in found])
    paths = [path for name in close for path in found if os.path.basename(path) == name]
    same = [path for path in found if os.path.basename(path) == os.path.basename(wanted)]
    if same or paths:
        return [f"Did you mean {either(list(dict.fromkeys(same + paths))[:3])}?"]
    if not found:
        return [
            "The working directory is empty: files must be written into the sandbox, or made by the program, first."
        ]
    return [f"The files in the working directory are: {listing(sorted(found))}."]


def read_only(fault: Fault) -> list[str]:
    """A path outside the workdir, or a system call that the sandbox denies."""
    exc = fault.exc
    if not isinstance(exc, OSError) or exc.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
        return []
    if _is_network(fault):
        return []
    path = exc.filename
    if isinstance(path, (str, bytes)):
        name = os.fsdecode(path)
        if is_beneath(os.path.abspath(name), fault.scene.workdir):
            return []
        return [f"`{name}` cannot be written or opened here: files can be written only in the working directory."]
    return ["The sandbox denies this system call. Programs can compute and use files in the working directory."]


def disk_full(fault: Fault) -> list[str]:
    """ENOSPC and EDQUOT: the workdir is full. EFBIG: one file would not fit into it."""
    code = getattr(fault.exc, "errno", None)
    if code == errno.EFBIG:
        return ["No file can be larger than the disk (limits.disk_bytes): write less, or compress it."]
    if code not in (errno.ENOSPC, errno.EDQUOT):
        return []
    return ["The working directory is full (limits.disk_bytes or limits.file_count): remove files or write less."]


def process_limit(fault: Fault) -> list[str]:
    """EAGAIN from fork, or a thread that cannot start."""
    message = fault.message
    forked = getattr(fault.exc, "errno", None) == errno.EAGAIN and not fault.packages() & {"socket", "ssl"}
    if not forked and "can't start new thread" not in message:
        return []
    return ["The limit of processes and threads is reached (limits.process_count): use fewer workers."]


def memory_limit(fault: Fault) -> list[str]:
    """MemoryError."""
    return [
        "The memory limit is reached (limits.memory_bytes): read in chunks, "
        "load fewer columns, use smaller types, or `del` what is no longer needed."
    ]


def endless_recursion(fault: Fault) -> list[str]:
    """RecursionError."""
    name = fault.step.frame.f_code.co_name if fault.step else ""
    what = f"`{name}` calls itself" if name and not name.startswith("<") else "A function calls itself"
    return [f"{what} without reaching its end: check the base case, or use a loop."]


def no_stdin(fault: Fault) -> list[str]:
    """EOFError from `input()`."""
    if "EOF when reading a line" not in fault.message:
        return []
    if fault.scene.filename.startswith("<cell"):
        return ["A cell has no standard input, so `input()` fails: put the value into the code."]
    return ["Standard input has ended: the program reads more lines than it was given."]


def running_loop(fault: Fault) -> list[str]:
    """RuntimeError: asyncio.run inside top-level await."""
    if "running event loop" not in fault.message or "cannot be called from" not in fault.message:
        return []
    return ["An event loop runs already in this cell: `await` the coroutine instead of `asyncio.run`."]


def unreachable_host(fault: Fault) -> list[str]:
    """What fails because the network is off or a host is not allowed."""
    if not _is_network(fault):
        return []
    host = _host(fault)
    if host in ("localhost", "127.0.0.1", "::1", "0.0.0.0"):
        return ["Nothing listens on that port inside the sandbox; services outside it cannot be reached as localhost."]
    refused = any(_REFUSED.search(_text(link)) for link in fault.chain())
    name = host or "HOST"
    reason = f"`{name}` is not among the allowed hosts" if refused else "The network is off in this sandbox"
    return [
        f'{reason}. To allow it: Network(allow=["{name}"]) or --allow-host {name}. '
        "Or use data that is in the working directory."
    ]


def _is_network(fault: Fault) -> bool:
    for link in fault.chain():
        if isinstance(link, (socket.gaierror, ConnectionRefusedError)):
            return True
        if isinstance(link, OSError) and link.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH):
            return True
        if isinstance(link, PermissionError) and fault.packages() & {"socket", "asyncio", "_socket"}:
            return link.filename is None
        if isinstance(link, OSError) and _NETWORK_WORDS.search(_text(link)):
            return True
        if type(link).__module__.partition(".")[0] in ("httpx", "httpcore") and "Connect" in type(link).__name__:
            return True
    if isinstance(fault.exc, PermissionError) and fault.line is not None:
        return "socket" in fault.line.text and fault.exc.filename is None
    return False


def _host(fault: Fault) -> str | None:
    """The host that was asked for: from the frames that tried, the error's own text, or the line."""
    return next(iter(_hosts(fault)), None)


def _hosts(fault: Fault) -> Iterator[str]:
    for link in fault.chain():
        url = getattr(getattr(link, "request", None), "url", None)
        if url is not None:
            yield from _found_in(str(url))
    for link in fault.chain():
        yield from _found_in(_text(link))
    if fault.line is not None:
        yield from _found_in(fault.line.text)
        for _, value in fault.line.values():
            if isinstance(value, str):
                yield from _found_in(value[:2000])
    for step in reversed(fault.steps):
        found = _host_in_frame(step.frame.f_locals)
        if found:
            yield found


def _host_in_frame(variables: Any) -> str | None:
    host = variables.get("host")
    if not isinstance(host, str):
        host = getattr(variables.get("self"), "host", None)
    if not isinstance(host, str):
        address = variables.get("address")
        host = address[0] if isinstance(address, tuple) and address else None
    return host if isinstance(host, str) and re.fullmatch(r"[A-Za-z0-9.-]+", host) else None


def _found_in(text: str) -> Iterator[str]:
    for pattern in _HOST:
        found = pattern.search(text)
        if found:
            yield found[1]


def _text(link: BaseException) -> str:
    try:
        return str.__str__(str(link))[:4000]
    except Exception:
        return ""


def _files(workdir: str) -> Iterator[str]:
    """Files in the workdir, relative to it, at most 200, three folders deep."""
    todo = [("", 0)]
    count = 0
    while todo:
        folder, depth = todo.pop(0)
        try:
            entries = sorted(os.scandir(os.path.join(workdir, folder)), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            path = os.path.join(folder, entry.name)
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                if depth < _FOLDERS_DEEP:
                    todo.append((path, depth + 1))
                continue
            count += 1
            if count > FILES:
                return
            yield path
