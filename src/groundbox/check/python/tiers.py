"""What was counted for each rule, and the tier that follows by the procedure of `groundbox.check.tiers`.

The counts are those of the first look at programs that the rules had not seen: pairs of a wrong and a right program
(tests/check/python, `after` and `late`; those in sight while the rules were made do not count), and recorded
programs that answer as recorded (485 of pyedu-514, 400 of cruxeval-400, 164 of HumanEval; scripts/calibrate_checks.py).
What was mended after a look does not change its counts, so rules may be better than they say.

A program counts as a question, and the pairs and the recorded programs as two databases. No rule was seen with ten
programs, and nothing is known of programs from two sources more: so all are notes. Half of the programs of the pairs
are wrong, and we wrote them; and no recorded program uses pandas.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Final, NamedTuple

from groundbox.check.tiers import TIERS, Measured, measured


class Counts(NamedTuple):
    """What a rule did at the first look.

    Attributes:
        told: Wrong programs that it told: of `pairs` that were written for it, and recorded ones that turned out to be
            wrong (two that answer by chance, for `python.unseeded_random`).
        alarms: Right programs of pairs on which it spoke up.
        recorded: Other recorded programs on which it spoke up; each was looked at, and is right.
    """

    told: int
    pairs: int
    alarms: int
    recorded: int

    @property
    def measured(self) -> Measured:
        """What follows from them."""
        return _measured(self)


@functools.cache
def _measured(counts: Counts) -> Measured:
    of_pairs = min(counts.told, counts.pairs)
    pairs = [1.0] * of_pairs + [0.0] * counts.alarms
    return measured({"pairs": pairs, "recorded": [1.0] * (counts.told - of_pairs) + [0.0] * counts.recorded})


NOTHING: Final = Counts(0, 0, 0, 0)
EVIDENCE: Final[Mapping[str, Counts]] = {
    "pandas.astype_lossy": Counts(1, 1, 1, 0),
    "pandas.astype_overflow": Counts(2, 2, 0, 0),
    "pandas.chained_assignment": Counts(3, 3, 0, 0),
    "pandas.concat_misaligned": Counts(2, 2, 0, 0),
    "pandas.groups_dropped": Counts(2, 2, 1, 0),
    "pandas.merge_empty": Counts(3, 3, 1, 0),
    "pandas.merge_multiplied": Counts(3, 3, 1, 0),
    "pandas.rows_dropped": Counts(2, 2, 1, 0),
    "pandas.text_ordered": Counts(2, 2, 0, 0),
    "pandas.text_summed": Counts(2, 2, 0, 0),
    "pandas.values_lost": Counts(2, 2, 1, 0),
    "python.constant_answer": Counts(3, 4, 1, 0),
    "python.float_equality": Counts(3, 3, 0, 1),
    "python.float_money": Counts(2, 3, 0, 0),
    "python.invalid_value": Counts(1, 1, 0, 0),
    "python.is_literal": Counts(2, 2, 0, 0),
    "python.mutable_default": Counts(2, 2, 0, 1),
    "python.naive_time": Counts(2, 2, 0, 0),
    "python.not_a_number": Counts(2, 2, 0, 2),
    "python.overflow": Counts(2, 2, 0, 0),
    "python.skipped_exception": Counts(0, 0, 0, 4),
    "python.swallowed_exception": Counts(4, 4, 0, 3),
    "python.text_number_compare": Counts(2, 2, 0, 0),
    "python.unseeded_random": Counts(5, 3, 1, 3),
}


def tier_of(code: str) -> str:
    """The tier of a rule or an observer; a note for one without evidence."""
    return EVIDENCE.get(code, NOTHING).measured.tier()


def gravity(code: str) -> tuple[int, float]:
    """What warnings are ordered by: the tier, then how often the rule was right at the least."""
    return TIERS.index(tier_of(code)), -EVIDENCE.get(code, NOTHING).measured.lower
