"""With pydantic-ai itself, its scripted FunctionModel, and real sandboxes."""

import pytest

pydantic_ai = pytest.importorskip(
    "pydantic_ai", reason="pydantic-ai is not installed: the extra `agent` of groundbox brings it"
)

from pydantic_ai import Agent, messages, models  # noqa: E402
from pydantic_ai.exceptions import UsageLimitExceeded  # noqa: E402
from pydantic_ai.models.function import FunctionModel  # noqa: E402
from pydantic_ai.models.test import TestModel  # noqa: E402
from pydantic_ai.usage import UsageLimits  # noqa: E402

from groundbox.agent.checks import NoChecks, Receipts  # noqa: E402
from groundbox.agent.events import Ending  # noqa: E402
from groundbox.agent.grounded import GroundedAgent  # noqa: E402
from groundbox.agent.messages import Call, Message, ModelFailed, Reply  # noqa: E402
from groundbox.agent.pictures import Picture  # noqa: E402
from groundbox.agent.pydantic_ai.capability import Grounding  # noqa: E402
from groundbox.agent.pydantic_ai.delegate import tool  # noqa: E402
from groundbox.agent.pydantic_ai.model import PydanticModel, history  # noqa: E402
from groundbox.agent.pydantic_ai.toolset import SandboxToolset  # noqa: E402
from groundbox.agent.scripted import ScriptedModel  # noqa: E402
from groundbox.agent.turn import Bounds  # noqa: E402
from groundbox.errors import InvalidArgument  # noqa: E402
from groundbox.execution import Warning  # noqa: E402
from groundbox.sandbox.portal import PORTAL  # noqa: E402

models.ALLOW_MODEL_REQUESTS = False


class Script:
    """A FunctionModel that says one thing after another; a tuple is a call of `run_code`."""

    def __init__(self, *turns):
        self.turns, self.seen, self.info = list(turns), [], None
        self.model = FunctionModel(self)

    def __call__(self, history, info):
        self.seen.append(list(history))
        self.info = info
        turn = self.turns[min(len(self.seen), len(self.turns)) - 1]
        if isinstance(turn, str):
            return messages.ModelResponse(parts=[messages.TextPart(content=turn)])
        name, arguments = ("run_code", {"code": turn[0]}) if isinstance(turn, tuple) else ("run_code", turn)
        return messages.ModelResponse(parts=[messages.ToolCallPart(tool_name=name, args=arguments)])

    def told(self, request=-1):
        """What the last request before a reply told, as text."""
        parts = self.seen[request][-1].parts
        return "\n".join(str(getattr(part, "content", "")) for part in parts)


def run(script, *, capability=None, toolset=None, prompt="How many?", **options):
    agent = Agent(
        script.model,
        capabilities=[capability] if capability else [],
        toolsets=[toolset] if toolset else [],
    )
    return PORTAL.call(agent.run(prompt, **options))


class NumbersPrinted(NoChecks):
    """Receipts of numbers that stand in what was printed."""

    async def of_answer(self, text, runs, question):
        printed = " ".join(ran.execution.stdout for ran in runs)
        missing = [word for word in text.split() if word.isdigit() and word not in printed]
        return Receipts(
            unsupported=[
                Warning(code="answer.no_receipt", tier="error", message=f"{word} was not shown") for word in missing
            ]
        )


def test_a_program_is_run_and_the_host_has_its_execution():
    script = Script(("x = 21",), ("print(2 * x)",), "There are 42 .")

    result = run(script, toolset=SandboxToolset(checks=NoChecks()))

    returns = [
        part for message in result.all_messages() for part in message.parts if isinstance(part, messages.ToolReturnPart)
    ]
    assert result.output == "There are 42 ."
    assert "\n42\n" in returns[1].content
    assert returns[1].metadata["execution"].stdout == "42\n"
    assert "Only the mark with the same eight characters ends it" in script.info.instructions


def test_a_failure_is_a_retry_and_the_number_of_retries_is_bounded():
    mended = Script(("1/0",), ("print(1)",), "1")
    hopeless = Script(("1/0",), ("2/0",), ("3/0",), "I cannot tell.")

    assert run(mended, toolset=SandboxToolset(checks=NoChecks())).output == "1"
    assert "ZeroDivisionError" in mended.told(1)
    result = run(hopeless, toolset=SandboxToolset(bounds=Bounds(max_retries=3), checks=NoChecks()))
    assert result.output == "I cannot tell."
    assert "Nothing more is run: 3 runs in a row" in hopeless.told(3)


def test_a_call_that_cannot_be_meant_is_a_retry():
    script = Script({"code": 3}, {"code": "print(1)", "language": "cobol"}, ("print(1)",), "1")

    run(script, toolset=SandboxToolset(checks=NoChecks()))

    assert "needs `code`" in script.told(1)
    assert "no such language" in script.told(2)


