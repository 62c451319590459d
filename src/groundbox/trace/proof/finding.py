"""For each kind of claim, the first moment from a given one on at which it holds."""

from __future__ import annotations

import ast
import bisect
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from groundbox.trace import schema
from groundbox.trace.proof.claims import (
    Answer,
    AtLine,
    Called,
    Changed,
    Claim,
    Counted,
    Equal,
    Goes,
    Grows,
    Has,
    Held,
    How,
    InIteration,
    Iterated,
    Mapped,
    Passed,
    Printed,
    Raised,
    Returned,
    Row,
    Span,
    Truth,
    Yields,
)
from groundbox.trace.proof.moments.code import Code
from groundbox.trace.proof.moments.conditions import Conditions
from groundbox.trace.proof.moments.equations import Equations
from groundbox.trace.proof.moments.identity import is_a_container, is_target, label_of
from groundbox.trace.proof.moments.numbers import is_known
from groundbox.trace.proof.moments.standing import Standing
from groundbox.trace.proof.records.course import LoopRun
from groundbox.trace.proof.records.deltas import Delta, deltas
from groundbox.trace.proof.records.histories import Entry
from groundbox.trace.proof.records.ledger import Ledger
from groundbox.trace.proof.records.scene import is_called
from groundbox.trace.proof.values.bounds import Unknowable
from groundbox.trace.proof.values.code import names_in, shape
from groundbox.trace.proof.values.comprehensions import Bound, Comprehension, found_in
from groundbox.trace.proof.values.evaluation import evaluate, no_names
from groundbox.trace.proof.values.likeness import EMPTY, is_gap, is_written, listed, said_value, same
from groundbox.trace.proof.values.operators import truth
from groundbox.trace.structure import Activation, Step


class Hit(NamedTuple):
    """A moment at which a claim holds.

    Attributes:
        t: Where the narration has come to with it.
        step: The record that shows it, or -1 for plain arithmetic.
    """

    t: int
    step: int


class Uncheckable(Exception):
    """Nothing in the trace can say whether the claim holds; the message says why."""


_NOWHERE: Final = ()
_FEW: Final = 3
"""Steps that are looked at for a statement that is told where it runs."""


