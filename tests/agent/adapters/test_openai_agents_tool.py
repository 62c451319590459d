"""A tool of the OpenAI Agents SDK, driven by the SDK's runner with its scripted model."""

import asyncio
import json
import re

import pytest

pytest.importorskip("agents", reason="the OpenAI Agents SDK is not installed here: make adapters")

from agents import Agent, Runner, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call

from groundbox import Limits, Sandbox
from groundbox.agent.adapters.openai_agents_tool import GroundboxCode
from groundbox.errors import SandboxClosed


@pytest.fixture(autouse=True)
def _untraced():
    set_tracing_disabled(True)


@pytest.fixture
def heard():
    return []


@pytest.fixture
def code(heard):
    made = GroundboxCode(limits=Limits(wall_s=2.0), on_execution=heard.append)
    yield made
    made.close()


def outputs(code, *arguments):
    """What the model is told of each call."""
    calls = [[function_call("run_code", given, call_id=str(n))] for n, given in enumerate(arguments)]
    model = ScriptedModel([*calls, [assistant_message("done")]])
    result = asyncio.run(Runner.run(Agent("a", model=model, tools=[code.tool]), "Go."))
    assert result.final_output == "done"
    return [item.output for item in result.new_items if item.type == "tool_call_output_item"]


def texts(code, *arguments):
    return [output if isinstance(output, str) else output[0].text for output in outputs(code, *arguments)]


def run(source, language="python"):
    return json.dumps({"code": source, "language": language})


def parts(text):
    """What stands between marks, part by part."""
    return {name: told for name, _, told in re.findall(r"<(\w+) (\w{8})>\n(.*?)\n</\1 \2>", text, re.DOTALL)}


def test_variables_and_files_are_kept_over_languages(code, heard):
    told = texts(
        code,
        run("import pandas as pd\ndf = pd.DataFrame({'a': [40, 2]})\nopen('f', 'w').write('kept')"),
        run("SELECT sum(a) AS total FROM df", "sql"),
        run("cat f", "shell"),
    )

    assert "42" in told[1]
    assert parts(told[2]) == {"stdout": "kept"}
    assert [execution.language for execution in heard] == ["python", "sql", "shell"]


def test_a_picture_is_an_output_of_its_own(code):
    (output,) = outputs(code, run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"))

    assert [part.type for part in output] == ["text", "image"]
    assert output[1].image_url.startswith("data:image/png;base64,iVBOR")


def test_failures_and_timeouts_are_told(code):
    told = texts(code, run("{'tea': 3}['coffee']"), run("print('out', flush=True)\nimport time; time.sleep(60)"))

    assert "KeyError: 'coffee'" in told[0]
    assert parts(told[1])["stdout"] == "out"
    assert "stopped at wall_s=2.0" in told[1]


@pytest.mark.parametrize("arguments", ['{"code": 1}', "{", '{"code": "1", "language": "cobol"}', run("  ")])
def test_what_cannot_be_meant_is_told_to_the_model(code, heard, arguments):
    assert asyncio.run(code.tool.on_invoke_tool(None, arguments)).startswith("Error: ")
    assert heard == []


def test_the_schema_is_strict(code):
    schema = code.tool.params_json_schema

    assert (schema["required"], schema["additionalProperties"]) == (["code", "language"], False)


def test_who_is_cancelled_keeps_the_variables(code):
    async def work():
        await code.tool.on_invoke_tool(None, run("x = 42"))
        waiting = asyncio.ensure_future(code.tool.on_invoke_tool(None, run("import time\ntime.sleep(60)")))
        await asyncio.wait([waiting], timeout=0.3)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        return await code.tool.on_invoke_tool(None, run("x"))

    assert parts(asyncio.run(work())[0].text) == {"value": "42"}


def test_what_was_given_is_left_to_its_owner():
    with Sandbox() as box:
        code = GroundboxCode(sandbox=box)
        code.close()

        assert box.run("1 + 1").text == "2"
    with pytest.raises(SandboxClosed):
        asyncio.run(code.tool.on_invoke_tool(None, run("1")))
