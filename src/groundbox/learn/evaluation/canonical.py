"""The result of a call, which a guest tells as data, as plain Python values of the built-in types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from groundbox.guest.python.plain import spread

MIME: Final = "application/vnd.groundbox.value+json"
_MOST_DEPTH: Final = 60


class NoPlainData(Exception):
    """A result that holds more than built-in values, or that is too large to be told. The text says what."""


def value_of(bundle: Mapping[str, Any] | None) -> Any:
    """The value that a call returned.

    An object that claims to be equal to everything is not among the values this can be: it is built here, of plain
    types, from what the guest told.

    Raises:
        NoPlainData: It is an object, or too large.
    """
    if bundle is None or MIME not in bundle:
        raise NoPlainData("the result is too large or no data")
    return _decode(bundle[MIME], 0)


def _decode(data: Any, depth: int) -> Any:
    if depth > _MOST_DEPTH:
        raise NoPlainData("the result is too deep")
    if not isinstance(data, dict):
        if isinstance(data, list):
            raise NoPlainData("the result is no data")
        return data
    tags = [tag for tag in data if tag != "class"]
    if len(tags) != 1 or tags[0] not in _KINDS:
        raise NoPlainData(f"the result holds {str(data.get('opaque', 'something'))[:60]!r}, which is no plain data")
    try:
        return _KINDS[tags[0]](data[tags[0]], depth + 1)
    except (TypeError, ValueError, KeyError, IndexError, OverflowError, AttributeError):
        raise NoPlainData("the result is no data") from None


def _items(data: Any, depth: int) -> list[Any]:
    if not isinstance(data, list):
        raise NoPlainData("the result is no data")
    return [_decode(item, depth) for item in data]


def _dict(data: Any, depth: int) -> dict[Any, Any]:
    keys, items = [key for key, _ in data], [item for _, item in data]
    return dict(zip(spread(_items(keys, depth)), _items(items, depth), strict=True))


_KINDS: Final[Mapping[str, Callable[[Any, int], Any]]] = {
    "list": _items,
    "deque": _items,
    "tuple": lambda data, depth: tuple(_items(data, depth)),
    "set": lambda data, depth: set(spread(_items(data, depth))),
    "frozenset": lambda data, depth: frozenset(spread(_items(data, depth))),
    "dict": _dict,
    "int": lambda data, _: int(str(data)[:4300]),
    "float": lambda data, _: float(data),
    "complex": lambda data, depth: complex(*_items(data, depth)),
    "bytes": lambda data, _: bytes.fromhex(data["hex"]),
    "range": lambda data, _: range(*data),
}
