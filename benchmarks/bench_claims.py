"""How long it takes to prove a narration with its claims, beside reading it as a text.

    python benchmarks/bench_claims.py [ROUNDS] [TRACES]

Narrates the 20 programs of tests/trace/proof, or every `*.jsonl` in the folder TRACES, and proves each narration in
turn by the prover that reads text and by its claims, so that both meet the same load of the machine. What is kept of a
proof for the next one is thrown away each time.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from measure import machine, percentile

from groundbox.trace.claims.proving import prove as prove_claims
from groundbox.trace.narration.document import document
from groundbox.trace.narration.narrator import narrate
from groundbox.trace.proof.prover import prove as prove_text
from groundbox.trace.reading import Trace

CORPUS = Path(__file__).parent.parent / "tests" / "trace" / "proof" / "traces"


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
    by_text: list[float] = []
    by_claims: list[float] = []
    claims = sentences = 0
    for path in sorted(folder.glob("*.jsonl")):
        data = path.read_bytes()
        told = narrate(Trace.loads(data), seed=1, max_chars=12_000)
        given = json.dumps(document(told, Trace.loads(data))).encode()
        text_s, claims_s = [], []
        for _ in range(rounds):
            trace = fresh(data)
            begun = time.perf_counter()
            faithful = prove_text(told.text, trace).faithful
            text_s.append(time.perf_counter() - begun)
            trace = fresh(data)
            begun = time.perf_counter()
            proof = prove_claims(told.text, trace, claims=given)
            claims_s.append(time.perf_counter() - begun)
        claims, sentences = claims + len(proof.verdicts), sentences + len(told.sentences)
        by_text.append(min(text_s))
        by_claims.append(min(claims_s))
        if not (faithful and proof.passes):
            print(f"{path.stem}: read as a text {faithful}, with its claims {proof.passes}")
    machine()
    print(f"{len(by_text)} narrations, {sentences} sentences, {claims} claims; best of {rounds} each, interleaved")
    print(f"read as a text:  {1000 * sum(by_text):8.0f} ms, median {1000 * percentile(by_text, 0.5):.1f} ms")
    print(f"with its claims: {1000 * sum(by_claims):8.0f} ms, median {1000 * percentile(by_claims, 0.5):.1f} ms")
    ratios = [text / own for text, own in zip(by_text, by_claims, strict=True)]
    print(f"faster by {sum(by_text) / sum(by_claims):.2f} in all, by {percentile(ratios, 0.5):.2f} in the median")


if __name__ == "__main__":
    main()
