"""A recorded run, to be asked what an expression was, and when; what was called, and what came up on the way."""

from __future__ import annotations

import ast
import bisect
import contextlib
import functools
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from groundbox.trace.claims.happened import Change, Happened, Moment, Raised, Returned
from groundbox.trace.claims.program import (
    free_names,
    inner_expressions,
    instances_of,
    names_in,
    outer_names,
    renamed,
    tree_of,
)
from groundbox.trace.record import schema
from groundbox.trace.record.reading import Trace
from groundbox.trace.record.syntax import assigned_in, walked
from groundbox.values.equal import as_told, equal, frozen
from groundbox.values.evaluate import Meter, evaluate
from groundbox.values.unknown import Unknown

MOST_VALUES: Final = 5_000
"""That a quoted value is compared with."""
MOST_EVALUATIONS: Final = 20_000
"""Of all claims of a text together, and again of the steps inside expressions."""
OPERATIONS_OF_ONE: Final = 100
"""More of them count as so many more evaluations."""
_MOST_QUOTED: Final = 1_000_000
_NEAR: Final = 12
"""Moments after the last one told in which a number without a name is looked for."""
_MOST_MEANT: Final = 6
"""Names that "the list" and the like may mean."""
_TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    "the string": str, "the list": list, "the dictionary": dict, "the set": (set, frozenset), "the tuple": tuple,
    "any sequence": (str, list, tuple),
}  # fmt: skip


class Seen(NamedTuple):
    """Values of an expression over the run.

    Attributes:
        step: A record at which it had the value that was asked for; None if there is none.
        others: Where it had other values, with these.
        whole: All moments at which it could have had one were looked at.
    """

    step: int | None
    others: Sequence[tuple[int, Any]]
    whole: bool


