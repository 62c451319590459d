"""Reads executions: numbers, dates, columns and words of what a program printed, gave and left."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

from groundbox.check.answers.containers import containers
from groundbox.check.answers.dates import dates
from groundbox.check.answers.sources import NO_WORDS, Count, Group, Place, Shown, Sources, place_of
from groundbox.check.answers.text import blank, visible, words
from groundbox.check.answers.unspaced import is_unspaced
from groundbox.execution import Artifact, Execution, Failure
from groundbox.values.numbers import NUMERAL, Number, numerals

_UNIT_NAMES: Final = """
k K M B s ms us µs ns min h d x b kb KB MB GB TB KiB MiB GiB kB g kg mg km cm mm m C F Hz j
"""
MOST_LINE: Final = 2_000_000
_AFTER: Final = re.compile(r"[A-Za-zµ_]\w{0,7}")
"""As much as tells a unit from a name; all of it, behind each digit of `1e1e1e…`, would be read again and again."""
_UNITS: Final = frozenset(_UNIT_NAMES.split())
_SCALES: Final = {"k": 3, "K": 3, "M": 6, "B": 9}
# Lines between the head and the body of a printed table; they end no block.
_RULE: Final = re.compile(r"[\s\-=+|:_─═┼│]*\Z")
# Behind `revenue: ` the words at the number are its own; the leading words of the line would name another one.
_PAIR: Final = re.compile(r"[:=|]\s*['\"$€£(]{0,3}\Z")
_LISTING: Final = re.compile(r"[\[({]")


class _Token(NamedTuple):
    number: Number
    start: int
    end: int
    percent: bool


class _Line(NamedTuple):
    number: int
    text: str
    tokens: Sequence[_Token]


def read_text(text: str, place: Place, into: Sources, labels: frozenset[str] = NO_WORDS) -> None:
    """Takes the numbers, dates, columns and words of `text`."""
    into.say(text, place)
    block: list[_Line] = []
    header = ""
    for number, line in enumerate(text.splitlines(), 1):
        if _RULE.match(line) and (line.strip() or not block):
            continue
        read = _Line(
            number, line[:MOST_LINE], list(_tokens(line[:MOST_LINE], place._replace(where=f"line {number}"), into))
        )
        if len(line) > MOST_LINE:
            into.drop("characters shown", len(line) - MOST_LINE)
        # Lines with as many numbers each are taken for one table; another count begins another one.
        if block and len(block[-1].tokens) != len(read.tokens):
            _take(block, header, place, into, labels)
            block = []
        if read.tokens:
            block.append(read)
        else:
            header = line
    _take(block, header, place, into, labels)
    for container in containers(text):
        where = place._replace(where=f"line {container.line}") if container.line else place
        into.counts.append(Count(container.size, "items listed", where, container.labels | labels))


def _tokens(line: str, place: Place, into: Sources) -> Iterator[_Token]:
    found = list(dates(line))
    for date in found:
        into.date(date, place)
    line = blank(line, ((date.start, date.end) for date in found))
    for match in NUMERAL.finditer(line):
        before = line[max(0, match.start() - 2) : match.start()]
        after = _AFTER.match(line, match.end())
        if _is_name(before) or (after and after[0] not in _UNITS):
            continue
        # `1.2M` as pandas and plots print it.
        scale = _SCALES.get(after[0], 0) if after else 0
        # In `3-5` and `x)-5` the sign is an operator or a hyphen.
        sign = -1 if before[-1:] in ("-", "−") and not (before[:-1].isalnum() or before[:-1] in ")]") else 1
        percent = line[match.end() : match.end() + 1] == "%" or line[match.end() : match.end() + 2] == " %"
        factor = Decimal(sign).scaleb(scale)
        # `1,234` is one number, `1,23,4` are the fields of a line of CSV.
        for one in numerals(match[0], match.start()):
            if one.readings:
                number = one.readings[0]
                yield _Token(Number(number.value * factor, number.quantum * abs(factor)), one.start, one.end, percent)


def _is_name(before: str) -> bool:
    last = before[-1:]
    return (
        (last.isalpha() and not is_unspaced(last))
        or (last == "_" and before[:-1].isalnum())
        or (last == "-" and before[:-1].isalpha())
    )


def _take(block: list[_Line], header: str, place: Place, into: Sources, labels: frozenset[str]) -> None:
    """Takes the lines of a block that have as many numbers each."""
    if not block:
        return
    width = len(block[0].tokens)
    names = _names(header, width)
    weak = _is_index(block)
    columns: list[list[Shown]] = [[] for _ in range(width)]
    for line in block:
        for position, shown in enumerate(_line(line, names, labels, place)):
            shown = shown._replace(weak=weak and position == 0)
            into.show(shown)
            columns[position].append(shown)
        # `[3, 1, 2]` on a line is a group across, beside the columns that lines form.
        if width > 1 and _LISTING.search(line.text):
            shown_here = [one[-1] for one in columns]
            into.groups.append(Group("the values", shown_here[0].place, shown_here, words(line.text)))
            into.counts.append(Count(width, "values listed", shown_here[0].place, words(line.text)))
    if len(block) > 1:
        where = place._replace(where=f"lines {block[0].number} to {block[-1].number}")
        title = words(header) | labels
        into.counts.append(Count(len(block), "lines with values", where, title))
        for name, column in zip(names, columns, strict=True):
            if not column[0].weak:
                into.groups.append(Group(name or "the values", where, column, words(name) | title))


def _line(line: _Line, names: Sequence[str], labels: frozenset[str], place: Place) -> Iterator[Shown]:
    where = place._replace(where=f"line {line.number}")
    leading, at = words(line.text[: line.tokens[0].start]), 0
    for token, name in zip(line.tokens, names, strict=True):
        between = line.text[at : token.start]
        row = words(between[-200:])
        # `North 120 95`: no words between the numbers, so that both are North's.
        if not (_PAIR.search(between) and row):
            row |= leading
        row |= words(line.text[token.end : token.end + 24].partition(",")[0])
        beside = row | words(name) | labels
        yield Shown(token.number, line.text[token.start : token.end], where, beside, token.percent, row=row)
        at = token.end


def _names(header: str, width: int) -> list[str]:
    """The last words of the line above as names of the columns."""
    # Headings of two words (`unit price`) are told apart by two blanks or a sign; where that gives too few, by each
    # blank.
    parts = [part for part in re.split(r"\s{2,}|\t|[|,;]", header.strip()) if part.strip()]
    if len(parts) < width:
        parts = header.split()
    return parts[-width:] if len(parts) >= width else [""] * width


def _is_index(block: list[_Line]) -> bool:
    """Tell whether the lines begin with 0, 1, 2 … and go on."""
    # pandas counts from 0, SQL's clients from 1; something else has to follow, or these would be the data.
    if len(block) < 2 or block[0].tokens[0].number.value not in (0, 1):
        return False
    first = block[0].tokens[0].number.value
    return all(
        line.tokens[0].number.value == first + position
        and not line.text[: line.tokens[0].start].strip(" |#")
        and line.text[line.tokens[0].end :].strip()
        for position, line in enumerate(block)
    )


TABLE: Final = "application/vnd.dataresource+json"
_MOST_NODES: Final = 50_000
_MOST_DEPTH: Final = 60
_TAG: Final = re.compile(r"<[^<>]*>")
# Style sheets and scripts hold many numbers that nobody is shown. Unrolled, so that openings without an end cost no
# more than their length.
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
        _read_failure(execution.error, place_of(position, execution, "error"), into)
    _read_usage(execution, place_of(position, execution, "usage"), into)


def _read_bundle(bundle: Mapping[str, Any], place: Place, into: Sources) -> None:
    tables = [bundle[TABLE]] if isinstance(bundle.get(TABLE), dict) else []
    for table in tables:
        _read_table(table, place, into)
    for mime, content in bundle.items():
        if mime == TABLE:
            continue
        if isinstance(content, str):
            # An image in base64 is text, too, and shows no letter of itself.
            if mime.startswith("text/") or mime in ("image/svg+xml", "application/json"):
                text = visible(_without_tags(content) if mime in ("text/html", "image/svg+xml") else content).text
                # The table has each cell with its column; its HTML would show all numbers once more, without these
                # words.
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
    # The protocol says which columns are the index; nothing there is a value.
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
    # NaN and infinity: the difference of both with themselves is NaN.
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
        if len(data) > 1:
            self._into.counts.append(Count(len(data), f"items of {path or 'the value'}", where, labels))


def _pairs(data: Any) -> Iterator[tuple[Any, Any]]:
    """Keys and items; of the tagged forms of data, what they hold."""
    if isinstance(data, dict):
        # The tagged form of `groundbox.trace.record.value`, in which a dict whose keys are no texts is a list of pairs.
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
    # Width and height of an image are no two of a kind: their sum is nothing.
    _Walk(place, into, alike=False).read(dict(artifact.facts), artifact.path, labels)


def _read_failure(error: Failure, place: Place, into: Sources) -> None:
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
            # Weak: an answer may tell how long it took, but 3 seconds support no 3 rows.
            into.show(Shown(number, str(value), place._replace(where=name), words(f"{name} usage"), weak=True))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
