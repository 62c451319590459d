"""`groundbox dataset`: builds training data from problems, and proves a dataset again."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import click

from groundbox.cli.ending import can_go_on, ends_tidily, say
from groundbox.cli.endpoints import LOCAL, Repeated, takes_endpoint, takes_key
from groundbox.cli.executors import Start, takes_executor, takes_workers
from groundbox.cli.interrupts import run_until_signal
from groundbox.cli.options import check_host
from groundbox.cli.terminal import one_line
from groundbox.dataset import narration
from groundbox.dataset.build import Tools
from groundbox.dataset.files import published
from groundbox.dataset.grammar import CONSTRUCTS, Grammar
from groundbox.dataset.grammar import problems as problems_of
from groundbox.dataset.item_runs import RunLimits
from groundbox.dataset.options import BuildOptions
from groundbox.dataset.problems.reading import FORMATS
from groundbox.dataset.program_runner import ExecutedRunner, SandboxRunner
from groundbox.dataset.progress import Line, Progress
from groundbox.dataset.selection import Shares, Taste
from groundbox.dataset.tasks.registry import TASKS
from groundbox.dataset.translation import prompts
from groundbox.dataset.translation.options import TranslateOptions
from groundbox.errors import GroundboxError, InvalidArgument
from groundbox.trace_options import TraceOptions

DIFFERS = 1
_IN_PROSE = {
    "fell_back": "are told in prose without claims: the endpoint refuses JSON of a schema (response_format)",
    "in_words": "were asked for as JSON and answered in words",
}
_Result = TypeVar("_Result")
_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
_USUAL = {field.name: field for field in dataclasses.fields(BuildOptions)}
_USUAL_TRANSLATION: dict[str, Any] = {field.name: field.default for field in dataclasses.fields(TranslateOptions)}
_path = click.Path(path_type=Path)
_json = click.option("--json", "as_json", is_flag=True, help="JSON on stdout, and nothing else there.")


def _usual(name: str) -> Any:
    return _USUAL[name].default


@click.group()
def dataset() -> None:
    """Training data from recorded runs, every claim of it checked against them."""


def _number(name: str, default: float, words: str, *, least: float = 1, most: float | None = None) -> _Decorator:
    """An option for a number; whole when its default is."""
    kind: Any = click.IntRange if isinstance(default, int) else click.FloatRange
    return click.option(
        f"--{name}", type=kind(least, most), default=default, show_default=True, metavar="N", help=words
    )


@dataset.command()
@click.argument("more", metavar="[FILE]...", nargs=-1, type=_path)
@click.option("--problems", multiple=True, type=_path, metavar="FILE", help="A file or folder of problems; repeatable.")
@click.option("--out", required=True, type=_path, metavar="DIR", help="Where the dataset goes; resumes what is there.")
@click.option("--format", type=click.Choice(FORMATS), help="Of all files; by default each line says by its keys.")
@click.option("--licence", "licences", multiple=True, metavar="FILE=NAME", help="Licence of a file that states none.")
@click.option(
    "--benchmark", "benchmarks", multiple=True, type=_path, metavar="FILE", help="No sample may come from it."
)
@click.option("--cases", type=click.IntRange(min=1), metavar="N", help="Most inputs of one problem; by default all.")
@_number("made-inputs", _usual("made_inputs"), "Inputs that are made for a problem without any.")
@_number(
    "smaller-runs",
    _usual("smaller_runs"),
    "Runs made to find a smaller input for a run too long to be told whole; 0: none is looked for.",
    least=0,
)
@click.option("--task", "tasks", multiple=True, type=click.Choice(TASKS), help="What is asked; by default all of them.")
@click.option("--style", "styles", multiple=True, type=click.Choice(narration.STYLES), help="By default all of them.")
@_number("samples-per-item", _usual("samples_per_item"), "Most questions about one run.")
@_number("max-chars", _usual("max_chars"), "Longest telling of a run.", least=200)
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Of every choice.")
@_number("cpu-s", RunLimits().cpu_s, "Processor seconds of a plain run.", least=0.1)
@_number("traced-cpu-s", RunLimits().traced_cpu_s, "Processor seconds of a traced run.", least=0.1)
@_number("soft-events", TraceOptions().soft_events, "Records after which what was shown twice is folded.")
@_number("most-steps", Taste().most_steps, "Recorded lines of a run, beyond which it is dropped.")
@click.option("--stable-only", is_flag=True, help="Drop runs that another build may not repeat.")
@_number("near-duplicate", _usual("near_duplicate"), "Likeness from which on a program is a copy.", least=0.01, most=1)
@_number("containment", _usual("containment"), "Share of a benchmark task that is too much.", least=0.01, most=1)
@_number("validation", Shares().validation, "Share of the problems.", least=0, most=1)
@_number("test", Shares().test, "Share of the problems.", least=0, most=1)
@click.option("--tokenizer", type=_path, metavar="FILE", help="A tokenizer.json to report lengths in.")
@takes_workers
@takes_executor
@click.option(
    "--parts",
    metavar="URL|DIR",
    help="Keep what is done there, too, such as s3://BUCKET/PREFIX, so that the build can go on from another machine.",
)
@_json
@ends_tidily
def build(
    more: tuple[Path, ...], problems: tuple[Path, ...], out: Path, tokenizer: Path | None, workers: int | None,
    start: Start, parts: str | None, *, as_json: bool, **given: Any,
) -> int:  # fmt: skip
    """Builds a dataset in DIR from files of problems.

    Killed at any moment and started again with the same arguments, it goes on where it was; it loses and
    repeats nothing, and writes the same bytes whatever the number of workers.
    """
    from groundbox.dataset.build import build as make

    if not problems and not more:
        raise click.UsageError("name at least one file with --problems")
    options = _options((*problems, *more), given)
    tools = dataclasses.replace(_tools(start, options.trace, tokenizer), parts=parts)
    with can_go_on(out, "done", tools.progress.end):
        report = _carried_out(make(options, out, tools), tools)
    if as_json:
        print(json.dumps(report), flush=True)
    else:
        _tell(report, out)
    return 0


@dataset.command()
@click.option(
    "--out", required=True, type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Lines for build."
)
@click.option("--count", type=click.IntRange(1), required=True, metavar="N", help="Programs.")
@click.option("--statements", default="2-4", show_default=True, metavar="N-N", help="Of the function, without return.")
@_number("depth", Grammar().depth, "Branches and loops within each other; 0: none.", least=0, most=6)
@_number("rounds", Grammar().rounds, "Most rounds of a loop over a range.")
@_number("values", Grammar().values, "Largest number among constants and arguments.", least=2)
@_number("bound", Grammar().bound, "Largest absolute value that a run may reach.", least=2)
@click.option(
    "--construct",
    "constructs",
    multiple=True,
    type=click.Choice(CONSTRUCTS),
    help="Beside assignments; by default all.",
)
@_number("cases", Grammar().cases, "Inputs of a program.", least=1, most=20)
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Of every choice.")
@ends_tidily
def generate(out: Path, count: int, statements: str, constructs: tuple[str, ...], seed: int, **sizes: int) -> int:
    """Writes small programs from a grammar, with inputs, as problems for build.

    No two are alike; each runs and ends, and its inputs do not all have one result. The same options give the
    same file.
    """
    told = re.fullmatch(r"([0-9]{1,4})(?:-([0-9]{1,4}))?", statements)
    if told is None:
        raise click.UsageError("--statements takes a number or two, such as 3 or 2-4")
    grammar = Grammar(
        statements=(int(told[1]), int(told[2] or told[1])), constructs=frozenset(constructs or CONSTRUCTS), **sizes
    )
    try:
        with published(out) as file:
            for line in problems_of(count, grammar=grammar, seed=seed):
                file.write(json.dumps(line).encode() + b"\n")
    except OSError as error:
        raise GroundboxError(f"--out: '{out}' cannot be written: {error.strerror}") from None
    print(f"groundbox: {count} programs with {count * grammar.cases} inputs in {out}", file=sys.stderr)
    return 0


@dataset.command()
@click.argument("folder", metavar="DIR", type=_path)
@click.option("--out", required=True, type=_path, metavar="DIR2", help="Where it goes; resumes what is there.")
@takes_endpoint
@click.option("--model", required=True, metavar="NAME", envvar="GROUNDBOX_MODEL", help="As the endpoint knows it.")
@takes_key
@click.option(
    "--prompt",
    type=click.Choice(prompts.STYLES),
    default=prompts.STYLES[0],
    show_default=True,
    help="How the model is asked.",
)
@click.option("--claims", "tells", flag_value="claims", default=True, help="Sentences with their claims. The default.")
@click.option("--prose", "tells", flag_value="prose", help="Plain prose.")
@click.option("--reader", "tells", flag_value="reader", help="Plain prose, which the model then reads claims out of.")
@_number("concurrency", _USUAL_TRANSLATION["at_once"], "Requests that wait for an answer at once.")
@click.option("--temperature", type=click.FloatRange(0), metavar="N", help="By default the endpoint's own.")
@_number("max-tokens", 16384, "Longest answer, with what the model thinks.")
@click.option(
    "--option", "more", multiple=True, metavar="KEY=JSON", help="Another key of every request; null: without."
)
@_number(
    "least-coverage",
    _USUAL_TRANSLATION["least_coverage"],
    "Share of the sentences that can be checked.",
    least=0,
    most=1,
)
@_number("max-trace-chars", _USUAL_TRANSLATION["max_trace_chars"], "Longest trace that the model is shown.")
@_number("timeout-s", 600.0, "Seconds that one answer may take, before it is asked for again.", least=1)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the first items; it can be raised later.")
@takes_workers
@takes_executor
@_json
@ends_tidily
def translate(
    folder: Path, out: Path, workers: int | None, start: Start, *, as_json: bool, **given: Any
) -> int:  # fmt: skip
    """Has a language model tell the runs of the dataset in DIR, and keeps what is proven, as a dataset in DIR2.

    Every program is run again, its trace is shown to the model, and every claim of the answer is checked; an
    answer with a false claim is mended once by the model; what still fails is left out if it is little, or the
    item is dropped. Killed or stopped at any moment and started again with the same arguments, it asks for no
    answer twice.
    """
    from groundbox.dataset.translation.dataset import translate_dataset
    from groundbox.dataset.translation.endpoint import Endpoint
    from groundbox.dataset.verify import options_of
    from groundbox.endpoint.chat import key_in

    if not given["endpoint"]:
        raise click.UsageError(f"name the model's API with --endpoint URL, such as {LOCAL}")
    options, key = _translation(given), key_in(given["api_key_env"])
    told = Repeated(lambda: tools.progress.end())

    def connect(cache: Path) -> Endpoint:
        return Endpoint(
            given["endpoint"],
            options.model,
            api_key=key,
            options=options.request,
            at_once=options.at_once,
            timeout_s=given["timeout_s"],
            cache=cache,
            told=told,
        )

    connect(out)  # a URL that is none, or a library that is missing, is told before anything is done
    tools = _tools(start, options_of(folder))
    tools = dataclasses.replace(tools, runner=ExecutedRunner(tools.runner, tools.executor))  # what asks stays here
    with can_go_on(out, "done", tools.progress.end):
        report = _carried_out(translate_dataset(folder, out, options, tools, connect), tools)
    if as_json:
        print(json.dumps(report), flush=True)
    else:
        _tell_translation(report, out)
    return 0


@dataset.command()
@click.argument("folder", metavar="DIR", type=_path)
@takes_workers
@takes_executor
@_json
@ends_tidily
def verify(folder: Path, workers: int | None, start: Start, *, as_json: bool) -> int:
    """Runs every program of a dataset again and proves every claim, answer and digest anew.

    Exits with 1 when something differs, and says what.
    """
    from groundbox.dataset.verify import options_of
    from groundbox.dataset.verify import verify as prove_again

    tools = _tools(start, options_of(folder))
    found = _carried_out(prove_again(folder, tools), tools)
    for each in found.differences:
        if as_json:
            print(json.dumps(dataclasses.asdict(each)), flush=True)
        else:
            click.echo(one_line(f"{each.where}: {each.what}: {each.detail}"), err=True)
    summary = {"items": found.items, "samples": found.samples, "claims": found.claims}
    if as_json:
        print(json.dumps({**summary, "differences": len(found.differences)}), flush=True)
    else:
        words = ", ".join(f"{count} {name}" for name, count in summary.items())
        click.echo(f"groundbox: {words} verified, {len(found.differences)} differences", err=True)
    return DIFFERS if found.differences else 0


def _options(problems: tuple[Path, ...], given: dict[str, Any]) -> BuildOptions:
    return BuildOptions(
        problems=problems,
        format=given["format"],
        licences=dict(map(_licence, given["licences"])),
        benchmarks=given["benchmarks"],
        cases=given["cases"],
        made_inputs=given["made_inputs"],
        smaller_runs=given["smaller_runs"],
        tasks=given["tasks"] or TASKS,
        styles=given["styles"] or narration.STYLES,
        samples_per_item=given["samples_per_item"],
        seed=given["seed"],
        max_chars=given["max_chars"],
        patience=RunLimits(cpu_s=given["cpu_s"], traced_cpu_s=given["traced_cpu_s"], stable_only=given["stable_only"]),
        trace=TraceOptions(soft_events=given["soft_events"]),
        taste=Taste(most_steps=given["most_steps"]),
        shares=Shares(validation=given["validation"], test=given["test"]),
        near_duplicate=given["near_duplicate"],
        containment=given["containment"],
    )


def _translation(given: dict[str, Any]) -> TranslateOptions:
    request = {
        "temperature": given["temperature"],
        "max_tokens": given["max_tokens"],
        **dict(map(_option, given["more"])),
    }
    return TranslateOptions(
        model=given["model"],
        prompt=given["prompt"],
        tells=given["tells"],
        request={name: value for name, value in request.items() if value is not None},
        least_coverage=given["least_coverage"],
        max_trace_chars=given["max_trace_chars"],
        limit=given["limit"],
        at_once=given["concurrency"],
    )


def _option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidArgument("--option", f"{text!r} is not KEY=JSON, such as top_p=0.95")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _licence(text: str) -> tuple[str, str]:
    name, equals, licence = text.partition("=")
    if not equals or not licence:
        raise InvalidArgument("--licence", f"{text!r} is not FILE=NAME, such as problems.jsonl=MIT")
    return Path(name).name, licence


def _tools(start: Start, trace: TraceOptions, tokenizer: Path | None = None) -> Tools:
    from groundbox.dataset.build_statistics import from_file

    def tell(words: str) -> None:
        progress.end()
        say(one_line(words))

    check_host()
    progress = Line(sys.stderr) if sys.stderr.isatty() else Progress()
    executor = start(tell)
    return Tools(
        runner=SandboxRunner(at_once=executor.workers, options=trace),
        executor=executor,
        narrator=narration.tell,
        prover=narration.prove,
        progress=progress,
        tokenizer=None if tokenizer is None else from_file(tokenizer),
    )


def _carried_out(work: Coroutine[Any, Any, _Result], tools: Tools) -> _Result:
    """Do the work, and end the processes that computed for it: left to the interpreter, that can fail."""

    async def whole() -> _Result:
        try:
            return await work
        finally:
            await tools.executor.close()

    return run_until_signal(whole())


def _tell(report: dict[str, Any], out: Path) -> None:
    claims, seconds = report["claims"], report["seconds"]
    dropped = sum(report["dropped"].values())
    lines = [
        f"{report['samples']} samples from {report['kept']} of {report['items']} items in {out}",
        f"{report['runnable']} items are runnable, {report['traced']} traced completely ({report['folded']} folded), "
        f"{dropped} dropped",
        f"{claims['proven']} of {claims['total']} claims are proven, {claims['uncheckable']} cannot be checked",
        f"{seconds['wall']:.1f} s, {seconds['cpu']:.1f} s of processors",
    ]
    if "per_cpu_hour" in report:  # a report of an earlier version has none
        words = ", ".join(f"{count:,.0f} {name}" for name, count in report["per_cpu_hour"].items())
        lines.append(f"an hour of a processor makes {words}")
    _say(lines, report["dropped"])


def _tell_translation(report: dict[str, Any], out: Path) -> None:
    told, claims, seconds = report["translation"], report["claims"], report["seconds"]
    lines = [
        f"{report['samples']} samples from {report['kept']} of {report['items']} items in {out}",
        f"{told['accepted_at_first']} narrations were proven at first, {told['accepted_when_repaired']} when repaired, "
        f"{told['accepted_when_mended']} without some sentences",
        f"{claims['proven']} of {claims['total']} claims are proven, {claims['uncheckable']} cannot be checked",
        f"{told['asked']} answers ({told['cached']} of them from earlier), {told['tokens']['prompt']} tokens in, "
        f"{told['tokens']['completion']} out, {seconds['wall']:.1f} s",
    ]
    for key, words in _IN_PROSE.items():
        if told[key]:
            lines.append(f"{told[key]} items {words}")
    _say(lines, report["dropped"])


def _say(lines: list[str], dropped: dict[str, int]) -> None:
    for line in lines:
        click.echo(f"groundbox: {line}", err=True)
    for reason, count in sorted(dropped.items(), key=lambda each: -each[1]):
        click.echo(f"  {count:>6}  {reason}", err=True)
