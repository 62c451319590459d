"""A sandbox in the engine in the background against the public suite: its user sees no other behaviour."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("uvicorn", reason="the extra `server` is not installed here")

import groundbox as gb
from groundbox.remote import background
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