class Run:
    """A recorded run, to be asked.

    Attributes:
        tree: The program; empty where it does not parse.
        names: What the program calls things; functions of Python's that it does not bind are left out.
        words: All names that it writes, with those.
        assigned: Names that it binds itself, so that no builtin is meant.
        result: What the run gave: the value of the call that was asked for, or what was printed; Unknown if neither.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.tree = tree_of(trace.source)
        self.names = frozenset(names_in(self.tree))
        self.words = self.names | {node.id for node in walked(self.tree) if isinstance(node, ast.Name)}
        self.assigned = frozenset(assigned_in(self.tree))
        self.functions = frozenset(
            node.name for node in walked(self.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        )
        self._left = MOST_EVALUATIONS
        self._meant_names: dict[str, Sequence[str]] = {}

    @property
    def escaped(self) -> Raised | None:
        """The exception that ended the run."""
        raised = self.happened.raised
        return raised[-1] if self._trace.header.outcome == "error" and raised else None

    def is_closed(self, node: ast.expr) -> bool:
        """Return whether an expression has no name of the program, and none of the words for them."""
        names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        return names.isdisjoint(self.names) and names.isdisjoint(_TYPES)

    @functools.cached_property
    def uses_xor(self) -> bool:
        """Return whether the program has `^`."""
        return any(isinstance(node, ast.BitXor) for node in walked(self.tree))

    @property
    def is_recorded(self) -> bool:
        """Return whether everything that the run did is recorded; values that are not plain may be among it."""
        return self._trace.complete and not self._trace.folded

    @property
    def whole(self) -> bool:
        """Everything that the run did is recorded and was looked at."""
        return self.is_recorded and self.happened.whole

    @property
    def result(self) -> Any:
        """See the class. Raises Unknown."""
        entry = self._trace.header.entry
        if entry is None:
            return self.happened.printed
        for call in reversed(self.happened.returned):
            if call.function == entry.call:
                return call.value
        raise Unknown("the call gave no plain value")

    @property
    def last(self) -> int:
        """The record at which the result is given."""
        return self.happened.returned[-1].step if self.happened.returned else len(self._trace.records) - 1

    @functools.cached_property
    def values(self) -> frozenset[Hashable]:
        """All values that names had, calls were given and gave, expressions came to on the way, and the program writes
        out, by `frozen`."""
        return frozenset(map(frozen, self._all_values())) | self._parts.keys()

    def _all_values(self) -> list[Any]:
        found = {id(value): value for moment in self.happened.moments for value in moment.names.values()}
        found |= {id(each.value): each.value for each in self.happened.returned}
        given = (dict(self.happened.given), tuple(self.happened.given.values()), *self.happened.given.values())
        literals = [node.value for node in walked(self.tree) if isinstance(node, ast.Constant)]
        inner = [value for _, value in self.steps]
        return [*given, *literals, *list(found.values())[:MOST_VALUES], *inner[:MOST_VALUES]]

    @functools.cached_property
    def constants(self) -> frozenset[Any]:
        """Numbers that the program writes out, and those that the run was given."""
        written = [node.value for node in walked(self.tree) if isinstance(node, ast.Constant)]
        return frozenset(each for each in (*written, *self.happened.given.values()) if isinstance(each, int | float))

    @functools.cached_property
    def scalars(self) -> frozenset[Any]:
        """Numbers and texts among the values, and in them, as far as `MOST_VALUES`."""
        alone = {value for value in self._all_values() if isinstance(value, int | float | str)}
        return frozenset(alone) | self.members

    @functools.cached_property
    def members(self) -> frozenset[Any]:
        """Numbers and texts that containers hold, and the characters of texts."""
        found: set[Any] = set()
        for value in self._parts.values():
            parts = (*value.keys(), *value.values()) if isinstance(value, dict) else value
            found.update(part for part in parts if isinstance(part, int | float | str))
            if len(found) > MOST_VALUES:
                break
        return frozenset(found)

    def is_distinct(self, number: Any) -> bool:
        """Return whether the run had a number, and none so near to it that a slip would give it."""
        # A reader who miscounts is off by so much.
        near = (number - slip for slip in (-3, -2, -1, 1, 2, 3)) if type(number) in (int, float) else ()
        return number in self.scalars and not any(each in self.scalars for each in near)

    @functools.cached_property
    def _parts(self) -> Mapping[Hashable, Any]:
        """Values with parts, and those in them, by `frozen`; each once."""
        found: dict[Hashable, Any] = {}
        left = list(reversed(self._all_values()))
        while left and len(found) < MOST_VALUES:
            value = left.pop()
            key = frozen(value)
            if not isinstance(value, list | tuple | set | frozenset | dict | str | range) or key in found:
                continue
            found[key] = value
            if not isinstance(value, str | range):
                parts = (*value.keys(), *value.values()) if isinstance(value, dict) else value
                left += [part for part in parts if not isinstance(part, int | float | None)][:MOST_VALUES]
        return found

    def holds_at(self, place: int, value: Any) -> bool:
        """Return whether a sequence of the run has a value at a place; negative ones count from its end."""
        return any(
            -len(each) <= place < len(each) and equal(each[place], value)
            for each in self._parts.values()
            if isinstance(each, list | tuple | str | range)
        )

    def has_place(self, place: int) -> bool:
        """Return whether a value of the run has a part at this place."""
        values = self._parts.values()
        largest = max((len(each) for each in values if not isinstance(each, set | frozenset)), default=0)
        return -largest <= place < largest

    @functools.cached_property
    def sizes(self) -> frozenset[int]:
        """How many items or characters values of the run have."""
        return frozenset(len(each) for each in self._parts.values())

    def goes(self, place: ast.expr | None, first: Any, last: Any) -> bool:
        """Return whether values go from one to another step by step: of an expression, of any name, or of a range."""
        if place is None and any(
            len(each) and each[0] == first and last in (each[-1], each.stop)
            for each in self._parts.values()
            if isinstance(each, range)
        ):
            return True
        begun = False
        for change in self.changes(place):
            begun = begun or as_told(change.before, first)
            if begun and as_told(change.after, last):
                return True
        return False

    def value_at(self, expression: ast.expr, step: int) -> tuple[Any] | None:
        """Return what an expression was at a moment, if that is known."""
        at = bisect.bisect_left(self.happened.moments, step, key=lambda moment: moment.step)
        try:
            return (evaluate(expression, self._lookup(self.happened.moments[at])),)
        except (Unknown, IndexError):
            return None

    @functools.cached_property
    def returns(self) -> list[Any]:
        """Values that the program writes out after `return`."""
        found = [node.value for node in walked(self.tree) if isinstance(node, ast.Return)]
        return [each.value for each in found if isinstance(each, ast.Constant)]

    @functools.cached_property
    def _squeezed(self) -> str:
        return "".join(self._trace.source.split())

    @functools.cached_property
    def _source_lines(self) -> frozenset[str]:
        return frozenset("".join(line.split()) for line in self._trace.source.splitlines())

    def has_line(self, line: str) -> bool:
        """Return whether a line of text is one of the program."""
        squeezed = "".join(line.split())
        return len(squeezed) > 3 and squeezed in self._source_lines

    def has_code(self, quoted: str) -> bool:
        """Return whether a piece of code stands in the program, however it is spaced."""
        squeezed = "".join(quoted.split())
        return len(squeezed) > 2 and squeezed in self._squeezed

    def has_pair(self, key: Any, value: Any) -> bool:
        """Return whether a dictionary of the run maps one to the other."""
        return any(
            isinstance(each, dict) and any(equal(one, key) and equal(other, value) for one, other in each.items())
            for each in self._parts.values()
        )

    @functools.cached_property
    def texts(self) -> str:
        """The texts among the values, one after the other, for what is quoted of them."""
        return "\n".join(each for each in self._parts.values() if isinstance(each, str))[:_MOST_QUOTED]

    @functools.cached_property
    def fragments(self) -> frozenset[str]:
        """The expressions that the program is made of, by `ast.dump`."""
        return frozenset(ast.dump(node) for node in walked(self.tree) if isinstance(node, ast.expr))

    @property
    def steps(self) -> list[tuple[int, Any]]:
        """Return the values of expressions on the way of each line, with the record before which each is worked out."""
        return self._steps[0]

    @property
    def instances(self) -> Collection[str]:
        """The expressions of the program with numbers and texts in place of names, or of all their operands."""
        return self._steps[1]

    @functools.cached_property
    def _steps(self) -> tuple[list[tuple[int, Any]], Collection[str]]:
        inner = inner_expressions(self.tree)
        seen: set[tuple[int, ...]] = set()
        found: list[tuple[int, Any]] = []
        instances: set[str] = set()
        left = MOST_EVALUATIONS
        for moment in self.happened.moments:
            lookup = self._lookup(moment)
            for number, (node, used) in enumerate(inner.get(moment.line, ())):
                # Equal values of a name are one object (`happened`), so that an expression is worked out once for each
                # set of values.
                key = (moment.line, number, *(id(moment.names.get(name)) for name in used))
                if key in seen:
                    continue
                seen.add(key)
                left -= 1
                if left < 0:
                    return found, instances
                meter = Meter()
                try:
                    found.append((moment.step, evaluate(node, lookup, meter)))
                except Unknown:
                    continue
                finally:
                    # What takes long counts as several.
                    left -= meter.used // OPERATIONS_OF_ONE
                if isinstance(node, ast.Compare | ast.BinOp | ast.Subscript | ast.Call):
                    instances.update(instances_of(node, lookup))
        return found, instances

    def look(self, expression: ast.expr, value: Any, decimals: int | None, *, after: int) -> Seen:
        """Return when an expression had a value; rather after the record `after` than before."""
        early: int | None = None
        others: list[tuple[int, Any]] = []
        whole = self.whole
        for meant in self._meant(expression):
            for step, actual in self._over_time(meant, after):
                # The expression was not worked out somewhere, so that nothing can be said of never.
                if step < 0:
                    whole = False
                elif not as_told(actual, value, decimals):
                    others.append((step, actual))
                elif step > after:
                    return Seen(step, others, whole)
                else:
                    early = step if early is None else early
        return Seen(early, others, whole and not _described(expression))

    def _over_time(self, expression: ast.expr, after: int) -> Iterator[tuple[int, Any]]:
        """The values of an expression, each once before and once after a record; -1 where one is not known."""
        bound = [name for name in free_names(expression) if name in self.names - self.functions]
        keys: set[tuple[int, ...]] = set()
        for moment in self.happened.moments:
            if any(name not in moment.names for name in bound):
                continue
            # Each set of values once before `after` and once behind it: when it was so matters to the order of a text.
            key = (*(id(moment.names[name]) for name in bound), moment.step > after)
            if key in keys:
                continue
            keys.add(key)
            self._left -= 1
            if self._left < 0:
                yield -1, None
                return
            try:
                yield moment.step, self._worked_out(expression, moment)
            except Unknown:
                yield -1, None

    def _worked_out(self, expression: ast.expr, moment: Moment) -> Any:
        meter = Meter()
        try:
            return evaluate(expression, self._lookup(moment), meter)
        finally:
            self._left -= meter.used // OPERATIONS_OF_ONE

    def _meant(self, expression: ast.expr) -> Iterator[ast.expr]:
        """The expression; or with each name that "the list" and the like may mean put in."""
        described = _described(expression)
        if not described:
            yield expression
            return
        first = min(described)
        for name in self._names_of(first):
            yield from self._meant(renamed(expression, first, name))

    def _names_of(self, description: str) -> Sequence[str]:
        if description not in self._meant_names:
            kinds = _TYPES[description]
            found = dict.fromkeys(
                name
                for moment in self.happened.moments
                for name, value in moment.names.items()
                if isinstance(value, kinds)
            )
            self._meant_names[description] = tuple(found)[:_MOST_MEANT]
        return self._meant_names[description]

    def came_to(self, value: Any, decimals: int | None, *, after: int) -> int | None:
        """A record at which some name or expression had a value: a number or a short text soon after `after` only."""
        # A long text or a list is rarely there by chance; 3 is somewhere in every run.
        if not isinstance(value, int | float) and not (isinstance(value, str) and len(value) < 3):
            wanted = frozen(value)
            for step, actual in (*self._named_values(), *self.steps):
                if frozen(actual) == wanted:
                    return step
            return None
        first = max(bisect.bisect(self.happened.moments, after, key=lambda moment: moment.step) - 1, 0)
        near = self.happened.moments[first : first + _NEAR]
        for moment in near:
            if any(as_told(actual, value, decimals) for actual in moment.names.values()):
                return moment.step
        if near:
            begin = bisect.bisect_left(self.steps, near[0].step, key=lambda each: each[0])
            end = bisect.bisect_right(self.steps, near[-1].step, key=lambda each: each[0])
            for step, actual in self.steps[begin:end]:
                if as_told(actual, value, decimals):
                    return step
        return None

    def _named_values(self) -> Iterator[tuple[int, Any]]:
        seen: set[int] = set()
        for moment in self.happened.moments:
            for value in moment.names.values():
                if id(value) not in seen:
                    seen.add(id(value))
                    yield moment.step, value
        for each in self.happened.returned:
            yield each.step, each.value

    def changes(self, place: ast.expr | None) -> Iterator[Change]:
        """Yield how an expression changed in each call; of all names if none is given."""
        if place is None or (isinstance(place, ast.Name) and place.id in _TYPES):
            yield from (change for _, change in self.happened.changes)
            return
        if isinstance(place, ast.Name):
            yield from (change for name, change in self.happened.changes if name == place.id)
            return
        last: dict[int, tuple[Any]] = {}
        worked: dict[tuple[int, ...], tuple[Any] | None] = {}
        bound = [name for name in free_names(place) if name in self.names]
        for moment in self.happened.moments:
            key = tuple(id(moment.names.get(name)) for name in bound)
            if key not in worked:
                self._left -= 1
                if self._left < 0:
                    return
                try:
                    worked[key] = (self._worked_out(place, moment),)
                except Unknown:
                    worked[key] = None
            now = worked[key]
            if now is not None:
                before = last.get(moment.frame)
                if before is not None and not equal(before[0], now[0]):
                    yield Change(moment.step, before[0], now[0])
                last[moment.frame] = now

    @property
    def loop_count(self) -> int:
        """Return how many loops the program has, comprehensions with them."""
        loops = (ast.For, ast.AsyncFor, ast.While, ast.comprehension)
        return sum(isinstance(node, loops) for node in walked(self.tree))

    @property
    def loops_are_known(self) -> bool:
        """Return whether each iteration of a loop is recorded."""
        is_told = self._trace.header.schema == schema.SCHEMA
        return is_told and self.whole and not any(isinstance(node, ast.AsyncFor) for node in walked(self.tree))

    def call(self, node: ast.Call) -> list[Returned]:
        """The calls of one of the program's functions with the arguments that an expression writes out."""
        if not isinstance(node.func, ast.Name) or node.func.id not in self.functions:
            return []
        return [
            each for each in self.happened.returned if each.function == node.func.id and _fits(node, each.arguments)
        ]

    def has_call_like(self, node: ast.Call) -> bool:
        """Return whether a function was called with the arguments that an expression writes out, and any others."""
        if not isinstance(node.func, ast.Name):
            return False
        literal = {}
        for place, each in enumerate(node.args):
            with contextlib.suppress(ValueError, TypeError):
                literal[place] = ast.literal_eval(each)
        return bool(literal) and any(
            each.function.rpartition(".")[2] == node.func.id
            and len(each.arguments) >= len(node.args)
            and all(equal(list(each.arguments.values())[place], value) for place, value in literal.items())
            for each in self.happened.returned
        )

    def _lookup(self, moment: Moment) -> Any:
        def lookup(name: str) -> Any:
            if name in moment.names:
                return moment.names[name]
            if name in self.assigned:
                raise Unknown(f"{name} has no value here")
            raise KeyError(name)

        return lookup

    @functools.cached_property
    def happened(self) -> Happened:
        """The walk over the records, made when it is asked for: claims that name their records do without."""
        return Happened(self._trace.records, self.names, self.functions, outer_names(self._trace.source))


def _described(expression: ast.expr) -> set[str]:
    return {node.id for node in walked(expression) if isinstance(node, ast.Name)} & _TYPES.keys()


def _fits(node: ast.Call, arguments: Mapping[str, Any]) -> bool:
    try:
        by_place = [ast.literal_eval(each) for each in node.args]
        by_name = {each.arg or "": ast.literal_eval(each.value) for each in node.keywords}
    except (ValueError, TypeError):
        return False
    return all(map(equal, by_place, arguments.values())) and all(
        name in arguments and equal(value, arguments[name]) for name, value in by_name.items()
    )
