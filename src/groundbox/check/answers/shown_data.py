"""Reads an execution: its streams, its value and displays as tables, data and text, its files, its failure."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from groundbox.check.answers.cleaning import visible
from groundbox.check.answers.shown_text import read_text
from groundbox.check.answers.sources import NO_WORDS, Count, Group, Place, Shown, Sources, place_of
from groundbox.check.answers.wording import words
from groundbox.check.english import Number
from groundbox.execution import Artifact, Execution

TABLE: Final = "application/vnd.dataresource+json"
_MOST_NODES: Final = 50_000
_MOST_DEPTH: Final = 60
_TAG: Final = re.compile(r"<[^<>]*>")
_HIDDEN: Final = re.compile(r"<(style|script)\b[^<]*(?:<(?!/\1)[^<]*)*</\1", re.IGNORECASE)


def read_executions(executions: Sequence[Execution]) -> Sources:
    """Everything that the executions showed."""
    into = Sources()
    for position, execution in enumerate(executions):
        _read_execution(position, execution, into)
    return into


def _read_execution(position: int, execution: Execution, into: Sources) -> None:
    for part in ("stdout", "stderr"):
        read_text(visible(getattr(execution, part)).text, place_of(position, execution, part), into)
    if execution.value is not None:
        _read_bundle(execution.value, place_of(position, execution, "value"), into)
    for number, display in enumerate(execution.displays, 1):
        _read_bundle(display.data, place_of(position, execution, f"display {number}"), into)
    for artifact in execution.artifacts.values():
        _read_artifact(artifact, place_of(position, execution, "artifact", artifact.path), into)
    if execution.error is not None:
        _read_failure(execution, place_of(position, execution, "error"), into)
    _read_usage(execution, place_of(position, execution, "usage"), into)


def _read_bundle(bundle: Mapping[str, Any], place: Place, into: Sources) -> None:
    tables = [bundle[TABLE]] if isinstance(bundle.get(TABLE), dict) else []
    for table in tables:
        _read_table(table, place, into)
    for mime, content in bundle.items():
        if mime == TABLE:
            continue
        if isinstance(content, str):
            if mime.startswith("text/") or mime in ("image/svg+xml", "application/json"):
                text = visible(_without_tags(content) if mime in ("text/html", "image/svg+xml") else content).text
                if tables:
                    into.say(text, place)
                else:
                    read_text(text, place, into)
        else:
            _Walk(place, into).read(content)


def _without_tags(text: str) -> str:
    """The text of a page: one line per row, cells apart."""
    text = re.sub(r"<(?:/tr|/p|/div|/li|br|/h\d)\b", "\n<", _HIDDEN.sub(" <", text), flags=re.IGNORECASE)
    return html.unescape(_TAG.sub("  ", text))


def _read_table(table: Mapping[str, Any], place: Place, into: Sources) -> None:
    rows = [row for row in _list(table.get("data")) if isinstance(row, dict)]
    names = list(rows[0]) if rows else []
    index = set(map(str, _list(_dict(table.get("schema")).get("primaryKey"))))
    count = table.get("row_count")
    whole = not table.get("truncated")
    into.say(" | ".join(map(str, names)), place)
    beside = [frozenset().union(*(words(cell) for cell in row.values() if isinstance(cell, str))) for row in rows]
    for name in names:
        cells = [row.get(name) for row in rows]
        _read_column(str(name), cells, beside, place, into, whole=whole, weak=str(name) in index)
    total = _count(count, len(rows))
    into.counts.append(Count(total, "rows of the table", place, words("row record entry line result")))
    shown = _count(table.get("column_count"), len(names))
    into.counts.append(Count(shown, "columns of the table", place, words("column field")))


def _count(value: Any, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise


def _read_column(
    name: str, cells: Sequence[Any], beside: Sequence[frozenset[str]], place: Place, into: Sources,
    *, whole: bool, weak: bool,
) -> None:  # fmt: skip
    title = words(name.replace("_", " "))
    column = []
    for row, (cell, labels) in enumerate(zip(cells, beside, strict=True), 1):
        where = place._replace(where=f"row {row}, column {name}")
        number = _number(cell)
        if number is not None:
            column.append(Shown(number, str(cell), where, labels | title, weak=weak, row=labels))
            into.show(column[-1])
        elif isinstance(cell, str):
            read_text(visible(cell).text, where, into, labels | title)
    group_place = place._replace(where=f"column {name}")
    if len(column) > 1 and not weak:
        into.groups.append(Group(name, group_place, column, title, whole))
    texts = Counter(cell for cell in cells if isinstance(cell, str))
    if texts and whole:
        into.counts.append(Count(len(texts), f"distinct values of {name}", group_place, title))
        for text, many in list(texts.items())[:1000]:
            if many > 1:
                into.counts.append(Count(many, f"rows with {text!r}", group_place, words(text)))
    missing = sum(cell is None for cell in cells)
    if missing and whole:
        into.counts.append(
            Count(missing, f"missing values of {name}", group_place, title | words("missing null empty"))
        )


def _number(cell: Any) -> Number | None:
    if isinstance(cell, bool) or not isinstance(cell, (int, float)):
        return None
    if isinstance(cell, float) and cell - cell != 0:
        return None
    value = Decimal(repr(cell) if isinstance(cell, float) else cell)
    exponent = value.as_tuple().exponent
    return Number(value, Decimal(1).scaleb(min(0, exponent if isinstance(exponent, int) else 0)))


class _Walk:
    """Numbers and texts of nested data, with the path to each."""

    def __init__(self, place: Place, into: Sources, *, alike: bool = True) -> None:
        """`alike`: whether the numbers of one object may be added."""
        self._place, self._into, self._left, self._alike = place, into, _MOST_NODES, alike

    def read(self, data: Any, path: str = "", labels: frozenset[str] = NO_WORDS, depth: int = 0) -> Shown | None:
        """Take what is in `data`; the number, if it is one."""
        self._left -= 1
        if self._left < 0 or depth > _MOST_DEPTH:
            self._into.drop("values shown", 1)
            return None
        where = self._place._replace(where=path)
        number = _number(data)
        if number is not None:
            shown = Shown(number, str(data), where, labels)
            self._into.show(shown)
            return shown
        if isinstance(data, str):
            read_text(visible(data).text, where, self._into, labels)
        elif isinstance(data, (list, dict)):
            self._items(data, path, labels, depth)
        return None

    def _items(self, data: Any, path: str, labels: frozenset[str], depth: int) -> None:
        found = []
        for key, item in _pairs(data):
            name = str(key)
            if isinstance(data, dict):
                self._into.say(name, self._place._replace(where=path))
            below = labels | (words(name.replace("_", " ")) if isinstance(key, str) else NO_WORDS)
            step = f"{path}.{name}" if isinstance(key, str) else f"{path}[{name}]"
            shown = self.read(item, step.lstrip("."), below, depth + 1)
            if shown is not None:
                found.append(shown)
        where = self._place._replace(where=path)
        if len(found) > 1 and self._alike:
            self._into.groups.append(Group(path or "the values", where, found, labels))
        if isinstance(data, list) and len(data) > 1:
            self._into.counts.append(Count(len(data), f"items of {path or 'the list'}", where, labels))


def _pairs(data: Any) -> Iterator[tuple[Any, Any]]:
    """Keys and items; of the tagged forms of data, what they hold."""
    if isinstance(data, dict):
        tagged = data.get("dict")
        if isinstance(tagged, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in tagged):
            yield from ((pair[0] if isinstance(pair[0], (str, int)) else "key", pair[1]) for pair in tagged)
            return
        yield from data.items()
        return
    yield from enumerate(data)


def _read_artifact(artifact: Artifact, place: Place, into: Sources) -> None:
    into.names.append((artifact.path, place))
    into.say(f"{artifact.path} | {artifact.media_type} | {artifact.sha256} | {artifact.about}", place)
    labels = words(artifact.path.replace("_", " ").replace("/", " ").replace(".", " "))
    size = Shown(
        Number(Decimal(artifact.size_bytes), Decimal(1)), str(artifact.size_bytes), place, labels | words("byte size")
    )
    into.show(size)
    _Walk(place, into, alike=False).read(dict(artifact.facts), artifact.path, labels)


def _read_failure(execution: Execution, place: Place, into: Sources) -> None:
    error = execution.error
    assert error is not None
    read_text(visible(f"{error.type}: {error.message}").text, place, into)
    for name, number in (("line", error.line), ("column", error.column)):
        if number is not None:
            into.show(Shown(Number(Decimal(number), Decimal(1)), str(number), place, words(name) | {"error"}))
    for text in (error.traceback, *error.hints, *(f"{name} = {value}" for name, value in error.locals.items())):
        read_text(visible(text).text, place, into)


def _read_usage(execution: Execution, place: Place, into: Sources) -> None:
    usage = execution.usage
    for name, value in (("wall", usage.wall_s), ("cpu", usage.cpu_s), ("peak memory", usage.peak_memory_bytes)):
        number = _number(value)
        if number is not None:
            into.show(Shown(number, str(value), place._replace(where=name), words(f"{name} usage"), weak=True))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
