"""Tasks of Inspect as suites: its solvers and scorers run, and what they ask a model goes through our asking.

Inspect has one way to run a task, its own: so it runs all samples, with a provider of models that hands each request
on. Replies are kept under the digest of their request, so that a run after a kill goes through all of it again and
asks only what was not answered. Where a task wants a sandbox, it gets ours, whatever kind it names: `local` would be
this machine.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib
import json
import math
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from groundbox.dataset.translation.answer_cache import Reply
from groundbox.endpoint.answer import without_thinking
from groundbox.endpoint.chat import EndpointFailed
from groundbox.errors import ExtraMissing, GroundboxError, InvalidArgument
from groundbox.learn.evaluation.executing import executing, in_source
from groundbox.learn.evaluation.replies import CUT
from groundbox.learn.evaluation.suites import Conversed, Judged, Question, Wanted

PROVIDER: Final = "groundbox"
_INSTALL: Final = "inspect_ai"
_MOST_WHY: Final = 500
_KEYS: Final = {
    "max_tokens": "max_tokens", "temperature": "temperature", "top_p": "top_p", "top_k": "top_k",
    "frequency_penalty": "frequency_penalty", "presence_penalty": "presence_penalty", "seed": "seed",
    "stop_seqs": "stop",
}  # fmt: skip
"""Settings of a request, by their names there and in a request to an endpoint."""

Ask = Callable[[Question], Awaitable[Reply]]


@dataclasses.dataclass(kw_only=True)
class InspectTask:
    """Samples of a task, which Inspect solves and scores.

    Attributes:
        versions: Of the packages; the questions are judged each time.
        sandboxed: Whether its samples have sandboxes.
    """

    name: str
    source: Mapping[str, Any]
    questions: Sequence[Question]
    versions: Mapping[str, str]
    task: Any
    sandboxed: bool
    left_out: Mapping[str, int] = dataclasses.field(default_factory=dict)
    _figures: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)

    async def aggregate(self, values: Mapping[str, Mapping[str, Sequence[Any]]]) -> Mapping[str, Mapping[str, Any]]:
        """Give the task's own figures of the last conversation."""
        return self._figures

    async def converse(self, asked: Sequence[Question], ask: Ask, at_once: int) -> Sequence[Conversed]:
        """See Conversing.converse.

        Raises:
            InvalidArgument: It asks for what cannot be asked here, such as tools, or does not run at all.
        """
        import inspect_ai
        from inspect_ai.model import GenerateConfig, get_model
        from inspect_ai.util._display import init_display_type

        init_display_type("none")
        asking = _Asking(ask, {each.id: each for each in asked})
        model = get_model(
            f"{PROVIDER}/model", config=GenerateConfig(max_connections=at_once), memoize=False, asking=asking
        )
        with tempfile.TemporaryDirectory(prefix="groundbox-inspect-") as logs:
            (log,) = await inspect_ai.eval_async(
                self.task,
                model=model,
                sandbox=PROVIDER if self.sandboxed else None,
                sample_id=[each.right for each in asked],
                epochs=1,
                fail_on_error=False,
                max_samples=at_once,
                log_dir=logs,
                log_format="json",
                log_realtime=False,
                score_display=False,
                ctl_server=False,
            )
        if asking.refused:
            raise InvalidArgument("--suite", f"the task {self.task.name} {asking.refused}")
        if log.status != "success":
            why = log.error.message if log.error is not None else log.status
            raise InvalidArgument("--suite", f"the task {self.task.name} does not run: {why[:_MOST_WHY]}")
        self._figures = {self.task.name: dict(_figures(log))}
        by_id = {str(each.id): each for each in log.samples or ()}
        return [_conversed(each, by_id.get(each.id), asking) for each in asked]


