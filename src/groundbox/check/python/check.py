"""Looking at a Python program that ran without an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from groundbox.check.python import rules_flow, rules_output, rules_pandas, rules_values
from groundbox.check.python.program import Finding, Program, parsed
from groundbox.check.python.tiers import tier_of
from groundbox.errors import InvalidArgument
from groundbox.execution import Execution, Warning

MOST_WARNINGS: Final = 50
_MOST_OF_ONE: Final = 5
_ORDER: Final = {"error": 0, "warn": 1, "note": 2}

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
        Nothing for a run that failed, or for a source that is no Python, has more than 50,000 characters or is nested
        deeper than anybody writes.

    Raises:
        InvalidArgument: The execution is one of another language.
    """
    if not isinstance(source, str):
        raise InvalidArgument("source", f"must be the program's text, not {type(source).__name__}")
    if not isinstance(execution, Execution):
        raise InvalidArgument("execution", f"must be what a run returned, not {type(execution).__name__}")
    if execution.language != "python":
        raise InvalidArgument("execution", f"is of a program in {execution.language!r}; this looks at Python only")
    tree = parsed(source) if execution.ok else None
    if tree is None:
        return []
    program = Program(source, tree, execution)
    if program.flow.is_cut:
        return []
    found: dict[tuple[str, int | None], Finding] = {}
    for rule in RULES:
        for finding in _at_most(rule(program)):
            found.setdefault((finding.code, finding.line), finding)
    warnings = [_warning(finding) for finding in found.values()]
    return sorted(warnings, key=lambda warning: _ORDER[warning.tier])[:MOST_WARNINGS]


def _at_most(findings: Iterator[Finding]) -> list[Finding]:
    kept: list[Finding] = []
    try:
        for finding in findings:
            kept.append(finding)
            if len(kept) == _MOST_OF_ONE:
                break
    except RecursionError:  # an expression of hundreds of terms
        return kept
    return kept


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
