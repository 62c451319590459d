"""What looks at a run or an answer for evidence that it is wrong, as the loop asks it.

The loop takes any object with these three methods. `UsualChecks` asks `groundbox.check`, whose parts are looked for
when they are first needed; it does without those that are not there, and says which ones it has.
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from groundbox.execution import Execution, Warning

logger = logging.getLogger(__name__)

_PYTHON: Final = "check_python"
_SQL: Final = "check_sql"
_ANSWER: Final = "check_answer"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """One program with what came of it."""

    source: str
    language: str
    execution: Execution
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Receipts:
    """What of an answer was shown by a run.

    Attributes:
        unsupported: One finding for each claim that no run bears out.
        report: Claim by claim where it comes from, as JSON; None when nothing was looked at.
    """

    unsupported: Sequence[Warning] = ()
    report: Mapping[str, Any] | None = None


class Checks(Protocol):
    """Finds what is wrong with what succeeded."""

    def run_options(self, language: str) -> Mapping[str, Any]:
        """What a run of a language is asked for besides, so that its result can be checked."""

    async def of_run(self, ran: Ran, question: str) -> Sequence[Warning]:
        """Findings about a run that ended well, besides the execution's own warnings."""

    async def of_answer(self, text: str, runs: Sequence[Ran], question: str) -> Receipts:
        """Which claims of an answer the runs bear out."""


class NoChecks:
    """Finds nothing."""

    def run_options(self, language: str) -> Mapping[str, Any]:
        """Nothing."""
        return {}

    async def of_run(self, ran: Ran, question: str) -> Sequence[Warning]:
        """Nothing."""
        return ()

    async def of_answer(self, text: str, runs: Sequence[Ran], question: str) -> Receipts:
        """Nothing was looked at."""
        return Receipts()


class UsualChecks:
    """The checks of `groundbox.check`, in threads, so that other conversations go on meanwhile."""

    def run_options(self, language: str) -> Mapping[str, Any]:
        """Nothing yet."""
        return {}

    async def of_run(self, ran: Ran, question: str) -> Sequence[Warning]:
        """What `check_python` finds in a program of Python."""
        check = find(_PYTHON)
        if check is None or ran.language != "python":
            return ()
        found: Sequence[Warning] = await asyncio.to_thread(check, ran.source, ran.execution)
        return found

    async def of_answer(self, text: str, runs: Sequence[Ran], question: str) -> Receipts:
        """What `check_answer` finds."""
        check = find(_ANSWER)
        if check is None:
            return Receipts()
        executions, programs = [ran.execution for ran in runs], [ran.source for ran in runs]
        report = await asyncio.to_thread(check, text, executions, question=question, programs=programs)
        grave = [warning for warning in report.warnings if warning.tier in ("error", "warn")]
        return Receipts(unsupported=grave, report=report.to_dict())

    def standing(self) -> Sequence[str]:
        """The names of the checks that are there."""
        return [name for name in (_PYTHON, _SQL, _ANSWER) if find(name)]


def find(name: str) -> Callable[..., Any] | None:
    """A check of `groundbox.check` by its name, or None where it is not installed."""
    try:
        module = importlib.import_module("groundbox.check")
        check: Callable[..., Any] = getattr(module, name)
    except (ImportError, AttributeError) as missing:
        logger.debug("%s is not there: %s", name, missing)
        return None
    return check
