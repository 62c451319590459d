"""Lines of CodeI/O: a description, a program with its main function, and inputs with recorded outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from groundbox.dataset.problem import ABSENT, Case, Drop, Problem
from groundbox.dataset.problems.rows import BadRow, Place, list_of, text_of

NAME: Final = "pyedu"
KEYS: Final = frozenset({"refcode", "ios"})


def parse(row: Mapping[str, Any], place: Place) -> Iterator[Problem | Drop]:
    """The problem of a row, and a drop for every case that cannot be read."""
    source = text_of(row, "refcode", least=1)
    ios = list_of(row, "ios")
    meta = row.get("meta")
    details = meta if isinstance(meta, Mapping) else {}
    name = str(row.get("id") or place.item)
    cases: list[Case] = []
    for number, each in enumerate(ios):
        try:
            cases.append(_case(number, each))
        except BadRow as error:
            yield place.bad_case(name, number, error.reason, str(error))
    yield Problem(
        id=name,
        source=source,
        statement=_statement(row),
        # Programs of CodeI/O are rewritten so that their main function has this name.
        entry=text_of(row, "funcname", least=1) if "funcname" in row else "main_solution",
        cases=tuple(cases),
        provenance=place.provenance({**details, **{k: row[k] for k in ("licence", "license") if k in row}}),
    )


def _case(number: int, io: Any) -> Case:
    if not isinstance(io, Mapping) or "input" not in io:
        raise BadRow("bad-case", "it has no input")
    given = io["input"]
    if not isinstance(given, Mapping | list):
        raise BadRow("bad-case", f"the input is {type(given).__name__}, not names with values")
    return Case(
        number=number,
        args=tuple(given) if isinstance(given, list) else (),
        kwargs=dict(given) if isinstance(given, Mapping) else {},
        expected=io.get("output", ABSENT),
    )


def _statement(row: Mapping[str, Any]) -> str:
    parts = [row.get("problem_description"), row.get("io_requirements")]
    return "\n\n".join(part.strip() for part in parts if isinstance(part, str) and part.strip())
