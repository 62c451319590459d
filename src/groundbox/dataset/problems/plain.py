"""Our own lines: `source`, `entry` (none: a script), `statement`, `cases` of `args`, `kwargs`, `stdin`, `expected`.

A line without cases may have a `generator` (dataset/problem.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from groundbox.dataset.problem import Case, Drop, Problem, case_from_json
from groundbox.dataset.problems.rows import BadRow, Place, list_of, text_of
from groundbox.values import literals

NAME: Final = "plain"
KEYS: Final = frozenset({"source"})


def parse(row: Mapping[str, Any], place: Place) -> Iterator[Problem | Drop]:
    """The problem of a row, and a drop for every case that cannot be read."""
    source = text_of(row, "source", least=1)
    entry = None if row.get("entry") is None else text_of(row, "entry", least=1)
    name = str(row.get("id") or place.item)
    cases: list[Case] = []
    # A script without cases is run once with empty input; a function without cases gets made ones.
    for number, each in enumerate(list_of(row, "cases") if "cases" in row else [] if entry else [{}]):
        try:
            cases.append(_case(number, each, entry=entry))
        except BadRow as error:
            yield place.bad_case(name, number, error.reason, str(error))
    details = {key: row[key] for key in ("licence", "license", "origin") if key in row}
    yield Problem(
        id=name,
        source=source,
        statement=text_of(row, "statement") if "statement" in row else "",
        entry=entry,
        cases=tuple(cases),
        provenance=place.provenance(details),
        generator=None if row.get("generator") is None else text_of(row, "generator", least=1),
    )


def _case(number: int, data: Any, *, entry: str | None) -> Case:
    if not isinstance(data, Mapping):
        raise BadRow("bad-case", f"it is {type(data).__name__}, not an object")
    if not isinstance(data.get("args", []), list) or not isinstance(data.get("kwargs", {}), Mapping):
        raise BadRow("bad-case", "args must be a list and kwargs an object")
    if not isinstance(data.get("stdin"), str | None):
        raise BadRow("bad-case", "stdin must be a text")
    if entry is None and (data.get("args") or data.get("kwargs")):
        raise BadRow("bad-case", "a script takes no arguments; name its entry")
    try:
        return case_from_json({**data, "number": number, "origin": "given"})
    except literals.NotALiteral as error:
        raise BadRow("bad-case", str(error)) from None
