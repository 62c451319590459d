"""Reads files and folders of problems, whichever format they have. Every line becomes a problem or a drop."""

from __future__ import annotations

import ast
import dataclasses
import doctest
import gzip
import json
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final, cast

from groundbox.dataset.problem import ABSENT, Case, Drop, Problem
from groundbox.dataset.problems import asserts, formats
from groundbox.dataset.problems.rows import STAGE, BadRow, Place
from groundbox.errors import InvalidArgument
from groundbox.values import literals
from groundbox.values.parsing import expression_of, module_of

FOLDER: Final = "folder"
_PARSER: Final = doctest.DocTestParser()


def read_folder(folder: Path, *, licence: str) -> Iterator[Problem | Drop]:
    """The problems of all `.py` files below a folder, in the order of their paths."""
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder).as_posix()
        place = Place(file=f"{folder.name}/{name}", line=1, format=FOLDER, licence=licence)
        try:
            # By the encoding that the file itself declares (PEP 263).
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
        # Functions of the module alone: methods need an object that no doctest line gives as data.
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
    at = dataclasses.replace(place, line=node.lineno)
    name = f"{place.file}:{node.name}"
    examples: list[doctest.Example] = []
    try:
        examples = _PARSER.get_examples(docstring)
    except ValueError as error:
        yield at.bad_case(name, 0, "bad-case", f"the doctests cannot be read: {error}")

    def read(number: int, example: doctest.Example) -> Case:
        return _case(number, example, node.name)

    cases = yield from formats.cases_of(examples, read, name, at)
    yield Problem(
        id=name,
        source=source,
        statement=_before_examples(docstring),
        entry=node.name,
        cases=cases,
        provenance=at.provenance(),
    )


def _case(number: int, example: doctest.Example, function: str) -> Case:
    try:
        args, kwargs = asserts.arguments(_call(example.source.strip(), function))
    except literals.NotALiteral as error:
        raise BadRow("input-not-a-literal", str(error)) from None
    return Case(number=number, args=args, kwargs=kwargs, expected=_expected(example))


def _call(source: str, function: str) -> ast.Call:
    try:
        call = expression_of(source)
    except (SyntaxError, ValueError, RecursionError):
        raise literals.NotALiteral(f"{source!r} is not an expression") from None
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == function):
        raise literals.NotALiteral(f"{source!r} is not a call of {function}")
    return call


def _expected(example: doctest.Example) -> Any:
    # A doctest with ELLIPSIS or an exception says less than what the call gives.
    if example.exc_msg is not None or not example.want or example.options.get(doctest.ELLIPSIS):
        return ABSENT
    return asserts.value_or_absent(literals.parse, example.want)


def _before_examples(docstring: str) -> str:
    return docstring.split(">>>", 1)[0].strip()


def _is_main(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("__name__ == '__main__'", "'__main__' == __name__")


def parse(found: Iterable[Problem | Drop], *, most_cases: int | None = None) -> Iterator[Problem | Drop]:
    """The problems with names of their own and each input once, and a drop for all else.

    Args:
        most_cases: Cases beyond so many of one problem are dropped; None for no limit.
    """
    names: set[str] = set()
    for each in found:
        if isinstance(each, Drop):
            yield each
            continue
        problem = _named(each, names)
        fault = _unwritable(problem)
        if fault:
            yield from (problem.dropped(STAGE, "bad-line", fault, case) for case in problem.cases or [None])
            continue
        kept, drops = _distinct(problem, most_cases)
        yield from drops
        # All its cases were dropped: there is nothing to run. One that came without cases gets made ones.
        if kept or not problem.cases:
            yield dataclasses.replace(problem, cases=tuple(kept))


def _named(problem: Problem, names: set[str]) -> Problem:
    name, count = problem.id, 1
    # Two files may have the same ids; the second gets `#2`, which is the same in each build of the same files.
    while name in names:
        count += 1
        name = f"{problem.id}#{count}"
    names.add(name)
    return problem if name == problem.id else dataclasses.replace(problem, id=name)


def _unwritable(problem: Problem) -> str:
    """Why the problem's texts cannot be written as UTF-8, or ""."""
    try:
        # JSON may hold half of a surrogate pair, which no file can.
        (problem.source + problem.statement + (problem.entry or "")).encode()
    except UnicodeEncodeError as error:
        return f"a text is not Unicode: {error}"
    return ""


def _distinct(problem: Problem, most_cases: int | None) -> tuple[list[Case], list[Drop]]:
    first: dict[str, Case] = {}
    kept: list[Case] = []
    drops: list[Drop] = []
    for case in problem.cases:
        earlier = first.setdefault(case.key(), case)
        if earlier is not case:
            drops.append(problem.dropped(STAGE, "duplicate-input", f"the same as case {earlier.number}", case))
        elif most_cases is not None and len(kept) >= most_cases:
            drops.append(problem.dropped(STAGE, "over-the-case-limit", f"{most_cases} cases were taken", case))
        else:
            kept.append(case)
    return kept, drops


FORMATS: Final = (*formats.FORMATS, FOLDER)


def read(path: Path, *, format: str | None = None, licence: str = "not stated") -> Iterator[Problem | Drop]:
    """The problems of a file or folder, in its order, with a drop for everything that gave none.

    Args:
        format: One of FORMATS; by default each line says by its keys which it is.

    Raises:
        InvalidArgument: There is nothing to be read at `path`.
    """
    if path.is_dir():
        return read_folder(path, licence=licence)
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
    yield from list(formats.FORMATS[format].parse(row, place))


def _format_of(row: Any) -> str | None:
    if not isinstance(row, Mapping):
        return None
    return next((name for name, each in formats.FORMATS.items() if each.keys <= row.keys()), None)


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
