"""A moment at which a claim holds, and the word that nobody can say."""

from __future__ import annotations

from typing import NamedTuple


class Hit(NamedTuple):
    """A moment at which a claim holds.

    Attributes:
        t: Where the narration has come to with it.
        step: The record that shows it, or -1 for plain arithmetic.
    """

    t: int
    step: int


class Uncheckable(Exception):
    """Nothing in the trace can say whether the claim holds; the message says why."""
