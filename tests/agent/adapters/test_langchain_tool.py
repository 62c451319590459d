"""A LangChain tool that runs programs, called as agents call it, and LangChain's standard tests for tools."""

import asyncio
import base64
import re

import pytest

pytest.importorskip("langchain_core", reason="LangChain is not installed here: make adapters")

from langchain_core.messages import ToolMessage
from langchain_tests.integration_tests import ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests

from groundbox import Limits, Sandbox
from groundbox.agent.adapters.langchain_tool import GroundboxTool
from groundbox.errors import SandboxClosed


class Described:
    @property
    def tool_constructor(self):
        return GroundboxTool

    @property
    def tool_invoke_params_example(self):
        return {"code": "6 * 7"}


class TestUnits(Described, ToolsUnitTests):
    pass


@pytest.mark.asyncio
@pytest.mark.filterwarnings("ignore:.*is marked with '@pytest.mark.asyncio'")
class TestStandard(Described, ToolsIntegrationTests):
    pass


@pytest.fixture
def tool():
    made = GroundboxTool(options={"limits": Limits(wall_s=2.0)})
    yield made
    made.close()


def call(tool, code, **arguments):
    message = tool.invoke({"type": "tool_call", "id": "1", "name": tool.name, "args": {"code": code, **arguments}})
    assert isinstance(message, ToolMessage)
    return message


def text(message):
    return message.content if isinstance(message.content, str) else message.content[0]["text"]


def parts(text):
    """What stands between marks, part by part."""
    return {name: told for name, _, told in re.findall(r"<(\w+) (\w{8})>\n(.*?)\n</\1 \2>", text, re.DOTALL)}


def test_variables_and_files_are_kept_over_languages(tool):
    call(tool, "import pandas as pd\ndf = pd.DataFrame({'a': [40, 2]})\nopen('note.txt', 'w').write('kept')")

    assert "42" in text(call(tool, "SELECT sum(a) AS total FROM df", language="sql"))
    assert parts(text(call(tool, "cat note.txt", language="shell"))) == {"stdout": "kept"}


def test_a_picture_comes_as_a_block_and_the_artifact_has_all(tool):
    message = call(tool, "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")

    assert [block["type"] for block in message.content] == ["text", "image"]
    assert base64.b64decode(message.content[1]["base64"]) == message.artifact.displays[0].png
    assert message.artifact.ok


def test_a_failure_is_told_with_its_hint_and_is_no_exception(tool):
    message = call(tool, "prices = {'tea': 3}\nprices['coffee']")

    assert "KeyError: 'coffee'" in text(message)
    assert "hint: The keys of `prices` are: 'tea'." in text(message)
    assert message.status == "success"


def test_a_timeout_keeps_what_was_printed(tool):
    told = text(call(tool, "print('started', flush=True)\nimport time\ntime.sleep(60)"))

    assert parts(told)["stdout"] == "started"
    assert "Timeout: the program was stopped at wall_s=2.0" in told


def test_a_process_that_ended_does_not_stand_in_the_way(tool):
    call(tool, "open('kept.txt', 'w').write('kept')")
    ended = call(tool, "import os\nos._exit(7)")

    assert "the process is gone and its variables with it; files are kept" in text(ended)
    assert parts(text(call(tool, "open('kept.txt').read()"))) == {"value": "'kept'"}


def test_what_cannot_be_meant_is_told_to_the_model(tool):
    message = call(tool, "   ")

    assert (message.status, text(message)) == ("error", "source: is empty; give a program to run")


def test_it_is_called_from_any_event_loop(tool):
    asyncio.run(tool.ainvoke({"code": "x = 42"}))

    assert parts(asyncio.run(tool.ainvoke({"code": "x"}))[0]["text"]) == {"value": "42"}


def test_what_was_given_is_left_to_its_owner():
    with Sandbox() as box:
        tool = GroundboxTool(sandbox=box)
        tool.invoke({"code": "x = 1"})
        tool.close()

        assert box.run("x").text == "1"
    with pytest.raises(SandboxClosed):
        tool.invoke({"code": "x"})


def test_an_agent_calls_it(tool):
    from langchain.agents import create_agent
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage

    class Scripted(GenericFakeChatModel):
        def bind_tools(self, tools, **options):
            return self

    asked = AIMessage("", tool_calls=[{"name": "run_code", "args": {"code": "6 * 7"}, "id": "1"}])
    agent = create_agent(Scripted(messages=iter([asked, AIMessage("It is 42.")])), tools=[tool])

    messages = agent.invoke({"messages": [("user", "What is 6 * 7?")]})["messages"]

    seen, said = map(text, messages[-2:])
    assert (parts(seen), said) == ({"value": "42"}, "It is 42.")
