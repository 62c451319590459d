"""The grammar of expressions, evaluated as it is read.

From loose to tight: comparisons; + and −; `plus` and `less` a percentage; × ÷ // mod; `of` and `off`; signs; powers;
what stands behind a number (%, !, a unit). `%` is a percentage unless an operand follows it, where it is what is left
of a division.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Final

from groundbox.agent.calc.bounds import MOST_ARGUMENTS, MOST_DEPTH, MOST_FACTORIAL, CalculationError, bounded
from groundbox.agent.calc.functions import CONSTANTS, FUNCTIONS, call
from groundbox.agent.calc.quantity import Quantity
from groundbox.agent.calc.tokens import Token, tokens
from groundbox.agent.calc.units import currency, unit

_COMPARISONS: Final[dict[str, Callable[[Fraction, Fraction], bool]]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_HUNDRED: Final = Fraction(100)


def evaluate(expression: str) -> Quantity | bool:
    """The value of an expression; True or False for a comparison.

    Raises:
        CalculationError: It cannot be read or worked out.
    """
    return _Reader(tokens(expression)).all()


class _Reader:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens, self._at, self._depth, self._called = tokens, 0, 0, 0

    def all(self) -> Quantity | bool:
        if self._next.kind == "end":
            raise CalculationError("there is nothing to work out")
        value = self._comparison()
        if self._next.kind != "end":
            raise CalculationError(f"{self._next.text!r} was not expected here", self._next.position)
        return value

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self, *texts: str) -> Token | None:
        token = self._next
        if token.kind in ("operator", "name") and token.text in texts:
            self._at += 1
            return token
        return None

    def _need(self, text: str) -> None:
        if not self._take(text):
            found = repr(self._next.text) if self._next.text else "the end"
            raise CalculationError(f"{text!r} is missing before {found}", self._next.position)

    def _comparison(self) -> Quantity | bool:
        left = self._sum()
        if self._next.text not in _COMPARISONS:
            return left
        holds = True
        while sign := self._take(*_COMPARISONS):
            if self._next.kind == "end" and sign.text == "==":
                return left  # `2 + 2 =`
            right = self._sum()
            if not (left.exact and right.exact) and left.number != right.number and _near(left, right):
                raise CalculationError("these are equal but for a rounded root; which is larger cannot be told")
            holds = holds and _COMPARISONS[sign.text](left.number, right.converted(left.unit).number)
            left = right
        return holds

    def _sum(self) -> Quantity:
        self._enter()
        value = self._product()
        while sign := self._take("+", "-", "plus", "less"):
            other = self._product()
            if sign.text in ("plus", "less") and other.percent and not value.percent:
                factor = 1 + (other.number if sign.text == "plus" else -other.number)
                value = value.times(Quantity(factor, exact=other.exact))
            else:
                value = value.add(other, 1 if sign.text in ("+", "plus") else -1)
        if self._take("to", "in", "as"):
            value = self._into(value)
        self._depth -= 1
        return value

    def _into(self, value: Quantity) -> Quantity:
        token = self._next
        self._at += 1
        if token.text in ("%", "percent"):
            return Quantity(value.converted(None).number, None, True, value.exact)
        wanted = unit(token.text) or currency(token.text)
        if wanted is None:
            raise CalculationError(f"{token.text!r} is no unit that is known here", token.position)
        return value.converted(wanted)

    def _product(self) -> Quantity:
        value = self._share()
        while sign := self._take("*", "/", "//", "%", "mod"):
            other = self._share()
            if sign.text == "*":
                value = value.times(other)
            elif sign.text in ("/", "//"):
                value = value.over(other, floor=sign.text == "//")
            else:
                value = value.modulo(other)
        return value

    def _share(self) -> Quantity:
        """`15 % of 200`, `20 % off 80`, `3/4 of 200` where the fraction stands in parentheses."""
        value = self._signed()
        if word := self._take("of", "off"):
            other = self._share()
            if word.text == "off" and not value.percent:
                raise CalculationError("`off` needs a percentage before it, such as `20 % off 80`", word.position)
            factor = Quantity(value.number if word.text == "of" else 1 - value.number, value.unit, False, value.exact)
            return factor.times(other)
        return value

    def _signed(self) -> Quantity:
        self._enter()
        if sign := self._take("-", "+"):
            value = self._signed()
            value = value.negated() if sign.text == "-" else value
        elif self._take("√"):
            value = call("sqrt", [self._signed()])
        else:
            value = self._power()
        self._depth -= 1
        return value

    def _power(self) -> Quantity:
        value = self._behind(self._atom())
        if self._take("**"):
            value = self._behind(value.power(self._signed()))
        return value

    def _behind(self, value: Quantity) -> Quantity:
        """A percent sign, a factorial, a unit."""
        while True:
            token = self._next
            if token.text in ("percent", "pct") or (token.text == "%" and self._ends_percentage()):
                self._at += 1
                value = Quantity(value.number / _HUNDRED, value.unit, True, value.exact)
            elif token.text == "!":
                self._at += 1
                value = _factorial(value)
            elif token.kind in ("name", "money") and value.unit is None and not value.percent:
                measure = currency(token.text) if token.kind == "money" else unit(token.text)
                if measure is None or (token.text == "in"):
                    return value
                self._at += 1
                value = Quantity(value.number, measure, False, value.exact)
            else:
                return value

    def _ends_percentage(self) -> bool:
        after = self._tokens[self._at + 1]
        begins = after.kind in ("number", "money") or after.text in ("(", "√")
        return not begins and not (after.kind == "name" and (after.text in FUNCTIONS or after.text in CONSTANTS))

    def _atom(self) -> Quantity:
        token = self._next
        self._at += 1
        if token.kind == "number":
            if self._called and "," in token.text:
                raise CalculationError(
                    f"{token.text!r} between parentheses could be one number or two; write it without a comma, or with "
                    "a blank behind it",
                    token.position,
                )
            return Quantity(bounded(token.value))
        if token.kind == "money":
            amount = self._atom()
            return Quantity(amount.number, currency(token.text), False, amount.exact)
        if token.text == "(":
            self._enter()
            value = self._sum()
            self._need(")")
            self._depth -= 1
            return value
        if token.kind == "name":
            return self._named(token)
        self._at -= 1
        found = repr(token.text) if token.text else "the end"
        raise CalculationError(f"a number is missing before {found}", token.position)

    def _named(self, token: Token) -> Quantity:
        if token.text in CONSTANTS:
            return CONSTANTS[token.text]
        measure = unit(token.text)
        if measure is not None and measure.kind == measure.name and self._next.kind == "number":
            return Quantity(self._atom().number, measure)  # USD 20
        if token.text not in FUNCTIONS:
            known = ", ".join(sorted([*FUNCTIONS, *CONSTANTS]))
            raise CalculationError(f"{token.text!r} is not known here; there are {known}", token.position)
        self._need("(")
        self._called += 1
        arguments = [self._sum()]
        while self._take(","):
            arguments.append(self._sum())
            if len(arguments) > MOST_ARGUMENTS:
                raise CalculationError(f"more than {MOST_ARGUMENTS} arguments", token.position)
        self._need(")")
        self._called -= 1
        return call(token.text, arguments)

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise CalculationError(f"nested more than {MOST_DEPTH} deep; work it out in parts", self._next.position)


def _factorial(value: Quantity) -> Quantity:
    number = value.number
    if value.unit or number.denominator != 1 or not 0 <= number <= MOST_FACTORIAL:
        raise CalculationError(f"a factorial is of a whole number from 0 to {MOST_FACTORIAL}")
    result = Fraction(1)
    for factor in range(2, int(number) + 1):
        result *= factor
    return Quantity(bounded(result), None, False, value.exact)


def _near(left: Quantity, right: Quantity) -> bool:
    return abs(left.number - right.number) <= max(abs(left.number), abs(right.number)) * Fraction(1, 10**30)
