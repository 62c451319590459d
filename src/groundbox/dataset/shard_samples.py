"""Lessons: the shards that turn traced items into samples. Pure computing, so that many processes can share it."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from groundbox.dataset import prompts
from groundbox.dataset.cpu_time import CpuTimeExceeded, cpu_limit
from groundbox.dataset.executor import Part, Shard
from groundbox.dataset.item import Item, ProblemRuns, read_part
from groundbox.dataset.item_runs import length_of, traces_of
from groundbox.dataset.narration import Mended, Narrator, Prover, Told, claims_in, derived, narrate
from groundbox.dataset.narration import prove_item as prove
from groundbox.dataset.options import BuildOptions
from groundbox.dataset.problem import WORKER_DIED, Drop, Problem, json_words
from groundbox.dataset.sample_files import Sample, plain_json
from groundbox.dataset.tasks import registry as tasks
from groundbox.dataset.tasks.checking import answer_of, holds
from groundbox.dataset.tasks.task import Draft, View, guess_name
from groundbox.trace.record.reading import Trace

# Parts on disk and lines of progress have this name from before the module's; with another one, builds that were begun
# could not go on.
STAGE = "lessons"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SampledItem:
    """Samples of an item, or why it has none.

    Attributes:
        claims, proven: Of the telling as the narrator made it, also of one that was dropped.
        left_out: Sentences that the telling was mended by leaving out.
        opaque: Whether the trace has values of which only the type is known.
        elided: Whether parts of values are left out of the trace.
        faults: What is wrong with tasks; a sound build has none.
    """

    item: str
    samples: tuple[Sample, ...] = ()
    drop: Drop | None = None
    claims: int = 0
    proven: int = 0
    left_out: tuple[str, ...] = ()
    opaque: bool = False
    elided: bool = False
    faults: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class SampleWork:
    """Work for `Executor.compute`: a part of the stage `run` in, lessons out.

    The payload of its shards is what `payload` gives.
    """

    options: BuildOptions
    narrator: Narrator
    prover: Prover

    def __call__(self, shard: Shard) -> Part:
        """See Executor.compute."""
        begun = time.process_time()
        wanted: Mapping[str, str] = shard.payload["wanted"]
        packed: bytes = shard.payload["traces"]
        pairs = _items(shard.payload["jsonl"], wanted)
        # Traces are unpacked one after the other, since each may be large.
        lessons = [
            self._lesson(*pairs[name], trace, wanted[name], _guesses(pairs[name][1], packed))
            for name, trace in zip(pairs, traces_of(packed, pairs), strict=True)
        ]
        return _part([*lessons, {"cpu_s": time.process_time() - begun}])

    def pieces(self, shard: Shard) -> list[Shard]:
        """See Divisible.pieces: an item each."""
        wanted = shard.payload["wanted"]
        return [
            dataclasses.replace(shard, payload={**shard.payload, "wanted": {name: split}})
            for name, split in wanted.items()
        ]

    def joined(self, found: Sequence[Part]) -> Part:
        """See Divisible.joined."""
        return {"jsonl": b"".join(part["jsonl"] for part in found)}

    def given_up(self, piece: Shard, reason: str) -> Part:
        """See Divisible.given_up."""
        pairs = _items(piece.payload["jsonl"], piece.payload["wanted"])
        dropped = [item.dropped("prove", WORKER_DIED, reason) for _, item in pairs.values()]
        return _part([SampledItem(item=item.id, drop=item.drop) for item in dropped])

    def _lesson(self, problem: Problem, item: Item, trace: Trace, split: str, guesses: Sequence[Trace]) -> SampledItem:
        limit = self.options.lesson_cpu_s
        try:
            with cpu_limit(limit):
                lesson = self.teach(problem, item, trace, split, guesses)
        except CpuTimeExceeded:
            late = item.dropped(
                "prove", "proof-too-long", f"telling and proving took over {limit:g} s of processor time"
            )
            lesson = SampledItem(item=item.id, drop=late.drop)
        # Looked for in the bytes, which is cheaper than a walk over all values.
        data = trace.dumps()
        return dataclasses.replace(lesson, opaque=b'{"opaque":' in data, elided=b'"elided":' in data)

    def teach(
        self, problem: Problem, item: Item, trace: Trace, split: str, guesses: Sequence[Trace] = ()
    ) -> SampledItem:
        """The samples of one item."""
        options = self.options
        told_item, told = narrate(
            item, trace, self.narrator, styles=options.styles, seed=options.seed, max_chars=options.max_chars
        )
        if told is None:
            return SampledItem(item=item.id, drop=told_item.drop)
        proved_item, found = prove(told_item, told, trace, self.prover)
        if found is None:
            return SampledItem(item=item.id, drop=proved_item.drop, claims=told.claims)
        first = found.first
        lesson = SampledItem(item=item.id, drop=proved_item.drop, claims=first.total, proven=first.proven)
        if lesson.drop is not None:
            return lesson
        view = View(
            guesses=guesses,
            problem=problem,
            item=item,
            trace=trace,
            told=found.told,
            narrator=self.narrator,
            prove=self.prover,
            seed=options.seed,
            max_chars=options.max_chars,
        )
        # After the proof: questions are about what was proven, and quote it.
        drafts = tasks.drafts(view, tasks=options.tasks, most=options.samples_per_item)
        # Each answer has to pass its own check. A fault here is ours; it is counted in the report and tested to be
        # none.
        wrong = [draft for draft in drafts if not _holds(draft, view)]
        # A reply whose values do not follow would teach to guess.
        following = [draft for draft in drafts if not _derived(draft, found.told)[1]]
        samples = tuple(_sample(view, draft, found, split) for draft in following if draft not in wrong)
        drop = None if samples else item.dropped("tasks", "no-question", "no task fits this run").drop
        if drop is not None and drafts and not following:
            drop = item.dropped("tasks", "jumps", found.told.derived(found.told.text)[1][0][:500]).drop
        faults = tuple(f"{item.id}: the check of {draft.task} refuses its own answer" for draft in wrong)
        return dataclasses.replace(lesson, samples=samples, drop=drop, left_out=found.left_out, faults=faults)


def payload(wanted: Mapping[str, str], ran: Mapping[str, bytes]) -> dict[str, Any]:
    """The payload of a shard.

    Args:
        wanted: Items that are to be taught, with their splits.
        ran: The part of the stage `run` that has them.
    """
    return {"wanted": dict(wanted), "jsonl": ran["jsonl"], "traces": ran["traces"]}


def read(part: bytes) -> Iterator[SampledItem | float]:
    """The lessons of a part, then the processor seconds that they took."""
    for line in part.splitlines():
        data = json.loads(line)
        yield data["cpu_s"] if "cpu_s" in data else msgspec.convert(data, SampledItem)


def _part(lines: Sequence[SampledItem | dict[str, float]]) -> Part:
    return {"jsonl": b"".join(json.dumps(each, default=json_words).encode() + b"\n" for each in lines)}


def _items(part: bytes, wanted: Mapping[str, Any]) -> dict[str, tuple[Problem, Item]]:
    found = (each for each in read_part(part) if isinstance(each, ProblemRuns))
    return {item.id: (each.problem, item) for each in found for item in each.items if item.id in wanted}


def _guesses(item: Item, packed: bytes) -> list[Trace]:
    names = [guess_name(item.id, place) for place in range(len(item.tried))]
    return list(traces_of(packed, names)) if names else []  # most items have none, and the file is large


def _holds(draft: Draft, view: View) -> bool:
    """Tell whether the check takes the answer as it is read out of the reply."""
    answer = answer_of(prompts.reply(draft))
    return answer == draft.answer and holds(
        draft.check, answer, problem=view.problem, case=draft.case or view.item.case
    )


def _derived(draft: Draft, told: Told) -> tuple[float, list[str]]:
    """See `narration.derived`: of the tellings that the reply holds."""
    if not draft.tellings:
        return told.derived(draft.reasoning)
    return derived([each for telling in draft.tellings for each in telling.sentences])


def _sample(view: View, draft: Draft, found: Mended, split: str) -> Sample:
    item, told, traced, answer = view.item, found.told, view.item.traced, view.item.answer
    assert traced is not None
    assert answer is not None
    source = view.problem
    share, jumps = _derived(draft, told)
    return Sample(
        id=f"{item.id}#{draft.task}",
        item=item.id,
        problem=source.id,
        split=split,
        task=draft.task,
        style=told.style,
        detail=told.detail,
        prompt=prompts.ask(source, item.case, draft, view.rng(f"prompt/{draft.task}")),
        reply=prompts.reply(draft),
        answer=draft.answer,
        check=plain_json(draft.check),
        narration="" if draft.reasoning == told.text else told.text,
        claims=found.proved.total,
        proven=found.proved.proven,
        claims_data=claims_in(draft.reasoning, told, found.proved, view.trace),
        coverage=found.proved.coverage,
        left_out=len(found.left_out),
        derivable=share,
        jumps=plain_json(jumps),
        source=source.source,
        entry=source.entry,
        statement=source.statement,
        case=plain_json(item.case),
        output=plain_json(answer),
        outcome="ok" if answer.fault is None else "error",
        tried=plain_json(item.tried) if draft.case is not None else "",
        trace_sha256=traced.sha256,
        records=traced.records,
        steps=traced.steps,
        folded=traced.folded,
        stable=traced.stable,
        difficulty=_difficulty(view.trace, told),
        licence=source.provenance.licence,
        provenance=plain_json(source.provenance),
    )


def _difficulty(trace: Trace, told: Told) -> float:
    """How much there is to follow: the logarithm of the lines that ran, folded ones included, and of calls in calls."""
    lines = length_of(trace)
    # In a script there may be no activation but the module's.
    depth = max((each.depth for each in trace.structure.activations.values()), default=1)
    return round(math.log2(1 + lines) + math.log2(depth), 3)
