"""Lab: the shards that run programs. Every item of every problem, several at once, as many as the runner allows."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Coroutine, Iterable
from typing import Any, Final, TypeVar

from groundbox.dataset import inputs, parts
from groundbox.dataset.drop import Drop
from groundbox.dataset.executor import Part, Shard
from groundbox.dataset.item import Item
from groundbox.dataset.options import BuildOptions
from groundbox.dataset.parts import Ran
from groundbox.dataset.problem import Case, Problem
from groundbox.dataset.running import Runner
from groundbox.dataset.stages.compare import compare
from groundbox.dataset.stages.run import run
from groundbox.dataset.tracing import compressed, packed

STAGE: Final = "run"
T = TypeVar("T")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lab:
    """Work for `Executor.run`: problems and drops in, items and their traces out.

    The payload of its shards is what `parts.payload` gives.
    """

    runner: Runner
    options: BuildOptions

    async def __call__(self, shard: Shard) -> Part:
        """See Executor.run."""
        traces: dict[str, bytes] = {}
        found = await _all(self._one(each, traces) for each in parts.of_payload(shard.payload))
        return {"traces": packed(traces), "jsonl": parts.dumps(found)}

    async def _one(self, each: Problem | Drop, traces: dict[str, bytes]) -> Ran | Drop:
        if isinstance(each, Drop):
            return each
        problem, drops = each, list[Drop]()
        if not problem.cases:
            options = self.options
            made, drops = await inputs.make(
                problem, self.runner, most=options.made_inputs, seed=options.seed, cpu_s=options.patience.cpu_s
            )
            problem = dataclasses.replace(problem, cases=tuple(made))
        items = await _all(self._item(problem, case, traces) for case in problem.cases)
        return Ran(problem=problem, items=tuple(items), drops=tuple(drops))

    async def _item(self, problem: Problem, case: Case, traces: dict[str, bytes]) -> Item:
        item, trace = await run(problem, case, self.runner, self.options.patience)
        item = compare(item)
        if trace is not None and item.drop is None:
            traces[item.id] = await asyncio.to_thread(compressed, trace)
        return item


async def _all(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results in order; when one fails, the others are stopped before the error goes on."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        return [await task for task in tasks]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
