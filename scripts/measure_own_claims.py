"""How the narrator's claims fare as data: on true narrations, and when a word of a sentence or a claim is changed.

    python scripts/measure_own_claims.py [MUTATIONS_OF_EACH_KIND] [TRACES]

Narrates the 20 programs of tests/trace/proof, or every `*.jsonl` in the folder TRACES, in three details. A sentence
that was made false keeps its claims, with quotes cut at the same places; sentences that move take theirs along.
"""

from __future__ import annotations

import collections
import copy
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from groundbox.trace.claims import prove
from groundbox.trace.narration.document import document
from groundbox.trace.narration.narrator import narrate
from groundbox.trace.proof.mutation import mutations
from groundbox.trace.reading import Trace

STORED = Path(__file__).parent.parent / "tests" / "trace" / "proof" / "traces"
MOVED = ("order", "drop", "duplicate")
CLAIMS_CHANGED = 12
"""Of each narration."""


def main() -> None:
    """Print the figures."""
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else STORED
    counts: collections.Counter[str] = collections.Counter()
    made: collections.Counter[str] = collections.Counter()
    noticed: collections.Counter[str] = collections.Counter()
    random_ = random.Random(5)
    for path in sorted(folder.glob("*.jsonl")):
        trace = Trace.loads(path.read_bytes())
        for detail in ("brief", "normal", "full"):
            told = narrate(trace, detail=detail, seed=1, max_chars=12_000)
            given = document(told, trace)
            proof = prove(told.text, trace, claims=given, strict=True)
            counts.update(str(verdict.status) for verdict in proof.verdicts)
            counts["narrations"] += 1
            counts["narrations that do not pass"] += not proof.passes
            counts["words"] += len(proof.numbers) + len(proof.words)
            counts["words in no claim"] += sum(not part.covered for part in (*proof.numbers, *proof.words))
            if not proof.passes:
                continue
            for mutation in mutations(told.text, trace, seed=3, most=most):
                changed = (
                    moved(given, mutation.text) if mutation.kind in MOVED else cut(given, told.text, mutation.text)
                )
                if changed is not None:
                    made[mutation.kind] += 1
                    noticed[mutation.kind] += not prove(mutation.text, trace, claims=changed, strict=True).passes
            for changed in other_claims(given, random_):
                made["a claim's value"] += 1
                noticed["a claim's value"] += not prove(told.text, trace, claims=changed, strict=True).passes
    print(", ".join(f"{name}: {count}" for name, count in counts.items()))
    print(", ".join(f"{kind} {noticed[kind]}/{made[kind]}" for kind in sorted(made)))
    dropped = made["drop"]
    print(f"noticed, but for sentences left out: {noticed.total() - noticed['drop']} of {made.total() - dropped}")


def cut(given: dict[str, Any], text: str, changed: str) -> dict[str, Any] | None:
    """The claims of a text of which one sentence was changed; None if more than one was."""
    start = next((at for at, (one, other) in enumerate(zip(text, changed, strict=False)) if one != other), len(text))
    back = 0
    while back < min(len(text), len(changed)) - start and text[-1 - back] == changed[-1 - back]:
        back += 1
    end, longer = len(text) - back, len(changed) - len(text)
    at, found = 0, None
    for number, sentence in enumerate(given["sentences"]):
        begin = text.index(sentence["text"], at)
        at = begin + len(sentence["text"])
        if begin <= start and end <= at:
            found = number, begin, at
    if found is None:
        return None
    number, begin, at = found
    new = changed[begin : at + longer]
    claims = []
    for claim in given["sentences"][number]["claims"]:
        first = claim.get("at", 0)
        last = first + len(claim["quote"]) if "quote" in claim else at - begin
        first, last = (place if place <= start - begin else place + longer for place in (first, last))
        claims.append(claim | {"quote": new[first:last], "at": first} if "quote" in claim else claim)
    sentences = list(given["sentences"])
    sentences[number] = {"text": new, "claims": claims}
    return given | {"sentences": sentences}


def moved(given: dict[str, Any], changed: str) -> dict[str, Any]:
    """The sentences of a text in the order in which another one has them, each as often as it stands there."""
    places = {}
    for sentence in given["sentences"]:
        at = changed.find(sentence["text"])
        while at >= 0:
            places[at, sentence["text"]] = sentence
            at = changed.find(sentence["text"], at + 1)
    return given | {"sentences": [places[key] for key in sorted(places)]}


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
