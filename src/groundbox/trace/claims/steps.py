"""A run as steps: what each of them read, when each name was set, and when each object was touched.

This fold is of its own: it goes by the records and the program alone, and nothing that a narrator works out is used.
"""

from __future__ import annotations

import ast
import bisect
import copy
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from groundbox.trace.record import schema
from groundbox.trace.record.reading import Trace
from groundbox.trace.record.schema import V
from groundbox.trace.record.syntax import walked
from groundbox.trace.record.value import kind_of, labels_in, ref_of
from groundbox.trace.run.objects import Obj
from groundbox.trace.run.python_values import handled_value
from groundbox.trace.run.state import State
from groundbox.values.evaluate import evaluate
from groundbox.values.parsing import module_of
from groundbox.values.unknown import Unknown

MOST_LABELS: Final = 2_000
"""Objects that one value leads to."""
MOST_PASSED_ON: Final = 2
"""Calls over which a result may be passed on without being told again."""
MOST_COUNTED: Final = 1_000_000
"""Operations that stand for those of an expression that is nested too deep to be gone through."""
SIMPLE_KEY: Final = 5
"""Operations of a lambda up to which it is part of the library call that it is given to."""

_CODE: Final = frozenset(("function", "builtin", "module", "class", "method"))
_UNNAMED: Final = frozenset(("<lambda>", "<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>"))
_LEAVING: Final = (ast.Return, ast.Raise, ast.Break, ast.Continue)


Key: TypeAlias = tuple[int, str]
"""A record, and of records that set several names the name."""
Place: TypeAlias = tuple[str, int, str]
"""What records change: a `name` of a frame, an `attribute` of an object, or the `content` of one, without a name."""


class Fact(NamedTuple):
    """Statement of a claim about one record.

    Attributes:
        t: The record after which it is so.
        value: The recorded value that has to be the told one; None where that is not compared.
    """

    key: Key
    t: int
    value: tuple[V] | None = None


class Part(NamedTuple):
    """Code of one line that runs by itself.

    Attributes:
        role: `statement`, `test`, `loop`, or `other`.
        leaves: Whether a branch of the test leaves the loop, the iteration or the function.
    """

    node: ast.AST
    role: str
    reads: Sequence[ast.AST]
    leaves: bool = False


class Step:
    """Execution of a line, or of a statement of several lines.

    Attributes:
        at: Its first record.
        given: Records at which calls that it made gave values, with whether these are code within an expression.
        folded: Iterations ran here that were not recorded.
        reads: What it read; None before that was looked at.
        cost: Operations; `item_cost` is for one item of the containers that its value shows.
    """

    __slots__ = ("at", "cost", "folded", "frame", "given", "index", "item_cost", "line", "parts", "reads", "unnamed")

    def __init__(self, frame: int, at: int, line: int, parts: Sequence[Part], index: int) -> None:
        self.frame, self.at, self.line, self.parts, self.index = frame, at, line, parts, index
        self.given: list[int] = []
        self.unnamed: list[int] = []
        self.folded = False
        self.reads: list[Read] | None = None
        self.cost = self.item_cost = 0

    @property
    def is_test(self) -> bool:
        return any(part.role in ("test", "loop") for part in self.parts)

    def decides(self, step: Step, *, first: bool) -> bool:
        """Return whether it depends on this test that the program comes to a step after it.

        Args:
            first: Whether it is the last one of its line before the step.
        """
        for part in self.parts:
            last = getattr(part.node, "end_lineno", None) or self.line
            if part.leaves or (first and part.role != "other" and self.line < step.line <= last):
                return True
        return False

    @property
    def code(self) -> str:
        part = next((part for part in self.parts if part.role == "test"), None)
        try:
            text = ast.unparse(part.reads[0]) if part is not None and part.reads else ""
        except RecursionError:
            text = ""
        return f"`{text}` (line {self.line})" if text and len(text) <= 60 else f"line {self.line}"


class Read(NamedTuple):
    """A place that a step read, in the words of the program."""

    place: Place
    words: str


