"""Plain data as JSON, with a tag where JSON has no form. Guest and host both use it."""

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

_MOST_ALIKE: Final = 100
"""Keys with one hash: a set takes time by the square of their number, all of it in one step of the interpreter."""


def encode(value: Any) -> Any:
    """`value` as JSON; a ValueError names what is no plain data. Subclasses are told as what they derive from."""
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        whole = int(value)
        return whole if abs(whole) < 1 << 53 else {"int": hex(whole)}
    if isinstance(value, float):
        number = float(value)
        return number if math.isfinite(number) else {"float": repr(number)}
    if isinstance(value, complex):
        return {"complex": [encode(value.real), encode(value.imag)]}
    if isinstance(value, (bytes, bytearray)):
        return {"bytes": bytes(value).hex()}
    if isinstance(value, dict):
        return {"dict": [[encode(key), encode(item)] for key, item in dict.items(value)]}
    if isinstance(value, range):
        return {"range": [encode(value.start), encode(value.stop), encode(value.step)]}
    for kind in (list, tuple, set, frozenset):
        if isinstance(value, kind):
            return {kind.__name__: [encode(item) for item in value]}
    raise ValueError(f"a {type(value).__name__} is no plain data")


def decode(data: Any) -> Any:
    """Build the value that `encode` wrote; a ValueError says that it cannot be built."""
    if not isinstance(data, dict):
        return data
    ((kind, content),) = data.items()
    if kind == "int":
        return int(content, 16)
    if kind == "float":
        return float(content)
    if kind == "complex":
        return complex(decode(content[0]), decode(content[1]))
    if kind == "bytes":
        return bytes.fromhex(content)
    if kind == "range":
        return range(*map(decode, content))
    if kind == "dict":
        keys = spread(decode(key) for key, _ in content)
        return dict(zip(keys, (decode(item) for _, item in content), strict=True))
    if kind in ("set", "frozenset"):
        return {"set": set, "frozenset": frozenset}[kind](spread(map(decode, content)))
    return {"list": list, "tuple": tuple}[kind](map(decode, content))


def spread(keys: Iterable[Any]) -> list[Any]:
    """Keys for a set or a dict; a ValueError says that too many of them have the same hash."""
    held = list(keys)
    if len(held) > _MOST_ALIKE and max(Counter(map(hash, held)).values()) > _MOST_ALIKE:
        raise ValueError(f"more than {_MOST_ALIKE} keys have the same hash")
    return held
