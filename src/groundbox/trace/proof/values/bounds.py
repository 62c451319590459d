"""How much work a value is worth, and what is raised where it is more, or cannot be done at all."""

from __future__ import annotations

from typing import Any, Final

MOST: Final = 10_000
"""Items or characters of a value that is worked out."""


class Unknowable(Exception):
    """It cannot be worked out; the message says why."""


def small(value: Any, bound: int) -> bool:
    """Whether it is a number between minus `bound` and `bound`."""
    return isinstance(value, int | float) and abs(value) <= bound


def size(value: Any) -> int:
    """How many items or characters it has; 0 for what has none."""
    return len(value) if hasattr(value, "__len__") else 0


def amount(value: Any) -> int:
    """By how much it multiplies a sequence."""
    return value if isinstance(value, int) else 1
