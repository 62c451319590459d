"""A sandbox in the engine in the background against the public suite: its user sees no other behaviour."""

import json
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the extra `server` is not installed here")

import groundbox as gb
from groundbox.errors import InvalidArgument
from groundbox.remote import background
from groundbox.sandbox.answers import read
from groundbox.testing.conformance import BackendConformance

_OWN = "tools are functions of the caller's process: such a sandbox is made with engine='own'"
_ENGINE = [sys.executable, "-m", "groundbox", "engine"]


@pytest.fixture(scope="module", autouse=True)
def engine_pid(tmp_path_factory):
    """Start an engine that nobody else meets, because TMPDIR is part of its name, and stop it afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("engine")))
        patch.setattr(background, "_connection", None)
        subprocess.run([*_ENGINE, "start"], check=True, capture_output=True, timeout=120)
        told = subprocess.run([*_ENGINE, "status", "--json"], check=True, capture_output=True, timeout=60).stdout
        yield json.loads(told)["pid"]
        subprocess.run([*_ENGINE, "stop"], check=True, capture_output=True, timeout=60)


class TestBackground(BackendConformance):
    sandbox_options = {"engine": "background"}
    lacking = {
        "test_a_cell_and_a_script_call_tools": _OWN,
        "test_tools_are_called_at_once_from_a_loop_and_from_threads": _OWN,
        "test_what_a_tool_raises_can_be_caught": _OWN,
        "test_large_and_strange_values_go_to_a_tool_and_back": _OWN,
        "test_results_tell_what_was_called": _OWN,
        "test_each_run_has_a_connection_of_its_own": _OWN,
    }

    def async_sandbox(self):
        return gb.connect("engine").AsyncSandbox(profile="bare")


@pytest.mark.parametrize(
    "given",
    [
        {"source": f"text = '{'x' * (5 << 20)}'\nprint(len(text))"},
        {"mode": "script", "source": "print(len(input()))", "stdin": "x" * (5 << 20)},
        {"source": "import os\nprint(os.path.getsize('large'))", "files": {"large": b"x" * (65 << 20)}},
    ],
    ids=["source", "stdin", "files"],
)
def test_a_run_with_more_than_the_engine_takes_stays_in_the_process(monkeypatch, given):
    monkeypatch.setenv("GROUNDBOX_ENGINE", "on")

    execution = gb.run(profile="bare", **given)

    assert int(execution.stdout) >= 5 << 20


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"profile": "large"}, "profile: 'large' is none of bare, science, node"),
        ({"tools": [len]}, "tools: are functions of this process, which a server cannot call. engine='own' takes it"),
        ({"mounts": {"x": "/etc/hostname"}}, "mounts: are files of this machine.* engine='own' takes it"),
    ],
)
def test_a_sandbox_that_cannot_be_in_the_engine_is_refused_when_it_is_made(given, problem):
    with pytest.raises(InvalidArgument, match=problem):
        gb.Sandbox(engine="background", **given)


def test_arguments_of_a_run_are_refused_in_the_words_of_a_sandbox_of_this_process():
    wrong: list[dict[str, Any]] = [
        {"source": b"1"},
        {"source": "\ud800"},
        {"source": "x" * ((8 << 20) + 1)},
        {"source": "1", "wall_s": 0},
        {"source": "1", "mode": "script", "argv": "x"},
        {"source": "1", "language": "shell", "keep_processes": "yes"},
        {"source": "1", "language": "shell", "env": {"A": 1}},
    ]

    def refusals(box):
        found = []
        for each in wrong:
            with pytest.raises(InvalidArgument) as refused:
                box.run(**each)
            found.append(str(refused.value))
        return found

    with gb.Sandbox(engine="own", profile="bare") as own, gb.Sandbox(engine="background", profile="bare") as there:
        assert refusals(there) == refusals(own)


@pytest.mark.parametrize("value", [(1, 2), {1: 2}, {1}, float("nan"), 1 << 60, b"x"])
def test_arguments_of_a_call_are_the_same_there_or_refused(value):
    plain = [[1, None, "x", 2.5], {"a": [True]}]
    with gb.Sandbox(engine="background", profile="bare") as box:
        called = box.run("def f(*all): return all", mode="call", call="f", args=plain)
        made = box.run("def f(x): return x", mode="calls", call="f", args=[(plain[:1], {}), ([], {"x": 3})])
        with pytest.raises(InvalidArgument, match="engine='own' takes it"):
            box.run("def f(x): return x", mode="call", call="f", args=[[value]])

    assert called.text == repr(tuple(plain))
    assert [each.told for each in read(made)] == [{"list": plain[0]}, 3]
