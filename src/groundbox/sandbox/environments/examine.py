"""Asking an environment's own interpreter: what the environment holds, and whether it works."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from groundbox.errors import EnvironmentFailed

INSIDE: Final = Path(__file__).parent / "inside"
SELF_TEST_S: Final = 600.0


def describe(venv: Path) -> dict[str, Any]:
    """What `inside/describe.py` says about a venv.

    Raises:
        EnvironmentFailed: Its interpreter does not run.
    """
    try:
        told = subprocess.run(
            [venv / "bin/python", "-I", "-B", INSIDE / "describe.py"],
            capture_output=True, stdin=subprocess.DEVNULL, check=True, timeout=60,
        )  # fmt: skip
        facts: dict[str, Any] = json.loads(told.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        said = (getattr(error, "stderr", b"") or b"").decode(errors="replace").strip()
        raise EnvironmentFailed(f"the interpreter of {venv} does not run: {error}\n{said[-2000:]}".rstrip()) from error
    return facts


def self_test(version: Path, import_names: Sequence[str]) -> list[str]:
    """Runs `inside/selftest.py` in a version or a build, and returns one line for each test that failed."""
    caches = version / "caches" / "matplotlib"
    caches.mkdir(parents=True, exist_ok=True, mode=0o755)
    with tempfile.TemporaryDirectory(prefix="groundbox-selftest-") as scratch:
        results = Path(scratch) / "results"
        environ = {
            "HOME": scratch,
            "LANG": "C.UTF-8",
            "MPLBACKEND": "agg",
            "MPLCONFIGDIR": str(caches),
            "PATH": f"{version}/venv/bin:/usr/bin:/bin",
            "TMPDIR": scratch,
        }
        try:
            tested = subprocess.run(
                [version / "venv/bin/python", "-I", "-B", INSIDE / "selftest.py", results, *import_names],
                cwd=scratch, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE, umask=0o022, timeout=SELF_TEST_S, check=False,
            )  # fmt: skip
            ended = f"ended with {tested.returncode}"
            said = tested.stderr.decode(errors="replace").strip()[-2000:]
        except subprocess.TimeoutExpired:
            ended, said = f"did not end within {SELF_TEST_S:.0f} s", ""
        lines = results.read_text("utf-8").splitlines() if results.exists() else []
    return _failures([json.loads(line) for line in lines], ended, said)


def _failures(lines: Sequence[Mapping[str, Any]], ended: str, said: str) -> list[str]:
    failures = [f"{line['test']}: {line['failed']}" for line in lines if line.get("failed") is not None]
    if lines and "failed" not in lines[-1]:
        failures.append(f"{lines[-1]['test']}: the interpreter {ended}\n{said}".rstrip())
    if not lines and ended != "ended with 0":
        failures.append(f"the interpreter {ended}\n{said}".rstrip())
    return failures


def imports_of(requirements: Sequence[str], facts: Mapping[str, Any]) -> list[str]:
    """What to import to see that an environment works: one entry for each package asked for.

    A distribution may bring modules that only work beside others, as duckdb does for ADBC, so that
    the module of its own name stands for it, or any (`a|b`) when none is called like it.

    Args:
        requirements: What was asked for; nothing said, the distributions that no other one requires.
        facts: From `describe`.
    """
    entries = []
    for wanted in [distribution_of(each) for each in requirements] or facts["roots"]:
        names = [each for each, distribution in facts["import_names"].items() if distribution == wanted]
        same = [each for each in names if distribution_of(each) == wanted]
        if public := same or [each for each in names if not each.startswith("_")]:
            entries.append("|".join(public))
    return entries


def distribution_of(requirement: str) -> str:
    """The distribution that a requirement names, in the form that PEP 503 compares by."""
    name = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()
