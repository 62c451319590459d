"""How sure each rule is."""

from __future__ import annotations


def tier_of(code: str) -> str:
    """The tier of a rule."""
    return "warn"
