"""Texts that are written to cost time or to break the reader."""

import pytest

from groundbox.trace.proof.prover import prove
from groundbox.trace.proof.text.markup import plain
from groundbox.trace.proof.text.tokens import tokenize

pytestmark = pytest.mark.slow

SIZE = 100_000
PIECES = [
    "(", "[", "x[", "{", "'", '"', "'a", "`", "$", "*", "**", "|a", "\\(", "n is (", "i → ", "and ", "is ", "=", "1,",
    "not ", "```\n", "| i | j |\n", "\n- ", "… 5 more …", "it's 'a ", "\x00", "{1:", "x = 1, ", "i becomes [", "𝒙 ",
]  # fmt: skip


@pytest.mark.parametrize("piece", PIECES)
def test_a_hundred_kilobytes_of_one_piece_are_judged_and_not_faithful(stored, piece):
    text = (piece * (SIZE // len(piece) + 1))[:SIZE]

    assert not prove(text, stored("bubble")).faithful


@pytest.mark.parametrize("piece", PIECES)
def test_plain_text_is_as_long_as_the_text_and_its_tokens_stand_where_they_say(piece):
    text = piece * 50 + " x = 5. " + piece * 50

    bare = plain(text)

    assert len(bare.text) == len(text)
    assert all(bare.text[token.start : token.end] == token.text for token in tokenize(bare.text, bare.code))


def test_work_without_end_is_given_up_and_said(stored, monkeypatch):
    monkeypatch.setattr("groundbox.trace.proof.records.ledger._BUDGET", 10)
    monkeypatch.setattr("groundbox.trace.proof.prover._WORK_PER_CLAIM", 0)

    proof = prove("a becomes 18. b becomes 12.", stored("gcd"))

    assert (proof.faithful, proof.failed) == (False, ["the text claims more than can be checked"])
