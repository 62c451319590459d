"""A value of a calculation: an exact number, perhaps a percentage, perhaps with a unit or a currency."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

from groundbox.agent.calc.bounds import CalculationError, bounded, check_power
from groundbox.agent.calc.units import Unit


@dataclasses.dataclass(frozen=True, slots=True)
class Quantity:
    """One value.

    Attributes:
        number: In the unit's own measure; of a percentage, the fraction: 15 % is 3/20.
        exact: False once a root or the like was rounded.
    """

    number: Fraction
    unit: Unit | None = None
    percent: bool = False
    exact: bool = True

    def add(self, other: Quantity, sign: int) -> Quantity:
        """The sum, or the difference with `sign` -1, in the unit of the first."""
        if self.percent != other.percent:
            raise CalculationError(
                "adding a percentage to a number can mean two things; write `15 % of 200`, `200 plus 15 %`, "
                "`200 less 15 %`, or 0.15"
            )
        number = other.number if self.unit == other.unit else other.converted(self.unit).number
        return self._with(self.number + sign * number, other)

    def times(self, other: Quantity) -> Quantity:
        """The product; at most one of the two has a unit."""
        if self.unit and other.unit:
            raise CalculationError(
                f"{self.unit.name} times {other.unit.name} is a unit that is not known here; leave one out"
            )
        return Quantity(
            bounded(self.number * other.number), self.unit or other.unit, self.percent and other.percent,
            self.exact and other.exact,
        )  # fmt: skip

    def over(self, other: Quantity, *, floor: bool = False) -> Quantity:
        """The quotient; a plain number when both have a unit."""
        if not other.number:
            raise CalculationError("division by zero")
        divisor = other
        if other.unit is not None:
            if self.unit is None:
                raise CalculationError(f"a plain number over {other.unit.name} is a unit that is not known here")
            divisor = other.converted(self.unit)
        quotient = self.number / divisor.number
        unit = None if other.unit is not None else self.unit
        return Quantity(
            bounded(Fraction(quotient.__floor__()) if floor else quotient), unit, False, self.exact and other.exact
        )

    def modulo(self, other: Quantity) -> Quantity:
        """What is left of a division; it has the sign of the divisor, as in Python."""
        if not other.number:
            raise CalculationError("division by zero")
        divisor = other if other.unit == self.unit else other.converted(self.unit)
        return self._with(self.number % divisor.number, other)

    def power(self, other: Quantity) -> Quantity:
        """A power with a whole exponent, of a plain number."""
        if self.unit or other.unit:
            raise CalculationError("a power of a unit is not known here; leave the unit out")
        if other.number.denominator != 1:
            raise CalculationError("the exponent has to be a whole number; write sqrt(x) for a root")
        exponent = other.number.numerator
        if not self.number and exponent < 0:
            raise CalculationError("division by zero")
        check_power(self.number, exponent)
        return Quantity(bounded(self.number**exponent), None, False, self.exact and other.exact)

    def negated(self) -> Quantity:
        return dataclasses.replace(self, number=-self.number)

    def converted(self, unit: Unit | None) -> Quantity:
        """The same in another unit.

        Raises:
            CalculationError: The units measure different things.
        """
        if self.unit == unit:
            return self
        if self.unit is None or unit is None:
            named = self.unit or unit
            assert named is not None
            raise CalculationError(f"one side is in {named.name} and the other has no unit; give both or none")
        if self.unit.kind != unit.kind:
            if self.unit.kind == self.unit.name or unit.kind == unit.name:
                raise CalculationError(
                    f"{self.unit.name} and {unit.name} cannot be mixed, because exchange rates are not known here; "
                    "multiply by the rate first"
                )
            raise CalculationError(f"{self.unit.name} ({self.unit.kind}) and {unit.name} ({unit.kind}) cannot be mixed")
        return dataclasses.replace(self, number=self.number * self.unit.factor / unit.factor, unit=unit)

    def _with(self, number: Fraction, other: Quantity) -> Quantity:
        return Quantity(bounded(number), self.unit, self.percent, self.exact and other.exact)
