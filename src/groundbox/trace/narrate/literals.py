"""Python values as text, in the way in which a state writes recorded ones."""

from __future__ import annotations

import json
from collections import deque
from typing import Any, Final

from groundbox.values.unknown import Unknown

MOST_BITS: Final = 14_000
"""Of an integer: below 4,300 digits, which is what `sys.set_int_max_str_digits` allows by itself."""


def literal(value: Any) -> str:
    """The text of a value of builtin types.

    Raises:
        Unknown: It is of another type, or holds an integer of thousands of digits.
    """
    if type(value) is int and value.bit_length() > MOST_BITS:
        raise Unknown("it has more digits than Python writes")
    if value is None or type(value) in (bool, int, float, complex, str, bytes, range):
        return repr(value)
    if type(value) is list:
        return f"[{_joined(value)}]"
    if type(value) is tuple:
        return f"({_joined(value)}{',' if len(value) == 1 else ''})"
    if type(value) is dict:
        return "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items()) + "}"
    if type(value) is set:
        return "{" + ", ".join(_sorted(value)) + "}" if value else "set()"
    if type(value) is frozenset:
        return "frozenset({" + ", ".join(_sorted(value)) + "})" if value else "frozenset()"
    if type(value) is deque and value.maxlen is None:
        return f"deque([{_joined(value)}])"
    raise Unknown(f"a {type(value).__name__} has no text here")


def _joined(items: Any) -> str:
    return ", ".join(literal(item) for item in items)


def _sorted(items: Any) -> list[str]:
    """The items of a set, in the order in which a trace has them."""
    try:
        return [literal(item) for item in sorted(items, key=json.dumps)]
    except TypeError:
        raise Unknown("items of this kind have no order here") from None
