"""The same failure again: how failures are told apart, and how often each was seen.

Two failures are the same when their type, their message and the failing line of the program agree, with what differs
from run to run taken out: addresses, numbers of cells, identifiers made at random, times.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Final

from groundbox.execution import Execution

_PASSING: Final = (
    (re.compile(r"0x[0-9a-fA-F]+"), "0x…"),
    (re.compile(r"<cell \d+>"), "<cell>"),
    (re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"), "<uuid>"),
    (re.compile(r"\b[0-9a-f]{16,64}\b"), "<digest>"),
    (re.compile(r"\d+(?:\.\d+)? ?(?:s|ms|µs|seconds)\b"), "<time>"),
    (re.compile(r"\s+"), " "),
)
_ORDINALS: Final = {2: "second", 3: "third", 4: "fourth", 5: "fifth", 6: "sixth", 7: "seventh", 8: "eighth"}
_MOST_KEPT: Final = 400


def normalised(text: str) -> str:
    """A message without what differs from run to run."""
    for pattern, stands in _PASSING:
        text = pattern.sub(stands, text[: 4 * _MOST_KEPT])
    return text.strip()[:_MOST_KEPT]


def failure_key(execution: Execution, source: str) -> str:
    """What failures that are the same have in common, or "" for a run that did not fail."""
    error = execution.error
    if error is None:
        return ""
    lines = source.splitlines()
    line = lines[error.line - 1] if error.line and error.line <= len(lines) else ""
    return "\n".join((execution.language, error.type, normalised(error.message), normalised(line)))


def program_key(source: str, language: str) -> str:
    """What programs that are the same have in common: all but blank lines and blanks at the ends of lines."""
    lines = (line.rstrip() for line in source.splitlines())
    return language + "\n" + "\n".join(line for line in lines if line)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """How often each failure, and each program that failed, was seen in one conversation."""

    failures: Mapping[str, int] = dataclasses.field(default_factory=dict)
    programs: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def after(self, execution: Execution, source: str) -> Seen:
        """The same with one more run."""
        failure = failure_key(execution, source)
        if not failure:
            return self
        program = program_key(source, execution.language)
        return Seen(
            failures={**self.failures, failure: self.failures.get(failure, 0) + 1},
            programs={**self.programs, program: self.programs.get(program, 0) + 1},
        )

    def together(self, other: Seen) -> Seen:
        """What was seen by either, after runs side by side: what both have seen counts once."""
        failures, programs = dict(other.failures), dict(other.programs)
        for mine, all_of_them in ((self.failures, failures), (self.programs, programs)):
            for key, count in mine.items():
                all_of_them[key] = max(count, all_of_them.get(key, 0))
        return Seen(failures=failures, programs=programs)

    def count(self, execution: Execution, source: str) -> int:
        """How often this failure was seen, counting this run when `after` was told of it."""
        return self.failures.get(failure_key(execution, source), 0)

    def program_count(self, source: str, language: str) -> int:
        """How often this program failed."""
        return self.programs.get(program_key(source, language), 0)


def advice(count: int, *, same_program: bool) -> str:
    """What is said of a failure that was seen before; "" for the first time."""
    if count < 2:
        return ""
    what = "the same program and the same failure" if same_program else "the same failure"
    again = f"This is {what} for the {_ORDINALS.get(count, f'{count}th')} time."
    if count == 2:
        return f"{again} Look at the values involved before the next attempt."
    return f"{again} Change the approach: another way to the result, or first find out what the data really is."
