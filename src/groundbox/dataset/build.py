"""A build: from files of problems to a folder with a dataset. Killed at any moment, it goes on where it was.

Theory of operation. The problems are cut into shards of a few items each. The stage `run` turns a shard into
a part with the items and their traces; when all have run, what concerns several problems is decided
(`groundbox.dataset.dataset_filters`); the stage `lessons` turns each part into samples; then the parts are written out
in the order of the problems. All parts go through the store, which keeps them whole or not at all, and each depends on
its shard alone. So neither the number of workers nor an interruption changes a byte of what is written;
only report.json, which has the times, differs.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from groundbox.dataset import (
    dataset_card,
    dataset_filters,
    files,
    model_telling,
    optional_imports,
    part_store,
    report_page,
    sample_files,
    shard_runs,
    shard_samples,
)
from groundbox.dataset.build_statistics import BuildStatistics, Tokenizer
from groundbox.dataset.cpu_time import BuildClock
from groundbox.dataset.dataset_filters import FilterDecisions
from groundbox.dataset.executor import Divisible, Executor, Part, Shard, carry_out, quarantining
from groundbox.dataset.item import ProblemRuns, read_part
from groundbox.dataset.model_telling import TellingProver
from groundbox.dataset.narration import Narrator, Prover, Untold, untold
from groundbox.dataset.options import BuildOptions
from groundbox.dataset.part_store import Store
from groundbox.dataset.problem import Drop, Problem
from groundbox.dataset.problems.reading import parse, read
from groundbox.dataset.program_runner import Runner
from groundbox.dataset.progress import Progress
from groundbox.dataset.shard_runs import RunWork
from groundbox.dataset.shard_samples import SampledItem, SampleWork
from groundbox.errors import InvalidArgument

REPORT: Final = "report.json"
PAGE: Final = "report.html"
CARD: Final = "README.md"
WRITTEN: Final = (*sample_files.FILES, CARD, PAGE)
"""Names of all files of a dataset whose digests are in its report."""
_MOST_REPORT_BYTES: Final = 64 << 20
_SHARD_ITEMS: Final = 16
_FILES: Final = {shard_runs.STAGE: ("traces", "jsonl"), shard_samples.STAGE: ("jsonl",)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tools:
    """Who does the work of a build.

    Attributes:
        untold: Which runs cannot be told whole, so that smaller inputs are looked for.
        tokenizer: What the report counts lengths in beside characters.
        telling_prover: Of tellings by others than the narrator.
        parts: Where parts are kept beside the folder of the build: `s3://BUCKET/PREFIX` or a folder.
    """

    runner: Runner
    executor: Executor
    narrator: Narrator
    prover: Prover
    untold: Untold = untold
    progress: Progress = dataclasses.field(default_factory=Progress)
    tokenizer: Tokenizer | None = None
    telling_prover: TellingProver = model_telling.prove
    parts: str | None = None


async def build(options: BuildOptions, out: Path, tools: Tools) -> dict[str, Any]:
    """Build the dataset in folder `out`, or go on with the build that is there; its report.

    Raises:
        InvalidArgument: The folder holds something else, or another build is at work there.
        ExtraMissing: A library of the extra `data` is not installed.
        SandboxUnavailable: Nothing can be run on this machine.
        ShardFailed: A shard could not be carried out; what is done stays.
    """
    optional_imports.check()
    counted_in = None if tools.tokenizer is None else tools.tokenizer.name
    with part_store.opened(out, {**options.arguments(), "tokenizer": counted_in}, tools.parts) as opened:
        # By digests and not by the manifest alone: a file of a finished build that was changed or lost is written
        # again.
        if not is_whole(out, opened.finished()):
            opened.finish(None)
            # Before anything is run, and in a thread, because an object store takes seconds for each part.
            await asyncio.to_thread(opened.level, _FILES)
            await _Build(options, out, tools, opened).carry_through()
        opened.clear()
    return read_report(out)


def read_report(folder: Path) -> dict[str, Any]:
    """The report of a finished dataset.

    Raises:
        InvalidArgument: The folder holds none.
    """
    try:
        with files.opened_regular(folder / REPORT) as file:
            data = file.read(_MOST_REPORT_BYTES + 1)
        if len(data) > _MOST_REPORT_BYTES:
            raise ValueError(f"{REPORT} has more than {_MOST_REPORT_BYTES} bytes")
        report: Any = json.loads(data)
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidArgument("DIR", f"{folder} holds no finished dataset: {error}") from None
    if not isinstance(report, dict) or not isinstance(report.get("arguments"), dict):
        raise InvalidArgument(
            "DIR", f"{folder} is no dataset that was built; where it tells another one otherwise, name that one"
        )
    return dict(report)


class _Build:
    def __init__(self, options: BuildOptions, out: Path, tools: Tools, opened: Store) -> None:
        self.options, self.out, self.tools, self.store = options, out, tools, opened
        self.clock = BuildClock(opened.folder / "clock.json")
        self.counts: list[int] = []

    async def carry_through(self) -> None:
        # Each step needs all of the one before it: duplicates and splits are decided over all problems.
        await self._run()
        decided = dataset_filters.decide(self._judged(), self.options)
        await self._teach(decided)
        self.tools.progress.end()
        self._write(decided)

    async def _run(self) -> None:
        tools = self.tools
        work = RunWork(runner=tools.runner, options=self.options, executor=tools.executor, untold=tools.untold)
        # The problems are read twice: once to count, so that progress knows its total, once as shards are asked for. To
        # hold all of them would cost more memory than all else here.
        self.counts = [sum(map(self._weight, chunk)) for chunk in self._chunks()]
        shards = (
            Shard(stage=shard_runs.STAGE, number=number, payload=chunk) for number, chunk in enumerate(self._chunks())
        )
        await self._stage(shard_runs.STAGE, shards, work, lambda shard: tools.executor.run(work, shard))

    async def _teach(self, decided: FilterDecisions) -> None:
        tools = self.tools
        work = SampleWork(options=self.options, narrator=tools.narrator, prover=tools.prover)
        shards = (
            Shard(stage=shard_samples.STAGE, number=number, payload=self._lessons(number, decided))
            for number in range(len(self.counts))
        )
        await self._stage(shard_samples.STAGE, shards, work, lambda shard: tools.executor.compute(work, shard))

    def _lessons(self, number: int, decided: FilterDecisions) -> dict[str, Any] | None:
        if self.store.has(shard_samples.STAGE, number):
            # Its part would have to be read from the disk and sent to nobody.
            return None  # nothing is made of it
        ran = {suffix: self.store.read(shard_runs.STAGE, number, suffix) for suffix in ("jsonl", "traces")}
        return shard_samples.payload(dataset_filters.wanted(self._part(number), decided), ran)

    async def _stage(
        self, stage: str, shards: Iterable[Shard], work: Divisible[Part], submit: Callable[[Shard], Awaitable[Part]]
    ) -> None:
        resumed, done, total = self.store.done(stage), 0, sum(self.counts)
        self.tools.progress.step(stage, 0, total, resumed=False)
        async for shard, _ in carry_out(
            shards,
            submit=lambda shard: quarantining(submit, work, shard),
            capacity=lambda: self.tools.executor.capacity,
            store=self.store,
        ):
            done += self.counts[shard.number]
            # Asked once for each shard, since it gives what was spent since it was asked last.
            self.clock.host(self.tools.executor.spent_s())
            self.tools.progress.step(stage, done, total, resumed=shard.number in resumed)
            self.clock.tick()

    def _problems(self) -> Iterator[Problem | Drop]:
        licences = self.options.licences
        found = (
            each
            for path in self.options.problems
            for each in read(path, format=self.options.format, licence=licences.get(path.name, "not stated"))
        )
        return parse(found, most_cases=self.options.cases)

    def _weight(self, each: Problem | Drop) -> int:
        """How many items come of it, about."""
        return 1 if isinstance(each, Drop) else len(each.cases) or self.options.made_inputs

    def _chunks(self) -> Iterator[list[Problem | Drop]]:
        chunk: list[Problem | Drop] = []
        weight = 0
        for each in self._problems():
            more = self._weight(each)
            # A problem is never cut: what is decided among its items (equal outputs, inputs already taken) needs all of
            # them. Where the cuts are depends on the problems alone, so that a resumed build finds its parts.
            if chunk and weight + more > _SHARD_ITEMS:
                yield chunk
                chunk, weight = [], 0
            chunk.append(each)
            weight += more
        if chunk:
            yield chunk

    def _part(self, number: int) -> Iterator[ProblemRuns | Drop]:
        return dataset_filters.judged(read_part(self.store.read(shard_runs.STAGE, number, "jsonl")), self.options)

    def _judged(self) -> Iterator[ProblemRuns | Drop]:
        for number in range(len(self.counts)):
            yield from self._part(number)

    def _write(self, decided: FilterDecisions) -> None:
        statistics = BuildStatistics(tokenizer=self.tools.tokenizer)
        with sample_files.writing(self.out) as writer:
            for number in range(len(self.counts)):
                self._write_part(number, decided, statistics, writer)
        facts = statistics.report(decided)
        made = {"kept": facts["kept"], "samples": facts["samples"], "claims": facts["claims"]["proven"]}
        times = {"seconds": self.clock.seconds(), "per_cpu_hour": self.clock.per_cpu_hour(**made)}
        card, page = dataset_card.card(facts), report_page.page(facts, statistics, decided)
        finish(self.out, self.store, {**facts, **times}, self.options.arguments(), card=card, page=page)

    def _write_part(
        self, number: int, decided: FilterDecisions, statistics: BuildStatistics, writer: sample_files.Writer
    ) -> None:
        taught: dict[str, SampledItem] = {}
        for each in shard_samples.read(self.store.read(shard_samples.STAGE, number, "jsonl")):
            if isinstance(each, SampledItem):
                taught[each.item] = each
            else:
                self.clock.add(each)
        for found in self._part(number):
            if isinstance(found, Drop):
                statistics.drop(found)
                writer.drop(found)
            else:
                self._write_problem(decided.apply(found), taught, statistics, writer)

    def _write_problem(
        self,
        ran: ProblemRuns,
        taught: Mapping[str, SampledItem],
        statistics: BuildStatistics,
        writer: sample_files.Writer,
    ) -> None:
        statistics.ran(ran)
        self.clock.add(ran.cpu_s)
        for drop in ran.drops:
            writer.drop(drop)
        for item in ran.items:
            if item.drop is not None:
                writer.drop(item.drop)
                continue
            # Each item without a drop was asked for by `dataset_filters.wanted`; a missing one is a fault of ours and
            # raises.
            lesson = taught[item.id]
            statistics.lesson(lesson)
            if lesson.drop is not None:
                writer.drop(lesson.drop)
            for sample in lesson.samples if lesson.drop is None else ():
                writer.sample(sample)


def finish(
    out: Path, store: Store, facts: Mapping[str, Any], arguments: Mapping[str, Any], *, card: str, page: str
) -> None:
    """Write what tells of a dataset, once its samples are written."""
    files.publish(out / CARD, card.encode())
    files.publish(out / PAGE, page.encode())
    digests = {name: files.digest(out / name) for name in WRITTEN}
    # The report is written last and has the digests of all else: who finds it finds a whole dataset.
    report = {**facts, "files": digests, "arguments": arguments}
    files.publish(out / REPORT, json.dumps(report, indent=1, ensure_ascii=False).encode() + b"\n")
    store.finish({**digests, REPORT: files.digest(out / REPORT)})


def is_whole(out: Path, digests: Mapping[str, str] | None) -> bool:
    """Tell whether the files of a finished build are there as they were written."""
    if digests is None:
        return False
    return all((out / name).is_file() and files.digest(out / name) == each for name, each in digests.items())
