"""Items: one problem with one input and what is known of it after it ran; and parts, files of them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from groundbox.dataset import problem as problems
from groundbox.dataset.problem import Case, Drop, Problem, case_from_json, case_to_json


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fault:
    """An exception that ended a program.

    Attributes:
        line: Line of the program that failed, or None.
    """

    type: str
    message: str
    line: int | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer:
    """Output of a run: a value or an exception, and text in any case.

    Attributes:
        value: The result as nested JSON (`groundbox.trace.record.value`); None for a script.
        text: The result as Python writes it, or "" when it cannot be written so.
    """

    value: Any
    text: str
    stdout: str
    fault: Fault | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Traced:
    """Facts of a trace, known without reading it again.

    Attributes:
        stable: Whether the trace under another hash seed was the same.
        lines: Lines of the source that ran.
        steps: Lines that ran, each as often as it did, as far as recorded.
    """

    sha256: str
    records: int
    steps: int
    folded: bool
    stable: bool
    lines: tuple[int, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sought:
    """A search for a smaller input.

    Attributes:
        why: Why the run on the given one cannot be told whole.
        runs: How many were made.
        found: Whether the item has a smaller input now.
    """

    why: str
    runs: int
    found: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tried:
    """A guess after its run.

    Attributes:
        sha256: Of the records of its trace.
    """

    case: Case
    why: str
    answer: Answer
    sha256: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Item:
    """A problem with one input after the sandbox.

    Attributes:
        runnable: It ended within its limits, untraced, with the same answer under two hash seeds.
        sought: The search for a smaller input, where its own was too much.
        guesses: How many arguments were run in search of some that lead to the result; None where none were looked for.
        tried: These, where the last one led there.
        drop: Why it is not to be used, or None.
    """

    id: str
    problem: str
    case: Case
    answer: Answer | None = None
    traced: Traced | None = None
    runnable: bool = False
    sought: Sought | None = None
    guesses: int | None = None
    tried: tuple[Tried, ...] = ()
    drop: Drop | None = None

    def dropped(self, stage: str, reason: str, detail: str = "", **facts: Any) -> Item:
        """The same item, marked as dropped."""
        drop = Drop(item=self.id, problem=self.problem, stage=stage, reason=reason, detail=detail, facts=facts)
        return dataclasses.replace(self, drop=drop)


def item_to_json(item: Item) -> dict[str, Any]:
    """The JSON form of an item."""
    data = {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}
    data["case"] = case_to_json(item.case)
    data["answer"] = None if item.answer is None else dataclasses.asdict(item.answer)
    data["traced"] = None if item.traced is None else dataclasses.asdict(item.traced)
    # `asdict` goes into cases, whose values may be no JSON: each part is written by its own function.
    data["tried"] = [tried_to_json(each) for each in item.tried]
    data["sought"] = None if item.sought is None else dataclasses.asdict(item.sought)
    data["drop"] = None if item.drop is None else item.drop.to_json()
    return data


def item_from_json(data: Mapping[str, Any]) -> Item:
    """The item of the JSON form."""
    answer, traced, sought, drop = data["answer"], data["traced"], data["sought"], data["drop"]
    return Item(
        id=data["id"],
        problem=data["problem"],
        case=case_from_json(data["case"]),
        answer=None if answer is None else answer_from_json(answer),
        traced=None if traced is None else Traced(**{**traced, "lines": tuple(traced["lines"])}),
        runnable=data["runnable"],
        guesses=data["guesses"],
        tried=tuple(map(tried_from_json, data["tried"])),
        sought=None if sought is None else Sought(**sought),
        drop=None if drop is None else Drop.from_json(drop),
    )


def answer_from_json(data: Mapping[str, Any]) -> Answer:
    """The answer of the JSON form."""
    fault = data["fault"]
    return Answer(**{**data, "fault": None if fault is None else Fault(**fault)})


def tried_to_json(tried: Tried) -> dict[str, Any]:
    """The JSON form of a guess that was run."""
    return {**dataclasses.asdict(tried), "case": case_to_json(tried.case)}


def tried_from_json(data: Mapping[str, Any]) -> Tried:
    """The guess of the JSON form."""
    return Tried(**{**data, "case": case_from_json(data["case"]), "answer": answer_from_json(data["answer"])})


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProblemRuns:
    """A problem after its runs.

    Attributes:
        drops: Cases of it that did not come so far, and inputs that could not be made.
        cpu_s: Processor seconds of all that was run for it, also to make inputs and to find smaller ones, and told.
    """

    problem: Problem
    items: tuple[Item, ...]
    drops: tuple[Drop, ...] = ()
    cpu_s: float = 0.0


def dump_part(found: Iterable[ProblemRuns | Drop]) -> bytes:
    """Write a part as lines of JSON."""
    return b"".join(json.dumps(_to_json(each)).encode() + b"\n" for each in found)


def read_part(path: Path) -> Iterator[ProblemRuns | Drop]:
    """Read the problems and drops that a part holds."""
    with path.open("rb") as file:
        for line in file:
            yield _from_json(json.loads(line))


def load_part(data: bytes) -> Iterator[ProblemRuns | Drop]:
    """Read a part whose bytes are at hand."""
    return (_from_json(json.loads(line)) for line in data.splitlines())


def problems_payload(found: Iterable[Problem | Drop]) -> list[Any]:
    """Pack problems and drops as a shard's payload."""
    return [_entry(each) for each in found]


def problems_of_payload(data: list[Any]) -> Iterator[Problem | Drop]:
    """Unpack the problems and drops of a shard's payload."""
    for each in data:
        yield Drop.from_json(each["drop"]) if "drop" in each else problems.from_json(each["problem"])


def _entry(each: Problem | Drop) -> dict[str, Any]:
    return {"drop": each.to_json()} if isinstance(each, Drop) else {"problem": problems.to_json(each)}


def _to_json(each: ProblemRuns | Drop) -> dict[str, Any]:
    if isinstance(each, Drop):
        return {"drop": each.to_json()}
    return {
        "problem": problems.to_json(each.problem),
        "items": [item_to_json(item) for item in each.items],
        "drops": [drop.to_json() for drop in each.drops],
        "cpu_s": each.cpu_s,
    }


def _from_json(data: dict[str, Any]) -> ProblemRuns | Drop:
    if "drop" in data:
        return Drop.from_json(data["drop"])
    return ProblemRuns(
        problem=problems.from_json(data["problem"]),
        items=tuple(map(item_from_json, data["items"])),
        drops=tuple(map(Drop.from_json, data["drops"])),
        cpu_s=data["cpu_s"],
    )
