"""Worker: a process that carries out shards for a driver on another machine, whoever starts it.

It says which groundbox, Python and environment it has, and refuses a shard of a driver that has others. It keeps one
event loop and a copy of each work that it was given lately, so that the templates of its sandboxes are started once.
"""

from __future__ import annotations

import functools
import gc
import inspect
import os
import platform
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

from groundbox.dataset import files
from groundbox.dataset.executor import Shard
from groundbox.dataset.processes import NEW_OBJECTS, Answer, portable, work_of
from groundbox.errors import EnvironmentFailed
from groundbox.jail import NAMESPACES
from groundbox.jail.probe import missing, probe
from groundbox.sandbox import environments
from groundbox.sandbox.portal import PORTAL
from groundbox.version import own_version

DEFAULT: Final = "default"


class Identity(NamedTuple):
    """What decides the bytes that a process writes, beside the work and the shard.

    Attributes:
        code: Digest of groundbox's own Python files.
        environment: Interpreter and lock of what guests import, or why there is none.
        of: Name of that environment.
    """

    version: str
    code: str
    python: str
    machine: str
    environment: str
    of: str

    def differences(self, other: Identity) -> str:
        """Tell which differ, `here` (of this one) first."""
        pairs = zip(self._fields, self, other, strict=True)
        return ", ".join(f"{name}: {mine} here, {theirs} there" for name, mine, theirs in pairs if mine != theirs)


class Greeting(NamedTuple):
    """What a worker process says of itself and its machine before it is given anything.

    Attributes:
        lacking: Why no sandbox can be made there, or "".
    """

    identity: Identity
    lacking: str
    niceness: int


def identity(environment: str = DEFAULT) -> Identity:
    """The identity of this process, whose guests are to import from this environment."""
    try:
        found = environments.get(environment)
        told = f"{'.'.join(map(str, found.python_version))} {found.lock_sha256[:16]}"
    except EnvironmentFailed as error:
        told = str(error)
    return Identity(
        version=own_version(),
        code=files.digest(Path(__file__).parents[1])[:16],
        python=".".join(map(str, sys.version_info[:2])),
        machine=platform.machine(),
        environment=told,
        of=environment,
    )


def greet(environment: str) -> Greeting:
    """Say who this process is, before it is given anything."""
    return Greeting(_own(environment), _lacking(), os.nice(0))


def serve(expected: Identity, data: bytes, shard: Shard) -> Answer:
    """Carry out a shard for a driver, on the event loop of this process where the work runs programs.

    Args:
        expected: The driver's identity.
        data: The work, pickled.
    """
    begun = time.process_time()
    if _own(expected.of) != expected:
        return Answer(None, _own(expected.of), 0.0)
    error: Exception | str | None = None
    runs_programs = False
    try:
        part = work_of(data)(shard)
        if runs_programs := inspect.iscoroutine(part):
            part = PORTAL.call(part)
    except Exception as raised:
        part, error = None, portable(raised)
    return Answer(part, error, time.process_time() - begun if runs_programs else 0.0)


@functools.cache
def _own(environment: str) -> Identity:
    _begin()
    return identity(environment)


@functools.cache
def _begin() -> None:
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])
    # A process that is spawned runs its parent's main module first: Ray's, which imports Ray.
    vars(sys.modules["__main__"]).pop("__file__", None)


@functools.cache
def _lacking() -> str:
    lacking = missing(probe(), backend=NAMESPACES, waive=frozenset())
    return "; ".join(f"{each.layer}: {each.detail}" for each in lacking)
