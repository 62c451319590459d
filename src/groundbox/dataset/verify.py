"""Verify: a written dataset, proven once more from nothing but its rows. Every program is run again.

What is compared: the files with their digests, the chats with the rows, the splits with one another; and of every
item the answer of a new run, the digest of its trace, every claim of the telling with that trace, every
answer with what its task makes of it and with the row's own check (`groundbox.dataset.reproof`).

Items are shards of an executor, some at a time, so that they may be run and proven on other machines; what is found is
told in the order of the rows, wherever it was found. An item that ends each process which works on it is told as such.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from groundbox.dataset import files, sample_files
from groundbox.dataset.build import REPORT, WRITTEN, Tools, read_report
from groundbox.dataset.executor import Executor, Listwise, Shard, run_in_order
from groundbox.dataset.item_runs import TRACED_SEED, RunLimits, Runs
from groundbox.dataset.problem import WORKER_DIED, Case, Problem
from groundbox.dataset.program_runner import Runner, RunResult, same
from groundbox.dataset.reproof import Difference, ItemRun, Reproof, Reproved, problem_of, tried_of
from groundbox.dataset.sample_files import Sample
from groundbox.dataset.selection import SPLITS
from groundbox.dataset.tasks.checking import answer_of, right_by_running
from groundbox.dataset.tasks.task import guess_name
from groundbox.errors import InvalidArgument
from groundbox.trace.record.reading import Trace
from groundbox.trace_options import TraceOptions

STAGE: Final = "verify"
_SHARD_ITEMS: Final = 16
_WHOLE: Final = ("seed", "max_chars")
_MOST_WHOLE: Final = 2**63
_MOST_CPU_S: Final = 3600.0
_MOST_NAME_CHARS: Final = 200
_MOST_LINE_BYTES: Final = 64 << 20


@dataclasses.dataclass(kw_only=True)
class Verified:
    """What was looked at, updated in place."""

    items: int = 0
    samples: int = 0
    claims: int = 0
    differences: list[Difference] = dataclasses.field(default_factory=list)


async def verify(folder: Path, tools: Tools) -> Verified:
    """Prove a dataset again.

    Raises:
        InvalidArgument: The folder holds no dataset.
    """
    report = read_report(folder)
    arguments, limits = report["arguments"], _limits(report)
    try:
        with files.opened_regular(folder / sample_files.SAMPLES):
            pass
    except OSError as error:
        raise InvalidArgument("DIR", f"{sample_files.SAMPLES} cannot be read: {error}; nothing was run") from None
    found = Verified()
    found.differences.extend(_files(folder, report))
    found.differences.extend(_chats(folder))
    found.differences.extend(_splits(folder))
    executor = tools.executor
    work = Verification(
        runner=tools.runner,
        executor=executor,
        reproof=Reproof(
            narrator=tools.narrator,
            prover=tools.prover,
            telling_prover=tools.telling_prover,
            seed=arguments["seed"],
            max_chars=arguments["max_chars"],
        ),
        limits=limits,
    )
    async with contextlib.aclosing(run_in_order(_shards(folder), work, executor)) as verified:
        async for shard, results in verified:
            for rows, told in zip(shard.payload, results, strict=True):
                found.items += 1
                found.samples += len(rows)
                found.claims += told.claims
                found.differences.extend(told.differences)
            tools.progress.step(STAGE, found.samples, report["samples"], resumed=False)
    tools.progress.end()
    if found.samples != report["samples"]:
        words = f"the report says {report['samples']}, there are {found.samples}"
        found.differences.append(Difference(where=REPORT, what="samples", detail=words))
    return found


def options_of(folder: Path) -> TraceOptions:
    """How much of a run a dataset's traces record.

    Raises:
        InvalidArgument: The folder holds no dataset.
    """
    told = read_report(folder)["arguments"].get("trace")
    try:
        return TraceOptions(**told)
    except TypeError:
        raise _not_written("arguments.trace", "options of traces", told) from None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verification(Listwise):
    """Work for `Executor.run`: items in, each as its rows, and out a `Reproved` for each."""

    runner: Runner
    executor: Executor
    reproof: Reproof
    limits: RunLimits

    async def __call__(self, shard: Shard) -> list[Reproved]:
        """See Executor.run."""
        return await asyncio.gather(*map(self._one, itertools.count(), shard.payload))

    def lost(self, entry: Sequence[Sample], reason: str) -> Reproved:
        """See Listwise.lost."""
        return Reproved(0, [Difference(where=entry[0].item, what=WORKER_DIED, detail=reason)])

    async def _one(self, number: int, rows: Sequence[Sample]) -> Reproved:
        problem = problem_of(rows[0])
        ran = await self._traced(problem, problem.cases[0])
        if ran.trace is None or ran.outcome != rows[0].outcome:
            words = f"{rows[0].outcome} there, {ran.outcome} now"
            return Reproved(0, [Difference(where=rows[0].item, what="outcome", detail=words)])
        guesses, other = await self._guesses(rows, problem)
        shard = Shard(stage=STAGE, number=number, payload=ItemRun(rows, ran.trace, ran.answer, guesses))
        found = await self.executor.compute(self.reproof, shard)
        return Reproved(found.claims, [*other, *found.differences, *await self._calls(rows)])

    async def _traced(self, problem: Problem, case: Case) -> RunResult:
        return await Runs(problem, case, self.runner, self.limits)(TRACED_SEED, traced=True)

    async def _guesses(self, rows: Sequence[Sample], problem: Problem) -> tuple[list[Trace], list[Difference]]:
        """New runs of the arguments that a search tried."""
        traces: list[Trace] = []
        found: list[Difference] = []
        for number, each in enumerate(tried_of(rows)):
            ran = await self._traced(problem, each.case)
            if ran.trace is None or ran.trace.header.sha256 != each.sha256 or not same(ran.answer, each.answer):
                name = guess_name(rows[0].item, number)
                found.append(
                    Difference(where=name, what="trace", detail=f"{each.case.text()[:200]} runs otherwise now")
                )
            if ran.trace is not None:
                traces.append(ran.trace)
        return traces, found

    async def _calls(self, rows: Sequence[Sample]) -> list[Difference]:
        """Answers that only a run can judge."""
        found = []
        for row in rows:
            check = json.loads(row.check)
            if check["kind"] == "call" and not await right_by_running(
                check, answer_of(row.reply), problem=problem_of(row), runner=self.runner, cpu_s=self.limits.cpu_s
            ):
                found.append(Difference(where=row.id, what="check", detail=f"{row.answer} does not give the result"))
        return found


def _limits(report: Mapping[str, Any]) -> RunLimits:
    """Check everything of a report that is used before the rows are read, and return the limits of its runs.

    Raises:
        InvalidArgument: A value is not one that a build writes.
    """
    arguments = report["arguments"]
    for name, told in (("samples", report.get("samples")), *((each, arguments.get(each)) for each in _WHOLE)):
        if type(told) is not int or abs(told) > _MOST_WHOLE:
            raise _not_written(name, f"a whole number of at most {_MOST_WHOLE}", told)
    if not isinstance(report.get("files"), dict):
        raise _not_written("files", "names of files with their digests", report.get("files"))
    patience = arguments.get("patience")
    known = {each.name for each in dataclasses.fields(RunLimits)}
    if not isinstance(patience, dict) or not patience.keys() <= known:
        raise _not_written("arguments.patience", f"some of {', '.join(sorted(known))}", patience)
    for name, told in patience.items():
        is_number = type(told) in (int, float) and 0 < told <= _MOST_CPU_S
        if not (type(told) is bool if name == "stable_only" else is_number):
            wanted = "true or false" if name == "stable_only" else f"seconds, at most {_MOST_CPU_S:g}"
            raise _not_written(f"arguments.patience.{name}", wanted, told)
    return RunLimits(**patience)


def _not_written(name: str, wanted: str, told: object) -> InvalidArgument:
    return InvalidArgument("DIR", f"{name} of {REPORT} must be {wanted}, not {ascii(told)[:80]}; nothing was run")


def _files(folder: Path, report: Mapping[str, Any]) -> Iterator[Difference]:
    """Compare the files with their digests. Nothing outside the folder is opened, whatever the report says."""
    for name, digest in report["files"].items():
        if name not in WRITTEN:
            yield Difference(where=ascii(name)[:_MOST_NAME_CHARS], what="file", detail="a dataset has no such file")
            continue
        try:
            if files.digest(folder / name) != digest:
                yield Difference(where=name, what="file", detail="it is not as it was written")
        except files.NotRegular as error:
            yield Difference(where=name, what="file", detail=str(error))
        except OSError:
            yield Difference(where=name, what="file", detail="it is missing")


def _chats(folder: Path) -> Iterator[Difference]:
    """Lines of the chat files that are not what the rows say."""
    lines = {split: (folder / sample_files.chat_file(split)) for split in SPLITS}
    waiting = {split: iter(_lines(path)) for split, path in lines.items()}
    for sample in sample_files.read_samples(folder / sample_files.SAMPLES):
        if next(waiting[sample.split], None) != sample.chat():
            yield Difference(
                where=sample.id, what="chat", detail=f"{sample_files.chat_file(sample.split)} says something else"
            )
    for split, rest in waiting.items():
        if next(rest, None) is not None:
            yield Difference(where=sample_files.chat_file(split), what="chat", detail="it has lines that no row has")


def _lines(path: Path) -> Iterator[Any]:
    try:
        with files.opened_regular(path) as file:
            while line := file.readline(_MOST_LINE_BYTES):
                try:
                    yield json.loads(line)
                except (ValueError, RecursionError):
                    yield line
    except OSError:  # `_files` has named it
        return


def _splits(folder: Path) -> Iterator[Difference]:
    splits: dict[str, set[str]] = defaultdict(set)
    for sample in sample_files.read_samples(folder / sample_files.SAMPLES):
        splits[sample.problem].add(sample.split)
    for problem, found in splits.items():
        if len(found) > 1:
            yield Difference(where=problem, what="split", detail=f"it is in {', '.join(sorted(found))}")


def _shards(folder: Path) -> Iterator[Shard]:
    """Items as their rows, some in each."""
    items = sample_files.read_items(folder / sample_files.SAMPLES)
    for number in itertools.count():
        chunk = list(itertools.islice(items, _SHARD_ITEMS))
        if not chunk:
            return
        yield Shard(stage=STAGE, number=number, payload=chunk)
