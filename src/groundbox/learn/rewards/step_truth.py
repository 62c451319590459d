"""Reward for true steps: how many of the claims of a reasoning the record of the run bears out.

What would be gained without learning anything is taken away. A fact told again, in whatever words and of whatever
iteration, counts once, so that true sentences repeated do not thin out a false one. A share is of at least `least`
claims, so that a single safe one is not worth as much as a telling. Saying nothing is worth `silent`, by default no
more than saying what is false. Arithmetic and comparisons of constants are claims only where the run worked them out
(`groundbox.trace.claims.operands`), as in `eval model`. Not taken away: claims that are beside the point are as true as
others; what says whether they led anywhere is the reward of the answer, which belongs beside this one.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Final

from groundbox.dataset.cpu_time import CpuTimeExceeded, cpu_limit
from groundbox.dataset.tasks import checking
from groundbox.endpoint.answer import without_thinking
from groundbox.trace.claims import Status, Verdict, prove
from groundbox.trace.claims.operands import about_the_run
from groundbox.trace.record.reading import Trace

MOST_STEP_CHARS: Final = 20_000
"""Of a reasoning; of a longer one the beginning is read."""
_MOST_VALUE_CHARS: Final = 1_000
CPU_S: Final = 10.0
"""For one reasoning. It is kept where the main thread of a process asks, as trainers do."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepTruth:
    """How claims are paid.

    Attributes:
        refuted: What a refuted claim costs, where a true one gives 1; one that no record shows gives 0.
        least: How many claims a whole reward takes.
        silent: The reward of a reply without a claim; None for as much as one whose claims are all refuted.
    """

    refuted: float = 1.0
    least: int = 3
    silent: float | None = None

    def of_text(self, text: str, trace: Trace) -> float:
        """The reward of a reply: what stands before its answer is held against the record."""
        told = without_thinking(text)
        reasoning = "" if told is None else checking.parts(told).reasoning[:MOST_STEP_CHARS]
        try:
            with cpu_limit(CPU_S):
                verdicts = about_the_run(prove(reasoning, trace), trace)
        except CpuTimeExceeded:
            return self._silence
        except Exception:
            # A text that the prover fails on is nothing that was borne out, and must not end the training.
            return self._silence
        return self.of_verdicts(verdicts)

    def of_verdicts(self, verdicts: Sequence[Verdict]) -> float:
        """The reward of claims about a run, from -`refuted` to 1."""
        found = [status for _, status in set(_facts(verdicts))]
        if not found:
            return self._silence
        true, false = found.count(Status.SUPPORTED), found.count(Status.REFUTED)
        return (true - self.refuted * false) / max(len(found), self.least)

    @property
    def _silence(self) -> float:
        return -self.refuted if self.silent is None else self.silent


def _facts(verdicts: Sequence[Verdict]) -> Iterator[tuple[tuple[str, ...], Status]]:
    """Claims about the run with what became of them; what is said of one thing is one fact, however often it is so."""
    for each in verdicts:
        claim = each.claim
        if each.status is not Status.OFF_PROGRAM:
            about = ast.unparse(claim.subject) if isinstance(claim.subject, ast.AST) else ""
            yield (claim.kind, about, repr(claim.value)[:_MOST_VALUE_CHARS]), each.status
