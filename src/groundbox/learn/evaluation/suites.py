"""Suites: questions for a model, each with a judge that no reply can steer; found by name, others' by an entry point.

A suite is opened by `NAME` or `NAME:PLACE`, where PLACE is a file, a folder, or names that the suite knows. Packages
add suites by the entry point group `groundbox.suites`, whose value is a function like `Opener`:

    [project.entry-points."groundbox.suites"]
    my-suite = "my_package.suites:open_mine"

Judging never executes a reply on the host: programs go into sandboxes, answers are read as literals. What the judge
itself cannot tell, because a sandbox failed, is `right=None` and counts for nothing.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

from groundbox.dataset import files
from groundbox.dataset.program_runner import Request, Runner
from groundbox.dataset.translation.answer_cache import Reply
from groundbox.errors import InvalidArgument
from groundbox.learn.evaluation.replies import Said
from groundbox.limits import Limits

ENTRY_POINTS: Final = "groundbox.suites"
_HERE: Final = "groundbox.learn.evaluation"
_OWN: Final = {
    "dataset": f"{_HERE}.predicting:open_dataset",
    "cruxeval-output": f"{_HERE}.predicting:open_cruxeval_output",
    "cruxeval-input": f"{_HERE}.predicting:open_cruxeval_input",
    "humaneval": f"{_HERE}.programming:open_humaneval",
    "mbpp": f"{_HERE}.programming:open_mbpp",
    "pal": f"{_HERE}.programming:open_pal",
    "reasoning-gym": f"{_HERE}.gym:open_gym",
    "lm-eval": f"{_HERE}.harness:open_lm_eval",
    "inspect": f"{_HERE}.inspect_tasks:open_inspect",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Question:
    """A question for a model, with its judge's facts.

    Attributes:
        id: Unique in the suite, and the same in every run of it.
        prompt: What the user says; where there are `messages`, the same as one text, for models without a template.
        messages: The whole conversation so far, `role` and `content` each; empty for the prompt alone.
        options: Keys of its request, in place of those that the run has for all.
        group: Kind of the question, such as the task of a dataset; figures are told for each.
        right: What its judge compares with; only the suite reads it.
        run: The run that the question is about, which steps of a reply are held against; None where there is none.
        asks_result: Whether the answer is what that run gave, so that steps can lead to it.
        program: Source of the program that it is about; "" for none.
    """

    id: str
    prompt: str
    messages: Sequence[Mapping[str, str]] = ()
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    group: str = ""
    right: Any = None
    run: Request | None = None
    asks_result: bool = False
    program: str = ""


class Judged(NamedTuple):
    """The verdict on a reply.

    Attributes:
        right: None where the judge failed, so that nothing is known; and where `metrics` grade it and tell no more.
        reason: `right`, `wrong`, or in a word what else was wrong.
        answer: As the judge read it; None where that is what stands after `Answer:`.
        metrics: Values of a suite's own metrics for this reply, as JSON; see `Aggregating`.
        read: Which part of the reply was taken for the program, and why; "" where no program was asked for.
    """

    right: bool | None
    reason: str
    detail: str = ""
    answer: str | None = None
    metrics: Mapping[str, Any] | None = None
    read: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Means:
    """Sandboxes and limits with which judges run programs.

    Attributes:
        runner: Runs programs of questions.
        limits: Of each program that a model wrote.
        sandbox: Further options of their sandboxes.
    """

    runner: Runner
    limits: Limits
    sandbox: Mapping[str, Any]
    cpu_s: float = 10.0


class Questionnaire(Protocol):
    """Questions to a model."""

    @property
    def name(self) -> str:
        """Its name in reports."""

    @property
    def source(self) -> Mapping[str, Any]:
        """Files and packages that its questions were made of, as JSON: names, digests, versions."""

    @property
    def questions(self) -> Sequence[Question]:
        """All questions, in their order."""

    @property
    def left_out(self) -> Mapping[str, int]:
        """Numbers of the rows that gave no question, by reason."""


class Judging(Protocol):
    """A judge of replies."""

    async def judge(self, question: Question, said: Said, means: Means) -> Judged:
        """Judge a reply.

        Raises:
            GroundboxError: A sandbox failed; nothing is known of the reply.
        """


class Suite(Questionnaire, Judging, Protocol):
    """Questions, each to be asked once, and their judge.

    One whose judging depends on packages has a mapping `versions` besides: results of others are judged again.
    """


@runtime_checkable
class Movable(Protocol):
    """A suite whose replies may be judged by other processes, also of other machines."""

    def judge_alone(self) -> Judging:
        """Return the judge without the questions. It can be pickled, and says the same of the same reply."""


@runtime_checkable
class Aggregating(Protocol):
    """A suite with metrics of its own, which it makes figures of."""

    async def aggregate(self, values: Mapping[str, Mapping[str, Sequence[Any]]]) -> Mapping[str, Mapping[str, Any]]:
        """Make figures of the metrics.

        Args:
            values: Of each group and metric those of all replies, as `Judged.metrics` had them.
        """


class Conversed(NamedTuple):
    """Outcome of a question about which a suite converses.

    Attributes:
        replies: All that the model said to it; the last one is kept.
        judged: None where it came to no verdict.
        why: Why there is none.
    """

    question: Question
    replies: Sequence[Reply]
    judged: Judged | None
    why: str = ""


@runtime_checkable
class Conversing(Questionnaire, Protocol):
    """Questions about each of which is asked as often and as much as it takes, with a verdict at the end.

    It is always given all questions: what was answered is not asked again, and the rest costs no model.
    """

    async def converse(
        self, asked: Sequence[Question], ask: Callable[[Question], Awaitable[Reply]], at_once: int
    ) -> Sequence[Conversed]:
        """Ask about all questions.

        Args:
            ask: Gives the reply to what is asked; raises EndpointFailed where there is none.

        Raises:
            GroundboxError: Nothing can be asked.
        """


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wanted:
    """Options of a suite, each of which has no effect on those that do not know it.

    Attributes:
        place: What stands after the colon; "" for nothing.
        split: Of a dataset.
        tasks: Of a dataset; empty for all.
        size: Questions of a suite that makes as many as are wanted, of each kind.
        include: Folder with further tasks of lm-evaluation-harness; "" for none.
    """

    place: str = ""
    split: str = "test"
    tasks: Sequence[str] = ()
    seed: int = 0
    size: int = 50
    include: str = ""


Opener: TypeAlias = Callable[[Wanted], Suite | Conversing]


def open_suite(text: str, wanted: Wanted) -> Suite | Conversing:
    """The suite of `NAME` or `NAME:PLACE`.

    Raises:
        InvalidArgument: There is no such suite, or nothing to be read at the place.
        ExtraMissing: It needs a package that is not installed.
    """
    name, _, place = text.partition(":")
    return _opener(name)(dataclasses.replace(wanted, place=place))


def file_of(wanted: Wanted, example: str) -> Path:
    """The file at the place of a suite.

    Args:
        example: A suite with its file, for the message where none is named.

    Raises:
        InvalidArgument: None is named, or there is none.
    """
    if not wanted.place:
        raise InvalidArgument("--suite", f"name the file of its problems, as in {example}")
    path = Path(wanted.place)
    if not path.is_file():
        raise InvalidArgument("--suite", f"there is no file {path}")
    return path


def source_of(path: Path) -> dict[str, Any]:
    """The `source` of a suite whose questions are in one file."""
    return {"name": path.name, "sha256": files.digest(path)}


def check_ids(path: Path, questions: Sequence[Question]) -> None:
    """Refuse a file that has an id twice.

    Raises:
        InvalidArgument: It has.
    """
    twice = next((name for name, count in Counter(each.id for each in questions).items() if count > 1), None)
    if twice is not None:
        raise InvalidArgument("--suite", f"{path} has the id {twice!r} twice")


def no_question(path: Path, such: str, left_out: Mapping[str, int]) -> InvalidArgument:
    """The error of a file without a question, with why its rows gave none."""
    why = ", ".join(f"{reason} {count}" for reason, count in sorted(left_out.items()) if count)
    return InvalidArgument("--suite", f"{path} has no row of {such}{f'; left out: {why}' if why else ''}")


def names() -> list[str]:
    """All suites that are installed, those of other packages last."""
    return [*_OWN, *sorted(set(_others()) - _OWN.keys())]


def _opener(name: str) -> Opener:
    if name in _OWN:
        module, _, function = _OWN[name].partition(":")
        found: Opener = getattr(importlib.import_module(module), function)
        return found
    others = _others()
    if name in others:
        loaded: Opener = others[name].load()
        return loaded
    raise InvalidArgument(
        "--suite",
        f"there is no suite {name!r}; there are {', '.join(names())}. A package adds others by the entry point group "
        f"{ENTRY_POINTS}",
    )


def _others() -> dict[str, metadata.EntryPoint]:
    return {point.name: point for point in metadata.entry_points(group=ENTRY_POINTS)}
