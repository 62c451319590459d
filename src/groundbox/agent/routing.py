"""Where a program runs: arithmetic here, without a sandbox; everything else in one.

A route is found by reading the code, never by asking a model. Arithmetic that goes straight down gives the very bytes
that CPython gives (`calc.programs`), so taking the short way changes the time and nothing else.
"""

from __future__ import annotations

import ast
import dataclasses
import re
import time
import uuid
from collections.abc import Sequence
from typing import Final, Literal

from groundbox.agent.calc import programs
from groundbox.agent.calc.bounds import CalculationError
from groundbox.agent.calc.calculation import calculate
from groundbox.agent.calc.straight import NotArithmetic, parsed
from groundbox.execution import Artifacts, Execution, Isolation, Outcome, Usage

Tier = Literal["calc", "sandbox"]
_QUESTION: Final = re.compile(
    r"\s*(?:what(?:'s| is| are)|how much is|calculate|compute|work out|evaluate)?\s*([^?]{1,300}?)\s*(?:=\s*)?\?*\s*\Z",
    re.IGNORECASE,
)
_ASKED: Final = re.compile(r"\s*(?:what|how much|calculate|compute|work out|evaluate)\b|[?=]\s*\Z", re.IGNORECASE)
_WORK: Final = re.compile(r"\d\s*(?:%|percent\b)|[-+*/×÷^√(]|\b(?:plus|minus|times|less|mod|to|in)\b", re.IGNORECASE)
_LABEL: Final = re.compile(r"\s*(?:\d{3,4}[-/]\d{1,4}(?:[-/]\d{1,4})?|[\d.]+)\s*\Z")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Route:
    """Where a program or a question goes.

    Attributes:
        tier: `calc` without a sandbox, or `sandbox`.
        reason: Why, in a few words.
        assigns: Variables that a program of tier `calc` leaves; a sandbox whose later cells use them has to run it.
        expression: For a question of tier `calc`, what `calculate` is given.
    """

    tier: Tier
    reason: str
    assigns: Sequence[str] = ()
    expression: str = ""


def route(source: str, language: str = "python") -> Route:
    """Where a program goes. It is read, not run, so that `run_arithmetic` may still find that it is for the sandbox."""
    if language != "python":
        return Route(tier="sandbox", reason=f"{language} runs in the sandbox")
    try:
        tree = parsed(source)
    except NotArithmetic as why:
        return Route(tier="sandbox", reason=str(why))
    if not tree.body:
        return Route(tier="sandbox", reason="there is nothing in it")
    assigned = _assigned(tree)
    unknown = _read(tree) - set(assigned) - programs.KNOWN_NAMES
    if unknown:
        return Route(tier="sandbox", reason=f"{min(unknown)} is not assigned in it")
    return Route(tier="calc", reason="straight-line arithmetic", assigns=assigned)


def route_question(question: str) -> Route:
    """Where a question goes that no code was written for: `calc` for plain sums such as "what is 15 % of 200?"."""
    question = " ".join(question.split()) if len(question) <= 400 else ""
    match = _QUESTION.match(question)
    expression = match[1].strip() if match else ""
    if not expression or not _ASKED.search(question) or not _WORK.search(expression) or _LABEL.match(expression):
        return Route(tier="sandbox", reason="no plain sum")
    try:
        calculate(expression)
    except CalculationError as why:
        return Route(tier="sandbox", reason=f"no plain sum: {why}")
    return Route(tier="calc", reason="a plain sum", expression=expression)


def run_arithmetic(source: str, *, mode: str = "cell") -> Execution:
    """Runs a program of tier `calc`, here and at once.

    The result is that of a run in a sandbox, with `isolation.backend` "calc" and no layers: there was no guest.

    Raises:
        NotArithmetic: It is for the sandbox after all, because it raises or is over a limit. Nothing has happened.
    """
    wall, cpu = time.monotonic(), time.thread_time()
    finished = programs.run(source, cell=mode == "cell")
    return Execution(
        execution_id=uuid.uuid4().hex,
        language="python",
        outcome=Outcome.OK,
        exit_code=0,
        exit_signal=None,
        stdout=finished.stdout,
        stderr="",
        dropped_bytes={"stdout": 0, "stderr": 0, "displays": 0, "artifacts": 0},
        value=None if finished.value is None else {"text/plain": finished.value},
        error=None,
        displays=[],
        artifacts=Artifacts(),
        warnings=[],
        usage=Usage(
            wall_s=time.monotonic() - wall,
            cpu_s=time.thread_time() - cpu,
            peak_memory_bytes=None,
            start_s=0.0,
            warm=True,
        ),
        isolation=Isolation(backend="calc", layers=()),
        trust="kernel",
    )


def _assigned(tree: ast.Module) -> list[str]:
    """Names that the program itself gives a value, functions and imports too, in order."""
    names: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names[node.id] = None
        elif isinstance(node, (ast.FunctionDef, ast.alias)):
            names[node.name] = None
    return list(names)


def _read(tree: ast.Module) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
