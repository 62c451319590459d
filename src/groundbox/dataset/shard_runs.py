"""Shards that run programs. Every item of every problem, several at once, as many as the runner allows.

A run that is too long to be told whole, and one that ended at a limit, has smaller inputs looked for
(`groundbox.dataset.input_reduction`): the items of a problem one after the other, so that no two get the same input.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import time
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from typing import Any, Final, TypeVar

from groundbox.dataset import argument_search, input_generation, selection, signature
from groundbox.dataset.cpu_time import CpuMeter, CpuTimeExceeded, cpu_limit
from groundbox.dataset.executor import Executor, Part, Shard
from groundbox.dataset.input_reduction import Measure, Search
from groundbox.dataset.item import Item, ProblemRuns, Sought, Tried, dump_part
from groundbox.dataset.item_runs import (
    DRAWS,
    PLAIN_SEED,
    READS_CLOCK,
    TRACED_SEED,
    Runs,
    check_machine,
    compare,
    compressed,
    joined,
    packed,
    run,
)
from groundbox.dataset.narration import Untold, is_long, seed_of, style_of
from groundbox.dataset.options import BuildOptions
from groundbox.dataset.problem import WORKER_DIED, Case, Drop, Problem
from groundbox.dataset.program_runner import MeteredRunner, Runner, RunResult, same
from groundbox.dataset.tasks import registry as tasks
from groundbox.dataset.tasks.task import guess_name, rng_of
from groundbox.errors import SandboxLost
from groundbox.trace.record.reading import Trace
from groundbox.values import literals

STAGE: Final = "run"
SMALLER: Final = "smaller"
_TOO_MUCH: Final = frozenset(
    ["timeout", "memory", "too-much-output", "traced-timeout", "traced-memory", "incomplete-trace", "recursion-limit"]
)
"""Reasons of the stage `run` that a smaller input may not have."""
_TOO_LONG: Final = frozenset(["long-trace", "long-output"])
"""The same of the stage `quality`."""
_UNSETTLED: Final = {
    **dict.fromkeys(("nondeterministic-output", "nondeterministic-trace"), "gave another run the second time"),
    DRAWS: "drew on chance",
    READS_CLOCK: "read the clock",
}
"""Reasons of the stage `run` for which no input of a program may be of use, and what the runs then did."""
_SETTLING: Final = 4
"""Inputs of a problem after which, where each gave another run the second time, the others are not run."""
_MOST_IN_VAIN: Final = 2
_FEW_RUNS: Final = 6
"""Runs for an item of a problem of which so many items before it were looked for in vain; none for twice as many."""
_SPARE_TASKS: Final = 2
"""Tasks of an item that may have no question, so that later ones come in."""
_MOST_CHOSEN: Final = 3
"""Smaller inputs of one item that are run as every item is, until one can be used."""
T = TypeVar("T")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _First:
    """An item after the runs on its own input.

    Attributes:
        trace: Compressed; None where it is not to be used.
        why: Why the run cannot be told whole, or "".
    """

    item: Item
    trace: bytes | None
    measure: Measure
    why: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunWork:
    """Work for `Executor.run`: problems and drops in, items and their traces out.

    Attributes:
        meter: Of the problem that is at work.
    """

    runner: Runner
    options: BuildOptions
    executor: Executor
    untold: Untold
    meter: CpuMeter = dataclasses.field(default_factory=CpuMeter)

    async def __call__(self, shard: Shard) -> Part:
        """See Executor.run."""
        traces: dict[str, bytes] = {}
        # All problems at once; the runner bounds how many programs run.
        found = await _all(self._one(each, traces) for each in shard.payload)
        return {"traces": packed(traces), "jsonl": dump_part(found)}

    def pieces(self, shard: Shard) -> list[Shard]:
        """See Divisible.pieces: a problem each."""
        return [dataclasses.replace(shard, payload=[each]) for each in shard.payload]

    def joined(self, found: Sequence[Part]) -> Part:
        """See Divisible.joined."""
        return {
            "traces": joined(part["traces"] for part in found),
            "jsonl": b"".join(part["jsonl"] for part in found),
        }

    def given_up(self, piece: Shard, reason: str) -> Part:
        """See Divisible.given_up."""
        found = [_given_up(each, reason) for each in piece.payload]
        return {"traces": packed({}), "jsonl": dump_part(found)}

    async def _one(self, each: Problem | Drop, traces: dict[str, bytes]) -> ProblemRuns | Drop:
        if isinstance(each, Drop):
            return each
        # A copy of this work for each problem, so that what runs side by side is measured apart.
        meter = CpuMeter()
        ran = await dataclasses.replace(self, runner=MeteredRunner(self.runner, meter), meter=meter)._ran(each, traces)
        return dataclasses.replace(ran, cpu_s=meter.cpu_s)

    async def _ran(self, problem: Problem, traces: dict[str, bytes]) -> ProblemRuns:
        drops: list[Drop] = []
        given: list[tuple[Case, RunResult | None, RunResult | None]] = [(case, None, None) for case in problem.cases]
        if not given:
            options, patience = self.options, self.options.patience
            try:
                made, drops = await input_generation.make(
                    problem,
                    self.runner,
                    most=options.made_inputs,
                    seed=options.seed,
                    limits=dataclasses.replace(patience, traced_cpu_s=patience.cpu_s),
                    most_steps=options.taste.most_steps,
                    longer=options.smaller_runs > 0,
                )
            except SandboxLost as error:
                await check_machine(self.runner, patience)
                lost = problem.dropped(input_generation.STAGE, "sandbox-lost", str(error))
                return ProblemRuns(problem=problem, items=(), drops=(lost,))
            problem = dataclasses.replace(problem, cases=tuple(each.case for each in made))
            given = [(each.case, each.ran, each.plain) for each in made]
        first = await self._firsts(problem, given)
        items = [each async for each in self._settled(problem, first, traces)]
        return ProblemRuns(problem=problem, items=tuple(items), drops=tuple(drops))

    async def _firsts(
        self, problem: Problem, given: Sequence[tuple[Case, RunResult | None, RunResult | None]]
    ) -> list[_First]:
        """All items after the runs on their own inputs; what never gives the same twice is not run with each.

        Args:
            given: Inputs, with the traced and the plain run of each that were made before, as `run` takes them.
        """
        # Four inputs first: where each of them differs from run to run, the program does so for all.
        found = await _all(self._first(problem, *each) for each in given[:_SETTLING])
        reasons = {"" if each.item.drop is None else each.item.drop.reason for each in found}
        if reasons <= _UNSETTLED.keys() and len(found) == _SETTLING:
            return found + [_unsettled(problem, case, max(reasons)) for case, *_ in given[_SETTLING:]]
        return found + await _all(self._first(problem, *each) for each in given[_SETTLING:])

    async def _first(self, problem: Problem, case: Case, traced: RunResult | None, plain: RunResult | None) -> _First:
        item, trace = await run(problem, case, self.runner, self.options.patience, traced=traced, plain=plain)
        item = compare(item)
        why = await self._why(problem, item, trace)
        data = await asyncio.to_thread(compressed, trace) if trace is not None and item.drop is None else None
        return _First(item=item, trace=data, measure=Measure.of(item.answer, trace), why=why)

    async def _why(self, problem: Problem, item: Item, trace: Trace | None) -> str:
        """Why a smaller input is wanted, or ""."""
        if not self.options.smaller_runs or selection.outside(problem.source):
            return ""
        if item.drop is not None:
            return item.drop.reason if item.drop.reason in _TOO_MUCH else ""
        # As the stage `quality` will judge it later; alone, so that what concerns several items is left to it.
        (judged,) = selection.judge(problem, [item], self.options.taste)
        if judged.drop is not None:
            return judged.drop.reason if judged.drop.reason in _TOO_LONG else ""
        return "" if trace is None else await self._untold(item, trace)

    async def _untold(self, item: Item, trace: Trace, name: str = "") -> str:
        """Why a run cannot be told whole in the words of its item, or, with a name, in those of a guess."""
        options = self.options
        if is_long(trace, options.max_chars):
            return "folded" if trace.folded else "long"
        work = Tellable(untold=self.untold, max_chars=options.max_chars, cpu_s=options.lesson_cpu_s)
        telling = {
            "style": style_of(item, options.styles, options.seed),
            "seed": seed_of(name or item.id, options.seed),
        }
        # To another process, since a telling takes seconds and this event loop watches sandboxes meanwhile.
        shard = Shard(stage=SMALLER, number=0, payload={**telling, "trace": trace})
        why, cpu_s = await self.executor.compute(work, shard)
        self.meter.cpu_s += cpu_s
        return why

    async def _settled(self, problem: Problem, first: list[_First], traces: dict[str, bytes]) -> AsyncIterator[Item]:
        """The items, with smaller inputs where those are wanted and found."""
        taken = {case.key() for case in problem.cases}
        in_vain = 0
        # A search goes by single runs: where some of the program's differ each time, so may what it finds.
        reasons = {each.item.drop.reason for each in first if each.item.drop is not None}
        unsettled = self.options.patience.stable_only and not reasons.isdisjoint(_UNSETTLED)
        for each in first:
            item, data = each.item, each.trace
            if each.why:
                most = 0 if unsettled else self.options.smaller_runs
                if in_vain >= _MOST_IN_VAIN:
                    most = min(most, _FEW_RUNS) if in_vain < 2 * _MOST_IN_VAIN else 0
                item, data = await self._smaller(problem, each, taken, most)
                # By identity: a search that found nothing gives the item its own case back.
                in_vain = in_vain + 1 if item.case is each.item.case else 0
                # One item after the other, since each must know what those before it have taken.
                taken.add(item.case.key())
            if data is not None and item.drop is None:
                traces[item.id] = data
                if self._asks_for_input(problem, item):
                    item = await self._search(problem, item, traces)
            yield item

    def _asks_for_input(self, problem: Problem, item: Item) -> bool:
        """Tell whether the item may become a search for arguments: where that task comes early enough for it."""
        options = self.options
        if problem.entry is None or item.answer is None or item.answer.fault is not None or not item.answer.text:
            return False
        rng = rng_of(item.id, options.seed, "tasks")
        return "input" in tasks.order(rng, options.tasks)[: options.samples_per_item + _SPARE_TASKS]

    async def _search(self, problem: Problem, item: Item, traces: dict[str, bytes]) -> Item:
        """The item with guesses at arguments for its result, if one of them led there; all of them were traced."""
        assert item.answer is not None
        wanted = literals.parse(item.answer.text)
        tried: list[Tried] = []
        kept: list[bytes] = []
        found = False
        while not found and (guess := argument_search.seek(problem, wanted, tried)):
            ran = await self._guessed(problem, guess.case)
            trace = None if ran is None else ran.trace
            name = guess_name(item.id, len(tried))
            # A search that holds a run that cannot be told is given up: the reply would have a hole.
            if ran is None or trace is None or not trace.complete or await self._untold(item, trace, name):
                break
            tried.append(Tried(case=guess.case, why=guess.why, answer=ran.answer, sha256=trace.header.sha256))
            kept.append(await asyncio.to_thread(compressed, trace))
            found = ran.answer.fault is None and ran.answer.text == item.answer.text
        item = dataclasses.replace(item, guesses=len(tried))
        if not found:
            return item
        traces.update({guess_name(item.id, number): data for number, data in enumerate(kept)})
        return dataclasses.replace(item, tried=tuple(tried))

    async def _guessed(self, problem: Problem, case: Case) -> RunResult | None:
        """A traced run; None where it fails, and where a plain one under another hash seed gives something else."""
        if signature.misfit(problem, case):
            return None
        ran = await self._brief(problem, case)
        if ran is None or ran.outcome not in ("ok", "error"):
            return None
        plain = await self._brief(problem, case, PLAIN_SEED)
        return ran if plain is not None and same(plain.answer, ran.answer) and not plain.drawn else None

    async def _brief(self, problem: Problem, case: Case, seed: int = TRACED_SEED) -> RunResult | None:
        """A run under narrow limits, traced under its seed alone; None where the sandbox was lost."""
        runs = Runs(problem, case, self.runner, self.options.patience.brief())
        try:
            return await runs(seed, traced=seed == TRACED_SEED)
        except SandboxLost:
            return None

    async def _smaller(
        self, problem: Problem, first: _First, taken: set[str], most_runs: int
    ) -> tuple[Item, bytes | None]:
        options, item = self.options, first.item
        search = Search(
            problem=problem,
            case=item.case,
            measure=first.measure,
            others=[case for case in problem.cases if case is not item.case],
            taken=taken,
            run=functools.partial(self._brief, problem),
            untold=lambda trace: self._untold(item, trace),
            most_runs=most_runs,
            seed=options.seed,
        )
        # The search makes one traced run of each input; what it found is then run as every item is, plain and under two
        # seeds.
        for case in (await search.found())[:_MOST_CHOSEN]:
            smaller, trace = await run(problem, case, self.runner, options.patience)
            (judged,) = selection.judge(problem, [smaller], options.taste)
            if trace is not None and judged.drop is None and not await self._untold(item, trace):
                sought = Sought(why=first.why, runs=search.runs, found=True)
                smaller = dataclasses.replace(smaller, sought=sought)
                return smaller, await asyncio.to_thread(compressed, trace)
        sought = Sought(why=first.why, runs=search.runs, found=False)
        item = dataclasses.replace(item, sought=sought)
        if item.drop is None and first.why not in _TOO_LONG:
            reason = "duplicate-input" if search.collided else "not-told-whole"
            item = item.dropped(SMALLER, reason, f"{first.why}; {search.runs} smaller inputs were tried")
        return item, first.trace


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tellable:
    """Work for `Executor.compute`: a trace in, why it cannot be told whole out, and processor seconds to see that."""

    untold: Untold
    max_chars: int
    cpu_s: float

    def __call__(self, shard: Shard) -> tuple[str, float]:
        """See Executor.compute."""
        begun = time.process_time()
        try:
            with cpu_limit(self.cpu_s):
                why = self.untold(**shard.payload, max_chars=self.max_chars)
        except CpuTimeExceeded:
            why = "slow"
        except Exception:
            # What the narrator cannot tell at all is named by the stage `narrate`, with its reason.
            why = ""
        return why, time.process_time() - begun


def _given_up(each: Problem | Drop, reason: str) -> ProblemRuns | Drop:
    if isinstance(each, Drop):
        return each
    items = [Item(id=f"{each.id}/{case.number}", problem=each.id, case=case) for case in each.cases]
    lost = each.dropped(STAGE, WORKER_DIED, reason)
    return ProblemRuns(
        problem=each,
        items=tuple(item.dropped(STAGE, WORKER_DIED, reason) for item in items),
        drops=() if items else (lost,),
    )


def _unsettled(problem: Problem, case: Case, reason: str) -> _First:
    item = Item(id=f"{problem.id}/{case.number}", problem=problem.id, case=case)
    dropped = item.dropped(STAGE, reason, f"not run: the {_SETTLING} inputs before {_UNSETTLED[reason]}")
    return _First(item=dropped, trace=None, measure=Measure.of(None, None), why="")


async def _all(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results in order; when one fails, the others are stopped before the error goes on."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        return [await task for task in tasks]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
