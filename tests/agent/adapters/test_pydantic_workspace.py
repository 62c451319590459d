"""Pydantic AI's own suite for workspaces, and what it does not ask."""

import asyncio

import pytest

pytest.importorskip("pydantic_ai.workspaces", reason="Pydantic AI is not installed here: make adapters")

from pydantic_ai.workspaces import (
    Workspace,
    WorkspaceOutputLimitError,
    WorkspaceRef,
    WorkspaceTimeoutError,
    WorkspaceUnavailableError,
)
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite

from groundbox import Limits, Sandbox
from groundbox.agent.adapters.pydantic_workspace import GroundboxWorkspace


async def _destroy(backend):
    await GroundboxWorkspace.destroy(backend.ref)


class TestSuite(WorkspaceBackendSuite):
    @pytest.fixture
    def anyio_backend(self):
        return "asyncio"

    @pytest.fixture
    async def backend(self, anyio_backend):
        made = GroundboxWorkspace()
        yield made
        if made.ref is not None:
            await _destroy(made)

    @pytest.fixture
    def fresh_backend(self):
        return GroundboxWorkspace

    @pytest.fixture
    def attach_backend(self):
        return GroundboxWorkspace

    @pytest.fixture
    def destroy_environment(self):
        return _destroy


@pytest.fixture
def workspace():
    with Sandbox(profile="bare", limits=Limits(wall_s=20.0)) as box:
        yield Workspace(GroundboxWorkspace(sandbox=box))


def test_a_timeout_keeps_what_was_written_and_the_sandbox(workspace):
    async def work():
        with pytest.raises(WorkspaceTimeoutError) as stopped:
            await workspace.run("echo out; echo err >&2; sleep 60", shell=True, timeout=0.3)
        return stopped.value, await workspace.run(["echo", "on"])

    error, after = asyncio.run(work())

    assert (error.stdout, error.stderr) == ("out\n", "err\n")
    assert str(error) == "the program was stopped at wall_s=0.3"
    assert after.stdout == "on\n"


def test_each_run_of_an_agent_may_have_an_event_loop_of_its_own(workspace):
    asyncio.run(workspace.write_text("note.txt", "kept"))

    assert asyncio.run(workspace.run(["cat", "note.txt"])).stdout == "kept"


def test_files_are_those_of_the_sandbox_that_was_given():
    with Sandbox(profile="bare") as box:
        workspace = Workspace(GroundboxWorkspace(sandbox=box))
        asyncio.run(workspace.write_text("sub/note.txt", "from outside"))

        assert box.run("open('sub/note.txt').read()").text == "'from outside'"
        asyncio.run(GroundboxWorkspace.destroy(workspace.ref))
        assert box.run("1 + 1").text == "2"


def test_a_file_outside_the_workdir_is_reached(workspace):
    asyncio.run(workspace.write_bytes("/tmp/elsewhere/f", b"x"))

    assert asyncio.run(workspace.run(["cat", "/tmp/elsewhere/f"])).stdout == "x"
    assert asyncio.run(workspace.stat("/tmp/elsewhere/f")).size == 1


def test_a_system_file_is_read_only(workspace):
    with pytest.raises(OSError, match="Read-only file system"):
        asyncio.run(workspace.write_bytes("/etc/passwd", b"x"))


def test_more_output_than_can_be_returned_is_an_error_with_its_beginning(workspace):
    with pytest.raises(WorkspaceOutputLimitError) as cut:
        asyncio.run(workspace.run("head -c 11M /dev/zero | tr '\\0' x", shell=True))

    assert cut.value.stdout == "x" * cut.value.limit


def test_two_megabytes_of_output_are_returned_whole(workspace):
    done = asyncio.run(workspace.run("head -c 2M /dev/zero | tr '\\0' x; echo end", shell=True))

    assert done.stdout == "x" * 2**21 + "end\n"


def test_a_line_of_shell_longer_than_an_argument_may_be_runs(workspace):
    done = asyncio.run(workspace.run(f"printf %s '{'x' * 200_000}' | wc -c", shell=True))

    assert (done.exit_code, done.stdout) == (0, "200000\n")


def test_a_sandbox_that_a_command_ended_is_unavailable_with_the_reason():
    backend = GroundboxWorkspace(limits=Limits(wall_s=5.0, memory_bytes=64 << 20, disk_bytes=1 << 30))
    workspace = Workspace(backend)

    async def work():
        with pytest.raises(WorkspaceUnavailableError, match="memory_bytes=67108864"):
            await workspace.run("cat /dev/zero > full", shell=True)
        with pytest.raises(WorkspaceUnavailableError, match="memory_bytes"):
            await workspace.exists("full")
        await GroundboxWorkspace.destroy(backend.ref)

    asyncio.run(work())


@pytest.mark.parametrize("ref", [WorkspaceRef(provider="groundbox", id="gone"), WorkspaceRef(provider="local", id="/")])
def test_a_ref_that_names_no_sandbox_here_makes_none(ref):
    with pytest.raises((WorkspaceUnavailableError, ValueError), match="there is no sandbox|is one of 'local'"):
        asyncio.run(GroundboxWorkspace(ref).working_dir())


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), float("nan")])
def test_a_timeout_that_cannot_be_meant_is_a_value_error(workspace, timeout):
    with pytest.raises(ValueError, match="wall_s"):
        asyncio.run(GroundboxWorkspace(workspace.ref).run(["true"], timeout=timeout))


def test_an_agent_runs_commands_in_it():
    from pydantic_ai import Agent, RunContext
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    def model(messages, info):
        returned = [part for part in messages[-1].parts if part.part_kind == "tool-return"]
        if returned:
            return ModelResponse(parts=[TextPart(f"It says {returned[0].content}")])
        return ModelResponse(parts=[ToolCallPart("shell", {"line": "python3 -c 'print(6 * 7)'"})])

    agent = Agent(FunctionModel(model))

    @agent.tool
    async def shell(ctx: RunContext[None], line: str) -> str:
        return (await ctx.workspace.run(line, shell=True)).stdout

    backend = GroundboxWorkspace()
    result = agent.run_sync("What is 6 * 7?", workspace=backend)
    asyncio.run(GroundboxWorkspace.destroy(backend.ref))

    assert result.output == "It says 42\n"
