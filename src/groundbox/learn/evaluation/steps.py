"""Step truth: which claims of a model's reasoning the recorded run of the program bears out.

Texts are read by the table of wordings of `groundbox.trace.claims`, whoever wrote them.
"""

from __future__ import annotations

import ast
import dataclasses
import zlib
from typing import Any, Final

from groundbox.dataset.cpu_time import CpuTimeExceeded, cpu_limit
from groundbox.dataset.executor import Shard
from groundbox.trace.claims import Kind, Proof, Status, prove
from groundbox.trace.claims.operands import about_the_run
from groundbox.trace.record.reading import Trace
from groundbox.values import literals
from groundbox.values.literals import NotALiteral

MOST_CHARS: Final = 200_000
STAGE: Final = "steps"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Steps:
    """Claims of a reasoning beside the record of the run.

    Attributes:
        told: Claims about the run that are made. A comparison of constants is one where its sentence tells the
            condition whose operands they are, and else none (`groundbox.trace.claims.operands`).
        borne_out: Those that a record shows.
        refuted: Those of which a record shows otherwise; the others are not found in it.
        sentences: Of the reasoning.
        first_false: Number of the first sentence with a refuted claim, counted from 1; None without any.
        first_unproven: The same for one that is not borne out, refuted or not.
        follows: Whether the reasoning tells the answer that was given as its result: True, False (another one), or
            None (it tells none, or the question asks for something else).
    """

    told: int
    borne_out: int
    refuted: int
    sentences: int
    first_false: int | None
    first_unproven: int | None
    follows: bool | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stepping:
    """Work for `Executor.compute`: the payload has `trace` (compressed), `text`, `answer` ("" for none to follow)."""

    cpu_s: float

    def __call__(self, shard: Shard) -> tuple[Steps | None, str]:
        """See Executor.compute; the steps, or why there are none."""
        payload = shard.payload
        try:
            with cpu_limit(self.cpu_s):
                trace = Trace.loads(zlib.decompress(payload["trace"]), own=True)
                return steps_of(payload["text"], trace, payload["answer"]), ""
        except CpuTimeExceeded:
            return None, f"took over {self.cpu_s:g} s"
        except Exception as error:
            # A text that the prover fails on must not end the work on others; it is counted, and shown.
            return None, f"{type(error).__name__}: {error}"[:300]


def nothing(shard: Shard) -> None:
    """Work for `Executor.compute` that only has a process started, with all that it imports."""


def steps_of(text: str, trace: Trace, answer: str = "") -> Steps:
    """The claims of a reasoning held against a run.

    Args:
        answer: What was answered, as Python writes it; "" where it need not follow from the reasoning.
    """
    text = text[:MOST_CHARS]
    wanted = _value(answer)
    proof = prove(text, trace, **wanted)
    judged = [
        (each.claim.sentence, each.status is Status.SUPPORTED, each.status is Status.REFUTED)
        for each in about_the_run(proof, trace)
    ]
    return _steps(judged, len(proof.sentences), _follows(proof, trace) if wanted else None)


def _follows(proof: Proof, trace: Trace) -> bool | None:
    """Tell whether the answer that a proof was given is the result that the text tells; None where it tells none."""
    if proof.answer is True:
        return True
    entry = trace.header.entry
    told = [
        verdict.claim
        for verdict in proof.verdicts
        if verdict.claim.kind in (Kind.RETURN, Kind.ANSWER)
        and not verdict.claim.general
        and (
            not isinstance(verdict.claim.subject, ast.Call)
            or (entry is not None and ast.unparse(verdict.claim.subject.func) == entry.call)
        )
    ]
    return None if not told and proof.answer is None else False


def _steps(judged: list[tuple[int, bool, bool]], sentences: int, follows: bool | None) -> Steps:
    return Steps(
        told=len(judged),
        borne_out=sum(holds for _, holds, _ in judged),
        refuted=sum(refuted for _, _, refuted in judged),
        sentences=sentences,
        first_false=min((number + 1 for number, _, refuted in judged if refuted), default=None),
        first_unproven=min((number + 1 for number, holds, _ in judged if not holds), default=None),
        follows=follows,
    )


def _value(answer: str) -> dict[str, Any]:
    try:
        return {"answer": literals.parse(answer)} if answer else {}
    except NotALiteral:
        return {}