class Finder:
    """Finds moments in one ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.code = Code(ledger)
        standing = Standing(ledger, self.code)
        self.conditions = Conditions(ledger, self.code, standing)
        self.equations = Equations(ledger, self.code, standing)
        self._changes: Sequence[Delta] | None = None
        self._found: dict[tuple[Claim, int, int, int], Hit | Uncheckable | tuple[()]] = {}

    def find(self, claim: Claim, low: int, now: int, after: int) -> Hit | None:
        """The first moment from `low` on.

        Args:
            low: From where on to look.
            now: Where the sentence has come to.
            after: A change must come after this record, which an earlier claim of the same name has taken.

        Raises:
            Uncheckable: The trace cannot say.
            Exhausted: Too much work was done already.
        """
        key = (claim, low, now, after)
        found = self._found.get(key)
        if found is None:
            try:
                found = _FINDERS[type(claim)](self, claim, low, now, after) or _NOWHERE
            except Uncheckable as why:
                found = why
            self._found[key] = found
        if isinstance(found, Uncheckable):
            raise found
        return found if isinstance(found, Hit) else None

    def also_taken(self, claim: Claim, hit: Hit) -> list[str]:
        """Names whose change at this record is told with the claim: parameters of a call, a list that grew."""
        record = self._record(hit.step)
        if isinstance(claim, Changed) and isinstance(claim.target, ast.Name) and isinstance(record, schema.Mutate):
            return [shape(claim.target)]
        return [shape(ast.Name(name)) for name in record.args] if isinstance(record, schema.Call) else []

    def beginning(self, t: int) -> int:
        """Where the step began that record `t` belongs to: what one line did may be told in any order."""
        record = self._record(t)
        if not isinstance(record, schema.Set | schema.Mutate | schema.Return | schema.Yield):
            return t
        step = self.ledger.course.step_of(t)
        return step.step if step is not None and step.step <= t <= step.last else t

    def _has(self, claim: Has, low: int, now: int, after: int) -> Hit | None:
        if isinstance(claim.subject, ast.Name) and claim.subject.id not in self.ledger.names:
            return None
        if claim.how is How.BECOMES:
            return self._becomes(claim, low, after)
        says = self._sayer(claim.value, about=claim.about)
        wanted = claim.how is not How.IS_NOT
        if isinstance(claim.subject, ast.Call) and (hit := self._called_value(claim, says, low, now)) is not None:
            return hit

        def holds(t: int) -> bool:
            actual = self.ledger.value(claim.subject, t)
            return says(actual, t) is wanted

        ended = isinstance(self._record(now), schema.Return | schema.Yield)
        begin = low if claim.reason or claim.recap or ended else max(low, now)
        return self._first(names_in(claim.subject) | names_in(claim.value), begin, holds)

    def _called_value(self, claim: Has, says: Callable[[Any, int], bool], low: int, now: int) -> Hit | None:
        """What a call gave in a step that goes on, or in the next one."""
        steps = self.code.working_out(claim.subject, 0, far=True) if claim.recap else self._told_now(low, now)
        for step in steps:
            try:
                actual = self.equations.given(claim.subject, step)
                if says(actual, step.step) is (claim.how is not How.IS_NOT):
                    return Hit(max(now, step.step), step.step)
            except Unknowable:
                continue
        return None

    def _mapped(self, claim: Mapped, low: int, now: int, after: int) -> Hit | None:
        """What became of the items of a comprehension, worked out again."""

        def holds(holder: Comprehension, clause: ast.comprehension, step: Step) -> bool | None:
            if shape(holder.elt) != shape(claim.code) or len(claim.items) != len(claim.values):
                return None
            made = [self._for_item(claim.code, clause, self._item(item, step.step), step) for item in claim.items]
            pairs = zip(claim.values, made, strict=True)
            return all(is_written(node, one) or same(self._item(node, step.step), one) for node, one in pairs)

        return self._in_a_comprehension(claim, holds, low, now)

    def _passed(self, claim: Passed, low: int, now: int, after: int) -> Hit | None:
        """Which items a comprehension kept."""

        def holds(holder: Comprehension, clause: ast.comprehension, step: Step) -> bool | None:
            if not clause.ifs or shape(_joined(clause.ifs)) != shape(claim.test):
                return None
            through = self.ledger.value(clause.iter, step.step, step.frame, step.calls)
            if not same(self.ledger.value(claim.through, step.step, step.frame, step.calls), through):
                return False
            kept = [item for item in through if truth(self._for_item(claim.test, clause, item, step))]
            said = through if claim.items is None else [self._item(node, step.step) for node in claim.items]
            return same(list(said), kept)

        return self._in_a_comprehension(claim, holds, low, now)

    def _in_a_comprehension(
        self, claim: Claim, holds: Callable[[Comprehension, ast.comprehension, Step], bool | None], low: int, now: int
    ) -> Hit | None:
        unknown = ""
        for step in self.ledger.course.steps if claim.recap else self._told_now(low, now):
            for holder, clause in found_in(step.statement):
                try:
                    if holds(holder, clause, step):
                        return Hit(max(now, step.step), step.step)
                except Unknowable as why:
                    unknown = str(why)
        if unknown:
            raise Uncheckable(unknown)
        return None

    def _told_now(self, low: int, now: int) -> Iterator[Step]:
        """The steps that a sentence may tell that has come to `now`: those that go on, and the next ones."""
        yield from self.ledger.course.open_steps(now)
        for t in dict.fromkeys((low, now)):
            at = bisect.bisect_left(self.ledger.course.step_times, t)
            yield from self.ledger.course.steps[at : at + _FEW]

    def _for_item(self, code: ast.expr, clause: ast.comprehension, item: Any, step: Step) -> Any:
        assert isinstance(clause.target, ast.Name)
        self.ledger.spend()
        lookup = self.ledger.lookup(step.step, step.frame, step.calls)
        return evaluate(code, Bound(lookup, {clause.target.id: item}))

    def _record(self, t: int) -> Any:
        return self.ledger.records[t] if 0 <= t < len(self.ledger.records) else None

    def _sayer(self, node: ast.expr, *, about: bool) -> Callable[[Any, int], bool]:
        """Whether an actual value at a moment is the one that the text says."""
        known, said = said_value(node)
        if known:
            return lambda actual, t: same(said, actual, about=about)
        return lambda actual, t: is_written(node, actual) or same(self.ledger.value(node, t), actual, about=about)

    def _first(self, names: frozenset[str], low: int, holds: Callable[[int], bool]) -> Hit | None:
        """The first moment from `low` on at which something over these names holds."""
        times = self.ledger.histories.moments(names - {EMPTY})
        knowable = False
        for t in (low, *times[bisect.bisect_right(times, low) :]):
            self.ledger.spend()
            try:
                if holds(t):
                    return Hit(t, self._shown(names, t))
                knowable = True
            except Unknowable:
                continue
        if not knowable and not self._known_anywhere(names, holds, times, low):
            raise Uncheckable("it cannot be worked out from the trace")
        return None

    def _known_anywhere(
        self, names: frozenset[str], holds: Callable[[int], bool], times: Sequence[int], low: int
    ) -> bool:
        for t in times[: bisect.bisect_right(times, low)]:
            self.ledger.spend()
            try:
                holds(t)
            except Unknowable:
                continue
            return True
        return False

    def _shown(self, names: frozenset[str], t: int) -> int:
        times = self.ledger.histories.moments(names)
        at = bisect.bisect_right(times, t) - 1
        return times[at] if at >= 0 else t

    def _becomes(self, claim: Has, low: int, after: int) -> Hit | None:
        says = self._sayer(claim.value, about=claim.about)
        entries = self.ledger.histories.of(claim.subject)
        if not entries and not self._exists(claim.subject):
            raise Uncheckable("it cannot be worked out from the trace")
        for entry in _from(entries, low, after):
            self.ledger.spend()
            try:
                if says(entry.new, entry.t):
                    return Hit(entry.t, entry.t)
            except Unknowable:
                continue
        return None

    def _exists(self, subject: ast.expr) -> bool:
        """Whether the text may speak of it: a name that the program has, or a thing that could be worked out."""
        return isinstance(subject, ast.Name) or bool(self.ledger.histories.moments(names_in(subject)))

    def _goes(self, claim: Goes, low: int, now: int, after: int) -> Hit | None:
        if claim.subject is None:
            return self._some_name_goes(claim, low)
        values = [said_value(value) for value in claim.values]
        if isinstance(claim.subject, ast.Tuple):
            return self._tuple_goes(claim, [value for _, value in values], low)
        entries = self.ledger.histories.of(claim.subject)
        for at, entry in enumerate(entries):
            if entry.t < low or entry.t <= after:
                continue
            end = self._sequence(entries, at, claim, values)
            if end is not None and self._by_so_much(claim, end):
                return Hit(end.t, entry.t)
        return None

    def _said(self, said: tuple[bool, Any], node: ast.expr, t: int, actual: Any, *, about: bool) -> bool:
        try:
            return is_written(node, actual) or same(
                said[1] if said[0] else self.ledger.value(node, t), actual, about=about
            )
        except Unknowable:
            return False

    def _sequence(
        self, entries: Sequence[Entry], at: int, claim: Goes, values: Sequence[tuple[bool, Any]]
    ) -> Entry | None:
        """The last entry of the run of entries from `at` on that has these values, one after the other."""
        entry = entries[at]
        wanted = list(zip(values, claim.values, strict=True))
        if claim.first_is_old:
            (said, node), *wanted = wanted
            if not self._said(said, node, entry.t - 1, entry.old, about=claim.about):
                return None
            if claim.whole:
                return self._eventually(entries, at, wanted[-1], about=claim.about)
        frame, last = entry.frame, None
        position = at
        for said, node in wanted:
            while position < len(entries) and (
                entries[position].frame != frame or (last is not None and not entries[position].told)
            ):
                position += 1
            if position >= len(entries):
                return None
            self.ledger.spend()
            if not self._said(said, node, entries[position].t, entries[position].new, about=claim.about):
                return None
            last = entries[position]
            position += 1
        return last

    def _by_so_much(self, claim: Goes, entry: Entry) -> bool:
        """Whether the last change is as large as the text says."""
        if claim.by is None:
            return True
        step = self.ledger.course.step_of(entry.t)
        for t in (entry.t - 1, step.step if step is not None else entry.t):
            try:
                amount = self.ledger.value(claim.by, t)
                if claim.sign > 0 and (same(entry.new, entry.old + amount) or same(entry.old + amount, entry.new)):
                    return True
                if claim.sign < 0 and same(entry.new, entry.old - amount):
                    return True
            except (Unknowable, TypeError, ArithmeticError):
                continue
        return False

    def _eventually(
        self, entries: Sequence[Entry], at: int, wanted: tuple[tuple[bool, Any], ast.expr], *, about: bool
    ) -> Entry | None:
        said, node = wanted
        for entry in entries[at:]:
            if entry.frame == entries[at].frame and self._said(said, node, entry.t, entry.new, about=about):
                return entry
        return None

    def _tuple_goes(self, claim: Goes, values: Sequence[Any], low: int) -> Hit | None:
        """Several names at once: `(left, right): (0, 6) → (1, 5)`."""
        assert isinstance(claim.subject, ast.Tuple)
        t = low
        for value in values:
            found = self._first(names_in(claim.subject), t, self._has_at(claim.subject, value))
            if found is None:
                return None
            t = found.t
        return Hit(t, t)

    def _has_at(self, node: ast.expr, value: Any) -> Callable[[int], bool]:
        return lambda t: same(value, self.ledger.value(node, t))

    def _some_name_goes(self, claim: Goes, low: int) -> Hit | None:
        values = [said_value(value)[1] for value in claim.values]
        for name in sorted(self.ledger.names - self.ledger.functions):
            entries = [entry for entry in self.ledger.histories.of(ast.Name(name)) if entry.told and entry.t >= low]
            for at in range(len(entries) - len(values) + 1):
                self.ledger.spend()
                run = entries[at : at + len(values)]
                if all(same(value, entry.new) for value, entry in zip(values, run, strict=True)):
                    return Hit(run[-1].t, run[0].t)
        return None

    def _grows(self, claim: Grows, low: int, now: int, after: int) -> Hit | None:
        for entry in _from(self.ledger.histories.of(claim.subject), low, after):
            self.ledger.spend()
            try:
                amount = self.ledger.value(claim.amount, entry.t - 1)
                if same(entry.new, entry.old + amount * claim.sign) or same(entry.old, entry.new - amount * claim.sign):
                    return Hit(entry.t, entry.t)
            except (Unknowable, TypeError, ArithmeticError):
                continue
        return None

    def _truth(self, claim: Truth, low: int, now: int, after: int) -> Hit | None:
        hit = self._found_truth(claim, low, now)
        return hit if hit is None or self._fits(claim, hit.t) else None

    def _fits(self, claim: Truth, t: int) -> bool:
        """Whether the values that the sentence said before are there at `t`, or after the calls of a test at `t`."""
        at = bisect.bisect_left(self.ledger.course.condition_times, t)
        test = (
            self.ledger.course.conditions[at : at + 1] if t in self.ledger.course.condition_times[at : at + 1] else ()
        )
        over = max((call.last for condition in test for call in condition.calls), default=t)
        return all(self._still(given, t) or (over > t and self._still(given, over)) for given in claim.given)

    def _still(self, given: Has, t: int) -> bool:
        try:
            return self._sayer(given.value, about=given.about)(self.ledger.value(given.subject, t), t)
        except Unknowable:
            return True

    def _found_truth(self, claim: Truth, low: int, now: int) -> Hit | None:
        if claim.test is None:
            return self._next_condition(claim, now)
        grounded, hit = self.conditions.first(claim.test, claim.truth, low, lambda t: self._fits(claim, t))
        if grounded:
            return Hit(hit, hit) if hit is not None else None
        names = names_in(claim.test)
        if isinstance(claim.test, ast.Compare) and isinstance(claim.test.ops[0], ast.Is):
            return self._is_same_object(claim, claim.test, low)
        if not names:
            return self._plain_truth(claim.test, claim.truth, low, now)
        if self.conditions.is_unknown(claim.test):
            raise Uncheckable("a part of a condition that cannot be worked out")

        def holds(t: int) -> bool:
            assert claim.test is not None
            return truth(self.ledger.value(claim.test, t)) is claim.truth and self._fits(claim, t)

        return self._first(names, low, holds)

    def _is_same_object(self, claim: Truth, test: ast.Compare, low: int) -> Hit | None:
        wanted = claim.truth
        times = self.ledger.histories.moments(names_in(test))
        for t in (low, *times[bisect.bisect_right(times, low) :]):
            self.ledger.spend()
            if not self._fits(claim, t):
                continue
            labels = [label_of(self.ledger, node, t) for node in (test.left, test.comparators[0])]
            if None in labels:
                try:
                    if truth(self.ledger.value(test, t)) is wanted:
                        return Hit(t, t)
                except Unknowable:
                    continue
            elif (labels[0] == labels[1]) is wanted:
                return Hit(t, t)
        return None

    def _next_condition(self, claim: Truth, now: int) -> Hit | None:
        going_on = self.conditions.going_on(now)
        if going_on and going_on[0].truth is claim.truth:
            return Hit(now, going_on[0].t)
        times = self.ledger.course.condition_times
        at = bisect.bisect_left(times, now)
        step = self.ledger.course.step_of(now)
        if step is not None and step.step in times[max(0, at - 1) : at]:
            at -= 1
        if at < len(times) and self.ledger.course.conditions[at].truth is claim.truth:
            return Hit(times[at], times[at])
        return None

    def _all_true(self, test: ast.BoolOp, low: int, now: int) -> Hit | None:
        """`0 != 4 and 0 < 7`, each of which is found by itself."""
        hits = [
            self._found_truth(Truth(start=0, end=0, sentence=0, test=part, truth=True), low, now)
            for part in test.values
        ]
        found = [hit for hit in hits if hit is not None]
        return max(found) if len(found) == len(hits) else None

    def _plain_truth(self, test: ast.expr, wanted: bool, low: int, now: int) -> Hit | None:
        try:
            actual = truth(evaluate(test, no_names))
        except Unknowable:
            raise Uncheckable("it cannot be worked out") from None
        if actual is wanted and isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            return self._all_true(test, low, now)
        fits = actual is wanted and is_known(self.ledger, test, now) and not self.conditions.is_near_miss(test, now)
        return Hit(now, -1) if fits else None

    def _called(self, claim: Called, low: int, now: int, after: int) -> Hit | None:
        for activation in self.ledger.course.activations:
            if (
                activation.first >= low
                and activation.first > after
                and is_called(activation, claim.function)
                and self._given(claim, activation)
            ):
                return Hit(activation.first, activation.first)
        return None

    def _given(self, claim: Called | Returned, activation: Activation) -> bool:
        """Whether the arguments are those of an activation."""
        if claim.arguments is None:
            return True
        self.ledger.spend()
        params = [
            name for name in activation.args if not (name in ("self", "cls") and next(iter(activation.args)) == name)
        ]
        if len([name for name, _ in claim.arguments if name is None]) == len(activation.args):
            params = list(activation.args)  # a method called with its object, as `Node.show(node)`
        if isinstance(claim, Called) and not claim.whole:
            pass
        elif len([name for name, _ in claim.arguments if name is None]) > len(params):
            return False
        positional = iter(params)
        for name, node in claim.arguments:
            key = name if name is not None else next(positional, None)
            if key is None or key not in activation.args:
                return False
            actual = self.ledger.memory.read(activation.args[key], activation.first)
            if (isinstance(node, ast.Name) and node.id == key) or is_gap(node):
                continue  # `f(graph, 1)`, where the value is too long to be shown
            known, said = said_value(node)
            try:
                value = said if known else self.ledger.value(node, activation.first - 1)
            except Unknowable:
                continue
            if not same(value, actual):
                return False
        return True

    def _returned(self, claim: Returned, low: int, now: int, after: int) -> Hit | None:
        if claim.yields:
            found = self._yielded(claim, low, after)
            if found is not None:
                return found
        says = self._sayer(claim.value, about=claim.about)
        for activation in self.ledger.course.returns:
            if activation.last < low or not self._may_return(claim, activation):
                continue
            if activation.last <= after and activation is not self.ledger.entry:  # the result may be told twice
                continue
            self.ledger.spend()
            try:
                if says(self.ledger.memory.read(activation.value, activation.last), activation.last - 1):
                    return Hit(activation.last, activation.last)
            except Unknowable:
                raise Uncheckable("the value cannot be worked out") from None
        return None if claim.yields else self._yielded(claim, low, after)

    def _may_return(self, claim: Returned, activation: Activation) -> bool:
        if claim.function is None:
            return activation.name != "<module>" and not activation.class_body
        return is_called(activation, claim.function) and self._given(claim, activation)

    def _yielded(self, claim: Returned, low: int, after: int) -> Hit | None:
        says = self._sayer(claim.value, about=claim.about)
        for t in self.ledger.yields:
            record = self.ledger.records[t]
            assert isinstance(record, schema.Yield)
            activation = self.ledger.structure.activations.get(record.f)
            if (
                t < low
                or t <= after
                or activation is None
                or (claim.function is not None and not is_called(activation, claim.function))
            ):
                continue
            self.ledger.spend()
            try:
                if says(self.ledger.memory.read(record.v, t), t):
                    return Hit(t, t)
            except Unknowable:
                continue
        return None

    def _iterated(self, claim: Iterated, low: int, now: int, after: int) -> Hit | None:
        fitting = self.ledger.course.loops if claim.recap else self._loops_at(claim, low, now, after)
        for run in fitting:
            if claim.recap and not _is_meant(claim, run):
                continue
            if run.loop.count == claim.count:
                return Hit(max(now, run.end) if claim.ends else now, run.start)
        return None

    def _loops_at(self, claim: Iterated, low: int, now: int, after: int) -> Iterator[LoopRun]:
        """The loops that a text may mean: the one that ends next, or else those around, before and after."""
        fitting = [run for run in self.ledger.course.loops if _is_meant(claim, run)]
        if claim.ends:
            ending = sorted(
                (run for run in fitting if run.start <= now <= run.end and run.end > after),
                key=lambda run: (run.end, -run.depth),
            )
            coming = sorted((run for run in fitting if run.end >= max(low, after + 1)), key=lambda run: run.end)
            yield from (*ending, *coming[:1])
            return
        around = [run for run in fitting if run.start <= now and run.end >= low]
        before = [run for run in fitting if run.end <= now][-1:]
        coming = [run for run in fitting if run.start >= now and run not in around][:2]
        following = [run for run in fitting if run.start >= low][:1]
        yield from (*reversed(around), *coming, *following, *before)

    def _in_iteration(self, claim: InIteration, low: int, now: int, after: int) -> Hit | None:
        if claim.exit:
            for run in self.ledger.course.loops:
                if run.end >= low and run.loop.exit in ("break", "return", "raise") and run.loop.count == claim.number:
                    return Hit(max(now, low), run.end)
            return None
        going_on = {step.step for step in self.ledger.course.open_steps(now) if step.calls}
        for run in self.ledger.course.loops:  # its test called a function, which was told first
            if self.begins(run, claim.number) in going_on:
                return Hit(now, run.start)
        begins = [
            t
            for run in self._around(now)
            if (t := self.begins(run, claim.number)) is not None and t >= low and t > after
        ]
        if begins:
            return Hit(min(begins), min(begins))
        at = bisect.bisect_left(self.ledger.course.iterations, (low, -1))
        for t, number in self.ledger.course.iterations[at:]:
            if number == claim.number and t > after:
                return Hit(t, t)
        return self._around_iteration(claim.number, now)

    def _span(self, claim: Span, low: int, now: int, after: int) -> Hit | None:
        """The loop whose iterations these are: hit at the first of them."""
        fitting = [run for run in self._around(now) if run.loop.count >= claim.finish]
        begins_ = [t for run in fitting if (t := self.begins(run, claim.begin)) is not None and t >= low]
        if begins_:
            return Hit(min(begins_), min(begins_))
        for run in self.ledger.course.loops:
            begins = self.begins(run, claim.begin)
            if begins is not None and begins >= low and run.loop.count >= claim.finish:
                return Hit(begins, begins)
            if begins is not None and run.start <= now <= run.end and run.loop.count >= claim.finish:
                return Hit(now, begins)
        return None

    def spans(self, claim: Span) -> Iterator[tuple[int, int]]:
        """Beginning and end of every run of iterations that a text which looks back may mean."""
        for run in self.ledger.course.loops:
            begins = self.begins(run, claim.begin)
            if begins is not None and run.loop.count >= claim.finish:
                yield begins, self.span_end(claim, begins)

    def _around(self, now: int) -> list[LoopRun]:
        """The loops that are going on."""
        return [run for run in self.ledger.course.loops if run.start <= now <= run.end]

    def end_of(self, claim: Claim, hit: Hit, low: int) -> int:
        """When what a claim tells as a whole is over: a loop that begins from `low` on, a call; else -1."""
        if isinstance(claim, Returned):
            return hit.t
        if not isinstance(claim, Iterated) or hit.step < low:
            return -1
        return max((run.end for run in self.ledger.course.loops if run.start == hit.step), default=-1)

    def span_end(self, claim: Span, start: int) -> int:
        """The last record of the last iteration of a span that begins at `start`."""
        for run in self.ledger.course.loops:
            if self.begins(run, claim.begin) == start:
                following = self.begins(run, claim.finish + 1)
                return following if following is not None else run.end
        return len(self.ledger.records)

    def iteration_at(self, t: int) -> tuple[int, int] | None:
        """Beginning and end of the iteration that begins at `t`."""
        for run in self.ledger.course.loops:
            if run.start <= t <= run.end:
                for iteration in run.loop.iterations:
                    if self.begins(run, iteration.number) == t:
                        following = self.begins(run, iteration.number + 1)
                        return t, run.end if following is None else following
        return None

    def begins(self, run: LoopRun, number: int) -> int | None:
        """When an iteration began; of one that ran without records, where that is said."""
        for iteration in run.loop.iterations:
            if iteration.number == number:
                first = iteration.header or next((node for node in iteration.body if isinstance(node, Step)), None)
                return first.step if first is not None else None
        folds = (fold for fold in run.loop.folds if fold.after < number <= fold.after + fold.iterations)
        return next((fold.record for fold in folds), None)

    def _held(self, claim: Held, low: int, now: int, after: int) -> Hit | None:
        """Counted over the iterations of the sentence's span, which begin at `low` and end before `after`."""
        end = after if after > low else len(self.ledger.records)
        found: dict[int, list[bool]] = {}
        frame = getattr(self._record(low), "f", None)
        for condition in self.ledger.course.conditions:
            if low <= condition.t < end and condition.frame == frame:
                held = self.conditions.tested(claim.test, condition)
                if held is not None:
                    found.setdefault(id(condition.test), []).append(held)
        if not found:
            raise Uncheckable("it is not tested there")
        for times in found.values():  # the same words may stand in several tests
            count = sum(held is claim.truth for held in times)
            if count == (len(times) if claim.count is None else claim.count) and claim.total in (None, len(times)):
                return Hit(now, low)
        return None

    def _around_iteration(self, number: int, now: int) -> Hit | None:
        """The iteration that is going on already."""
        for run in self.ledger.course.loops:
            if run.start <= now <= run.end:
                begun = [i for i in run.loop.iterations if i.header is not None and i.header.step <= now]
                if begun and begun[-1].number == number:
                    return Hit(now, run.start)
        return None

    def _counted(self, claim: Counted, low: int, now: int, after: int) -> Hit | None:
        calls = [a for a in self.ledger.course.activations if a.name != "<module>" and not a.class_body]
        if claim.what == "calls":
            name = claim.function
            fitting = [a for a in calls if name is None or is_called(a, name)]
            return Hit(now, fitting[0].first) if len(fitting) == claim.count and fitting else None
        deepest: dict[str, int] = {}
        for activation in calls:
            depth, above = 1, activation
            while above.parent in self.ledger.structure.activations:
                above = self.ledger.structure.activations[above.parent]
                depth += above.name == activation.name
            deepest[activation.name] = max(deepest.get(activation.name, 0), depth)
        return Hit(now, 0) if claim.count in deepest.values() else None

    def _at_line(self, claim: AtLine, low: int, now: int, after: int) -> Hit | None:
        at = bisect.bisect_right(self.ledger.course.step_times, low)
        around = self.ledger.course.step_of(low)
        for step in (*([around] if around is not None else []), *self.ledger.course.steps[at:]):
            if _is_line(step, self.ledger, claim.line):
                return Hit(now, step.step)
        return None

    def _changed(self, claim: Changed, low: int, now: int, after: int) -> Hit | None:
        if self._changes is None:
            self._changes = deltas(self.ledger)
        if (
            claim.target is not None
            and claim.item is not None
            and (hit := self._as_number(claim, low, now, after)) is not None
        ):
            return hit
        checked = False
        open_ = self.ledger.course.open_steps(now)[:1]
        if open_ and open_[0].calls:  # what this line changed before it called a function, which was told first
            low = min(low, open_[0].step)
        for change in self._changes:
            if change.t < low or change.t <= after:
                continue
            self.ledger.spend()
            if claim.target is not None and not is_target(self.ledger, claim.target, change.t, change.label):
                continue
            checked = True
            if self._is_change(claim, change):
                return Hit(change.t, change.t)
        if claim.target is not None and (hit := self._in_a_new_one(claim, low)) is not None:
            return hit
        if not checked and claim.target is not None and not is_a_container(self.ledger, claim.target):
            raise Uncheckable("no object is known by that name")
        return None

    def _in_a_new_one(self, claim: Changed, low: int) -> Hit | None:
        """An item of an object that was made in this very line, so that no record tells its change."""
        if claim.action != "add" or claim.target is None or claim.item is None:
            return None
        for entry in _from(self.ledger.histories.of(claim.target), low, -1):
            if isinstance(entry.new, list | dict | set | deque):
                old = entry.old if isinstance(entry.old, list | dict | set | deque) else ()
                item = self._item(claim.item, entry.t)
                if any(same(item, each) for each in entry.new) and not any(same(item, each) for each in old):
                    return Hit(entry.t, entry.t)
        return None

    def _as_number(self, claim: Changed, low: int, now: int, after: int) -> Hit | None:
        """`5 is added to total`, where that is a number."""
        if claim.action not in ("add",) or claim.target is None or claim.item is None:
            return None
        known = any(self._is_number(claim.target, t) for t in (low, now))
        if not known and not (
            claim.recap and any(_is_number(each.new) for each in self.ledger.histories.of(claim.target))
        ):
            return None
        grows = Grows(
            start=claim.start, end=claim.end, sentence=claim.sentence, subject=claim.target, amount=claim.item
        )
        return self._grows(grows, low, low, after)

    def _is_number(self, node: ast.expr, t: int) -> bool:
        try:
            return _is_number(self.ledger.value(node, t))
        except Unknowable:
            return False

    def _is_change(self, claim: Changed, change: Delta) -> bool:
        if claim.action == "swap":
            pair = [self._item(node, change.t - 1) for node in (claim.item, claim.other) if node is not None]
            return len(pair) == 2 and change.is_swap(*pair)
        items = change.added if claim.action == "add" else change.removed
        if claim.item is None:
            return bool(items)
        if any(not any(same(self._item(node, change.t - 1), other) for other in items) for node in claim.more):
            return False
        item = self._item(claim.item, change.t - 1)
        return any(
            same(item, other) or (isinstance(other, tuple) and any(same(item, part) for part in other))
            for other in items
        )

    def _item(self, node: ast.expr, t: int) -> Any:
        known, said = said_value(node)
        if known:
            return said
        try:
            return self.ledger.value(node, t)
        except Unknowable:
            return object()

    def _yields(self, claim: Yields, low: int, now: int, after: int) -> Hit | None:
        known, said = said_value(claim.value)
        if not known:
            raise Uncheckable("the value cannot be worked out")
        for t in range(low, len(self.ledger.records)):
            value = _new_value(self.ledger.records[t])
            if value is None:
                continue
            self.ledger.spend()
            if same(said, self.ledger.memory.read(value[0], t), about=claim.about):
                return Hit(t, t)
        return None

    def _row(self, claim: Row, low: int, now: int, after: int) -> Hit | None:
        names = frozenset[str]().union(*(names_in(cell.subject) | names_in(cell.value) for cell in claim.cells))
        sayers = [(cell.subject, self._sayer(cell.value, about=cell.about)) for cell in claim.cells]
        return self._first(
            names, low, lambda t: all(says(self.ledger.value(subject, t), t) for subject, says in sayers)
        )

    def _printed(self, claim: Printed, low: int, now: int, after: int) -> Hit | None:
        said = claim.text.strip("\n")
        if claim.whole:
            printed = [line.rstrip() for line in self.ledger.stdout.strip().splitlines()]
            return Hit(now, now) if printed == [line.rstrip() for line in claim.text.strip().splitlines()] else None
        for t in self.ledger.outs:
            record = self.ledger.records[t]
            assert isinstance(record, schema.Out)
            if (
                t >= low
                and t > after
                and (record.text == claim.text or said in record.text.splitlines() or record.text.strip("\n") == said)
            ):
                return Hit(t, t)
        return Hit(now, now) if low > 0 and said and "\n" in said and said in self.ledger.stdout else None

    def _raised(self, claim: Raised, low: int, now: int, after: int) -> Hit | None:
        for t in self.ledger.raises:
            record = self.ledger.records[t]
            assert isinstance(record, schema.Raise)
            if t < low or (claim.type is not None and record.type.rpartition(".")[2] != claim.type):
                continue
            if claim.message is not None and not self._is_message(claim.message, record, t):
                continue
            if claim.by is not None and not self._by(record.f, claim.by):
                continue
            if claim.handled and not any(
                step.handled is not None and step.step >= 0
                for step in self.ledger.course.steps
                if step.raised is not None
            ):
                continue
            return Hit(t, t)
        return None

    def _is_message(self, said: Any, record: schema.Raise, t: int) -> bool:
        given = [self.ledger.memory.read(value, t) for value in record.args[:1]]
        return any(same(said, value) or said == str(value) for value in given)

    def _by(self, frame: int, name: str) -> bool:
        activation = self.ledger.structure.activations.get(frame)
        return activation is not None and is_called(activation, name)

    def _equal(self, claim: Equal, low: int, now: int, after: int) -> Hit | None:
        found = self.equations.first(claim.parts, low, now, about=claim.about, far=claim.recap)
        if found is None:
            raise Uncheckable("it cannot be worked out from the trace")
        return Hit(*found) if found else None

    def _answer(self, claim: Answer, low: int, now: int, after: int) -> Hit | None:
        entry = self.ledger.entry
        last = len(self.ledger.records) - 1
        if claim.value is None:
            raise Uncheckable("no value is said")
        known, said = said_value(claim.value)
        if entry is None or entry.outcome != "return":
            return Hit(now, last) if str(said).strip() == self.ledger.stdout.strip() else None
        actual = self.ledger.memory.read(entry.value, entry.last)
        if not known:
            raise Uncheckable("the value cannot be worked out")
        return (
            Hit(now, entry.last)
            if same(said, actual, about=claim.about) or same(listed(said), listed(actual), about=claim.about)
            else None
        )


