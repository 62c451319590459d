"""What happened: moments with the values of names, changes, rounds of loops, calls and exceptions, read off the records
once.

A moment is where a line is about to run, or a function returns. This fold is of its own: nothing that a narrator works
out of the records is used here.
"""

from __future__ import annotations

import ast
import bisect
import contextlib
import copy
import functools
import math
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from groundbox.trace import schema
from groundbox.trace.errors import Unknown
from groundbox.trace.evaluate import Meter, evaluate
from groundbox.trace.plain import python_value
from groundbox.trace.pure import FUNCTIONS
from groundbox.trace.reading import Trace
from groundbox.trace.state import State
from groundbox.trace.syntax import parse

MOST_MOMENTS: Final = 20_000
MOST_VALUES: Final = 5_000
"""That a quoted value is compared with."""
MOST_EVALUATIONS: Final = 20_000
"""Of all claims of a text together, and again of the steps inside expressions."""
OPERATIONS_OF_ONE: Final = 100
"""What takes more counts as so many more evaluations."""
MOST_SHOWN: Final = 120
"""Characters of a value in a message."""
_LONGEST_OPERAND: Final = 100
_MOST_QUOTED: Final = 1_000_000
_NEAR: Final = 12
"""Moments after the last one told in which a number without a name is looked for."""
_MOST_MEANT: Final = 6
"""Names that "the list" and the like may mean."""
_TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    "the string": str, "the list": list, "the dictionary": dict, "the set": (set, frozenset), "the tuple": tuple,
    "any sequence": (str, list, tuple),
}  # fmt: skip


class Moment(NamedTuple):
    """Names of the frame that runs, as Python values; names whose values are not plain are left out."""

    step: int
    line: int
    names: Mapping[str, Any]
    frame: int


class Change(NamedTuple):
    """A value of an expression, and the next one that it had in the same call.

    Attributes:
        step: The first record after the change.
    """

    step: int
    before: Any
    after: Any


class Rounds(NamedTuple):
    """One run of a loop: the records at which its iterations begin."""

    line: int
    starts: list[int]


