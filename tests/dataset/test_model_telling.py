"""Tellings by others: decoded within bounds, held against the record, complained of without their values, mended."""

import json
import time

import pytest
from dataset_fakes import run_here

from groundbox.dataset import model_telling
from groundbox.dataset.model_telling import (
    MOST_CHARS,
    MOST_CLAIMS,
    MOST_SENTENCES,
    Expected,
    NotClaims,
    Telling,
    mended,
    prove,
    read_by,
    without_last,
    written,
)
from groundbox.dataset.narration import LEFT_OUT
from groundbox.dataset.problem import Case
from groundbox.dataset.program_runner import Request

LEAST = """\
def least(a, b, c):
    best = a
    if b < best:
        best = b
    if c < best:
        best = c
    return best
"""
FAILS = """\
def f(n):
    n = n + 1
    raise ValueError('no')
"""
ONE = Expected(value="1")


def trace_of(source, entry, *args):
    case = Case(number=0, args=args, kwargs={})
    return run_here(Request(source=source, entry=entry, case=case, hash_seed=0, traced=True, cpu_s=1.0)).trace


@pytest.fixture(scope="module")
def least():
    return trace_of(LEAST, "least", 3, 1, 2)


def claim(kind, subject, value):
    return {"kind": kind, "subject": subject, "value": value}


def said(*sentences):
    return json.dumps({"sentences": [{"text": text, "claims": list(claims)} for text, *claims in sentences]})


GOOD = (
    ("`best` starts as 3", claim("value", "best", "3")),
    ("Since `b < best` is true, `best` becomes 1.", claim("test", "b < best", "True"), claim("value", "best", "1")),
    ("It stays so.",),
    ("The last test changes nothing.",),
    ("So `least` returns 1.", claim("return", "least(3, 1, 2)", "1"), claim("answer", "", "1")),
)


def test_sentences_with_claims_are_proven_and_each_ends_as_one(least):
    telling = written(said(*GOOD))

    proved = prove(telling, least, ONE)

    assert telling.text.startswith("`best` starts as 3. Since")
    assert (proved.faithful, proved.total, proved.proven, proved.failed) == (True, 5, 5, ())
    assert [telling.text[slice(*span)] for span in proved.sentences][-1] == "So `least` returns 1."


@pytest.mark.parametrize(
    ("place", "sentence", "complaint"),
    [
        (1, ("Then `best` becomes 8.", claim("value", "best", "8")), "Sentence 2 (“Then …”): `best` is 3, later 1."),
        (2, ("It stays 45.",), "Sentence 3 (“It stays …”): a number in it stands in no claim of it that holds."),
        (2, ("`c < best` is not so.",), "a name, a quoted value, or true or false in it stands in no claim of it"),
        (2, ("It is 77.", claim("value", "best", "1")), "a number in it stands in no claim of it that holds"),
    ],
)  # fmt: skip
def test_what_fails_is_told_by_its_sentence_without_its_own_value(least, place, sentence, complaint):
    told = [*GOOD]
    told[place] = sentence

    proved = prove(written(said(*told)), least, ONE)

    assert not proved.faithful
    assert complaint in " ".join(proved.failed)
    assert not any(value in each for each in proved.failed for value in ("8", "45", "77"))
    assert [proved.sentences.index(span) for span in proved.sentences if span[0] in proved.unproven] == [place]


def test_a_value_of_thousands_of_characters_is_not_shown_to_the_writer(least):
    long = trace_of("def f(n):\n    x = 'abc' * n\n    return 1\n", "f", 1000)
    told = said(("`x` is 'b'.", claim("value", "x", "'b'")), ("So it is 1.", claim("answer", "", "1")))

    proved = prove(written(told), long, ONE)

    assert not proved.faithful
    assert max(map(len, proved.failed)) < 400


@pytest.mark.parametrize(
    ("expected", "last", "complaint"),
    [
        (ONE, ("That is all.",), "It tells no result; tell at the end what the run gives: 1."),
        (Expected(value="2"), GOOD[-1], "It tells another result; tell at the end what the run gives: 2."),
        (Expected(value="'" + "x" * 5000 + "'"), ("All.",), "It tells no result; tell at the end what the run gives."),
        (Expected(fault="KeyError"), ("All.",), "It does not say that the run ends with KeyError."),
    ],
)  # fmt: skip
def test_the_result_has_to_be_told(least, expected, last, complaint):
    proved = prove(written(said(*GOOD[:-1], last)), least, expected)

    assert (proved.faithful, proved.failed) == (False, (complaint,))


