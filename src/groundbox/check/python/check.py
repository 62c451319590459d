"""`check_python`: what speaks against a program that ran, and what was counted for each rule.

The counts are those of the first look at programs that the rules had not seen: pairs of a wrong and a right program
(tests/check/python, `after` and `late`; those in sight while the rules were made do not count), and recorded
programs that answer as recorded (485 of pyedu-514, 400 of cruxeval-400, 164 of HumanEval; scripts/calibrate_checks.py).
What was mended after a look does not change its counts, so rules may be better than they say.

A program counts as a question, and the pairs and the recorded programs as two databases. No rule was seen with ten
programs, and nothing is known of programs from two sources more: so all are notes. Half of the programs of the pairs
are wrong, and we wrote them; and no recorded program uses pandas.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from groundbox.check.python import rules_flow, rules_libraries, rules_objects, rules_unused, rules_values
from groundbox.check.python.flow import MOST_STEPS, Exhausted, Steps
from groundbox.check.python.program import MOST_SOURCE_CHARS, Program, parsed
from groundbox.check.tiers import TIERS, Finding, Measured, measured
from groundbox.errors import InvalidArgument
from groundbox.execution import Execution, Warning


@dataclasses.dataclass(frozen=True)
class Counts:
    """Counts of a rule at the first look.

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

    @functools.cached_property
    def measured(self) -> Measured:
        """Return what follows from them."""
        of_pairs = min(self.told, self.pairs)
        pairs = [1.0] * of_pairs + [0.0] * self.alarms
        return measured({"pairs": pairs, "recorded": [1.0] * (self.told - of_pairs) + [0.0] * self.recorded})


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
    """Return what warnings are ordered by: the tier, then how often the rule was right at the least."""
    return TIERS.index(tier_of(code)), -EVIDENCE.get(code, NOTHING).measured.lower


MOST_WARNINGS: Final = 50
_MOST_OF_ONE: Final = 5

Rule = Callable[[Program], Iterator[Finding]]
RULES: Final[tuple[Rule, ...]] = (
    *rules_flow.RULES,
    *rules_values.RULES,
    *rules_libraries.RULES,
    *rules_unused.RULES,
    *rules_objects.RULES,
)


def check_python(source: str, execution: Execution) -> list[Warning]:
    """Evidence that a Python program which ended well gave a wrong answer; the gravest first.

    The source is read, never run. What observers saw while it ran (`run(…, checks=True)`) is in `execution.warnings`
    already, and not repeated here. Each warning's `evidence` has `line` and `names` where there are any.

    Args:
        source: What was run, as a cell, a script or a module for a call.
        execution: What came of it.

    Returns:
        Nothing for a run that failed, or for a source that is no Python. One that has more than 50,000 characters, is
        nested deeper than anybody writes, or takes more than 500,000 steps to look at, is looked at in part or not at
        all, which the note `python.not_looked_at` says.

    Raises:
        InvalidArgument: The execution is one of another language.
    """
    if not isinstance(source, str):
        raise InvalidArgument("source", f"must be the program's text, not {type(source).__name__}")
    if not isinstance(execution, Execution):
        raise InvalidArgument("execution", f"must be what a run returned, not {type(execution).__name__}")
    if execution.language != "python":
        raise InvalidArgument("execution", f"is of a program in {execution.language!r}; this looks at Python only")
    if not execution.ok:
        return []
    found: dict[tuple[str, int | None], Warning] = {}
    for each in _findings(source, execution, Steps(MOST_STEPS)):
        tier, evidence = tier_of(each.code), dict(each.evidence)
        warning = Warning(code=each.code, tier=tier, message=each.message, evidence=evidence, hint=each.hint)
        found.setdefault((each.code, evidence.get("line")), warning)
    return sorted(found.values(), key=lambda warning: gravity(warning.code))[:MOST_WARNINGS]


def _findings(source: str, execution: Execution, steps: Steps) -> Iterator[Finding]:
    """Yield what the rules find; the last one says what was not looked at, if anything was not."""
    if len(source) > MOST_SOURCE_CHARS:
        yield _not_looked_at(f"it has {len(source)} characters, more than {MOST_SOURCE_CHARS}")
        return
    if (tree := parsed(source)) is None:
        return
    try:
        program = Program(source, tree, execution, steps=steps)
        for rule in RULES:
            yield from _at_most(rule(program))
    except RecursionError:
        yield _not_looked_at("it is nested too deeply")
    except Exhausted:
        yield _not_looked_at(f"that would take more than {MOST_STEPS} steps")


def _at_most(findings: Iterator[Finding]) -> Iterator[Finding]:
    try:
        yield from itertools.islice(findings, _MOST_OF_ONE)
    except RecursionError:  # an expression of hundreds of terms
        return


def _not_looked_at(why: str) -> Finding:
    return Finding(
        code="python.not_looked_at",
        message=f"the program was not looked at to its end: {why}",
        hint="No finding about it says nothing. Take it apart into smaller programs, with data in files.",
    )
