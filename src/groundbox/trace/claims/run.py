"""What happened: moments with the values of names, and calls with their results, read off the records once.

A moment is where a line is about to run, or a function returns. This fold is of its own: nothing that a narrator works
out of the records is used here.
"""

from __future__ import annotations

import ast
import functools
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from groundbox.trace import schema
from groundbox.trace.errors import Unknown
from groundbox.trace.evaluate import evaluate
from groundbox.trace.plain import python_value
from groundbox.trace.reading import Trace
from groundbox.trace.state import State

MOST_MOMENTS: Final = 20_000
MOST_VALUES: Final = 5_000
"""That a quoted value is compared with."""
MOST_EVALUATIONS: Final = 20_000
"""Of all claims of a text together."""
MOST_SHOWN: Final = 120
"""Characters of a value in a message."""


class Moment(NamedTuple):
    """Names of the frame that runs, as Python values; names whose values are not plain are left out."""

    step: int
    line: int
    names: Mapping[str, Any]


class Returned(NamedTuple):
    """A call that gave a value."""

    step: int
    function: str
    arguments: Mapping[str, Any]
    value: Any


class Seen(NamedTuple):
    """What an expression came to over the run.

    Attributes:
        step: A record at which it had the value that was asked for; None if there is none.
        others: Where it had other values, with these.
        whole: All moments at which it could have had one were looked at.
    """

    step: int | None
    others: Sequence[tuple[int, Any]]
    whole: bool


class _Happened(NamedTuple):
    moments: list[Moment]
    returned: list[Returned]
    given: Mapping[str, Any]
    printed: str


class Run:
    """A recorded run, to be asked.

    Attributes:
        tree: The program; empty where it does not parse.
        names: What the program calls things.
        assigned: Those of them that it binds itself, so that no builtin is meant.
        result: What the run gave: the value of the call that was asked for, or what was printed; Unknown if neither.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.tree = _tree(trace.source)
        self.names = frozenset(_names(self.tree))
        self.assigned = frozenset(_assigned(self.tree))
        self.functions = frozenset(
            node.name for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        )
        self._left = MOST_EVALUATIONS
        self._values: list[Any] | None = None
        self._whole = trace.complete and not trace.folded

    @property
    def moments(self) -> list[Moment]:
        """Where lines are about to run, and functions return."""
        return self._happened.moments

    @property
    def returned(self) -> list[Returned]:
        """The calls that gave plain values."""
        return self._happened.returned

    @property
    def given(self) -> Mapping[str, Any]:
        """The arguments of the call that was asked for."""
        return self._happened.given

    @property
    def result(self) -> Any:
        """See the class. Raises Unknown."""
        entry = self._trace.header.entry
        if entry is None:
            return self._happened.printed
        for call in reversed(self.returned):
            if call.function == entry.call:
                return call.value
        raise Unknown("the call gave no plain value")

    @property
    def last(self) -> int:
        """The record at which the result is given."""
        return self.returned[-1].step if self.returned else len(self._trace.records) - 1

    def values(self) -> list[Any]:
        """All values that names had, calls were given and gave, and the program writes out; each once."""
        if self._values is None:
            found = {id(value): value for moment in self.moments for value in moment.names.values()}
            found |= {id(each.value): each.value for each in self.returned}
            given = tuple(self.given.values())
            literals = [node.value for node in ast.walk(self.tree) if isinstance(node, ast.Constant)]
            self._values = [given, *given, *literals, *found.values()][:MOST_VALUES]
        return self._values

    @functools.cached_property
    def constants(self) -> frozenset[Any]:
        """Numbers that the program writes out, and those that the run was given."""
        written = [node.value for node in ast.walk(self.tree) if isinstance(node, ast.Constant)]
        return frozenset(each for each in (*written, *self.given.values()) if isinstance(each, int | float))

    @functools.cached_property
    def scalars(self) -> frozenset[Any]:
        """Numbers and texts among the values, and in them, as far as `MOST_VALUES`."""
        found: set[Any] = set()
        left = list(reversed(self.values()))
        while left and len(found) < MOST_VALUES:
            value = left.pop()
            if isinstance(value, list | tuple | set | frozenset):
                left += list(value)[:MOST_VALUES]
            elif isinstance(value, dict):
                left += [*value.keys(), *value.values()][:MOST_VALUES]
            elif isinstance(value, int | float | str):
                found.add(value)
        return frozenset(found)

    @functools.cached_property
    def fragments(self) -> frozenset[str]:
        """The expressions that the program is made of, by `ast.dump`."""
        return frozenset(ast.dump(node) for node in ast.walk(self.tree) if isinstance(node, ast.expr))

    def look(self, expression: ast.expr, value: Any, decimals: int | None, *, after: int) -> Seen:
        """When an expression had a value; rather after the record `after` than before."""
        used = sorted({node.id for node in ast.walk(expression) if isinstance(node, ast.Name)} & self.names)
        bound = [name for name in used if name not in self.functions]
        keys: set[tuple[int, ...]] = set()
        early: int | None = None
        others: list[tuple[int, Any]] = []
        moments, whole = self.moments, self._whole
        for moment in moments:
            if any(name not in moment.names for name in bound):
                continue
            key = (*(id(moment.names[name]) for name in bound), moment.step > after)
            if key in keys:
                continue
            keys.add(key)
            self._left -= 1
            if self._left < 0:
                return Seen(early, others, whole=False)
            try:
                actual = evaluate(expression, self._lookup(moment))
            except Unknown:
                whole = False
                continue
            if same(actual, value, decimals):
                if moment.step > after:
                    return Seen(moment.step, others, whole)
                early = moment.step if early is None else early
            else:
                others.append((moment.step, actual))
        return Seen(early, others, whole)

    def call(self, node: ast.Call) -> list[Returned]:
        """The calls of one of the program's functions with the arguments that an expression writes out."""
        if not isinstance(node.func, ast.Name) or node.func.id not in self.functions:
            return []
        return [each for each in self.returned if each.function == node.func.id and _fits(node, each.arguments)]

    def _lookup(self, moment: Moment) -> Any:
        def lookup(name: str) -> Any:
            if name in moment.names:
                return moment.names[name]
            if name in self.assigned:
                raise Unknown(f"{name} has no value here")
            raise KeyError(name)

        return lookup

    @functools.cached_property
    def _happened(self) -> _Happened:
        """The fold, made when it is asked for: claims that name their records do without."""
        moments: list[Moment] = []
        returned: list[Returned] = []
        given: Mapping[str, Any] = {}
        printed: list[str] = []
        state = State()
        held: dict[tuple[int, str], tuple[Any, int, Any]] = {}
        calls: dict[int, tuple[str, Mapping[str, Any]]] = {}
        changes = 0
        for step, record in enumerate(self._trace.records):
            if isinstance(record, schema.Line | schema.Return | schema.Yield) and len(moments) < MOST_MOMENTS:
                names = self._named(state, record.f, held, changes)
                moments.append(Moment(step, record.n, names))
            state.apply(record)
            if isinstance(record, schema.Mutate):
                changes += 1
            elif isinstance(record, schema.Call):
                arguments = _plain(state, record.args)
                calls[record.f] = (record.name, arguments)
                if record.p == 0 and not record.body and record.name in self.functions:
                    given = arguments
            elif isinstance(record, schema.Return) and record.f in calls:
                name, was_given = calls.pop(record.f)
                for value in _plain(state, {"": record.v}).values():
                    returned.append(Returned(step, name, was_given, value))
            elif isinstance(record, schema.Out) and record.s == 1:
                printed.append(record.text)
                self._whole = self._whole and not record.elided
        self._whole = self._whole and len(moments) < MOST_MOMENTS
        return _Happened(moments, returned, given, "".join(printed))

    def _named(
        self, state: State, frame: int, held: dict[tuple[int, str], tuple[Any, int, Any]], changes: int
    ) -> dict[str, Any]:
        """The frame's names; a value that did not change is the same object as before."""
        names = {}
        for name, raw in state.names(frame).items():
            known = held.get((frame, name))
            if known is None or known[:2] != (raw, changes):
                try:
                    value = python_value(state, raw)
                except Unknown:
                    self._whole = self._whole and name not in self.names - self.functions
                    held.pop((frame, name), None)
                    continue
                if known is not None and exactly(known[2], value):
                    value = known[2]
                held[frame, name] = known = (raw, changes, value)
            names[name] = known[2]
        return names