class Raised(NamedTuple):
    """An exception that came up."""

    step: int
    type: str


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
    """What one walk over the records gives.

    Attributes:
        rounds: The runs of loops, in the order in which they begin.
        changes: Names whose value changed, in order.
    """

    moments: list[Moment]
    rounds: Sequence[Rounds]
    changes: Sequence[tuple[str, Change]]
    returned: list[Returned]
    raised: list[Raised]
    calls: Counter[str]
    given: Mapping[str, Any]
    printed: str


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
        self.tree = _tree(trace.source)
        self.names = frozenset(_names(self.tree))
        self.words = self.names | {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)}
        self.assigned = frozenset(_assigned(self.tree))
        self.functions = frozenset(
            node.name for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        )
        self._left = MOST_EVALUATIONS
        self._meant_names: dict[str, Sequence[str]] = {}
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
    def calls(self) -> Counter[str]:
        """How often each of the program's functions was called."""
        return self._happened.calls

    @property
    def raised(self) -> list[Raised]:
        """Exceptions, in order."""
        return self._happened.raised

    @property
    def escaped(self) -> Raised | None:
        """The exception that ended the run."""
        return self.raised[-1] if self._trace.header.outcome == "error" and self.raised else None

    @property
    def named(self) -> frozenset[str]:
        """Names, and words for them."""
        return self.names | _TYPES.keys()

    @functools.cached_property
    def uses_xor(self) -> bool:
        """Whether the program has `^`."""
        return any(isinstance(node, ast.BitXor) for node in ast.walk(self.tree))

    @property
    def whole(self) -> bool:
        """Everything that the run did is recorded and was looked at."""
        _ = self._happened  # finds out
        return self._whole

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

    @functools.cached_property
    def values(self) -> frozenset[Hashable]:
        """All values that names had, calls were given and gave, expressions came to on the way, and the program writes
        out, by `frozen`."""
        return frozenset(map(frozen, self._all_values())) | self._parts.keys()

    def _all_values(self) -> list[Any]:
        found = {id(value): value for moment in self.moments for value in moment.names.values()}
        found |= {id(each.value): each.value for each in self.returned}
        given = (dict(self.given), tuple(self.given.values()), *self.given.values())
        literals = [node.value for node in ast.walk(self.tree) if isinstance(node, ast.Constant)]
        inner = [value for _, value in self.steps]
        return [*given, *literals, *list(found.values())[:MOST_VALUES], *inner[:MOST_VALUES]]

    @functools.cached_property
    def constants(self) -> frozenset[Any]:
        """Numbers that the program writes out, and those that the run was given."""
        written = [node.value for node in ast.walk(self.tree) if isinstance(node, ast.Constant)]
        return frozenset(each for each in (*written, *self.given.values()) if isinstance(each, int | float))

    @functools.cached_property
    def scalars(self) -> frozenset[Any]:
        """Numbers and texts among the values, and in them, as far as `MOST_VALUES`."""
        alone = {value for value in self._all_values() if isinstance(value, int | float | str)}
        return frozenset(alone) | self.members

    @functools.cached_property
    def members(self) -> frozenset[Any]:
        """Numbers and texts that containers hold, and the characters of texts."""
        found: set[Any] = set()
        for value in self._containers:
            parts = (*value.keys(), *value.values()) if isinstance(value, dict) else value
            found.update(part for part in parts if isinstance(part, int | float | str))
            if len(found) > MOST_VALUES:
                break
        return frozenset(found)

    def is_distinct(self, number: Any) -> bool:
        """Whether the run had a number, and none so near to it that a slip would give it."""
        near = (number - slip for slip in (-3, -2, -1, 1, 2, 3)) if type(number) in (int, float) else ()
        return number in self.scalars and not any(each in self.scalars for each in near)

    @property
    def _containers(self) -> Collection[Any]:
        return self._parts.values()

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
        """Whether a sequence of the run has a value at a place; negative ones count from its end."""
        return any(
            -len(each) <= place < len(each) and exactly(each[place], value)
            for each in self._containers
            if isinstance(each, list | tuple | str | range)
        )

    def has_size(self, size: int) -> bool:
        """Whether a value of the run has this many items or characters."""
        return size in self._sizes

    def has_place(self, place: int) -> bool:
        """Whether a value of the run has a part at this place."""
        return -self._largest <= place < self._largest

    @functools.cached_property
    def _sizes(self) -> frozenset[int]:
        return frozenset(len(each) for each in self._containers)

    @property
    def _largest(self) -> int:
        return max((len(each) for each in self._containers if not isinstance(each, set | frozenset)), default=0)

    def goes(self, place: ast.expr | None, first: Any, last: Any) -> bool:
        """Whether values go from one to another step by step: those of an expression, or of any name, or a range."""
        if place is None and any(
            len(each) and each[0] == first and last in (each[-1], each.stop)
            for each in self._containers
            if isinstance(each, range)
        ):
            return True
        begun = False
        for change in self.changes(place):
            begun = begun or same(change.before, first)
            if begun and same(change.after, last):
                return True
        return False

    def value_at(self, expression: ast.expr, step: int) -> tuple[Any] | None:
        """What an expression was at a moment, if that is known."""
        at = bisect.bisect_left(self.moments, step, key=lambda moment: moment.step)
        try:
            return (evaluate(expression, self._lookup(self.moments[at])),)
        except (Unknown, IndexError):
            return None

    @functools.cached_property
    def returns(self) -> list[Any]:
        """Values that the program writes out after `return`."""
        found = [node.value for node in ast.walk(self.tree) if isinstance(node, ast.Return)]
        return [each.value for each in found if isinstance(each, ast.Constant)]

    @functools.cached_property
    def _squeezed(self) -> str:
        return "".join(self._trace.source.split())

    @functools.cached_property
    def _source_lines(self) -> frozenset[str]:
        return frozenset("".join(line.split()) for line in self._trace.source.splitlines())

    def has_line(self, line: str) -> bool:
        """Whether a line of text is one of the program."""
        squeezed = "".join(line.split())
        return len(squeezed) > 3 and squeezed in self._source_lines

    def has_code(self, quoted: str) -> bool:
        """Whether a piece of code stands in the program, however it is spaced."""
        squeezed = "".join(quoted.split())
        return len(squeezed) > 2 and squeezed in self._squeezed

    def has_pair(self, key: Any, value: Any) -> bool:
        """Whether a dictionary of the run maps one to the other."""
        return any(
            isinstance(each, dict) and any(exactly(one, key) and exactly(other, value) for one, other in each.items())
            for each in self._containers
        )

    @functools.cached_property
    def texts(self) -> str:
        """The texts among the values, one after the other, for what is quoted of them."""
        return "\n".join(each for each in self._containers if isinstance(each, str))[:_MOST_QUOTED]

    @functools.cached_property
    def fragments(self) -> frozenset[str]:
        """The expressions that the program is made of, by `ast.dump`."""
        return frozenset(ast.dump(node) for node in ast.walk(self.tree) if isinstance(node, ast.expr))

    @property
    def steps(self) -> list[tuple[int, Any]]:
        """What the expressions on the way of each line came to, with the record before which they are worked out."""
        return self._steps[0]

    @property
    def instances(self) -> Collection[str]:
        """The expressions of the program with numbers and texts in place of names, or of all their operands."""
        return self._steps[1]

    @functools.cached_property
    def _steps(self) -> tuple[list[tuple[int, Any]], Collection[str]]:
        inner = _inner_expressions(self.tree)
        seen: set[tuple[int, ...]] = set()
        found: list[tuple[int, Any]] = []
        instances: set[str] = set()
        left = MOST_EVALUATIONS
        for moment in self.moments:
            lookup = self._lookup(moment)
            for number, (node, used) in enumerate(inner.get(moment.line, ())):
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
                    left -= meter.used // OPERATIONS_OF_ONE
                if isinstance(node, ast.Compare | ast.BinOp | ast.Subscript | ast.Call):
                    instances.update(_instances(node, lookup))
        return found, instances

    def look(self, expression: ast.expr, value: Any, decimals: int | None, *, after: int) -> Seen:
        """When an expression had a value; rather after the record `after` than before."""
        early: int | None = None
        others: list[tuple[int, Any]] = []
        whole = self.whole
        for meant in self._meant(expression):
            for step, actual in self._over_time(meant, after):
                if step < 0:
                    whole = False
                elif not same(actual, value, decimals):
                    others.append((step, actual))
                elif step > after:
                    return Seen(step, others, whole)
                else:
                    early = step if early is None else early
        return Seen(early, others, whole and not _is_described(expression))

    def _over_time(self, expression: ast.expr, after: int) -> Iterator[tuple[int, Any]]:
        """The values of an expression, each once before and once after a record; -1 where one is not known."""
        bound = [name for name in _free_names(expression) if name in self.names - self.functions]
        keys: set[tuple[int, ...]] = set()
        for moment in self.moments:
            if any(name not in moment.names for name in bound):
                continue
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
        described = {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)} & _TYPES.keys()
        if not described:
            yield expression
            return
        first = min(described)
        for name in self._names_of(first):
            yield from self._meant(_renamed(expression, first, name))

    def _names_of(self, description: str) -> Sequence[str]:
        if description not in self._meant_names:
            kinds = _TYPES[description]
            found = dict.fromkeys(
                name for moment in self.moments for name, value in moment.names.items() if isinstance(value, kinds)
            )
            self._meant_names[description] = tuple(found)[:_MOST_MEANT]
        return self._meant_names[description]

    def came_to(self, value: Any, decimals: int | None, *, after: int) -> int | None:
        """A record at which some name or expression had a value: a number or a short text soon after `after` only."""
        if not isinstance(value, int | float) and not (isinstance(value, str) and len(value) < 3):
            wanted = frozen(value)
            for step, actual in (*self._named_values(), *self.steps):
                if frozen(actual) == wanted:
                    return step
            return None
        first = max(bisect.bisect(self.moments, after, key=lambda moment: moment.step) - 1, 0)
        near = self.moments[first : first + _NEAR]
        for moment in near:
            if any(same(actual, value, decimals) for actual in moment.names.values()):
                return moment.step
        if near:
            begin = bisect.bisect_left(self.steps, near[0].step, key=lambda each: each[0])
            end = bisect.bisect_right(self.steps, near[-1].step, key=lambda each: each[0])
            for step, actual in self.steps[begin:end]:
                if same(actual, value, decimals):
                    return step
        return None

    def _named_values(self) -> Iterator[tuple[int, Any]]:
        seen: set[int] = set()
        for moment in self.moments:
            for value in moment.names.values():
                if id(value) not in seen:
                    seen.add(id(value))
                    yield moment.step, value
        for each in self.returned:
            yield each.step, each.value

    def changes(self, place: ast.expr | None) -> Iterator[Change]:
        """How an expression changed in each call; of all names if none is given."""
        if place is None or (isinstance(place, ast.Name) and place.id in _TYPES):
            yield from (change for _, change in self._happened.changes)
            return
        if isinstance(place, ast.Name):
            yield from (change for name, change in self._happened.changes if name == place.id)
            return
        last: dict[int, tuple[Any]] = {}
        worked: dict[tuple[int, ...], tuple[Any] | None] = {}
        bound = [name for name in _free_names(place) if name in self.names]
        for moment in self.moments:
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
                if before is not None and not exactly(before[0], now[0]):
                    yield Change(moment.step, before[0], now[0])
                last[moment.frame] = now

    @property
    def rounds(self) -> Sequence[Rounds]:
        """The runs of the program's loops, as far as they are recorded."""
        return self._happened.rounds

    @property
    def loop_count(self) -> int:
        """How many loops the program has, comprehensions with them."""
        loops = (ast.For, ast.AsyncFor, ast.While, ast.comprehension)
        return sum(isinstance(node, loops) for node in ast.walk(self.tree))

    @property
    def loops_are_known(self) -> bool:
        """Whether each iteration of a loop is recorded."""
        is_told = self._trace.header.schema == schema.SCHEMA
        return is_told and self.whole and not any(isinstance(node, ast.AsyncFor) for node in ast.walk(self.tree))

    def call(self, node: ast.Call) -> list[Returned]:
        """The calls of one of the program's functions with the arguments that an expression writes out."""
        if not isinstance(node.func, ast.Name) or node.func.id not in self.functions:
            return []
        return [each for each in self.returned if each.function == node.func.id and _fits(node, each.arguments)]

    def has_call_like(self, node: ast.Call) -> bool:
        """Whether a function was called with the arguments that an expression writes out, whatever the others were."""
        if not isinstance(node.func, ast.Name):
            return False
        literal = {}
        for place, each in enumerate(node.args):
            with contextlib.suppress(ValueError, TypeError):
                literal[place] = ast.literal_eval(each)
        return bool(literal) and any(
            each.function.rpartition(".")[2] == node.func.id
            and len(each.arguments) >= len(node.args)
            and all(exactly(list(each.arguments.values())[place], value) for place, value in literal.items())
            for each in self.returned
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
    def _happened(self) -> _Happened:
        """The fold, made when it is asked for: claims that name their records do without."""
        moments: list[Moment] = []
        rounds: list[Rounds] = []
        running: dict[tuple[int, int], Rounds] = {}
        changes: list[tuple[str, Change]] = []
        returned: list[Returned] = []
        raised: list[Raised] = []
        called: Counter[str] = Counter()
        given: Mapping[str, Any] = {}
        printed: list[str] = []
        state = State()
        held: dict[tuple[int, str], tuple[Any, int, Any]] = {}
        open_calls: dict[int, tuple[str, Mapping[str, Any]]] = {}
        mutations = 0
        for step, record in enumerate(self._trace.records):
            if isinstance(record, schema.Line | schema.Return | schema.Yield) and len(moments) < MOST_MOMENTS:
                names = self._named(state, record.f, held, mutations, step, changes)
                moments.append(Moment(step, record.n, names, record.f))
            elif isinstance(record, schema.Iteration | schema.Ended):
                _go_round(step, record, rounds, running)
            state.apply(record)
            if isinstance(record, schema.Mutate):
                mutations += 1
            elif isinstance(record, schema.Call):
                arguments = _plain(state, record.args)
                open_calls[record.f] = (record.name, arguments)
                called[record.name.rpartition(".")[2]] += 1
                if record.p == 0 and not record.body and record.name in self.functions:
                    given = arguments
            elif isinstance(record, schema.Return) and record.f in open_calls:
                name, was_given = open_calls.pop(record.f)
                for value in _plain(state, {"": record.v}).values():
                    returned.append(Returned(step, name, was_given, value))
            elif isinstance(record, schema.Raise):
                raised.append(Raised(step, record.type))
            elif isinstance(record, schema.Out) and record.s == 1:
                printed.append(record.text)
                self._whole = self._whole and not record.elided
        self._whole = self._whole and len(moments) < MOST_MOMENTS
        return _Happened(moments, rounds, changes, returned, raised, called, given, "".join(printed))

    def _named(
        self,
        state: State,
        frame: int,
        held: dict[tuple[int, str], tuple[Any, int, Any]],
        mutations: int,
        step: int,
        changes: list[tuple[str, Change]],
    ) -> dict[str, Any]:
        """The frame's names; a value that did not change is the same object as before. Adds to `changes`."""
        names = {}
        for name, raw in state.names(frame).items():
            known = held.get((frame, name))
            if known is None or known[:2] != (raw, mutations):
                try:
                    value = python_value(state, raw)
                except Unknown:
                    self._whole = self._whole and name not in self.names - self.functions
                    held.pop((frame, name), None)
                    continue
                if known is not None and exactly(known[2], value):
                    value = known[2]
                elif known is not None:
                    changes.append((name, Change(step, known[2], value)))
                held[frame, name] = known = (raw, mutations, value)
            names[name] = known[2]
        return names


def same(actual: Any, said: Any, decimals: int | None = None) -> bool:
    """Whether a value is what was said: of the same type, a number to as many digits as were given."""
    if isinstance(actual, float) and isinstance(said, int | float) and not isinstance(said, bool):
        if math.isclose(actual, said, rel_tol=1e-12) or (actual != actual and said != said):
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
    if isinstance(one, dict) and one.keys() == other.keys():
        return all(exactly(value, other[key]) for key, value in one.items())
    if isinstance(one, dict | set | frozenset) and any(key != key for key in one):  # one nan as a key, another one
        return frozen(one) == frozen(other)
    return bool(one == other) or (isinstance(one, float) and one != one and other != other)


def shown(value: Any) -> str:
    """A value as a message shows it: one that is long by its size alone."""
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python writes
        return "a number of thousands of digits"
    if len(text) <= MOST_SHOWN:
        return text
    size = f" with {len(value)} parts" if hasattr(value, "__len__") else ""
    return f"a longer {type(value).__name__}{size}"


def frozen(value: Any) -> Hashable:
    """What is equal for two values if and only if `exactly` holds of them (and their nesting is not deep)."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, float) and value != value:
        return ("nan",)
    if isinstance(value, list | tuple):
        return (type(value).__name__, *map(frozen, value))
    if isinstance(value, dict):
        return (type(value).__name__, frozenset((frozen(key), frozen(each)) for key, each in value.items()))
    if isinstance(value, set | frozenset):
        return (type(value).__name__, frozenset(map(frozen, value)))
    try:
        hash(value)
    except TypeError:
        return (type(value).__name__, repr(value))
    return value if isinstance(value, Hashable) else None


def _free_names(expression: ast.expr) -> list[str]:
    """The names that an expression takes from outside of itself."""
    names = [node for node in ast.walk(expression) if isinstance(node, ast.Name)]
    return sorted({node.id for node in names} - {node.id for node in names if isinstance(node.ctx, ast.Store)})


def _is_described(expression: ast.expr) -> bool:
    return any(isinstance(node, ast.Name) and node.id in _TYPES for node in ast.walk(expression))


def _renamed(expression: ast.expr, old: str, new: str) -> ast.expr:
    class Rename(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.Name:
            return ast.Name(new, ast.Load()) if node.id == old else node

    renamed: ast.expr = Rename().visit(copy.deepcopy(expression))
    return renamed


def _inner_expressions(tree: ast.Module) -> Mapping[int, Sequence[tuple[ast.expr, Sequence[str]]]]:
    """By line, the expressions that a statement beginning there works out, with the names they use; without those that
    stand inside a comprehension or a lambda, whose names are not the line's."""
    found: dict[int, list[tuple[ast.expr, Sequence[str]]]] = {}
    for statement in ast.walk(tree):
        if not isinstance(statement, ast.stmt) or isinstance(statement, ast.FunctionDef | ast.ClassDef):
            continue
        left: list[ast.AST] = [each for each in ast.iter_child_nodes(statement) if isinstance(each, ast.expr)]
        while left:
            node = left.pop()
            if isinstance(node, ast.expr) and not isinstance(node, ast.Name | ast.Constant):
                used = _free_names(node)
                found.setdefault(statement.lineno, []).append((node, used))
            if not isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp | ast.Lambda):
                left += [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr | ast.keyword)]
    return found


