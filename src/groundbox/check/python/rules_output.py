"""Rules on what a run showed: warnings on stderr, and numbers that are none in the answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from groundbox.check.python.program import MOST_TEXT_CHARS, Finding, Program
from groundbox.check.python.rules_pandas import CHAINED_HINT

_WARNED: Final = re.compile(
    r"^[^\n]{0,300}?:(\d{1,7}): ([A-Za-z]{1,40}(?:Warning|Error)): ([^\n]{0,300})", re.MULTILINE
)
_NOT_A_NUMBER: Final = re.compile(r"(?<![\w.])[-+]?(?:nan|NaN|inf|Infinity)(?![\w])")


class _Kind(NamedTuple):
    code: str
    words: str
    hint: str


_KINDS: Final[tuple[tuple[re.Pattern[str], _Kind], ...]] = (
    (
        re.compile(r"ChainedAssignmentError|SettingWithCopyWarning|ChainedAssignmentWarning"),
        _Kind(
            "pandas.chained_assignment",
            "an assignment changed a copy, and the DataFrame stayed as it was",
            CHAINED_HINT,
        ),
    ),
    (
        re.compile(r"RuntimeWarning.*overflow"),
        _Kind(
            "python.overflow",
            "numbers grew beyond their type, and the result is wrong",
            "Use int64, float64 or Python's int.",
        ),
    ),
    (
        re.compile(r"RuntimeWarning.*(?:invalid value|divide by zero|Mean of empty slice|Degrees of freedom|All-NaN)"),
        _Kind(
            "python.invalid_value",
            "a computation had no result, and went on with NaN or infinity",
            "Look for zeros, blanks and empty groups, and say what is to happen with them.",
        ),
    ),
    (
        re.compile(r"ConvergenceWarning|OptimizeWarning|IntegrationWarning"),
        _Kind(
            "python.not_converged",
            "a numerical method gave up before it had its result",
            "Scale the data, or allow more steps.",
        ),
    ),
    (
        re.compile(r"UndefinedMetricWarning"),
        _Kind(
            "python.undefined_metric",
            "a score is not defined for these data and was set to a number",
            "Look at the classes that have no sample.",
        ),
    ),
    (
        re.compile(r"DtypeWarning"),
        _Kind("pandas.mixed_types", "a column of a file holds numbers and texts", "Give dtype=… or clean the column."),
    ),
    (
        re.compile(r"UserWarning.*Could not infer format|UserWarning.*[Pp]arsing dates"),
        _Kind(
            "pandas.guessed_dates", "dates were read by guessing, and day and month may be exchanged", "Give format=…"
        ),
    ),
    (
        re.compile(r"FutureWarning|DeprecationWarning|Pandas\d?Warning"),
        _Kind("python.deprecated", "something that was used will change or go", "Use what the message names."),
    ),
    (
        re.compile(r"SyntaxWarning.*\"is(?: not)?\" with"),
        _Kind("python.is_literal", "two values are asked to be one object", "Use == and !=."),
    ),
)


def warnings_printed(program: Program) -> Iterator[Finding]:
    """Warnings that libraries printed, each kind once."""
    stderr = program.execution.stderr
    found: dict[str, int] = {}
    for match in _WARNED.finditer(stderr[:MOST_TEXT_CHARS]):
        line, category, message = int(match[1]), match[2], match[3]
        kind = _kind_of(f"{category} {message}")
        if kind is None or kind.code in found:
            continue
        found[kind.code] = line
        own = line <= program.source.count("\n") + 1
        yield Finding(
            code=kind.code,
            line=line if own else None,
            message=f"{kind.words}: {category}: {message[:160]}",
            hint=kind.hint,
        )


def not_a_number(program: Program) -> Iterator[Finding]:
    """NaN or infinity as the value or in the last line that was printed."""
    value = program.execution.text
    data = program.execution.value or {}
    if value is not None and "application/vnd.dataresource+json" in data:
        return
    printed = program.execution.stdout[-4000:].rstrip().rpartition("\n")[2]
    for where, text in (("the value", value or ""), ("the last line printed", printed)):
        seen = _NOT_A_NUMBER.search(text[:4000])
        meant = seen is not None and "inf" in seen[0].lower() and "inf" in program.source  # a sentinel of the program's
        if seen is not None and not meant and "\n" not in text.strip():
            yield Finding(
                code="python.not_a_number",
                message=f"{where} holds {seen[0]}: {text.strip()[:80]}",
                hint="Look at what it was computed from: an empty selection, a blank, or a division by zero.",
            )
            return


def _kind_of(text: str) -> _Kind | None:
    return next((kind for pattern, kind in _KINDS if pattern.search(text)), None)
