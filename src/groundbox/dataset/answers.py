"""Results of calls: from the nested JSON that a run gives to the value and its text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from groundbox.dataset import literals
from groundbox.dataset.literals import Literal, NotALiteral


def literal_of(value: Any) -> Literal:
    """The value of nested JSON as docs/trace.md writes values, containers inside.

    Raises:
        NotALiteral: It is, or contains, something that no literal can write, or of which a part was left out.
    """
    if not isinstance(value, dict):
        return value
    if value.get("elided"):
        raise NotALiteral(f"{value['elided']} items are not shown")
    if value.get("class") not in _BUILT_IN:
        raise NotALiteral(f"an object of class {value['class']} is no literal")
    for kind, build in _BUILDERS.items():
        if kind in value:
            return build(value[kind])
    raise NotALiteral(f"{_kind(value)} is no literal")


def text_of(value: Any) -> str:
    """How Python writes the value, or "" when it cannot be written."""
    try:
        return literals.text(literal_of(value))
    except NotALiteral:
        return ""


def _kind(value: Mapping[str, Any]) -> str:
    name = next(iter(value), "nothing")
    inner = value.get(name)
    return f"{name} {inner}"[:80] if isinstance(inner, str) else str(name)


def _int(inner: Any) -> int:
    if not isinstance(inner, str):
        raise NotALiteral("an int of which not all digits are shown is no literal")
    return int(inner)


def _complex(inner: Any) -> complex:
    return complex(*(float(literal_of(part)) for part in inner))


def _text(inner: Any) -> str:
    if not isinstance(inner, str):
        raise NotALiteral(f"a text of which {inner['len']} characters are not all shown is no literal")
    return inner


def _bytes(inner: Any) -> bytes:
    shown = bytes.fromhex(inner["hex"])
    if len(shown) != inner["len"]:
        raise NotALiteral(f"bytes of which {inner['len']} are not all shown are no literal")
    return shown


def _items(inner: Any) -> list[Literal]:
    return [literal_of(each) for each in inner]


def _pairs(inner: Any) -> dict[Literal, Literal]:
    return {literal_of(key): literal_of(each) for key, each in inner}


_BUILT_IN: Final = frozenset({None, "list", "tuple", "set", "frozenset", "dict"})
_BUILDERS: Final[dict[str, Callable[[Any], Literal]]] = {
    "int": _int,
    "float": float,
    "complex": _complex,
    "str": _text,
    "bytes": _bytes,
    "list": _items,
    "tuple": lambda inner: tuple(_items(inner)),
    "set": lambda inner: set(_items(inner)),
    "frozenset": lambda inner: frozenset(_items(inner)),
    "dict": _pairs,
}
