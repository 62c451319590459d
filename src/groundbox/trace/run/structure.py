"""The tree that a trace is: activations of functions, their steps, and the iterations of their loops.

It is derived from the records and the source's syntax tree, and never guessed: what neither says is None.

A step is one execution of a statement's own part: a simple statement (on however many lines), the test of an `if` or
`while`, the header of a `for`, an `except` or `case` line, the entry or the exit of a `with`.
Blocks of `if`, `with`, `try` and `match` are not nested: their steps follow the step that led to them.
Loops are nested: a `Loop` stands where its steps would, and holds them by iteration.

The state before a step is `trace.state_at(step.step)` (a line record changes nothing), the state after it is
`trace.state_at(step.last)`.
"""

from __future__ import annotations

import ast
import bisect
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from groundbox.trace.record.schema import V
from groundbox.trace.record.syntax import Code, Syntax, syntax_of

if TYPE_CHECKING:
    from groundbox.trace.record.reading import Trace


# eq=False, here and below: each is equal to itself alone, and comparing two does not go through all that is in them.
@dataclasses.dataclass(slots=True, eq=False, kw_only=True)
class Step:
    """Execution of a statement, or of the header of a compound one.

    Attributes:
        step: The number of its (first) line record; of a line that was folded up to its `yield`, of that record.
        frame: The activation it belongs to.
        line: The first line of the statement, clause or header; of the record where no statement is known.
        last: The last record that belongs to it; the state after the step is the one after this record.
        records: Its line records; several when the statement has several lines.
        statement: None in lambdas and generator expressions, and where the source does not parse.
        part: Which part of the statement runs, as `syntax.Place` has it; empty where that is not known.
        effects: Records of what it did itself: set, del, object, mutate, out. What called frames did is theirs.
        calls: User functions that it called, in order. A generator that goes on is not called again: see `resumes`.
        condition: Whether the test held: of `if`, `while`, `assert`, a `case` or an `except`. None where that is not
            known, or the step has no test.
        branch: The line that the frame went to next, or None when it went to none.
        raised: The `raise` record of the exception that left this statement or came up in it, or None. A `raise`
            without an exception, which lets the one before go on, has no record.
        handled: The line of the `except` (or of the `with`) that took this exception, or None.
        tests: Its `test` records, of conditions and of operands whose value is used.
        yields: Its `yield` records.
        resumes: `resume` records of generators that it made go on.
        leaving: Whether it is the exit of a `with`, not its entry.
        inline: Whether a block stands on the line of its header (`if x: y()`), and so is part of this step.
    """

    step: int
    frame: int
    line: int
    last: int
    records: list[int] = dataclasses.field(default_factory=list)
    statement: ast.stmt | None = None
    part: str = ""
    clause: ast.ExceptHandler | ast.match_case | None = None
    effects: list[int] = dataclasses.field(default_factory=list)
    calls: list[Activation] = dataclasses.field(default_factory=list)
    condition: bool | None = None
    branch: int | None = None
    raised: int | None = None
    handled: int | None = None
    tests: list[int] = dataclasses.field(default_factory=list)
    yields: list[int] = dataclasses.field(default_factory=list)
    resumes: list[int] = dataclasses.field(default_factory=list)
    leaving: bool = False
    inline: bool = False

    @property
    def test(self) -> ast.expr | None:
        """The expression that `condition` is the truth of, for `if`, `while` and `assert`."""
        if isinstance(self.statement, (ast.If, ast.While, ast.Assert)):
            return self.statement.test
        return None


@dataclasses.dataclass(slots=True, eq=False, kw_only=True)
class Folded:
    """Iterations of a loop, or the body of a call, that ran and were not recorded.

    Attributes:
        record: The `fold` record.
        after: The number of iterations before it, recorded and folded.
        iterations: 0 for a call.
        steps: How many line events were not recorded.
        calls: How many calls were not recorded, for the body of a call.
        effects: Records that tell the difference that it made.
    """

    record: int
    after: int = 0
    iterations: int = 0
    steps: int = 0
    calls: int = 0
    effects: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(slots=True, eq=False, kw_only=True)
class Iteration:
    """Time through the body of a loop.

    Attributes:
        number: From 1; folded iterations are counted.
        header: The step that gave the target its value or found the test true. None for a loop whose test the
            compiler leaves out (`while True`), from its second iteration on.
    """

    number: int
    header: Step | None
    body: list[Node] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(slots=True, eq=False, kw_only=True)
class Loop:
    """Execution of a `for` or `while` statement.

    Attributes:
        line: The line of its header.
        kind: `for` or `while`.
        iterations: The recorded ones.
        folds: Where iterations were left out.
        exit: How it ended: `exhausted` (a `for`), `false` (a `while`), `break`, `return`, `raise`, `open` (the trace
            ends before it), or None when that is not known.
        closing: The last step of its header, which found no further item or the test false, or raised.
        counted: How many iterations the recorder has counted, as far as it says so.
    """

    line: int
    kind: str
    statement: ast.For | ast.AsyncFor | ast.While
    iterations: list[Iteration] = dataclasses.field(default_factory=list)
    folds: list[Folded] = dataclasses.field(default_factory=list)
    exit: str | None = "open"
    closing: Step | None = None
    counted: int = 0

    @property
    def folded(self) -> int:
        """Return how many iterations were not recorded."""
        return sum(fold.iterations for fold in self.folds)

    @property
    def count(self) -> int:
        """Return how many iterations there were, recorded or not."""
        return max(self.counted, len(self.iterations) + self.folded)


