"""Arguments that lead to a wanted result, as somebody looks for them who has the program and can run it.

Theory of operation. A guess is made of what can be read: tests in the program that guard `return` of the wanted
constant, constants that parameters are compared with, types that annotations or the statement name. It is run. What it
gave is compared with what is wanted, and leads to the next guess: a relation between argument and result that held so
far (in reverse, sorted, its length, its sum) is turned around; a number that is too small or too large is followed
along the line through two results; too short asks for more. Else another kind of value is tried. A guess never
depends on the input that the wanted result was recorded with, and comes with the sentence that says why.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from groundbox.dataset import signature
from groundbox.dataset.item import Answer, Tried
from groundbox.dataset.problem import Case, Problem
from groundbox.values import literals
from groundbox.values.equal import identical
from groundbox.values.evaluate import COMPARE
from groundbox.values.literals import NotALiteral

MOST: Final = 4
"""Guesses of one search."""
ORIGIN: Final = "search"
_MOST_ITEMS: Final = 12
"""Longest list or text that is made; longer ones make runs that nobody reads."""
# Of numbers: larger ones make loops that nobody follows.
_LARGEST: Final = 10_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Guess:
    """Arguments to try.

    Attributes:
        why: A sentence.
    """

    case: Case
    why: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Seen:
    given: Mapping[str, Any]
    value: Any
    failed: bool


_SIMPLE: Final[dict[str, tuple[Any, ...]]] = {
    "int": (3, 0, 10, -1, 1, 7),
    "float": (2.5, 0.0, -1.0, 10.0),
    "str": ("ab", "", "aba", "a1 B", "hello"),
    "bool": (True, False),
    "ints": ([3, 1, 2], [], [1, 1], [5, -2, 9, 4], [7]),
    "strs": (["b", "a"], [], ["a", "a"], ["abc", "b"]),
    "floats": ([2.5, 1.0], [], [0.5]),
    "rows": ([[1, 2], [3, 4]], [[0, 0], [0, 0]], [[1]], []),
}
"""Values of each kind, the first one to begin with."""
_WORDS: Final = (
    (r"lists? of (lists?|arrays?)|list\[list|matrix|2d|grid", "rows"),
    (r"lists? of (int|num)|list\[int|arrays? of int|list\(int|int\[\]", "ints"),
    (r"lists? of (str|char|word)|list\[str", "strs"),
    (r"lists? of (float|dec)|list\[float", "floats"),
    (r"dict|list|set|tuple|array|object|json|tree", ""),
    (r"bool", "bool"),
    (r"float|decimal|real", "float"),
    (r"int", "int"),
    (r"str|char|text", "str"),
)
"""How annotations and statements name kinds; "" for those of which nothing simple is known."""
_KINDS: Final = {int: "int", float: "float", str: "str", bool: "bool"}


def seek(problem: Problem, wanted: Any, tried: Sequence[Tried]) -> Guess | None:
    """The next guess, or None where nothing more is known to try."""
    node = signature.entry_of(problem)
    # Guesses are made by name; what `*args` holds has none.
    if node is None or node.args.posonlyargs or node.args.vararg or node.args.kwarg or len(tried) >= MOST:
        return None
    kinds = _kinds(problem, node)
    if not kinds or not all(kinds.values()):
        return None
    seen = [_seen(each) for each in tried]
    known = {each.case.key() for each in tried}
    # The generator proposes again what it proposed before; the first that was not run yet and is short is taken.
    for given, why in _guesses(node, kinds, wanted, seen):
        case = Case(number=0, kwargs=given, origin=ORIGIN)
        if case.key() not in known and _is_small(given):
            return Guess(case=case, why=why)
    return None


def compared(answer: Answer, wanted: Any) -> str:
    """A sentence that sets the result of a try beside the wanted one."""
    if answer.fault is not None:
        return f"It ends with {answer.fault.type}, so these arguments lead to no result."
    try:
        value = literals.parse(answer.text)
    except NotALiteral:
        return "It returns something else than a plain value."
    got, goal = literals.text(value), literals.text(wanted)
    if identical(value, wanted):
        return f"It returns {got}, which is the wanted result."
    return f"It returns {got}, and {goal} is wanted: {_difference(value, wanted)}."


def _difference(value: Any, wanted: Any) -> str:
    if _is_number(value) and _is_number(wanted):
        return "too small" if value < wanted else "too large" if value > wanted else "a number of another type"
    if type(value) is not type(wanted):
        return f"a value of type {type(value).__name__} in place of {type(wanted).__name__}"
    if isinstance(value, str | list | tuple | dict | set):
        if len(value) != len(wanted):
            return "too short" if len(value) < len(wanted) else "too long"
        return "as long, but not the same"
    return "another value"


def _seen(tried: Tried) -> _Seen:
    if tried.answer.fault is None:
        with contextlib.suppress(NotALiteral):
            return _Seen(given=tried.case.kwargs, value=literals.parse(tried.answer.text), failed=False)
    return _Seen(given=tried.case.kwargs, value=None, failed=True)


def _guesses(
    node: ast.FunctionDef, kinds: Mapping[str, str], wanted: Any, seen: Sequence[_Seen]
) -> Iterator[tuple[dict[str, Any], str]]:
    """Arguments with the reason for them, the best founded first."""
    constants = {name: _constants(node, name, kinds[name]) for name in kinds}
    first = {name: (constants[name] or _SIMPLE[kind])[0] for name, kind in kinds.items()}
    # First of all: where the program itself says which arguments lead to the constant, no run is needed to find them.
    yield from _guarded(node, kinds, first, wanted)
    if not seen:
        told = [
            f"the program compares `{name}` with {literals.text(constants[name][0])}"
            for name in kinds
            if constants[name]
        ]
        why = f"{_upper(_and(told))}." if told else "Simple values of the right types do for a start."
        yield first, why
        return
    last, sound = seen[-1], [each for each in seen if not each.failed]
    yield from _turned_round(kinds, wanted, sound)
    yield from _along_a_line(kinds, wanted, sound)
    if not last.failed:
        yield from _directed(kinds, constants, wanted, last)
    # Goes on from the last arguments that did not fail, since they are known to be of the right kind.
    base = sound[-1].given if sound else last.given
    others = [(turn, name) for name, kind in kinds.items() for turn in range(len(constants[name]) + len(_SIMPLE[kind]))]
    # In turns: the first value of each parameter before the second of any.
    for turn, name in sorted(others, key=lambda other: other[0]):
        value = [*constants[name], *_SIMPLE[kinds[name]]][turn]
        yield {**base, name: value}, f"Another result may need another `{name}`, such as {literals.text(value)}."


def _guarded(
    node: ast.FunctionDef, kinds: Mapping[str, str], first: Mapping[str, Any], wanted: Any
) -> Iterator[tuple[dict[str, Any], str]]:
    """Arguments that pass the tests around a `return` of the wanted constant, as far as these are of one parameter."""
    for tests, value in _returns(node.body, ()):
        try:
            if not tests or not identical(literals.of_node(value), wanted):
                continue
        except NotALiteral:
            continue
        given, words = dict(first), []
        for test, holds in tests:
            meets = _meeting(test, kinds, given, holds=holds)
            if meets is not None:
                given |= meets
                words.append(f"`{ast.unparse(test)}` is to be {'true' if holds else 'false'}")
        if words:
            yield given, f"The program returns {literals.text(wanted)} where {_and(words)}."


def _returns(body: Sequence[ast.stmt], tests: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], ast.expr]]:
    """Every `return` with a value that stands under nothing but `if`s, with their tests and how they are to come out.

    What follows an `if` that always returns is reached where its test is false.
    """
    for each in body:
        if isinstance(each, ast.Return) and each.value is not None:
            yield tests, each.value
            return
        if isinstance(each, ast.If):
            yield from _returns(each.body, (*tests, (each.test, True)))
            yield from _returns(each.orelse, (*tests, (each.test, False)))
            # What follows is an `else` in all but its word.
            if isinstance(each.body[-1], ast.Return | ast.Raise):
                tests = (*tests, (each.test, False))


def _meeting(
    test: ast.expr, kinds: Mapping[str, str], given: Mapping[str, Any], *, holds: bool
) -> dict[str, Any] | None:
    """A value of one parameter for which a test comes out so, or None where that is not seen at once."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return _meeting(inner, kinds, given, holds=not holds)
        case ast.Name(id=name) if name in kinds:
            values = [each for each in _SIMPLE[kinds[name]] if bool(each) is holds]
            return {name: values[0]} if values else None
        # One part of an OR is enough to make it true, one part of an AND to make it false.
        case ast.BoolOp(op=op, values=[one, *_]) if isinstance(op, ast.And) is not holds:
            return _meeting(one, kinds, given, holds=holds)
        case ast.BoolOp(values=all_of):
            found: dict[str, Any] = {}
            for each in all_of:
                meets = _meeting(each, kinds, {**given, **found}, holds=holds)
                if meets is None:
                    return None
                found |= meets
            return found
        case ast.Compare(left=left, ops=[_], comparators=[_]):
            names = {part.id for part in ast.walk(left) if isinstance(part, ast.Name)} & kinds.keys()
            # A test of two parameters would have to be solved for both at once.
            if len(names) == 1:
                (name,) = names
                return _satisfied(test, name, kinds[name], holds=holds)
    return None


