"""Traces for tests, made by running a program: in a sandbox, or in this process by the tracer that guests use."""

import io
import sys
import types

import pytest

import groundbox
from groundbox.guest.trace import tracer
from groundbox.guest.trace.native.build import NotBuilt
from groundbox.trace.reading import Trace, assemble
from groundbox.trace.schema import Entry
from tests.tracers import built

MEMORY_BYTES = 8 * 1024 * 1024


@pytest.fixture(scope="session")
def traced():
    """The trace of a program, run in a sandbox."""

    def run(source, **options):
        execution = groundbox.run(source, **{"mode": "script", "hash_seed": 0, "trace": True, **options})
        trace = execution.trace
        if "trace" in options and trace.core != "native":
            pytest.skip("there is no native tracer, and the plain one folds nothing")
        assert trace.complete, (trace.reasons, execution.error, execution.stderr)
        return trace

    return run


@pytest.fixture(scope="session")
def recorded(pytestconfig):
    """The trace of a program, recorded in this process."""
    made = built(sys.executable, pytestconfig.cache.mkdir("tracers"))
    if isinstance(made, NotBuilt):
        pytest.skip(made.reason)
    tracer.NATIVE = str(made)
    return record


def record(source: str, call: str = "", *arguments: object, soft_events: int = 20_000) -> Trace:
    """Run a program, and one of its functions if one is named, and return the trace."""
    code = compile(source, "main.py", "exec")
    memory = bytearray(MEMORY_BYTES + 8)
    namespace = types.ModuleType("program").__dict__
    outcome = "ok"
    shown, sys.stdout = sys.stdout, io.TextIOWrapper(io.BytesIO())  # as a program finds it
    recording = tracer.start(code, source, memory, soft_events=soft_events)
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