class Frame:
    __slots__ = ("call", "end", "is_free", "name", "number", "steps")

    def __init__(self, at: int, record: schema.Call) -> None:
        self.call, self.number, self.name = at, record.f, record.name
        self.steps: list[Step] = []
        self.end = 1 << 62
        self.is_free = record.name.rpartition(".")[2] in _UNNAMED or record.body


class RunSteps:
    """The run as steps, and the records that changed each place; one pass over the records, a second one for reads."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.records = trace.records
        self.frames: dict[int, Frame] = {}
        self.module = 0
        self.entry: int | None = None
        self.step_of: list[Step | None] = []
        self.changes: dict[Place, list[int]] = {}
        self.by_name: dict[str, list[int]] = {}
        self.closures: dict[tuple[Key, int], tuple[int, ...]] = {}
        self.texts: dict[tuple[Key, int], str] = {}
        self.parts, self.lambdas = _parts_by_line(trace.source)
        self.classes: set[int | None] = set()
        self._stack: list[int] = []
        for at, record in enumerate(self.records):
            self.step_of.append(self._go(at, record))

    def _go(self, at: int, record: schema.Record) -> Step | None:
        match record:
            case schema.Call():
                return self._call(at, record)
            case schema.Line(f=frame, n=line):
                return self._line(at, frame, line)
            case schema.Resume(f=frame):
                caller = self._here()
                self._stack.append(frame)
                return caller
            case schema.Return(f=frame) | schema.Yield(f=frame) | schema.Unwind(f=frame):
                return self._leave(at, frame, gave=not isinstance(record, schema.Unwind))
        step = self._here()
        match record:
            case schema.Set(name=name) | schema.Del(name=name):
                self._note(("name", self._scope(record, at), name), at)
            case schema.Object() | schema.Mutate():
                if isinstance(record, schema.Object) and record.type == "class":
                    self.classes.add(record.id)
                self._note(("content", record.id, ""), at)
                for name in _changed_attributes(record):
                    self._note(("attribute", record.id, name), at)
            case schema.Fold(f=number) if number in self.frames:
                folding = self.frames[number]
                step = Step(number, at, record.n, (), len(folding.steps))
                step.folded = True
                folding.steps.append(step)
        return step

    def _note(self, place: Place, at: int) -> None:
        self.changes.setdefault(place, []).append(at)

    def _here(self) -> Step | None:
        """The step of the frame that runs, or of the named one around code within its expressions."""
        for number in reversed(self._stack):
            frame = self.frames.get(number)
            if frame is not None and not frame.is_free:
                return frame.steps[-1] if frame.steps else None
        return None

    def _call(self, at: int, record: schema.Call) -> Step | None:
        caller = self._here()
        frame = self.frames[record.f] = Frame(at, record)
        self.by_name.setdefault(record.name, []).append(record.f)
        for name in record.args:
            self._note(("name", record.f, name), at)
        if record.name == "<module>" and not self.module:
            self.module = record.f
        entry = self.trace.header.entry
        if self.entry is None and entry is not None and record.p == 0 and record.name == entry.call:
            self.entry = record.f
        if frame.is_free and caller is not None:
            caller.unnamed.append(at)
        self._stack.append(record.f)
        return caller

    def _line(self, at: int, number: int, line: int) -> Step | None:
        frame = self.frames.get(number)
        # A lambda or generator expression is part of the line that it stands in.
        if frame is None or frame.is_free:
            return self._here()
        parts = self.parts.get(line, ())
        last = frame.steps[-1] if frame.steps else None
        # A statement of several lines has a line event for most of them, in one execution.
        if last is not None and parts and last.parts == parts and not last.folded and _is_tall(parts):
            is_same = last.line != line or not (parts[0].role == "loop" or self._has_ended(last))
            if is_same:  # another line of the same statement, or back on its first one
                return last
        step = Step(number, at, line, parts, len(frame.steps))
        frame.steps.append(step)
        return step

    def _has_ended(self, step: Step) -> bool:
        """Return whether a step has set a name or changed an object, which its statement does last."""
        return any(
            isinstance(self.records[at], schema.Set | schema.Mutate) and self.step_of[at] is step
            # A bound, since a line may have thousands of records; what it sets stands among the last.
            for at in range(max(step.at, len(self.step_of) - 50), len(self.step_of))
        )

    def _leave(self, at: int, number: int, *, gave: bool) -> Step | None:
        step = self._here()
        # Frames above it ended without a record, as generators that were dropped.
        while self._stack and self._stack.pop() != number:
            pass
        frame = self.frames.get(number)
        if frame is not None:
            frame.end = at + 1
        caller = self._here()
        # Its value is one that the caller's step has used, and that a text has to tell.
        if gave and frame is not None and caller is not None and not frame.is_free:
            caller.given.append(at)
        return step

    def _scope(self, record: schema.Set | schema.Del, at: int) -> int:
        if record.scope == "global":
            return self.module
        around = self._around(record.f, at) if record.scope == "nonlocal" else ()
        return next((each for each in around if ("name", each, record.name) in self.changes), record.f)

    def _around(self, number: int, t: int) -> Iterator[int]:
        """Activations of the functions around a frame's own that were called before record `t`, those within first.

        Of each function the one that began last is the first: which one a closure belongs to is not recorded.
        """
        qualname = self.frames[number].name if number in self.frames else ""
        while ".<locals>." in qualname:
            qualname = qualname.rpartition(".<locals>.")[0]
            yield from (each for each in reversed(self.by_name.get(qualname, ())) if self.frames[each].call < t)

    def before(self, place: Place, t: int, own: Step | None = None) -> Iterator[int]:
        """The records before record `t` that changed a place, the last one first; without those of a step itself."""
        found = self.changes.get(place, ())
        for number in range(bisect.bisect_left(found, t) - 1, -1, -1):
            if own is None or self.step_of[found[number]] is not own:
                yield found[number]

    def setting(self, frame: int, name: str, t: int) -> tuple[int | None, int | None]:
        """The frame whose name is meant (None for a builtin), and the record that last set it before record `t`."""
        frames = itertools.chain([frame], self._around(frame, t), [self.module])
        owner = next((each for each in frames if ("name", each, name) in self.changes), None)
        return owner, None if owner is None else next(self.before(("name", owner, name), t), None)

    def value(self, at: int, name: str) -> V:
        """Return what a record gave a name; None for a deletion."""
        record = self.records[at]
        if isinstance(record, schema.Call):
            return record.args.get(name)
        return getattr(record, "v", None)

    def is_code(self, value: V) -> bool:
        """Return whether a value is a function, class or module, which the program itself tells."""
        return kind_of(value) in _CODE or ref_of(value) in self.classes

    def look(self, facts: Iterable[Fact]) -> None:
        """Work out what the steps of some facts and all tests read, and what the facts' values lead to."""
        wanted: dict[int, list[Fact]] = {}
        for fact in facts:
            wanted.setdefault(fact.t, []).append(fact)
        steps: dict[int, Step] = {}
        for at in (fact.key[0] for row in wanted.values() for fact in row):
            step = self.step_of[at]
            if step is not None:
                steps[step.at] = step
        for frame in self.frames.values():
            # Whether control came somewhere asks for tests of which no claim speaks.
            steps.update({step.at: step for step in frame.steps if step.is_test})
            if frame.number == self.module:
                steps.update({step.at: step for step in frame.steps})
        # Calls whose results may be passed on untold, and those that these made.
        for _ in range(MOST_PASSED_ON):
            given = [self.step_of[at] for step in steps.values() for at in step.given]
            steps.update({step.at: step for step in given if step is not None})
        state = State()
        for at, record in enumerate(self.records):
            if at in steps:
                _Reading(self, state, steps[at]).fill()
            state.apply(record)
            for fact in wanted.get(at, ()):
                self._keep(fact, state)
            if isinstance(record, schema.Call) and record.f == self.entry:
                self.closures[(at, ""), at] = tuple(_closure(state, list(record.args.values())))
            if isinstance(record, schema.Set) and self.frames.get(self.module) and record.f == self.module:
                self.closures.setdefault(((at, record.name), at), tuple(_closure(state, [record.v])))

    def _keep(self, fact: Fact, state: State) -> None:
        record = self.records[fact.key[0]]
        values: list[V] = []
        if fact.value is not None:
            values = [fact.value[0]]
            # Taken while the state is there: what is told is compared with the text of its moment.
            self.texts[fact.key, fact.t] = state.text(fact.value[0], 100_000)
        elif isinstance(record, schema.Mutate):
            values = [*(record.items or ()), *(each for pair in record.pairs or () for each in pair)]
            values += [each[1] for each in record.at or () if isinstance(each, list | tuple) and len(each) == 2]
            values += (record.attrs or {}).values()
            if record.op == "replace":
                values.append({"ref": record.id})
        self.closures[fact.key, fact.t] = tuple(_closure(state, values))


