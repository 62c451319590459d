"""Claims without the number of a record get the record that shows them, and only one that does."""

import json

import pytest

import groundbox as gb
from groundbox.trace.claims import decode, locating, prove
from groundbox.trace.claims.locating import LOCATED, located

SOURCE = """\
def f(xs, limit):
    out = []
    for x in xs:
        if x > limit:
            out.append(x * 2)
        print(x)
    try:
        raise ValueError('no')
    except ValueError:
        out.append(0)
    return out
"""


@pytest.fixture(scope="module")
def trace():
    return gb.run(SOURCE, mode="call", call="f", args=[[1, 4, 6], 2], trace=True).trace


def document(*claims):
    given = [{"kind": kind, "subject": subject, "value": value} for kind, subject, value in claims]
    return decode(json.dumps({"sentences": [{"text": "It did.", "claims": given}]}))


def steps(trace, *claims):
    return [claim.step for claim in located(document(*claims), trace).sentences[0].claims]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (("mutation", "out.append(8)", ""), ("mutation", "out.append(9)", "")),
        (("count", "for x in xs", "3"), ("count", "for x in xs", "4")),
        (("exit", "for x in xs", "'exhausted'"), ("exit", "for x in xs", "'break'")),
        (("call", "f([1, 4, 6], 2)", ""), ("call", "f([1, 4, 6], 3)", "")),
        (("output", "", "'4\\n'"), ("output", "", "'5\\n'")),
        (("raise", "ValueError('no')", ""), ("raise", "KeyError('no')", "")),
        (("catch", "except ValueError", ""), ("catch", "except KeyError", "")),
    ],
    ids=lambda claim: claim[0],
)
def test_what_happened_is_located_and_what_did_not_stays_without_a_record(trace, right, wrong):
    (there, absent) = steps(trace, right, wrong)

    assert there is not None
    assert absent is None


def test_a_record_after_that_of_the_claim_before_is_taken_where_there_is_one(trace):
    first, second, again = steps(
        trace, ("mutation", "out.append(8)", ""), ("mutation", "out.append(12)", ""), ("mutation", "out.append(8)", "")
    )

    assert first == again < second


def test_a_number_that_a_located_claim_says_is_covered(trace):
    told = {"text": "The loop runs 3 times.", "claims": [{"kind": "count", "subject": "for x in xs", "value": "3"}]}
    end = {"text": "So it gives that.", "claims": [{"kind": "answer", "subject": "", "value": "[8, 12, 0]"}]}
    data = decode(json.dumps({"sentences": [told, end]}))
    false = decode(json.dumps({"sentences": [json.loads(json.dumps(told).replace("3", "4")), end]}))

    assert prove(data.text, trace, claims=located(data, trace)).passes
    assert not prove(data.text, trace, claims=data).passes
    assert not prove(false.text, trace, claims=located(false, trace)).passes


def test_what_has_a_record_or_needs_none_is_left_alone(trace):
    data = decode(
        json.dumps(
            {
                "sentences": [
                    {
                        "text": "a",
                        "claims": [
                            {"kind": "value", "subject": "x", "value": "4"},
                            {"kind": "mutation", "subject": "out.append(8)", "value": "", "step": 1},
                        ],
                    }
                ]
            }
        )
    )

    assert located(data, trace) is data


def test_the_work_is_bounded(trace, monkeypatch):
    monkeypatch.setattr(locating, "MOST_TRIED", 2 * len(trace.records))

    assert steps(trace, *[("mutation", "out.append(8)", "")] * 3)[1:] == [
        steps(trace, ("mutation", "out.append(8)", ""))[0],
        None,
    ]


def test_every_kind_that_is_not_looked_for_is_located(trace):
    assert {"mutation", "statement", "leave"} <= {str(kind) for kind in LOCATED}
    assert not {"value", "test", "return", "input", "answer"} & {str(kind) for kind in LOCATED}
