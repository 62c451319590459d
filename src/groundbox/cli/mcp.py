"""`groundbox mcp`: the server of the Model Context Protocol on standard input and output."""

from __future__ import annotations

import asyncio
import os
import sys

import click

from groundbox.cli.ending import ends_tidily
from groundbox.cli.options import Asked, check_host, takes_sandbox
from groundbox.cli.wording import with_options, worded
from groundbox.errors import InvalidArgument
from groundbox.execution import Execution


@click.command()
@takes_sandbox
@ends_tidily
def mcp(asked: Asked) -> int:
    """Serves an agent's client over stdin and stdout: tools that run programs in one sandbox (MCP).

    For a client's configuration: command `groundbox`, arguments `mcp`. The sandbox lives as long as the client
    keeps the connection; nothing else is written to stdout.
    """
    check_host(asked)
    asyncio.run(_serve(asked))
    return 0


async def _serve(asked: Asked) -> None:
    from groundbox.agent.adapters.interpreter import Interpreter
    from groundbox.agent.mcp import MOST_LINE_BYTES, Server

    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader(limit=MOST_LINE_BYTES)
    try:
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    except ValueError:
        raise InvalidArgument("stdin", "must be a pipe or a terminal; a client starts this command by itself") from None
    out = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever prints must not end up in the protocol

    writing = asyncio.Lock()

    async def send(line: bytes) -> None:
        async with writing:
            await asyncio.to_thread(_write, out, line)

    await Server(Interpreter(**vars(asked)), send, read_by_client).serve(lines)


def read_by_client(execution: Execution) -> Execution:
    """The result for a model, which sets nothing itself: settings are options of this server."""
    return worded(execution, _of_the_server)


def _of_the_server(text: str) -> str:
    named = with_options(text)
    return named if named == text else f"{named} Options are set where this server is configured: groundbox mcp."


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
