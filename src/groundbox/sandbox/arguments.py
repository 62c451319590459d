"""Arguments of a call as call data (values/codec.py), from which the guest builds equal data.

Data is never written into source text, where a quotation mark in it would be code.
"""

from __future__ import annotations

from typing import Any

from groundbox.errors import InvalidArgument
from groundbox.values import codec


def encode(name: str, value: Any) -> Any:
    """`value` as call data.

    Args:
        name: What the caller calls it, for the error.

    Raises:
        InvalidArgument: It holds something that is no plain data, or is nested too deeply.
    """
    try:
        return codec.encode(value)
    except codec.NotData as error:
        problem = f"holds a {error.type_name}; plain data can be given, or a cell that makes it"
        raise InvalidArgument(name, problem if error.type_name else str(error)) from None
