"""Values on the bridge: JSON, and a tag for what JSON lacks.

A tag is an object with one key: `{"$bytes": base64}`, `{"$decimal": "1.10"}`, `{"$datetime": …}`, `{"$date": …}`,
`{"$time": …}` in ISO 8601, `{"$int": digits}` beyond 64 bits, `{"$float": "nan"}`; an object that looks like a tag
and is none travels as `{"$object": …}`. `{"$file": {…}}` names a file in the workdir whose bytes are meant.
Nothing names a type or a function: what a tag makes is fixed here.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import decimal
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from groundbox.sandbox.bridge.frames import MOST_DEPTH, Kept

NATIVE: Final = (bytes, bytearray, decimal.Decimal, datetime.datetime, datetime.date, datetime.time)
_SMALL: Final = 1 << 63
_MOST_DIGITS: Final = 4000
_DECIMAL: Final = re.compile(r"-?\d{1,1000}(\.\d{1,1000})?([eE][+-]?\d{1,4})?")
_FLOATS: Final = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_DEEPEST: Final = MOST_DEPTH - 4
"""What a frame puts around a value is counted, too."""


class Unfit(ValueError):
    """A value that cannot travel. The message says what is wrong with it, and may be shown to the guest."""


def decode(value: Any, read: Callable[[Kept], bytes]) -> Any:
    """The value that a tagged one stands for.

    Args:
        read: Gives the bytes of a file in the workdir; may raise Unfit.

    Raises:
        Unfit: A tag is unknown or does not hold what it says.
    """
    if isinstance(value, list):
        return [decode(item, read) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((name, content),) = value.items()
        if name.startswith("$"):
            return _untagged(name, content, read)
    return {name: decode(item, read) for name, item in value.items()}


def _untagged(name: str, content: Any, read: Callable[[Kept], bytes]) -> Any:
    if name == "$object" and isinstance(content, dict):
        return {key: decode(item, read) for key, item in content.items()}
    if name == "$file" and isinstance(content, dict):
        try:
            return read(msgspec.convert(content, Kept))
        except msgspec.ValidationError as error:
            raise Unfit(f"$file: {error}") from None
    make = _MAKERS.get(name)
    if make is None or not isinstance(content, str):
        raise Unfit(f"{name[:40]!r} is no tag")
    try:
        return make(content)
    except (ValueError, KeyError, ArithmeticError, binascii.Error):
        raise Unfit(f"{content[:40]!r} is no {name[1:]}") from None


def _decimal(text: str) -> decimal.Decimal:
    if not _DECIMAL.fullmatch(text):
        raise ValueError
    return decimal.Decimal(text)


def _large_int(text: str) -> int:
    if len(text) > _MOST_DIGITS or not re.fullmatch(r"-?[0-9]+", text):
        raise ValueError
    return int(text)


_MAKERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "$bytes": lambda text: base64.b64decode(text, validate=True),
    "$decimal": _decimal,
    "$datetime": datetime.datetime.fromisoformat,
    "$date": datetime.date.fromisoformat,
    "$time": datetime.time.fromisoformat,
    "$int": _large_int,
    "$float": _FLOATS.__getitem__,
}


def plain(value: Any) -> Any:
    """What a tool returned, as data: containers, texts, numbers and NATIVE; dataclasses and the like become objects.

    Raises:
        Unfit: It holds what is no data.
    """
    try:
        return msgspec.to_builtins(value, builtin_types=NATIVE, str_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise Unfit(f"the tool returned what cannot travel: {error}"[:200]) from None


def encode(value: Any, depth: int = 0) -> Any:
    """The tagged form of data.

    Raises:
        Unfit: It is nested too deeply, or no data.
    """
    if depth > _DEEPEST:
        raise Unfit(f"it is nested deeper than {_DEEPEST}")
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if -_SMALL <= value < _SMALL else {"$int": _digits(value)}
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": str(value)}
    if isinstance(value, list | tuple):
        return [encode(item, depth + 1) for item in value]
    if isinstance(value, dict):
        told = {str(name): encode(item, depth + 1) for name, item in value.items()}
        return {"$object": told} if len(told) == 1 and next(iter(told)).startswith("$") else told
    return _tagged(value)


def _digits(value: int) -> str:
    if value.bit_length() > 3 * _MOST_DIGITS:
        raise Unfit("an integer of that many digits cannot travel")
    return str(value)


def _tagged(value: Any) -> dict[str, str]:
    if isinstance(value, bytes | bytearray):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, decimal.Decimal):
        if not _DECIMAL.fullmatch(str(value)):
            raise Unfit(f"{value} cannot travel")
        return {"$decimal": str(value)}
    for kind in (datetime.datetime, datetime.date, datetime.time):  # a datetime is a date, too
        if isinstance(value, kind):
            return {f"${kind.__name__}": value.isoformat()}
    raise Unfit(f"a {type(value).__name__} cannot travel")
