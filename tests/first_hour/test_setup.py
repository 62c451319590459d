"""What `make setup` chooses and says, and the command line of a checkout, with interpreters that only answer."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def pythons(tmp_path):
    """Make an interpreter that says of itself what is given, in a folder of PATH."""

    def make(name, says, status=0):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\necho '{says}'\nexit {status}\n")
        path.chmod(0o755)
        return path

    return make


def choose(tmp_path, python=""):
    environ = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "HOME": str(tmp_path), "PYTHON": str(python)}
    return subprocess.run(
        ["sh", ROOT / "scripts/setup.sh", "choose"], env=environ, cwd=tmp_path, capture_output=True, text=True
    )


def test_the_newest_python_is_taken_though_another_comes_first_on_path(tmp_path, pythons):
    pythons("python3", "3.11.4 venv /first")
    pythons("python3.12", "3.12.1 venv /older")
    pythons("python3.13", "3.13.2 venv /newest")

    assert choose(tmp_path).stdout == "3.13.2 venv /newest\n"


def test_a_python_that_the_user_may_not_start_is_passed_over(tmp_path, pythons):
    pythons("python3.13", "3.13.2 venv /closed").chmod(0o644)
    pythons("python3.12", "3.12.1 venv /open")

    assert choose(tmp_path).stdout == "3.12.1 venv /open\n"


def test_a_python_that_breaks_or_makes_no_venv_is_passed_over_for_an_older_one(tmp_path, pythons):
    pythons("python3.13", "pyenv: python3.13: command not found", status=127)
    pythons("python3.12", "3.12.1 no-venv /without")
    pythons("python3.11", "3.11.4 venv /with")

    assert choose(tmp_path).stdout == "3.11.4 venv /with\n"


def test_pythons_of_pyenv_and_uv_are_found_without_their_shims(tmp_path, pythons):
    for folder, name, says in (
        (".pyenv/versions/3.12.9/bin", "python", "3.12.9 venv /pyenv"),
        (".local/share/uv/python/cpython-3.13.1-linux-x86_64-gnu/bin", "python3.13", "3.13.1 venv /uv"),
    ):
        (tmp_path / folder).mkdir(parents=True)
        pythons(name, says).rename(tmp_path / folder / name)

    assert choose(tmp_path).stdout == "3.13.1 venv /uv\n"


def test_python_decides_against_a_newer_one(tmp_path, pythons):
    pythons("python3.13", "3.13.2 venv /newest")
    asked = pythons("mine", "3.11.4 venv /mine")

    assert choose(tmp_path, asked).stdout == "3.11.4 venv /mine\n"


@pytest.mark.parametrize(("says", "lines"), [("3.11.4 venv /mine", 1), ("3.12.1 venv /mine", 0)])
def test_what_an_older_python_costs_is_said(tmp_path, pythons, says, lines):
    stderr = choose(tmp_path, pythons("mine", says)).stderr

    assert stderr.count("\n") == lines
    assert ("3.11 does what later ones do, more slowly" in stderr) is bool(lines)


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ("Python 3.10.13, and groundbox needs 3.11 to 3.13", "Python 3.10.13, and groundbox needs 3.11 to 3.13"),
        ("the free-threaded build", "the free-threaded build"),
        ("", "no Python that runs"),
    ],
)
def test_a_python_that_cannot_be_used_is_refused_in_a_line(tmp_path, pythons, says, why):
    path = pythons("mine", says, status=1)

    refused = choose(tmp_path, path)

    assert (refused.returncode, refused.stdout) == (3, "")
    assert refused.stderr == f"setup: {path} is {why}; say PYTHON=/path/to/python3, or leave it out\n"


def test_a_real_python_says_what_is_so(tmp_path):
    version, makes, path = choose(tmp_path, "/usr/bin/python3").stdout.split()

    assert os.path.realpath("/usr/bin/python3") == path
    assert version.startswith("3.1")
    assert makes in ("venv", "no-venv")


@pytest.mark.parametrize(("asked", "made"), [("", False), ("python3.12", False), ("python3.11", True)])
def test_another_python_asked_for_later_is_not_ignored(tmp_path, asked, made):
    for name in ("Makefile", "pyproject.toml", "requirements/dev.txt", "scripts/setup.sh"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    stamp = tmp_path / ".venv/stamp"
    stamp.parent.mkdir()
    stamp.write_text("python3.12")

    planned = subprocess.run(["make", "-n", "setup", f"PYTHON={asked}"], cwd=tmp_path, capture_output=True, text=True)

    assert planned.returncode == 0, planned.stderr
    assert ("setup.sh" in planned.stdout) is made


def test_the_checkouts_command_works_from_any_folder_and_through_a_link(tmp_path):
    checkout = tmp_path / "a checkout"
    (checkout / ".venv/bin").mkdir(parents=True)
    shutil.copy(ROOT / "groundbox", checkout)
    (checkout / ".venv/bin/groundbox").symlink_to("/bin/echo")
    (tmp_path / "link").symlink_to(checkout / "groundbox")

    done = subprocess.run([tmp_path / "link", "run", "-c", "6 * 7"], cwd="/", capture_output=True, text=True)

    assert (done.returncode, done.stdout, done.stderr) == (0, "run -c 6 * 7\n", "")


def test_a_checkout_that_is_not_set_up_says_how(tmp_path):
    shutil.copy(ROOT / "groundbox", tmp_path)

    done = subprocess.run([tmp_path / "groundbox", "run"], capture_output=True, text=True)

    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"groundbox: this checkout is not set up; run: make -C '{tmp_path}' setup\n"