def _satisfied(test: ast.Compare, name: str, kind: str, *, holds: bool) -> dict[str, Any] | None:
    """The first of a few values for which a comparison of a parameter, its length or its remainder comes out so."""
    try:
        bound = literals.of_node(test.comparators[0])
    except NotALiteral:
        return None
    measure, compare = _measure(test.left, name), COMPARE.get(type(test.ops[0]))
    if measure is None or compare is None:
        return None

    def comes_out(value: Any) -> bool:
        return bool(compare(measure(value), bound))

    # At the bound and one to each side: whichever of the six comparisons it is, one of these meets it.
    near: list[Any] = [bound, bound + 1, bound - 1] if kind == "int" and isinstance(bound, int) else [bound]
    if isinstance(bound, list | tuple | set):
        near = sorted(bound, key=literals.text)
    if isinstance(bound, int) and kind in ("str", "ints", "strs"):
        near = [
            _of_length(_SIMPLE[kind][0], size) for size in (bound, bound + 1, bound - 1) if 0 <= size <= _MOST_ITEMS
        ]
    for value in [*near, *_SIMPLE[kind]]:
        # By type, or True would do for 1.
        if type(value) is type(_SIMPLE[kind][0]) and _result(comes_out, value) is holds:
            return {name: value}
    return None


