"""Formats of lines of problem files, one function each: a row's problem, and a drop for each case that is none."""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from groundbox.dataset.problem import ABSENT, Case, Drop, Problem, case_from_json
from groundbox.dataset.problems import asserts
from groundbox.dataset.problems.rows import BadRow, Place, list_of, text_of
from groundbox.dataset.signature import tree_of
from groundbox.values import literals
from groundbox.values.parsing import expression_of, module_of

Parse: TypeAlias = Callable[[Mapping[str, Any], Place], Iterator[Problem | Drop]]
CRUXEVAL: Final = "cruxeval"
MBPP: Final = "mbpp"
_LICENCES: Final = ("licence", "license")
_CODEIO_ENTRY: Final = "main_solution"
"""Programs of CodeI/O are rewritten so that their main function has this name."""
_CRUXEVAL_ENTRY: Final = "f"


class Format(NamedTuple):
    """Keys that its rows have, and what reads one."""

    keys: frozenset[str]
    parse: Parse


def pyedu(row: Mapping[str, Any], place: Place) -> Iterator[Problem | Drop]:
    """CodeI/O: a description, a program with its main function, and inputs with recorded outputs."""
    source = text_of(row, "refcode", least=1)
    name = str(row.get("id") or place.item)
    cases = yield from cases_of(list_of(row, "ios"), _recorded_case, name, place)
    meta = row.get("meta")
    yield Problem(
        id=name,
        source=source,
        statement=_paragraphs(row, "problem_description", "io_requirements"),
        entry=text_of(row, "funcname", least=1) if "funcname" in row else _CODEIO_ENTRY,
        cases=cases,
        provenance=place.provenance({**(meta if isinstance(meta, Mapping) else {}), **_some(row, *_LICENCES)}),
    )


def _recorded_case(number: int, io: Any) -> Case:
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


def codeio(row: Mapping[str, Any], place: Place) -> Iterator[Problem | Drop]:
    """CodeI/O with a generator of inputs in the place of inputs, as the package reasoning-gym ships it.

    The generator `generate_inputs(rng)` returns arguments by name and may use whatever the program imports. Both are
    foreign code, and run in sandboxes only (dataset/input_generation.py).
    """
    yield Problem(
        id=str(row.get("id") or place.item),
        source=text_of(row, "code_sample", least=1),
        statement=_paragraphs(row, "task_description", "input_output_spec"),
        entry=_CODEIO_ENTRY,
        cases=(),
        provenance=place.provenance(_some(row, "difficulty", *_LICENCES)),
        generator=text_of(row, "input_generator", least=1),
    )


def humaneval(row: Mapping[str, Any], place: Place) -> Iterator[Problem | Drop]:
    """HumanEval: the beginning of a function, its solution, and a function of asserts about `candidate`."""
    source = text_of(row, "prompt") + text_of(row, "canonical_solution", least=1)
    entry = text_of(row, "entry_point", least=1)
    name = str(row.get("task_id") or place.item)
    tests = _tests(text_of(row, "test") if "test" in row else "", "test")
    # The benchmark's tests call the function by this name.
    cases = yield from cases_of(asserts.calls(tests, "candidate"), asserts.case, name, place)
    tree = tree_of(source)  # of one that does not parse, running it will say what is wrong
    body = [] if tree is None else tree.body
    node = next((each for each in body if isinstance(each, ast.FunctionDef) and each.name == entry), None)
    yield Problem(
        id=name,
        source=source,
        statement="" if node is None else ast.get_docstring(node) or "",
        entry=entry,
        cases=cases,
        provenance=place.provenance(),
    )


def cruxeval(row: Mapping[str, Any], place: Place) -> Iterator[Problem | Drop]:
    """CRUXEval: a function `f`, the text of its arguments and the text of its result.

    A row whose arguments are no literals is a drop, because inputs are data.
    """
    name = str(row.get("id") or place.item)
    source = text_of(row, "code", least=1)
    try:
        args, kwargs = _arguments(text_of(row, "input"))
    except literals.NotALiteral as error:
        yield place.bad_case(name, 0, "input-not-a-literal", str(error))
        return
    output = row.get("output")
    expected = asserts.value_or_absent(literals.parse, output) if isinstance(output, str) else ABSENT
    yield Problem(
        id=name,
        source=source,
        statement="",
        entry=_CRUXEVAL_ENTRY,
        cases=(Case(number=0, args=args, kwargs=kwargs, expected=expected),),
        provenance=place.provenance(),
    )


