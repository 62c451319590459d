"""What the prover catches, what it rejects wrongly, and how long it takes.

    python benchmarks/bench_prover.py [MUTATIONS_OF_EACH_KIND]

Reads the corpus of tests/trace/proof: 100 narrations of 20 programs written by hand, 50 of them with one error, 30 held
out while the grammar was made. Then narrates the 20 programs, checks the narrations, and checks mutations of them.
Last come errors that were put into narrations by hand, in other ways than mutations.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from measure import machine, percentile

from groundbox.trace.narration.narrator import narrate
from groundbox.trace.proof.mutation import mutations
from groundbox.trace.proof.prover import prove
from groundbox.trace.proof.verdicts import Status
from groundbox.trace.reading import Trace

CORPUS = Path(__file__).parent.parent / "tests" / "trace" / "proof"
LOOP = "def count(n):\n    total = 0\n    for i in range(n):\n        total += i\n    return total\n"


def traces() -> dict[str, Trace]:
    """The stored traces by program."""
    return {path.stem: Trace.loads(path.read_bytes()) for path in sorted((CORPUS / "traces").glob("*.jsonl"))}


def prose(held_out: bool) -> Iterator[tuple[str, str, bool]]:
    """Program, text, and whether the text has an error."""
    for path in sorted((CORPUS / "prose").glob("*.json")):
        for row in json.loads(path.read_text()):
            if row["held_out"] is held_out:
                yield path.stem, row["text"], row["wrong"] is not None


def detection(known: dict[str, Trace], held_out: bool) -> None:
    """Precision and recall of `not faithful` as the detection of an error."""
    found: Counter[tuple[bool, bool]] = Counter()
    sentences, events = [], []
    for program, text, wrong in prose(held_out):
        proof = prove(text, known[program])
        found[wrong, not proof.faithful] += 1
        sentences.append(proof.sentence_coverage)
        events.append(proof.event_coverage)
    caught, stopped, passed = found[True, True], found[False, True], found[True, False]
    print(f"prose, {'held out' if held_out else 'seen'}: {found.total()} texts, {caught + passed} with an error")
    print(f"  precision {caught}/{caught + stopped} = {caught / (caught + stopped):.3f}")
    print(f"  recall    {caught}/{caught + passed} = {caught / (caught + passed):.3f}")
    print(f"  median coverage: sentences {percentile(sentences, 0.5):.2f}, events {percentile(events, 0.5):.2f}")


def narrations(known: dict[str, Trace], most: int) -> None:
    """True narrations that are rejected, and mutations that are caught, by kind."""
    rejected, told, claims = 0, 0, Counter[Status]()
    made: Counter[str] = Counter()
    caught: Counter[str] = Counter()
    for trace in known.values():
        for detail in ("brief", "normal", "full"):
            text = narrate(trace, detail=detail, seed=1).text
            proof = prove(text, trace)
            told, rejected = told + 1, rejected + (not proof.faithful)
            claims.update(verdict.status for verdict in proof.verdicts)
            for mutation in mutations(text, trace, seed=3, most=most) if proof.faithful else ():
                made[mutation.kind] += 1
                caught[mutation.kind] += not prove(mutation.text, trace).faithful
    print(f"narrations: {rejected} of {told} rejected; claims {dict(claims)}")
    print(f"mutations: {caught.total()}/{made.total()} = {caught.total() / made.total():.4f} caught")
    print("  " + ", ".join(f"{kind} {caught[kind]}/{made[kind]}" for kind in sorted(made)))


def falsified() -> None:
    """Errors put by hand into narrations, and those that are caught, by kind."""
    made: Counter[str] = Counter()
    caught: Counter[str] = Counter()
    for path in sorted((CORPUS / "falsified").glob("*.json")):
        row = json.loads(path.read_text())
        trace = Trace.loads((path.parents[2] / "claims" / "falsified" / "traces" / f"{path.stem}.jsonl").read_bytes())
        for error in row["errors"]:
            text = row["texts"][error["detail"]]
            for before, after in error["changes"]:
                text = text.replace(before, after, 1)
            made[error["kind"]] += 1
            caught[error["kind"]] += not prove(text, trace).faithful
    print(f"falsified by hand: {caught.total()}/{made.total()} = {caught.total() / made.total():.2f} caught")
    print("  " + ", ".join(f"{kind} {caught[kind]}/{made[kind]}" for kind in sorted(made)))


def speed() -> None:
    """About 60 sentences against about 1,000 records."""
    trace = _counted(330)
    lines = [f"i is {i}. total goes from {i * (i - 1) // 2} to {i * (i + 1) // 2}." for i in range(1, 31)]
    text = " ".join(lines)
    taken = []
    for _ in range(21):
        begun = time.perf_counter()
        proof = prove(text, trace)
        taken.append((time.perf_counter() - begun) * 1000)
    print(f"speed: {len(proof.sentences)} sentences, {len(proof.verdicts)} claims, {len(trace)} records: "
          f"p50 {percentile(taken, 0.5):.1f} ms, faithful {proof.faithful}")  # fmt: skip


def _counted(iterations: int) -> Trace:
    """The trace of a loop, written down as the format has it."""
    from groundbox.trace.reading import assemble
    from groundbox.trace.schema import Entry

    records: list[dict[str, object]] = [
        {"k": "call", "f": 1, "p": 0, "name": "count", "n": 1, "args": {"n": iterations}},
        {"k": "line", "f": 1, "n": 2},
        {"k": "set", "f": 1, "name": "total", "v": 0},
    ]
    total = 0
    for i in range(iterations):
        total += i
        records += [
            {"k": "line", "f": 1, "n": 3},
            {"k": "set", "f": 1, "name": "i", "v": i},
            {"k": "line", "f": 1, "n": 4},
        ]
        if i:
            records.append({"k": "set", "f": 1, "name": "total", "v": total})
    records += [{"k": "line", "f": 1, "n": 3}, {"k": "line", "f": 1, "n": 5}]
    records += [{"k": "return", "f": 1, "n": 5, "v": total}, {"k": "end"}]
    body = "".join(json.dumps(record) + "\n" for record in records).encode()
    return assemble(
        body, source=LOOP, filename="main.py", mode="call", entry=Entry(call="count", args=[iterations]),
        python="3.13.0", hash_seed=0, limits={}, outcome="ok",
    )  # fmt: skip


def main() -> None:
    """Print everything."""
    machine()
    known = traces()
    detection(known, held_out=False)
    detection(known, held_out=True)
    narrations(known, int(sys.argv[1]) if len(sys.argv) > 1 else 4)
    falsified()
    speed()


if __name__ == "__main__":
    main()