def same(actual: Any, said: Any, decimals: int | None = None) -> bool:
    """Whether a value is what was said: of the same type, a number to as many digits as were given."""
    if isinstance(actual, float) and isinstance(said, int | float) and not isinstance(said, bool):
        if math.isclose(actual, said, rel_tol=1e-12):
            return True
        return decimals is not None and decimals > 1 and math.isfinite(actual) and round(actual, decimals) == said
    return exactly(actual, said)


def exactly(one: Any, other: Any) -> bool:
    """Equal, and of the same types all the way down."""
    if isinstance(one, bool) != isinstance(other, bool) or type(one) is not type(other):
        return isinstance(one, int | float) and isinstance(other, int | float) and not (
            isinstance(one, bool) or isinstance(other, bool)
        ) and one == other  # fmt: skip
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(exactly, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(exactly(value, other[key]) for key, value in one.items())
    return bool(one == other)


def shown(value: Any) -> str:
    """A value as a message shows it."""
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python writes
        return "a number of thousands of digits"
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}… ({len(text)} characters)"


def _plain(state: State, values: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for name, value in values.items():
        try:
            found[name] = python_value(state, value)
        except Unknown:
            continue
    return found


def _fits(node: ast.Call, arguments: Mapping[str, Any]) -> bool:
    try:
        by_place = [ast.literal_eval(each) for each in node.args]
        by_name = {each.arg or "": ast.literal_eval(each.value) for each in node.keywords}
    except (ValueError, TypeError):
        return False
    return all(map(exactly, by_place, arguments.values())) and all(
        name in arguments and exactly(value, arguments[name]) for name, value in by_name.items()
    )


def _tree(source: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def _assigned(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name


def _names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