def _arguments(text: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    try:
        # Parsed as the call that it stands in, so that names of arguments are read as Python reads them; the new line
        # ends a comment in the text.
        call = expression_of(f"{_CRUXEVAL_ENTRY}({text}\n)")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise literals.NotALiteral(f"{text!r}: {error}") from None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise literals.NotALiteral(f"{text!r} is not a list of arguments")
    return asserts.arguments(call)


def mbpp(row: Mapping[str, Any], place: Place) -> Iterator[Problem | Drop]:
    """MBPP: a sentence, a program, and asserts about one of its functions.

    `prompt` is the sanitised variant's sentence.
    """
    source = text_of(row, "code", least=1)
    # `challenge_test_list` holds harder tests, which few rows have.
    lines = [*list_of(row, "test_list"), *(row.get("challenge_test_list") or [])]
    tests = _tests("\n".join(map(str, lines)), "test_list")
    entry = _tested(source, tests)
    name = f"mbpp/{row['task_id']}" if "task_id" in row else place.item
    cases = yield from cases_of(asserts.calls(tests, entry), asserts.case, name, place)
    yield Problem(
        id=name,
        source=source,
        statement=text_of(row, "prompt" if "prompt" in row else "text").strip(),
        entry=entry,
        cases=cases,
        provenance=place.provenance(),
    )


def _tested(source: str, tests: ast.Module) -> str:
    """The function that the tests call and the program defines; it is named nowhere else."""
    tree = tree_of(source)
    defined = set() if tree is None else {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    for name in asserts.called_names(tests):
        # A test may call `sorted` or `set` around the function; of a program that does not parse, the first name is
        # taken.
        if name in defined or not defined:
            return name
    raise BadRow("bad-line", "no assert calls a function that the code defines")


def plain(row: Mapping[str, Any], place: Place) -> Iterator[Problem | Drop]:
    """Our own: `source`, `entry` (none: a script), `statement`, `cases` of `args`, `kwargs`, `stdin`, `expected`.

    A line without cases may have a `generator` (dataset/problem.py).
    """
    source = text_of(row, "source", least=1)
    entry = None if row.get("entry") is None else text_of(row, "entry", least=1)
    name = str(row.get("id") or place.item)

    def read(number: int, data: Any) -> Case:
        return _plain_case(number, data, entry=entry)

    # A script without cases is run once with empty input; a function without cases gets made ones.
    given = list_of(row, "cases") if "cases" in row else [] if entry else [{}]
    cases = yield from cases_of(given, read, name, place)
    yield Problem(
        id=name,
        source=source,
        statement=text_of(row, "statement") if "statement" in row else "",
        entry=entry,
        cases=cases,
        provenance=place.provenance(_some(row, *_LICENCES, "origin")),
        generator=None if row.get("generator") is None else text_of(row, "generator", least=1),
    )


def _plain_case(number: int, data: Any, *, entry: str | None) -> Case:
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


# The first whose keys a row has is its format, so the ones with more keys come first.
FORMATS: Final[Mapping[str, Format]] = {
    "pyedu": Format(frozenset({"refcode", "ios"}), pyedu),
    "codeio": Format(frozenset({"code_sample", "input_generator"}), codeio),
    "humaneval": Format(frozenset({"prompt", "canonical_solution", "entry_point"}), humaneval),
    CRUXEVAL: Format(frozenset({"code", "input", "output"}), cruxeval),
    MBPP: Format(frozenset({"code", "test_list"}), mbpp),
    "plain": Format(frozenset({"source"}), plain),
}


def cases_of(
    found: Iterable[Any], read: Callable[[int, Any], Case], problem: str, place: Place
) -> Generator[Drop, None, tuple[Case, ...]]:
    """Return the cases, and yield a drop for each that `read` refuses with BadRow."""
    cases = []
    for number, each in enumerate(found):
        try:
            cases.append(read(number, each))
        except BadRow as error:
            yield place.bad_case(problem, number, error.reason, str(error))
    return tuple(cases)


def _tests(text: str, key: str) -> ast.Module:
    try:
        return module_of(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise BadRow("bad-line", f"{key} does not parse: {error}") from None


def _paragraphs(row: Mapping[str, Any], *names: str) -> str:
    parts = [row.get(name) for name in names]
    return "\n\n".join(part.strip() for part in parts if isinstance(part, str) and part.strip())


def _some(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: row[name] for name in names if name in row}
