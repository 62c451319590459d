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

from groundbox.agent import asking
from groundbox.agent.events import Box
from groundbox.check.contracts import Contract
from groundbox.databases.database import named
from groundbox.execution import Execution, Warning
from groundbox.sandbox import languages

logger = logging.getLogger(__name__)

_PYTHON: Final = "check_python"
_SQL: Final = "check_sql"
_ANSWER: Final = "check_answer"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """One program with what came of it.

    Attributes:
        expect: What the model said that the value has to be.
        box: The sandbox that it ran in, which may be asked until the check of the run has ended.
    """

    source: str
    language: str
    execution: Execution
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    expect: Contract | None = None
    box: Box | None = dataclasses.field(default=None, repr=False, compare=False)


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
        """Which claims of an answer the runs bear out; what the question names, its files too, needs no receipt."""


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
    """The checks of `groundbox.check`, in threads, so that other conversations go on meanwhile.

    A check that fails itself is logged and told as a note, or leaves the answer unchecked, which is told, too.
    """

    def __init__(self, *, databases: Mapping[str, Any] | None = None) -> None:
        """Args:
        databases: As the sandbox was given them, for checks of queries that name one.
        """
        self._databases = dict(databases or {})

    def run_options(self, language: str) -> Mapping[str, Any]:
        """That pandas is watched while a program of Python runs, where Python knows of it."""
        if language == "python" and "checks" in languages.option_names(languages.find("python")):
            return {"checks": True}
        return {}

    async def of_run(self, ran: Ran, question: str) -> Sequence[Warning]:
        """What `check_python` finds in a program of Python, and `check_sql` in a query of a database or the sandbox."""
        if ran.language == "python":
            return await _found(_PYTHON, ran.source, ran.execution)
        if ran.language != "sql":
            return ()
        database = ran.options.get("database")
        if database in self._databases:
            reached = self._databases[database] or named(database)
            return await _found(_SQL, ran.source, database=reached, question=question)
        if database is None and ran.box is not None:
            return await _found_in_sandbox(ran, ran.box, question)
        return ()

    async def of_answer(self, text: str, runs: Sequence[Ran], question: str) -> Receipts:
        """What `check_answer` finds; a finding of tier `note` is no claim without receipt."""
        executions, programs = [ran.execution for ran in runs], [ran.source for ran in runs]
        try:
            report = await _asked(_ANSWER, text, executions, question=question, programs=programs)
        except Exception:
            logger.exception("%s failed", _ANSWER)
            report = None
        if report is None:
            return Receipts()
        grave = [warning for warning in report.warnings if warning.tier in ("error", "warn")]
        return Receipts(unsupported=grave, report=report.to_dict())


async def _found(name: str, *arguments: Any, **options: Any) -> Sequence[Warning]:
    try:
        return await _asked(name, *arguments, **options) or ()
    except Exception as error:
        return _failed(name, error)


def _failed(name: str, error: Exception) -> Sequence[Warning]:
    logger.error("%s failed", name, exc_info=error)
    message = f"{name} failed, so that this run was not checked by it: {type(error).__name__}"
    return (Warning(code="check.failed", tier="note", message=message),)


async def _found_in_sandbox(ran: Ran, box: Box, question: str) -> Sequence[Warning]:
    """What `check_sql` finds in the sandbox; nothing in what is no query, or cannot be asked in passing."""
    check, dialect = find(_SQL), ran.options.get("dialect", "duckdb")
    if check is None or not asking.may_be_asked(ran.source, dialect, ran.execution.usage.wall_s):
        return ()
    aside = asking.Aside(box, asyncio.get_running_loop())
    try:
        return await asyncio.to_thread(asking.checked, check, ran.source, aside, dialect=dialect, question=question)
    except Exception as error:
        return _failed(_SQL, error)
    finally:
        aside.stop()


async def _asked(name: str, *arguments: Any, **options: Any) -> Any:
    check = find(name)
    return None if check is None else await asyncio.to_thread(check, *arguments, **options)


def find(name: str) -> Callable[..., Any] | None:
    """A check of `groundbox.check` by its name, or None where it is not installed."""
    try:
        module = importlib.import_module("groundbox.check")
        check: Callable[..., Any] = getattr(module, name)
    except (ImportError, AttributeError) as missing:
        logger.debug("%s is not there: %s", name, missing)
        return None
    return check
