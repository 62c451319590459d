"""The backend landlock: DuckDB, which may not open files that it looks for, and hosts that forbid keyrings."""

import errno
import subprocess
import sys

import pytest

import groundbox as gb
from groundbox.errors import EnvironmentFailed, SandboxUnavailable

OPENS = "import duckdb\nprint(duckdb.sql('SELECT 6 * 7').fetchall()[0][0])"


@pytest.mark.parametrize("profile", ["science", "bare"])
@pytest.mark.parametrize("mode", ["cell", "script"])
def test_duckdb_opens_a_database_in_each_kind_of_program(profile, mode, reachable_environment):
    ran = gb.run(OPENS, mode=mode, backend="landlock", profile=profile, environment=reachable_environment)

    assert (ran.outcome, ran.stdout) == ("ok", "42\n"), ran.stderr


def test_sql_runs(reachable_environment):
    ran = gb.run("SELECT 6 * 7 AS n", language="sql", backend="landlock", environment=reachable_environment)

    assert ran.outcome == "ok", ran.stderr
    assert "42" in ran.text


@pytest.fixture
def reachable_environment():
    """An environment whose interpreter a guest's user id can enter, as there is no root of a sandbox's own."""
    for name in ("default", "open-to-others"):
        try:
            gb.run("1", backend="landlock", profile="bare", environment=name)
        except (SandboxUnavailable, EnvironmentFailed) as refused:
            reason = str(refused)
        else:
            return name
    pytest.skip(reason)


WITHOUT_KEYCTL = """
import sys
from groundbox.jail import kernel, seccomp
LOAD_NUMBER, EQUALS, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | int(sys.argv[2])
Step = seccomp.Instruction
kernel.prctl("PR_SET_NO_NEW_PRIVS", 38, 1)
seccomp.Filter((
    Step(LOAD_NUMBER, 0, 0, 0),
    Step(EQUALS, 0, 1, kernel.numbers()["keyctl"]),
    Step(RETURN, 0, 0, REFUSE),
    Step(RETURN, 0, 0, ALLOW),
)).install()
import groundbox as gb
print(gb.run("print(6 * 7)", backend="landlock", profile="bare", environment=sys.argv[1]).stdout)
"""


@pytest.mark.parametrize("reason", [errno.EPERM, errno.ENOSYS])
def test_a_sandbox_starts_where_an_outer_filter_forbids_keyrings(reason, reachable_environment):
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_KEYCTL, reachable_environment, str(reason)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.stdout.strip() == "42", ran.stderr
