"""A code interpreter of DSPy, alone and under dspy.RLM with a scripted model."""

import pytest

pytest.importorskip("dspy", reason="DSPy is not installed here: make adapters")

import dspy
from dspy.primitives.code_interpreter import CodeExecutionError, CodeInterpreter, CodeInterpreterError, FinalOutput
from dspy.utils import DummyLM

from groundbox import Limits
from groundbox.agent.adapters.dspy_interpreter import GroundboxInterpreter


@pytest.fixture
def interpreter():
    made = GroundboxInterpreter(limits=Limits(wall_s=5.0))
    yield made
    made.shutdown()


def test_it_is_an_interpreter_by_the_protocol(interpreter):
    assert isinstance(interpreter, CodeInterpreter)


def test_state_and_variables_live_on(interpreter):
    interpreter.start()
    interpreter.execute("x = len(names)", {"names": ["a", "b"]})

    assert interpreter.execute("print('said')\nx + 40") == "said\n42"
    assert interpreter.execute("x = 1") is None
    assert interpreter.execute("names") == "['a', 'b']"


def test_tools_run_on_the_host_and_may_change(interpreter):
    interpreter.tools["double"] = lambda number: 2 * number
    assert interpreter.execute("double(number=21)") == "42"

    async def later(word):
        return word.upper()

    interpreter.tools["later"] = later
    assert interpreter.execute("later('x') + str(double(1))") == "'X2'"


def test_a_tool_that_fails_fails_in_the_code(interpreter):
    interpreter.tools["fail"] = lambda: {"other": 1}["missing"]

    with pytest.raises(CodeExecutionError, match="fail failed with KeyError") as told:
        interpreter.execute("fail()")
    assert "missing" not in str(told.value)
    assert interpreter.execute("1 + 1") == "2"


@pytest.mark.parametrize(
    ("fields", "call", "expected"),
    [
        (None, "SUBMIT([1, 'a'])", {"output": [1, "a"]}),
        (["answer", "why"], "SUBMIT(42, why='because')", {"answer": 42, "why": "because"}),
        (["answer", "why"], "SUBMIT(answer=None, why={'a': 1.5})", {"answer": None, "why": {"a": 1.5}}),
    ],
)
def test_what_is_submitted_ends_the_code(interpreter, fields, call, expected):
    interpreter.output_fields = None if fields is None else [{"name": name} for name in fields]

    assert interpreter.execute(f"{call}\nraise ValueError('never')") == FinalOutput(expected)


@pytest.mark.parametrize("call", ["SUBMIT()", "SUBMIT(1, 2)", "SUBMIT(other=1)", "SUBMIT(1, output=2)"])
def test_what_cannot_be_submitted_is_told(interpreter, call):
    with pytest.raises(CodeExecutionError, match="SUBMIT takes output"):
        interpreter.execute(call)


def test_code_that_is_none_is_a_syntax_error(interpreter):
    with pytest.raises(SyntaxError, match="invalid syntax|never closed"):
        interpreter.execute("print(")


def test_a_timeout_can_be_mended(interpreter):
    interpreter = GroundboxInterpreter(limits=Limits(wall_s=0.5))
    interpreter.execute("x = 42")
    with pytest.raises(CodeExecutionError, match="stopped at wall_s=0.5"):
        interpreter.execute("import time; time.sleep(60)")

    assert interpreter.execute("x") == "42"
    interpreter.shutdown()


def test_a_session_that_has_ended_stays_so(interpreter):
    with pytest.raises(CodeInterpreterError, match="the process is gone and its variables with it"):
        interpreter.execute("import os; os._exit(1)")
    with pytest.raises(CodeInterpreterError, match="the session has ended"):
        interpreter.execute("1")


def test_variables_that_cannot_be_handed_over_are_told(interpreter):
    with pytest.raises(CodeInterpreterError, match="could not be handed over"):
        interpreter.execute("thing", {"thing": object()})
    with pytest.raises(CodeInterpreterError, match="cannot be a name"):
        interpreter.execute("1", {"not a name": 1})
    with pytest.raises(CodeInterpreterError, match="would hide a function"):
        interpreter.execute("1", {"SUBMIT": 1})


def test_a_language_model_program_computes_and_asks_a_model_in_it(caplog):
    lm = DummyLM(
        [
            {"reasoning": "Look at it.", "code": "total = sum(numbers)\nprint('the total is', total)"},
            {
                "reasoning": "Ask.",
                "code": "word = llm_query('Say something.')\nprint(type(word).__name__, len(word) > 0)",
            },
            {"asked": "yes"},
            {"reasoning": "Done.", "code": "SUBMIT(answer=total + 36)"},
        ]
    )
    program = dspy.RLM("numbers: list[int] -> answer: int", interpreter_factory=GroundboxInterpreter, max_iters=5)

    with dspy.context(lm=lm):
        result = program(numbers=[1, 2, 3])

    outputs = [step["output"] for step in result.trajectory]
    assert result.answer == 42
    assert "the total is 6" in outputs[0]
    assert "str True" in outputs[1]
    assert "sub-agents are unavailable" not in caplog.text


def test_what_dspy_tells_of_its_own_bounds_is_told_in_full():
    lm = DummyLM([{"reasoning": "Ask.", "code": "llm_query('')"}, {"reasoning": "Done.", "code": "SUBMIT(answer=1)"}])
    program = dspy.RLM("number: int -> answer: int", interpreter_factory=GroundboxInterpreter, max_iters=2)

    with dspy.context(lm=lm):
        result = program(number=1)

    assert "prompt cannot be empty" in result.trajectory[0]["output"]


def test_what_code_prints_has_nothing_that_acts_where_it_is_shown(interpreter):
    assert (
        interpreter.execute("print('\\x1b[31mred \u202e ![](https://a.example)')")
        == "red \\u202e ![] (https://a.example)"
    )
