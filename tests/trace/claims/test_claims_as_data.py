"""Claims that come as data are held against the record, and the text against its claims."""

import json
from typing import Any

import msgspec
import pytest

from groundbox.trace.claims import BadClaims, ClaimData, ClaimsData, Kind, SentenceData, decode, json_schema, prove
from groundbox.trace.claims.data import SCHEMA
from groundbox.trace.claims.model import PUBLISHED


def document(*sentences):
    return {
        "schema": "groundbox.claims/1",
        "sentences": [{"text": text, "claims": list(claims)} for text, *claims in sentences],
    }


def claim(kind, subject, value, **more):
    return {"kind": kind, "subject": subject, "value": value, **more}


@pytest.fixture
def step_of(run):
    """The first record of a kind with these fields."""

    def found(kind, **fields):
        return next(
            at
            for at, record in enumerate(run.records)
            if type(record).__name__ == kind and all(getattr(record, name) == value for name, value in fields.items())
        )

    return found


@pytest.fixture
def judged(proof):
    """What becomes of one claim."""

    def told(kind, subject, value, **more):
        (verdict,) = proof("It is so.", claims=document(["It is so.", claim(kind, subject, value, **more)])).verdicts
        return str(verdict.status), verdict.message

    return told


@pytest.mark.parametrize(
    ("kind", "subject", "value", "status"),
    [
        ("value", "s", "3", "supported"),
        ("value", "s", "93", "refuted"),
        ("value", "len(prices)", "3", "supported"),
        ("test", "price < limit", "False", "supported"),
        ("return", "total([3, 90, 4], 50)", "7", "supported"),
        ("return", "total([3, 90, 4], 50)", "8", "refuted"),
        ("return", "total([1], 50)", "1", "not_found"),
        ("input", "prices", "[3, 90, 4]", "supported"),
        ("input", "prices", "[3, 91, 4]", "not_found"),
        ("answer", "", "7", "supported"),
        ("answer", "", "8", "refuted"),
        ("value", "s", "seven", "not_found"),  # no literal
        ("value", "s +", "7", "not_found"),
        ("mutation", "prices.append(1)", "1", "not_found"),  # needs its record
    ],
)
def test_a_claim_without_a_step_is_looked_for(judged, kind, subject, value, status):
    assert judged(kind, subject, value)[0] == status


def test_a_claim_is_held_against_its_record(judged, step_of):
    first, then = step_of("Set", name="s", v=0), step_of("Set", name="s", v=3)

    assert judged("value", "s", "0", step=first) == ("supported", "")
    assert judged("value", "s", "3", step=first) == ("refuted", f"`s` is 0 at record {first}")
    assert judged("value", "s", "3", step=then) == ("supported", "")
    assert judged("test", "price < limit", "True", step=then) == ("supported", "")
    assert judged("test", "price < limit", "False", step=then)[0] == "refuted"


def test_calls_and_returns_are_held_against_their_records(judged, step_of):
    called, returned = step_of("Call", name="total"), step_of("Return", v=7)

    assert judged("call", "total([3, 90, 4], 50)", "", step=called)[0] == "supported"
    assert judged("call", "total([3, 90, 4], limit=50)", "", step=called)[0] == "supported"
    assert judged("call", "total([3, 90, 4], 51)", "", step=called)[0] == "refuted"
    assert judged("call", "sum([3, 90, 4], 50)", "", step=called)[0] == "refuted"
    assert judged("call", "total([3, 90, 4], 50)", "", step=returned)[0] == "refuted"
    assert judged("return", "total([3, 90, 4], 50)", "7", step=returned)[0] == "supported"
    assert judged("return", "total([3, 90, 5], 50)", "7", step=returned)[0] == "refuted"
    assert judged("return", "total", "8", step=returned)[0] == "refuted"
    assert judged("input", "limit", "50", step=called)[0] == "supported"
    assert judged("input", "limit", "3", step=called)[0] == "refuted"
    assert judged("answer", "", "7", step=returned)[0] == "supported"


def test_a_step_that_is_not_there_is_named(judged, run):
    last = len(run.records) - 1

    assert judged("value", "s", "3", step=10**6) == ("not_found", f"there is no record 1000000; the last one is {last}")
    assert judged("value", "s", "3", step=-1)[0] == "not_found"


TOLD = (
    "`total` is called with `limit` = 50.",
    claim("input", "limit", "50"),
    claim("call", "total(..., limit=50)", "", step=4),
)
ANSWER = ("So the output is 7.", claim("answer", "", "7"))


def test_a_text_passes_when_each_of_its_words_stands_in_a_claim(proof, step_of):
    told = (TOLD[0], TOLD[1], claim("call", "total(..., limit=50)", "", step=step_of("Call", name="total")))

    found = proof(f"{told[0]} {ANSWER[0]}", claims=document(told, ANSWER))

    assert found.passes
    assert found.to_dict()["numbers"] == {"covered": 2, "total": 2}
    assert found.to_dict()["words"] == {"covered": 2, "total": 2}