def _from(entries: Sequence[Entry], low: int, after: int) -> Iterator[Entry]:
    at = bisect.bisect_left(entries, low, key=lambda entry: entry.t)
    return (entry for entry in entries[at:] if entry.t > after)


def _new_value(record: Any) -> tuple[Any] | None:
    if isinstance(record, schema.Set | schema.Return | schema.Yield):
        return (record.v,)
    return ({"ref": record.id},) if isinstance(record, schema.Mutate) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _joined(tests: Sequence[ast.expr]) -> ast.expr:
    return tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), list(tests))


def _is_meant(claim: Iterated, run: LoopRun) -> bool:
    if claim.which in ("for", "while"):
        return run.loop.kind == claim.which
    if claim.which in ("outer", "inner"):
        return (run.depth == 0) == (claim.which == "outer")
    if not claim.which:
        return True
    loop = run.loop.statement
    over = (loop.target, loop.iter) if isinstance(loop, ast.For | ast.AsyncFor) else ()
    return any(ast.unparse(part).strip("()") == claim.which for part in over)


def _is_line(step: Step, ledger: Ledger, line: int) -> bool:
    return step.line == line or any(getattr(ledger.records[t], "n", None) == line for t in step.records)


_FINDERS: Final[dict[type[Claim], Callable[[Finder, Any, int, int, int], Hit | None]]] = {
    Has: Finder._has,
    Goes: Finder._goes,
    Grows: Finder._grows,
    Truth: Finder._truth,
    Called: Finder._called,
    Returned: Finder._returned,
    Iterated: Finder._iterated,
    InIteration: Finder._in_iteration,
    Span: Finder._span,
    Held: Finder._held,
    Counted: Finder._counted,
    AtLine: Finder._at_line,
    Changed: Finder._changed,
    Yields: Finder._yields,
    Row: Finder._row,
    Mapped: Finder._mapped,
    Passed: Finder._passed,
    Printed: Finder._printed,
    Raised: Finder._raised,
    Equal: Finder._equal,
    Answer: Finder._answer,
}
