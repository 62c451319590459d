"""`groundbox eval`: scores recorded programs of a model, by runs that the programs cannot steer."""

from __future__ import annotations

import dataclasses
import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from groundbox.cli.ending import ends_tidily
from groundbox.cli.interrupts import run_until_signal
from groundbox.cli.options import Asked, check_host, takes_sandbox
from groundbox.cli.results import write_file

_path = click.Path(path_type=Path, dir_okay=False)
_samples = click.option("--samples", required=True, type=_path, metavar="FILE", help="Lines of JSON, plain or .gz.")
_out = click.option("--out", type=_path, metavar="FILE", help="What came of each sample, one line of JSON for each.")
_workers = click.option("--workers", type=click.IntRange(1), metavar="N", help="By default one for each processor.")
_json = click.option("--json", "as_json", is_flag=True, help="JSON on stdout, and nothing else there.")


@click.group(name="eval")
def eval() -> None:
    """Scores recorded programs: which of them solve their problem."""


@eval.command()
@_samples
@click.option("--problems", type=_path, metavar="FILE", help="HumanEval's lines; by default the samples hold them.")
@click.option("--k", "ks", type=click.IntRange(1), multiple=True, default=(1, 10, 100), show_default=True, metavar="K")
@_out
@_workers
@_json
@takes_sandbox
@ends_tidily
def humaneval(
    samples: Path, problems: Path | None, ks: Sequence[int], out: Path | None, workers: int | None, *, as_json: bool,
    asked: Asked,
) -> int:  # fmt: skip
    """Tells pass@k of samples: {"task_id", "completion"} or {"task_id", "solution"} a line.

    The tests and the solution run in sandboxes of their own. The limits are of each call of a solution.
    """
    from groundbox.learn.evaluation.estimate import mean_pass_at_k
    from groundbox.learn.evaluation.humaneval import counts, judge_all, read_problems, read_samples

    given, used = read_samples(samples, None if problems is None else read_problems(problems))
    limits, options = _sandbox(asked)
    judged = run_until_signal(judge_all(given, used, limits=limits, options=options, workers=_at_once(workers)))
    _write(out, [dataclasses.asdict(one) for one in judged])
    found = counts(judged)
    scores = {f"pass@{k}": mean_pass_at_k(found, k) for k in dict.fromkeys(ks)}
    reasons = Counter(one.reason for one in judged)
    report = {"problems": len(found), "samples": len(judged), **scores, "reasons": dict(reasons.most_common())}
    _tell(report, as_json=as_json)
    return 0


@eval.command()
@_samples
@click.option(
    "--tolerance", type=click.FloatRange(0), default=1e-3, show_default=True, metavar="N",
    help="Largest difference, as a share of answers above 1.",
)  # fmt: skip
@_out
@_workers
@_json
@takes_sandbox
@ends_tidily
def pal(samples: Path, tolerance: float, out: Path | None, workers: int | None, *, as_json: bool, asked: Asked) -> int:
    """Tells how many programs give the right number: {"question", "program", "answer"} a line.

    Each runs in a fresh sandbox; its number is what solution() returns, or the last one that it prints.
    """
    from groundbox.learn.evaluation.pal import read_items, score_all

    items = read_items(samples)
    limits, options = _sandbox(asked)
    scored = run_until_signal(
        score_all(items, limits=limits, options=options, tolerance=tolerance, workers=_at_once(workers))
    )
    _write(out, [dataclasses.asdict(one) for one in scored])
    right = sum(one.right for one in scored)
    reasons = Counter(one.reason for one in scored)
    report = {"samples": len(items), "right": right, "accuracy": right / len(items)}
    _tell({**report, "reasons": dict(reasons.most_common())}, as_json=as_json)
    return 0


def _sandbox(asked: Asked) -> tuple[Any, dict[str, Any]]:
    check_host(asked)
    options = dict(vars(asked))
    return options.pop("limits"), options


def _at_once(workers: int | None) -> int:
    return workers or len(os.sched_getaffinity(0))


def _write(out: Path | None, rows: Sequence[dict[str, Any]]) -> None:
    if out is None:
        return
    write_file(out, "".join(json.dumps(row) + "\n" for row in rows).encode(), "--out")


def _tell(report: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(report), flush=True)
        return
    reasons = report.pop("reasons")
    for name, value in report.items():
        text = "too few samples" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)
        click.echo(f"{name:<10} {text}")
    for reason, count in reasons.items():
        click.echo(f"  {count:>6}  {reason}", err=True)
