"""`groundbox eval`: scores models on suites of questions, compares two, and scores recorded programs."""

from __future__ import annotations

import dataclasses
import functools
import json
import platform
import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from groundbox.cli.ending import can_go_on, ends_tidily, say
from groundbox.cli.endpoints import LOCAL, Repeated, takes_endpoint, takes_key
from groundbox.cli.executors import Start, takes_executor, takes_workers
from groundbox.cli.interrupts import run_until_signal
from groundbox.cli.options import Asked, check_host, takes_sandbox
from groundbox.cli.results import write_file
from groundbox.cli.terminal import one_line
from groundbox.dataset.executor import Executor
from groundbox.errors import InvalidArgument
from groundbox.version import own_version

_MODEL: Final = frozenset({".json", ".jinja", ".txt", ".model", ".safetensors", ".bin"})
"""Endings of files of a model's folder on which replies depend: configuration, template, tokenizer, weights."""

_Result = TypeVar("_Result")
_path = click.Path(path_type=Path, dir_okay=False)
_samples = click.option("--samples", required=True, type=_path, metavar="FILE", help="Lines of JSON, plain or .gz.")
_out = click.option("--out", type=_path, metavar="FILE", help="What came of each sample, one line of JSON for each.")
_json = click.option("--json", "as_json", is_flag=True, help="JSON on stdout, and nothing else there.")


_folder = click.Path(path_type=Path, file_okay=False)


@click.group(name="eval")
def eval() -> None:
    """Scores models, compares two of them, and scores recorded programs."""


