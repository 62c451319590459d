"""Functions and constants of expressions. All are exact but roots that are not rational, π and e, and what follows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final

from groundbox.agent.calc.bounds import CalculationError, bounded
from groundbox.agent.calc.quantity import Quantity

DIGITS: Final = 50
"""Of a root that is not rational, and of the constants."""
_PI: Final = Fraction("3.14159265358979323846264338327950288419716939937511")
_E: Final = Fraction("2.71828182845904523536028747135266249775724709369996")
CONSTANTS: Final = {"pi": Quantity(_PI, exact=False), "π": Quantity(_PI, exact=False), "e": Quantity(_E, exact=False)}


def call(name: str, arguments: Sequence[Quantity]) -> Quantity:
    """The value of a function.

    Raises:
        CalculationError: It takes another number of arguments, or none like these.
    """
    least, most, function = FUNCTIONS[name]
    if not least <= len(arguments) <= most:
        wanted = str(least) if least == most else f"{least} or more" if most > 99 else f"{least} to {most}"
        raise CalculationError(f"{name} takes {wanted} arguments, not {len(arguments)}")
    return function(arguments)


def _same(arguments: Sequence[Quantity]) -> list[Quantity]:
    """All in the unit of the first."""
    first = arguments[0]
    if any(one.percent != first.percent for one in arguments):
        raise CalculationError("percentages and numbers cannot be compared; write 0.15 or give all in %")
    return [one.converted(first.unit) for one in arguments]


def _round(arguments: Sequence[Quantity]) -> Quantity:
    """To so many digits, half to even as in Python; here of the exact number, so that 2.675 gives 2.68."""
    digits = _whole(arguments[1]) if len(arguments) > 1 else 0
    if abs(digits) > 1000:
        raise CalculationError("round takes at most 1000 digits")
    number = round(arguments[0].number, digits)
    return Quantity(Fraction(number), arguments[0].unit, arguments[0].percent, arguments[0].exact)


def _sqrt(arguments: Sequence[Quantity]) -> Quantity:
    [value] = arguments
    if value.unit is not None or value.number < 0:
        raise CalculationError("sqrt takes a plain number that is not negative")
    above, below = value.number.numerator, value.number.denominator
    root = Fraction(math.isqrt(above), math.isqrt(below))
    if root * root == value.number:
        return Quantity(root, None, False, value.exact)
    scale = 10 ** (2 * DIGITS + len(str(below)))
    return Quantity(bounded(Fraction(math.isqrt(above * scale * scale // below), scale)), None, False, False)


def _sum(arguments: Sequence[Quantity]) -> Quantity:
    result = arguments[0]
    for one in arguments[1:]:
        result = result.add(one, 1)
    return result


def _mean(arguments: Sequence[Quantity]) -> Quantity:
    total = _sum(arguments)
    return Quantity(total.number / len(arguments), total.unit, total.percent, total.exact)


def _median(arguments: Sequence[Quantity]) -> Quantity:
    ordered = sorted(_same(arguments), key=lambda one: one.number)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else _mean(ordered[middle - 1 : middle + 1])


def _rounded(to: Callable[[Fraction], int]) -> Callable[[Sequence[Quantity]], Quantity]:
    return lambda arguments: Quantity(
        Fraction(to(arguments[0].number)), arguments[0].unit, arguments[0].percent, arguments[0].exact
    )


def _whole(value: Quantity) -> int:
    if value.number.denominator != 1 or value.unit or not value.exact:
        raise CalculationError("a whole number is needed here")
    return value.number.numerator


def _absolute(arguments: Sequence[Quantity]) -> Quantity:
    return arguments[0].negated() if arguments[0].number < 0 else arguments[0]


def _divisor(arguments: Sequence[Quantity]) -> Quantity:
    return Quantity(Fraction(math.gcd(*map(_whole, arguments))))


def _multiple(arguments: Sequence[Quantity]) -> Quantity:
    result = 1
    for one in map(_whole, arguments):
        result = math.lcm(result, one)
        bounded(Fraction(result))
    return Quantity(Fraction(result))


FUNCTIONS: Final[dict[str, tuple[int, int, Callable[[Sequence[Quantity]], Quantity]]]] = {
    "round": (1, 2, _round),
    "abs": (1, 1, _absolute),
    "min": (1, 500, lambda arguments: min(_same(arguments), key=lambda one: one.number)),
    "max": (1, 500, lambda arguments: max(_same(arguments), key=lambda one: one.number)),
    "sum": (1, 500, _sum),
    "mean": (1, 500, _mean),
    "average": (1, 500, _mean),
    "median": (1, 500, _median),
    "sqrt": (1, 1, _sqrt),
    "floor": (1, 1, _rounded(math.floor)),
    "ceil": (1, 1, _rounded(math.ceil)),
    "gcd": (2, 500, _divisor),
    "lcm": (2, 500, _multiple),
}
