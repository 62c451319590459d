"""MBPP: a sentence, a program, and asserts about one of its functions. `prompt` is the sanitised variant's sentence."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any, Final

from groundbox.dataset.problem import Case, Drop, Problem
from groundbox.dataset.problems import asserts
from groundbox.dataset.problems.rows import BadRow, Place, list_of, text_of
from groundbox.values.parsing import module_of

NAME: Final = "mbpp"
KEYS: Final = frozenset({"code", "test_list"})


def parse(row: Mapping[str, Any], place: Place) -> Iterator[Problem | Drop]:
    """The problem of a row, and a drop for every assert whose arguments are no literals."""
    source = text_of(row, "code", least=1)
    # `challenge_test_list` holds harder tests, which few rows have.
    tests = _tree("\n".join(map(str, [*list_of(row, "test_list"), *(row.get("challenge_test_list") or [])])))
    entry = _entry(source, tests)
    name = f"mbpp/{row['task_id']}" if "task_id" in row else place.item
    cases = []
    for number, each in enumerate(asserts.calls(tests, entry)):
        if each.problem:
            yield place.bad_case(name, number, "input-not-a-literal", each.problem)
        else:
            cases.append(Case(number=number, args=each.args, kwargs=each.kwargs, expected=each.expected))
    yield Problem(
        id=name,
        source=source,
        statement=text_of(row, "prompt" if "prompt" in row else "text").strip(),
        entry=entry,
        cases=tuple(cases),
        provenance=place.provenance(),
    )


def _tree(text: str) -> ast.Module:
    try:
        return module_of(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise BadRow("bad-line", f"test_list does not parse: {error}") from None


def _entry(source: str, tests: ast.Module) -> str:
    """The function that the tests call and the program defines; it is named nowhere else."""
    try:
        defined = {node.name for node in module_of(source).body if isinstance(node, ast.FunctionDef)}
    except (SyntaxError, ValueError, RecursionError):
        defined = set()
    called = asserts.called_names(tests)
    for name in called:
        # A test may call `sorted` or `set` around the function; of a program that does not parse, the first name is
        # taken.
        if name in defined or not defined:
            return name
    raise BadRow("bad-line", "no assert calls a function that the code defines")
