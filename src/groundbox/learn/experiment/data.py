"""Data of the experiment: programs of a grammar, built into datasets, and each kept run told as every arm tells it."""

from __future__ import annotations

import ast
import asyncio
import base64
import dataclasses
import hashlib
import itertools
import json
import random
import subprocess
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from groundbox.dataset.files import published
from groundbox.dataset.grammar import ENTRY, Grammar, problems, results_within
from groundbox.dataset.optional_imports import parquet
from groundbox.dataset.problem import Case, case_from_json
from groundbox.dataset.program_runner import Request, SandboxRunner
from groundbox.errors import InvalidArgument
from groundbox.learn.experiment import arms
from groundbox.learn.experiment.arms import Example
from groundbox.learn.experiment.plan import SPLITS, USUAL, Plan
from groundbox.trace.narrate.narrator import narrate
from groundbox.trace.record.reading import Trace
from groundbox.values.parsing import module_of

TRAINING: Final = "training"
SAME: Final = "same"
DRAWN: Final = "drawn"
"""The questions of `same`, with replies that are drawn by chance."""
REAL: Final = "real"
_PLAN: Final = "plan.json"
SCORES: Final = "scores.jsonl"
RUN: Final = "run.json"
"""Files of a run; the second is written last."""
SPLIT_NAMES: Final = (SAME, *SPLITS, REAL)
"""Held-out splits, in the order in which they are told."""
_CPU_S: Final = 5.0
_AT_ONCE: Final = 4
_LOOKED_THROUGH: Final = 40
"""Programs of a grammar that are looked through for each one that is wanted."""
_TOGETHER: Final = 256
"""Runs of which traces are in memory at the same time."""
_COLUMNS: Final = ("id", "split", "task", "source", "entry", "case", "reply", "answer")
_TRAINED: Final = ("train", "validation")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """A run as each arm tells it.

    Attributes:
        prompt: Program and call.
        answer: The result as a literal.
        steps: Lines that ran.
        replies: By the arm's name.
        trace: The record, to hold a model's steps against; None where a model only learns from it.
    """

    id: str
    prompt: str
    answer: str
    steps: int
    replies: Mapping[str, str]
    trace: Trace | None

    def to_json(self) -> dict[str, Any]:
        """A line of a prepared file."""
        trace = None if self.trace is None else base64.b85encode(zlib.compress(self.trace.dumps())).decode()
        return {**dataclasses.asdict(dataclasses.replace(self, trace=None)), "trace": trace}


def keep_plan(folder: Path, plan: Plan, real: Path | None) -> None:
    """Hold a folder to one plan and one file of real programs: models of two would be compared as if of the same.

    Raises:
        InvalidArgument: It holds another.
    """
    folder.mkdir(parents=True, exist_ok=True)
    kept = {**dataclasses.asdict(plan), "real": "" if real is None else hashlib.sha256(real.read_bytes()).hexdigest()}
    written = json.dumps(kept, indent=1) + "\n"
    if (path := folder / _PLAN).exists() and path.read_text() != written:
        raise InvalidArgument("out", f"{folder} holds an experiment of other settings ({_PLAN}): name another folder")
    path.write_text(written)


def read_plan(folder: Path) -> Plan:
    """Give the plan that a folder is held to."""
    kept = json.loads((folder / _PLAN).read_text())
    del kept["real"]
    return Plan.from_json(kept)


def run_folder(folder: Path, arm: str, seed: int) -> Path:
    """Where a model of an arm and what it said is kept."""
    return folder / "runs" / f"{arm}-{seed}"


def read(path: Path) -> list[Run]:
    """Read the runs of a prepared file."""
    with path.open(encoding="utf-8") as file:
        return [_run_from_json(json.loads(line)) for line in file]


def _run_from_json(data: Mapping[str, Any]) -> Run:
    trace = None if data["trace"] is None else Trace.loads(zlib.decompress(base64.b85decode(data["trace"])), own=True)
    return Run(**{**data, "trace": trace})


