"""Literals: values that Python can write and read back, and what a run gave as such a value.

Inputs are data. A value travels as JSON in which atoms, lists and dicts with text keys stand for themselves;
everything that JSON has no word for is an object with one key that begins with `$`.
"""

from __future__ import annotations

import ast
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from groundbox.values.parsing import expression_of

Literal: TypeAlias = Any
"""None, bool, int, float, complex, str, bytes, and lists, tuples, sets, frozensets and dicts of these."""

_CLOSE: Final = 1e-9


class NotALiteral(ValueError):
    """A value or an expression that cannot be written as a literal."""


def parse(text: str) -> Literal:
    """The value that `text` writes so, or that `ast.literal_eval` takes, or NotALiteral."""
    try:
        return read(expression_of(text.strip()))
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError) as error:
        raise NotALiteral(f"{_short(text)}: {error}") from None


def read(node: ast.expr) -> Literal:
    """As `of_node`; besides, what Python writes for values that no literal makes: `inf`, `nan`, frozensets, `-0j`.

    Raises:
        NotALiteral: It is something else.
    """
    match node:
        case ast.Name(id="inf" | "nan" as name):
            return float(name)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Name(id="inf")):
            return -math.inf
        case ast.Call(func=ast.Name(id="frozenset"), args=[], keywords=[]):
            return frozenset()
        case ast.Call(func=ast.Name(id="frozenset"), args=[ast.Set(elts=items)], keywords=[]):
            return frozenset(map(read, items))
        case ast.List(elts=items):
            return list(map(read, items))
        case ast.Tuple(elts=items):
            return tuple(map(read, items))
        case ast.Set(elts=items):
            return set(map(read, items))
        case ast.BinOp() | ast.UnaryOp() | ast.Name(id="infj" | "nanj"):
            return _complex(node)
        case ast.Dict(keys=keys, values=values) if all(keys):
            return {read(key): read(value) for key, value in zip(keys, values, strict=True) if key is not None}
    return of_node(node)


def _complex(node: ast.expr) -> Literal:
    """A complex number in parts as they are written: arithmetic on literals loses the signs of zeros."""
    words = ast.unparse(node).replace(" ", "")
    try:
        return complex(words) if words.endswith("j") else of_node(node)
    except ValueError:
        return of_node(node)


def of_node(node: ast.expr) -> Literal:
    """The value of a literal in a syntax tree, or NotALiteral."""
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise NotALiteral(f"{_short(ast.unparse(node))} is not a literal") from None


def encode(value: Literal) -> Any:
    """The JSON form; `decode` gives the value back.

    Raises:
        NotALiteral: The value is of another type, or contains one.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, list):
        return [encode(each) for each in value]
    if isinstance(value, dict):
        return _encode_dict(value)
    for kind, tag in _TAGS.items():
        if type(value) is kind:
            return {tag: _PARTS[tag][0](value)}
    raise NotALiteral(f"{type(value).__name__} cannot be written as a literal")


def decode(data: Any) -> Literal:
    """The value of the JSON form.

    Raises:
        NotALiteral: It is not the form that `encode` writes.
    """
    if isinstance(data, list):
        return [decode(each) for each in data]
    if not isinstance(data, dict):
        return data
    tag = next(iter(data), "")
    if not tag.startswith("$"):
        return {key: decode(each) for key, each in data.items()}
    if len(data) != 1 or tag not in _PARTS:
        raise NotALiteral(f"{_short(json.dumps(data))} is not the JSON form of a value")
    try:
        return _PARTS[tag][1](data[tag])
    except (TypeError, ValueError) as error:
        raise NotALiteral(f"{tag}: {error}") from None


def text(value: Literal) -> str:
    """How Python writes the value; sets in the order of their items' texts, so that it is the same in every process."""
    return _text(value, sort=False)


def same(one: Literal, other: Literal) -> bool:
    """Whether two values are equal and of equal types, all that is in them, too. The order of dicts does not count."""
    return _text(one, sort=True) == _text(other, sort=True)


