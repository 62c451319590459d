"""`python -m groundbox.learn.experiment`: all of it, from programs to the table. Goes on where it was killed."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from groundbox.learn.experiment import carry_out, data, report
from groundbox.learn.experiment.arms import ARMS
from groundbox.learn.experiment.data import RUN, run_folder
from groundbox.learn.experiment.plan import LONG, QUICK, SHORT, Plan

_FORMS: Final = {"quick": QUICK, "short": SHORT, "long": LONG}


@click.command()
@click.option(
    "--out", required=True, type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="For all of it."
)
@click.option("--form", type=click.Choice(list(_FORMS)), default="short", show_default=True, help="How much of it.")
@click.option("--arm", "arms", multiple=True, type=click.Choice(ARMS), help="Only these of the form's arms.")
@click.option("--seed", "seeds", multiple=True, type=int, metavar="N", help="Only these of the form's seeds.")
@click.option(
    "--real", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE",
    help="Problems for the split of programs that people wrote.",
)  # fmt: skip
@click.option("--jobs", type=click.IntRange(1), default=os.cpu_count() or 1, metavar="N", help="Models at a time.")
@click.option(
    "--tokens", type=click.IntRange(1), metavar="N", help="Tokens that each model sees; 3,000,000 unless it is quick."
)
@click.option(
    "--device",
    type=click.Choice(("auto", "cpu", "cuda")),
    default="auto",
    show_default=True,
    help="Where models are computed; auto takes a GPU where there is one.",
)
@click.option("--report", "only_report", is_flag=True, help="Train nothing; tell what is there.")
def main(
    out: Path,
    form: str,
    arms: tuple[str, ...],
    seeds: tuple[int, ...],
    real: Path | None,
    jobs: int,
    tokens: int | None,
    device: str,
    *,
    only_report: bool,
) -> None:
    """Trains a small transformer on each arm's texts, and tells which reasons better."""
    plan = _FORMS[form] if tokens is None else dataclasses.replace(_FORMS[form], tokens=tokens)
    data.keep_plan(out, plan, real)
    if not only_report:
        counts = asyncio.run(data.prepare(out, plan, real))
        click.echo("runs: " + ", ".join(f"{count:,} {name}" for name, count in counts.items()), err=True)
        if failed := asyncio.run(_train(out, plan, arms or plan.arms, seeds or plan.seeds, jobs, device)):
            raise click.ClickException(f"{', '.join(failed)} ended before all was done; call it again to go on")
    found_arms = report.read(out, plan)
    if not found_arms:
        raise click.ClickException(f"no model in {out} is trained: call it without --report")
    found = report.figures(found_arms)
    (out / "report.json").write_text(json.dumps(found, indent=1) + "\n")
    (out / "report.html").write_text(report.page(found, found_arms))
    click.echo(report.table(found), err=True)
    click.echo(f"charts: {out / 'report.html'}", err=True)
    click.echo(json.dumps(found))


async def _train(
    out: Path, plan: Plan, arms: Sequence[str], seeds: Sequence[int], jobs: int, device: str = "auto"
) -> list[str]:
    """Train what is not there yet, each model in a process of its own, the first seed of all arms first.

    Gives the names of those that failed. A process that is under way when this ends is killed.
    """
    from groundbox.learn.experiment.running import device_of, learn_vocabulary

    where = device_of(device)
    learn_vocabulary(out, plan)
    slots = asyncio.Semaphore(jobs)

    async def one(arm: str, seed: int) -> str:
        async with slots:
            if (run_folder(out, arm, seed) / RUN).exists():
                return ""
            call = [sys.executable, "-m", "groundbox.learn.experiment.running", str(out), arm, str(seed), where]
            process = await asyncio.create_subprocess_exec(*call)
            try:
                status = await process.wait()
            finally:
                if process.returncode is None:
                    process.kill()
        return f"{arm} {seed} (status {status})" if status else ""

    wanted = [(arm, seed) for seed in plan.seeds for arm in plan.arms if arm in arms and seed in seeds]
    return [each for each in await asyncio.gather(*(one(*each) for each in wanted)) if each]


if __name__ == "__main__":
    carry_out(main)
