"""Tellings that are made false in one thing, with their claims, are noticed."""

from collections import Counter
from pathlib import Path

import pytest

from groundbox.trace.claims import decode, prove
from groundbox.trace.claims.mutation import mutations
from groundbox.trace.narrate.document import document
from groundbox.trace.narrate.narrator import narrate
from groundbox.trace.record.reading import Trace

TRACES = sorted((Path(__file__).parent / "traces").glob("*.jsonl"))
KINDS = {
    "value", "change", "argument", "return", "arithmetic", "truth", "name", "count", "iteration", "order", "drop",
    "duplicate",
}  # fmt: skip


def told(path):
    trace = Trace.loads(path.read_bytes())
    narration = narrate(trace, seed=1)
    return trace, narration.text, document(narration, trace)


def test_all_mutations_are_noticed():
    made, passed = Counter(), []
    for path in TRACES:
        trace, text, claims = told(path)
        for mutation in mutations(text, claims, trace, seed=3, most=2):
            made[mutation.kind] += 1
            if prove(mutation.text, trace, claims=mutation.claims, strict=True).passes:
                passed.append((path.stem, mutation.kind, mutation.what))

    assert set(made) == KINDS
    assert made.total() > 250
    assert passed == []


def test_the_same_seed_makes_the_same_mutations():
    trace, text, claims = told(TRACES[0])

    made = mutations(text, claims, trace, seed=5)

    assert made == mutations(text, claims, trace, seed=5)
    assert made != mutations(text, claims, trace, seed=6)
    assert all(mutation.text != text for mutation in made)


@pytest.mark.parametrize("path", TRACES[:4], ids=lambda path: path.stem)
def test_the_claims_are_those_of_the_sentences_that_they_come_with(path):
    trace, text, claims = told(path)

    for mutation in mutations(text, claims, trace, seed=2):
        document_of_it = decode(mutation.claims)
        at = 0
        for sentence in document_of_it.sentences:
            at = mutation.text.index(sentence.text, at) + len(sentence.text)
            assert all(claim.quote in sentence.text for claim in sentence.claims)


def test_a_line_number_is_changed_and_noticed(recorded):
    trace = recorded("def f(n):\n    if n > 1:\n        n = 5\n    return n\n", "f", 3)
    test = next(t for t, record in enumerate(trace.records) if getattr(record, "n", 0) == 2)
    said = [{"kind": "statement", "subject": "line 2", "value": "", "step": test, "quote": "line 2", "at": 12}]
    answer = {"text": "The output is 5.", "claims": [{"kind": "answer", "subject": "", "value": "5"}]}
    text = "The test on line 2 is made. The output is 5."
    claims = {
        "schema": "groundbox.claims/1",
        "sentences": [{"text": "The test on line 2 is made.", "claims": said}, answer],
    }

    made = [mutation for mutation in mutations(text, claims, trace) if mutation.kind == "line"]

    assert prove(text, trace, claims=claims).passes
    assert made
    assert not any(prove(mutation.text, trace, claims=mutation.claims).passes for mutation in made)
