"""The claims that the narrator gives: all supported, every word of its sentences in one of them, no fault believed."""

from pathlib import Path

import pytest

from groundbox.trace.claims import Status, decode, prove
from groundbox.trace.narration.document import document
from groundbox.trace.narration.narrator import narrate
from groundbox.trace.reading import Trace

TRACES = Path(__file__).parents[1] / "proof" / "traces"
PROGRAMS = sorted(path.stem for path in TRACES.glob("*.jsonl"))


def stored(program):
    return Trace.loads((TRACES / f"{program}.jsonl").read_bytes())


@pytest.mark.parametrize("program", PROGRAMS)
def test_all_claims_are_supported_and_hold_every_word(program):
    trace = stored(program)

    for style, detail in (("prose", "brief"), ("prose", "normal"), ("prose", "full"), ("steps", "normal")):
        narration = narrate(trace, style=style, detail=detail, seed=2)
        found = prove(narration.text, trace, claims=document(narration, trace), strict=True)

        assert [verdict for verdict in found.verdicts if verdict.status is not Status.SUPPORTED] == []
        words = [found.text[word.start : word.end] for word in (*found.numbers, *found.words) if not word.covered]
        assert words == []
        assert found.passes


def test_a_document_is_of_the_schema():
    trace = stored("bfs")
    made = document(narrate(trace), trace)

    assert decode(made).to_dict() == made
    assert {claim["kind"] for sentence in made["sentences"] for claim in sentence["claims"]} >= {
        "value", "test", "call", "mutation", "iteration", "count", "exit", "answer",
    }  # fmt: skip
