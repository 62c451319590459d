"""Samples: finished training rows with all that is needed to check them again, and the files that hold them."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final

from groundbox.dataset import files, optional_imports
from groundbox.dataset.problem import Drop, json_words
from groundbox.dataset.selection import SPLITS, TRAIN


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sample:
    """A question with its reply.

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


TYPES: Final[Mapping[str, str]] = {
    field.name: {"int": "int64", "float": "float64", "bool": "bool_"}.get(str(field.type), "string")
    for field in dataclasses.fields(Sample)
}
"""Types of the columns of samples.parquet."""


def plain_json(data: Any) -> str:
    """JSON in one form, also of dataclasses.

    Keys keep their order: a dict that a program is given has one, and the program may see it.
    """
    return json.dumps(data, ensure_ascii=False, default=json_words)


SAMPLES: Final = "samples.parquet"
DROPPED: Final = "dropped.jsonl"
LLAMA_FACTORY: Final = "dataset_info.json"
_ROWS: Final = 1000
"""Rows of one group in the Parquet file; the same rows in other groups would be other bytes."""

_BREAKS: Final = {ord(each): f"\\u{ord(each):04x}" for each in "\x85\u2028\u2029"}
"""JSON may hold them as they are, and `str.splitlines` takes each for the end of a line."""


def chat_file(split: str) -> str:
    """Name of a split's chat file: `sft.jsonl` is for training, and nothing in it is in another split."""
    return "sft.jsonl" if split == TRAIN else f"sft-{split}.jsonl"


FILES: Final = (SAMPLES, *map(chat_file, SPLITS), DROPPED, LLAMA_FACTORY)


class Writer:
    """Takes samples and drops in their final order.

    Attributes:
        splits: Those that have a sample, updated in place.
    """

    def __init__(self, table: Any, chats: Mapping[str, IO[bytes]], dropped: IO[bytes]) -> None:
        self._table, self._chats, self._dropped = table, chats, dropped
        self._rows: list[dict[str, Any]] = []
        self.splits: set[str] = set()

    def sample(self, sample: Sample) -> None:
        """Write a row."""
        self.splits.add(sample.split)
        self._rows.append(dataclasses.asdict(sample))
        # Groups of a fixed size bound the memory, and are part of the bytes.
        if len(self._rows) >= _ROWS:
            self.flush()
        self._chats[sample.split].write(_line(sample.chat()))

    def drop(self, drop: Drop) -> None:
        """Write an item that is not in the dataset."""
        self._dropped.write(_line(drop.to_json()))

    def flush(self) -> None:
        """Write the last rows."""
        if self._rows:
            arrow = optional_imports.data("pyarrow")
            self._table.write_table(arrow.Table.from_pylist(self._rows, schema=self._table.schema))
            self._rows = []


@contextlib.contextmanager
def writing(out: Path) -> Iterator[Writer]:
    """A writer into folder `out`; its files take their names when all is written."""
    arrow = optional_imports.data("pyarrow")
    schema = arrow.schema([(name, getattr(arrow, kind)()) for name, kind in TYPES.items()])
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(files.published(out / SAMPLES))
        table = stack.enter_context(optional_imports.parquet().ParquetWriter(file, schema, compression="zstd"))
        chats = {split: stack.enter_context(files.published(out / chat_file(split))) for split in SPLITS}
        writer = Writer(table, chats, stack.enter_context(files.published(out / DROPPED)))
        yield writer
        writer.flush()
    files.publish(out / LLAMA_FACTORY, _llama_factory(writer.splits))


def read_samples(path: Path) -> Iterator[Sample]:
    """The samples of a Parquet file, in its order."""
    with optional_imports.parquet().ParquetFile(path) as file:
        # Never the whole file, which may be larger than the memory.
        for batch in file.iter_batches(_ROWS):
            for row in batch.to_pylist():
                yield Sample(**row)


def read_items(path: Path) -> Iterator[list[Sample]]:
    """The samples of each item; they stand together."""
    # They stand together because the writer takes items one after the other.
    for _, rows in itertools.groupby(read_samples(path), key=lambda row: row.item):
        yield list(rows)


def _line(data: Any) -> bytes:
    # `surrogatepass`, because a drop may quote a text that is no Unicode.
    return json.dumps(data, ensure_ascii=False).translate(_BREAKS).encode("utf-8", "surrogatepass") + b"\n"


def _llama_factory(splits: Collection[str]) -> bytes:
    """Entries for splits that have samples; a file without lines cannot be loaded."""
    tags = {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant"}
    entry = {"formatting": "sharegpt", "columns": {"messages": "messages"}, "tags": tags}
    names = {f"groundbox_{split}": {"file_name": chat_file(split), **entry} for split in SPLITS if split in splits}
    return json.dumps(names, indent=2).encode() + b"\n"