@pytest.mark.parametrize(
    "text",
    [
        "`total` is called with `limit` = 51. So the output is 7.",
        "`total` is called with `prices` = 50. So the output is 7.",
        "`total` is not called with `limit` = 50. So the output is 7.",
        "`total` is called with `limit` = 50. So the output is 8.",
        "`total` is called with `limit` = 50. So the output is 7. It took 3 rounds.",
        "`total` is called with `limit` = '50'. So the output is 7.",
    ],
)
def test_a_word_that_no_claim_has_is_noticed(proof, step_of, text):
    first, _, second = text.partition(". ")
    told = (first + ".", TOLD[1], claim("call", "total(..., limit=50)", "", step=step_of("Call", name="total")))
    ending = second.partition(" It")[0]

    assert not proof(text, claims=document(told, (ending, ANSWER[1]))).passes


def test_a_word_has_to_stand_in_the_quote_of_its_claim(proof, step_of):
    first = claim("value", "s", "3", step=step_of("Set", name="s", v=3), quote="`s` is 3")
    then = claim("value", "s", "7", step=step_of("Set", name="s", v=7), quote="then 7")
    answer = claim("answer", "", "7", quote="the output is 7")

    right, wrong = "`s` is 3, then 7; the output is 7.", "`s` is 7, then 3; the output is 7."
    assert proof(right, claims=document([right, first, then, answer])).passes
    assert not proof(wrong, claims=document([wrong, first, then, answer])).passes


def test_a_sentence_without_claims_must_tell_nothing(proof):
    free, told = "Let us look at it.", "It takes 3 rounds."

    assert proof(f"{free} {ANSWER[0]}", claims=document((free,), ANSWER)).passes
    assert proof(f"{free} {ANSWER[0]}", claims=document(ANSWER)).passes
    assert not proof(f"{told} {ANSWER[0]}", claims=document((told,), ANSWER)).passes


def test_a_claim_whose_sentence_is_not_in_the_text_bears_out_nothing(proof):
    found = proof(ANSWER[0], claims=document(("So the output is seven.", ANSWER[1])))

    assert not found.passes
    assert [number.covered for number in found.numbers] == [False]


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"[]",
        b"{}",
        b'{"schema": "groundbox.claims/2", "sentences": []}',
        b'{"schema": "groundbox.claims/1", "sentences": [{"text": 3}]}',
        b'{"schema": "groundbox.claims/1", "sentences": [{"text": "", "claims": [{"kind": "guess"}]}]}',
        b'{"schema": "groundbox.claims/1", "sentences": [{"text": "", "claims": [], "more": 1}]}',
        b'{"schema": "groundbox.claims/1", "sentences": [{"text": "", "claims": [{"kind": "value", "value": 7}]}]}',
        b"[" * 100_000,
        b"\xff",
    ],
)
def test_what_is_no_document_of_claims_is_refused(proof, bad):
    with pytest.raises(BadClaims):
        proof("It is so.", claims=bad)


def test_the_schema_and_the_decoder_agree():
    schema = json_schema()
    parts: dict[Any, Any] = {
        ClaimsData: schema,
        SentenceData: schema["properties"]["sentences"]["items"],
        ClaimData: schema["$defs"]["claim"],
    }

    for kind, part in parts.items():
        fields = msgspec.structs.fields(kind)
        assert {field.encode_name for field in fields} == set(part["properties"])
        assert part["additionalProperties"] is False
        assert {field.encode_name for field in fields if field.required} <= set(part["required"])
    assert schema["$defs"]["claim"]["properties"]["kind"]["enum"] == [str(kind) for kind in Kind if kind in PUBLISHED]
    assert schema["properties"]["schema"]["const"] == SCHEMA


@pytest.mark.parametrize("kind", sorted(set(Kind) - PUBLISHED))
def test_kinds_that_are_read_from_words_alone_are_no_data(kind):
    made = document(("It is so.", {"kind": str(kind), "subject": "s", "value": "3"}))

    with pytest.raises(BadClaims, match="read from words alone"):
        decode(json.dumps(made))
    with pytest.raises(BadClaims, match="read from words alone"):
        decode(made)


def test_a_document_comes_back_as_it_was():
    made = document(TOLD, ANSWER, ("It is so.", claim("value", "s", "3", quote="so")))

    assert decode(json.dumps(made)).to_dict() == made
    assert decode(decode(made).to_dict()) == decode(made)


def test_instances_in_a_message_are_named_by_their_class(recorded):
    source = "class Node:\n    pass\n\ndef main():\n    nodes = [Node(), 4]\n    return nodes\n"
    trace = recorded(source, "main")
    claims = [claim("value", "nodes", "[4]", step=step) for step in range(len(trace))]

    proof = prove("It is so.", trace, claims=document(["It is so.", *claims]))
    messages = {verdict.message.split(" at record")[0] for verdict in proof.verdicts}

    assert "`nodes` is [<Node>, 4]" in messages
