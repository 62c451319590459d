"""Values of the program as JSON with tags, and back; groundbox/sandbox/bridge/values.py tells the tags."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import enum
import hashlib
import math
import os
import sys
from collections.abc import Mapping, Set
from typing import Any

MOST_DEPTH = 28
_SMALL = 1 << 63
_MOST_BITS = 13_000
_CHUNK = 1 << 20


class Unfit(TypeError):
    """A value that cannot be given to a tool."""


class File:
    """A file in the working directory, given to a tool by its bytes: `tools.ocr(tools.File("scan.png"))`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)

    def __repr__(self) -> str:
        return f"File({self.path!r})"


def to_wire(value: Any, depth: int = 0) -> Any:
    """The tagged form.

    Raises:
        Unfit: It is no data, or nested too deeply.
    """
    if depth > MOST_DEPTH:
        raise Unfit(f"a value for a tool can be nested {MOST_DEPTH} deep")
    if value is None or value is True or value is False:
        return value
    kind = type(value)
    if kind is str:
        return _text(value)
    if kind is int:
        return _integer(value)
    if kind is float:
        return value if math.isfinite(value) else {"$float": str(value)}
    if isinstance(value, Mapping):
        return _mapping(value, depth)
    if isinstance(value, list | tuple | Set):
        return [to_wire(item, depth + 1) for item in value]
    return _other(value, depth)


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Unfit("a text for a tool holds half of a surrogate pair, which is no text; give bytes instead") from None
    return value


def _integer(value: int) -> Any:
    if -_SMALL <= value < _SMALL:
        return value
    if value.bit_length() > _MOST_BITS:
        raise Unfit("an integer for a tool has too many digits")
    return {"$int": str(value)}


def _mapping(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    told = {}
    for name, item in value.items():
        if not isinstance(name, str):
            raise Unfit(f"a mapping for a tool has the key {name!r}; keys have to be texts")
        told[_text(str(name))] = to_wire(item, depth + 1)
    return {"$object": told} if len(told) == 1 and next(iter(told)).startswith("$") else told


def _other(value: Any, depth: int) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, decimal.Decimal):
        return {"$decimal": str(value)}
    for kind in (datetime.datetime, datetime.date, datetime.time):
        if isinstance(value, kind):
            return {f"${kind.__name__}": value.isoformat()}
    if isinstance(value, File):
        return _file(value)
    if isinstance(value, enum.Enum):
        return to_wire(value.value, depth)
    if isinstance(value, str | int | float):  # of a class of its own, such as numpy.float64
        base = str if isinstance(value, str) else int if isinstance(value, int) else float
        return to_wire(base(value), depth)
    if isinstance(value, os.PathLike):
        return to_wire(os.fspath(value), depth)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _mapping({field.name: getattr(value, field.name) for field in dataclasses.fields(value)}, depth)
    return to_wire(_as_data(value), depth + 1)


def _as_data(value: Any) -> Any:
    """What pandas and numpy know to tell as lists; anything else is refused."""
    pandas, numpy = sys.modules.get("pandas"), sys.modules.get("numpy")
    if pandas is not None and isinstance(value, pandas.DataFrame):
        return value.to_dict("records")
    if pandas is not None and isinstance(value, pandas.Series | pandas.Index):
        return value.tolist()
    if numpy is not None and isinstance(value, numpy.ndarray | numpy.generic):
        data = value.tolist()
        if data is not value:
            return data
    raise Unfit(f"a {type(value).__name__} cannot be given to a tool; give plain data, or tools.File(path)")


def _file(value: File) -> dict[str, Any]:
    digest, size = hashlib.sha256(), 0
    with open(value.path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    path = os.path.relpath(os.path.realpath(value.path), os.path.realpath(workdir()))
    if path.startswith(".."):
        raise Unfit(f"{value.path} lies outside of the working directory, where tools cannot look")
    return {"$file": {"path": path, "size_bytes": size, "sha256": digest.hexdigest()}}


def kept(data: bytes, name: str) -> dict[str, Any]:
    """Write what is too large for a message into the workdir, and say where it is."""
    path = os.path.join(workdir(), name)
    with open(path, "xb") as file:
        file.write(data)
    return {"path": name, "size_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def workdir() -> str:
    """Where the sandbox's files are; wherever the program has gone meanwhile."""
    return _WORKDIR[0]


_WORKDIR = [os.curdir]


def remember_workdir(path: str) -> None:
    """Told by the worker."""
    _WORKDIR[0] = path


def from_wire(value: Any) -> Any:
    """The value that a tagged one stands for."""
    if isinstance(value, list):
        return [from_wire(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((name, content),) = value.items()
        if name == "$object":
            return {key: from_wire(item) for key, item in content.items()}
        if name in _MAKERS:
            return _MAKERS[name](content)
    return {name: from_wire(item) for name, item in value.items()}


_MAKERS: dict[str, Any] = {
    "$bytes": base64.b64decode,
    "$decimal": decimal.Decimal,
    "$datetime": datetime.datetime.fromisoformat,
    "$date": datetime.date.fromisoformat,
    "$time": datetime.time.fromisoformat,
    "$int": int,
    "$float": float,
}
