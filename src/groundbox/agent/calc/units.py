"""Units and currencies: what can be added to what, and by which exact factor."""

from __future__ import annotations

from fractions import Fraction
from typing import Final, NamedTuple

MONEY: Final = frozenset(["USD", "EUR", "GBP", "JPY", "CHF", "INR", "CNY", "CAD", "AUD", "SEK"])
_SIGNS: Final = {"$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY", "₹": "INR"}
_NAMES: Final = {
    "dollar": "USD",
    "dollars": "USD",
    "euro": "EUR",
    "euros": "EUR",
    "pounds sterling": "GBP",
    "yen": "JPY",
}


class Unit(NamedTuple):
    """A unit: of a kind, so many of the kind's own unit. A currency is a kind of its own."""

    name: str
    kind: str
    factor: Fraction


def _table() -> dict[str, Unit]:
    units: dict[str, Unit] = {}

    def add(kind: str, factor: Fraction | int | str, name: str, *others: str) -> None:
        for one in (name, *others):
            units[one] = Unit(name, kind, Fraction(factor))

    add("length", 1, "m", "meter", "meters", "metre", "metres")
    add("length", 1000, "km", "kilometer", "kilometers", "kilometre", "kilometres")
    add("length", "0.01", "cm", "centimeter", "centimeters", "centimetre", "centimetres")
    add("length", "0.001", "mm", "millimeter", "millimeters", "millimetre", "millimetres")
    add("length", "0.0254", "inch", "inches")
    add("length", "0.3048", "ft", "foot", "feet")
    add("length", "0.9144", "yd", "yard", "yards")
    add("length", "1609.344", "mi", "mile", "miles")
    add("mass", 1, "kg", "kilogram", "kilograms")
    add("mass", "0.001", "g", "gram", "grams")
    add("mass", "0.000001", "mg", "milligram", "milligrams")
    add("mass", 1000, "t", "tonne", "tonnes")
    add("mass", "0.45359237", "lb", "lbs", "pound", "pounds")
    add("mass", "0.028349523125", "oz", "ounce", "ounces")
    add("time", 1, "s", "sec", "second", "seconds")
    add("time", "0.001", "ms", "millisecond", "milliseconds")
    add("time", 60, "min", "minute", "minutes", "mins")
    add("time", 3600, "h", "hour", "hours", "hr", "hrs")
    add("time", 86400, "d", "day", "days")
    add("time", 604800, "week", "weeks")
    add("data", 1, "B", "byte", "bytes")
    add("data", "0.125", "bit", "bits")
    for power, (decimal, binary) in enumerate([("kB", "KiB"), ("MB", "MiB"), ("GB", "GiB"), ("TB", "TiB")], 1):
        add("data", 1000**power, decimal, *(["KB"] if decimal == "kB" else []))
        add("data", 1024**power, binary)
    for code in MONEY:
        units[code] = Unit(code, code, Fraction(1))
    for name, code in _NAMES.items():
        units[name] = units[code]
    return units


_UNITS: Final = _table()


def unit(name: str) -> Unit | None:
    """The unit of this name; long names and currencies in any case."""
    if name in _UNITS:
        return _UNITS[name]
    if name.upper() in MONEY:
        return _UNITS[name.upper()]
    return _UNITS.get(name.casefold()) if len(name) > 2 else None


def currency(sign: str) -> Unit | None:
    """The unit of a currency's sign."""
    return _UNITS[_SIGNS[sign]] if sign in _SIGNS else None
