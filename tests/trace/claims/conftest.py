"""Runs that texts tell."""

import pytest

from groundbox.trace.claims import prove

TOTAL = """\
def total(prices, limit):
    s = 0
    for price in prices:
        if price < limit:
            s += price
    return s
"""


@pytest.fixture(scope="session")
def run(recorded):
    """total([3, 90, 4], 50), which gives 7."""
    return recorded(TOTAL, "total", [3, 90, 4], 50)


@pytest.fixture(scope="session")
def proof(run):
    """A text held against it."""
    return lambda text, **options: prove(text, run, **options)


@pytest.fixture(scope="session")
def statuses(proof):
    """Quotes of a text with what became of them."""

    def told(text):
        found = proof(text)
        return [(text[v.claim.start : v.claim.end], str(v.status)) for v in found.verdicts]

    return told
