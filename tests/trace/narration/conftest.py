"""Traces of the programs beside this file, and narrations held to their claims."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from groundbox.trace.claims import Status, prove
from groundbox.trace.narration.document import document
from groundbox.trace.narration.narration import Narration
from groundbox.trace.reading import Trace

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


@pytest.fixture(scope="session")
def unproven() -> Callable[[Narration, Trace], list[str]]:
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
def is_so() -> Callable[..., bool]:
    """Whether a claim is so at any record of a run."""

    def found(trace: Trace, kind: str, subject: str, value: str) -> bool:
        claims = [{"kind": kind, "subject": subject, "value": value, "step": step} for step in range(len(trace))]
        sentence = {"text": "It is so.", "claims": claims}
        proof = prove("It is so.", trace, claims={"schema": "groundbox.claims/1", "sentences": [sentence]})
        return any(verdict.status is Status.SUPPORTED for verdict in proof.verdicts)

    return found
