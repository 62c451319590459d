"""How long it takes to prove a narration by the claims that it comes with, word by word and not.

    python benchmarks/bench_claims.py [ROUNDS] [TRACES]

Narrates the 20 programs of tests/trace/claims, or every `*.jsonl` in the folder TRACES. What is kept of a proof for the
next one is thrown away each time. Beside it, the table of wordings reads the same texts without their claims.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from measure import machine, percentile

from groundbox.trace.claims import prove
from groundbox.trace.narrate.document import document
from groundbox.trace.narrate.narrator import narrate
from groundbox.trace.record.reading import Trace

CORPUS = Path(__file__).parent.parent / "tests" / "trace" / "claims" / "traces"
WAYS = ("with its claims", "with its claims, word by word", "read as a text")


def fresh(data: bytes) -> Trace:
    """A trace that was just read, with nothing kept of the proofs before."""
    for name, module in list(sys.modules.items()):
        if name.startswith("groundbox.trace"):
            for each in list(vars(module).values()):
                if hasattr(each, "cache_clear"):
                    each.cache_clear()
    return Trace.loads(data)


def main() -> None:
    """Print the figures."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else CORPUS
    taken: dict[str, list[float]] = {way: [] for way in WAYS}
    claims = sentences = 0
    for path in sorted(folder.glob("*.jsonl")):
        data = path.read_bytes()
        told = narrate(Trace.loads(data), seed=1, max_chars=12_000)
        given = json.dumps(document(told, Trace.loads(data))).encode()
        best = dict.fromkeys(WAYS, float("inf"))
        for _ in range(rounds):
            for way in WAYS:
                trace = fresh(data)
                options: dict[str, Any] = {} if way == WAYS[2] else {"claims": given, "strict": way == WAYS[1]}
                begun = time.perf_counter()
                proof = prove(told.text, trace, **options)
                best[way] = min(best[way], time.perf_counter() - begun)
                if way == WAYS[1]:
                    found = proof
        claims, sentences = claims + len(found.verdicts), sentences + len(told.sentences)
        for way in WAYS:
            taken[way].append(best[way])
        if not found.passes:
            print(f"{path.stem} does not pass")
    machine()
    print(f"{len(taken[WAYS[0]])} narrations, {sentences} sentences, {claims} claims; best of {rounds}, interleaved")
    for way in WAYS:
        print(
            f"{way}:".ljust(32), f"{1000 * sum(taken[way]):8.0f} ms, median {1000 * percentile(taken[way], 0.5):.1f} ms"
        )


if __name__ == "__main__":
    main()
