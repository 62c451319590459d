"""A code executor of AutoGen, alone and in AutoGen's agent for code."""

import asyncio
import re

import pytest

pytest.importorskip("autogen_core", reason="AutoGen is not installed here: make adapters")

from autogen_agentchat.agents import CodeExecutorAgent
from autogen_agentchat.messages import TextMessage
from autogen_core import CancellationToken
from autogen_core.code_executor import CodeBlock

from groundbox import Limits
from groundbox.agent.adapters.autogen_executor import GroundboxCodeExecutor
from groundbox.errors import SandboxClosed


def results(*messages, **options):
    """Of each message, a list of `(code, language)`."""

    async def work():
        async with GroundboxCodeExecutor(**{"limits": Limits(wall_s=2.0), **options}) as executor:
            found = []
            for blocks in messages:
                given = [CodeBlock(code=code, language=language) for code, language in blocks]
                done = await executor.execute_code_blocks(given, CancellationToken())
                found.append((done.exit_code, done.output))
            return found

    return asyncio.run(work())


def parts(text):
    """What stands between marks, part by part."""
    return {name: told for name, _, told in re.findall(r"<(\w+) (\w{8})>\n(.*?)\n</\1 \2>", text, re.DOTALL)}


def test_blocks_follow_one_another_and_share_files_and_variables():
    found = results(
        [("x = 6\nopen('f', 'w').write('seven')", "python"), ("cat f; echo", "bash")],
        [("print(x * 7)", "py"), ("", "python")],
    )

    assert [code for code, _ in found] == [0, 1]
    assert parts(found[0][1]) == {"value": "5", "files": "f: 5 bytes, application/octet-stream", "stdout": "seven"}
    assert parts(found[1][1]) == {"stdout": "42"}
    assert found[1][1].endswith("\nError: source: is empty")


def test_the_first_that_fails_is_the_last_that_runs():
    ((code, output),) = results([("print('a')", "python"), ("exit 3", "sh"), ("print('b')", "python")])

    assert (code, parts(output)["stdout"]) == (3, "a")
    assert "b" not in output.split("\n")


def test_a_timeout_keeps_what_was_printed():
    ((code, output),) = results([("print('out', flush=True)\nimport time; time.sleep(60)", "python")])

    assert code == 124
    assert output.startswith("python: stopped at its time limit")
    assert parts(output)["stdout"] == "out"


def test_a_language_that_is_not_there_is_told_to_the_model():
    assert results([("x", "cobol")]) == [
        (1, "Error: language: 'cobol' is not known here; there is: python, sql, shell, javascript, dot")
    ]


def test_a_token_stops_the_block_and_variables_live_on():
    async def work():
        async with GroundboxCodeExecutor() as executor:
            await executor.execute_code_blocks([CodeBlock("x = 42", "python")], CancellationToken())
            token = CancellationToken()
            sleeping = CodeBlock("import time; time.sleep(60)", "python")
            running = asyncio.ensure_future(executor.execute_code_blocks([sleeping], token))
            await asyncio.wait([running], timeout=0.3)
            token.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            return await executor.execute_code_blocks([CodeBlock("print(x)", "python")], CancellationToken())

    assert parts(asyncio.run(work()).output) == {"stdout": "42"}


def test_a_restart_forgets_variables_and_keeps_files():
    async def work():
        async with GroundboxCodeExecutor() as executor:
            await executor.execute_code_blocks([CodeBlock("x = 1; open('f', 'w')", "python")], CancellationToken())
            await executor.restart()
            asked = CodeBlock("import os; print('x' in globals(), os.listdir())", "python")
            return await executor.execute_code_blocks([asked], CancellationToken())

    assert parts(asyncio.run(work()).output) == {"stdout": "False ['f']"}


def test_a_stopped_one_says_so():
    async def work():
        executor = GroundboxCodeExecutor()
        await executor.stop()
        await executor.execute_code_blocks([CodeBlock("1", "python")], CancellationToken())

    with pytest.raises(SandboxClosed):
        asyncio.run(work())


def test_the_agent_for_code_runs_what_a_message_holds():
    async def work():
        async with GroundboxCodeExecutor() as executor:
            agent = CodeExecutorAgent("runner", executor, supported_languages=["python", "sql"])
            message = TextMessage(content="Try this:\n```python\nprint(6 * 7)\n```\n", source="writer")
            return await agent.on_messages([message], CancellationToken())

    assert parts(asyncio.run(work()).chat_message.content) == {"stdout": "42"}
