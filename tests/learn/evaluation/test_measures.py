"""Measures against values that are worked out elsewhere."""

import pytest

from groundbox.learn.evaluation.measures import bootstrap, mcnemar, mean, median, repeated, wilson


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    # Newcombe 1998, table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29.
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_intervals_are_those_of_the_literature(k, n, low, high):
    found = wilson(k, n)

    assert (round(found.low, 4), round(found.high, 4)) == (low, high)


def test_a_share_of_nothing_has_no_interval():
    assert wilson(0, 0) is None


@pytest.mark.parametrize(
    ("only_a", "only_b", "p"),
    # Twice the tail of a binomial with one half, by hand: 2 · (1 + 10) / 2^10, 2 · 1 / 2^6, never above 1.
    [(1, 9, 22 / 1024), (9, 1, 22 / 1024), (0, 6, 2 / 64), (5, 5, 1.0), (0, 0, 1.0)],
)
def test_the_exact_test_of_pairs(only_a, only_b, p):
    assert mcnemar(only_a, only_b) == pytest.approx(p)


def test_the_exact_test_bears_many_pairs():
    assert 0 < mcnemar(4_000, 4_300) < 0.002


def test_repetition_is_the_share_of_runs_that_were_there_before():
    assert repeated("a b c d a b c d") == pytest.approx(1 / 5)
    assert repeated("the same " * 500) > 0.99
    assert repeated("one two three") == 0


def test_a_bootstrap_is_the_same_for_a_seed_and_holds_the_mean():
    rows = [0] * 60 + [1] * 40

    found = bootstrap(rows, mean, seed=1, resamples=2_000)

    assert found == bootstrap(rows, mean, seed=1, resamples=2_000)
    assert found.low == pytest.approx(0.40 - 0.096, abs=0.02)
    assert found.high == pytest.approx(0.40 + 0.096, abs=0.02)
    assert bootstrap([], mean, seed=1) is None


def test_the_middle_of_an_even_number_of_values():
    assert median([4, 1, 3, 2]) == 2.5
