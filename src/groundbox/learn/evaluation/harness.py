"""Tasks of lm-evaluation-harness as suites: its prompts, its filters and its metrics, and the asking of `eval model`.

The task code of that package runs in a process of its own (`harness_process`), which tells the questions and scores
the replies. A reply on which it comes to no end costs that process, and is wrong; a new one goes on with the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import importlib.util
import json
import multiprocessing
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Final

from groundbox.errors import ExtraMissing, GroundboxError, InvalidArgument
from groundbox.learn.evaluation import harness_process
from groundbox.learn.evaluation.asking import before
from groundbox.learn.evaluation.replies import Said
from groundbox.learn.evaluation.suites import Judged, Means, Question, Wanted

OPEN_S: Final = 1800.0
"""Time to open tasks, whose data may have to be downloaded."""
SCORE_S: Final = 60.0
_MOST_TEXT_CHARS: Final = 400_000
_INSTALL: Final = "lm_eval"


class ScorerLost(GroundboxError):
    """The process that scores ended or came to no end."""

    program_ran = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class Harness:
    """Questions of tasks, scored by them.

    Attributes:
        versions: Of the package; what another one has scored is scored again.
    """

    name: str
    source: Mapping[str, Any]
    questions: Sequence[Question]
    versions: Mapping[str, str]
    scorer: _Scorer
    left_out: Mapping[str, int] = dataclasses.field(default_factory=dict)

    async def judge(self, question: Question, said: Said, means: Means) -> Judged:
        """See Judging.judge. `right` is what the first metric of the first filter says, where that is 0 or 1.

        A reply that the scorer does not bear has the metrics of an empty one, so that none is gained by it.
        """
        task, number, stop = question.right
        text = before(said.whole, stop)[-_MOST_TEXT_CHARS:]
        asked = {"do": "score", "task": task, "number": number}
        try:
            found = await self.scorer.ask({**asked, "text": text}, SCORE_S)
        except ScorerLost as error:
            found = {**await self.scorer.ask({**asked, "text": ""}, SCORE_S), "failed": str(error)}
        if "broken" in found:
            return Judged(right=None, reason="not-judged", detail=f"its scorer bears no reply: {found['broken']}")
        value = found["metrics"].get(found["main"])
        right = bool(value) if value in (0, 1) and found["higher_is_better"] else None
        if "failed" in found:
            right = None if right is None else False
            return Judged(right, "scorer-failed", found["failed"], "", found["metrics"])
        reason = "graded" if right is None else "right" if right else said.lacks_text or "wrong"
        return Judged(right=right, reason=reason, answer=found["answer"], metrics=found["metrics"])

    async def aggregate(self, values: Mapping[str, Mapping[str, Sequence[Any]]]) -> Mapping[str, Mapping[str, Any]]:
        """See Aggregating.aggregate: each task's own."""
        found: Mapping[str, Mapping[str, Any]] = await self.scorer.ask({"do": "aggregate", "values": values}, OPEN_S)
        return found


def open_lm_eval(wanted: Wanted) -> Harness:
    """Tasks, groups and tags of the package, or files of YAML, with commas between them.

    Raises:
        ExtraMissing: The package is not installed, or one that a task needs.
        InvalidArgument: There is no such task, or one that cannot be asked here.
    """
    names = [each.strip() for each in wanted.place.split(",") if each.strip()]
    if not names:
        raise InvalidArgument("--suite", "name a task of lm-evaluation-harness, as in lm-eval:gsm8k")
    if importlib.util.find_spec("lm_eval") is None:
        raise ExtraMissing(_INSTALL, "to ask its tasks", _INSTALL)
    scorer = _Scorer({"tasks": names, "include": wanted.include})
    told = scorer.opened()
    questions = [
        Question(
            id=f"{each['task']}/{each['doc']}",
            prompt=each["prompt"],
            messages=each["messages"],
            options=each["options"],
            group=each["task"],
            right=(each["task"], each["number"], each["stop"]),
        )
        for each in told["questions"]
    ]
    versions = {"lm_eval": str(told["version"])}
    return Harness(
        name="lm-eval", source={"tasks": told["tasks"]}, questions=questions, versions=versions, scorer=scorer
    )


class _Scorer:
    """The process that has the tasks, and the one after it. One request at a time."""

    def __init__(self, wanted: Mapping[str, Any]) -> None:
        self._wanted = wanted
        self._folder = tempfile.TemporaryDirectory(prefix="groundbox-lm-eval-")
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None
        self._turn = asyncio.Lock()
        self._end: weakref.finalize[..., Any] | None = None

    def opened(self) -> Mapping[str, Any]:
        """Start the process; what it tells of the tasks.

        Raises:
            ExtraMissing, InvalidArgument: As `open_lm_eval`.
        """
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        arguments = (theirs, self._wanted, self._folder.name)
        self._process = context.Process(target=harness_process.serve, args=arguments, daemon=True)
        self._process.start()
        theirs.close()
        self._end = weakref.finalize(self, _end, self._process, self._pipe)
        try:
            told = self._received(OPEN_S)
        except ScorerLost as error:
            raise InvalidArgument("--suite", f"{', '.join(self._wanted['tasks'])} cannot be opened: {error}") from None
        if "missing" in told:
            name = str(told["missing"])
            raise (
                ExtraMissing(name, "by a task of lm-evaluation-harness", name)
                if name.isidentifier()
                else InvalidArgument("--suite", str(told["why"]))
            )
        if "refused" in told:
            raise InvalidArgument("--suite", str(told["refused"]))
        return told

    async def ask(self, request: Mapping[str, Any], most_s: float) -> dict[str, Any]:
        """The reply to a request.

        Raises:
            ScorerLost: There was none in time, or the process ended.
        """
        async with self._turn:
            return await asyncio.to_thread(self._asked, request, most_s)

    def _asked(self, request: Mapping[str, Any], most_s: float) -> dict[str, Any]:
        if self._process is None:
            self.opened()
        assert self._pipe is not None
        try:
            self._pipe.send_bytes(json.dumps(request).encode())
        except OSError:
            self._lose()
            raise ScorerLost("the process that scores has ended") from None
        return self._received(most_s)

    def _received(self, most_s: float) -> dict[str, Any]:
        assert self._pipe is not None
        try:
            if self._pipe.poll(most_s):
                found: dict[str, Any] = json.loads(self._pipe.recv_bytes())
                return found
        except (EOFError, OSError):
            self._lose()
            raise ScorerLost("the process that scores ended, as it does when memory runs out") from None
        self._lose()
        raise ScorerLost(f"there was no end in {most_s:g} s")

    def _lose(self) -> None:
        process, self._process = self._process, None
        if self._end is not None:
            self._end()
        if process is not None:
            process.join()


def _end(process: BaseProcess, pipe: Connection) -> None:
    """Close the pipe and kill the process. Waits for nothing: the garbage collector may call this."""
    with contextlib.suppress(OSError):
        pipe.close()
    with contextlib.suppress(ValueError):  # it was closed
        process.kill()
