"""Work on the host that comes before a run, such as asking a database: bounded, and ended with the run's caller."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from groundbox.errors import SandboxClosed
from groundbox.execution import Outcome
from groundbox.sandbox.languages import Ahead, Program, Runtime

_INTERRUPTED = {"type": "KeyboardInterrupt", "message": "the run was interrupted"}


class Done(NamedTuple):
    """What was done, and the seconds that it took."""

    ahead: Ahead | None
    wall_s: float


class HostWork:
    """What one sandbox has done for it on the host, one thing at a time."""

    def __init__(self, databases: Mapping[str, Any] | Iterable[str]) -> None:
        """Args:
        databases: Name to what a runtime can ask; names alone are those that the host has configured.
        """
        self.databases = dict(databases) if isinstance(databases, Mapping) else dict.fromkeys(databases)
        self._task: asyncio.Task[Ahead | None] | None = None
        self._interrupted = False
        self._closed = False

    async def run(self, runtime: Runtime, program: Program, wall_s: float | None) -> Done:
        """What the runtime has to do for a program before the guest gets its order.

        Raises:
            SandboxClosed: Meanwhile.
        """
        ahead = getattr(runtime, "ahead", None)
        work = None if ahead is None else ahead(program, self.databases, wall_s)
        if work is None:
            return Done(None, 0.0)
        begun = time.monotonic()
        self._interrupted = False
        task = self._task = asyncio.ensure_future(work)
        try:
            return Done(await task, time.monotonic() - begun)
        except asyncio.CancelledError:
            if self._closed:
                raise SandboxClosed from None
            if not self._interrupted:
                raise
            data = json.dumps({"failure": _INTERRUPTED}).encode()
            return Done(Ahead(data=data, outcome=Outcome.CANCELLED), time.monotonic() - begun)
        finally:
            self._task = None

    def interrupt(self) -> None:
        """End what runs now; it is a result then."""
        if self._task is not None:
            self._interrupted = True
            self._task.cancel()

    def close(self) -> None:
        """End what runs now."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
