"""Nouns of English, as questions and answers write them."""

from groundbox.check.nouns import singular


def test_plurals_and_possessives_have_their_singular():
    words = ["Cities", "boxes", "classes", "singer's", "singers", "bus", "this", "gas", "is"]
    assert [singular(each) for each in words] == [
        "city", "box", "class", "singer", "singer", "bus", "this", "gas", "is",
    ]  # fmt: skip
