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
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import click

from groundbox.dataset import files
from groundbox.dataset.build import REPORT
from groundbox.dataset.problem import case_from_json
from groundbox.dataset.running import Request, Runner, SandboxRunner
from groundbox.dataset.sample import Sample
from groundbox.dataset.stages.write import FILES, SAMPLES, read_samples, writing
from groundbox.errors import GroundboxError, InvalidArgument
from groundbox.learn.experiment import arms
from groundbox.learn.training import chats

ARMS: Final = ("direct", *sorted(arms.LOGS))
"""Arms that need nothing but the run."""
_TOGETHER: Final = 256
"""Runs of which traces are in memory at the same time."""
_CPU_S: Final = 20.0


async def retell(dataset: Path, arm: str, out: Path, runner: Runner) -> Mapping[str, int]:
    """Write the dataset of an arm; give how many samples it has, and how many it lacks by reason.

    Raises:
        InvalidArgument: `dataset` is none, or not as it was written, or `out` holds something.
    """
    digest = _ready(dataset, out)
    counts = {"samples": 0, "other-task": 0, "other-answer": 0}
    with writing(out) as writer:
        for some in _some(read_samples(dataset / SAMPLES)):
            asked = [each for each in some if each.task == "output" and each.entry is not None]
            counts["other-task"] += len(some) - len(asked)
            for sample in await asyncio.gather(*(_retold(each, arm, runner) for each in asked)):
                counts["samples" if sample is not None else "other-answer"] += 1
                if sample is not None:
                    writer.sample(sample)
    written = {name: files.digest(out / name) for name in FILES}
    report = {"samples": counts["samples"], "arm": arm, "of": digest, "files": written}
    files.publish(out / REPORT, json.dumps(report, indent=1).encode() + b"\n")
    return counts


def _ready(dataset: Path, out: Path) -> str:
    digest = chats.corpus(dataset).digest
    if not (dataset / SAMPLES).is_file():
        raise InvalidArgument("DATASET", f"{dataset} has no {SAMPLES}, which says what to run")
    if out.exists() and any(out.iterdir()):
        raise InvalidArgument("--out", f"{out} is not empty; name another folder")
    out.mkdir(parents=True, exist_ok=True)
    return digest


def _some(samples: Iterator[Sample]) -> Iterator[list[Sample]]:
    while some := list(itertools.islice(samples, _TOGETHER)):
        yield some


async def _retold(sample: Sample, arm: str, runner: Runner) -> Sample | None:
    told = ""
    if arm in arms.LOGS:
        case = case_from_json(json.loads(sample.case))
        request = Request(
            source=sample.source, entry=sample.entry, case=case, hash_seed=0, traced=True, cpu_s=_CPU_S
        )  # fmt: skip
        ran = await runner.run(request)
        if ran.trace is None or not ran.trace.complete or ran.answer.text != sample.answer:
            return None
        told = arms.log(arm, ran.trace) + "\n"
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
    try:
        main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except GroundboxError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(3)
