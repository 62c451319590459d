"""A sample: one finished training row, with all that is needed to check it again."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Final

MOST_NUMBER: Final = 2**53


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sample:
    """One question with its reply.

    Attributes:
        id: Of the item, with the task.
        prompt: What the user says.
        reply: What the assistant says; it ends with the line `Answer: …`.
        style, detail: Of the telling; for one of a model, how it was asked, and its name.
        check: JSON that `groundbox.dataset.tasks.checking` judges an answer by.
        narration: The whole telling that the reply was taken from, and that was proven; "" where the row has
            the same in its reply.
        claims, proven: Statements found in the telling, and those that the trace supports.
        claims_data: Claims of the reply's sentences as JSON (docs/proof.md), all borne out by the trace; "" for none.
        coverage: Share of the telling's sentences with a claim that holds.
        left_out: Sentences that are not told because a claim in them could not be proven.
        derivable: Share of the values stated in the reply's reasoning that follow by one step from what was told
            before them.
        jumps: Those that do not, and what is missing, as a JSON list of strings.
        case: The input as JSON (`groundbox.dataset.problem.case_to_json`).
        output: What the run gave, as JSON (`groundbox.dataset.item.Answer`).
        tried: Of a search for arguments, all that were run, as JSON (`groundbox.dataset.item.Tried`); else "".
        trace_sha256: Of the records of the trace.
        stable: Whether the trace was the same under another hash seed.
        provenance: Where the problem comes from, as JSON.
    """

    id: str
    item: str
    problem: str
    split: str
    task: str
    style: str
    detail: str
    prompt: str
    reply: str
    answer: str
    check: str
    narration: str
    claims: int
    proven: int
    claims_data: str = ""
    coverage: float
    left_out: int = 0
    derivable: float = 1.0
    jumps: str = "[]"
    source: str
    entry: str | None
    statement: str
    case: str
    output: str
    outcome: str
    tried: str = ""
    trace_sha256: str
    records: int
    steps: int
    folded: bool
    stable: bool
    difficulty: float
    licence: str
    provenance: str

    def chat(self) -> dict[str, Any]:
        """A line of sft.jsonl; `claims` is JSON in a text, so that lines with and without them have one type."""
        messages = [{"role": "user", "content": self.prompt}, {"role": "assistant", "content": self.reply}]
        return {"messages": messages, "id": self.id, "task": self.task, "claims": self.claims_data}


NAMES: Final = tuple(field.name for field in dataclasses.fields(Sample))
TYPES: Final[Mapping[str, str]] = {
    field.name: {"int": "int64", "float": "float64", "bool": "bool_"}.get(str(field.type), "string")
    for field in dataclasses.fields(Sample)
}
"""Types of the columns of samples.parquet."""


def plain_json(data: Any) -> str:
    """JSON in one form. Keys keep their order: a dict that a program is given has one, and the program may see it."""
    return json.dumps(data, ensure_ascii=False)
