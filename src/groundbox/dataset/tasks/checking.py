"""Judges an answer: the last `Answer:` line of a reply against what a task's check says.

Every check is data, so that it travels with its row, and a trainer can use it as a reward.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, Final

from groundbox.dataset import literals, signature
from groundbox.dataset.literals import NotALiteral
from groundbox.dataset.problem import Case, Problem
from groundbox.dataset.problems import asserts
from groundbox.dataset.running import Request, Runner

MARK: Final = "Answer:"


def answer_of(reply: str) -> str:
    """What stands after the last `Answer:`, or ""."""
    _, mark, rest = reply.rpartition(MARK)
    return rest.strip().strip("*").strip().strip("`").strip() if mark else ""


def right(check: Mapping[str, Any], answer: str) -> bool:
    """Whether an answer is right, for all checks but `call`."""
    kind, wanted = check["kind"], check["value"]
    if kind == "text":
        return _words(answer) == _words(wanted)
    try:
        given, true = literals.parse(answer), literals.parse(wanted)
    except NotALiteral:
        return False
    if kind == "lines":
        return isinstance(given, list | tuple | set) and set(map(str, given)) == set(map(str, true))
    if kind == "value":
        return literals.same(given, true) or _close_floats(given, true)
    raise ValueError(f"{kind} is no check that can be made without running the program")


async def right_by_running(
    check: Mapping[str, Any], answer: str, *, problem: Problem, runner: Runner, cpu_s: float
) -> bool:
    """Whether an answer is right, for all checks. A `call` is run in a sandbox and has to give the wanted value."""
    if check["kind"] != "call":
        return right(check, answer)
    case = _case(answer, problem)
    if case is None or signature.misfit(problem, case):
        return False
    request = Request(source=problem.source, entry=problem.entry, case=case, hash_seed=0, traced=False, cpu_s=cpu_s)
    ran = await runner.run(request)
    return ran.outcome == "ok" and right({"kind": "value", "value": check["value"]}, ran.answer.text)


def _case(answer: str, problem: Problem) -> Case | None:
    try:
        call = ast.parse(answer, mode="eval").body
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == problem.entry):
            return None
        args, kwargs = asserts.arguments(call)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return Case(number=0, args=args, kwargs=kwargs)


def _close_floats(given: Any, true: Any) -> bool:
    return isinstance(true, float) and isinstance(given, float | int) and literals.close(given, true)


def _words(text: str) -> str:
    return " ".join(text.split()).rstrip(".")
