"""Values as docs/trace.md writes them: strict checks, and small questions about them.

A value `V` is an atom (None, bool, int, float, str) or a dict with one main key.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Final

from groundbox.trace.record.schema import V

MOST_INT: Final = 2**53 - 1
MOST_TEXT: Final = 400
MOST_DEPTH: Final = 16
"""Of tuples, frozensets and owners of methods in each other; the cores write 6 tuples at most."""

_FLOATS: Final = frozenset({"nan", "inf", "-inf"})


class InvalidRecord(ValueError):
    """A value that docs/trace.md does not allow, or a record that may not stand where it stands; with the reason."""


def need(met: bool, problem: str) -> None:
    """Raise InvalidRecord with the problem unless something is met."""
    if not met:
        raise InvalidRecord(problem)


def ref_of(value: V) -> int | None:
    """The label of an object, or None for any other value."""
    return value["ref"] if type(value) is dict and "ref" in value else None


def labels_in(value: V) -> Iterator[int]:
    """The labels of the objects that a value shows itself, not of those that they lead to."""
    if type(value) is not dict:
        return
    if "ref" in value:
        yield value["ref"]
        return
    for part in (*value.get("tuple", ()), *value.get("frozenset", ()), *value.get("tail", ()), value.get("of")):
        yield from labels_in(part)


def kind_of(value: V) -> str:
    """The main key of a value, or `atom`."""
    if type(value) is not dict:
        return "atom"
    for key in value:
        if key in _CHECKS and key != "class":
            return str(key)
    return "class" if "class" in value else ""


def check(value: V, refs: list[int], depth: int = 0) -> None:
    """Check one value and everything in it.

    Args:
        refs: Every label that the value refers to is appended; whether they exist is the caller's question.

    Raises:
        InvalidRecord: The value is not one of docs/trace.md.
    """
    kind = type(value)
    if value is None or kind is bool:
        return
    if kind is str:
        if len(value) > MOST_TEXT:
            raise InvalidRecord(f"a string of {len(value)} characters is not shortened")
    elif kind is int:
        if not -MOST_INT <= value <= MOST_INT:
            raise InvalidRecord("an integer of 2^53 or more stands for itself")
    elif kind is float:
        if not math.isfinite(value):
            raise InvalidRecord("a float that is not finite stands for itself")
    elif kind is dict:
        # A reference is most of what is no atom, and needs no look at its parts.
        if len(value) == 1 and type(value.get("ref")) is int:
            refs.append(value["ref"])
        else:
            _check_object(value, refs, depth)
    else:
        raise InvalidRecord(f"a JSON {'array' if kind is list else kind.__name__} is no value")


def _check_object(value: dict[str, Any], refs: list[int], depth: int) -> None:
    if depth >= MOST_DEPTH:
        raise InvalidRecord(f"values are nested deeper than {MOST_DEPTH}")
    kind = kind_of(value)
    if not kind:
        raise InvalidRecord(f"an object with the keys {_keys(value)} is no value")
    extra = value.keys() - _EXTRA.get(kind, frozenset()) - {kind}
    if extra:
        raise InvalidRecord(f"{kind!r} does not go with {_keys(extra)}")
    _CHECKS[kind](value, refs, depth)


def _keys(keys: Any) -> str:
    return ", ".join(repr(str(key)[:40]) for key in sorted(keys)[:5]) or "none"


def count(value: Any) -> bool:
    """Whether it is an integer from 0 on, as counts are."""
    return type(value) is int and value >= 0


def _int(value: dict[str, Any], refs: list[int], depth: int) -> None:
    number = value["int"]
    if type(number) is dict:
        need(number.keys() == {"bits", "sign", "sha256"}, "a long int has bits, sign and sha256")
        need(
            count(number["bits"]) and number["sign"] in (-1, 1), "a long int has a number of bits and a sign of 1 or -1"
        )
        return
    need(type(number) is str and number.isascii() and len(number) <= 401, "an int is digits, at most 400")
    digits = number.removeprefix("-")
    need(digits.isdigit() and digits[:1] != "0" and int(digits) > MOST_INT, "an int of 2^53 or more is decimal digits")


def _float(value: dict[str, Any], refs: list[int], depth: int) -> None:
    need(type(value["float"]) is str and value["float"] in _FLOATS, "a float in words is nan, inf or -inf")


def _complex(value: dict[str, Any], refs: list[int], depth: int) -> None:
    parts = value["complex"]
    need(type(parts) is list and len(parts) == 2, "a complex number has two parts")
    for part in parts:
        if type(part) is not float and type(part) is not int:
            need(type(part) is dict and part.keys() == {"float"}, "the parts of a complex number are floats")
        check(part, refs, depth + 1)


def _str(value: dict[str, Any], refs: list[int], depth: int) -> None:
    inner = value["str"]
    need(
        type(inner) is dict and inner.keys() == {"len", "head", "tail", "sha256"},
        "a long string has len, head, tail, sha256",
    )
    texts = (inner["head"], inner["tail"], inner["sha256"])
    need(
        all(type(text) is str and len(text) <= MOST_TEXT for text in texts), "parts of a long string are short strings"
    )
    need(
        count(inner["len"]) and inner["len"] > len(inner["head"]) + len(inner["tail"]),
        "a long string is longer than its parts",
    )


def _bytes(value: dict[str, Any], refs: list[int], depth: int) -> None:
    inner = value["bytes"]
    need(type(inner) is dict and inner.keys() - {"sha256"} == {"len", "hex"}, "bytes have len and hex")
    check_hex(inner["hex"], inner["len"])
    need("sha256" not in inner or type(inner["sha256"]) is str, "a sha256 is a string")


def check_hex(text: Any, length: Any) -> None:
    """Check the `hex` of bytes or a bytearray against its `len`; over 200 bytes, the first 200 are shown.

    Raises:
        InvalidRecord: They do not agree.
    """
    need(count(length) and type(text) is str and text.isascii(), "bytes have a length and hexadecimal digits")
    try:
        shown = len(bytes.fromhex(text))
    except ValueError:
        raise InvalidRecord("bytes are hexadecimal digits") from None
    need(shown == min(length, 200) and len(text) == 2 * shown, f"{length} bytes are written by {shown}")


def _items(value: dict[str, Any], refs: list[int], depth: int) -> None:
    kind = "tuple" if "tuple" in value else "frozenset"
    need(type(value[kind]) is list, f"a {kind} is a JSON array")
    need(type(value.get("tail", [])) is list, "a tail is a JSON array")
    need(count(value.get("elided", 0)), "elided is a count")
    need(not value.get("tail") or bool(value.get("elided")), "only what is elided has a tail")
    need(type(value.get("class", "")) is str, "a class is named by a string")
    for item in value[kind]:
        check(item, refs, depth + 1)
    for item in value.get("tail", ()):
        check(item, refs, depth + 1)


def _range(value: dict[str, Any], refs: list[int], depth: int) -> None:
    parts = value["range"]
    need(type(parts) is list and len(parts) == 3, "a range has start, stop and step")
    for part in parts:
        need(type(part) is int or (type(part) is dict and part.keys() == {"int"}), "a range is made of integers")
        check(part, refs, depth + 1)
    need(parts[2] != 0, "a range has a step")


def _method(value: dict[str, Any], refs: list[int], depth: int) -> None:
    _name(value, refs, depth)
    need("of" in value, "a method is of something")
    check(value["of"], refs, depth + 1)


def _repr(value: dict[str, Any], refs: list[int], depth: int) -> None:
    _name(value, refs, depth)
    need(type(value.get("type")) is str, "a repr has a type")


def _name(value: dict[str, Any], refs: list[int], depth: int) -> None:
    need(all(type(part) is str for key, part in value.items() if key != "of"), "a name is a string")


def _ref(value: dict[str, Any], refs: list[int], depth: int) -> None:
    raise InvalidRecord("a ref is a number")


_CHECKS: Final[dict[str, Callable[[dict[str, Any], list[int], int], None]]] = {
    "ref": _ref,
    "int": _int,
    "float": _float,
    "complex": _complex,
    "str": _str,
    "bytes": _bytes,
    "tuple": _items,
    "frozenset": _items,
    "range": _range,
    "function": _name,
    "builtin": _name,
    "method": _method,
    "module": _name,
    "repr": _repr,
    "opaque": _name,
    "class": _name,
}
_EXTRA: Final = {
    "tuple": frozenset({"class", "tail", "elided"}),
    "frozenset": frozenset({"class", "tail", "elided"}),
    "method": frozenset({"of"}),
    "repr": frozenset({"type"}),
}
