"""Shells that hand a command unusual settings: no home, a closed umask, an ASCII locale, small files, no folder."""

import os
import subprocess
import sys

import pytest

from groundbox.errors import EnvironmentFailed
from groundbox.sandbox.environments.store import _data_home

RUN = f"{sys.executable} -m groundbox run --no-engine"


def shell(script, **environ):
    """Run a script of sh; its exit status, stdout and stderr."""
    ran = subprocess.run(["sh", "-c", script], capture_output=True, check=False, env={**os.environ, **environ})
    return ran.returncode, ran.stdout.decode(), ran.stderr.decode()


def test_code_with_letters_of_its_own_runs_in_an_ascii_locale():
    ascii_only = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

    code, printed, _ = shell(f"{RUN} -c 'print(len(\"é日本\"))'", **ascii_only)

    assert (code, printed) == (0, "3\n")


def test_a_folder_that_was_removed_is_named_and_no_traceback(tmp_path):
    (tmp_path / "gone").mkdir()

    code, printed, said = shell(f"cd {tmp_path}/gone && rmdir {tmp_path}/gone && {RUN} -c 1 --out results")

    assert (code, printed) == (3, "")
    assert said == (
        "groundbox: the current folder was removed, and a path was given relative to it; go to another folder\n"
    )


def test_files_and_groups_can_be_used_whatever_the_umask(tmp_path):
    code, _, said = shell(f'umask 0777; {RUN} -c \'open("a.txt", "w").write("x")\' --out {tmp_path}/results')

    assert code == 0, said
    assert (tmp_path / "results").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "results" / "a.txt").stat().st_mode & 0o777 == 0o600


def test_a_limit_of_the_size_of_files_is_named():
    code, printed, said = shell(f"ulimit -f 1; {RUN} -c 'print(1)'")

    assert (code, printed) == (3, "")
    assert "rlimits: a file may have 512 bytes (`ulimit -f`), and 16777216 are needed. Start from a shell " in said


def test_a_soft_limit_of_the_size_of_files_is_raised():
    assert shell(f"ulimit -S -f 1; {RUN} -c 'print(1)'")[:2] == (0, "1\n")


def test_a_user_without_a_home_is_told_where_environments_may_be(monkeypatch):
    for name in ("GROUNDBOX_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as without HOME and an entry of the user database

    with pytest.raises(EnvironmentFailed, match="user 4242 has no home folder: .*export GROUNDBOX_HOME="):
        _data_home()


@pytest.mark.needs_root
def test_groups_are_delegated_to_a_user_without_an_entry_in_the_user_database():
    code, printed, said = shell(f"{sys.executable} -m groundbox doctor --delegate 4242; echo")
    folders = printed.split()
    try:
        assert (code, said) == (0, "")
        assert {os.stat(folder).st_uid for folder in folders} == {4242}
    finally:
        for folder in folders:
            os.rmdir(folder)
