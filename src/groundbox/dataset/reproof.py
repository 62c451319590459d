"""Reproof: one item's rows against a new trace of its run. Pure computing; `verify` feeds it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from groundbox.dataset import problem as problems
from groundbox.dataset.executor import Shard
from groundbox.dataset.item import Answer, Item, Tried, tried_from_json
from groundbox.dataset.item_runs import summary
from groundbox.dataset.model_telling import Telling, TellingProver, expected_of
from groundbox.dataset.narration import (
    STYLES,
    Narrator,
    Proved,
    Prover,
    Told,
    attached,
    mended,
    said_in,
    seed_of,
    unproven_claims,
)
from groundbox.dataset.problem import Problem, Provenance
from groundbox.dataset.sample_files import Sample, plain_json
from groundbox.dataset.tasks import registry as tasks
from groundbox.dataset.tasks.checking import answer_of, parts
from groundbox.dataset.tasks.task import View
from groundbox.trace.record.reading import Trace


@dataclasses.dataclass(frozen=True, kw_only=True)
class Difference:
    """Something that is not as the dataset says.

    Attributes:
        where: A sample, an item or a file.
    """

    where: str
    what: str
    detail: str = ""


class ItemRun(NamedTuple):
    """An item's rows, and what its program gives now.

    Attributes:
        guesses: Traces of the arguments that a search tried.
    """

    rows: Sequence[Sample]
    trace: Trace
    answer: Answer
    guesses: Sequence[Trace]


class Reproved(NamedTuple):
    """How many claims of an item were proven anew, and what is not as its rows say."""

    claims: int
    differences: Sequence[Difference]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reproof:
    """Work for `Executor.compute`; the payload is an `ItemRun`."""

    narrator: Narrator
    prover: Prover
    telling_prover: TellingProver
    seed: int
    max_chars: int

    def __call__(self, shard: Shard) -> Reproved:
        """See Executor.compute."""
        run: ItemRun = shard.payload
        rows = run.rows
        view = self._view(run)
        proved = self._proof(rows, view, run.answer)
        found = [*run_differences(rows[0], run.trace, run.answer), *_claims(rows, proved)]
        for row in rows:
            found.extend(self._row(row, telling_of(rows[0]), view))
        return Reproved(proved.total, found)

    def _proof(self, rows: Sequence[Sample], view: View, answer: Answer) -> Proved:
        row = rows[0]
        if row.style in STYLES:
            return self.prover(_told(telling_of(row), rows, view), view.trace)
        # Its last line may have been nothing but the answer, which every reply ends with.
        telling = Telling(text=telling_of(row), claims=row.claims_data, answered=True)
        return self.telling_prover(telling, view.trace, expected_of(answer, row.entry))

    def _row(self, row: Sample, telling: str, view: View) -> Iterator[Difference]:
        if telling_of(row) != telling:
            yield Difference(where=row.id, what="telling", detail="it is not that of the item's first row")
        draft = next(tasks.make(row.task, view), None)
        if draft is None or draft.answer != row.answer:
            new = draft.answer if draft else "no such question"
            yield Difference(where=row.id, what="answer", detail=f"{row.answer} there, {new} now")
        elif plain_json(draft.check) != row.check or answer_of(row.reply) != row.answer:
            yield Difference(where=row.id, what="answer", detail="the row's answer, check and reply do not agree")
        elif draft.reasoning.strip() != reasoning_of(row):
            if row.tried:
                yield Difference(where=row.id, what="reply", detail="the search would be told otherwise now")
            else:
                yield from self._reply(row, view)
        if row.claims_data:
            yield from _claims_data(row, view.trace)

    def _reply(self, row: Sample, view: View) -> Iterator[Difference]:
        """A reply in other words than we would use now; they may be true all the same."""
        proved = self.prover(_told(reasoning_of(row), [row], view), view.trace)
        for failed in () if proved.faithful else proved.failed[:5] or ("the reply is not proven",):
            yield Difference(where=row.id, what="claim", detail=failed)

    def _view(self, run: ItemRun) -> View:
        row, trace = run.rows[0], run.trace
        traced = summary(trace, stable=row.stable)
        seed = seed_of(row.item, self.seed)
        if row.style in STYLES:
            told = self.narrator(trace, style=row.style, seed=seed, max_chars=self.max_chars)
            if told.text != telling_of(row):
                told = mended(told, trace, self.prover).told
        else:
            told = attached(telling_of(row), (), style=row.style, detail=row.detail)
        found = problem_of(row)
        item = Item(
            id=row.item,
            problem=row.problem,
            case=found.cases[0],
            answer=run.answer,
            traced=traced,
            tried=tuple(tried_of(run.rows)),
        )
        return View(
            guesses=run.guesses,
            problem=found,
            item=item,
            trace=trace,
            told=told,
            narrator=self.narrator,
            prove=self.prover,
            seed=self.seed,
            max_chars=self.max_chars,
        )


def _told(text: str, rows: Sequence[Sample], view: View) -> Told:
    """A text of rows with the claims that they have for its sentences, or that the narrator gives them now."""
    if text == view.told.text:
        return view.told
    sources = [*(said_in(row.claims_data) for row in rows), view.told.sentences]
    return attached(text, sources, style=rows[0].style, detail=rows[0].detail)


def tried_of(rows: Sequence[Sample]) -> list[Tried]:
    """The arguments that an item's rows say were tried."""
    told = next((row.tried for row in rows if row.tried), "[]")
    return [tried_from_json(each) for each in json.loads(told)]


def problem_of(row: Sample) -> Problem:
    """The problem of a row, with the row's case alone."""
    return Problem(
        id=row.problem,
        source=row.source,
        statement=row.statement,
        entry=row.entry,
        cases=(problems.case_from_json(json.loads(row.case)),),
        provenance=Provenance(**json.loads(row.provenance)),
    )


def telling_of(row: Sample) -> str:
    """The telling of a row's item: a column of its own, or the reply, where that is nothing but the telling."""
    return row.narration or reasoning_of(row)


def reasoning_of(row: Sample) -> str:
    """What a reply says before its answer."""
    return parts(row.reply).reasoning


def run_differences(row: Sample, trace: Trace, answer: Answer) -> Iterator[Difference]:
    """What a new run of a row's program gave that the row does not say."""
    output = plain_json(answer)
    if output != row.output:
        yield Difference(where=row.item, what="output", detail=f"{row.output[:300]} there, {output[:300]} now")
    if not trace.complete:
        yield Difference(where=row.item, what="trace", detail="; ".join(trace.reasons))
    elif trace.header.sha256 != row.trace_sha256:
        yield Difference(where=row.item, what="trace", detail=f"{row.trace_sha256} there, {trace.header.sha256} now")


def _claims_data(row: Sample, trace: Trace) -> Iterator[Difference]:
    """Claims of a row's sentences that the record does not bear out, and words that stand in none of them."""
    try:
        found = unproven_claims(row.claims_data, reasoning_of(row), trace)
    except ValueError as error:
        found = [str(error)]
    for each in found[:5]:
        yield Difference(where=row.id, what="claims_data", detail=each)


def _claims(rows: Sequence[Sample], proved: Proved) -> Iterator[Difference]:
    row = rows[0]
    for failed in () if proved.faithful else proved.failed[:5] or ("it is not proven",):
        yield Difference(where=row.item, what="claim", detail=failed)
    if (proved.total, proved.proven) != (row.claims, row.proven):
        counts = f"{row.proven} of {row.claims} there, {proved.proven} of {proved.total} now"
        yield Difference(where=row.item, what="claims", detail=counts)