@eval.command()
@click.option("--suite", required=True, metavar="NAME[:PLACE]", help="What is asked, such as cruxeval-output:FILE.")
@click.option("--out", required=True, type=_folder, metavar="DIR", help="Where results go; goes on with what is there.")
@takes_endpoint
@click.option("--model", metavar="NAME", envvar="GROUNDBOX_MODEL", help="As the endpoint knows it.")
@takes_key
@click.option("--recorded", type=_path, metavar="FILE", help='Replies in place of a model: {"id", "reply"} a line.')
@click.option("--folder", type=_folder, metavar="DIR2", help="A model of transformers, computed here.")
@click.option(
    "--limit", type=click.IntRange(1), metavar="N", help="So many questions, drawn by the seed; can be raised."
)
@click.option("--include-path", default="", metavar="DIR3", help="Of the suite `lm-eval`: a folder of further tasks.")
@click.option("--split", default="test", show_default=True, metavar="NAME", help="Of the suite `dataset`.")
@click.option("--task", "tasks", multiple=True, metavar="NAME", help="Of the suite `dataset`; by default all.")
@click.option(
    "--size", type=click.IntRange(1), default=50, show_default=True, metavar="N",
    help="Questions of each kind, where a suite makes them.",
)  # fmt: skip
@click.option(
    "--concurrency", type=click.IntRange(1), default=16, show_default=True, metavar="N",
    help="Questions that wait for a reply at once.",
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Of what is drawn; sent along, too.")
@click.option(
    "--temperature", type=click.FloatRange(0), default=0.0, show_default=True, metavar="N", help="Of each request.",
)  # fmt: skip
@click.option(
    "--max-tokens", type=click.IntRange(1), default=4096, show_default=True, metavar="N", help="Longest reply.",
)  # fmt: skip
@click.option(
    "--option", "more", multiple=True, metavar="KEY=JSON",
    help="Another key of every request to an endpoint; null: without.",
)  # fmt: skip
@click.option(
    "--timeout-s", type=click.FloatRange(1), default=600.0, show_default=True, metavar="N",
    help="Seconds that one reply may take, before it is asked for again.",
)  # fmt: skip
@click.option(
    "--trained-on", type=click.Path(path_type=Path), metavar="PATH",
    help="The model's folder with its card, or the dataset it was trained on.",
)  # fmt: skip
@takes_workers
@takes_executor
@_json
@takes_sandbox
@ends_tidily
def model(
    suite: str, out: Path, workers: int | None, start: Start, *, as_json: bool, asked: Asked, **given: Any
) -> int:  # fmt: skip
    """Scores a model on a suite: accuracy, length, and how many of the steps it tells are true.

    Suites: dataset:DIR, cruxeval-output:FILE, cruxeval-input:FILE, humaneval:FILE, mbpp:FILE, pal:FILE,
    reasoning-gym[:KINDS], lm-eval:TASKS, inspect:TASK, and those of other packages. Killed and started again with the
    same arguments, it asks no question twice. What got no reply is listed and counts for nothing.
    With --executor ray://HOST:PORT replies are judged on other machines, with the same results; lm-eval and inspect
    are judged here.
    """
    check_host(asked)
    run = _ModelRun(suite, out, start, asked, given)
    with can_go_on(out, "answered"):
        report = run_until_signal(run.carry_out())
    if as_json:
        print(json.dumps(report), flush=True)
    else:
        _tell_model(report, out)
    return 0


@eval.command()
@click.argument("a", type=_folder, metavar="DIR_A")
@click.argument("b", type=_folder, metavar="DIR_B")
@click.option("--html", "page", type=_path, metavar="FILE", help="Also as a page with charts and replies of both.")
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Of the bootstrap.")
@click.option(
    "--resamples", type=click.IntRange(100), default=2_000, show_default=True, metavar="N", help="Of the bootstrap.",
)  # fmt: skip
@_json
@ends_tidily
def compare(a: Path, b: Path, page: Path | None, seed: int, resamples: int, *, as_json: bool) -> int:
    """Compares two runs of `eval model` on one suite, question by question.

    Tells how often only one of them is right, with McNemar's exact test, and each difference B - A with a
    bootstrap interval over the questions.
    """
    from groundbox.learn.evaluation.compare import compare as compared
    from groundbox.learn.evaluation.compare import lines
    from groundbox.learn.evaluation.page import page as page_of

    found = compared(a, b, seed=seed, resamples=resamples)
    if page is not None:
        write_file(page, page_of(found).encode(), "--html")
        click.echo(f"groundbox: wrote {one_line(str(page))}", err=True)
    if as_json:
        print(json.dumps(found.facts), flush=True)
    else:
        for line in lines(found):
            click.echo(one_line(line).rstrip())
    return 0


class _ModelRun:
    """One call of `eval model`: its options, checked before anything is asked, and the work that they ask for."""

    def __init__(self, suite: str, out: Path, start: Start, asked: Asked, given: Mapping[str, Any]) -> None:
        from groundbox.learn.evaluation import trained
        from groundbox.learn.evaluation.model import drawn
        from groundbox.learn.evaluation.suites import Wanted, open_suite

        ways = [name for name in ("endpoint", "recorded", "folder") if given[name]]
        if given["endpoint"] and (given["recorded"] or given["folder"]):
            ways.remove("endpoint")  # it may come from the environment
        if len(ways) != 1:
            raise click.UsageError(
                f"name the model by one of --endpoint URL (such as {LOCAL}), --folder DIR, --recorded FILE"
            )
        (self.way,) = ways
        if self.way == "endpoint" and not given["model"]:
            raise click.UsageError("name the model as the endpoint knows it with --model NAME")
        if self.way != "endpoint" and given["more"]:
            raise click.UsageError(f"--option is a key of requests to an endpoint, and of no use to --{self.way}")
        self.out, self.start, self.asked, self.given = out, start, asked, given
        wanted = Wanted(
            split=given["split"], tasks=given["tasks"], seed=given["seed"], size=given["size"],
            include=given["include_path"],
        )  # fmt: skip
        self.suite = open_suite(suite, wanted)
        self.questions = drawn(self.suite.questions, given["limit"], given["seed"])
        place = given["trained_on"]
        self.training = trained.training_of(place) if place else None
        if self.training is None and self.way == "folder":
            self.training = trained.card_in(given["folder"])

    async def carry_out(self) -> dict[str, Any]:
        """Ask, judge, and write the report."""
        from groundbox.dataset.program_runner import SandboxRunner
        from groundbox.dataset.progress import Line, Progress
        from groundbox.learn.evaluation.model import Tools, evaluate
        from groundbox.learn.evaluation.results import opened
        from groundbox.learn.evaluation.suites import Means
        from groundbox.trace_options import TraceOptions

        limits, options = _options_of(self.asked)
        progress = Line(sys.stderr) if sys.stderr.isatty() else Progress()
        connecting = self._source(progress)  # what is wrong with it is told before a folder is made
        executor = self.start(functools.partial(_say, progress.end))
        try:
            runner = SandboxRunner(
                at_once=executor.workers, options=getattr(self.suite, "trace_options", None) or TraceOptions()
            )
            tools = Tools(
                means=Means(runner=runner, limits=limits, sandbox=options),
                executor=executor,
                at_once=self.given["concurrency"],
                progress=progress,
            )
            with opened(self.out, self._settings, self._versions()) as results:
                async with connecting as source:
                    return await evaluate(self.suite, self.questions, source, results, self._facts(), tools)
        finally:
            progress.end()
            await executor.close()

    def _source(self, progress: Any) -> Any:
        from groundbox.dataset.translation.endpoint import Endpoint
        from groundbox.endpoint.chat import key_in
        from groundbox.learn.evaluation import asking

        given, at_once = self.given, self.given["concurrency"]
        if self.way == "recorded":
            recorded = asking.Recorded(given["recorded"], {each.id for each in self.suite.questions})
            if recorded.others:
                click.echo(f"groundbox: {recorded.others} recorded replies are to no question of this suite", err=True)
            return asking.closing(recorded)
        store = self.out / asking.ANSWERS
        if self.way == "folder":
            return asking.closing(asking.Folder(given["folder"], self._request(), at_once=at_once, store=store))
        return asking.connected(
            Endpoint(
                given["endpoint"],
                given["model"],
                api_key=key_in(given["api_key_env"]),
                options=self._request(),
                at_once=at_once,
                timeout_s=given["timeout_s"],
                told=Repeated(progress.end),
            ),
            {"model": given["model"], **self._request()},
            store,
            fixed=dict(map(_option, given["more"])),
        )

    def _request(self) -> dict[str, Any]:
        given = self.given
        request = {name: given[name] for name in ("temperature", "max_tokens", "seed")}
        request |= dict(map(_option, given["more"]))
        return {name: value for name, value in request.items() if value is not None}

    @functools.cached_property
    def _settings(self) -> dict[str, Any]:
        """All that decides what is asked and how; neither the limit, which can be raised, nor where the model is."""
        from groundbox.dataset import files
        from groundbox.learn.evaluation import trained
        from groundbox.learn.evaluation.model import prompts_digest

        given: Mapping[str, Any] = self.given
        how: dict[str, Any] = {"by": self.way, "model": given["model"]}
        if self.way == "recorded":
            how = {"by": self.way, "file": given["recorded"].name, "sha256": _digest(given["recorded"])}
        elif self.way == "folder":
            found = sorted(each for each in given["folder"].iterdir() if each.suffix in _MODEL and each.is_file())
            how = {"by": self.way, "folder": given["folder"].resolve().name}
            how["sha256"] = {each.name: files.digest(each) for each in found if each.name != trained.CARD}
        return {
            "suite": self.suite.name,
            "source": dict(self.suite.source),
            "prompts": prompts_digest(self.suite.questions),
            "model": how,
            "request": {} if self.way == "recorded" else self._request(),
            "seed": given["seed"],
        }

    def _versions(self) -> dict[str, str]:
        from groundbox.learn.evaluation.results import JUDGES

        own = {"groundbox": own_version(), "judges": JUDGES, "python": platform.python_version()}
        return {**own, **getattr(self.suite, "versions", {})}

    def _facts(self) -> dict[str, Any]:
        from groundbox.learn.evaluation import trained

        settings = self._settings
        facts = {"suite": self.suite.name, "source": settings["source"], "model": settings["model"]}
        facts |= {"request": settings["request"], "seed": settings["seed"], "prompts": settings["prompts"]}
        if self.training is not None:
            facts["trained_on"] = trained.told_of(self.training, self.suite, self.questions)
        return {**facts, "versions": self._versions()}


def _digest(path: Path) -> str:
    from groundbox.dataset import files

    try:
        return files.digest(path)
    except OSError as error:
        raise InvalidArgument("--recorded", f"{path} cannot be read: {error.strerror}") from None


def _option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidArgument("--option", f"{text!r} is not KEY=JSON, such as top_p=0.95")
    if name in ("model", "messages", "stream", "n", "response_format"):
        raise InvalidArgument("--option", f"{name} cannot be set")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _tell_model(report: Mapping[str, Any], out: Path) -> None:
    from groundbox.learn.evaluation.report import lines
    from groundbox.learn.evaluation.trained import words

    for line in lines(report):
        click.echo(one_line(line))
    if left_out := {reason: count for reason, count in report["left_out"].items() if count}:
        why = ", ".join(f"{reason} {count}" for reason, count in sorted(left_out.items()))
        click.echo(f"groundbox: {sum(left_out.values())} rows of the suite gave no question: {one_line(why)}", err=True)
    for name in ("unanswered", "unjudged"):
        if report[name]:
            first = report[name][0]
            said = f"{len(report[name])} questions {name}, which count for nothing; the first is {first['id']}"
            click.echo("groundbox: " + one_line(f"{said}: {first['why']}"), err=True)
    if "trained_on" in report:
        click.echo(f"groundbox: {one_line(words(report['trained_on'], report['asked']))}", err=True)
    click.echo(f"groundbox: wrote {one_line(str(out / 'report.json'))}", err=True)


@eval.command()
@_samples
@click.option("--problems", type=_path, metavar="FILE", help="HumanEval's lines; by default the samples hold them.")
@click.option("--k", "ks", type=click.IntRange(1), multiple=True, default=(1, 10, 100), show_default=True, metavar="K")
@_out
@takes_workers
@takes_executor
@_json
@takes_sandbox
@ends_tidily
def humaneval(
    samples: Path, problems: Path | None, ks: Sequence[int], out: Path | None, workers: int | None, start: Start, *,
    as_json: bool, asked: Asked,
) -> int:  # fmt: skip
    """Tells pass@k of samples: {"task_id", "completion"} or {"task_id", "solution"} a line.

    The tests and the solution run in sandboxes of their own. The limits are of each call of a solution.
    """
    from groundbox.learn.evaluation.estimate import mean_pass_at_k
    from groundbox.learn.evaluation.humaneval import counts, judge_all, read_problems, read_samples
    from groundbox.learn.evaluation.judging import LOST_SANDBOX

    given, used = read_samples(samples, None if problems is None else read_problems(problems))
    limits, options = _sandbox(asked)
    judged = _carried_out(
        start, lambda executor: judge_all(given, used, limits=limits, options=options, executor=executor)
    )
    rows = zip(given, judged, strict=True)
    _write(out, [{"task_id": one.task_id, "passed": each.passed, **dataclasses.asdict(each)} for one, each in rows])
    found = counts(given, judged)
    scores = {f"pass@{k}": mean_pass_at_k(found, k) for k in dict.fromkeys(ks)}
    reasons = Counter(one.reason for one in judged)
    report = {"problems": len(found), "samples": len(judged), **scores, "reasons": dict(reasons.most_common())}
    _tell(report, as_json=as_json)
    return _ended(reasons[LOST_SANDBOX])


@eval.command()
@_samples
@click.option(
    "--tolerance", type=click.FloatRange(0), default=1e-3, show_default=True, metavar="N",
    help="Largest difference, as a share of answers above 1.",
)  # fmt: skip
@_out
@takes_workers
@takes_executor
@_json
@takes_sandbox
@ends_tidily
def pal(
    samples: Path, tolerance: float, out: Path | None, workers: int | None, start: Start, *, as_json: bool,
    asked: Asked,
) -> int:  # fmt: skip
    """Tells how many programs give the right number: {"question", "program", "answer"} a line.

    Each runs in a fresh sandbox; its number is what solution() returns, or the last one that it prints.
    """
    from groundbox.learn.evaluation.judging import LOST_SANDBOX
    from groundbox.learn.evaluation.pal import read_items, score_all

    items = read_items(samples)
    limits, options = _sandbox(asked)
    scored = _carried_out(
        start,
        lambda executor: score_all(items, limits=limits, options=options, tolerance=tolerance, executor=executor),
    )
    _write(out, [dataclasses.asdict(one) for one in scored])
    right = sum(one.right for one in scored)
    reasons = Counter(one.reason for one in scored)
    known = len(items) - reasons[LOST_SANDBOX]
    report = {"samples": len(items), "right": right, "accuracy": right / known if known else None}
    _tell({**report, "reasons": dict(reasons.most_common())}, as_json=as_json)
    return _ended(reasons[LOST_SANDBOX])


def _ended(lost: int) -> int:
    """The status of a command that could not judge so many samples, because sandboxes failed."""
    if lost:
        click.echo(
            f"groundbox: sandboxes failed for {lost} samples, which count for nothing; judge them again", err=True
        )
    return 3 if lost else 0


def _sandbox(asked: Asked) -> tuple[Any, dict[str, Any]]:
    check_host(asked)
    return _options_of(asked)


def _options_of(asked: Asked) -> tuple[Any, dict[str, Any]]:
    options = dict(vars(asked))
    return options.pop("limits"), options


def _carried_out(start: Start, work: Callable[[Executor], Coroutine[Any, Any, list[_Result]]]) -> list[_Result]:
    """Do the work by an executor, which ends with it."""

    async def whole() -> list[_Result]:
        executor = start(functools.partial(_say, lambda: None))
        try:
            return await work(executor)
        finally:
            await executor.close()

    return run_until_signal(whole())


def _say(before: Callable[[], None], words: str) -> None:
    """Tell what an executor has to say, on a line of its own."""
    before()
    say(one_line(words))


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
        few = "none was judged" if name == "accuracy" else "too few samples"
        text = few if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)
        click.echo(f"{name:<10} {text}")
    for reason, count in reasons.items():
        click.echo(f"  {count:>6}  {reason}", err=True)
