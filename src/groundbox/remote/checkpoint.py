"""A checkpoint of a sandbox on a server, with the attributes of a local one."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from groundbox.errors import CheckpointLost, GroundboxError, ServerRefused
from groundbox.remote.transport import Reply
from groundbox.sandbox.portal import PORTAL

if TYPE_CHECKING:
    from groundbox.remote.connect import Connection


class Unwanted:
    """Checkpoints of one sandbox that nobody here wants any more, until the server has heard of it.

    They are taken note of at once, from any thread and from a garbage collection, and told on the sandbox's loop.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._paths: list[str] = []
        self._telling = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, path: str) -> None:
        """Drop this one soon. Never waits or raises; where the loop has ended, the server keeps it with its sandbox."""
        self._paths.append(path)
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._begin)

    async def drop(self) -> None:
        """Drop those that wait for it; who comes while others are at it finds them dropped afterwards."""
        async with self._telling:
            while self._paths:
                with contextlib.suppress(GroundboxError):
                    await self._connection.ask("DELETE", self._paths.pop())

    def _begin(self) -> None:
        if self._paths:
            task = self._loop.create_task(self.drop())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


class RemoteCheckpoint:
    """The state of a sandbox on a server at one moment. See Checkpoint.

    The server keeps it until it is dropped, nobody here has this object any more, or its sandbox ends.

    Attributes:
        gone: Why it can no longer be gone back to, as far as that is known here without asking.
    """

    def __init__(self, connection: Connection, path: str, unwanted: Unwanted) -> None:
        self._connection, self._path, self._unwanted = connection, path, unwanted
        self.gone = ""
        self._is_there = True

    @property
    def lost(self) -> str:
        """Why it can no longer be gone back to; empty as long as it can. Asks the server, and waits for its answer.

        Raises:
            ServerUnreachable: The server does not answer.
        """
        if not self.gone:
            with contextlib.suppress(CheckpointLost):
                self.gone = PORTAL.call(self.ask("GET")).json()["lost"]
        return self.gone

    def drop(self) -> None:
        """Give back what it holds. Idempotent; may be called from any thread, and waits for nothing."""
        if self._is_there:
            self.let_go("it was dropped")
            self._unwanted.add(self._path)

    def let_go(self, why: str) -> None:
        """Take note that the server has it no more."""
        self._is_there, self.gone = False, self.gone or why

    async def ask(self, method: str, path: str = "") -> Reply:
        """One request about it.

        Raises:
            CheckpointLost: The server says so, or knows of none.
        """
        try:
            return await self._connection.ask(method, self._path + path)
        except CheckpointLost as error:
            self.gone = self.gone or error.why  # and the server keeps that word until it is dropped
            raise
        except ServerRefused as refused:
            if refused.status != 404:
                raise
            self.let_go("the server has no such checkpoint any more")
            raise CheckpointLost(self.gone) from None

    def __del__(self) -> None:
        self.drop()
