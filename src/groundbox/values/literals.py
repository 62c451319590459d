"""Literals: values that Python can write and read back, and what a run gave as such a value.

Inputs are data. A value travels as JSON in which atoms, lists and dicts with text keys stand for themselves;
everything that JSON has no word for is an object with one key that begins with `$`.
"""

from __future__ import annotations

import ast
import hashlib
import json
import math
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from groundbox.values.codec import NotData
from groundbox.values.codec import decode as decode_result
from groundbox.values.parsing import expression_of

Literal: TypeAlias = Any
"""None, bool, int, float, complex, str, bytes, and lists, tuples, sets, frozensets and dicts of these."""

MOST_SHOWN: Final = 120
"""Characters of a value in a message."""


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
        TypeError: A key, or an item of a set, has no hash.
        RecursionError: It is nested too deeply.
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
    words = _source(node).replace(" ", "")
    try:
        return complex(words) if words.endswith("j") else of_node(node)
    except ValueError:
        return of_node(node)


def of_node(node: ast.expr) -> Literal:
    """The value of a literal in a syntax tree, or NotALiteral; also for integers of more digits than Python writes."""
    try:
        value = ast.literal_eval(node)
        repr(value)  # hexadecimal digits make integers that it reads and does not write
    except (ValueError, TypeError, OverflowError, SyntaxError, MemoryError, RecursionError):
        raise NotALiteral(f"{_short(_source(node))} is not a literal") from None
    return value


def _source(node: ast.expr) -> str:
    try:
        return ast.unparse(node)
    except ValueError:
        return "an integer of more digits than Python writes"


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
    if not isinstance(tag, str):
        raise NotALiteral(f"{shown(tag)} is no key in JSON")
    if not tag.startswith("$"):
        return {key: decode(each) for key, each in data.items()}
    if len(data) != 1 or tag not in _PARTS:
        raise NotALiteral(f"{_short(json.dumps(data))} is not the JSON form of a value")
    try:
        return _PARTS[tag][1](data[tag])
    except (TypeError, ValueError, LookupError, OverflowError) as error:
        raise NotALiteral(f"{tag}: {error}") from None


def text(value: Literal, *, sort_dicts: bool = False) -> str:
    """How Python writes the value; sets in the order of their items' texts, so that it is the same in every process."""
    if isinstance(value, list):
        return "[" + ", ".join(_texts(value, sort_dicts)) + "]"
    if isinstance(value, tuple):
        return "(" + ", ".join(_texts(value, sort_dicts)) + (",)" if len(value) == 1 else ")")
    if isinstance(value, dict):
        pairs = [
            f"{text(key, sort_dicts=sort_dicts)}: {text(each, sort_dicts=sort_dicts)}" for key, each in value.items()
        ]
        return "{" + ", ".join(sorted(pairs) if sort_dicts else pairs) + "}"
    if isinstance(value, deque):  # of a result; literals have none
        bound = "" if value.maxlen is None else f", maxlen={value.maxlen}"
        return "deque([" + ", ".join(_texts(value, sort_dicts)) + f"]{bound})"
    if isinstance(value, set | frozenset):
        items = "{" + ", ".join(sorted(_texts(value, sort_dicts))) + "}" if value else ""
        name = type(value).__name__
        return items if items and name == "set" else f"{name}({items})"
    return repr(value)


def _texts(values: Iterable[Literal], sort_dicts: bool) -> list[str]:
    return [text(each, sort_dicts=sort_dicts) for each in values]


def digest(value: Literal) -> str:
    """Names a value: the same in every process; the order of a dict counts, because programs see it."""
    form = json.dumps(encode(value), ensure_ascii=True)
    return hashlib.sha256(form.encode()).hexdigest()


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


def text_of(value: Any) -> str:
    """How Python writes what a run gave, told as a result, or "" when it cannot be written."""
    try:
        return text(decode_result(value, literals=True))
    except NotData:
        return ""


def shown(value: Any) -> str:
    """A value as a message shows it: one that is long by its size alone."""
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python writes
        return "a number of thousands of digits"
    if len(text) <= MOST_SHOWN:
        return text
    size = f" with {len(value)} parts" if hasattr(value, "__len__") else ""
    return f"a longer {type(value).__name__}{size}"
