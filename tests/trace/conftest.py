"""Traces for tests, made by running a program: in a sandbox, or in this process by the tracer that guests use.

And what claims about them are so, and which of a narration are not.
"""

import io
import sys
import types

import pytest

import groundbox
from groundbox.guest.trace import tracer
from groundbox.guest.trace.native.build import NotBuilt
from groundbox.trace.claims import Status, prove
from groundbox.trace.narrate.document import document
from groundbox.trace.narrate.narration import Narration
from groundbox.trace.record.reading import Trace, assemble
from groundbox.trace.record.schema import Entry
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


@pytest.fixture(scope="session")
def unproven():
    """What of a narration is not borne out, word by word, by the claims that it comes with.

    Of a run that is folded only what is not so: "iterations 3 to 9 ran without a record" has no claim of each word.
    """

    def found(narration: Narration, trace: Trace) -> list[str]:
        proof = prove(narration.text, trace, claims=document(narration, trace), strict=not trace.folded)
        text = proof.text
        wrong = [
            f"{each.status}: {text[each.claim.start : each.claim.end]!r}: {each.message}"
            for each in proof.verdicts
            if each.status is not Status.SUPPORTED
        ]
        loose = (part for part in (*proof.numbers, *proof.words) if not part.covered)
        wrong += [
            f"in no claim: {text[part.start : part.end]!r} in {text[part.start - 50 : part.end]!r}" for part in loose
        ]
        wrong += [f"goes back: {text[slice(*proof.sentences[place])]!r}" for place in proof.misplaced]
        wrong += [f"left out before: {text[slice(*proof.sentences[place])]!r}" for place in proof.gaps]
        return wrong + ["another result"] * (proof.answer is False)

    return found


@pytest.fixture(scope="session")
def is_so():
    """Whether a claim is so at any record of a run."""

    def found(trace: Trace, kind: str, subject: str, value: str) -> bool:
        claims = [{"kind": kind, "subject": subject, "value": value, "step": step} for step in range(len(trace))]
        sentence = {"text": "It is so.", "claims": claims}
        proof = prove("It is so.", trace, claims={"schema": "groundbox.claims/1", "sentences": [sentence]})
        return any(verdict.status is Status.SUPPORTED for verdict in proof.verdicts)

    return found


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
