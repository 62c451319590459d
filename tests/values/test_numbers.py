"""Numbers of English, as questions and answers write them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundbox.values.numbers import (
    GROUPED,
    NUMERAL,
    ORDINALS,
    TIMES,
    UNITS,
    cardinal,
    number_words,
    numerals,
    ordinal,
)


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


@given(st.integers(0, 10**15 - 1))
def test_a_number_in_digits_is_read_with_and_without_commas(number):
    for text in (str(number), f"{number:,}"):
        assert re.fullmatch(GROUPED, text)
        [read] = numerals(NUMERAL.fullmatch(text)[0])
        assert int(read.readings[0].value) == number


def test_the_words_of_numbers_are_counted_from_their_first():
    assert [UNITS[word] for word in ("zero", "nineteen")] == [0, 19]
    assert [ORDINALS[word] for word in ("first", "twelfth")] == [1, 12]
    assert TIMES == {"never": 0, "once": 1, "twice": 2, "thrice": 3}
