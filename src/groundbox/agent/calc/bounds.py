"""How large anything may get, and the error that says so."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from groundbox.errors import GroundboxError

MOST_CHARS: Final = 2_000
MOST_DEPTH: Final = 60
MOST_DIGITS: Final = 1_000
"""Of a number that is written."""
MOST_BITS: Final = 8_192
"""Of a number that is worked out, about 2,466 digits."""
MOST_FACTORIAL: Final = 700
MOST_ARGUMENTS: Final = 500


class CalculationError(GroundboxError, ValueError):
    """An expression that cannot be worked out. The message says what to write instead.

    Attributes:
        position: Where in the expression, in characters from 0, or None.
    """

    def __init__(self, problem: str, position: int | None = None) -> None:
        super().__init__(problem if position is None else f"{problem} (at character {position + 1})")
        self.problem, self.position = problem, position


def bounded(value: Fraction) -> Fraction:
    """The value, if it is not over `MOST_BITS`.

    Raises:
        CalculationError: It is.
    """
    if value.numerator.bit_length() > MOST_BITS or value.denominator.bit_length() > MOST_BITS:
        raise CalculationError(f"a number of more than {MOST_BITS} bits is not worked out here; run it in a sandbox")
    return value


def check_power(base: Fraction, exponent: int) -> None:
    """Refuse a power before it is worked out.

    Raises:
        CalculationError: It would be over `MOST_BITS`.
    """
    if abs(base) in (0, 1):
        return
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if (bits - 1) * abs(exponent) > MOST_BITS:
        raise CalculationError(
            f"this power has more than {MOST_BITS} bits, which is not worked out here; run it in a sandbox"
        )
