"""Errors: what can be wrong with a trace."""

from __future__ import annotations

from groundbox.errors import GroundboxError


class InvalidTrace(GroundboxError, ValueError):
    """A trace file that breaks docs/trace.md, or whose header says what its lines do not.

    Attributes:
        line: Line of the file, counted from 1 (the header).
        problem: What is wrong there.
    """

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line} of the trace: {problem}")
        self.line = line
        self.problem = problem
