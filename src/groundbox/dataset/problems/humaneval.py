"""HumanEval: the beginning of a function, its solution, and a function of asserts about `candidate`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any, Final

from groundbox.dataset.problem import Case, Drop, Problem
from groundbox.dataset.problems import asserts
from groundbox.dataset.problems.rows import BadRow, Place, text_of
from groundbox.values.parsing import module_of

NAME: Final = "humaneval"
KEYS: Final = frozenset({"prompt", "canonical_solution", "entry_point"})


def parse(row: Mapping[str, Any], place: Place) -> Iterator[Problem | Drop]:
    """The problem of a row, and a drop for every assert whose arguments are no literals."""
    source = text_of(row, "prompt") + text_of(row, "canonical_solution", least=1)
    entry = text_of(row, "entry_point", least=1)
    name = str(row.get("task_id") or place.item)
    # The benchmark's tests call the function by this name.
    found = list(asserts.calls(_tree(row), "candidate"))
    cases = []
    for number, each in enumerate(found):
        if each.problem:
            yield place.bad_case(name, number, "input-not-a-literal", each.problem)
        else:
            cases.append(Case(number=number, args=each.args, kwargs=each.kwargs, expected=each.expected))
    yield Problem(
        id=name,
        source=source,
        statement=_docstring(source, entry),
        entry=entry,
        cases=tuple(cases),
        provenance=place.provenance(),
    )


def _tree(row: Mapping[str, Any]) -> ast.Module:
    if "test" not in row:
        return ast.Module(body=[], type_ignores=[])
    try:
        return module_of(text_of(row, "test"))
    except (SyntaxError, ValueError, RecursionError) as error:
        raise BadRow("bad-line", f"test does not parse: {error}") from None


def _docstring(source: str, entry: str) -> str:
    try:
        tree = module_of(source)
    except (SyntaxError, ValueError, RecursionError):
        return ""  # running it will say what is wrong
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == entry:
            return ast.get_docstring(node) or ""
    return ""
