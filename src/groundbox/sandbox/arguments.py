"""Arguments of a call as JSON: plain Python data in, tagged JSON out; the guest builds equal data from it.

Data is never written into source text, where a quotation mark in it would be code.
"""

from __future__ import annotations

import math
from typing import Any, Final

from groundbox.errors import InvalidArgument

MOST_DEPTH: Final = 40
_EXACT: Final = 1 << 53


def encode(name: str, value: Any, depth: int = 0) -> Any:
    """`value` as tagged JSON.

    Args:
        name: What the caller calls it, for the error.

    Raises:
        InvalidArgument: It holds something that is no plain data, or is nested too deeply.
    """
    if depth > MOST_DEPTH:
        raise InvalidArgument(name, f"is nested deeper than {MOST_DEPTH}")
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is str:
        return _text(name, value)
    if kind is int:
        return value if -_EXACT < value < _EXACT else {"int": hex(value)}
    if kind is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if kind is complex:
        return {"complex": [encode(name, part) for part in (value.real, value.imag)]}
    if kind is bytes:
        return {"bytes": value.hex()}
    if kind is range:
        return {"range": [encode(name, part) for part in (value.start, value.stop, value.step)]}
    if kind is list:
        return [encode(name, item, depth + 1) for item in value]
    if kind is tuple:
        return {"tuple": [encode(name, item, depth + 1) for item in value]}
    if kind in (set, frozenset):  # in an order that does not depend on the host's hash seed
        return {kind.__name__: [encode(name, item, depth + 1) for item in sorted(value, key=repr)]}
    if kind is dict:
        return {"dict": [[encode(name, part, depth + 1) for part in pair] for pair in value.items()]}
    raise InvalidArgument(name, f"holds a {kind.__name__}; plain data can be given, or a cell that makes it")


def _text(name: str, value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(name, "holds half of a surrogate pair, which is no text; give bytes instead") from None
    return value
