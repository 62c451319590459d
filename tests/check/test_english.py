"""Numbers and nouns of English, as questions and answers write them."""

import pytest

from groundbox.check.english import cardinal, number_words, ordinal, singular


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a dozen of forty-five", [12, 45]),
        ("two hundred and forty, three million", [240, 3_000_000]),
        ("twenty five or one two", [25, 1, 2]),
        ("someone weighs a ton", []),
    ],
)
def test_number_words_are_read_as_far_as_they_go_together(text, values):
    assert [each.value for each in number_words(text)] == values


def test_ordinals_are_told_from_cardinals():
    assert [(each.value, each.ordinal) for each in number_words("the third of three")] == [(3, False), (3, True)]


def test_the_first_number_of_a_run_is_its_cardinal():
    assert cardinal("Twenty-five") == 25
    assert cardinal("one two") == 1


def test_ordinals_are_written_as_they_are_spoken():
    assert [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 111)] == [
        "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "111th",
    ]  # fmt: skip


def test_plurals_and_possessives_have_their_singular():
    words = ["Cities", "boxes", "classes", "singer's", "singers", "bus", "this", "gas", "is"]
    assert [singular(each) for each in words] == [
        "city", "box", "class", "singer", "singer", "bus", "this", "gas", "is",
    ]  # fmt: skip
