"""Scores of one trained model: right answers, tokens, and the truth of the steps that it tells."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

from groundbox.dataset.cpu_time import CpuTimeExceeded, cpu_limit
from groundbox.learn.evaluation.measures import repeated
from groundbox.learn.evaluation.steps import steps_of
from groundbox.learn.experiment.arms import ANSWER, WORDLESS, claims_without_words
from groundbox.learn.experiment.data import Run

_PROOF_S: Final = 10.0
_NOTHING: Final = (0, 0, 0)
_UNREAD: Final = (0, 0, -1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scored:
    """One reply beside its run.

    Attributes:
        steps: Lines that ran.
        tokens: Of the reply.
        finished: Whether the model ended it itself.
        told, borne_out, refuted: Claims about the run; of a log, what is not borne out is refuted.
        unread: Whether its claims were not looked for, because that took too long.
        repeated: Share of runs of four words that stood in the reply before.
    """

    id: str
    split: str
    steps: int
    right: bool
    tokens: int
    finished: bool
    told: int
    borne_out: int
    refuted: int
    unread: bool
    repeated: float
    reply: str = ""

    def to_json(self) -> dict[str, Any]:
        """A line of `scores.jsonl`."""
        return dataclasses.asdict(self)


def score(arm: str, split: str, run: Run, reply: str, *, tokens: int, finished: bool) -> Scored:
    """Hold a reply against its run: the answer on its last `Answer:` line, and its steps against the record.

    Sentences are read by the table of `groundbox.trace.claims`. Texts without words are held against that of the run:
    each claim by its place and how many times that place came before, so that a step too many or too few is felt by
    what follows at the same line, and nowhere else.
    """
    told, mark, answer = reply.rpartition(ANSWER)
    claims = _NOTHING if arm == "direct" or run.trace is None else _claims(arm, run, told if mark else reply)
    return Scored(
        id=run.id,
        split=split,
        steps=run.steps,
        right=bool(mark) and finished and answer.strip() == run.answer,
        tokens=tokens,
        finished=finished,
        told=claims[0],
        borne_out=claims[1],
        refuted=max(0, claims[2]),
        unread=claims is _UNREAD,
        repeated=repeated(reply),
        reply=reply,
    )


def _claims(arm: str, run: Run, told: str) -> tuple[int, int, int]:
    """How many claims a text makes, and how many of them the run bears out and refutes."""
    assert run.trace is not None
    if arm in WORDLESS:
        so = {
            (place, time): said
            for place, time, said in claims_without_words(arm, run.replies[arm].rpartition(ANSWER)[0])
        }
        judged = [so.get((place, time)) == said for place, time, said in claims_without_words(arm, told)]
        return len(judged), sum(judged), len(judged) - sum(judged)
    try:
        with cpu_limit(_PROOF_S):
            steps = steps_of(told, run.trace)
    except CpuTimeExceeded:
        return _UNREAD
    return steps.told, steps.borne_out, steps.refuted


def truth(scores: Sequence[Scored]) -> float | None:
    """Give the share of all told claims that are borne out; None where none are told."""
    told = sum(each.told for each in scores)
    return sum(each.borne_out for each in scores) / told if told else None
