"""Expressions of a text found again in the program: the same code, or that with recorded values in place of names."""

from __future__ import annotations

import ast
import bisect
import heapq
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final

from groundbox.trace.proof.records.course import Condition
from groundbox.trace.proof.records.frames import MISSING
from groundbox.trace.proof.records.ledger import Ledger
from groundbox.trace.proof.records.memory import refs
from groundbox.trace.proof.records.outcomes import Outcomes
from groundbox.trace.proof.values.bounds import Unknowable
from groundbox.trace.proof.values.code import loaded, names_in, shape
from groundbox.trace.proof.values.evaluation import evaluate, no_names
from groundbox.trace.proof.values.likeness import is_written, said_value, same
from groundbox.trace.proof.values.operators import truth
from groundbox.trace.proof.values.things import Array, Part, Thing, Written
from groundbox.trace.structure import Step

_ORDER: Final = frozenset({ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq})
_OPPOSITE: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_ALIKE: Final = {ast.Is: ast.Eq, ast.IsNot: ast.NotEq}
_FAR: Final = 300
_NEAR: Final = 40


class Matcher:
    """Looks for expressions of a text in the statements that ran."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.outcomes = Outcomes(ledger)
        self._dumps: dict[int, tuple[ast.AST, str]] = {}
        self._named: dict[int, tuple[ast.AST, frozenset[str]]] = {}
        self._texts: dict[int, tuple[ast.AST, dict[str, ast.expr]]] = {}
        self._parts: dict[int, tuple[ast.AST, list[ast.expr]]] = {}
        self._may: dict[tuple[int, int], bool] = {}

    def condition(
        self, test: ast.expr, wanted: bool, low: int, fits: Callable[[int], bool] = lambda t: True
    ) -> tuple[bool, int | None]:
        """Whether the program tests this, and the first moment from `low` on at which it does so with this result.

        Args:
            fits: Whether the test at a moment may be meant.
        """
        grounded = False
        text = self._dump(test)
        named = bool(self.names(test))
        at = bisect.bisect_left(self.ledger.course.condition_times, low)
        going_on = [condition for condition in self.going_on(low) if fits(condition.t)]
        for condition in (*going_on, *self.ledger.course.conditions[at:]):
            found = self._tested(test, text, condition, named=named)
            if found is None:
                continue
            grounded = True
            if found is wanted and fits(condition.t):
                return True, condition.t
        if not named and not grounded:
            return self._in_a_statement(test, wanted, low)
        return grounded, None

    def is_unknown(self, test: ast.expr) -> bool:
        """Whether the program tests this as a part of something, and it cannot be worked out."""
        text = self._dump(test)
        inside = [condition for condition in self.ledger.course.conditions if text in self._dump(condition.test)]
        return bool(inside) and all(self.tested(test, condition) is None for condition in inside[:50])

    def tested(self, test: ast.expr, condition: Condition) -> bool | None:
        """What the program found when it tested this, or None if it tested something else."""
        return self._tested(test, self._dump(test), condition, named=bool(self.names(test)))

    def _in_a_statement(self, test: ast.expr, wanted: bool, low: int) -> tuple[bool, int | None]:
        """A comparison that is part of another statement, such as `return a == b`."""
        if not isinstance(test, ast.Compare) or len(test.ops) != 1:
            return False, None
        for step in (*self.ledger.course.open_steps(low), *self._steps(low)):
            for part in self._expressions(step):
                if isinstance(part, ast.Compare) and len(part.ops) == 1 and step.test is None:
                    self.ledger.spend()
                    if self._compared(test, part, step.step, step.frame, step.calls):
                        return True, step.step if self._plain(test) is wanted else None
        return False, None

    def going_on(self, t: int) -> list[Condition]:
        """Tests that began before `t` and go on: a function that they call is running, or has just returned."""
        found = []
        for step in self.ledger.course.open_steps(t):
            at = bisect.bisect_left(self.ledger.course.condition_times, step.step)
            if (
                step.step < t
                and step.calls
                and at < len(self.ledger.course.conditions)
                and self.ledger.course.conditions[at].t == step.step
            ):
                found.append(self.ledger.course.conditions[at])
        return found

    def _dump(self, node: ast.expr) -> str:
        found = self._dumps.get(id(node))
        if found is None:
            found = self._dumps[id(node)] = (node, shape(node))
        return found[1]

    def names(self, node: ast.expr) -> frozenset[str]:
        """The names in an expression, remembered."""
        found = self._named.get(id(node))
        if found is None:
            found = self._named[id(node)] = (node, names_in(node))
        return found[1]

    def _tested(self, test: ast.expr, text: str, condition: Condition, *, named: bool) -> bool | None:
        """What the program found when it tested this, or None if it tested something else."""
        self.ledger.spend()
        source = condition.test
        if named:
            whole = self._dump(source)
            if whole == text:
                return condition.truth
            if (
                isinstance(source, ast.UnaryOp)
                and isinstance(source.op, ast.Not)
                and self._dump(source.operand) == text
            ):
                return not condition.truth
            return self._truth(test, condition) if text in whole else None
        if not isinstance(test, ast.Compare) or len(test.ops) != 1:
            return None
        for part in self._subexpressions(source):
            if (
                isinstance(part, ast.Compare)
                and len(part.ops) == 1
                and self._compared(test, part, condition.t, condition.frame, condition.calls)
            ):
                return self._plain(test)
        return None

    def _truth(self, test: ast.expr, condition: Condition) -> bool | None:
        try:
            return truth(self.ledger.value(test, condition.t, condition.frame, condition.calls))
        except Unknowable:
            return None

    def _plain(self, test: ast.expr) -> bool | None:
        try:
            return truth(evaluate(test, no_names))
        except Unknowable:
            return None

    def _compared(self, test: ast.Compare, part: ast.Compare, t: int, frame: int, calls: Sequence[Any] = ()) -> bool:
        """Whether a comparison of values is a comparison of the program with its values put in.

        Which of `<`, `==` and the like is asked does not matter: the values are compared, and the text is right or not.
        """
        said, own = type(test.ops[0]), type(part.ops[0])
        left, right = test.left, test.comparators[0]
        alike = (said in _ORDER and own in _ORDER) or {said, _OPPOSITE.get(said)} & {own, _ALIKE.get(own)}
        if not alike:
            return False
        first, second = part.left, part.comparators[0]
        if self._is_unknowable(first, t, frame, calls) or self._is_unknowable(second, t, frame, calls):
            return self._matches_the_known_side(test, part, t, frame, calls)
        if self._stands_for(left, first, t, frame, calls) and self._stands_for(right, second, t, frame, calls):
            return True
        return (
            said in _ORDER
            and self._stands_for(right, first, t, frame, calls)
            and self._stands_for(left, second, t, frame, calls)
        )

    def _is_unknowable(self, source: ast.expr, t: int, frame: int, calls: Sequence[Any]) -> bool:
        try:
            self.ledger.value(source, t, frame, calls)
        except Unknowable:
            return True
        return False

    def _matches_the_known_side(
        self, test: ast.Compare, part: ast.Compare, t: int, frame: int, calls: Sequence[Any]
    ) -> bool:
        """A comparison of which only one side can be worked out: that side has to agree."""
        pairs = ((test.left, part.left), (test.comparators[0], part.comparators[0]))
        known = [pair for pair in pairs if not self._is_unknowable(pair[1], t, frame, calls)]
        return len(known) == 1 and self._stands_for(*known[0], t, frame, calls)

    def is_near_miss(self, test: ast.expr, now: int) -> bool:
        """Whether the program compares one of the two values here, and with another one."""
        if not isinstance(test, ast.Compare) or len(test.ops) != 1:
            return False
        at = bisect.bisect_left(self.ledger.course.condition_times, now)
        halves = set()
        for condition in self.ledger.course.conditions[max(0, at - 1) : at + 2]:
            for part in self._subexpressions(condition.test):
                if isinstance(part, ast.Compare) and len(part.ops) == 1:
                    halves.add(self._sides(test, part, condition.t, condition.frame))
        return 1 in halves and 2 not in halves

    def _sides(self, test: ast.Compare, part: ast.Compare, t: int, frame: int) -> int:
        """How many sides of two comparisons have nearly the same value."""
        pairs = ((test.left, part.left), (test.comparators[0], part.comparators[0]))
        return sum(self._is_nearly(said, source, t, frame) for said, source in pairs)

    def _is_nearly(self, said: ast.expr, source: ast.expr, t: int, frame: int) -> bool:
        try:
            return same(self.ledger.value(said, t, frame), self.ledger.value(source, t, frame), about=True)
        except Unknowable:
            return False

    def _stands_for(self, said: ast.expr, source: ast.expr, t: int, frame: int, calls: Sequence[Any] = ()) -> bool:
        """Whether what a text writes has the value, and if it is worked out the shape, of a program's expression."""
        try:
            actual = self.ledger.value(source, t, frame, calls)
        except Unknowable:  # a literal may stand for what cannot be worked out
            if isinstance(source, ast.BinOp) or not said_value(said)[0]:
                return self._same_shape(said, source, t, frame, calls)
            return isinstance(source, ast.JoinedStr | ast.Call)
        try:
            value = self.ledger.value(said, t, frame, calls)
        except Unknowable:
            return self._same_shape(said, source, t, frame, calls)
        if not same(value, actual) or (isinstance(said, ast.BinOp) and not isinstance(source, ast.BinOp)):
            return False
        return not isinstance(said, ast.BinOp) or self._same_shape(said, source, t, frame, calls)

    def _same_shape(self, said: ast.expr, source: ast.expr, t: int, frame: int, calls: Sequence[Any]) -> bool:
        """Whether two operations agree operand by operand."""
        if isinstance(said, ast.BinOp) and isinstance(source, ast.BinOp) and type(said.op) is type(source.op):
            return self._stands_for(said.left, source.left, t, frame, calls) and self._stands_for(
                said.right, source.right, t, frame, calls
            )
        return self._dump(said) == self._dump(source)

    def _subexpressions(self, node: ast.AST) -> list[ast.expr]:
        found = self._parts.get(id(node))
        if found is None or found[0] is not node:
            parts = [part for part in ast.walk(node) if isinstance(part, ast.expr)]
            parts.extend(pair for part in list(parts) if isinstance(part, ast.Compare) for pair in _pairs(part))
            found = self._parts[id(node)] = (node, parts)
        return found[1]

    def _expressions(self, step: Step) -> list[ast.expr]:
        """What a step works out."""
        statement = step.statement
        if statement is None:
            return []
        found = self._parts.get(id(statement))
        if found is None or found[0] is not statement:
            found = self._parts[id(statement)] = (statement, list(_own(statement)))
        return found[1]

    def equation(
        self, parts: Sequence[ast.expr], low: int, now: int, *, about: bool, far: bool = False
    ) -> tuple[int, int] | tuple[()] | None:
        """Where all parts are equal: the moment and its record, an empty tuple for nowhere, None if nobody knows.

        Args:
            far: Whether it may be anywhere in the rest of the run.
        """
        plain = [part for part in parts if not self.names(part)]
        values = [value for part in plain if (value := self._number(part)) is not MISSING]
        if any(not _alike(values[0], value, about=about) for value in values[1:]):
            return ()
        known = False
        going_on = self.ledger.course.open_steps(low)
        for step in itertools.chain(going_on, (None,), self.working_out(parts[0], low, far=far)):
            if step is None:
                if len(plain) < len(parts) and self._are_equal_at(parts, now, about=about):
                    return now, now
                continue
            found = self._holds(parts, step, about=about)
            if found:
                return (max(now, step.step), step.step) if step.step <= now else (step.step, step.step)
            known = known or found is False
        if len(plain) == len(parts):
            operations = [part for part in plain if isinstance(part, ast.BinOp)]
            return (now, -1) if all(self.is_known(part, now) for part in operations) else ()
        named = self._somewhere(parts, low, now, about=about)
        if named is not None:
            return named
        return () if known else None

    def _number(self, part: ast.expr) -> Any:
        try:
            return _unmade(part, evaluate(part, no_names))
        except Unknowable:
            return MISSING

    def _steps(self, low: int) -> Iterator[Step]:
        steps = self.ledger.course.steps
        at = bisect.bisect_left(self.ledger.course.step_times, low)
        yield from steps[at : at + _FAR]

    def working_out(self, said: ast.expr, low: int, *, far: bool) -> Iterator[Step]:
        """Steps from `low` on whose statements may work out what a text says."""
        rows = [
            steps[bisect.bisect_left(steps, low, key=_begin) :]
            for statement, steps in self._by_statement.values()
            if self._may_work_out(said, statement, steps[0])
        ]
        found = heapq.merge(*rows, key=_begin)
        return found if far else itertools.islice(found, _FAR)

    def _may_work_out(self, said: ast.expr, statement: ast.stmt, step: Step) -> bool:
        key = (id(said), id(statement))
        if key not in self._may:
            named = bool(self.names(said)) and self._dump(said) in self._by_text(step)
            alike = isinstance(said, ast.Call | ast.Subscript) or not self.names(said)
            self._may[key] = named or (alike and any(_is_alike(said, source) for source in self._expressions(step)))
        return self._may[key]

    @cached_property
    def _by_statement(self) -> dict[int, tuple[ast.stmt, list[Step]]]:
        """The steps of each statement, in order."""
        found: dict[int, tuple[ast.stmt, list[Step]]] = {}
        for step in self.ledger.course.steps:
            if step.statement is not None:
                found.setdefault(id(step.statement), (step.statement, []))[1].append(step)
        return found

    def _holds(self, parts: Sequence[ast.expr], step: Step, *, about: bool) -> bool | None:
        """Whether a step works out the first part, and finds what the others say. None: it does not work it out."""
        first = parts[0]
        if self.names(first):
            source = self._by_text(step).get(self._dump(first))
            if source is not None or not isinstance(first, ast.Call | ast.Subscript):
                return self._all_equal(parts, source, step, about=about) if source is not None else None
        if not isinstance(first, ast.BinOp | ast.Call | ast.Subscript):
            return None
        known = False
        for source in self._expressions(step):
            if not _is_alike(first, source):
                continue
            self.ledger.spend()
            if self._is_put_in(first, source, step) or (
                not self.names(first) and self._stands_for(first, source, step.step, step.frame, step.calls)
            ):
                return self._all_equal(parts, source, step, about=about)
            known = known or self._is_another_call(first, source, step)
        return False if known else None

    def _is_another_call(self, said: ast.expr, source: ast.expr, step: Step) -> bool:
        """Whether a text writes a call of the program with a value that its argument does not have there."""
        if not isinstance(said, ast.Call) or not isinstance(source, ast.Call) or len(said.args) != len(source.args):
            return False
        if self._dump(said.func) != self._dump(source.func):
            return False
        for ours, own in zip(said.args, source.args, strict=True):
            known, value = said_value(ours)
            try:
                if known and not same(value, self.ledger.value(own, step.step, step.frame, step.calls)):
                    return True
            except Unknowable:
                continue
        return False

    def _is_put_in(self, said: ast.expr, source: ast.expr, step: Step) -> bool:
        return self._is_call_of(said, source, step) or self._is_item_of(said, source, step)

    def _is_call_of(self, said: ast.expr, source: ast.expr, step: Step) -> bool:
        """Whether a text writes a call of the program, with values in place of its arguments."""
        if not isinstance(said, ast.Call) or not isinstance(source, ast.Call):
            return False
        if len(said.args) != len(source.args) or self._dump(said.func) != self._dump(source.func):
            return False
        if [each.arg for each in said.keywords] != [each.arg for each in source.keywords]:
            return False
        ours, own = (
            [*said.args, *(each.value for each in said.keywords)],
            [*source.args, *(each.value for each in source.keywords)],
        )
        return all(self._is_written_for(*pair, step) for pair in zip(ours, own, strict=True))

    def _is_item_of(self, said: ast.expr, source: ast.expr, step: Step) -> bool:
        """Whether a text writes an item, with values in place of its indexes: `grid[0][2]` for `grid[row][column]`."""
        if not isinstance(said, ast.Subscript) or not isinstance(source, ast.Subscript):
            return False
        holder = self._dump(said.value) == self._dump(source.value) or self._is_item_of(said.value, source.value, step)
        bounds = [
            (each.lower, each.upper, each.step) if isinstance(each, ast.Slice) else (each,)
            for each in (said.slice, source.slice)
        ]
        return (
            holder
            and len(bounds[0]) == len(bounds[1])
            and all(
                one is other is None
                or (one is not None and other is not None and self._is_written_for(one, other, step))
                for one, other in zip(*bounds, strict=True)
            )
        )

    def _is_written_for(self, said: ast.expr, source: ast.expr, step: Step) -> bool:
        """Whether an argument is the program's own code, or its value."""
        if self._dump(said) == self._dump(source) or self._is_item_of(said, source, step):
            return True
        try:
            actual = self.ledger.value(source, step.step, step.frame, step.calls)
            known, value = said_value(said)
            return same(value if known else self.ledger.value(said, step.step, step.frame, step.calls), actual)
        except Unknowable:
            return False

    def given(self, node: ast.expr, step: Step) -> Any:
        """What an expression gave in a step: worked out, or seen by what became of it.

        Raises:
            Unknowable: Neither is possible.
        """
        source = self._by_text(step).get(self._dump(node))
        kept = self.outcomes.of(source, step) if source is not None else MISSING
        return self.ledger.value(node, step.step, step.frame, step.calls) if kept is MISSING else kept

    def _by_text(self, step: Step) -> dict[str, ast.expr]:
        """The expressions of a step by their shape."""
        statement = step.statement
        if statement is None:
            return {}
        found = self._texts.get(id(statement))
        if found is None:
            found = self._texts[id(statement)] = (
                statement,
                {self._dump(part): part for part in self._expressions(step)},
            )
        return found[1]

    def _all_equal(self, parts: Sequence[ast.expr], source: ast.expr, step: Step, *, about: bool) -> bool | None:
        given = self.outcomes.of(source, step)
        if given is not MISSING:
            return self._all_are(given, parts, source, step, about=about)
        values: list[Any] = []
        for part in parts:
            try:
                value = _unmade(part, self.ledger.value(part, step.step, step.frame, step.calls))
            except Unknowable:
                continue
            if value is not MISSING:
                values.append(value)
            if (
                isinstance(part, ast.BinOp)
                and isinstance(source, ast.BinOp)
                and not self._same_shape(part, source, step.step, step.frame, step.calls)
            ):
                return False
        if len(values) < 2:
            return None
        return all(_alike(values[0], value, about=about) for value in values[1:])

    def _all_are(
        self, given: Any, parts: Sequence[ast.expr], source: ast.expr, step: Step, *, about: bool
    ) -> bool | None:
        """Whether each part is the program's own expression, which gave `given`, or has that value."""
        for part in parts:
            if self._dump(part) == self._dump(source) or self._is_put_in(part, source, step):
                continue
            try:
                known, said = said_value(part)
                if not known and is_written(part, given):
                    continue
                value = said if known else self.ledger.value(part, step.step, step.frame, step.calls)
            except Unknowable:
                return None
            if isinstance(part, ast.BinOp) and not self._stands_for(part, source, step.step, step.frame, step.calls):
                return False
            if not _alike(given, value, about=about):
                return False
        return True

    def _are_equal_at(self, parts: Sequence[ast.expr], t: int, *, about: bool) -> bool:
        try:
            values = [self.ledger.value(part, t) for part in parts]
        except Unknowable:
            return False
        return all(_alike(values[0], value, about=about) for value in values[1:])

    def _somewhere(
        self, parts: Sequence[ast.expr], low: int, now: int, *, about: bool
    ) -> tuple[int, int] | tuple[()] | None:
        """Where the parts are equal as a state, whatever statement ran."""
        names = frozenset[str]().union(*(self.names(part) for part in parts))
        times = self.ledger.histories.moments(names)
        known = False
        begin = bisect.bisect_right(times, low)
        for t in (low, *times[begin : begin + _NEAR]):
            values = []
            for part in parts:
                self.ledger.spend()
                try:
                    value = _unmade(part, self.ledger.value(part, t))
                except Unknowable:
                    continue
                if value is not MISSING:
                    values.append(value)
            if len(values) == len(parts):
                known = True
                if all(_alike(values[0], value, about=about) for value in values[1:]):
                    return max(t, now) if t <= now else t, t
        return () if known else None

    def is_known(self, node: ast.expr, t: int) -> bool:
        """Whether every number in a plain expression is one that the run has at `t`, or the program writes."""
        numbers = [
            part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and type(part.value) in (int, float)
        ]
        unknown = [number for number in numbers if number not in (0, 1, 2)]
        if not unknown:
            return True
        have = self._numbers(t)
        return all(
            number in have or any(same(number, other, about=True) for other in have if isinstance(number, float))
            for number in unknown
        )

    def _numbers(self, t: int) -> set[float]:
        have: set[float] = set()
        tree = self.ledger.structure.syntax.tree
        for part in ast.walk(tree) if tree is not None else ():
            if isinstance(part, ast.Constant) and type(part.value) in (int, float):
                have |= {part.value, -part.value}  # type: ignore[arg-type,operator]
        for moment in (t, max(0, t - 1), *self._near(t)):
            for name in self.ledger.names:
                value = self.ledger.frames.visible(name, moment)
                _gather(self.ledger.memory.read(value, moment) if not isinstance(value, Thing) else value, have, 0)
        return have

    def _near(self, t: int) -> list[int]:
        at = bisect.bisect_right(self.ledger.course.step_times, t)
        return self.ledger.course.step_times[max(0, at - 3) : at + 3]

    def is_target(self, node: ast.expr, t: int, label: int) -> bool:
        """Whether the object that changed at `t` is the one that a text names."""
        found = self.label(node, t)
        if found is None:
            found = self.label(node, t - 1)
        return found == label

    def is_a_container(self, node: ast.expr) -> bool:
        """Whether a name ever stands for an object."""
        return any(self.label(node, t) is not None for t in self.ledger.histories.moments(names_in(node)))

    def label(self, node: ast.expr, t: int) -> int | None:
        """The label of the object that an expression stands for."""
        value = self._value(node, t)
        found = refs(value) if isinstance(value, dict) and "ref" in value else []
        return found[0] if found else None

    def _value(self, node: ast.expr, t: int) -> Any:
        if isinstance(node, ast.Name):
            value = self.ledger.frames.visible(node.id, t)
            return None if isinstance(value, Thing) else value
        if not isinstance(node, ast.Attribute | ast.Subscript):
            return None
        owner = self.label(node.value, t)
        obj = self.ledger.memory.object(owner, t) if owner is not None else None
        if obj is None:
            return None
        if isinstance(node, ast.Attribute):
            return obj.attrs.get(node.attr)
        try:
            index = self.ledger.value(node.slice, t)
        except Unknowable:
            return None
        if obj.items is not None and isinstance(index, int):
            found = obj.items.get(index if index >= 0 else index + len(obj.items))
            return found[0] if found is not None else None
        for key, value in (obj.pairs or {}).values():
            if same(index, self.ledger.memory.read(key, t)):
                return value
        return None


