"""How prose of models, labelled right or wrong by running, is judged by `groundbox prove` and `dataset translate`.

    python scripts/measure_prose.py narrations.jsonl

The file is that of measure_claims.py. Columns: texts that were traced; those that `groundbox.trace.claims` passes;
those that `translate` takes, and with half of the sentences borne out, which is its default.
"""

from __future__ import annotations

import ast
import collections
import json
import sys
from pathlib import Path

from measure_claims import recorded

from groundbox.dataset import model_telling
from groundbox.dataset.model_telling import Expected, Telling
from groundbox.trace.claims import prove
from groundbox.trace.record.reading import Trace

COLUMNS = ("texts", "claims", "translate", "translate, half")


def main(path: str) -> None:
    """Print the table."""
    rows = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    traces: dict[tuple[str, str], Trace | None] = {}
    for row in rows:
        key = row["program"], row["call"]
        if key not in traces:
            traces[key] = recorded(*key)
        trace = traces[key]
        if trace is not None:
            label = {True: "right", False: "wrong", None: "unlabelled"}[row["right"]]
            counts[label].update(taken_by(row["text"], row["result"], trace))
    print("".ljust(12) + "".join(column.rjust(18) for column in COLUMNS))
    for label, found in sorted(counts.items()):
        print(label.ljust(12) + "".join(str(found[column]).rjust(18) for column in COLUMNS))


def taken_by(text: str, result: str, trace: Trace) -> list[str]:
    """The columns that a text counts in."""
    now = model_telling.prove(Telling(text=text), trace, Expected(value=written(result)))
    taken = {
        "texts": True,
        "claims": prove(text, trace).passes,
        "translate": now.faithful,
        "translate, half": now.faithful and now.coverage >= 0.5,
    }
    return [column for column in COLUMNS if taken[column]]


def written(result: object) -> str | None:
    """A result as Python writes it, if it is a literal."""
    text = result if isinstance(result, str) else repr(result)
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return repr(result)
    return text


if __name__ == "__main__":
    main(sys.argv[1])
