"""pass@k is the share of draws of k samples that hold a right one."""

import itertools
import math

import pytest

from groundbox.errors import InvalidArgument
from groundbox.learn.evaluation.estimate import mean_pass_at_k, pass_at_k


@pytest.mark.parametrize(
    ("n", "c", "k"), [(n, c, k) for n in range(1, 7) for c in range(n + 1) for k in range(1, n + 1)]
)
def test_it_is_the_share_of_draws_with_a_right_one(n, c, k):
    samples = [True] * c + [False] * (n - c)
    draws = list(itertools.combinations(samples, k))

    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, draws)) / len(draws))


def test_it_is_stable_for_many_samples():
    exact = 1 - math.comb(100_000 - 37, 100) / math.comb(100_000, 100)

    assert pass_at_k(100_000, 37, 100) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize(("n", "c", "k"), [(3, 4, 1), (3, -1, 1), (3, 1, 0), (3, 1, 4)])
def test_what_gives_no_estimate_is_refused(n, c, k):
    with pytest.raises(InvalidArgument):
        pass_at_k(n, c, k)


def test_the_mean_is_over_problems_and_none_with_too_few_samples():
    assert mean_pass_at_k([(2, 2), (2, 0)], 1) == 0.5
    assert mean_pass_at_k([(2, 2), (1, 0)], 2) is None
    assert mean_pass_at_k([], 1) is None
