"""Which programs of `groundbox.run` run in the engine in the background, and the way there.

The first run in a fresh process starts a template, which takes up to seconds; an engine that runs has one already. So
runs go there by default, as those of the command line do, if nothing of them needs the caller's own process: its
functions, databases and files, another backend, a waived layer, limits that a server does not lift, a network or spans
of OpenTelemetry. A `Sandbox` may be asked for any of that later, and uses the engine only if it is told to.
The engine belongs to the same user, listens in a folder that this user alone can enter, and has the same environments.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from groundbox.errors import EngineUnavailable, ServerRefused
from groundbox.jail import NAMESPACES
from groundbox.limits import Limits
from groundbox.network import Network
from groundbox.remote import engine, place
from groundbox.sandbox import options

if TYPE_CHECKING:
    from groundbox.execution import Execution
    from groundbox.remote.connect import Connection

logger = logging.getLogger(__name__)

_OWN_ONLY: Final = (
    *("tools", "databases", "waive", "mounts", "hash_seed", "branching", "undo", "rollback"),
    *("trace", "call", "args", "kwargs", "database"),
)
"""Arguments that keep a sandbox or a run in the caller's process, if they are given."""
_LANGUAGES: Final = frozenset({"python", "sql", "shell", "javascript", "dot"})
_MOST_SENT: Final = 1 << 20
"""Characters or bytes of a program and of its standard input; a request may bring 4 MiB of each."""
_MOST_FILES_BYTES: Final = 64 << 20
"""Of files together: to copy them twice takes longer than a template that starts, and one of 256 MiB is refused."""
_MOST_AT_ONCE: Final = 4 * (os.cpu_count() or 1)
"""Runs of one process in the engine, which has places for twice as many; more would wait for each other."""
_BUSY: Final = 429
_lock = threading.Lock()
_connection: tuple[int, str, Connection] | None = None
"""The process that made it, the engine's socket, and the connection."""
_complained = False
_running = 0


def why_own(given: Mapping[str, Any]) -> str:
    """Return what of these arguments keeps them in the caller's process; empty if the engine takes them."""
    for name in _OWN_ONLY:
        value = given.get(name)
        if value and value != options.DEFAULTS[name]:
            return name
    limits, network = given.get("limits"), given.get("network")
    if limits is not None and (not isinstance(limits, Limits) or None in dataclasses.asdict(limits).values()):
        return "limits"
    if network is not None and (not isinstance(network, Network) or network.allow or network.private_ranges):
        return "network"
    if given.get("backend", NAMESPACES) != NAMESPACES:
        return "backend"
    if given.get("language", "python") not in _LANGUAGES:
        return "language"
    if "opentelemetry" in sys.modules:
        return "opentelemetry"
    return _too_large(given)


def _too_large(given: Mapping[str, Any]) -> str:
    """Return which argument is larger than what is sent to the engine; empty if none is."""
    for name in ("source", "stdin"):
        content = given.get(name)
        if isinstance(content, str | bytes) and len(content) > _MOST_SENT:
            return name
    files = given.get("files")
    contents = files.values() if isinstance(files, Mapping) else ()
    size = sum(len(each) for each in contents if isinstance(each, str | bytes))
    return "files" if size > _MOST_FILES_BYTES else ""


async def run(source: str, given: Mapping[str, Any], chosen: str | None) -> Execution | None:
    """Run one program in the engine; return None if it is for the caller's process, and nothing ran.

    Raises:
        GroundboxError: As `groundbox.run`; ServerUnreachable if the engine ended during the run.
    """
    server = await server_for(chosen, {**given, "source": source})
    if server is None:
        return None
    with _counted() as count:
        if chosen is None and count > _MOST_AT_ONCE:
            return None
        try:
            return await server.run_async(source, **given)
        except ServerRefused as refused:
            if chosen is None and refused.status == _BUSY:
                return None
            raise


@contextlib.contextmanager
def _counted() -> Iterator[int]:
    """Count the runs that this process has in the engine; yield their number with this one."""
    global _running
    with _lock:
        _running += 1
        count = _running
    try:
        yield count
    finally:
        with _lock:
            _running -= 1


async def server_for(chosen: str | None, given: Mapping[str, Any]) -> Connection | None:
    """Return the engine for these arguments; None if they are for the caller's process.

    Args:
        chosen: `own`, `background`, or None for whichever suits. What the engine cannot do it refuses itself.

    Raises:
        EngineUnavailable: The engine is asked for by name and does not start.
    """
    if chosen == "own":
        return None
    if chosen is None and (place.is_off() or why_own(given) or not engine.wanted(_complain)):
        return None
    try:
        path = engine.socket_path()
        if not engine.is_running(path):
            path = await asyncio.to_thread(engine.ensure_running)
    except EngineUnavailable as error:
        if chosen is not None:
            raise
        _complain(f"{error}; programs run in this process, whose first run takes longer")
        return None
    return _connected(path)


def _connected(path: str) -> Connection:
    global _connection
    from groundbox.remote.connect import Connection

    with _lock:
        if _connection is None or _connection[:2] != (os.getpid(), path):
            _connection = os.getpid(), path, Connection(f"unix://{path}", hold=True, is_engine=True)
        return _connection[2]


def _complain(text: str) -> None:
    """Log, once in a process, why the engine is not used."""
    global _complained
    with _lock:
        said, _complained = _complained, True
    if not said:
        logger.warning("%s", text)


def warm(*, environment: str = "default") -> None:
    """Have a process ready that runs programs at once: start the engine, and in it the libraries that programs use.

    When it returns, a program that imports pandas waits for nothing. Without the engine, it does so in this process.

    Args:
        environment: The packages that programs import.
    """
    from groundbox.sandbox.portal import run

    run("1", environment=environment, profile="science")
