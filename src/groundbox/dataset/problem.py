"""Problems: a program with its statement and its inputs; and drops, what left a build, where, and why."""

from __future__ import annotations

import dataclasses
import enum
import keyword
import unicodedata
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from groundbox.values import literals

WORKER_DIED: Final = "worker-died"
"""Reason for what ended its process each time that it was tried, alone, too."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Drop:
    """An item that is not in the dataset, and why.

    Attributes:
        item: `problem/number of the case`, or `file:line` for a line that gave no problem.
        reason: One of a few fixed words, for counting.
        detail: What exactly was found, for people.
        facts: Values that show it, such as both outputs of a mismatch.
    """

    item: str
    problem: str
    stage: str
    reason: str
    detail: str = ""
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """A line of dropped.jsonl."""
        # Empty fields are left out, but for those that every line has.
        kept = ("item", "problem", "stage", "reason")
        return {name: each for name, each in vars(self).items() if each or name in kept}


class Absent(enum.Enum):
    """Says that no output was recorded; None is an output like any other."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT


@dataclasses.dataclass(frozen=True, kw_only=True)
class Provenance:
    """Where a problem comes from.

    Attributes:
        file: Name of the file that was read, without the folder.
        line: Line of that file, counted from 1.
        licence: As the source states it, or "not stated".
        details: What else the source says about its origin, such as the repository.
    """

    file: str
    line: int
    format: str
    licence: str = "not stated"
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shrunk:
    """Origin of a smaller input.

    Attributes:
        sha256: Key of the input that it stands for.
        origin: Of that input.
        arcs: Steps from line to line of that input's run, as far as they were recorded.
        arcs_kept: Those of them that the smaller input's run takes, too.
    """

    sha256: str
    origin: str
    arcs: int
    arcs_kept: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """An input of a problem.

    Attributes:
        number: Its place among the cases of the source, counted from 0.
        args: Positional arguments, as values that can be written as literals.
        stdin: Standard input of a script, or None.
        expected: The output that the source recorded, or ABSENT.
        origin: `given` by the source, or how it was made: `generated` by the problem's generator, `annotation`,
            `default`, `example`, `mutation`, `shrunk`.
        shrunk_from: For one that stands for a larger input, that one.
    """

    number: int
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    stdin: str | None = None
    expected: Any = ABSENT
    origin: str = "given"
    shrunk_from: Shrunk | None = None

    def key(self) -> str:
        """Names the input; the recorded output is not part of it."""
        return literals.digest([list(self.args), dict(sorted(self.kwargs.items())), self.stdin])

    def text(self) -> str:
        """The arguments as they stand in a call."""
        given = [literals.text(each) for each in self.args]
        named = [f"{name}={literals.text(each)}" for name, each in self.kwargs.items() if _is_name(name)]
        others = {name: each for name, each in self.kwargs.items() if not _is_name(name)}
        return ", ".join([*given, *named, *([f"**{literals.text(others)}"] if others else [])])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Problem:
    """A program, what it is for, and its inputs.

    Attributes:
        id: Unique within one build, and the same in every build of the same file.
        entry: Function that is called, or None for a program that is run as a script.
        cases: May be empty; then inputs are made.
        generator: Source of a function `generate_inputs(rng)` that gives arguments by name; it may use what `source`
            imports.
    """

    id: str
    source: str
    statement: str
    entry: str | None
    cases: tuple[Case, ...]
    provenance: Provenance
    generator: str | None = None

    def dropped(self, stage: str, reason: str, detail: str, case: Case | None = None) -> Drop:
        """A drop of all of it, or of one case."""
        item = self.id if case is None else f"{self.id}/{case.number}"
        return Drop(item=item, problem=self.id, stage=stage, reason=reason, detail=detail)


def _is_name(text: str) -> bool:
    """Tell whether Python reads the text as a name, and as this one."""
    # Python normalises names to NFKC when it reads them: a keyword of another form has to go through `**`.
    return text.isidentifier() and not keyword.iskeyword(text) and unicodedata.normalize("NFKC", text) == text


def case_to_json(case: Case) -> dict[str, Any]:
    """The JSON form of a case."""
    data: dict[str, Any] = {
        "number": case.number,
        # Values are encoded with their types, since JSON has no tuples, sets, bytes or keys that are no texts.
        "args": literals.encode(list(case.args)),
        "kwargs": {name: literals.encode(each) for name, each in case.kwargs.items()},
        "stdin": case.stdin,
        "origin": case.origin,
    }
    if case.expected is not ABSENT:
        data["expected"] = literals.encode(case.expected)
    if case.shrunk_from is not None:
        data["shrunk_from"] = vars(case.shrunk_from)
    return data


def case_from_json(data: Mapping[str, Any]) -> Case:
    """The case of the JSON form."""
    return Case(
        number=data["number"],
        args=tuple(literals.decode(data.get("args", []))),
        kwargs={name: literals.decode(each) for name, each in data.get("kwargs", {}).items()},
        stdin=data.get("stdin"),
        expected=literals.decode(data["expected"]) if "expected" in data else ABSENT,
        origin=data.get("origin", "given"),
        shrunk_from=Shrunk(**data["shrunk_from"]) if data.get("shrunk_from") else None,
    )


def json_words(value: Any) -> Any:
    """Give `json.dumps`, as its `default`, the words for a case, a drop or another dataclass: its fields by name."""
    if isinstance(value, Case):
        return case_to_json(value)
    return value.to_json() if isinstance(value, Drop) else vars(value)


def from_json(data: Mapping[str, Any]) -> Problem:
    """The problem of its JSON form, which is also a line of the plain format."""
    return msgspec.convert({**data, "cases": list(map(case_from_json, data["cases"]))}, Problem, from_attributes=True)