def _measure(left: ast.expr, name: str) -> Callable[[Any], Any] | None:
    match left:
        case ast.Name(id=found) if found == name:
            return lambda value: value
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=found)], keywords=[]) if found == name:
            return len
        case ast.BinOp(left=ast.Name(id=found), op=ast.Mod(), right=ast.Constant(value=int(by))) if (
            found == name and by
        ):
            return lambda value: value % by
    return None


def _constants(node: ast.FunctionDef, name: str, kind: str) -> list[Any]:
    """Constants that the program asks whether a parameter is equal to."""
    found: list[Any] = []
    for each in ast.walk(node):
        if not (isinstance(each, ast.Compare) and isinstance(each.left, ast.Name) and each.left.id == name):
            continue
        if len(each.ops) != 1 or not isinstance(each.ops[0], ast.Eq | ast.In):
            continue
        try:
            value = literals.of_node(each.comparators[0])
        except NotALiteral:
            continue
        values = value if isinstance(value, list | tuple) else [value]
        found += [one for one in values if _KINDS.get(type(one)) == kind and one not in found]
    return found


_TURNS: Final[tuple[tuple[str, Callable[[Any], Any], Callable[[Any, Any], Any]], ...]] = (
    ("is `{}` itself", lambda v: v, lambda w, v: w),
    ("is `{}` in reverse", lambda v: v[::-1], lambda w, v: w[::-1]),
    ("is `{}` in sorted order", lambda v: sorted(v) if isinstance(v, list) else "".join(sorted(v)), lambda w, v: w),
    ("is `{}` in upper case", lambda v: v.upper(), lambda w, v: w.lower()),
    ("is `{}` in lower case", lambda v: v.lower(), lambda w, v: w),
    ("is the length of `{}`", lambda v: len(v), lambda w, v: _of_length(v, w)),
    ("is the sum of `{}`", lambda v: sum(v), lambda w, v: [w]),
    ("is the largest item of `{}`", lambda v: max(v), lambda w, v: [w]),
    ("is the smallest item of `{}`", lambda v: min(v), lambda w, v: [w]),
    ("is the text of `{}`", lambda v: str(v), lambda w, v: type(v)(w)),
    ("is `{}` with the sign turned", lambda v: -v, lambda w, v: -w),
    ("is the square of `{}`", lambda v: v * v, lambda w, v: int(w**0.5)),
)
"""Relations of a result to an argument: in words, as a function, and turned round for a wanted result."""


def _turned_round(kinds: Mapping[str, str], wanted: Any, seen: Sequence[_Seen]) -> Iterator[tuple[dict[str, Any], str]]:
    """The relations that held in every run so far, turned round."""
    for name in kinds:
        for words, relation, back in _TURNS:
            if seen and all(_holds(relation, each.given[name], each.value) for each in seen):
                value = _result(back, wanted, seen[-1].given[name])
                if value is not None and type(value) is type(seen[-1].given[name]) and _holds(relation, value, wanted):
                    often = "In each run so far the result" if len(seen) > 1 else "Here the result"
                    text = f"{often} {words.format(name)}, so `{name}` is to be {literals.text(value)}."
                    yield {**seen[-1].given, name: value}, text


def _holds(relation: Callable[[Any], Any], value: Any, result: Any) -> bool:
    found = _result(relation, value)
    return found is not None and identical(found, result)


def _result(work: Callable[..., Any], *given: Any) -> Any:
    """Return what the work gives, or None where it cannot be done with such values."""
    try:
        return work(*given)
    except (TypeError, ValueError, AttributeError, ArithmeticError, LookupError):
        return None


