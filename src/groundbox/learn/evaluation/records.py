"""Lines of JSON: problems, samples of models, recorded programs."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from groundbox.errors import InvalidArgument

MOST_LINE_BYTES: Final = 8 << 20


def rows(argument: str, path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The objects of a file of JSON lines, plain or gzip, each with its place `FILE:LINE`.

    Raises:
        InvalidArgument: The file cannot be read, or a line is no object.
    """
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(MOST_LINE_BYTES + 1), b""), 1):
                if len(line) > MOST_LINE_BYTES:
                    raise InvalidArgument(argument, f"{path}:{number} has over {MOST_LINE_BYTES} bytes")
                if line.strip():
                    yield f"{path}:{number}", _object(argument, f"{path}:{number}", line)
    except (OSError, EOFError) as error:
        raise InvalidArgument(argument, f"{path} cannot be read: {error}") from None


def _object(argument: str, place: str, line: bytes) -> Mapping[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(argument, f"{place} is no JSON: {str(error)[:100]}") from None
    if not isinstance(row, dict):
        raise InvalidArgument(argument, f"{place} is a {type(row).__name__}; each line has to be an object")
    return row


def text(argument: str, place: str, row: Mapping[str, Any], key: str) -> str:
    """The text under a key.

    Raises:
        InvalidArgument: There is none.
    """
    if not isinstance(row.get(key), str):
        raise InvalidArgument(argument, f"{place} has no text under {key!r}; it has {', '.join(map(repr, row))}")
    found: str = row[key]
    return found
