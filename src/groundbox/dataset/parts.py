"""What a finished part of the stage `run` holds: problems with their items, in the order of the source."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from groundbox.dataset import item as items
from groundbox.dataset import problem as problems
from groundbox.dataset.drop import Drop
from groundbox.dataset.item import Item
from groundbox.dataset.problem import Problem


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ran:
    """One problem after its runs.

    Attributes:
        drops: Cases of it that did not come so far, and inputs that could not be made.
        cpu_s: Processor seconds of all that was run for it, also to make inputs and to find smaller ones, and told.
    """

    problem: Problem
    items: tuple[Item, ...]
    drops: tuple[Drop, ...] = ()
    cpu_s: float = 0.0


def dumps(found: Iterable[Ran | Drop]) -> bytes:
    """A part as lines of JSON."""
    return b"".join(json.dumps(_to_json(each)).encode() + b"\n" for each in found)


def read(path: Path) -> Iterator[Ran | Drop]:
    """What a part holds."""
    with path.open("rb") as file:
        for line in file:
            yield _from_json(json.loads(line))


def loads(data: bytes) -> Iterator[Ran | Drop]:
    """The same of a part that was read."""
    return (_from_json(json.loads(line)) for line in data.splitlines())


def payload(found: Iterable[Problem | Drop]) -> list[Any]:
    """Problems and drops as a shard's payload."""
    return [_entry(each) for each in found]


def of_payload(data: list[Any]) -> Iterator[Problem | Drop]:
    """What a shard's payload holds."""
    for each in data:
        yield Drop.from_json(each["drop"]) if "drop" in each else problems.from_json(each["problem"])


def _entry(each: Problem | Drop) -> dict[str, Any]:
    return {"drop": each.to_json()} if isinstance(each, Drop) else {"problem": problems.to_json(each)}


def _to_json(each: Ran | Drop) -> dict[str, Any]:
    if isinstance(each, Drop):
        return {"drop": each.to_json()}
    return {
        "problem": problems.to_json(each.problem),
        "items": [items.to_json(item) for item in each.items],
        "drops": [drop.to_json() for drop in each.drops],
        "cpu_s": each.cpu_s,
    }


def _from_json(data: dict[str, Any]) -> Ran | Drop:
    if "drop" in data:
        return Drop.from_json(data["drop"])
    return Ran(
        problem=problems.from_json(data["problem"]),
        items=tuple(map(items.from_json, data["items"])),
        drops=tuple(map(Drop.from_json, data["drops"])),
        cpu_s=data["cpu_s"],
    )