def _text(value: Literal, *, sort: bool) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_texts(value, sort)) + "]"
    if isinstance(value, tuple):
        return "(" + ", ".join(_texts(value, sort)) + (",)" if len(value) == 1 else ")")
    if isinstance(value, dict):
        pairs = [f"{_text(key, sort=sort)}: {_text(each, sort=sort)}" for key, each in value.items()]
        return "{" + ", ".join(sorted(pairs) if sort else pairs) + "}"
    if isinstance(value, set | frozenset):
        items = "{" + ", ".join(sorted(_texts(value, sort))) + "}" if value else ""
        name = type(value).__name__
        return items if items and name == "set" else f"{name}({items})"
    return repr(value)


def _texts(values: Iterable[Literal], sort: bool) -> list[str]:
    return [_text(each, sort=sort) for each in values]


def digest(value: Literal) -> str:
    """Names a value: the same in every process; the order of a dict counts, because programs see it."""
    form = json.dumps(encode(value), ensure_ascii=True)
    return hashlib.sha256(form.encode()).hexdigest()


def close(one: Literal, other: Literal) -> bool:
    """Whether two values are the same once both have been through JSON, floats to within nine digits.

    Recorded outputs were written as JSON: tuples became lists, and keys became texts.
    """
    return _close(_plain(one), _plain(other))


def _close(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return _close_numbers(one, other)
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_close, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_close(each, other[key]) for key, each in one.items())
    return bool(one == other)


def _close_numbers(one: float, other: float) -> bool:
    if isinstance(one, int) and isinstance(other, int):
        return one == other
    try:
        return math.isclose(one, other, rel_tol=_CLOSE, abs_tol=_CLOSE) or (math.isnan(one) and math.isnan(other))
    except OverflowError:
        return False


def _plain(value: Literal) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, set | frozenset):
        return sorted(map(_plain, value), key=lambda each: json.dumps(each, sort_keys=True, default=str))
    if isinstance(value, dict):
        return {key if isinstance(key, str) else _key(key): _plain(each) for key, each in value.items()}
    return value


def _key(key: Literal) -> str:
    return json.dumps(key) if key is None or isinstance(key, bool | int | float) else text(key)


def _encode_dict(value: dict[Any, Any]) -> Any:
    if all(isinstance(key, str) and not key.startswith("$") for key in value):
        return {key: encode(each) for key, each in value.items()}
    return {"$dict": [[encode(key), encode(each)] for key, each in value.items()]}


def _ordered(items: Any) -> list[Any]:
    return [encode(each) for each in sorted(items, key=text)]


_TAGS: Final = {tuple: "$tuple", set: "$set", frozenset: "$frozenset", bytes: "$bytes", complex: "$complex"}
_Part: TypeAlias = tuple[Callable[[Any], Any], Callable[[Any], Any]]
_PARTS: Final[dict[str, _Part]] = {
    "$tuple": (lambda value: [encode(each) for each in value], lambda data: tuple(map(decode, data))),
    "$set": (_ordered, lambda data: set(map(decode, data))),
    "$frozenset": (_ordered, lambda data: frozenset(map(decode, data))),
    "$bytes": (bytes.hex, bytes.fromhex),
    "$complex": (
        lambda value: [repr(value.real), repr(value.imag)],
        lambda data: complex(float(data[0]), float(data[1])),
    ),
    "$float": (repr, float),
    "$dict": (lambda value: value, lambda data: {decode(key): decode(each) for key, each in data}),
}


def _short(words: str) -> str:
    return words if len(words) <= 80 else words[:77] + "..."


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
        return text(literal_of(value))
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


def _complex_of(inner: Any) -> complex:
    return complex(*(float(literal_of(part)) for part in inner))


def _text_shown(inner: Any) -> str:
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
    "complex": _complex_of,
    "str": _text_shown,
    "bytes": _bytes,
    "list": _items,
    "tuple": lambda inner: tuple(_items(inner)),
    "set": lambda inner: set(_items(inner)),
    "frozenset": lambda inner: frozenset(_items(inner)),
    "dict": _pairs,
}