def _instances(node: ast.expr, lookup: Any) -> Iterator[str]:
    """An expression with values in place of its names, and with values in place of its operands."""

    class Put(ast.NodeTransformer):
        def __init__(self, *kinds: type[ast.expr]) -> None:
            self.kinds = kinds

        def visit(self, inner: ast.AST) -> Any:
            if inner is not node and isinstance(inner, self.kinds) and isinstance(inner, ast.expr):
                try:
                    value = evaluate(inner, lookup)
                except Unknown:
                    value = None
                if isinstance(value, int | float | str) and len(str(value)) < _LONGEST_OPERAND:
                    return ast.Constant(value)
            return self.generic_visit(inner)

    if any(isinstance(each, ast.comprehension | ast.Lambda) for each in ast.walk(node)):
        return
    for kinds in ((ast.Name,), (ast.Name, ast.Subscript), (ast.Name, ast.Subscript, ast.Call, ast.BinOp)):
        # what is visited is the copy, so that `node` is its root
        original, node = node, copy.deepcopy(node)
        yield ast.unparse(Put(*kinds).visit(node))
        node = original


def _go_round(
    step: int, record: schema.Iteration | schema.Ended, rounds: list[Rounds], running: dict[tuple[int, int], Rounds]
) -> None:
    """Note an iteration, or that a loop is over, which may have had none.

    Args:
        running: The last run of a loop that is not over, by frame and line.
    """
    key = (record.f, record.n)
    is_first = isinstance(record, schema.Iteration) and record.number == 1
    if is_first or key not in running:
        running[key] = Rounds(record.n, [])
        rounds.append(running[key])
    if isinstance(record, schema.Iteration):
        running[key].starts.append(step)
    else:
        del running[key]


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
    return parse(source) or ast.Module([], [])


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
    """What the program gives a value, and what else it names that is no function of Python's."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            if node.id not in FUNCTIONS or isinstance(node.ctx, ast.Store):
                yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
