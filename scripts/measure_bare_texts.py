"""How texts that come without claims are judged: own narrations, mutations of them, errors and prose by hand.

    python scripts/measure_bare_texts.py [MUTATIONS_OF_EACH_KIND]

Each line has the texts, and those that pass. `measure_own_claims.py` and `tests/trace/claims/test_falsified.py` have
the same with claims, `measure_claims.py` texts by language models.
"""

from __future__ import annotations

import collections
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from groundbox.trace.claims import prove
from groundbox.trace.claims.mutation import mutations
from groundbox.trace.narrate.document import document
from groundbox.trace.narrate.narrator import narrate
from groundbox.trace.record.reading import Trace

TESTS = Path(__file__).parent.parent / "tests" / "trace" / "claims"
FALSIFIED = TESTS / "falsified"


def main(most: int) -> None:
    """Print the table."""
    traces = {path.stem: Trace.loads(path.read_bytes()) for path in sorted((TESTS / "traces").glob("*.jsonl"))}
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for name, text, trace in (*prose(traces), *falsified(), *narrations(traces, most)):
        counts[name]["texts"] += 1
        counts[name]["pass"] += prove(text, trace).passes
    for name, found in counts.items():
        print(name.ljust(56), *(f"{column} {found[column]}".rjust(12) for column in ("texts", "pass")))


def prose(traces: dict[str, Trace]) -> Iterator[tuple[str, str, Trace]]:
    """Texts by hand, half of them with an error."""
    for path in sorted((TESTS / "prose").glob("*.json")):
        for row in json.loads(path.read_text()):
            kind = "true" if row["wrong"] is None else "wrong"
            yield f"prose, {'held out' if row['held_out'] else 'seen'}, {kind}", row["text"], traces[path.stem]


def falsified() -> Iterator[tuple[str, str, Trace]]:
    """Errors put by hand into narrations."""
    for path in sorted(FALSIFIED.glob("*.json")):
        row = json.loads(path.read_text())
        trace = Trace.loads((FALSIFIED / "traces" / f"{path.stem}.jsonl").read_bytes())
        passing = {detail: prove(told["text"], trace).passes for detail, told in row["tellings"].items()}
        for told in row["tellings"].values():
            yield "narrations for errors by hand", told["text"], trace
        for error in row["errors"]:
            text = row["tellings"][error["detail"]]["text"]
            for before, after in error["changes"]:
                text = text.replace(before, after, 1)
            yield "errors by hand", text, trace
            if passing[error["detail"]]:
                yield "errors by hand in texts that pass", text, trace


def narrations(traces: dict[str, Trace], most: int) -> Iterator[tuple[str, str, Trace]]:
    """Own narrations, and mutations of those that pass."""
    for trace in traces.values():
        for detail in ("brief", "normal", "full"):
            told = narrate(trace, detail=detail, seed=1, max_chars=12_000)
            yield "own narrations", told.text, trace
            if prove(told.text, trace).passes:
                for mutation in mutations(told.text, document(told, trace), trace, seed=3, most=most):
                    yield "mutations of own narrations that pass", mutation.text, trace


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
