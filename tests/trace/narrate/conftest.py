"""Traces of the programs beside this file."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from groundbox.trace.record.reading import Trace

PROGRAMS = Path(__file__).parent / "programs"
NAMES = sorted(path.stem for path in PROGRAMS.glob("*.py"))

Recorder = Callable[..., Trace]


@pytest.fixture(params=NAMES)
def program(request: pytest.FixtureRequest, recorded: Recorder) -> Trace:
    """Every program of the folder in turn; its first line says how it is called."""
    return named(request.param, recorded)


def named(name: str, record: Recorder) -> Trace:
    """One program of the folder."""
    source = (PROGRAMS / f"{name}.py").read_text()
    wanted = source.partition("\n")[0].removeprefix("#").strip()
    if not wanted:
        return record(source)
    call = ast.parse(wanted, mode="eval").body
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Name)
    return record(source, call.func.id, *(ast.literal_eval(argument) for argument in call.args))


@pytest.fixture
def trace_of(recorded: Recorder) -> Callable[[str], Trace]:
    return lambda name: named(name, recorded)