def test_of_a_run_that_fails_the_exception_has_to_be_told():
    trace = trace_of(FAILS, "f", 1)
    told, end = ("`n` becomes 2.", claim("value", "n", "2")), Expected(fault="ValueError", message="no", entry="f")

    assert prove(written(said(told, ("So it ends with a ValueError.",))), trace, end).faithful
    assert prove(written(said(told, ("So f raises ValueError('no').",))), trace, end).faithful
    assert not prove(written(said(told, ("So f raises ValueError('yes').",))), trace, end).faithful
    assert prove(Telling(text="`n` becomes 2. So f raises ValueError('no')."), trace, end).faithful


def test_a_sentence_that_fails_is_left_out_of_five_and_the_rest_is_proven_anew(least):
    told = [*GOOD]
    told[2] = ("Then `best` becomes 8.", claim("value", "best", "8"))
    telling = written(said(*told))

    left, proved = mended(telling, prove(telling, least, ONE), least, ONE, prove)

    assert (proved.faithful, left.left_out) == (True, ("Then `best` becomes 8.",))
    assert left.text == telling.text.replace("Then `best` becomes 8.", LEFT_OUT)
    assert json.loads(left.claims)["sentences"][2] == {"text": LEFT_OUT, "claims": []}


def test_a_sentence_that_later_ones_need_is_not_left_out(least):
    wrong = ("Then `best` becomes 8.", claim("value", "best", "8"))
    needs = ("Since `c < best` is false, it stays.", claim("test", "c < best", "False"))
    again = ("Now `best` is 1.", claim("value", "best", "1"))

    def mends(*sentences):
        telling = written(said(GOOD[0], *sentences, *[("So on.",)] * 3, GOOD[-1]))
        return mended(telling, prove(telling, least, ONE), least, ONE, prove) is not None

    assert mends(wrong)
    assert mends(wrong, again, needs)
    assert not mends(wrong, needs)
    assert mends(again, needs, wrong)


def test_of_prose_a_sentence_is_left_out_as_well(least):
    prose = "`best` becomes 3. Then `best` becomes 8. `best` becomes 1. So on. And on. The result is 1."
    telling = Telling(text=prose)

    left, proved = mended(telling, prove(telling, least, ONE), least, ONE, prove)

    assert left.text == prose.replace("Then `best` becomes 8.", LEFT_OUT)
    assert (proved.faithful, left.left_out) == (True, ("Then `best` becomes 8.",))


@pytest.mark.parametrize(
    "wrong",
    [
        {0: ("`best` is 9.", claim("value", "best", "9")), 2: ("`best` is 8.", claim("value", "best", "8"))},
        {4: ("So it gives 7.", claim("return", "least(3, 1, 2)", "7"))},
    ],
)
def test_nothing_is_left_out_where_it_is_too_much_or_the_result(least, wrong):
    telling = written(said(*(wrong.get(place, sentence) for place, sentence in enumerate(GOOD))))

    assert mended(telling, prove(telling, least, ONE), least, ONE, prove) is None


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "null",
        "[]",
        '{"sentences": []}',
        '{"sentences": [{"text": "  \\n", "claims": []}]}',
        '{"sentences": [{"text": "a", "claims": [{"kind": "val',
        '{"sentences": [{"text": 7, "claims": []}]}',
        '{"sentences": [{"text": "a", "claims": [{"kind": "spell", "subject": "a", "value": "1"}]}]}',
        '{"sentences": [{"text": "a", "claims": [], "trust": "me"}]}',
        '{"schema": "mine/1", "sentences": [{"text": "a", "claims": []}]}',
        said(*[("a",)] * (MOST_SENTENCES + 1)),
        said(("a", *[claim("value", "a", "1")] * (MOST_CLAIMS + 1))),
        "[" * 100_000,
        '{"sentences": ' + "[" * 100_000,
        "x" * (MOST_CHARS + 1),
        '{"sentences": [{"text": "\\ud800", "claims": []}]} trailing',
    ],
    ids=range(16),
)
def test_what_is_no_sentences_with_claims_is_refused_without_its_words(answer):
    begun = time.process_time()

    with pytest.raises(NotClaims) as refused:
        written(answer)

    assert "mine" not in str(refused.value)
    assert len(str(refused.value)) < 200
    assert time.process_time() - begun < 5


