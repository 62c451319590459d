"""`groundbox environment` and the root command, as programs see them: exit status, stdout, stderr."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture
def groundbox(tmp_path, monkeypatch):
    monkeypatch.setenv("GROUNDBOX_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GROUNDBOX_PYTHON", sys._base_executable)  # type: ignore[attr-defined]  # typeshed has it not
    monkeypatch.setenv("UV_OFFLINE", "1")

    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "groundbox", *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.fixture
def empty_lock(tmp_path):
    path = tmp_path / "empty.txt"
    path.write_text("")
    return path


def test_create_list_check_and_remove(groundbox, empty_lock):
    created = groundbox("environment", "create", "tiny", "--lock", empty_lock)
    listed = groundbox("environment", "list", "--json")
    checked = groundbox("environment", "check", "tiny", "--json")
    removed = groundbox("environment", "remove", "tiny")
    listed_after = groundbox("environment", "list")

    assert (created.returncode, created.stdout) == (0, "")
    assert created.stderr.startswith("tiny: ready, 0 packages, Python ")
    (line,) = listed.stdout.splitlines()
    assert {key: json.loads(line)[key] for key in ("name", "packages", "requirements")} == {
        "name": "tiny",
        "packages": {},
        "requirements": [],
    }
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    assert (removed.returncode, removed.stderr) == (0, "tiny: removed\n")
    assert (listed_after.returncode, listed_after.stdout) == (0, "")


def test_update_rolls_back_in_one_command(groundbox, empty_lock):
    groundbox("environment", "create", "tiny", "--lock", empty_lock)
    first = json.loads(groundbox("environment", "list", "--json").stdout)["version_id"]
    updated = groundbox("environment", "update", "tiny")
    second = json.loads(groundbox("environment", "list", "--json").stdout)["version_id"]

    back = groundbox("environment", "update", "tiny", "--rollback")
    third = json.loads(groundbox("environment", "list", "--json").stdout)["version_id"]
    no_further = groundbox("environment", "rollback", "tiny")

    assert (updated.returncode, back.returncode) == (0, 0)
    assert third == first < second
    assert no_further.returncode == 3
    assert no_further.stderr == "groundbox: environment 'tiny' has no version older than the current one\n"


def test_check_exits_with_3_when_something_is_wrong(groundbox, empty_lock, tmp_path):
    groundbox("environment", "create", "tiny", "--lock", empty_lock)
    python = tmp_path / "home/environments/tiny/current/venv/bin/python"
    python.unlink()
    python.symlink_to("/bin/false")

    checked = groundbox("environment", "check", "tiny", "--json")

    assert checked.returncode == 3
    assert json.loads(checked.stdout)["code"] == "environment.interpreter"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["environment", "check"], 3, "there is no environment 'default'"),
        (["environment", "remove", "tiny"], 3, "there is no environment 'tiny'"),
        (["environment", "create", "UP", "--requirement", "x"], 2, "'UP' is not a name"),
        (["environment", "create", "tiny"], 2, "needs a lock, requirements or a base"),
        (["environment", "create", "tiny", "--lock", "/nowhere"], 2, "does not exist"),
        (["environment", "create", "tiny", "--nonsense"], 2, "No such option"),
        (["environment", "update", "tiny", "--rollback", "--python", "3.12"], 2, "goes with no other option"),
        (["nonsense"], 2, "No such command: nonsense"),
    ],
)
def test_whose_fault_is_told_by_the_exit_status(groundbox, arguments, code, said):
    ran = groundbox(*arguments)

    assert (ran.returncode, ran.stdout) == (code, "")
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_help_and_version_are_no_failure(groundbox):
    shown = groundbox("--help")
    version = groundbox("--version")

    assert shown.returncode == 0
    assert "environment" in shown.stdout
    assert (version.returncode, version.stdout) == (0, "groundbox, version 0.2.0\n")


def test_a_command_imports_no_other_command():
    code = "import sys\nfrom groundbox.cli import main\nprint([m for m in sys.modules if 'environments' in m])"

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout == "[]\n"
