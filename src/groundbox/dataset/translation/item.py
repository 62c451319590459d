"""An item of a dataset told anew: run again, shown to the model, its answer proven, and put into the item's rows.

A new telling goes into the rows that ask for what the whole telling leads to (`RETOLD`); the others hold parts
of the old one, cut at a record, and an answer of a model cannot be cut so.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from groundbox.dataset.executor import Executor, Part, Shard
from groundbox.dataset.item import Answer
from groundbox.dataset.item_runs import TRACED_SEED, RunLimits, Runs, compressed
from groundbox.dataset.model_telling import Telling, TellingProver, expected_of
from groundbox.dataset.narration import Proved
from groundbox.dataset.problem import Drop, Problem, json_words
from groundbox.dataset.program_runner import Runner
from groundbox.dataset.reproof import problem_of, run_differences
from groundbox.dataset.sample_files import Sample
from groundbox.dataset.shard_samples import SampledItem
from groundbox.dataset.tasks.checking import MARK
from groundbox.dataset.translation.answer_cache import Reply
from groundbox.dataset.translation.endpoint import Model
from groundbox.dataset.translation.options import TranslateOptions
from groundbox.dataset.translation.prompts import Shown
from groundbox.dataset.translation.translator import UNPROVEN, Judge, Translation, Unfit, translate
from groundbox.errors import SandboxLost
from groundbox.trace.record.reading import Trace
from groundbox.trace.show.forms import FORMS

STAGE: Final = "translate"
RETOLD: Final = ("output", "exception")
FORM: Final[Mapping[str, str]] = {"grounded": "annotated", "paper": "scratchpad"}
"""How each prompt shows a trace; the paper's is the rawest."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Retold:
    """Outcome of one item.

    Attributes:
        first, last: Proofs of the first narration and of the one that decided; None where there was nothing to prove.
        fell_back, in_words, read: As in `groundbox.dataset.translation.translator.Translation`.
        replies, cached: Answers of the model, and those of them that were found in the file.
    """

    # The key in parts on disk; an unfinished translation goes on by it.
    lesson: SampledItem
    first: Proved | None = None
    last: Proved | None = None
    repaired: bool = False
    fell_back: bool = False
    in_words: bool = False
    read: bool = False
    replies: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Metered:
    """A model, and what the answers to one item cost, also where nothing comes of them."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.replies: list[Reply] = []

    async def answer(self, messages: Sequence[Mapping[str, str]], *, schema: Mapping[str, Any] | None = None) -> Reply:
        self.replies.append(await self._model.answer(messages, schema=schema))
        return self.replies[-1]

    def added_to(self, found: Retold) -> Retold:
        return dataclasses.replace(
            found,
            replies=len(self.replies),
            cached=sum(reply.cached for reply in self.replies),
            prompt_tokens=sum(reply.prompt_tokens for reply in self.replies),
            completion_tokens=sum(reply.completion_tokens for reply in self.replies),
        )


def show(shard: Shard, *, prompt: str, max_chars: int) -> str:
    """Work for `Executor.compute`: a compressed trace in, text for the prompt out.

    Raises:
        Unfit: It cannot be shown.
    """
    trace = Trace.loads(zlib.decompress(shard.payload))
    try:
        text = FORMS[FORM[prompt]](trace)
    except Exception as error:
        # A run that cannot be shown must not end the work on others; it is counted and shown.
        raise Unfit("trace-not-shown", f"{type(error).__name__}: {error}"[:500]) from None
    if len(text) > max_chars:
        raise Unfit("long-trace", f"{len(text)} characters, {max_chars} are allowed")
    return text


@dataclasses.dataclass(frozen=True, kw_only=True)
class Retelling:
    """Work for `Executor.run`; the payload of a shard is the rows of one item.

    Attributes:
        patience: Of the build that made the dataset.
    """

    runner: Runner
    executor: Executor
    prover: TellingProver
    model: Model
    options: TranslateOptions
    patience: RunLimits

    async def __call__(self, shard: Shard) -> Part:
        """See Executor.run."""
        rows, model = shard.payload, _Metered(self.model)
        try:
            found = await self._retold(rows, shard.number, model)
        # The item is dropped; its answers so far were paid for and are counted.
        except (Unfit, SandboxLost) as error:
            reason, detail = error.args if isinstance(error, Unfit) else ("sandbox-lost", str(error))
            drop = Drop(item=rows[0].item, problem=rows[0].problem, stage=STAGE, reason=reason, detail=detail)
            found = Retold(lesson=SampledItem(item=rows[0].item, drop=drop))
        return {"jsonl": json.dumps(model.added_to(found), default=json_words).encode()}

    async def _retold(self, rows: Sequence[Sample], number: int, model: Model) -> Retold:
        open_rows = [row for row in rows if row.task in RETOLD]
        if not open_rows:
            raise Unfit("no-question", f"it has no question of the kinds {', '.join(RETOLD)}")
        row, problem = open_rows[0], problem_of(open_rows[0])
        answer, trace = await self._run_again(row, problem)
        showing = functools.partial(show, prompt=self.options.prompt, max_chars=self.options.max_trace_chars)
        text = await self.executor.compute(showing, Shard(stage="show", number=number, payload=trace))
        judge = Judge(
            executor=self.executor,
            prover=self.prover,
            cpu_s=self.options.proof_cpu_s,
            expected=expected_of(answer, problem.entry),
            number=number,
            trace=trace,
            row=row,
            least_coverage=self.options.least_coverage,
        )
        found = await translate(
            model, _shown(problem, answer, text), judge, style=self.options.prompt, tells=self.options.tells
        )
        return self._judged(open_rows, found)

    async def _run_again(self, row: Sample, problem: Problem) -> tuple[Answer, bytes]:
        """Return what the program gives today, and its compressed trace, if both are the row's."""
        ran = await Runs(problem, problem.cases[0], self.runner, self.patience)(TRACED_SEED, traced=True)
        # The model is shown today's trace, and its telling goes into a row with yesterday's answer: both have to be one
        # run.
        if ran.trace is None or ran.outcome != row.outcome:
            raise Unfit("run-differs", f"outcome: {row.outcome} there, {ran.outcome} now")
        for difference in run_differences(row, ran.trace, ran.answer):
            raise Unfit("run-differs", f"{difference.what}: {difference.detail}")
        return ran.answer, await asyncio.to_thread(compressed, ran.trace)

    def _judged(self, rows: Sequence[Sample], found: Translation) -> Retold:
        last, telling = found.verdict, found.telling
        lesson = SampledItem(item=rows[0].item, claims=last.total if last else 0, proven=last.proven if last else 0)
        if found.ok and last is not None and telling is not None:
            samples = tuple(self._row(row, telling, last) for row in rows)
            lesson = dataclasses.replace(lesson, samples=samples, left_out=telling.left_out)
        else:
            lesson = dataclasses.replace(lesson, drop=_drop(rows[0], found))
        return Retold(
            lesson=lesson,
            first=found.first,
            last=last,
            repaired=found.repaired,
            fell_back=found.fell_back,
            in_words=found.in_words,
            read=found.read,
        )

    def _row(self, row: Sample, telling: Telling, proved: Proved) -> Sample:
        return dataclasses.replace(
            row,
            style=self.options.prompt,
            detail=self.options.model,
            reply=f"{telling.text}\n\n{MARK} {row.answer}",
            narration="",
            claims_data=proved.claims_data,
            claims=proved.total,
            proven=proved.proven,
            coverage=proved.coverage,
            left_out=len(telling.left_out),
        )