def open_inspect(wanted: Wanted) -> InspectTask:
    """A task by the name that a package gave it, or `FILE.py@NAME`. A file is run as code, on this machine.

    Raises:
        ExtraMissing: Inspect is not installed.
        InvalidArgument: There is no such task, or one that cannot be asked here.
    """
    if not wanted.place:
        raise InvalidArgument(
            "--suite", "name a task of Inspect, as in inspect:inspect_evals/gsm8k or inspect:FILE@NAME"
        )
    try:
        from inspect_ai._eval.loader import load_tasks

        importlib.import_module("groundbox.agent.adapters.inspect_sandbox")  # its provider is then known
        importlib.import_module("groundbox.learn.evaluation.inspect_model")  # and that of models
    except ModuleNotFoundError:
        raise ExtraMissing(_INSTALL, "to ask its tasks", _INSTALL) from None
    try:
        tasks = load_tasks([wanted.place])
    except GroundboxError:
        raise
    except Exception as error:  # of any code of a task
        raise InvalidArgument("--suite", f"{wanted.place}: {type(error).__name__}: {str(error)[:_MOST_WHY]}") from None
    if len(tasks) != 1:
        raise InvalidArgument("--suite", f"{wanted.place} is {len(tasks)} tasks; name one, as in inspect:FILE@NAME")
    return _opened(tasks[0], wanted)


def _opened(task: Any, wanted: Wanted) -> InspectTask:
    path = Path(wanted.place.partition("@")[0])
    own = path if path.is_file() else None
    place = (in_source(own) if own is not None else "") or executing(_functions(task), [own.parent] if own else [])
    if place:
        raise InvalidArgument(
            "--suite",
            f"the task {task.name} may execute what a model wrote, on this machine: {place}. "
            "Run it in Inspect itself, where you trust the model or the machine is nobody's",
        )
    samples = list(task.dataset)
    wants = [each for each in (task.sandbox, *(sample.sandbox for sample in samples)) if each is not None]
    if any(each.config is not None for each in wants):
        raise InvalidArgument(
            "--suite", f"the task {task.name} brings an image or a configuration of its own for its sandbox"
        )
    questions = []
    for number, sample in enumerate(samples, 1):
        name = number if sample.id is None else sample.id
        prompt = sample.input if isinstance(sample.input, str) else json.dumps([_text(each) for each in sample.input])
        questions.append(Question(id=str(name), prompt=prompt, group=task.name, right=name))
    if len({each.id for each in questions}) < len(questions):
        raise InvalidArgument("--suite", f"the task {task.name} has samples with the same id")
    source = {
        "task": task.name,
        "sandbox": sorted({each.type for each in wants}),
        "targets": hashlib.sha256(json.dumps([str(each.target) for each in samples]).encode()).hexdigest(),
        "file": None if own is None else hashlib.sha256(own.read_bytes()).hexdigest(),
    }
    return InspectTask(
        name="inspect", source=source, questions=questions, versions=dict(_versions(wanted.place)), task=task,
        sandboxed=bool(wants),
    )  # fmt: skip


def _functions(task: Any) -> Iterator[Any]:
    """Solvers and scorers of a task, down to those that others are made of."""
    left, seen = [task.setup, task.solver, task.scorer], set[int]()
    while left:
        each = left.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, list | tuple):
            left += each
            continue
        left += getattr(each, "_solvers", ())
        if not callable(each):
            continue
        yield each
        for cell in getattr(each, "__closure__", None) or ():
            with contextlib.suppress(ValueError):  # an empty cell
                if callable(cell.cell_contents) or isinstance(cell.cell_contents, list | tuple):
                    left.append(cell.cell_contents)


