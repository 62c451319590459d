"""The tier of a rule: precision by database first, and how low it may be."""

import random

import pytest

from groundbox.check.tiers import ERROR_FROM, Measured, exact_bound, measured


def even(databases, questions, share=1.0):
    return {f"database {n}": [share] * questions for n in range(databases)}


@pytest.mark.parametrize(
    ("shares", "tier"),
    [
        (even(4, 3), "error"),
        (even(4, 2), "note"),  # eight questions
        (even(3, 30), "note"),  # three databases
        (even(10, 1), "error"),
        (even(8, 5, 0.8), "warn"),
        (even(8, 5, 0.3), "note"),
        ({}, "note"),
    ],
)
def test_a_tier_needs_ten_questions_four_databases_and_a_lower_end_that_reaches_its_bar(shares, tier):
    assert measured(shares).tier() == tier


def test_a_database_counts_once_however_many_questions_it_has():
    told = measured({"large": [1.0] * 90, "small": [0.0] * 2})

    assert told.precision == 0.5
    assert (told.questions, told.databases) == (92, 2)


def test_one_database_that_speaks_against_a_rule_keeps_it_from_being_an_error():
    against = {**even(5, 8), "another": [0.0] * 8}

    assert measured(even(5, 8)).tier() == "error"
    assert measured(against).lower < ERROR_FROM
    assert measured(against).tier() != "error"


def test_a_rule_that_was_always_right_is_not_taken_to_be_so_always():
    assert measured(even(5, 2)).lower == pytest.approx(exact_bound(10, 10)) == pytest.approx(0.1 ** (1 / 10))
    assert measured(even(5, 40)).lower > measured(even(5, 2)).lower


@pytest.mark.parametrize(("wrong", "count", "bound"), [(0, 5, 0.0), (1, 1, 0.1), (9, 10, 0.6632), (45, 50, 0.8224)])
def test_the_exact_bound_is_that_of_clopper_and_pearson(wrong, count, bound):
    assert exact_bound(wrong, count) == pytest.approx(bound, abs=1e-4)


def test_what_was_counted_gives_the_same_tier_each_time():
    chance = random.Random(4)
    shares = {f"database {n}": [chance.random() for _ in range(7)] for n in range(6)}

    assert measured(shares) == measured(shares)


def test_a_rule_that_is_often_wrong_on_new_databases_reaches_no_bar():
    """Databases differ: of rules whose share there is drawn around 0.7, few may be taken for an error."""
    chance = random.Random(1)
    told = []
    for _ in range(60):
        bases = [min(1.0, max(0.0, chance.gauss(0.7, 0.2))) for _ in range(8)]
        told.append(
            measured({str(n): [float(chance.random() < base) for _ in range(5)] for n, base in enumerate(bases)})
        )

    assert sum(each.tier() == "error" for each in told) <= 6


def test_a_higher_bar_makes_no_more_errors():
    told = Measured(precision=0.9, lower=0.8, questions=20, databases=5)

    assert [told.tier(error_from=bar) for bar in (0.7, 0.8, 0.81)] == ["error", "error", "warn"]
