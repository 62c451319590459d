"""The demo of a fleet, run as `make fleet-demo` runs it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed here")

DEMO = Path(__file__).parents[2] / "examples" / "fleet_demo.py"


@pytest.mark.slow
@pytest.mark.needs_root(reason="machines are made of namespaces and links")
def test_the_demo_of_a_fleet_sees_what_the_page_says():
    done = subprocess.run([sys.executable, DEMO], capture_output=True, text=True, timeout=280)
    if done.returncode == 3:
        pytest.skip(done.stderr.strip())

    told = json.loads(done.stdout)

    assert done.returncode == 0, done.stderr
    assert told["joined"] == ["machine-1", "machine-2", "machine-3"]
    assert told["lost_after_s"] < 8
    assert told["calls_of_others"] > 10
    assert told["failed_calls_of_others"] == 0
    assert (told["generation"], told["stays_lost"], told["goes_on"]) == (2, True, True)
    assert told["new_go_to"] == ["machine-1", "machine-2"]
    assert told["left_with"] == 0
