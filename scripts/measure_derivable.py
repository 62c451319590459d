"""Measures which values of tellings follow, by one step, from what was told before them.

    python scripts/measure_derivable.py FILE... [--half even|odd] [--problems N] [--cases N] [--detail parts]

Each program of the files (any format that `groundbox dataset build` reads) is run in a sandbox on its inputs, the run
is told in each style, and questions are asked about it as a dataset would. Printed are, by style and by task, the
tellings or samples, the share of the stated values that follow, how many hold a jump, and what the jumps are for
want of. Runs that are not told whole are counted; samples are made of the others, as a dataset's are.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import itertools
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from groundbox.dataset.item import Item
from groundbox.dataset.item_runs import summary
from groundbox.dataset.narration import Proved, Told, tell
from groundbox.dataset.problem import Case, Problem
from groundbox.dataset.problems.reading import parse, read
from groundbox.dataset.program_runner import Request, SandboxRunner
from groundbox.dataset.tasks import registry as tasks
from groundbox.dataset.tasks.task import View
from groundbox.trace.record.reading import Trace

TASKS = ("output", "state", "branch", "loop", "coverage", "next_line")
STYLES = ("prose", "steps", "backward")
AT_ONCE = 2


class Count:
    """Tellings or samples of one sort."""

    def __init__(self) -> None:
        self.texts = self.jumping = self.stated = self.followed = 0

    def add(self, stated: int, followed: int) -> None:
        self.texts += 1
        self.jumping += followed < stated
        self.stated += stated
        self.followed += followed

    def line(self, name: str) -> str:
        share = 100 * self.followed / self.stated if self.stated else 100.0
        holding = 100 * self.jumping / self.texts if self.texts else 0.0
        return (
            f"{name:<28}{self.texts:>6} texts {self.stated:>8} values {share:7.2f} % follow"
            f" {self.jumping:>6} hold a jump ({holding:.1f} %)"
        )


def problems(options: argparse.Namespace) -> Iterator[Problem]:
    """Those asked for: every second problem, in an order that a seed gives."""
    found = [
        each
        for path in options.files
        for each in parse(read(path, format=None, licence="not stated"), most_cases=options.cases)
        if isinstance(each, Problem)
    ]
    if options.half:
        found = found[options.half == "odd" :: 2]
    random.Random(5).shuffle(found)
    yield from found[: options.problems]


async def recorded(runner: SandboxRunner, problem: Problem, case: Case) -> tuple[Any, Trace | None]:
    request = Request(source=problem.source, entry=problem.entry, case=case, hash_seed=0, traced=True, cpu_s=10.0)
    ran = await runner.run(request)
    return ran.answer, ran.trace if ran.outcome in ("ok", "error") else None


def _no_proof(told: Told, trace: Trace) -> Proved:
    return Proved(faithful=True, total=0, proven=0, coverage=1.0, failed=())


def measure(view: View, told: Told, counts: dict[str, Count]) -> None:
    """Count the samples of one item, of each task."""
    for task in TASKS:
        for draft in itertools.islice(tasks.make(task, view), 1):
            part = told.sentences[: told.count(draft.reasoning)]
            counts[f"task {task}"].add(sum(each.stated for each in part), sum(each.followed for each in part))


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--half", choices=["even", "odd"], help="every second problem only")
    parser.add_argument("--problems", type=int, default=60)
    parser.add_argument("--cases", type=int, default=2)
    parser.add_argument("--max-chars", type=int, default=12_000)
    parser.add_argument("--detail", default="normal")
    parser.add_argument("--in-parts", action="store_true", help="samples also of runs that are not told whole")
    options = parser.parse_args()
    runner = SandboxRunner(at_once=AT_ONCE)
    counts: dict[str, Count] = collections.defaultdict(Count)
    missing: collections.Counter[str] = collections.Counter()
    runs = whole = 0
    for problem in problems(options):
        for number, case in enumerate(problem.cases):
            answer, trace = await recorded(runner, problem, case)
            if trace is None:
                continue
            runs += 1
            for style in STYLES:
                try:
                    told = tell(trace, style=style, seed=runs, max_chars=options.max_chars, detail=options.detail)
                except ValueError:  # backward, of a run of no function
                    continue
                stated, followed = (sum(getattr(each, name) for each in told.sentences) for name in _SUMS)
                counts[f"style {style}"].add(stated, followed)
                if told.whole:
                    counts[f"style {style}, told whole"].add(stated, followed)
                if style != "prose":
                    continue
                whole += told.whole
                missing.update(re.sub(r"`[^`]*`|\d+", "…", jump.rpartition(": ")[2]) for each in told.sentences
                               for jump in each.jumps)  # fmt: skip
                if told.whole or options.in_parts:
                    facts = summary(trace, stable=True)
                    item = Item(id=f"{problem.id}/{number}", problem=problem.id, case=case, answer=answer, traced=facts)
                    view = View(
                        problem=problem, item=item, trace=trace, told=told, narrator=tell, prove=_no_proof,
                        seed=0, max_chars=options.max_chars,
                    )  # fmt: skip
                    measure(view, told, counts)
    print(f"{runs} runs, {whole} of them told whole in {options.max_chars} characters")
    for name in sorted(counts):
        print(counts[name].line(name))
    print("jumps of the prose for want of:")
    for words, count in missing.most_common(8):
        print(f"{count:>8} {words}")


_SUMS = ("stated", "followed")

if __name__ == "__main__":
    asyncio.run(main())
