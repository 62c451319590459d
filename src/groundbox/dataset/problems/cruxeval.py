"""CRUXEval: a function `f`, the text of its arguments and the text of its result."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any, Final

from groundbox.dataset.problem import ABSENT, Case, Drop, Problem
from groundbox.dataset.problems import asserts
from groundbox.dataset.problems.rows import Place, text_of
from groundbox.values import literals
from groundbox.values.parsing import expression_of

NAME: Final = "cruxeval"
KEYS: Final = frozenset({"code", "input", "output"})
_FUNCTION: Final = "f"


def parse(row: Mapping[str, Any], place: Place) -> Iterator[Problem | Drop]:
    """The problem of a row; a row whose arguments are no literals is a drop, because inputs are data."""
    name = str(row.get("id") or place.item)
    source = text_of(row, "code", least=1)
    try:
        args, kwargs = _arguments(text_of(row, "input"))
    except literals.NotALiteral as error:
        yield place.bad_case(name, 0, "input-not-a-literal", str(error))
        return
    yield Problem(
        id=name,
        source=source,
        statement="",
        entry=_FUNCTION,
        cases=(Case(number=0, args=args, kwargs=kwargs, expected=_expected(row.get("output"))),),
        provenance=place.provenance(),
    )


def _arguments(text: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    try:
        # Parsed as the call that it stands in, so that names of arguments are read as Python reads them; the new line
        # ends a comment in the text.
        call = expression_of(f"{_FUNCTION}({text}\n)")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise literals.NotALiteral(f"{text!r}: {error}") from None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise literals.NotALiteral(f"{text!r} is not a list of arguments")
    return asserts.arguments(call)


def _expected(text: Any) -> Any:
    if not isinstance(text, str):
        return ABSENT
    try:
        return literals.parse(text)
    except literals.NotALiteral:
        return ABSENT
