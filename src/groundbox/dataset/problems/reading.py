"""Reads a file of problems, whichever format it has. Every line becomes a problem or a drop; none is passed over."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, TypeAlias, cast

from groundbox.dataset.drop import Drop
from groundbox.dataset.problem import Problem
from groundbox.dataset.problems import codeio, cruxeval, folder, humaneval, mbpp, plain, pyedu
from groundbox.dataset.problems.place import BadRow, Place
from groundbox.errors import InvalidArgument

Parse: TypeAlias = Callable[[Mapping[str, Any], Place], Iterator[Problem | Drop]]


class _Format(NamedTuple):
    keys: frozenset[str]
    parse: Parse


# The first whose keys a row has is its format, so the ones with more keys come first.
_MODULES: Final = (pyedu, codeio, humaneval, cruxeval, mbpp, plain)
_FORMATS: Final = {each.NAME: _Format(each.KEYS, each.parse) for each in _MODULES}
FORMATS: Final = (*_FORMATS, folder.NAME)


def read(path: Path, *, format: str | None = None, licence: str = "not stated") -> Iterator[Problem | Drop]:
    """The problems of a file or folder, in its order, with a drop for everything that gave none.

    Args:
        format: One of FORMATS; by default each line says by its keys which it is.

    Raises:
        InvalidArgument: There is nothing to be read at `path`.
    """
    if path.is_dir():
        return folder.read(path, licence=licence)
    if not path.is_file():
        raise InvalidArgument("problems", f"{path} is neither a file nor a folder")
    return _read_lines(path, format, licence)


def rows(path: Path) -> Iterator[tuple[int, Any]]:
    """The lines of a JSON Lines file, `.gz` or not, or the items of a `.json` list, numbered from 1.

    A line that is not JSON comes as a BadRow in place of its value.
    """
    with _open(path) as file:
        if path.name.removesuffix(".gz").endswith(".json"):
            yield from _items(file)
            return
        for number, line in enumerate(file, 1):
            if line.strip():
                yield number, _decoded(line)


def _read_lines(path: Path, format: str | None, licence: str) -> Iterator[Problem | Drop]:
    for number, row in rows(path):
        named = format or _format_of(row)
        place = Place(file=path.name, line=number, format=named or "unknown", licence=licence)
        try:
            yield from _parsed(row, named, place)
        except BadRow as error:
            yield place.bad(error.reason, str(error))


def _parsed(row: Any, format: str | None, place: Place) -> Iterator[Problem | Drop]:
    if isinstance(row, BadRow):
        raise row
    if not isinstance(row, Mapping):
        raise BadRow("bad-line", f"it is {type(row).__name__}, not an object")
    if format is None:
        raise BadRow("unknown-format", f"its keys are {', '.join(sorted(map(str, row))[:12])}")
    # A row is taken whole or not at all: what it gave before it turned out bad must not stay.
    yield from list(_FORMATS[format].parse(row, place))


def _format_of(row: Any) -> str | None:
    if not isinstance(row, Mapping):
        return None
    return next((name for name, each in _FORMATS.items() if each.keys <= row.keys()), None)


def _open(path: Path) -> IO[bytes]:
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.open(path, "rb"))
    return path.open("rb")


def _decoded(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        return BadRow("bad-line", f"not JSON: {error}")


def _items(file: IO[bytes]) -> Iterator[tuple[int, Any]]:
    found = _decoded(file.read())
    yield from enumerate(found if isinstance(found, list) else [found], 1)
