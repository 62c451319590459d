"""Runs guest code where it runs in earnest: in a process of the guest's own interpreter.

The interpreter is that of the default environment, or the one named by GROUNDBOX_GUEST_PYTHON.
Variables such as PYTHONUNBUFFERED that tests may have been started with are kept from it.
"""

import functools
import json
import os
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from groundbox.sandbox import environments

SOURCE = Path(__file__).parents[2] / "src"
DRIVER = Path(__file__).with_name("driver.py")
INTERPRETER = os.environ.get("GROUNDBOX_GUEST_PYTHON") or str(environments.get().python)
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


class Ran(NamedTuple):
    """What came of some cells: each result, each cell's displays, and all output."""

    results: list[dict[str, Any]]
    displays: list[list[dict[str, Any]]]
    stdout: str
    stderr: str

    @property
    def last(self) -> dict[str, Any]:
        return self.results[-1]

    @property
    def error(self) -> dict[str, Any]:
        return self.results[-1]["error"]

    @property
    def value(self) -> Any:
        return self.results[-1]["value"]


class Ended(NamedTuple):
    """How a script ended."""

    returncode: int
    stdout: str
    stderr: str
    reports: list[dict[str, Any]]


@functools.cache
def has(module: str) -> bool:
    """Whether the guest's interpreter can import `module`."""
    return subprocess.run([INTERPRETER, "-c", f"import {module}"], capture_output=True).returncode == 0


def skip_without(*modules: str) -> None:
    """Skip the test, and say why, where the guest's interpreter lacks a module."""
    for module in modules:
        if not has(module):
            pytest.skip(f"{module} is not installed for {INTERPRETER}")


def drive(order: dict[str, Any], cwd: Path) -> tuple[subprocess.CompletedProcess[str], list[Any]]:
    report = cwd.parent / f"{cwd.name}-report.jsonl"
    report.touch()
    done = subprocess.run(
        [INTERPRETER, str(DRIVER), str(SOURCE), str(report), json.dumps(order)],
        cwd=cwd,
        env=CLEAN,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done, [json.loads(line) for line in report.read_text().splitlines()]


@pytest.fixture
def workdir(tmp_path):
    path = tmp_path / "workdir"
    path.mkdir()
    return path


@pytest.fixture
def run_cells(workdir):
    """Run cells one after the other in one process. `needs` names modules that the test is about."""

    def run(*sources: str, ipython: bool = False, needs: tuple[str, ...] = (), **order: Any) -> Ran:
        skip_without(*needs, *(["IPython"] if ipython else []))
        done, lines = drive({"cells": sources, "ipython": ipython, **order}, workdir)
        assert len(lines) == len(sources), done.stderr
        return Ran([x["result"] for x in lines], [x["events"] for x in lines], done.stdout, done.stderr)

    return run


@pytest.fixture
def run_script(workdir):
    """Run a program as a script."""

    def run(source: str, *argv: str, needs: tuple[str, ...] = (), **order: Any) -> Ended:
        skip_without(*needs, *(["IPython"] if order.get("ipython") else []))
        done, lines = drive({"script": source, "argv": argv, **order}, workdir)
        return Ended(done.returncode, done.stdout, done.stderr, lines)

    return run


@pytest.fixture
def run_python(workdir):
    """Run the guest's interpreter itself, for what is to be expected."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [INTERPRETER, *arguments],
            cwd=workdir,
            env=CLEAN,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    return run
