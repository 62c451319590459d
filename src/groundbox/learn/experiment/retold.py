"""`python -m groundbox.learn.experiment.retold`: a dataset with other texts between question and answer.

What it does to a model that its data is narrated shows only beside models that learnt the same questions without, or
from logs. The questions, splits and answers stay; each program is run again, and a run that gives another answer than
the dataset has is left out.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import click

from groundbox.dataset import files
from groundbox.dataset.build import CARD, REPORT
from groundbox.dataset.reproof import problem_of
from groundbox.dataset.running import Runner, SandboxRunner
from groundbox.dataset.sample import Sample
from groundbox.dataset.stages.run import Patience, Runs, Seeds
from groundbox.dataset.stages.write import FILES, SAMPLES, read_samples, writing
from groundbox.errors import InvalidArgument
from groundbox.learn.experiment import arms, carry_out
from groundbox.learn.training import chats

ARMS: Final = ("direct", *sorted(arms.LOGS))
"""Arms that need nothing but the run."""
_TOGETHER: Final = 256
"""Runs of which traces are in memory at the same time."""
_CARD: Final = """# {count} samples, told otherwise

The questions about results of the dataset {name} (SHA-256 of its samples `{digest}`),
with the replies of the arm `{arm}` of groundbox's experiment: {told}.
Each program was run again; {lost} runs gave another answer than that dataset has, and are left out.
The licences of that dataset's programs apply.
Nothing in these replies was proven: `groundbox dataset verify` is for that dataset.
"""
_TOLD: Final = {
    "direct": "the answer alone",
    "raw": "the log of each line that ran and each name that changed, and the answer",
    "concise": "a line for each step that did something, and the answer",
}


async def retell(dataset: Path, arm: str, out: Path, runner: Runner) -> Mapping[str, int]:
    """Write the dataset of an arm; give how many samples it has, and how many it lacks by reason.

    Raises:
        InvalidArgument: `dataset` is none, or not as it was written, or `out` holds something.
    """
    name, digest = _ready(dataset, out)
    counts = {"samples": 0, "other-task": 0, "other-answer": 0}
    with writing(out) as writer:
        for some in _some(read_samples(dataset / SAMPLES)):
            asked = [each for each in some if each.task == "output" and each.entry is not None]
            counts["other-task"] += len(some) - len(asked)
            for sample in await asyncio.gather(*(_retold(each, arm, runner) for each in asked)):
                counts["samples" if sample is not None else "other-answer"] += 1
                if sample is not None:
                    writer.sample(sample)
    card = _CARD.format(
        count=counts["samples"], name=name, digest=digest, arm=arm, told=_TOLD[arm],
        lost=counts["other-answer"],
    )  # fmt: skip
    files.publish(out / CARD, card.encode())
    written = {name: files.digest(out / name) for name in (*FILES, CARD)}
    report = {"samples": counts["samples"], "arm": arm, "of": digest, "files": written}
    files.publish(out / REPORT, json.dumps(report, indent=1).encode() + b"\n")
    return counts


def _ready(dataset: Path, out: Path) -> tuple[str, str]:
    corpus = chats.corpus(dataset)
    if not (dataset / SAMPLES).is_file():
        raise InvalidArgument("DATASET", f"{dataset} has no {SAMPLES}, which says what to run")
    if out.exists() and any(out.iterdir()):
        raise InvalidArgument("--out", f"{out} is not empty; name another folder")
    out.mkdir(parents=True, exist_ok=True)
    return corpus.name, corpus.digest


def _some(samples: Iterator[Sample]) -> Iterator[list[Sample]]:
    while some := list(itertools.islice(samples, _TOGETHER)):
        yield some


async def _retold(sample: Sample, arm: str, runner: Runner) -> Sample | None:
    problem = problem_of(sample)
    ran = await Runs(problem, problem.cases[0], runner, Patience())(Seeds().traced, traced=True)
    if ran.trace is None or not ran.trace.complete or ran.answer.text != sample.answer:
        return None  # in each arm, also where nothing of the run is told: all have the same questions
    told = arms.log(arm, ran.trace) + "\n" if arm in arms.LOGS else ""
    return dataclasses.replace(
        sample, reply=f"{told}{arms.ANSWER}{sample.answer}", style=arm, detail="", narration="", claims=0, proven=0,
        claims_data="", coverage=0.0, left_out=0, derivable=0.0, jumps="[]",
    )  # fmt: skip


@click.command()
@click.argument("dataset", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--arm", required=True, type=click.Choice(ARMS), help="What stands between question and answer.")
@click.option("--out", required=True, type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="For it.")
def main(dataset: Path, arm: str, out: Path) -> None:
    """Writes the questions about results of DATASET with the replies of an arm."""
    counts = asyncio.run(retell(dataset, arm, out, SandboxRunner(at_once=4)))
    told = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    click.echo(f"groundbox: {told} in {out}", err=True)


if __name__ == "__main__":
    carry_out(main)
