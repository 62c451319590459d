"""An item of a dataset told anew: run again, shown to the model, its answer proven, and put into the item's rows.

A new telling goes into the rows that ask for what the whole telling leads to (`RETOLD`); the others hold parts
of the old one, cut at a record, and an answer of a model cannot be cut so.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from groundbox.dataset import shard_samples
from groundbox.dataset.executor import Executor, Part, Shard
from groundbox.dataset.item import Answer
from groundbox.dataset.item_runs import RunLimits, Runs, Seeds, compressed
from groundbox.dataset.model_telling import Expected, Telling, TellingProver, expected_of, without_last
from groundbox.dataset.narration import Proved
from groundbox.dataset.problem import Drop, Problem
from groundbox.dataset.program_runner import Runner
from groundbox.dataset.reproof import problem_of, run_differences
from groundbox.dataset.sample_files import Sample
from groundbox.dataset.shard_samples import SampledItem
from groundbox.dataset.tasks.checking import MARK, answer_of, right
from groundbox.dataset.translation.answer_cache import Reply
from groundbox.dataset.translation.endpoint import Model
from groundbox.dataset.translation.options import TranslateOptions
from groundbox.dataset.translation.prompts import Shown
from groundbox.dataset.translation.trace_work import Proving, Showing, TraceWork, Unfit, proved_from_json
from groundbox.dataset.translation.translator import UNPROVEN, Translation, translate
from groundbox.errors import SandboxLost

STAGE: Final = "translate"
RETOLD: Final = ("output", "exception")


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Judgement:
    """A proof, and whether it is of enough of the text."""

    proved: Proved
    least_coverage: float

    @property
    def faithful(self) -> bool:
        return self.proved.faithful and self.proved.coverage >= self.least_coverage

    @property
    def failed(self) -> Sequence[str]:
        return self.proved.failed

    @property
    def sentences(self) -> Sequence[tuple[int, int]]:
        return self.proved.sentences

    @property
    def refuted(self) -> int:
        return self.proved.refuted


@dataclasses.dataclass(frozen=True, kw_only=True)
class _ItemJudge:
    """Holds tellings of one item against its record, by `TraceWork`."""

    trace_work: TraceWork
    row: Sample
    expected: Expected
    prover: TellingProver
    options: TranslateOptions

    def trimmed(self, telling: Telling) -> Telling:
        return without_last(telling, lambda last: _is_answer(last, self.row))

    async def prove(self, telling: Telling) -> _Judgement:
        return self._judged(await self.trace_work.prove(self._work(mend=False), telling, self.expected))

    async def mend(self, telling: Telling) -> tuple[Telling, _Judgement] | None:
        found = await self.trace_work.mend(self._work(mend=True), telling, self.expected)
        if found is None or not self._judged(found[1]).faithful:
            return None
        return found[0], self._judged(found[1])

    def _judged(self, proved: Proved) -> _Judgement:
        return _Judgement(proved=proved, least_coverage=self.options.least_coverage)

    def _work(self, *, mend: bool) -> Proving:
        return Proving(prover=self.prover, cpu_s=self.options.proof_cpu_s, mend=mend)


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
        rows, model = [Sample(**each) for each in shard.payload], _Metered(self.model)
        try:
            found = await self._retold(rows, shard.number, model)
        # The item is dropped; its answers so far were paid for and are counted.
        except (Unfit, SandboxLost) as error:
            reason = error.reason if isinstance(error, Unfit) else "sandbox-lost"
            found = _dropped(rows[0], reason, str(error))
        found = model.added_to(found)
        return {
            "jsonl": json.dumps(dataclasses.asdict(found) | {"lesson": shard_samples.to_json(found.lesson)}).encode()
        }

    async def _retold(self, rows: Sequence[Sample], number: int, model: Model) -> Retold:
        open_rows = [row for row in rows if row.task in RETOLD]
        if not open_rows:
            raise Unfit("no-question", f"it has no question of the kinds {', '.join(RETOLD)}")
        row, problem = open_rows[0], problem_of(open_rows[0])
        answer, trace = await self._run_again(row, problem)
        trace_work = TraceWork(executor=self.executor, number=number, trace=trace)
        shown = _shown(problem, answer, await trace_work.show(self._showing()))
        judge = _ItemJudge(
            trace_work=trace_work,
            row=row,
            expected=expected_of(answer, problem.entry),
            prover=self.prover,
            options=self.options,
        )
        found = await translate(model, shown, judge, style=self.options.prompt, tells=self.options.tells)
        return self._judged(open_rows, found)

    async def _run_again(self, row: Sample, problem: Problem) -> tuple[Answer, bytes]:
        """Return what the program gives today, and its compressed trace, if both are the row's."""
        ran = await Runs(problem, problem.cases[0], self.runner, self.patience)(Seeds().traced, traced=True)
        # The model is shown today's trace, and its telling goes into a row with yesterday's answer: both have to be one
        # run.
        if ran.trace is None or ran.outcome != row.outcome:
            raise Unfit("run-differs", f"outcome: {row.outcome} there, {ran.outcome} now")
        for difference in run_differences(row, ran.trace, ran.answer):
            raise Unfit("run-differs", f"{difference.what}: {difference.detail}")
        return ran.answer, await asyncio.to_thread(compressed, ran.trace)

    def _showing(self) -> Showing:
        return Showing(prompt=self.options.prompt, max_chars=self.options.max_trace_chars)

    def _judged(self, rows: Sequence[Sample], found: Translation) -> Retold:
        first, last = _proof(found.first), _proof(found.verdict)
        if found.ok and last is not None and found.telling is not None:
            samples = tuple(self._row(row, found.telling, last) for row in rows)
            lesson = SampledItem(
                item=rows[0].item,
                samples=samples,
                claims=last.total,
                proven=last.proven,
                left_out=found.telling.left_out,
            )
        else:
            lesson = SampledItem(
                item=rows[0].item,
                drop=_drop(rows[0], found, last),
                claims=last.total if last else 0,
                proven=last.proven if last else 0,
            )
        return Retold(
            lesson=lesson,
            first=first,
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
    found: dict[str, Any] = json.loads(data)
    proofs = {name: proved_from_json(found[name]) if found[name] else None for name in ("first", "last")}
    return Retold(**{**found, **proofs, "lesson": shard_samples.from_json(found["lesson"])})


def _is_answer(line: str, row: Sample) -> bool:
    """Tell whether a line gives the right answer and nothing else."""
    check = json.loads(row.check)
    if not line.strip("*# ").startswith(MARK) or check["kind"] == "call":
        return False
    return any(right(check, answer_of(each)) for each in (line, line.rstrip().removesuffix(".")))


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


def _proof(verdict: object) -> Proved | None:
    return verdict.proved if isinstance(verdict, _Judgement) else None


def _drop(row: Sample, found: Translation, last: Proved | None) -> Drop:
    reason, detail, facts = found.reason, found.detail, dict[str, Any]()
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


def _dropped(row: Sample, reason: str, detail: str) -> Retold:
    drop = Drop(item=row.item, problem=row.problem, stage=STAGE, reason=reason, detail=detail)
    return Retold(lesson=SampledItem(item=row.item, drop=drop))


def run_limits_of(arguments: Mapping[str, Any]) -> RunLimits:
    """That of the build that a report tells of."""
    return RunLimits(**arguments["patience"])
