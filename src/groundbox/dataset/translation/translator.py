"""Telling a trace by a model: asked for, read, proven, repaired once, and mended by leaving sentences out.

Three ways of asking (`TELLINGS`): `claims` has the model write sentences with their claims, as JSON of a schema that
the server enforces; `prose` words alone; `reader` has it write prose and then read it, which gives the claims. Where
the endpoint refuses JSON of a schema, or the model answers in words all the same, the telling is prose, and is counted.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from groundbox.dataset import model_telling
from groundbox.dataset.cpu_time import CpuTimeExceeded, cpu_limit
from groundbox.dataset.executor import Executor, Shard
from groundbox.dataset.model_telling import Expected, NotClaims, Telling, TellingProver
from groundbox.dataset.narration import Proved
from groundbox.dataset.sample_files import Sample
from groundbox.dataset.tasks.checking import MARK, answer_of, right
from groundbox.dataset.translation import prompts
from groundbox.dataset.translation.answer_cache import Reply
from groundbox.dataset.translation.endpoint import Model
from groundbox.dataset.translation.prompts import Shown
from groundbox.endpoint.answer import TOO_LARGE, without_thinking
from groundbox.endpoint.chat import FormatRefused, RequestRefused
from groundbox.trace.record.reading import Trace

TELLINGS: Final = ("claims", "prose", "reader")
MOST_FAILED: Final = 12
"""A repair names so many failures; a text with more is beyond it and told the first ones."""
MOST_REPAIRED_CHARS: Final = 100_000
"""A longer answer is not sent back to be repaired: the trace that it tells may have 60,000 by default."""
UNPROVEN: Final = "unproven-claims"
TORN: Final = "torn-claims"
_MOST_READ: Final = 40
"""Sentences that a reader is shown at once."""
_FENCE: Final = re.compile(r"\A```[a-z]*\n(.*)\n```\Z", re.DOTALL)


class Unfit(Exception):
    """An item that cannot be told. Its arguments are one of the fixed words of drops, and what exactly was found."""


def prove(
    shard: Shard, *, prover: TellingProver, expected: Expected, cpu_s: float, mend: bool
) -> tuple[Telling, Proved] | None:
    """Work for `Executor.compute`: a telling and the compressed trace of its run in; the telling and its proof out.

    Args:
        mend: Leave sentences out of a telling that fails; None where that does not help.

    Raises:
        Unfit: There is no proof.
    """
    telling, packed = shard.payload
    # Read once more in this process: a trace travels as bytes, and its objects are made where they are used.
    trace = Trace.loads(zlib.decompress(packed))
    try:
        with cpu_limit(cpu_s):
            proved = prover(telling, trace, expected)
            # Mending proves again for each round, so that it is asked for only when the model's repair has failed.
            return model_telling.mended(telling, proved, trace, expected, prover) if mend else (telling, proved)
    except CpuTimeExceeded:
        raise Unfit("proof-too-long", f"it took over {cpu_s:g} s of processor time") from None
    except Exception as error:
        # A text that the prover fails on must not end the work on others; it is counted and shown.
        raise Unfit("prover-failed", f"{type(error).__name__}: {error}"[:500]) from None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Judge:
    """Holds tellings of one item against its record, in other processes.

    Attributes:
        trace: Compressed, because it waits as long as the model thinks.
    """

    executor: Executor
    prover: TellingProver
    expected: Expected
    cpu_s: float
    number: int
    trace: bytes
    row: Sample
    least_coverage: float

    def trimmed(self, telling: Telling) -> Telling:
        """A telling without a last line that is nothing but the right answer."""
        return model_telling.without_last(telling, lambda last: _is_answer(last, self.row))

    def accepts(self, proved: Proved) -> bool:
        """Tell whether everything that has to be proven is, the answer is told and right, and enough can be checked."""
        return proved.faithful and proved.coverage >= self.least_coverage

    async def prove(self, telling: Telling) -> Proved:
        """The proof of a telling."""
        found = await self._computed("prove", telling)
        assert found is not None  # only where sentences were to be left out
        return found[1]

    async def mend(self, telling: Telling) -> tuple[Telling, Proved] | None:
        """A telling without the sentences that fail, with its proof; None where that does not help."""
        found = await self._computed("mend", telling)
        return found if found is not None and self.accepts(found[1]) else None

    async def _computed(self, stage: str, telling: Telling) -> tuple[Telling, Proved] | None:
        work = functools.partial(
            prove, prover=self.prover, expected=self.expected, cpu_s=self.cpu_s, mend=stage == "mend"
        )
        return await self.executor.compute(work, Shard(stage=stage, number=self.number, payload=(telling, self.trace)))


def _is_answer(line: str, row: Sample) -> bool:
    """Tell whether a line gives the right answer and nothing else."""
    check = json.loads(row.check)
    if not line.strip("*# ").startswith(MARK) or check["kind"] == "call":
        return False
    return any(right(check, answer_of(each)) for each in (line, line.rstrip().removesuffix(".")))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Translation:
    """Outcome of one trace.

    Attributes:
        telling: The last one, or the one that was mended; None if there was none.
        verdict: Of `telling`, or None without one.
        first: Of the first attempt, which `telling` is where nothing was repaired.
        reason: Why it cannot be used; empty when it can: `cut-short`, `empty`, `unfinished-thinking`, `torn-claims`,
            `unproven-claims`, `request-refused`, `answer-too-large`.
        detail: What the endpoint says of a request that it refuses, or what is wrong with the answer.
        raw: An answer that is no telling, as it came.
        repaired: Whether a second attempt was made.
        fell_back: Whether claims were wanted and the endpoint refuses JSON of a schema.
        in_words: Whether JSON was asked for and the model answered in words.
        read: Whether the claims of `telling` were read out of it by the model.
    """

    telling: Telling | None = None
    verdict: Proved | None = None
    first: Proved | None = None
    reason: str = ""
    detail: str = ""
    raw: str = ""
    repaired: bool = False
    fell_back: bool = False
    in_words: bool = False
    read: bool = False

    @property
    def ok(self) -> bool:
        """Tell whether it is proven."""
        return not self.reason


async def translate(model: Model, shown: Shown, judge: Judge, *, style: str, tells: str = "claims") -> Translation:
    """Ask for a telling, prove it, ask once more with what is wrong if it fails, and leave out what still does.

    An answer of over `MOST_REPAIRED_CHARS` is not asked for again.

    Args:
        tells: One of `TELLINGS`.

    Raises:
        EndpointFailed: The model gave no answer.
    """
    work = _Work(model, shown, judge, style, tells)
    try:
        return await work.carry_out(with_claims=tells == "claims")
    except FormatRefused:
        return dataclasses.replace(await work.carry_out(with_claims=False), fell_back=True)


class _Work:
    def __init__(self, model: Model, shown: Shown, judge: Judge, style: str, tells: str) -> None:
        self._model, self._shown, self._judge = model, shown, judge
        self._style, self._tells = style, tells
        self._reader_refused = False

    async def carry_out(self, *, with_claims: bool) -> Translation:
        question = prompts.request(self._shown, self._style, with_claims=with_claims)
        messages = [{"role": "user", "content": question}]
        first = await self._attempt(messages, with_claims=with_claims)
        found = first
        if first.reason in (UNPROVEN, TORN) and len(first.raw) <= MOST_REPAIRED_CHARS:
            # Nothing is named where the answer was of another form.
            failed = None if first.verdict is None else list(first.verdict.failed)[:MOST_FAILED]
            messages += [
                {"role": "assistant", "content": first.raw},
                {"role": "user", "content": prompts.repair(failed, with_claims=with_claims)},
            ]
            second = await self._attempt(messages, with_claims=with_claims)
            found = dataclasses.replace(second, repaired=True)
        # The repaired answer first; where leaving sentences out does not save it, the first answer may still be mended.
        for each in (found, first) if found.repaired else (first,):
            if found.reason:
                found = await self._mended(each, found)
        return dataclasses.replace(
            found,
            first=first.verdict,
            in_words=first.in_words or found.in_words,
            fell_back=self._reader_refused,
        )

    async def _mended(self, attempt: Translation, found: Translation) -> Translation:
        """Leave sentences out of an attempt; returns `found` itself where that does not help."""
        if attempt.reason != UNPROVEN or attempt.telling is None:
            return found
        mended = await self._judge.mend(attempt.telling)
        if mended is None:
            return found
        return dataclasses.replace(attempt, telling=mended[0], verdict=mended[1], reason="", repaired=found.repaired)

    async def _attempt(self, messages: Sequence[Mapping[str, str]], *, with_claims: bool) -> Translation:
        text, reason, detail = await self._answer(messages, prompts.schema() if with_claims else None)
        if reason:
            return Translation(reason=reason, detail=detail, raw=text)
        # Models that ignore the format answer in prose, which can be proven as such.
        in_words = with_claims and not text.startswith(("{", "["))
        try:
            telling = Telling(text=text) if in_words or not with_claims else model_telling.written(text)
        except NotClaims as error:
            return Translation(reason=TORN, detail=str(error), raw=text)
        return dataclasses.replace(await self._proven(self._judge.trimmed(telling)), raw=text, in_words=in_words)

    async def _answer(
        self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any] | None
    ) -> tuple[str, str, str]:
        """An answer's text, why it is of no use, or "", and what the endpoint says of that."""
        try:
            reply = await self._model.answer(messages, schema=schema)
        except FormatRefused:
            raise
        except RequestRefused as error:
            return "", "request-refused", str(error)
        text = _unfenced(without_thinking(reply.text))
        return text or "", _defect(text, reply), ""

    async def _proven(self, telling: Telling) -> Translation:
        verdict = await self._judge.prove(telling)
        found = self._held(telling, verdict)
        if self._tells != "reader" or found.ok or self._reader_refused or not verdict.sentences:
            return found
        # Read only what is silent or unclear, never what is false.
        if verdict.refuted:  # a reader may mend in silence what it reads
            return found
        try:
            read = await self._read(telling, verdict.sentences)
        except FormatRefused:
            self._reader_refused = True
            return found
        if read is None:
            return found
        return dataclasses.replace(self._held(read, await self._judge.prove(read)), read=True)

    def _held(self, telling: Telling, proved: Proved) -> Translation:
        reason = "" if self._judge.accepts(proved) else UNPROVEN
        return Translation(telling=telling, verdict=proved, reason=reason)

    async def _read(self, telling: Telling, spans: Sequence[tuple[int, int]]) -> Telling | None:
        """Prose with the claims that the model reads in it; None where its answers are none."""
        answers: list[str] = []
        told = [(number, telling.text[slice(*span)]) for number, span in enumerate(spans, 1)]
        for begin in range(0, len(told), _MOST_READ):
            question = prompts.reading(self._shown, dict(told[begin : begin + _MOST_READ]))
            text, reason, _ = await self._answer([{"role": "user", "content": question}], prompts.reading_schema())
            if reason:
                return None
            answers.append(text)
        try:
            return model_telling.read_by(telling, spans, answers)
        except NotClaims:
            return None


def _unfenced(text: str | None) -> str | None:
    """A narration that was put into a fence as a whole."""
    fenced = _FENCE.match(text or "")
    return fenced[1].strip() if fenced else text


def _defect(text: str | None, reply: Reply) -> str:
    if reply.finish == TOO_LARGE:
        return "answer-too-large"
    if text is None:
        return "unfinished-thinking"
    if reply.finish == "length":
        return "cut-short"
    return "" if text else "empty"