def read(data: bytes) -> Retold:
    """Return what a part holds."""
    return msgspec.convert(json.loads(data), Retold)


def _shown(problem: Problem, answer: Answer, trace: str) -> Shown:
    case = problem.cases[0]
    given = f"{problem.entry}({case.text()})" if problem.entry else f"standard input: {case.stdin or ''!r}"
    return Shown(
        statement=problem.statement,
        source=problem.source,
        arguments=given,
        result=_result(problem.entry, answer),
        trace=trace,
    )


def _result(entry: str | None, answer: Answer) -> str:
    name = entry or "the program"
    if answer.fault is not None:
        return f"So {name} raises {answer.fault.type}({answer.fault.message!r})."
    if entry is None:
        return f"So the output is {answer.stdout!r}."
    return f"So {name} returns {answer.text}." if answer.text else f"what {name} returns."


def _drop(row: Sample, found: Translation) -> Drop:
    reason, detail, last, facts = found.reason, found.detail, found.verdict, dict[str, Any]()
    if last is not None:
        detail = f"{last.proven} of {last.total} claims are proven, {last.coverage:.0%} of the sentences can be checked"
        facts["failed"] = list(last.failed)
        # Nothing in it is wrong, but too few of its sentences could be checked.
        if reason == UNPROVEN and last.faithful:
            reason = "little-checked"
    if found.telling is not None or found.raw:
        facts["text"] = found.telling.text if found.telling is not None else found.raw
    if found.telling is not None and found.telling.claims:
        facts["claims"] = found.telling.claims
    return Drop(item=row.item, problem=row.problem, stage=STAGE, reason=reason, detail=detail, facts=facts)
