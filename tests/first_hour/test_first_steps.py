"""What a user meets before root has delegated control groups: each command refuses in a line with its cure."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from groundbox.errors import SandboxUnavailable
from groundbox.jail import cgroup, probe

ROOT = Path(__file__).parents[2]
# No user of a test machine can be counted on to have none: here, nobody may make a control group.
UNDELEGATED = """
import sys
from groundbox.jail import cgroup
def find():
    raise cgroup.CgroupMissing("no group can be made for memory in /sys/fs/cgroup: Permission denied")
cgroup.find = find
"""
COMMAND_LINE = UNDELEGATED + "from groundbox.cli.main import main; main(sys.argv[1:])"
REASON = "cgroup: no group can be made for memory in /sys/fs/cgroup: Permission denied"


def undelegated(*arguments, program=COMMAND_LINE, stdin=None):
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)], stdin=stdin or subprocess.PIPE, capture_output=True,
        text=True, cwd=ROOT, env={**os.environ, "GROUNDBOX_ENGINE": "off"},
    )  # fmt: skip


COMMANDS: dict[str, Any] = {
    "run": ["run", "-c", "1"],
    "repl": ["repl"],
    "trace": ["trace", ROOT / "examples/programs/1_sales.py"],
    "ask": ["ask", "--replay", ROOT / "examples/conversations/mended_error.jsonl"],
    "mcp": ["mcp"],
    "bench": ["bench"],
    "dataset build": ["dataset", "build", ROOT / "examples/problems/plain.jsonl", "--out", "DATASET"],
    "eval pal": ["eval", "pal", "--samples", "SAMPLES"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_user_without_control_groups_is_told_the_cure_in_one_line(name, tmp_path):
    samples = tmp_path / "samples.jsonl"
    samples.write_text('{"question": "1 + 1", "program": "print(2)", "answer": 2}\n')
    names = {"DATASET": tmp_path / "dataset", "SAMPLES": samples}

    ran = undelegated(*(names.get(each, each) for each in COMMANDS[name]))

    assert (ran.returncode, ran.stdout) == (3, "")
    (line,) = ran.stderr.splitlines()
    assert line.startswith(f"groundbox: refusing to run, because the sandbox would be incomplete: {REASON}. ")
    assert "`--waive cgroup`" in line
    assert os.listdir(tmp_path) == ["samples.jsonl"]


def test_python_code_gets_the_same_as_an_exception_with_its_cure():
    ran = undelegated(program=UNDELEGATED + "import groundbox as gb\ngb.run('1')")

    last = ran.stderr.splitlines()[-1]
    assert last.startswith("groundbox.errors.SandboxUnavailable: refusing to run, because the sandbox would be incom")
    assert last.endswith("in Python `waive=['cgroup']`.")


@pytest.mark.parametrize("example", ["demo.py", "notebook.py"])
def test_an_example_says_so_without_a_traceback(example, tmp_path):
    program = UNDELEGATED + f"import runpy; sys.path.insert(0, 'examples'); sys.argv[1:] = [{str(tmp_path)!r}]\n"
    program += f"runpy.run_path('examples/{example}', run_name='__main__')"

    ran = undelegated(program=program)

    assert ran.returncode == 3
    assert len(ran.stderr.splitlines()) == 1
    assert REASON in ran.stderr


def test_doctor_says_once_what_is_missing_and_ends_with_its_cure():
    people, program = undelegated("doctor"), undelegated("doctor", "--json")

    assert (people.returncode, program.returncode) == (3, 3)
    assert people.stdout.count("Permission denied") == 1
    assert people.stdout.splitlines()[-2:] == [
        "groundbox: not ready, backend namespaces: missing: cgroup",
        f"groundbox: {probe.mend_cgroup()}",
    ]
    verdict = json.loads(program.stdout.splitlines()[-1])
    assert (verdict["kind"], verdict["works"], verdict["mend"]) == ("verdict", False, probe.mend_cgroup())


def test_doctor_judges_the_backend_that_was_asked_for_only():
    waived = undelegated("doctor", "--backend", "landlock", "--json")

    facts = [json.loads(line) for line in waived.stdout.splitlines()]
    assert {each["backend"] for each in facts if "backend" in each} == {"landlock"}
    assert facts[-1]["detail"] != "missing: cgroup"


def test_the_cure_names_the_user_whatever_the_environment_says(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    monkeypatch.setenv("USER", "root")

    assert probe.mend_cgroup().startswith("As root, once per boot: `groundbox doctor --delegate nobody`")


def test_one_reason_of_many_places_is_told_once():
    places = [(f"/sys/fs/cgroup/memory/{name}", "Permission denied") for name in "abc"]

    assert cgroup._refusals(places) == "in /sys/fs/cgroup/memory/a and 2 more places: Permission denied"
    assert cgroup._refusals(places[:1]) == "in /sys/fs/cgroup/memory/a: Permission denied"
    assert cgroup._refusals([("/a", "x"), ("/b", "y")]) == "in /a: x; /b: y"


def test_without_a_cure_doctor_is_named():
    assert str(SandboxUnavailable(["seccomp: none"])).endswith(
        "incomplete: seccomp: none. `groundbox doctor` explains each layer and what to do about it."
    )
