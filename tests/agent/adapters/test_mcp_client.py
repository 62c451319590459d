"""The server of the Model Context Protocol, called by the clients of the protocol's own package and by an agent."""

import asyncio
import os
import re
import sys

import pytest

pytest.importorskip("mcp.client.client", reason="mcp is not installed here: make adapters")

from mcp.client.client import Client
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

SERVER = StdioServerParameters(
    command=sys.executable,
    args=["-m", "groundbox", "mcp"],
    env={name: os.environ[name] for name in ("PATH", "PYTHONPATH", "HOME", "GROUNDBOX_HOME") if name in os.environ},
)


def parts(text):
    """What stands between marks, part by part."""
    return {name: told for name, _, told in re.findall(r"<(\w+) (\w{8})>\n(.*?)\n</\1 \2>", text, re.DOTALL)}


def test_a_client_without_sessions_finds_and_calls_the_tools():
    async def work():
        async with Client(stdio_client(SERVER)) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            await client.call_tool("run_code", {"code": "x = 6"})
            return client.protocol_version, names, await client.call_tool("run_code", {"code": "x * 7"})

    version, names, result = asyncio.run(work())

    assert (version, names) == ("2026-07-28", ["run_code", "write_file", "read_file", "restart"])
    assert parts(result.content[0].text) == {"value": "42"}
    assert (result.is_error, result.structured_content) == (False, None)


def test_a_client_with_a_session_finds_and_calls_the_tools():
    async def work():
        async with stdio_client(SERVER) as (read, write), ClientSession(read, write) as session:
            begun = await session.initialize()
            listed = await session.list_tools()
            return begun, listed, await session.call_tool("run_code", {"code": "1 / 0"})

    begun, listed, result = asyncio.run(work())

    assert begun.protocol_version == "2025-11-25"
    assert len(listed.tools) == 4
    assert result.is_error
    assert "ZeroDivisionError" in result.content[0].text


def test_an_agent_of_the_openai_sdk_runs_a_program():
    agents = pytest.importorskip("agents", reason="the OpenAI Agents SDK is not installed here: make adapters")
    from agents.mcp import MCPServerStdio
    from agents.testing import ScriptedModel, assistant_message, function_call

    agents.set_tracing_disabled(True)
    call = function_call("run_code", '{"code": "6 * 7"}', call_id="1")
    model = ScriptedModel([[call], [assistant_message("It is 42.")]])

    async def work():
        given = {"command": SERVER.command, "args": SERVER.args, "env": SERVER.env}
        async with MCPServerStdio(given, client_session_timeout_seconds=60) as server:
            return await agents.Runner.run(agents.Agent("a", model=model, mcp_servers=[server]), "What is 6 * 7?")

    result = asyncio.run(work())

    assert result.final_output == "It is 42."
    assert "42" in str(result.new_items[1].output)


def test_an_agent_of_pydantic_ai_is_given_the_text_and_the_picture():
    mcp = pytest.importorskip("pydantic_ai.mcp", reason="pydantic-ai's MCP client is not installed here: make adapters")
    from fastmcp.client.transports import StdioTransport
    from pydantic_ai import BinaryContent

    async def work():
        transport = StdioTransport(command=SERVER.command, args=SERVER.args, env=SERVER.env)
        async with mcp.MCPToolset(transport) as tools:
            number = await tools.direct_call_tool("run_code", {"code": "6 * 7"})
            code = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"
            return number, await tools.direct_call_tool("run_code", {"code": code})

    number, plot = asyncio.run(work())

    assert parts(number) == {"value": "42"}
    assert isinstance(plot[0], str)
    assert any(isinstance(part, BinaryContent) and part.media_type == "image/png" for part in plot)