class _Reading:
    """Reads and operations of a step, worked out at the moment at which it begins."""

    def __init__(self, course: RunSteps, state: State, step: Step) -> None:
        self._course, self._state, self._step = course, state, step
        self._reads: dict[Read, None] = {}

    def fill(self) -> None:
        """Note both in the step."""
        step = self._step
        cost = item_cost = 0
        try:
            for part in step.parts:
                for node in part.reads:
                    self._visit(node, frozenset())
                    cost += self._cost(node, whole=False)
                    item_cost += self._cost(node, whole=True)
        except RecursionError:  # a sum of thousands of terms
            cost = item_cost = MOST_COUNTED
        more = self._cost_of_unnamed()
        step.reads, step.cost, step.item_cost = list(self._reads), cost + more, item_cost + more

    def _cost_of_unnamed(self) -> int:
        """Operations of lambdas, but of short ones that a library call is given."""
        total = 0
        for at in self._step.unnamed:
            record = self._course.records[at]
            assert isinstance(record, schema.Call)
            if record.name.endswith("<lambda>"):
                costs = [self._cost(node.body, whole=False) for node in self._course.lambdas.get(record.n, ())]
                total += max((cost for cost in costs if cost > SIMPLE_KEY), default=0)
        return total

    def _visit(self, node: ast.AST, bound: frozenset[str], *, content: bool = True) -> None:
        match node:
            case ast.Name(id=name):
                if name not in bound and isinstance(node.ctx, ast.Load):
                    self._name(name, content=content)
            case ast.Attribute(value=owner, attr=attr):
                held = self._object(owner)
                if held is not None and held.type == "object":
                    # Of `node.next` the attribute is read, and not what else is in the node.
                    self._visit(owner, bound, content=False)
                    if isinstance(node.ctx, ast.Load) and attr in held.attrs:
                        self._read(("attribute", held.label, attr), ast.unparse(node))
                        if content:
                            self._content([held.attrs[attr]], ast.unparse(node))
                else:
                    self._visit(owner, bound, content=content and isinstance(node.ctx, ast.Load))
            case ast.Subscript(value=owner, slice=index):
                self._visit(owner, bound, content=isinstance(node.ctx, ast.Load))
                self._visit(index, bound)
            case ast.AugAssign(target=changed, value=value):
                read = copy.copy(changed)  # the same place, which the statement reads before it sets it
                read.ctx = ast.Load()
                self._visit(read, bound)
                self._visit(value, bound)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._visit(target, bound)
                # `ys = xs` reads no item of the list.
                self._visit(value, bound, content=not isinstance(value, ast.Name | ast.Attribute))
            case ast.Lambda(args=arguments, body=body):
                names = {each.arg for each in walked(arguments) if isinstance(each, ast.arg)}
                self._visit(body, bound | names)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                targets_ = [part for clause in node.generators for part in walked(clause.target)]
                names = {part.id for part in targets_ if isinstance(part, ast.Name)}
                for child in ast.iter_child_nodes(node):
                    self._visit(child, bound | names)
            case _:
                for child in ast.iter_child_nodes(node):
                    self._visit(child, bound)

    def _name(self, name: str, *, content: bool) -> None:
        course, step = self._course, self._step
        owner, found = course.setting(step.frame, name, step.at)
        if owner is None:
            return
        # Without a record it is set within the step, as by a call that it makes.
        value = None if found is None else course.value(found, name)
        if course.is_code(value):
            return
        self._read(("name", owner, name), name)
        if content:
            self._content([value], name)

    def _content(self, values: list[V], words: str) -> None:
        for label in _closure(self._state, values, into_instances=False):
            self._read(("content", label, ""), words)

    def _read(self, place: Place, words: str) -> None:
        self._reads[Read(place, f"`{words}`")] = None

    def _object(self, node: ast.expr) -> Obj | None:
        """Return the object that a name, attribute or item stands for, if it is recorded."""
        return self._state.heap.get(ref_of(self._value(node)) or 0)  # labels are counted from 1

    def _value(self, node: ast.expr) -> V:
        """Return what a name, attribute or item stands for, where that is recorded; None elsewhere."""
        match node:
            case ast.Name(id=name):
                _, found = self._course.setting(self._step.frame, name, self._step.at)
                return None if found is None else self._course.value(found, name)
            case ast.Attribute(value=owner_, attr=attr):
                held = self._object(owner_)
                return held.attrs.get(attr) if held is not None else None
            case ast.Subscript(value=owner_, slice=index):
                held, place = self._object(owner_), self._evaluated(index)
                if held is not None and held.items is not None and type(place) is int:
                    found_ = held.items.get(place if place >= 0 else place + len(held.items))
                    return found_[0] if found_ is not None else None
                if held is not None and held.pairs is not None and isinstance(place, str | int):
                    return next((v for k, v in held.pairs.values() if k == place and type(k) is type(place)), None)
        return None

    def _evaluated(self, node: ast.expr) -> Any:
        try:
            return evaluate(node, self._lookup)
        except Unknown:
            return None

    def _lookup(self, name: str) -> Any:
        _, found = self._course.setting(self._step.frame, name, self._step.at)
        if found is None:
            raise KeyError(name)
        return handled_value(self._state, self._course.value(found, name))

    def _size(self, node: ast.expr) -> int:
        """Return how many items something has; 1 where that is not known."""
        found = self._evaluated(node)
        if hasattr(found, "__len__"):
            return len(found)
        if hasattr(found, "length"):
            try:
                return int(found.length())
            except Unknown:
                return 1
        sizes = [
            self._size(part) for part in walked(node) if isinstance(part, ast.Name) and part is not node
        ]  # `zip(xs, ys)` of what cannot be evaluated
        return max(sizes, default=1)

    def _cost(self, node: ast.AST, *, whole: bool) -> int:
        """Operations of an expression; for `whole`, of one item of the containers that it makes."""
        match node:
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._cost_of_comprehension(node, whole=whole)
            case ast.Lambda():
                return 0
            # The most costly item, see `MOST_OPERATIONS`.
            case ast.List() | ast.Tuple() | ast.Set() if whole:
                return max((self._cost(child, whole=True) for child in ast.iter_child_nodes(node)), default=0)
            case ast.Compare(ops=ops):
                own = len(ops)
            case ast.BoolOp(values=values):
                own = len(values) - 1
            case ast.UnaryOp(operand=operand):
                own = int(not isinstance(operand, ast.Constant))
            case ast.AugAssign() | ast.BinOp() | ast.Call() | ast.FormattedValue() | ast.IfExp() | ast.Subscript():
                own = 1
            case _:
                own = 0
        inner = whole and isinstance(node, ast.Assign | ast.AnnAssign | ast.Return | ast.Expr | ast.NamedExpr)
        return own + sum(self._cost(child, whole=inner) for child in ast.iter_child_nodes(node))

    def _cost_of_comprehension(self, node: Any, *, whole: bool) -> int:
        names: set[str] = set()
        total, times = 0, 1
        for clause in node.generators:
            total += self._cost(clause.iter, whole=False)
            # Loops within a comprehension multiply.
            times *= max(1, self._size(clause.iter))
            names |= {part.id for part in walked(clause.target) if isinstance(part, ast.Name)}
        bodies = [each for clause in node.generators for each in clause.ifs]
        bodies += [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        for body in bodies:
            varies = any(isinstance(part, ast.Name) and part.id in names for part in walked(body))
            total += self._cost(body, whole=False) * (1 if whole or not varies else times)
        return total


def _closure(state: State, values: Sequence[V], *, into_instances: bool = True) -> list[int]:
    """Labels of the objects that values lead to; of instances without what they hold, if so asked."""
    found: dict[int, None] = {}
    waiting = [label for value in values for label in labels_in(value)]
    while waiting and len(found) < MOST_LABELS:
        label = waiting.pop()
        held = state.heap.get(label)
        if label in found or held is None or held.type == "class":
            continue
        if held.type == "object" and not into_instances:
            continue
        found[label] = None
        waiting.extend(inner for part in held.parts() for inner in labels_in(part))
    return list(found)


def _changed_attributes(record: schema.Object | schema.Mutate) -> list[str]:
    if isinstance(record, schema.Object):
        return list(record.attrs or ())
    names = [each[0] for each in record.at or () if isinstance(each, list | tuple) and len(each) == 2]
    names += [each for each in record.at or () if record.op == "remove"]
    return [*(name for name in names if isinstance(name, str)), *(record.attrs or ())]


def _parts_by_line(source: str) -> tuple[Mapping[int, tuple[Part, ...]], Mapping[int, list[ast.Lambda]]]:
    """Parts by line, and lambdas by the line on which they begin."""
    parts: dict[int, tuple[Part, ...]] = {}
    lambdas: dict[int, list[ast.Lambda]] = {}
    try:
        tree = module_of(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return parts, lambdas
    for node in walked(tree):
        if isinstance(node, ast.Lambda):
            lambdas.setdefault(node.lineno, []).append(node)
        for part, first, last in _own_parts(node):
            for line in range(first, last + 1):
                parts[line] = (*parts.get(line, ()), part)
    return parts, lambdas


def _own_parts(node: ast.AST) -> Iterator[tuple[Part, int, int]]:
    """The part of a statement that runs as one, with its lines."""
    match node:
        case ast.If(test=test) | ast.While(test=test):
            leaves = isinstance(node, ast.If) and any(isinstance(each, _LEAVING) for each in walked(node))
            yield Part(node, "test", (test,), leaves), node.lineno, test.end_lineno or node.lineno
        case ast.For(iter=items, target=target) | ast.AsyncFor(iter=items, target=target):
            yield Part(node, "loop", (items,)), node.lineno, max(items.end_lineno or 0, target.end_lineno or 0)
        case ast.With(items=items) | ast.AsyncWith(items=items):
            last = max(each.context_expr.end_lineno or node.lineno for each in items)
            yield Part(node, "other", tuple(each.context_expr for each in items)), node.lineno, last
        case ast.Match(subject=subject):
            leaves = any(isinstance(each, _LEAVING) for each in walked(node))
            yield Part(node, "test", (subject,), leaves), node.lineno, subject.end_lineno or node.lineno
        case ast.match_case():
            reads = () if node.guard is None else (node.guard,)
            yield Part(node, "other", reads), node.pattern.lineno, node.pattern.end_lineno or node.pattern.lineno
        case ast.ExceptHandler():
            yield Part(node, "other", ()), node.lineno, node.lineno
        case ast.Try() | ast.TryStar():
            return
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            yield Part(node, "other", ()), first, max(first, node.body[0].lineno - 1)
        case ast.Assert(test=test):
            yield Part(node, "test", (test,), True), node.lineno, node.end_lineno or node.lineno
        case ast.stmt():
            yield Part(node, "statement", (node,)), node.lineno, node.end_lineno or node.lineno


def _is_tall(parts: Sequence[Part]) -> bool:
    """Return whether a part stands on several lines, each of which has a record."""
    first = getattr(parts[0].node, "lineno", 0)
    return any((getattr(node, "end_lineno", 0) or 0) > first for node in parts[0].reads)
