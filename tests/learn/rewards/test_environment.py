"""The environment that a model calls tools of."""

import inspect

import pytest

import groundbox as gb
from groundbox.errors import InvalidArgument, SandboxLost
from groundbox.learn.rewards.environment import CodingEnvironment
from groundbox.sandbox.portal import Sandbox

ROW = {"entry_point": "double", "tests": ["assert double(2) == 4"], "prompt": "…"}


@pytest.fixture
def environment():
    made = CodingEnvironment(limits=gb.Limits(wall_s=2))
    made.reset(**ROW)
    yield made
    made._end()


def test_a_rollout_runs_code_hands_in_a_program_and_is_rewarded(environment):
    assert environment.run_python("x = 20\nprint('hi')\nx + 1") == "hi\n21"
    assert environment.run_python("x * 2") == "40"
    assert environment.run_python("1 / 0").endswith("ZeroDivisionError: division by zero")
    assert environment.submit("def double(n):\n    '''```'''\n    return n * 2") == "handed in"
    assert environment.get_reward() == 1.0


def test_a_new_rollout_has_a_new_session_and_nothing_handed_in(environment):
    environment.run_python("x = 1")
    environment.submit("def double(n): return n * 2")

    environment.reset(**ROW)

    assert "NameError" in environment.run_python("x")
    assert environment.get_reward() == 0.0


def test_a_session_that_was_ended_begins_afresh(environment):
    environment.run_python("import os; os._exit(1)")
    assert environment.run_python("1 + 1") == "2"


@pytest.mark.parametrize("code", ["", "while True: pass", "\ud800"])
def test_what_a_model_sends_is_answered(environment, code):
    assert environment.run_python(code)


def test_long_output_is_cut(environment):
    assert len(environment.run_python("print('x' * 10 ** 6)")) < 10_000


def test_a_sandbox_that_fails_is_no_zero(environment, monkeypatch):
    def fails(self, *_, **__):
        raise SandboxLost("it went away")

    monkeypatch.setattr(Sandbox, "run", fails)
    with pytest.raises(SandboxLost):
        environment.run_python("1")
    environment.submit("def double(n): return 0")

    assert environment.get_reward() is None


def test_a_row_without_tests_is_refused():
    with pytest.raises(InvalidArgument, match="needs entry_point, and tests or cases"):
        CodingEnvironment().reset(prompt="…")


def test_tools_are_told_from_the_rest_as_trainers_tell_them():
    methods = [name for name, _ in inspect.getmembers(CodingEnvironment, inspect.isfunction) if name[0] != "_"]

    assert methods == ["get_reward", "reset", "run_python", "submit"]