def test_a_sandbox_that_cannot_be_had_is_a_failure_without_retry():
    script = Script(("import os",), "I cannot run anything.")

    result = run(script, toolset=SandboxToolset(checks=NoChecks(), environment="nowhere"))

    assert result.output == "I cannot run anything."
    assert "nowhere" in script.told(1)


def test_a_picture_is_content_of_the_call():
    plot = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"
    script = Script((plot,), "Done.")

    run(script, toolset=SandboxToolset(checks=NoChecks()))

    shown = [
        item
        for part in script.seen[1][-1].parts
        if isinstance(getattr(part, "content", None), list | tuple)
        for item in part.content
        if isinstance(item, messages.BinaryContent)
    ]
    assert [item.media_type for item in shown] == ["image/png"]


def test_usage_limits_of_the_agent_hold():
    with pytest.raises(UsageLimitExceeded):
        run(Script(("1",)), toolset=SandboxToolset(checks=NoChecks()), usage_limits=UsageLimits(request_limit=3))


def test_two_runs_of_an_agent_share_nothing():
    toolset = SandboxToolset(checks=NoChecks())
    run(Script(("x = 1",), "done"), toolset=toolset)
    script = Script(("print('x' in globals())",), "done")

    run(script, toolset=toolset)

    assert "\nFalse\n" in script.told(1)
    assert toolset.session is None


def test_the_capability_asks_once_for_receipts_and_then_names_what_has_none():
    found = []
    capability = Grounding(checks=NumbersPrinted(), files={"a.txt": "42"}, on_receipts=found.append)
    mended = Script(("print(open('a.txt').read())",), "It is 43", "It is 42")
    stubborn = Script(("print(42)",), "It is 43", "It is 44")

    assert run(mended, capability=capability).output == "It is 42"
    assert "borne out by nothing" in mended.told(2)
    assert "43 was not shown" in mended.told(2)
    assert run(stubborn, capability=capability).output == "It is 44\n\nNot borne out by any run:\n- 44 was not shown"
    assert [len(receipts.unsupported) for receipts in found] == [0, 1]


def test_a_grounded_agent_is_a_tool_of_another():
    inner = GroundedAgent(
        ScriptedModel(
            [Reply(calls=[Call(name="run_code", arguments={"code": "print(42)"}, call_id="c")]), "It is 42 ."]
        ),
        checks=NoChecks(),
    )

    def ask(history, info):
        if len(history) == 1:
            part = messages.ToolCallPart(tool_name="ask_data", args={"question": "How many?"})
            return messages.ModelResponse(parts=[part])
        return messages.ModelResponse(parts=[messages.TextPart(content=history[-1].parts[0].content)])

    result = PORTAL.call(Agent(FunctionModel(ask), tools=[tool(inner)]).run("Ask them."))

    assert result.output.split("\n")[1] == "It is 42 ."


def test_a_model_of_pydantic_ai_answers_in_our_loop():
    script = Script(("print(6 * 7)",), "It is 42")

    ended = PORTAL.call(GroundedAgent(PydanticModel(script.model), checks=NoChecks()).ask("How many?"))

    assert ended.ending is Ending.ANSWERED
    assert ended.answer == "It is 42"
    assert "\n42\n" in script.told(1)
    assert {tool.name for tool in script.info.function_tools} == {"run_code", "read_output"}


def test_a_model_that_calls_whatever_it_can_ends_within_the_bounds():
    ended = PORTAL.call(GroundedAgent(PydanticModel(TestModel()), checks=NoChecks()).ask("How many?"))

    assert ended.ending in (Ending.ANSWERED, Ending.BOUND)


def test_results_of_one_reply_go_back_in_one_request():
    calls = [Call(name="run_code", arguments={"code": str(i)}, call_id=f"c{i}") for i in (1, 2)]
    pictures = [Picture(name="p", media_type="image/png", data=b"x")]
    told = history(
        [
            Message(role="system", text="s"),
            Message(role="user", text="q"),
            Message(role="assistant", calls=calls),
            Message(role="tool", text="one", call_id="c1", pictures=pictures),
            Message(role="tool", text="two", call_id="c2"),
        ]
    )

    assert [type(message).__name__ for message in told] == ["ModelRequest", "ModelResponse", "ModelRequest"]
    assert [type(part).__name__ for part in told[2].parts] == ["ToolReturnPart", "UserPromptPart", "ToolReturnPart"]
    assert told[2].parts[0].tool_name == "run_code"


def test_a_model_that_cannot_be_named_is_refused_and_one_that_fails_says_so():
    with pytest.raises(InvalidArgument, match="Unknown model"):
        PydanticModel("nobody:nothing")

    def broken(history, info):
        raise pydantic_ai.exceptions.ModelHTTPError(status_code=500, model_name="m", body="down")

    asked = PydanticModel(FunctionModel(broken)).complete([Message(role="user", text="q")], tools=[])
    with pytest.raises(ModelFailed, match="500"):
        PORTAL.call(asked)
