"""PAL: recorded programs that work out the answer to a question (Gao et al. 2022, arXiv 2211.10435)."""

from __future__ import annotations

import ast
import asyncio
import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from groundbox.dataset.executor import Executor, Listwise, LocalExecutor, Shard, values_of
from groundbox.dataset.processes import Slots
from groundbox.errors import GroundboxError, InvalidArgument
from groundbox.execution import Execution
from groundbox.learn.evaluation import records
from groundbox.learn.evaluation.judging import CANNOT_RUN, LOST_SANDBOX, tried
from groundbox.limits import Limits
from groundbox.sandbox.portal import run_async
from groundbox.values.codec import RESULT_MIME, NotData, decode
from groundbox.values.parsing import module_of
from groundbox.values.plain_answer import plain_answer

ENTRY: Final = "solution"
TOLERANCE: Final = 1e-3
_NUMBER: Final = re.compile(r"[-+]?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d{1,3})?")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """A question, the program that a model wrote for it, and the right answer."""

    question: str
    program: str
    answer: float


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Scored:
    """What came of a program.

    Attributes:
        reason: `right`, `wrong`, `no-number`, or the outcome of the run where that is not `ok`.
        value: The number it gave, if any.
    """

    right: bool
    reason: str
    value: float | None = None


def read_items(path: Path) -> list[Item]:
    """Lines of `{"question", "program", "answer"}`; the answer is a number, or a text with one.

    Raises:
        InvalidArgument: The file cannot be read, or a line lacks a key.
    """
    items = []
    for place, row in records.rows("--samples", path):
        answer = number(row.get("answer"))
        if answer is None:
            raise InvalidArgument("--samples", f"{place} has no number under 'answer'")
        program = records.text("--samples", place, row, "program")
        items.append(Item(question=str(row.get("question", "")), program=program, answer=answer))
    if not items:
        raise InvalidArgument("--samples", f"{path} has no program")
    return items


def number(value: Any) -> float | None:
    """The number that a value is, or the last one in a text."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, (int, float)):
        try:
            found = float(value)
        except OverflowError:
            return None
        return found if math.isfinite(found) else None
    if isinstance(value, str):
        texts = _NUMBER.findall(plain_answer(value[-10_000:]))
        return number(float(texts[-1].replace(",", ""))) if texts else None
    return None


async def score(item: Item, *, limits: Limits, options: Mapping[str, Any], tolerance: float = TOLERANCE) -> Scored:
    """Runs a program in a sandbox of its own: `solution()` where it has one, otherwise what it prints last."""
    calls = _defines_solution(item.program)
    mode: dict[str, Any] = {"mode": "call", "call": ENTRY} if calls else {"mode": "script"}
    execution = await tried(lambda: run_async(item.program, engine="own", limits=limits, **mode, **options))
    if not execution.ok:
        return Scored(right=False, reason=execution.outcome.value)
    value = _value(execution, calls=calls)
    if value is None:
        return Scored(right=False, reason="no-number")
    right = abs(value - item.answer) <= tolerance * max(1.0, abs(item.answer))
    return Scored(right=right, reason="right" if right else "wrong", value=value)


async def score_all(
    items: Sequence[Item],
    *,
    limits: Limits,
    options: Mapping[str, Any],
    tolerance: float,
    workers: int | None = None,
    executor: Executor | None = None,
) -> list[Scored]:
    """A score for each program, in their order; `sandbox` where sandboxes failed, for that alone.

    Args:
        workers: Processors to use, where there is no executor; None for all.
        executor: Whoever scores; belongs to the caller. None for this process.
    """
    executor = executor or LocalExecutor(workers, hosts=1)
    work = Scoring(limits=limits, options=options, tolerance=tolerance, at_once=executor.workers)
    return await values_of(work, items, executor, stage="pal")


class Scoring(Listwise):
    """Work for `Executor.run`: items in, scores out."""

    def __init__(self, *, limits: Limits, options: Mapping[str, Any], tolerance: float, at_once: int) -> None:
        self._given: dict[str, Any] = {"limits": limits, "options": options, "tolerance": tolerance}
        self._gate = Slots(at_once)

    async def __call__(self, shard: Shard) -> list[Scored]:
        """See Executor.run."""
        return await asyncio.gather(*map(self._one, shard.payload))

    def lost(self, entry: Item, reason: str) -> Scored:
        """See Listwise.lost: nothing is known of such a program."""
        return Scored(right=False, reason=LOST_SANDBOX)

    async def _one(self, item: Item) -> Scored:
        async with self._gate:
            try:
                return await score(item, **self._given)
            except CANNOT_RUN:
                raise
            except (GroundboxError, OSError):
                return Scored(right=False, reason=LOST_SANDBOX)


def _value(execution: Execution, *, calls: bool) -> float | None:
    if calls:
        try:
            returned = decode((execution.value or {}).get(RESULT_MIME))
        except NotData:
            returned = None
        if returned is not None:
            return number(returned)
    return number(execution.stdout)


def _defines_solution(program: str) -> bool:
    try:
        tree = module_of(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(isinstance(node, ast.FunctionDef) and node.name == ENTRY and not node.args.args for node in tree.body)
