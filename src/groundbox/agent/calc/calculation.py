"""`calculate`: an expression in, an exact value and its text out."""

from __future__ import annotations

import dataclasses
import re
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, Final

from groundbox.agent.calc.bounds import MOST_DIGITS
from groundbox.agent.calc.grammar import evaluate
from groundbox.agent.calc.quantity import Quantity
from groundbox.errors import InvalidArgument

_WORDED: Final = (
    (
        re.compile(r"\s*what (?:percent(?:age)?|%) of (.{1,500}?) (?:is|are) (.{1,500}?)\s*\Z", re.IGNORECASE),
        r"(\2) / (\1) in %",
    ),
    (
        re.compile(r"\s*(.{1,500}?) (?:is|are) what (?:percent(?:age)?|%) of (.{1,500}?)\s*\Z", re.IGNORECASE),
        r"(\1) / (\2) in %",
    ),
    (
        re.compile(r"\s*(.{1,500}?) as (?:a )?(?:percent(?:age)?|%) of (.{1,500}?)\s*\Z", re.IGNORECASE),
        r"(\1) / (\2) in %",
    ),
    (
        re.compile(
            r"\s*(?:the )?(?:percent(?:age)?|%) (?:increase|change|growth) from (.{1,500}?) to (.{1,500}?)\s*\Z",
            re.IGNORECASE,
        ),
        r"((\2) - (\1)) / (\1) in %",
    ),
    (
        re.compile(
            r"\s*(?:the )?(?:percent(?:age)?|%) (?:decrease|drop|fall) from (.{1,500}?) to (.{1,500}?)\s*\Z",
            re.IGNORECASE,
        ),
        r"((\1) - (\2)) / (\1) in %",
    ),
)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Calculation:
    """What an expression comes to.

    Attributes:
        value: Exact, in `unit`; True or False for a comparison. Of a percentage, the fraction.
        text: For people: `30`, `0.333333333333`, `64 EUR`, `25 %`, `true`.
        rounded: Whether `text` is not exactly the value, or the value itself holds a rounded root or constant.
        unit: `EUR`, `km`, `%`, or empty.
    """

    expression: str
    value: Fraction | bool
    text: str
    rounded: bool
    unit: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The JSON form; the value as a text such as `1/3`, so that it stays exact."""
        value = self.value if isinstance(self.value, bool) else str(self.value)
        return {**dataclasses.asdict(self), "value": value}


def calculate(expression: str, *, digits: int = 12) -> Calculation:
    """Works out an expression, exactly.

    Args:
        digits: Significant digits of `text` where the value has no end in decimals. Others are written out.

    Raises:
        InvalidArgument: `expression` is no text, or `digits` not from 1 to 1000.
        CalculationError: It cannot be read or worked out, or is over a limit; the message says what to do.
    """
    if not isinstance(expression, str):
        raise InvalidArgument("expression", f"must be a str, not {type(expression).__name__}")
    if type(digits) is not int or not 1 <= digits <= MOST_DIGITS:
        raise InvalidArgument("digits", f"must be a whole number from 1 to {MOST_DIGITS}, not {digits!r}")
    value = evaluate(_plain(expression))
    if isinstance(value, bool):
        return Calculation(expression=expression, value=value, text=str(value).lower(), rounded=False)
    return _told(expression, value, digits)


def _plain(expression: str) -> str:
    """The phrases of percentages as an expression."""
    if len(expression) <= 1100:
        for pattern, form in _WORDED:
            expression = pattern.sub(form, expression)
    return expression


def _told(expression: str, value: Quantity, digits: int) -> Calculation:
    shown = value.number * 100 if value.percent else value.number
    text, rounded = decimal(shown, digits, exact=value.exact)
    unit = "%" if value.percent else value.unit.name if value.unit else ""
    return Calculation(
        expression=expression, value=value.number, text=f"{text} {unit}".rstrip(), rounded=rounded, unit=unit
    )


def decimal(value: Fraction, digits: int, *, exact: bool = True) -> tuple[str, bool]:
    """The value in decimals, and whether that is rounded: all digits where they end, else `digits` of them."""
    if value.denominator == 1 and exact:
        return str(value.numerator), False
    rest = value.denominator
    twos = (rest & -rest).bit_length() - 1
    rest >>= twos
    fives = 0
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    if rest == 1 and exact and max(twos, fives) <= MOST_DIGITS:
        places = max(twos, fives)
        whole = abs(value.numerator) * 10**places // value.denominator
        text = f"{whole // 10**places}.{whole % 10**places:0{places}d}"
        return ("-" if value < 0 else "") + text, False
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = digits, 999999, -999999
        text = format(Decimal(value.numerator) / Decimal(value.denominator), "g")
    return text, True
