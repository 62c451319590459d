"""Prompts: the program, its input, and the question, in words that vary with the seed."""

from __future__ import annotations

import random
import re
from typing import Final

from groundbox.dataset.problem import Case, Problem
from groundbox.dataset.tasks.checking import MARK
from groundbox.dataset.tasks.registry import task_of
from groundbox.dataset.tasks.task import Draft
from groundbox.trace.record.syntax import lines_of

_OPENINGS: Final = (
    "Here is a Python program:",
    "Consider this Python program:",
    "You are given a Python program:",
    "Read this Python program:",
)
_STATEMENTS: Final = (
    "It was written for this task:",
    "The task that it was written for:",
    "What it is for:",
)
_ENDINGS: Final = (
    f"End with a line that begins with `{MARK}`.",
    f"Give the result in a last line that begins with `{MARK}`.",
    f"The last line of your reply has to be `{MARK}` and the result.",
)


def ask(problem: Problem, case: Case, draft: Draft, rng: random.Random) -> str:
    """The whole prompt."""
    parts = [f"{rng.choice(_OPENINGS)}\n\n{_listing(problem.source, numbered=task_of(draft.task).numbered)}"]
    # Drawn also where it is not used, so that later choices are the same with and without a statement.
    heading = rng.choice(_STATEMENTS)
    if problem.statement:
        parts.append(f"{heading}\n{problem.statement}")
    if draft.shows_input:
        parts.append(_input(problem, case))
    if draft.given:
        parts.append(f"The run was told in these steps:\n\n{draft.given}")
    parts.append(f"{draft.question} {rng.choice(_ENDINGS)}")
    return "\n\n".join(parts)


def reply(draft: Draft) -> str:
    """Return what the assistant says."""
    return f"{draft.reasoning}\n\n{MARK} {draft.answer}".lstrip()


def _listing(source: str, *, numbered: bool) -> str:
    lines = lines_of(source.rstrip("\n") if numbered else source.strip("\n"))
    if numbered:
        width = len(str(len(lines)))
        # Blank lines stay in a numbered listing, or its numbers would not be those of the program.
        lines = [f"{number:>{width}} | {line}".rstrip() for number, line in enumerate(lines, 1)]
    # CommonMark: a fence ends at a line of at least as many backticks, which a docstring may hold.
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall(r"`{3,}", source))])
    return f"{fence}{'' if numbered else 'python'}\n" + "\n".join(lines) + f"\n{fence}"


def _input(problem: Problem, case: Case) -> str:
    if problem.entry is not None:
        return f"It is called like this: `{problem.entry}({case.text()})`"
    if case.stdin:
        return f"It is run as a script, with this standard input:\n\n```\n{case.stdin}\n```"
    return "It is run as a script, with empty standard input."
