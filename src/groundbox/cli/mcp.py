"""`groundbox mcp`: the server of the Model Context Protocol on standard input and output."""

from __future__ import annotations

import asyncio
import os
import select
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import click

from groundbox.agent.adapters.interpreter import Interpreter
from groundbox.cli import program as programs
from groundbox.cli.ending import ends_tidily
from groundbox.cli.interrupts import run_until_signal
from groundbox.cli.options import Asked, check_host, naming_options, takes_engine, takes_inputs, takes_sandbox
from groundbox.cli.program import Handed, takes_files
from groundbox.cli.results import check_folder, write
from groundbox.cli.terminal import one_line
from groundbox.cli.warm import makers
from groundbox.errors import GroundboxError, GuestFileError, InvalidArgument, ServerUnreachable
from groundbox.execution import Execution
from groundbox.sandbox.sandbox import AsyncSandbox


@click.command()
@takes_files
@click.option("--out", type=Path, metavar="DIR", help="Where to write the files and displays that programs made.")
@click.option(
    "--structured-content",
    is_flag=True,
    help="Add each result as JSON, for programs. Clients that show it to a model then leave out text and pictures.",
)
@takes_sandbox
@takes_inputs
@takes_engine
@ends_tidily
def mcp(files: tuple[str, ...], out: Path | None, structured_content: bool, asked: Asked, *, no_engine: bool) -> int:
    """Serves an agent's client over stdin and stdout: tools that run programs in one sandbox (MCP).

    For a client's configuration: command `groundbox`, arguments `mcp`. The sandbox lives as long as the client
    keeps the connection; nothing else is written to stdout. Files that are handed over lie in the workdir before
    the first program runs.
    """
    with naming_options():
        handed = [programs.hand_over(each, most_bytes=asked.limits.disk_bytes) for each in files]
    if out is not None and (problem := check_folder(out)):
        raise programs.bad("--out", problem)
    check_host(asked)
    run_until_signal(_serve(asked, handed, out, structured=structured_content, no_engine=no_engine))
    return 0


async def _serve(
    asked: Asked, handed: Sequence[Handed], out: Path | None, *, structured: bool, no_engine: bool
) -> None:
    from groundbox.agent.mcp import MOST_LINE_BYTES, Server

    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader(limit=MOST_LINE_BYTES)
    if not _is_pollable(sys.stdin.fileno()):  # asyncio would refuse a file, and wait forever for /dev/null
        raise InvalidArgument("stdin", "must be a pipe or a terminal; a client starts this command by itself")
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever prints must not end up in the protocol

    one_by_one, writing = asyncio.Lock(), set[asyncio.Task[None]]()

    async def write_line(line: bytes) -> None:
        async with one_by_one:
            await asyncio.to_thread(_write, answers, line)

    async def send(line: bytes) -> None:
        # Whoever is called off meanwhile must not let the next line begin before this one has ended.
        task = asyncio.ensure_future(write_line(line))
        writing.add(task)
        task.add_done_callback(writing.discard)
        await asyncio.shield(task)

    async def make() -> AsyncSandbox:
        made = await asyncio.to_thread(makers, asked, {}, no_engine=no_engine)
        sandbox = made.asynchronous()
        try:
            for each in handed:
                await sandbox.files.put(each.host, each.guest)
        except GuestFileError as error:
            await sandbox.close()
            raise programs.bad("--file", str(error)) from None
        return sandbox

    interpreter = _Interpreter(await make(), make)
    kept = None if out is None else _Keeper(out)
    await Server(interpreter, send, kept, structured=structured).serve(lines)


def _is_pollable(descriptor: int) -> bool:
    """Return False for regular files and for devices such as /dev/null, which epoll refuses."""
    with select.epoll() as poll:
        try:
            poll.register(descriptor, select.EPOLLIN)
        except PermissionError:
            return False
    return True


class _Interpreter(Interpreter):
    """One sandbox after another: an engine that ended takes its sandboxes with it, and the next program has another."""

    def __init__(self, sandbox: AsyncSandbox, make: Callable[[], Awaitable[AsyncSandbox]]) -> None:
        super().__init__(sandbox)
        self._make = make

    async def run(self, source: str, language: str = "python", **options: Any) -> Execution:
        """Run one program.

        Raises:
            GroundboxError: The engine ended; whether this program ran is not known, and nothing of the earlier is left.
        """
        try:
            return await super().run(source, language, **options)
        except ServerUnreachable as error:
            self.sandbox = await self._make()
            told = "the next program runs in a fresh sandbox, without variables and files of the earlier ones"
            raise GroundboxError(f"{error.problem}; whether this program ran is not known; {told}") from None

    async def close(self) -> None:
        """End the sandbox."""
        await self.sandbox.close()


class _Keeper:
    """Writes what each run made into a folder; what could not be written is told on stderr."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._runs = 0

    async def __call__(self, execution: Execution) -> str:
        """A sentence for the model. It names no file: names are the guest's words."""
        self._runs += 1
        if not execution.displays and not execution.artifacts and execution.value is None:
            return ""
        try:
            written = await asyncio.to_thread(write, execution, self._out, before=f"run-{self._runs}-")
        except GroundboxError as error:
            click.echo(f"groundbox: {error}", err=True)
            return "The files of this run could not be kept for the user."
        for path, why in written.problems.items():
            click.echo(f"groundbox: {one_line(path)} is not written: {one_line(why)}", err=True)
        count = sum(map(len, written.displays)) + len(written.value) + len(written.artifacts)
        files = "1 file" if count == 1 else f"{count} files"
        return f"{files} of this run {'is' if count == 1 else 'are'} kept for the user." if count else ""


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