class _Asking:
    """Requests of a task handed on, with what was said in each sample.

    Attributes:
        refused: Why nothing more is asked; "" as long as all can be.
    """

    def __init__(self, ask: Ask, questions: Mapping[str, Question]) -> None:
        self.refused = ""
        self.replies: dict[str, list[Reply]] = {}
        self.failures: dict[str, str] = {}
        self._ask, self._questions = ask, questions

    async def answer(self, messages: Sequence[Any], tools: Sequence[Any], config: Any) -> Reply:
        """The reply to one request.

        Raises:
            EndpointFailed: There is none.
            InvalidArgument: It cannot be asked here.
        """
        from inspect_ai.log._samples import sample_active

        active = sample_active()
        name = "" if active is None else str(active.sample.id)
        if not self.refused:
            self.refused = _refusal(messages, tools, config)
        if self.refused:
            raise InvalidArgument("--suite", self.refused)
        question = Question(
            id=name,
            prompt=str(messages[-1].text) if messages else "",
            messages=[_text(each) for each in messages],
            options=_options(config),
        )
        try:
            reply = await self._ask(question)
        except EndpointFailed as error:
            self.failures[name] = str(error)
            raise
        self.replies.setdefault(name, []).append(reply)
        return reply


def _refusal(messages: Sequence[Any], tools: Sequence[Any], config: Any) -> str:
    if tools:
        return "gives the model tools, and requests here are texts"
    if (config.num_choices or 1) != 1:
        return f"asks for {config.num_choices} replies to one request, and here nothing is asked twice"
    if config.logprobs or config.prompt_logprobs:
        return "asks how likely texts are, which chats are not asked"
    if config.response_schema is not None:
        return "asks for JSON of a schema, which is not asked for here"
    for each in messages:
        if not isinstance(each.content, str) and any(part.type not in ("text", "reasoning") for part in each.content):
            return "asks about pictures, sounds or files, and requests here are texts"
    return ""


def _text(message: Any) -> dict[str, str]:
    return {"role": message.role, "content": str(message.text)}


def _options(config: Any) -> dict[str, Any]:
    found = {key: value for name, key in _KEYS.items() if (value := getattr(config, name, None)) is not None}
    return {**found, **(config.extra_body or {})}


def said(reply: Reply) -> tuple[str, str]:
    """Give Inspect of a reply the text without thinking, and why it ended."""
    return without_thinking(reply.text) or "", "max_tokens" if reply.finish == CUT else "stop"


def _conversed(question: Question, sample: Any, asking: _Asking) -> Conversed:
    replies = asking.replies.get(question.id, [])
    if question.id in asking.failures:
        return Conversed(question, [], None, asking.failures[question.id])
    if sample is None or sample.error is not None:
        why = "it was not run" if sample is None else f"the task failed on it: {sample.error.message[:_MOST_WHY]}"
        return Conversed(question, replies or [_nobody()], None, why)
    scores: Mapping[str, Any] = sample.scores or {}
    if not scores:
        return Conversed(question, replies or [_nobody()], None, "the task gave it no score")
    metrics = dict(_values(scores))
    first = next(iter(scores.values()))
    value = next(iter(metrics.values()))
    right = bool(value) if value in (0.0, 1.0) else None
    reason = "graded" if right is None else "right" if right else "wrong"
    judged = Judged(
        right=right, reason=reason, answer=None if first.answer is None else str(first.answer), metrics=metrics
    )
    return Conversed(question, replies, judged)


def _nobody() -> Reply:
    return Reply(text="", finish="stop", prompt_tokens=0, completion_tokens=0)


def _values(scores: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Values of a sample's scores, each as a number where Inspect has it as one."""
    for name, score in scores.items():
        parts = score.value if isinstance(score.value, dict) else {"": score.value}
        for part, value in parts.items():
            yield f"{name}/{part}" if part else name, _number(value)


def _number(value: Any) -> Any:
    from inspect_ai.scorer import value_to_float

    if isinstance(value, list):
        return [_number(each) for each in value]
    number = float(value_to_float()(value)) if value is not None else math.nan
    return number if math.isfinite(number) else None


def _figures(log: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    for score in log.results.scores if log.results is not None else ():
        for name, metric in score.metrics.items():
            value = float(metric.value)
            yield f"{score.name}/{name}", {"value": value if math.isfinite(value) else None}


def _versions(place: str) -> Iterator[tuple[str, str]]:
    package = place.partition("/")[0]
    for name in dict.fromkeys((_INSTALL, package)):
        with contextlib.suppress(metadata.PackageNotFoundError, ValueError):
            yield name, metadata.version(name)
