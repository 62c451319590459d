"""What a statement failed with, told for the model that wrote it."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from ..python.failure import MESSAGE_CHARS, message_of
from .hints import hints_for
from .statement import Statement, unquoted

_PLACE: Final = re.compile(r"\n+LINE (\d+): ([^\n]*)\n( *)\^[^\n]*")
_PREFIX: Final = re.compile(r"^[A-Z][A-Za-z ]* Error: ")
_ADVICE: Final = re.compile(
    r"\n(?:Did you mean \"|Candidate bindings|Database is launched|Please try installing).*", re.DOTALL
)
_NAMES: Final = {"OutOfMemoryException": "MemoryError"}
_CULPRIT: Final = re.compile(
    r'near "(.+?)": syntax error|no such (?:table|column|function): (\S+)|ambiguous column name: (\S+)'
)


class Place(NamedTuple):
    """Where in the source, both counted from 1; the column may be unknown."""

    line: int
    column: int | None


def failure_of(error: BaseException, source: str, engine: Any, statement: Statement | None) -> dict[str, Any]:
    """The failure as JSON-able values, with the keys that Python cells use."""
    text = message_of(error).strip()
    place = _place(text, statement)
    message = _PREFIX.sub("", _PLACE.sub("", text)).strip()
    hints = [] if engine is None or statement is None else hints_for(text, engine, statement)
    if hints:
        message = _ADVICE.sub("", message)
    kind = _NAMES.get(type(error).__name__, type(error).__name__)
    return {
        "type": kind,
        "message": message if len(message) <= MESSAGE_CHARS else f"{message[:MESSAGE_CHARS]}…",
        "line": place.line if place else None,
        "traceback": _told(place, source, f"{kind}: {message}"),
        "locals": {},
        "hints": hints,
    }


def _place(text: str, statement: Statement | None) -> Place | None:
    before = statement.lines_before if statement else 0
    found = _PLACE.search(text)
    if found is not None:
        column = len(found[3]) - len(f"LINE {found[1]}: ") + 1
        return Place(int(found[1]) + before, None if found[2].startswith("...") else column)
    culprit = _CULPRIT.search(text)
    if culprit is None or statement is None:
        return None
    return _searched(next(filter(None, culprit.groups())), statement)


def _searched(culprit: str, statement: Statement) -> Place | None:
    """The place of what an engine only names, if it stands in one place."""
    name = re.escape(unquoted(culprit).rpartition(".")[2])
    places = [match.start() for match in re.finditer(rf"(?<!\w){name}(?!\w)", statement.text)]
    if len(places) != 1:
        return None
    above = statement.text[: places[0]]
    return Place(statement.lines_before + above.count("\n") + 1, places[0] - (above.rfind("\n") + 1) + 1)


def _told(place: Place | None, source: str, message: str) -> str:
    if place is None:
        return message
    lines = source.split("\n")
    line = lines[place.line - 1] if place.line <= len(lines) else ""
    where = f"line {place.line}" + (f", column {place.column}" if place.column else "")
    mark = "    " + " " * (place.column - 1) + "^\n" if place.column else ""
    return f"{where}\n    {line[:400]}\n{mark}{message}"
