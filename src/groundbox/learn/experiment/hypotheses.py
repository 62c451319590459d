"""Hypotheses of the experiment, written down before any two arms were compared (docs/experiment.md).

All are about new programs of the distribution that was learnt from, of three steps and more, all seeds together: the
split `same`, and from H12 on the same questions with replies drawn by chance. H10 to H13 are tries after H4 and H5 did
not hold, and were written down before any model was trained for them. A measure is given, for each question, what each
arm said of it, seed by seed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from groundbox.learn.experiment.data import DRAWN, SAME
from groundbox.learn.experiment.scoring import Scored, truth

LEAST_STEPS: Final = 3
_ROUNDING: Final = 1e-9
Questions = Sequence[tuple[Sequence[Scored], ...]]
Truths = Mapping[str, float | None]
"""Step truth of the texts that each arm learns from."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """A claim about arms that the figures bear out or not.

    Attributes:
        arms: That it compares, in the order in which `measure` is given what they said.
        bound: What the measure is held against; it may depend on the truth of the texts that are learnt from.
        most: Whether the measure must be at most that, not at least.
        split: Held-out questions that it is about.
    """

    name: str
    says: str
    arms: tuple[str, ...]
    measure: Callable[[Questions, Truths], float | None]
    bound: Callable[[Truths], float]
    most: bool = False
    split: str = SAME

    def holds(self, value: float, truths: Truths) -> bool:
        """Tell whether a measured value is what was asked."""
        bound = self.bound(truths)
        return value <= bound + _ROUNDING if self.most else value >= bound - _ROUNDING


def _said(questions: Questions, place: int) -> list[Scored]:
    return [each for question in questions for each in question[place]]


def _accuracy(questions: Questions, place: int) -> float:
    said = _said(questions, place)
    return sum(each.right for each in said) / len(said)


def _by(questions: Questions, truths: Truths) -> float:
    """By how much the first arm is right more often than the second."""
    return _accuracy(questions, 0) - _accuracy(questions, 1)


def _truth(questions: Questions, truths: Truths) -> float | None:
    return truth(_said(questions, 0))


def _truth_by(questions: Questions, truths: Truths) -> float | None:
    first, second = truth(_said(questions, 0)), truth(_said(questions, 1))
    return None if first is None or second is None else first - second


def _tokens(questions: Questions, truths: Truths) -> float:
    first, second = (sum(each.tokens for each in _said(questions, place)) for place in (0, 1))
    return first / max(1, second)


def _half_of_texts(other: str) -> Callable[[Truths], float]:
    """Half of what the texts of another arm and those of `proven` differ in truth."""
    return lambda truths: ((truths["proven"] or 0.0) - (truths[other] or 0.0)) / 2


def _constant(value: float) -> Callable[[Truths], float]:
    return lambda truths: value


HYPOTHESES: Final = (
    Hypothesis(
        name="H1", says="proven narrations give at least 15 points more right answers than direct answers",
        arms=("proven", "direct"), measure=_by, bound=_constant(0.15),
    ),
    Hypothesis(
        name="H2", says="proven narrations give at least 10 points more right answers than raw traces",
        arms=("proven", "raw"), measure=_by, bound=_constant(0.10),
    ),
    Hypothesis(
        name="H3", says="of the steps told by models of proven narrations at least 95 % are true",
        arms=("proven",), measure=_truth, bound=_constant(0.95),
    ),
    Hypothesis(
        name="H4",
        says="they are truer than those of models of mutated runs by at least half of what the texts differ",
        arms=("proven", "mutated"), measure=_truth_by, bound=_half_of_texts("mutated"),
    ),
    Hypothesis(
        name="H5", says="an answer of proven narrations has at most a third of the tokens of one of raw traces",
        arms=("proven", "raw"), measure=_tokens, bound=_constant(1 / 3), most=True,
    ),
    Hypothesis(
        name="H6", says="what is told must be of this run: unrelated narrations give at least 15 points fewer right",
        arms=("proven", "unrelated"), measure=_by, bound=_constant(0.15),
    ),
    Hypothesis(
        name="H7", says="steps that do not follow cost: narrations with jumps give at least 5 points fewer right",
        arms=("proven", "jumps"), measure=_by, bound=_constant(0.05),
    ),
    Hypothesis(
        name="H8", says="8.5 % of false values that nothing goes on from cost at most 5 points of right answers",
        arms=("proven", "false8"), measure=_by, bound=_constant(0.05), most=True,
    ),
    Hypothesis(
        name="H9", says="25 % of false values cost at least 5 points of right answers",
        arms=("proven", "false25"), measure=_by, bound=_constant(0.05),
    ),
    Hypothesis(
        name="H10", says="without its words an answer of proven narrations has at most a third of the tokens of raw",
        arms=("bare", "raw"), measure=_tokens, bound=_constant(1 / 3), most=True,
    ),
    Hypothesis(
        name="H11", says="and the words give at most 5 points of right answers",
        arms=("proven", "bare"), measure=_by, bound=_constant(0.05), most=True,
    ),
    Hypothesis(
        name="H12", says="in replies drawn by chance, steps of proven are truer than those of mutated, as H4 asks",
        arms=("proven", "mutated"), measure=_truth_by, bound=_half_of_texts("mutated"), split=DRAWN,
    ),
    Hypothesis(
        name="H13", says="and truer than those of false25 by at least half of what the texts differ",
        arms=("proven", "false25"), measure=_truth_by, bound=_half_of_texts("false25"), split=DRAWN,
    ),
)  # fmt: skip