async def prepare(folder: Path, plan: Plan, real: Path | None) -> dict[str, int]:
    """Make `NAME.jsonl` in a folder for the training and each held-out split; give how many runs each has.

    What is there already stays as it is, so that a killed preparation goes on.

    Args:
        real: Problems that people wrote, for the split `real`; None leaves it out.

    Raises:
        InvalidArgument: Building a dataset failed, the grammar gives too few programs, or a run that was kept cannot be
            repeated.
    """
    training = _built(folder, TRAINING, _programs(plan.programs, USUAL, combined=False, seed=0))
    wanted = {TRAINING: (training, _TRAINED, None), SAME: (training, ("test",), plan.same)}
    for number, (name, split) in enumerate(SPLITS.items(), 1):
        programs = _programs(-(-plan.others // 2), split.grammar, combined=split.combined, seed=number)
        wanted[name] = (_built(folder, name, programs), (*_TRAINED, "test"), plan.others)
    if real is not None:
        wanted[REAL] = (_built(folder, REAL, _lines(real)), (*_TRAINED, "test"), plan.others)
    return {
        name: await _prepared(folder / f"{name}.jsonl", dataset, splits, most, plan.arms, held_out=name != TRAINING)
        for name, (dataset, splits, most) in wanted.items()
    }


def _programs(count: int, grammar: Grammar, *, combined: bool, seed: int) -> Iterator[bytes]:
    """Lines of `count` programs that all have a combination which is held out, or that all have none."""
    made = problems(_LOOKED_THROUGH * count, grammar=grammar, seed=seed)
    found = list(itertools.islice((each for each in made if _combined(each["source"]) == combined), count))
    if len(found) < count:
        raise InvalidArgument("programs", f"of {_LOOKED_THROUGH * count} only {len(found)} fit, and {count} are wanted")
    yield from (json.dumps(each).encode() + b"\n" for each in found)


def _combined(source: str) -> bool:
    """Tell whether a loop of the program calls a helper or holds `//`."""
    loops = [node for node in ast.walk(module_of(source)) if isinstance(node, ast.For | ast.While)]
    return any(
        isinstance(node, ast.FloorDiv)
        or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id != "range")
        for loop in loops
        for node in ast.walk(loop)
    )


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from file


def _built(folder: Path, name: str, programs: Iterable[bytes]) -> Path:
    """Give the dataset of these programs: `groundbox dataset build` makes it, as for anybody."""
    source, dataset = folder / f"{name}-programs.jsonl", folder / f"{name}-dataset"
    if not source.exists():
        with published(source) as file:
            file.writelines(programs)
    command = [sys.executable, "-m", "groundbox", "dataset", "build", "--problems", str(source), "--out", str(dataset)]
    options = ["--task", "output", "--style", "steps", "--near-duplicate", "1"]
    built = subprocess.run([*command, *options], stderr=subprocess.PIPE, text=True, check=False)
    if built.returncode:
        raise InvalidArgument("out", f"building {dataset} ended with {built.returncode}: {built.stderr[-500:]}")
    return dataset


async def _prepared(
    out: Path, dataset: Path, splits: Sequence[str], most: int | None, arms_: Sequence[str], *, held_out: bool
) -> int:
    if (known := _count(out)) is not None:
        return known
    table = parquet().read_table(dataset / "samples.parquet", columns=list(_COLUMNS))
    rows = [row for row in table.to_pylist() if row["split"] in splits and row["task"] == "output"]
    random.Random(0).shuffle(rows)  # of a sorted table, a beginning would hold programs of a kind
    examples = await _examples(rows[:most], mutated="mutated" in arms_)
    if not rows:
        raise InvalidArgument("out", f"{dataset} has no run for {out.name}: its dropped.jsonl says why")
    if lost := len(rows[:most]) - len(examples):
        raise InvalidArgument("out", f"{lost} runs of {dataset} did not come out as before; call it again")
    with published(out) as file:
        for each in examples:
            run = _run(each, examples, arms_, keep_trace=held_out)
            file.write(json.dumps(run.to_json()).encode() + b"\n")
    return len(examples)


def _count(path: Path) -> int | None:
    if not path.exists():
        return None
    with path.open("rb") as file:
        return sum(1 for _ in file)


async def _examples(rows: Sequence[Mapping[str, Any]], *, mutated: bool) -> list[Example]:
    runner = SandboxRunner(at_once=_AT_ONCE)
    found: list[Example | None] = []
    for begin in range(0, len(rows), _TOGETHER):
        some = rows[begin : begin + _TOGETHER]
        found += await asyncio.gather(*(_example(runner, row, mutated=mutated) for row in some))
    return [each for each in found if each is not None]


async def _example(runner: SandboxRunner, row: Mapping[str, Any], *, mutated: bool) -> Example | None:
    case = case_from_json(json.loads(row["case"]))
    ran = await _ran(runner, row["source"], row["entry"], case)
    if ran is None:
        return None
    told, _, _ = row["reply"].rpartition(f"\n{arms.ANSWER}")
    example = Example(
        id=row["id"],
        source=row["source"],
        call=f"{row['entry']}({case.text()})",
        answer=row["answer"],
        narration=told.strip(),
        trace=ran[0],
    )
    return dataclasses.replace(example, mutated=await _mutated(runner, example, case)) if mutated else example


async def _mutated(runner: SandboxRunner, example: Example, case: Case) -> str:
    """The reply that tells a run of a mutant, of one whose run stays as short and small as those of the grammar."""
    random_ = random.Random(f"{example.id}:mutant")
    for source in arms.mutants(example.source, random_):
        if results_within(source, [list(case.args)], USUAL.bound) is None:
            continue
        if (ran := await _ran(runner, source, ENTRY, case)) is not None:
            trace, answer = ran
            narration = narrate(trace, style="steps", seed=random_.randrange(1 << 30))
            return f"{narration.text}\n{arms.ANSWER}{answer}"
    return ""


async def _ran(runner: SandboxRunner, source: str, entry: str, case: Case) -> tuple[Trace, str] | None:
    """Give the trace and the result of a run that ended well and was recorded whole."""
    request = Request(source=source, entry=entry, case=case, hash_seed=0, traced=True, cpu_s=_CPU_S)
    ran = await runner.run(request)
    if ran.trace is None or not ran.trace.complete or ran.outcome != "ok":
        return None
    return ran.trace, ran.answer.text


def _run(example: Example, examples: Sequence[Example], arms_: Sequence[str], *, keep_trace: bool) -> Run:
    replies = {arm: arms.reply(arm, example, examples, random.Random(f"{example.id}:{arm}")) for arm in arms_}
    return Run(
        id=example.id,
        prompt=example.prompt,
        answer=example.answer,
        steps=example.trace.counts.get("line", 0),
        replies=replies,
        trace=example.trace if keep_trace else None,
    )