def test_claims_of_hostile_size_are_bounded_work_and_bear_nothing_out(least):
    deep, large = "(" * 2000 + ")" * 2000, repr("x" * 500_000)
    told = (
        ("`best` is 3.", claim("value", deep, "3"), claim("value", "best", large)),
        ("It is 4.", claim("value", "9**9**9**9", "4"), claim("value", "best", "4"), claim("value", "best", "3")),
        GOOD[-1],
    )
    begun = time.process_time()

    proved = prove(written(said(*told)), least, ONE)

    assert not proved.faithful
    assert time.process_time() - begun < 10
    assert max(map(len, proved.failed)) < 400


def test_a_last_sentence_that_is_the_answer_is_taken_off_and_counts_as_told(least):
    telling = written(said(*GOOD[:4], ("Answer: 1",)))

    left = without_last(telling, lambda last: last.startswith("Answer: 1"))

    assert left.text.endswith("The last test changes nothing.")
    assert prove(left, least, ONE).faithful
    assert not prove(telling, least, ONE).faithful


PROSE = "Its `best` gets the value 3 from `a`. With 1 below it, `best` is replaced. That makes 1 the result."


def readings(*sentences):
    return json.dumps({"sentences": [{"number": number, "claims": list(claims)} for number, *claims in sentences]})


def test_what_a_reader_finds_in_prose_is_held_against_the_record_and_the_prose_against_it(least):
    telling = Telling(text=PROSE)
    spans = prove(telling, least, ONE).sentences
    first = (1, claim("value", "best", "3"), claim("value", "a", "3"))
    whole = (first, (2, claim("value", "b", "1"), claim("value", "best", "1")), (3, claim("return", "least", "1")))

    def proof(*sentences):
        return prove(read_by(telling, spans, [readings(*sentences)]), least, ONE)

    assert proof(*whole).faithful
    assert not proof(first, whole[2]).faithful  # left out
    assert not proof((1, claim("value", "best", "4"), *first[1:]), *whole[1:]).faithful  # made up
    assert not proof(first, whole[1], (3,)).faithful
    assert read_by(telling, spans, [readings(*whole)]).text == PROSE
    assert read_by(telling, spans, [readings(*whole[:1]), readings(*whole[1:], (9, claim("value", "a", "9")))]) == (
        read_by(telling, spans, [readings(*whole)])
    )


@pytest.mark.parametrize("answer", ["", "{}", '{"sentences": [{"number": "1"}]}', "[" * 10_000, "x" * (MOST_CHARS + 1)])
def test_a_reader_that_answers_something_else_is_refused(answer):
    with pytest.raises(NotClaims):
        read_by(Telling(text="a."), [(0, 2)], [answer])


def test_prose_in_the_narrators_words_is_borne_out_by_the_prover_of_narrations(least):
    text = "`best` becomes `a` = 3. Since 1 < 3, `best` goes down by 2, from 3 to 1. So least returns 1."

    assert prove(Telling(text=text), least, ONE).faithful
    assert not prove(Telling(text=text.replace("down by 2", "down by 1")), least, ONE).faithful


def test_the_default_prover_of_others_is_this_one():
    from groundbox.dataset.build import Tools

    assert Tools.__dataclass_fields__["telling_prover"].default is model_telling.prove


def test_claims_that_are_borne_out_are_kept_with_their_records_and_others_are_not(least):
    told = [*GOOD]
    told[0] = (*GOOD[0], claim("value", "unheard", "3"), claim("call", "least(3, 1, 2)", ""))

    proved = prove(written(said(*told)), least, ONE)

    (first, *_) = json.loads(proved.claims_data)["sentences"]
    assert proved.faithful
    assert [(each["kind"], each["subject"], "step" in each) for each in first["claims"]] == [
        ("value", "best", False), ("call", "least(3, 1, 2)", True),
    ]  # fmt: skip
    assert (proved.total, proved.proven) == (6, 6)
