"""`python -m groundbox.learn.experiment.retold`: a dataset with other texts between question and answer.

What it does to a model that its data is narrated shows only beside models that learnt the same questions without, or
from logs. The questions, splits and answers stay; each program is run once more, and a run that gives another answer
than the dataset has is left out of every arm, `proven` as well, which keeps its narrations.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from groundbox.dataset import files
from groundbox.dataset.build import CARD, REPORT
from groundbox.dataset.item_runs import TRACED_SEED, RunLimits, Runs
from groundbox.dataset.program_runner import Runner, SandboxRunner
from groundbox.dataset.reproof import problem_of
from groundbox.dataset.sample_files import FILES, SAMPLES, Sample, read_samples, writing
from groundbox.errors import InvalidArgument
from groundbox.learn.experiment import arms, carry_out
from groundbox.learn.training import chats
from groundbox.trace.record.reading import Trace

PROVEN: Final = "proven"
ARMS: Final = ("direct", *sorted(arms.LOGS), PROVEN)
"""Arms that need nothing but the run and the dataset's own narration."""
_TOGETHER: Final = 256
"""Runs of which traces are in memory at the same time."""
_CARD: Final = """# {count} samples, told otherwise

The questions about results of the dataset {name} (SHA-256 of its samples `{digest}`){limit},
with the replies of the arm `{arm}` of groundbox's experiment: {told}.
Each program was run again; {lost} runs gave another answer than that dataset has, and are left out.
The licences of that dataset's programs apply.
{proof}
"""
_UNPROVEN: Final = "Nothing in these replies was proven: `groundbox dataset verify` is for that dataset."
_AS_PROVEN: Final = "The replies are those that were proven there: `groundbox dataset verify` is for that dataset."
_TOLD: Final = {
    "direct": "the answer alone",
    "raw": "the log of each line that ran and each name that changed, and the answer",
    "concise": "a line for each step that did something, and the answer",
    PROVEN: "the proven narration, as it was, and the answer",
}


async def retell(
    dataset: Path,
    arms_: Sequence[str],
    out: Path,
    runner: Runner,
    *,
    per_program: int | None = None,
    most_chars: int | None = None,
) -> Mapping[str, int]:
    """Write a dataset for each arm, in a folder of its name; give how many samples each has, and lacks by reason.

    Args:
        per_program: Most samples of one program in a split, the first ones; None for all.
        most_chars: Most characters of a question with its reply. One that is longer in any arm is left out of all, so
            that they learn from the same questions where a length is kept.

    Raises:
        InvalidArgument: `dataset` is none, or not as it was written, or `out` holds something.
    """
    name, digest = _ready(dataset, out)
    counts = {"samples": 0, "other-task": 0, "other-answer": 0, "further": 0, "too-long": 0}
    taken: Counter[tuple[str, str]] = Counter()
    for arm in arms_:
        (out / arm).mkdir()
    with contextlib.ExitStack() as stack:
        writers = {arm: stack.enter_context(writing(out / arm)) for arm in arms_}
        for some in _some(read_samples(dataset / SAMPLES)):
            asked = [each for each in some if each.task == "output" and each.entry is not None]
            counts["other-task"] += len(some) - len(asked)
            wanted = [each for each in asked if _is_wanted(each, taken, per_program)]
            counts["further"] += len(asked) - len(wanted)
            for told in await asyncio.gather(*(_retold(each, arms_, runner) for each in wanted)):
                if told and most_chars is not None and _chars(told.values()) > most_chars:
                    counts["too-long"] += 1
                    continue
                counts["samples" if told else "other-answer"] += 1
                for arm, sample in told.items():
                    writers[arm].sample(sample)
    limit = "" if per_program is None else f", {per_program} of a program at most"
    if most_chars is not None:
        limit += f", of {most_chars:,} characters at most with the reply of the longest arm"
    for arm in arms_:
        card = _CARD.format(
            count=counts["samples"], name=name, digest=digest, arm=arm, told=_TOLD[arm], limit=limit,
            lost=counts["other-answer"], proof=_AS_PROVEN if arm == PROVEN else _UNPROVEN,
        )  # fmt: skip
        files.publish(out / arm / CARD, card.encode())
        written = {name: files.digest(out / arm / name) for name in (*FILES, CARD)}
        report = {
            "samples": counts["samples"],
            "arm": arm,
            "of": digest,
            "per_program": per_program,
            "most_chars": most_chars,
            "files": written,
        }
        files.publish(out / arm / REPORT, json.dumps(report, indent=1).encode() + b"\n")
    return counts


def _chars(told: Iterable[Sample]) -> int:
    return max(len(each.prompt) + len(each.reply) for each in told)


def _is_wanted(sample: Sample, taken: Counter[tuple[str, str]], per_program: int | None) -> bool:
    """Tell whether a program has not had its samples yet, and count this one."""
    key = (sample.split, sample.source)
    taken[key] += 1
    return per_program is None or taken[key] <= per_program


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


async def _retold(sample: Sample, arms_: Sequence[str], runner: Runner) -> Mapping[str, Sample]:
    """The sample as each arm tells it; nothing where the run cannot be repeated."""
    problem = problem_of(sample)
    ran = await Runs(problem, problem.cases[0], runner, RunLimits())(TRACED_SEED, traced=True)
    if ran.trace is None or not ran.trace.complete or ran.answer.text != sample.answer:
        return {}  # in each arm, also where nothing of the run is told: all have the same questions
    trace = ran.trace
    return {arm: sample if arm == PROVEN else _told(sample, arm, trace) for arm in arms_}


def _told(sample: Sample, arm: str, trace: Trace) -> Sample:
    told = arms.log(arm, trace) + "\n" if arm in arms.LOGS else ""
    return dataclasses.replace(
        sample, reply=f"{told}{arms.ANSWER}{sample.answer}", style=arm, detail="", narration="", claims=0, proven=0,
        claims_data="", coverage=0.0, left_out=0, derivable=0.0, jumps="[]",
    )  # fmt: skip


@click.command()
@click.argument("dataset", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--arm",
    "chosen",
    required=True,
    multiple=True,
    type=click.Choice(ARMS),
    help="What stands between question and answer; once for each folder that is wanted.",
)
@click.option("--per-program", type=click.IntRange(1), metavar="N", help="Most samples of a program in a split.")
@click.option(
    "--max-chars",
    type=click.IntRange(1),
    metavar="N",
    help="Leave a question out of all arms that is longer, with its reply, in any.",
)
@click.option("--out", required=True, type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="For all.")
def main(dataset: Path, chosen: tuple[str, ...], per_program: int | None, max_chars: int | None, out: Path) -> None:
    """Writes the questions about results of DATASET with the replies of each arm, in a folder of the arm's name."""
    arms_ = list(dict.fromkeys(chosen))
    counts = asyncio.run(
        retell(dataset, arms_, out, SandboxRunner(at_once=4), per_program=per_program, most_chars=max_chars)
    )
    told = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    click.echo(f"groundbox: {told} in each of {', '.join(str(out / arm) for arm in arms_)}", err=True)


if __name__ == "__main__":
    carry_out(main)
