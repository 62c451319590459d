"""A dataset told anew by a model: the rows of one folder in, rows of the same kind in another out.

Theory of operation. The rows of a dataset hold all that is needed to run their programs again, so nothing but the
rows is read. Each item is a shard of its own, as a build has them: it is run, shown, asked for, proven and kept
as a part (`groundbox.dataset.translation.item`), and every answer is kept before it is proven
(`groundbox.dataset.translation.answer_cache`). So a kill costs the answers that were under way, and with the same
answers the files that are written have the same bytes; only report.json differs, which has the times and says how many
answers were given to an earlier process. The parts are removed at the end; the answers stay: they were paid for.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from groundbox.dataset import dataset_card, files, optional_imports, part_store, sample_files
from groundbox.dataset.build import Tools, finish, is_whole, read_report
from groundbox.dataset.build_statistics import BuildStatistics
from groundbox.dataset.cpu_time import BuildClock
from groundbox.dataset.executor import Shard, carry_out
from groundbox.dataset.item_runs import RunLimits
from groundbox.dataset.part_store import Store
from groundbox.dataset.problem import Drop
from groundbox.dataset.translation import item
from groundbox.dataset.translation.endpoint import Model
from groundbox.dataset.translation.item import Retelling
from groundbox.dataset.translation.options import TranslateOptions
from groundbox.dataset.translation.report import MOST_DROPS, Counts, page
from groundbox.errors import InvalidArgument

ANSWERS: Final = "answers.jsonl"
_SAMPLES_DIGEST: Final = "samples"

Connect = Callable[[Path], contextlib.AbstractAsyncContextManager[Model]]
"""Gives the model, which keeps its answers in the file of this name."""


async def translate_dataset(
    folder: Path, out: Path, options: TranslateOptions, tools: Tools, connect: Connect
) -> dict[str, Any]:
    """Have the items of the dataset in `folder` told by a model, in folder `out`; the report of that.

    Goes on with what is in `out`, where another process may have been killed.

    Raises:
        InvalidArgument: `folder` holds no dataset as it was written, `out` something else, or another process is there.
        EndpointFailed: The model gives no answer; what is done stays.
        ExtraMissing: A library of the extra `data` is not installed.
    """
    optional_imports.parquet()
    source = _source(folder, out)
    identity = {**options.arguments(), _SAMPLES_DIGEST: source["files"][sample_files.SAMPLES]}
    with part_store.opened(out, identity) as opened:
        work = _Translation(folder, out, options, tools, opened, source)
        if not work.is_done():
            opened.finish(None)
            await work.carry_through(connect)
        opened.clear()
    return read_report(out)


class _Translation:
    def __init__(
        self, folder: Path, out: Path, options: TranslateOptions, tools: Tools, opened: Store, source: dict[str, Any]
    ) -> None:
        self.folder, self.out, self.options, self.tools, self.store = folder, out, options, tools, opened
        self.source = source
        self.clock = BuildClock(opened.folder / "clock.json")
        self.count = 0
        self.resumed = opened.done(item.STAGE)

    def is_done(self) -> bool:
        # A finished translation with another limit goes on from its answers.
        if not is_whole(self.out, self.store.finished()):
            return False
        return bool(read_report(self.out)["arguments"]["translation"]["limit"] == self.options.limit)

    async def carry_through(self, connect: Connect) -> None:
        # The file of answers is held for this process alone, as the store is.
        async with connect(self.out / ANSWERS) as model:
            await self._translate(model)
        self.tools.progress.end()
        self._write()

    async def _translate(self, model: Model) -> None:
        tools, options = self.tools, self.options
        work = Retelling(
            runner=tools.runner,
            executor=tools.executor,
            prover=tools.telling_prover,
            model=model,
            options=options,
            patience=RunLimits(**self.source["arguments"]["patience"]),
        )
        total = min(self.source["kept"], options.limit or self.source["kept"])
        done = 0
        tools.progress.step(item.STAGE, 0, total, resumed=False)
        async for shard, _ in carry_out(
            self._shards(),
            submit=work,  # here: it holds the connection to the model
            # Shards wait for the model most of the time; so many more are under way that processors do not idle
            # meanwhile.
            capacity=lambda: options.at_once + tools.executor.capacity,
            store=self.store,
        ):
            done += 1
            tools.progress.step(item.STAGE, done, total, resumed=shard.number in self.resumed)
            self.clock.tick()

    def _shards(self) -> Iterator[Shard]:
        items = sample_files.read_items(self.folder / sample_files.SAMPLES)
        for number, rows in enumerate(itertools.islice(items, self.options.limit)):
            self.count = number + 1
            yield Shard(stage=item.STAGE, number=number, payload=rows)

    def _write(self) -> None:
        statistics, counts, drops = BuildStatistics(), Counts(), list[Drop]()
        with sample_files.writing(self.out) as writer:
            for number in range(self.count):
                found = item.read(self.store.path(item.STAGE, number, "jsonl").read_bytes())
                statistics.lesson(found.lesson)
                counts.add(found, resumed=number in self.resumed)
                if found.lesson.drop is not None:
                    writer.drop(found.lesson.drop)
                    drops += [found.lesson.drop] if len(drops) < MOST_DROPS else []
                for sample in found.lesson.samples:
                    writer.sample(sample)
        self._report(statistics, counts, drops)

    def _report(self, statistics: BuildStatistics, counts: Counts, drops: Sequence[Drop]) -> None:
        options = self.options
        facts = {
            **{name: statistics.counts[name] for name in ("items", "kept", "samples")},
            "dropped": statistics.counts_by("reason"),
            "translation": counts.report(),
            **statistics.content(),
        }
        told_by = f"the model {options.model}, asked with the prompt `{options.prompt}`"
        given = {
            **options.arguments(),
            "limit": options.limit,
            _SAMPLES_DIGEST: self.source["files"][sample_files.SAMPLES],
        }
        arguments = {**self.source["arguments"], "translation": given}
        finish(
            self.out,
            self.store,
            {**facts, "seconds": self.clock.seconds()},
            arguments,
            card=dataset_card.card(facts, told_by=told_by),
            page=page(facts, statistics, counts, drops, options.model),
        )


def _source(folder: Path, out: Path) -> dict[str, Any]:
    report = read_report(folder)
    if out.resolve() == folder.resolve():
        raise InvalidArgument("out", f"{out} is the dataset itself; name another folder")
    samples = folder / sample_files.SAMPLES
    if not samples.is_file() or files.digest(samples) != report.get("files", {}).get(sample_files.SAMPLES):
        raise InvalidArgument("DIR", f"{samples} is not as it was written; build the dataset again")
    return report