def _along_a_line(kinds: Mapping[str, str], wanted: Any, seen: Sequence[_Seen]) -> Iterator[tuple[dict[str, Any], str]]:
    """The number on the line through the last two results that differ by one number alone."""
    if not _is_number(wanted):
        return
    for name, kind in kinds.items():
        if kind not in ("int", "float"):
            continue
        pairs = [(a, b) for a, b in itertools.combinations(seen, 2) if _differ_in(a, b) == name]
        for a, b in reversed(pairs):
            if not (_is_number(a.value) and _is_number(b.value)) or a.value == b.value:
                continue
            x, y = a.given[name], b.given[name]
            at = _result(_on_line, wanted, (x, a.value), (y, b.value))
            # Two results that differ by little put the third far away.
            if at is None or not abs(at) <= _LARGEST:  # nan, too
                continue
            value = round(at) if kind == "int" else round(at, 6)
            told = f"From `{name}` = {x} to `{name}` = {y} the result goes from {a.value} to {b.value}"
            yield {**b.given, name: value}, f"{told}; at this rate {wanted} needs about `{name}` = {value}."


def _on_line(wanted: float, one: tuple[float, float], other: tuple[float, float]) -> float:
    """Where the line through two points has a height."""
    return one[0] + (wanted - one[1]) * (other[0] - one[0]) / (other[1] - one[1])


def _differ_in(one: _Seen, other: _Seen) -> str:
    names = [name for name in one.given if not identical(one.given[name], other.given[name])]
    return names[0] if len(names) == 1 else ""


def _directed(
    kinds: Mapping[str, str], constants: Mapping[str, Sequence[Any]], wanted: Any, last: _Seen
) -> Iterator[tuple[dict[str, Any], str]]:
    """Changes in the direction that the comparison points in."""
    value = last.value
    for name in kinds:
        mine = last.given[name]
        if type(mine) is type(wanted) and isinstance(mine, str | list) and not constants[name]:
            yield (
                {**last.given, name: wanted},
                f"The result is of the kind of `{name}`, so it is tried as `{name}` itself.",
            )
    if type(value) is type(wanted) and isinstance(value, str | list | tuple | dict | set):
        more, less = len(value) < len(wanted), len(value) > len(wanted)
        by = len(wanted) / max(1, len(value))
    elif _is_number(value) and _is_number(wanted):
        more, less = value < wanted, value > wanted
        ratio = _result(lambda: wanted / value) if value else None
        by = min(4.0, max(0.25, ratio)) if ratio is not None and ratio > 0 else (2.0 if more else 0.5)
    else:
        return
    if not (more or less):
        return
    number, length = ("larger", "longer") if more else ("smaller", "shorter")
    result = number if _is_number(wanted) else length
    for name, kind in kinds.items():
        mine = last.given[name]
        if kind in ("int", "float"):
            near = mine * by if mine > 0 else mine + (2 if more else -2)
            new: Any = round(near) if kind == "int" else round(near, 3)
            new = new if new != mine else mine + (1 if more else -1)
            yield {**last.given, name: new}, f"A {number} `{name}` may give a {result} result."
        elif kind != "bool" and mine:
            size = round(len(mine) * by)
            size = size if size != len(mine) else len(mine) + (1 if more else -1)
            if 0 <= size <= _MOST_ITEMS:
                yield {**last.given, name: _of_length(mine, size)}, f"A {length} `{name}` may give a {result} result."


def _of_length(value: Any, size: int) -> Any:
    """A text or list of that length, by repeating what is there."""
    if not value or not 0 <= size <= _MOST_ITEMS:
        raise ValueError(size)
    return (value * (size // len(value) + 1))[:size]


def _kinds(problem: Problem, node: ast.FunctionDef) -> dict[str, str]:
    """The kind of each parameter, "" where it is not known: from its annotation, the statement, or its default."""
    found: dict[str, str] = {}
    defaults = signature.defaults_of(node)
    for each in [*node.args.args, *node.args.kwonlyargs]:
        words = ast.unparse(each.annotation) if each.annotation is not None else ""
        if not words:
            told = re.search(rf"\b{re.escape(each.arg)}\b[`*\s]*\(([^()]{{1,60}})", problem.statement)
            words = told[1] if told else ""
        kind = next((kind for pattern, kind in _WORDS if words and re.search(pattern, words.lower())), "")
        default = defaults.get(each.arg)
        if not words and isinstance(default, ast.Constant):
            kind = _KINDS.get(type(default.value), "")
        found[each.arg] = kind
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_small(given: Mapping[str, Any]) -> bool:
    text = literals.text(dict(given))
    return len(text) <= 500 and all(not _is_number(each) or abs(each) <= _LARGEST for each in given.values())


def _and(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