def _begin(step: Step) -> int:
    return step.step


def _pairs(test: ast.Compare) -> Iterator[ast.Compare]:
    """The single comparisons of `a <= b < c`."""
    if len(test.ops) > 1:
        left = test.left
        for op, right in zip(test.ops, test.comparators, strict=True):
            yield ast.Compare(left, [op], [right])
            left = right


def _own(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement's own part, those in blocks left out."""
    if isinstance(statement, ast.AugAssign):
        yield ast.BinOp(loaded(statement.target), statement.op, statement.value)
    for name, value in ast.iter_fields(statement):
        if name in ("body", "orelse", "handlers", "finalbody", "cases"):
            continue
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.AST):
                yield from (part for part in ast.walk(node) if isinstance(part, ast.expr))


def _is_alike(said: ast.expr, source: ast.expr) -> bool:
    """Whether what a text works out may be what the program works out, by their kinds alone."""
    if isinstance(said, ast.BinOp):
        return isinstance(source, ast.BinOp) and type(said.op) is type(source.op)
    return isinstance(source, ast.Call | ast.Subscript) and type(said) is type(source)


def _unmade(part: ast.expr, value: Any) -> Any:
    """MISSING for `Account()`: what it makes is not known from the call alone."""
    return MISSING if isinstance(part, ast.Call) and isinstance(value, Thing | Written) and not part.keywords else value


def _alike(left: Any, right: Any, *, about: bool) -> bool:
    if same(right, left, about=about):
        return True
    if isinstance(left, float) and isinstance(right, float | int) and not isinstance(right, bool):
        return abs(left - right) <= 1e-12 * max(abs(left), abs(right))
    return False


def _gather(value: Any, have: set[float], depth: int) -> None:
    """All numbers in a value."""
    if depth > 4 or len(have) > 5000:
        return
    if isinstance(value, int | float) and not isinstance(value, bool):
        have.add(value)
    elif isinstance(value, dict):
        for key, item in list(value.items())[:200]:
            _gather(key, have, depth + 1)
            _gather(item, have, depth + 1)
    elif isinstance(value, Thing):
        for item in value.attrs.values():
            _gather(item, have, depth + 1)
    elif isinstance(value, Part):
        _gather(list(value.shown()), have, depth + 1)
    elif isinstance(value, Array):
        _gather(value.items, have, depth + 1)
    elif hasattr(value, "__len__"):
        have.add(len(value))
        if not isinstance(value, str | bytes):
            for item in list(value)[:200]:
                _gather(item, have, depth + 1)
