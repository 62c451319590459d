"""A folder of Python files: a function with doctests is a problem, and so is a file that runs as a script."""

from __future__ import annotations

import ast
import doctest
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from groundbox.dataset import literals
from groundbox.dataset.drop import Drop
from groundbox.dataset.problem import ABSENT, Case, Problem
from groundbox.dataset.problems import asserts
from groundbox.dataset.problems.place import Place
from groundbox.values.parsing import expression_of, module_of

NAME: Final = "folder"
_PARSER: Final = doctest.DocTestParser()


def read(folder: Path, *, licence: str) -> Iterator[Problem | Drop]:
    """The problems of all `.py` files below a folder, in the order of their paths."""
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder).as_posix()
        place = Place(file=f"{folder.name}/{name}", line=1, format=NAME, licence=licence)
        try:
            with tokenize.open(path) as file:
                source = file.read()
            tree = module_of(source)
        except (SyntaxError, ValueError, RecursionError, OSError) as error:
            yield place.bad("does-not-parse", str(error))
            continue
        yield from _of_file(source, tree, place)


def _of_file(source: str, tree: ast.Module, place: Place) -> Iterator[Problem | Drop]:
    found = False
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and ">>>" in (ast.get_docstring(node) or ""):
            found = True
            yield from _of_function(source, node, place)
    if any(map(_is_main, tree.body)):
        found = True
        yield Problem(
            id=place.file,
            source=source,
            statement=_before_examples(ast.get_docstring(tree) or ""),
            entry=None,
            cases=(Case(number=0, stdin=""),),
            provenance=place.provenance(),
        )
    if not found:
        yield place.bad("no-examples", "no function has doctests, and nothing runs as a script")


def _of_function(source: str, node: ast.FunctionDef, place: Place) -> Iterator[Problem | Drop]:
    docstring = ast.get_docstring(node) or ""
    at = Place(file=place.file, line=node.lineno, format=NAME, licence=place.licence)
    name = f"{place.file}:{node.name}"
    cases: list[Case] = []
    for number, example in enumerate(_examples(docstring, at, name)):
        if isinstance(example, Drop):
            yield example
            continue
        case = _case(number, example, node.name)
        if isinstance(case, Case):
            cases.append(case)
        else:
            yield at.bad_case(name, number, "input-not-a-literal", case)
    yield Problem(
        id=name,
        source=source,
        statement=_before_examples(docstring),
        entry=node.name,
        cases=tuple(cases),
        provenance=at.provenance(),
    )


def _examples(docstring: str, place: Place, name: str) -> list[Any]:
    try:
        return list(_PARSER.get_examples(docstring))
    except ValueError as error:
        return [place.bad_case(name, 0, "bad-case", f"the doctests cannot be read: {error}")]


def _case(number: int, example: doctest.Example, function: str) -> Case | str:
    """The case of an example, or why it is none."""
    try:
        call = expression_of(example.source.strip())
    except (SyntaxError, ValueError, RecursionError):
        return f"{example.source.strip()!r} is not an expression"
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == function):
        return f"{example.source.strip()!r} is not a call of {function}"
    try:
        args, kwargs = asserts.arguments(call)
    except literals.NotALiteral as error:
        return str(error)
    return Case(number=number, args=args, kwargs=kwargs, expected=_expected(example))


def _expected(example: doctest.Example) -> Any:
    if example.exc_msg is not None or not example.want or example.options.get(doctest.ELLIPSIS):
        return ABSENT
    try:
        return literals.parse(example.want)
    except literals.NotALiteral:
        return ABSENT


def _before_examples(docstring: str) -> str:
    return docstring.split(">>>", 1)[0].strip()


def _is_main(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("__name__ == '__main__'", "'__main__' == __name__")
