"""How texts by models, labelled right or wrong by running, fare against the records of the runs that they tell.

    python scripts/measure_claims.py narrations.jsonl [CLAIMS.json]

Each line of the file is an object with `program`, `call` (as Python, literals only), `text` and `right`; `set` is
counted apart. Programs whose checksum is odd were left out of view while wordings were written: their figures say what
a stranger may expect. With a second file, 1,000 claims that are supported are written to it, for `check_supported.py`.
"""

from __future__ import annotations

import ast
import collections
import json
import random
import sys
import zlib
from pathlib import Path
from typing import Any

import groundbox as gb
from groundbox.trace.claims import Proof, Status, prove
from groundbox.trace.record.reading import Trace

_SAMPLE = 1000


def main(path: str, claims_path: str | None = None) -> None:
    """Print the table, and write a sample of the claims that are supported."""
    rows = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    tables: dict[tuple[str, str, str], collections.Counter[str]] = collections.defaultdict(collections.Counter)
    traces: dict[tuple[str, str], Trace | None] = {}
    changes = random.Random(0)
    supported: list[dict[str, Any]] = []
    for row in rows:
        key = row["program"], row["call"]
        if key not in traces:
            traces[key] = recorded(*key)
        part = "held back" if zlib.crc32(row["program"].encode()) % 2 else "in view"
        label = {True: "right", False: "wrong", None: "unlabelled"}[row["right"]]
        proof = count_one(tables[part, row.get("set", ""), label], row["text"], traces[key], changes)
        if proof is not None:
            supported += sampled(row, proof)
    columns = ("texts", "untraced", "pass", *map(str, Status), "numbers", "covered", "changed", "noticed")
    print("".ljust(34) + "".join(column.rjust(12) for column in columns))
    for name, counts in sorted(tables.items()):
        print(" / ".join(name).ljust(34) + "".join(str(counts[column]).rjust(12) for column in columns))
    if claims_path:
        sample = random.Random(11).sample(supported, min(_SAMPLE, len(supported)))
        Path(claims_path).write_text(json.dumps(sample), encoding="utf-8")


def sampled(row: dict[str, Any], proof: Proof) -> list[dict[str, Any]]:
    """The claims of a text that are supported, with the words around them."""
    found = []
    for verdict in proof.verdicts:
        claim = verdict.claim
        if verdict.status is Status.SUPPORTED:
            found.append(
                {
                    "program": row["program"],
                    "call": row["call"],
                    "kind": str(claim.kind),
                    "subject": ast.unparse(claim.subject) if claim.subject else None,
                    "value": repr(claim.value),
                    "decimals": claim.decimals,
                    "before": row["text"][max(0, claim.start - 90) : claim.start],
                    "quote": row["text"][claim.start : claim.end],
                    "after": row["text"][claim.end : claim.end + 40],
                }
            )
    return found


def recorded(program: str, call: str) -> Trace | None:
    """The record of a call, if it can be made."""
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    given: dict[str, Any] = {}
    for each in node.keywords:
        value = ast.literal_eval(each.value)
        given.update(value if each.arg is None else {each.arg: value})
    args = [ast.literal_eval(each) for each in node.args]
    execution = gb.run(program, mode="call", call=node.func.id, args=args, kwargs=given, trace=True)
    return execution.trace if execution.ok else None


def count_one(counts: collections.Counter[str], text: str, trace: Trace | None, changes: random.Random) -> Proof | None:
    """Prove a text, and each of its variants with one number changed if it passes."""
    counts["texts"] += 1
    if trace is None:
        counts["untraced"] += 1
        return None
    proof = prove(text, trace)
    for status in Status:
        counts[str(status)] += proof.count(status)
    counts["numbers"] += len(proof.numbers)
    counts["covered"] += sum(number.covered for number in proof.numbers)
    if not proof.passes:
        return proof
    counts["pass"] += 1
    for number in proof.numbers:
        shown = text[number.start : number.end]
        if not shown.lstrip("-").isdigit():
            continue
        changed = f"{text[: number.start]}{int(shown) + changes.choice([1, 2, 3, -1])}{text[number.end :]}"
        counts["changed"] += 1
        counts["noticed"] += not prove(changed, trace).passes
    return proof


if __name__ == "__main__":
    main(*sys.argv[1:])
