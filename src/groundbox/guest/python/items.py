"""Hints for items that are not there: keys, columns, indexes."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from .fault import LISTED, Fault, either, listing, nearest

_MARK: Final = "\ufeff"
_SEPARATED: Final = re.compile(r"[;\t|,:]")


class _Keys(NamedTuple):
    kind: str
    keys: Iterable[Any]
    size: int


def missing_key(fault: Fault) -> list[str]:
    """KeyError: near keys, and all of them when they are few."""
    wanted = _wanted(fault.exc)
    for text, value in fault.containers():
        keys = _keys_of(value, by_row=fault.line is not None and f"{text}.loc[" in fault.line.text)
        if keys is None or any(_has(value, key) for key in wanted[:1]):
            continue
        hints = []
        for key in wanted[:3]:
            close = nearest(key, keys.keys) if isinstance(key, str) else []
            if close:
                meant = either([repr(name) for name in close])
                hints.append(f"`{text}` has no {keys.kind[:-1]} {key!r}; did you mean {meant}?")
        if keys.size <= LISTED or not hints:
            hints.append(
                f"The {keys.kind} of `{text}` are: {listing(keys.keys)}." if keys.size else f"`{text}` is empty."
            )
        return _read_wrong(keys, wanted) + hints + _number_as_text(text, value, wanted)
    return []


def _read_wrong(keys: _Keys, wanted: list[Any]) -> list[str]:
    """The key is there, behind a byte order mark or among others that were not taken apart."""
    first = next(iter(keys.keys), None)
    if not isinstance(first, str) or not wanted or not isinstance(wanted[0], str):
        return []
    if first.startswith(_MARK):
        return ["The file begins with a byte order mark, which is read as a part of the name: encoding='utf-8-sig'."]
    if keys.size == 1 and (match := _SEPARATED.search(first)) and wanted[0] in _SEPARATED.split(first):
        argument = "sep" if keys.kind == "columns" else "delimiter"
        return [f"All columns were read as one: read with {argument}={match[0]!r}, which is what separates them."]
    return []


def index_too_large(fault: Fault) -> list[str]:
    """IndexError: how long the sequences on the line are."""
    if "pop from" in fault.message:
        return ["The list is empty at this point."]
    for text, value in fault.containers():
        length = _length(value)
        if length is None:
            continue
        if length == 0:
            return [f"`{text}` is empty."]
        return [f"`{text}` has {length} item{'s' if length > 1 else ''}: indexes go from 0 to {length - 1}."]
    return []


def _wanted(exc: BaseException) -> list[Any]:
    """The keys that were missing. pandas puts several into a sentence."""
    key = exc.args[0] if exc.args else None
    if isinstance(key, str) and re.search(r"not in index|are in the \[|not found in axis|does not exist", key):
        return re.findall(r"'([^']+)'", key)
    found = re.match(r"Column not found: (.+)", key) if isinstance(key, str) else None
    return [found[1]] if found else [key]


def _keys_of(value: Any, *, by_row: bool) -> _Keys | None:
    pandas: Any = sys.modules.get("pandas")
    if pandas is not None:
        if isinstance(value, pandas.Series) or (by_row and isinstance(value, pandas.DataFrame)):
            return _Keys("labels", list(value.index[: LISTED + 1]), len(value.index))
        if isinstance(value, pandas.DataFrame):
            return _Keys("columns", list(value.columns), len(value.columns))
        frame = getattr(value, "obj", None)
        if type(value).__module__.partition(".")[0] == "pandas" and isinstance(frame, pandas.DataFrame):
            return _Keys("columns", list(frame.columns), len(frame.columns))
    if isinstance(value, Mapping):
        return _Keys("keys", list(value), len(value))
    return None


def _has(value: Any, key: Any) -> bool:
    try:
        return key in value
    except TypeError:
        return False


def _number_as_text(text: str, value: Any, wanted: list[Any]) -> list[str]:
    """The key is there, but as the other of text and number."""
    key = wanted[0] if wanted else None
    if isinstance(key, str) and key.lstrip("-").isdigit() and _has(value, int(key)):
        return [f"`{text}` has the number {key}, not the text {key!r}."]
    if isinstance(key, int) and _has(value, str(key)):
        return [f"`{text}` has the text '{key}', not the number."]
    return []


def _length(value: Any) -> int | None:
    if isinstance(value, (list, tuple, str, bytes, range)):
        return len(value)
    if type(value).__module__.partition(".")[0] in ("numpy", "pandas", "collections"):
        return len(value) if hasattr(type(value), "__len__") and not isinstance(value, Mapping) else None
    return None
