"""Items: one problem with one input and what is known of it after it ran; and parts, files of them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from groundbox.dataset.problem import Case, Drop, Problem, case_from_json, from_json, json_words


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


def tried_from_json(data: Mapping[str, Any]) -> Tried:
    """The guess of the JSON form."""
    return msgspec.convert({**data, "case": case_from_json(data["case"])}, Tried, from_attributes=True)


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
    lines = ({"drop": each} if isinstance(each, Drop) else each for each in found)
    return b"".join(json.dumps(each, default=json_words).encode() + b"\n" for each in lines)


def read_part(part: bytes) -> Iterator[ProblemRuns | Drop]:
    """Read the problems and drops that a part holds."""
    for line in part.splitlines():
        data = json.loads(line)
        if "drop" in data:
            yield Drop(**data["drop"])
            continue
        runs = {"problem": from_json(data["problem"]), "items": list(map(_item_from_json, data["items"]))}
        yield msgspec.convert({**data, **runs}, ProblemRuns, from_attributes=True)


def _item_from_json(data: Mapping[str, Any]) -> Item:
    parts = {"case": case_from_json(data["case"]), "tried": list(map(tried_from_json, data["tried"]))}
    return msgspec.convert({**data, **parts}, Item, from_attributes=True)
