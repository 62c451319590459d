"""Traces of small programs, recorded in this process by the tracer that guests use."""

from __future__ import annotations

import ast
import io
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from groundbox.guest.trace.tracer import start
from groundbox.trace.reading import Trace, assemble
from groundbox.trace.schema import Entry

PROGRAMS = Path(__file__).parent / "programs"
NAMES = sorted(path.stem for path in PROGRAMS.glob("*.py"))
MEMORY_BYTES = 8 * 1024 * 1024

Recorder = Callable[..., Trace]


def record(source: str, call: str = "", *arguments: object, soft_events: int = 20_000) -> Trace:
    """Run a program, and one of its functions if one is named, and return the trace."""
    code = compile(source, "main.py", "exec")
    memory = bytearray(MEMORY_BYTES + 8)
    namespace = types.ModuleType("program").__dict__
    outcome = "ok"
    shown, sys.stdout = sys.stdout, io.TextIOWrapper(io.BytesIO())  # as a program finds it
    recording = start(code, source, memory, soft_events=soft_events, core="settrace")
    try:
        exec(code, namespace)
        if call:
            namespace[call](*arguments)
    except Exception:
        outcome = "error"
    finally:
        recording.stop(ended=True)
        sys.stdout = shown
    size = int.from_bytes(memory[:8], "little")
    return assemble(
        bytes(memory[8 : 8 + size]),
        source=source,
        filename="main.py",
        mode="call" if call else "script",
        entry=Entry(call=call, args=list(arguments)) if call else None,
        python="3.11.7",
        hash_seed=0,
        limits={"soft_events": soft_events, "max_events": 200_000, "max_bytes": MEMORY_BYTES},
        outcome=outcome,
    )


@pytest.fixture
def recorded() -> Recorder:
    return record


@pytest.fixture(params=NAMES)
def program(request: pytest.FixtureRequest) -> Trace:
    """Every program of the folder in turn; its first line says how it is called."""
    return named(request.param)


def named(name: str) -> Trace:
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
def trace_of() -> Callable[[str], Trace]:
    return named
