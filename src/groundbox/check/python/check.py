"""Looking at a Python program that ran without an error."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, Final

from groundbox.check.python import rules_flow, rules_output, rules_pandas, rules_values
from groundbox.check.python.program import MOST_SOURCE_CHARS, Finding, Program, parsed
from groundbox.check.python.steps import MOST_STEPS, Exhausted, Steps
from groundbox.check.python.tiers import gravity, tier_of
from groundbox.errors import InvalidArgument
from groundbox.execution import Execution, Warning

MOST_WARNINGS: Final = 50
_MOST_OF_ONE: Final = 5

Rule = Callable[[Program], Iterator[Finding]]
RULES: Final[tuple[Rule, ...]] = (
    rules_flow.swallowed_exceptions,
    rules_flow.constant_answer,
    rules_flow.unseeded_randomness,
    rules_values.float_money,
    rules_values.float_equality,
    rules_values.text_number_comparison,
    rules_values.identity_with_literal,
    rules_values.mutable_defaults,
    rules_values.naive_times,
    rules_pandas.chained_assignment,
    rules_output.warnings_printed,
    rules_output.not_a_number,
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
    found: dict[tuple[str, int | None], Finding] = {}
    for finding in _findings(source, execution, Steps(MOST_STEPS)):
        found.setdefault((finding.code, finding.line), finding)
    warnings = [_warning(finding) for finding in found.values()]
    return sorted(warnings, key=lambda warning: gravity(warning.code))[:MOST_WARNINGS]


def _findings(source: str, execution: Execution, steps: Steps) -> Iterator[Finding]:
    """What the rules find; the last one says what was not looked at, if anything was not."""
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


def _warning(finding: Finding) -> Warning:
    evidence: dict[str, Any] = dict(finding.more)
    if finding.line is not None:
        evidence["line"] = finding.line
    if finding.names:
        evidence["names"] = list(finding.names)
    return Warning(
        code=finding.code,
        tier=tier_of(finding.code),
        message=finding.message,
        evidence=evidence,
        hint=finding.hint,
    )
