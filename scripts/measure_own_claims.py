"""How the narrator's claims fare as data: on true narrations, and when a word of a sentence or a claim is changed.

    python scripts/measure_own_claims.py [MUTATIONS_OF_EACH_KIND] [TRACES | PROBLEMS.jsonl] [CASES]

Narrates the 20 programs of tests/trace/claims, or every `*.jsonl` in the folder TRACES, or the runs of the first CASES
(3) inputs of each problem of a file, traced as `dataset build` does, in two styles and four details. Narrations that
tell a run whole, as samples do, are counted apart. A sentence that was made false keeps its claims, with quotes cut at
the same places; sentences that move take theirs along (`groundbox.trace.claims.mutation`). With `SHOW=1` in the
environment, what fails is printed.
"""

from __future__ import annotations

import asyncio
import collections
import copy
import itertools
import os
import random
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from groundbox.dataset.problem import Problem
from groundbox.dataset.problems import reading
from groundbox.dataset.program_runner import Request, SandboxRunner
from groundbox.trace.claims import Proof, Status, prove
from groundbox.trace.claims.mutation import mutations
from groundbox.trace.narrate.document import document
from groundbox.trace.narrate.narrator import Detail, Style, narrate
from groundbox.trace.record.reading import Trace

STORED = Path(__file__).parent.parent / "tests" / "trace" / "claims" / "traces"
STYLES: Final[tuple[Style, ...]] = ("prose", "steps")
DETAILS: Final[tuple[Detail, ...]] = ("brief", "parts", "normal", "full")
MOST_RECORDS = 20_000
"""Of a run that is narrated; longer ones are folded, and take minutes."""
CLAIMS_CHANGED = 12
"""Of each narration."""


def main() -> None:
    """Print the figures."""
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    path = Path(sys.argv[2]) if len(sys.argv) > 2 else STORED
    cases = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    counts: dict[bool, collections.Counter[str]] = {True: collections.Counter(), False: collections.Counter()}
    made: collections.Counter[str] = collections.Counter()
    noticed: collections.Counter[str] = collections.Counter()
    random_ = random.Random(5)
    for name, trace in traces(path, cases):
        for style, detail in itertools.product(STYLES, DETAILS):
            told = narrate(trace, style=style, detail=detail, seed=zlib.crc32(name.encode()), max_chars=12_000)
            given = document(told, trace)
            proof = prove(told.text, trace, claims=given, strict=True)
            count(counts[told.whole and trace.complete and not trace.folded], proof)
            show(name, proof)
            if not proof.passes or not most:
                continue
            for mutation in mutations(told.text, given, trace, seed=3, most=most):
                made[mutation.kind] += 1
                noticed[mutation.kind] += not prove(mutation.text, trace, claims=mutation.claims, strict=True).passes
            for changed in other_claims(given, random_):
                made["a claim's value"] += 1
                noticed["a claim's value"] += not prove(told.text, trace, claims=changed, strict=True).passes
    for whole, found in counts.items():
        print("told whole:" if whole else "told in part:", ", ".join(f"{key}: {value}" for key, value in found.items()))
    print(", ".join(f"{kind} {noticed[kind]}/{made[kind]}" for kind in sorted(made)))
    print(f"noticed: {noticed.total()} of {made.total()}")


def traces(path: Path, cases: int) -> Iterator[tuple[str, Trace]]:
    """Runs with their names."""
    if path.is_dir():
        for each in sorted(path.glob("*.jsonl")):
            yield each.stem, Trace.loads(each.read_bytes())
        return
    runner = SandboxRunner(at_once=1)
    for problem in reading.read(path):
        if not isinstance(problem, Problem):
            continue
        for case in problem.cases[:cases]:
            request = Request(
                source=problem.source, entry=problem.entry, case=case, hash_seed=0, traced=True, cpu_s=20.0
            )
            trace = asyncio.run(runner.run(request)).trace
            if trace is not None and trace.complete and len(trace.records) <= MOST_RECORDS:
                yield f"{problem.id}/{case.number}", trace


def count(counts: collections.Counter[str], proof: Proof) -> None:
    """Add a narration."""
    counts["narrations"] += 1
    counts["that do not pass"] += not proof.passes
    counts.update(f"claims {verdict.status}" for verdict in proof.verdicts)
    counts["words"] += len(proof.numbers) + len(proof.words)
    counts["words in no claim"] += sum(not part.covered for part in (*proof.numbers, *proof.words))


def show(name: str, proof: Proof) -> None:
    """Print what fails of a narration, if that is asked for."""
    if proof.passes or not os.environ.get("SHOW"):
        return
    for verdict in proof.verdicts:
        if verdict.status is not Status.SUPPORTED:
            start, end = proof.sentences[verdict.claim.sentence]
            print(name, verdict.status, verdict.claim.kind, verdict.message, "|", proof.text[start:end])
    for part in (*proof.numbers, *proof.words):
        if not part.covered:
            print(name, "in no claim:", proof.text[part.start : part.end], "|", proof.text[part.start - 60 : part.end])
    for number in proof.misplaced:
        print(name, "misplaced:", proof.text[slice(*proof.sentences[number])])


def other_claims(given: dict[str, Any], random_: random.Random) -> Iterator[dict[str, Any]]:
    """Documents in which the value of one claim is another one."""
    rows = [
        (place, number)
        for place, sentence in enumerate(given["sentences"])
        for number, claim in enumerate(sentence["claims"])
        if claim["value"]
    ]
    for place, number in random_.sample(rows, min(CLAIMS_CHANGED, len(rows))):
        value = given["sentences"][place]["claims"][number]["value"]
        if value in ("True", "False"):
            other = str(value == "False")
        elif value.lstrip("-").isdigit():
            other = str(int(value) + random_.choice([1, -1, 10]))
        elif value.startswith("'"):
            other = f"{value[:-1]}x'"
        else:
            continue
        changed = copy.deepcopy(given)
        changed["sentences"][place]["claims"][number]["value"] = other
        yield changed


if __name__ == "__main__":
    main()
