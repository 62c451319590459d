"""A process of a sandbox on a server, with the methods of a local one."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import signal
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any

from groundbox.errors import SandboxClosed, ServerUnreachable
from groundbox.sandbox.process import Chunk, Exit, check_signal

if TYPE_CHECKING:
    from groundbox.remote.sandbox import RemoteSandbox


class RemoteProcess:
    """One program that was started in a sandbox on a server. See AsyncProcess, but that `signal` is awaited."""

    def __init__(self, sandbox: RemoteSandbox, told: Mapping[str, Any]) -> None:
        command = told["command"]
        self.command: str | tuple[str, ...] = command if isinstance(command, str) else tuple(command)
        self.tag: str | None = told["tag"]
        self.pid: int = told["pid"]
        self.exit: Exit | None = None
        self._sandbox = sandbox
        self._path = f"/processes/{self.pid}"
        self._chunks: AsyncGenerator[Chunk, None] | None = None

    def __repr__(self) -> str:
        return f"<RemoteProcess {self.pid}: {self.command!r}>"

    async def read(self) -> Chunk | None:
        """The next piece that it wrote; None after the end."""
        if self._chunks is None and self._sandbox.is_closed:
            return None
        if self._chunks is None:
            self._chunks = self._listen()
        try:
            return await anext(self._chunks, None)
        except SandboxClosed:
            if self.exit is None:
                raise
            return None

    async def output(self) -> AsyncGenerator[Chunk, None]:
        """Yield what it writes as it comes, until it has ended."""
        while (chunk := await self.read()) is not None:
            yield chunk

    async def write(self, data: bytes | str) -> None:
        """Give it standard input, or the keys of a terminal."""
        content = data.encode() if isinstance(data, str) else bytes(data)
        await self._sandbox.ask("POST", f"{self._path}/stdin", body=content)

    async def close_stdin(self) -> None:
        """End its standard input."""
        await self._sandbox.ask("POST", f"{self._path}/stdin", query={"close": "1"})

    async def signal(self, number: int) -> None:
        """Send a signal to its process group. Raises what AsyncProcess.signal raises."""
        check_signal(number)
        await self._sandbox.ask("POST", f"{self._path}/signal", body=json.dumps({"signal": int(number)}).encode())

    async def kill(self) -> None:
        """End it and all that descends from it."""
        await self.signal(9)

    async def resize(self, *, rows: int, columns: int) -> None:
        """Tell its terminal another size."""
        body = json.dumps({"rows": rows, "columns": columns}).encode()
        await self._sandbox.ask("POST", f"{self._path}/resize", body=body)

    async def wait(self, *, timeout_s: float | None = None) -> Exit:
        """How it ended.

        Raises:
            TimeoutError: It goes on after `timeout_s`.
        """
        async with asyncio.timeout(timeout_s):
            while self.exit is None:
                query = {"wait_s": "30" if timeout_s is None else f"{min(timeout_s, 30):g}"}
                told = (await self._sandbox.ask("GET", self._path, query=query)).json()
                if told["exit"] is not None:
                    self.exit = Exit(**told["exit"])
        return self.exit

    def end_with_sandbox(self) -> None:
        """Take note that this process was killed because its sandbox was closed."""
        self.exit = Exit(None, signal.SIGKILL)

    async def _listen(self) -> AsyncGenerator[Chunk, None]:
        async with contextlib.aclosing(self._sandbox.events(f"{self._path}/output")) as events:
            async for kind, data in events:
                if kind == "exit":
                    self.exit = Exit(**data)
                    return
                yield Chunk(kind, base64.b64decode(data["base64"]))  # type: ignore[arg-type]
        raise ServerUnreachable("a server ended the output of a process before its end")
