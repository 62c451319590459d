"""Inspect's own checks of sandbox environments, and what they do not ask."""

import tomllib
from pathlib import Path

import pytest

pytest.importorskip("inspect_ai", reason="Inspect is not installed here: make adapters")

from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import basic_agent
from inspect_ai.tool import bash
from inspect_ai.util import (
    OutputLimitExceededError,
    SandboxUnavailableError,
    SandboxUserUnsupportedError,
)
from inspect_ai.util._sandbox.limits import override_max_exec_output_size
from inspect_ai.util._sandbox.registry import registry_find_sandboxenv
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

from groundbox import InvalidArgument
from groundbox.agent.adapters.inspect_sandbox import CommandTimeout, GroundboxConfig, GroundboxSandboxEnvironment

pytestmark = pytest.mark.anyio

IMPOSSIBLE = {"test_exec_as_user": "a sandbox has one user without rights; nobody can be root in it or add users"}


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
async def sandbox_env(anyio_backend, request):
    if request.node.originalname in IMPOSSIBLE:
        request.applymarker(pytest.mark.xfail(reason=IMPOSSIBLE[request.node.originalname], strict=True))
    environments = await GroundboxSandboxEnvironment.sample_init("checks", None, {})
    yield environments["default"]
    await GroundboxSandboxEnvironment.sample_cleanup("checks", None, environments, False)


async def test_a_timeout_keeps_what_was_written_and_the_sandbox(sandbox_env):
    with pytest.raises(CommandTimeout) as stopped:
        await sandbox_env.exec(["sh", "-c", "echo out; echo err >&2; sleep 60"], timeout=1)

    assert (stopped.value.stdout, stopped.value.stderr) == ("out\n", "err\n")
    assert (await sandbox_env.exec(["echo", "on"])).stdout == "on\n"


async def test_a_program_that_is_not_there_is_a_result(sandbox_env):
    result = await sandbox_env.exec(["no-such-program"])

    assert (result.success, result.returncode) == (False, 127)


async def test_more_output_than_the_limit_is_an_error_with_its_beginning(sandbox_env):
    with override_max_exec_output_size(100), pytest.raises(OutputLimitExceededError) as cut:
        await sandbox_env.exec(["seq", "1000"])

    assert cut.value.truncated_output.startswith("1\n2\n")
    assert len(cut.value.truncated_output) == 100


async def test_a_sandbox_that_has_ended_is_unavailable(sandbox_env):
    await sandbox_env.exec(["true"])
    await GroundboxSandboxEnvironment.sample_cleanup("checks", None, {"default": sandbox_env}, True)

    with pytest.raises(SandboxUnavailableError, match="closed"):
        await sandbox_env.exec(["true"])
    with pytest.raises(SandboxUnavailableError, match="closed"):
        await sandbox_env.read_file("f")


async def test_only_the_own_user_may_be_asked_for(sandbox_env):
    assert (await sandbox_env.exec(["true"], user="guest")).success
    with pytest.raises(SandboxUserUnsupportedError, match="'root'"):
        await sandbox_env.exec(["true"], user="root")


async def test_a_configuration_bounds_the_sandbox():
    config = GroundboxConfig(limits={"wall_s": 1.0, "memory_bytes": 64 << 20})
    environments = await GroundboxSandboxEnvironment.sample_init("checks", config, {})

    with pytest.raises(CommandTimeout, match="wall_s=1.0"):
        await environments["default"].exec(["sleep", "60"])
    await GroundboxSandboxEnvironment.sample_cleanup("checks", config, environments, False)
    assert GroundboxSandboxEnvironment.config_deserialize(config.model_dump()) == config


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ("compose.yaml", "takes no file"),
        (GroundboxConfig(limits={"cpus": 2}), "has none of these: cpus"),
        (GroundboxConfig(limits={"wall_s": 0}), "must be above 0"),
    ],
)
async def test_a_configuration_that_cannot_be_meant_is_refused(config, problem):
    with pytest.raises(InvalidArgument, match=problem):
        await GroundboxSandboxEnvironment.sample_init("checks", config, {})


def test_inspect_finds_it_by_the_entry_point_of_the_package():
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert project["entry-points"]["inspect_ai"] == {"groundbox": GroundboxSandboxEnvironment.__module__}
    assert registry_find_sandboxenv("groundbox") is GroundboxSandboxEnvironment


def test_an_evaluation_runs_its_tools_in_it(tmp_path):
    calls = [
        ModelOutput.for_tool_call(
            "mockllm/model", "bash", {"command": "cat given.txt; hostname; python -c 'print(6 * 7)'"}
        ),
        ModelOutput.for_tool_call("mockllm/model", "submit", {"answer": "42"}),
    ]
    for call in calls:
        call.usage = ModelUsage()  # or Inspect would fetch a tokenizer to count
    task = Task(
        dataset=[Sample("What is 6 * 7?", target="42", files={"given.txt": "given\n"})],
        solver=basic_agent(tools=[bash()]),
        scorer=includes(),
        sandbox="groundbox",
    )

    (log,) = evaluate(
        task, model=get_model("mockllm/model", custom_outputs=calls), log_dir=str(tmp_path), display="none"
    )

    assert log.error is None
    assert (log.status, log.results.scores[0].metrics["accuracy"].value) == ("success", 1.0)
    told = [message.text for message in log.samples[0].messages if message.role == "tool"]
    assert told[0] == "given\ngroundbox\n42\n"
