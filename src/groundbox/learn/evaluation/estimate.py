"""pass@k: how likely one of k samples solves a problem, estimated from n samples of which c do.

The unbiased estimator 1 − C(n−c, k) / C(n, k) of Chen et al. 2021 (arXiv 2107.03374), as a product, so that no
factorial is formed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from groundbox.errors import InvalidArgument


def pass_at_k(n: int, c: int, k: int) -> float:
    """The estimate for one problem.

    Args:
        n: Samples of the problem.
        c: Those that solve it.

    Raises:
        InvalidArgument: Not 0 ≤ c ≤ n, or k not from 1 to n.
    """
    if not 0 <= c <= n:
        raise InvalidArgument("c", f"must be from 0 to n = {n}, not {c}")
    if not 1 <= k <= n:
        raise InvalidArgument("k", f"must be from 1 to n = {n}, not {k}; fewer samples give no estimate")
    if n - c < k:
        return 1.0
    return 1.0 - math.prod(1.0 - k / i for i in range(n - c + 1, n + 1))


def mean_pass_at_k(counts: Sequence[tuple[int, int]], k: int) -> float | None:
    """The mean over problems, each given as (n, c); None where a problem has fewer than k samples."""
    if not counts or any(n < k for n, _ in counts):
        return None
    return math.fsum(pass_at_k(n, c, k) for n, c in counts) / len(counts)