Node: TypeAlias = Step | Loop


@dataclasses.dataclass(slots=True, eq=False, kw_only=True)
class Activation:
    """Call of user code. A generator is one activation, however often it is resumed.

    Attributes:
        frame: Its number.
        parent: The frame that called it, 0 for none.
        name: Its qualified name, `<module>` for the module.
        line: As its `call` record says.
        args: Its parameters and their values.
        thread: The thread's name, None for the main one.
        class_body: Whether it is the body of a class.
        code: Where it stands in the source, None when that is not certain.
        body: Its steps and loops.
        outcome: `return`, `unwind` (left by an exception) or `open` (the trace ends before it).
        value: What it returned; None unless the outcome is `return`. (A returned None is the same: see `outcome`.)
        first: Its `call` record.
        last: Its `return` or `unwind` record, or its last record when it is open.
        depth: 1 for a call by no user code, and one more than its caller's else.
        folded: Set when its body ran without records.
    """

    frame: int
    parent: int
    name: str
    line: int
    args: Mapping[str, V]
    thread: str | None = None
    class_body: bool = False
    code: Code | None = None
    body: list[Node] = dataclasses.field(default_factory=list)
    outcome: str = "open"
    value: V | None = None
    first: int
    last: int
    depth: int = 1
    folded: Folded | None = None

    @property
    def node(self) -> ast.AST | None:
        """The function, class, lambda, module or generator expression that it runs, or None."""
        return None if self.code is None else self.code.node

    @property
    def short_name(self) -> str:
        """The name without the functions around it: `Tree.insert`, `helper`."""
        return self.name.rpartition(".<locals>.")[2]

    def steps(self) -> Iterator[Step]:
        """Its own steps in order, those of its loops included and those of its calls not."""
        yield from walk(self.body)


def walk(nodes: Sequence[Node]) -> Iterator[Step]:
    """All steps of a row of nodes in order, headers and closing headers of loops included."""
    # A stack, so what comes first is put on it last.
    waiting: list[Node | Iteration] = list(reversed(nodes))
    while waiting:
        node = waiting.pop()
        if isinstance(node, Step):
            yield node
        elif isinstance(node, Iteration):
            if node.header is not None:
                yield node.header
            waiting.extend(reversed(node.body))
        else:
            # Under the iterations, since it comes after them.
            if node.closing is not None:
                waiting.append(node.closing)
            waiting.extend(reversed(node.iterations))


class Structure:
    """The whole tree.

    Attributes:
        syntax: The source's syntax tree and where lines stand in it.
        activations: By frame.
        roots: Activations that no user code called, in order: the module or the function that was called, then
            threads and whatever else began by itself.
    """

    def __init__(self, syntax: Syntax, activations: Mapping[int, Activation]) -> None:
        self.syntax = syntax
        self.activations = activations
        self.roots = tuple(a for a in activations.values() if a.parent == 0)
        self._steps: list[Step] | None = None
        self._starts: list[int] = []

    def root(self, name: str) -> Activation | None:
        """The first activation of a code that no user code called, as of `<module>`; None if there is none."""
        return next((root for root in self.roots if root.name == name), None)

    @property
    def steps(self) -> Sequence[Step]:
        """Every step of every activation, in the order in which they began."""
        # Made when it is first asked for: a narrator goes through the tree and never needs the row.
        if self._steps is None:
            found = (step for activation in self.activations.values() for step in activation.steps())
            self._steps = sorted(found, key=lambda step: step.step)
            self._starts = [step.step for step in self._steps]
        return self._steps

    def step_at(self, t: int) -> Step | None:
        """The step that record `t` belongs to: its line record, one of its effects, yields, or the next best before.

        For a record of a called frame it is the called frame's step.
        """
        steps = self.steps
        at = bisect.bisect_right(self._starts, t) - 1
        # Steps of callers begin before those of what they call and end after them: the last that began and is not over
        # is the innermost.
        while at >= 0:
            if steps[at].last >= t:
                return steps[at]
            at -= 1
        return None

    def step_before(self, frame: int, t: int) -> Step | None:
        """The last step of a frame that began before record `t`."""
        steps = self.steps
        at = bisect.bisect_left(self._starts, t) - 1
        while at >= 0 and steps[at].frame != frame:
            at -= 1
        return steps[at] if at >= 0 else None


def derive(trace: Trace) -> Structure:
    """The structure of a trace; `trace.structure` keeps it."""
    # Here, since it builds on the classes of this file.
    from groundbox.trace.run.lines import grown

    syntax = syntax_of(trace.source)
    return Structure(syntax, grown(trace.records, syntax))
