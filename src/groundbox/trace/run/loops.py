"""Records of an activation grown into steps and loops.

The lines of a frame come in the order in which they ran. Each is placed in the frame's code; lines of one execution
of a statement are one step; open loops are kept on a stack. What a step did (a test that held, a loop that ended)
is settled when the next line of the frame, or its end, is known.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from groundbox.trace.record import schema
from groundbox.trace.record.schema import Record
from groundbox.trace.record.syntax import Place, always_true, within_code
from groundbox.trace.run.conditions import condition_of
from groundbox.trace.run.structure import Activation, Folded, Iteration, Loop, Node, Step

LoopStatement = ast.For | ast.AsyncFor | ast.While
UNWIND: Final = "unwind"
OPEN: Final = "open"
_ENDS_OF_ITERATION: Final = ("StopIteration", "StopAsyncIteration")


class _Open:
    """A loop that has begun and not ended."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.pending: Step | None = None
        self.iteration: Iteration | None = None
        self.just_folded = False
        self.ended = -1
        """After how many iterations it was over by itself, if that is told of its last fold; or -1."""
        self.open_fold: Folded | None = None
        """The last fold, while nothing else of the iteration that came after it is known."""

    @property
    def headerless(self) -> bool:
        """Return whether iterations begin without a line event of the header."""
        return isinstance(self.loop.statement, ast.While) and always_true(self.loop.statement.test)

    def begin(self, header: Step | None, number: int = 0) -> None:
        """The next iteration, with its number, if that is told."""
        self.iteration = Iteration(number=number or self.loop.count + 1, header=header)
        self.loop.counted = max(self.loop.counted, number)
        self.loop.iterations.append(self.iteration)
        self.pending = None
        self.just_folded = False
        self.open_fold = None

    def close_fold(self) -> None:
        """Nothing of the iteration in which a generator waited was recorded, so it is one more folded one."""
        if self.open_fold is not None:
            self.open_fold.iterations += 1
            self.open_fold = None


class _Fold(NamedTuple):
    """Iterations that were left out, as long as nothing of the frame's own has come after them.

    Attributes:
        line: Of the loop's header.
        opened: The loop; None for the folded line of a generator expression, which is no loop of the tree.
    """

    line: int
    opened: _Open | None


class Grower:
    """Grows one activation out of the records of its frame, which it is given in their order."""

    def __init__(self, activation: Activation, records: Sequence[Record]) -> None:
        self.activation = activation
        self._records = records
        self._code = activation.code
        self._open: list[_Open] = []
        self._step: Step | None = None
        self._place: Place | None = None
        self._line = 0
        self._begun: dict[int, int] = {}
        """By line: the loops of which the step began an iteration, with its number."""
        self._ended: dict[int, int] = {}
        """By line: the loops that the step found at their end, and after how many iterations."""
        self._fold: _Fold | None = None
        self._effects: list[int] = []
        """What takes the next effects: of the step, or of a fold; those before the first line have no step."""
        self._withs: list[ast.stmt] = []
        self._raised: list[Step] = []

    # Records

    def take_effects(self, refs: Sequence[int]) -> None:
        """Objects, changes and output that the next record of the frame came with."""
        self._effects.extend(refs)

    def take_call(self, called: Activation) -> None:
        """A call that the frame made."""
        if (step := self._current) is not None:
            step.calls.append(called)

    def take(self, t: int, record: Record) -> None:
        """The next record, unless it is a call."""
        handler = _HANDLERS.get(type(record))
        if handler is not None:
            handler(self, t, record)

    def finish(self, t: int, outcome: str) -> None:
        """The activation has ended at record `t`, or the trace has before it."""
        self.activation.outcome = outcome
        self._close(t)
        # The lines of a folded call left no record; what they changed stands before its end.
        if self.activation.folded is not None and outcome != OPEN:
            self.activation.folded.effects = self._effects
        self._settle(None, None, outcome)
        self._close_above(0, None, outcome)

    @property
    def _current(self) -> Step | None:
        """The step that the next records belong to; none right after a fold."""
        return None if self._fold is not None else self._step

    def _close(self, t: int) -> None:
        """The current step has lasted until record `t`."""
        if (step := self._current) is not None:
            step.last = t - 1

    def _take_line(self, t: int, record: schema.Line | schema.Yield) -> None:
        self._close(t)
        self._fold = None
        place = None if self._code is None else self._code.place(record.n)
        step = self._step
        # A call over five lines has a line event for most of them, and the first one once more at its end.
        if step is None or not self._goes_on(record.n, place):
            # Made before the step under way is settled: where it goes is what settles it.
            step = self._new_step(t, record.n, place)
            self._settle(record.n, place, "")
            self._enter(place, step)
            self._step, self._place, self._begun, self._ended = step, place, {}, {}
        step.records.append(t)
        step.last = t
        self._line, self._effects = record.n, step.effects

    def _take_effect(self, t: int, record: Record) -> None:
        self._effects.append(t)

    def _take_yield(self, t: int, record: schema.Yield) -> None:
        if self._fold is not None:
            if record.n == self._fold.line:
                # The header itself gives the values, as that of a generator expression does: the frame waits on it, in
                # the middle of a further iteration.
                if self._fold.opened is not None:
                    self._fold.opened.open_fold = self._fold.opened.loop.folds[-1]
                self._effects = []
                return
            # A value that came out of the iteration after a fold; the line that gave it has no record.
            self._take_line(t, record)
        if self._step is not None:
            # The `yield` is part of its line, unlike what ends a line otherwise.
            self._step.last = t
            self._step.yields.append(t)

    def _take_resume(self, t: int, record: schema.Resume) -> None:
        if (step := self._current) is not None:
            step.resumes.append(t)

    def _take_raise(self, t: int, record: schema.Raise) -> None:
        if (step := self._current) is not None:
            step.raised = t

    def _take_test(self, t: int, record: schema.Test) -> None:
        if (step := self._current) is not None:
            step.tests.append(t)

    def _take_iteration(self, t: int, record: schema.Iteration) -> None:
        if self._fold is None:
            self._begun[record.n] = max(record.number, self._begun.get(record.n, 0))

    def _take_ended(self, t: int, record: schema.Ended) -> None:
        if self._fold is None:
            self._ended[record.n] = max(record.iterations, self._ended.get(record.n, -1))
        elif self._fold.line == record.n and self._fold.opened is not None:
            self._fold.opened.ended = record.iterations

    def _take_fold(self, t: int, record: schema.Fold) -> None:
        """Iterations that were not recorded, or the body of the whole call."""
        self._close(t)
        folded = Folded(record=t, iterations=record.iterations, steps=record.steps, calls=record.calls)
        if record.what == "call":
            self.activation.folded = folded
            self._effects = []
            return
        self._effects = folded.effects
        place = None if self._code is None else self._code.place(record.n)
        if place is None or not isinstance(place.statement, LoopStatement):
            self._fold = _Fold(record.n, None)
            return
        top = self._open[-1] if self._open else None
        if top is not None and top.pending is not None and top.loop.statement is place.statement:
            # The header of the iteration before, whose body stands on the same line.
            top.begin(top.pending)
        else:
            self._settle(record.n, place, "")
            self._close_above(self._common(place, own=True), place, "")
            self._open_missing(place, own=True)
        top = self._open[-1]
        top.close_fold()
        top.just_folded = True
        top.ended = -1
        folded.after = top.loop.count
        top.loop.folds.append(folded)
        self._fold = _Fold(record.n, top)
        # Nothing of what ran in the fold is known, not even its last line.
        self._step = self._place = None

    def _take_end(self, t: int, record: schema.Return | schema.Unwind) -> None:
        self.activation.last = t
        if isinstance(record, schema.Return):
            self.activation.value = record.v
        self.finish(t, "return" if isinstance(record, schema.Return) else UNWIND)

    # Steps

    def _goes_on(self, line: int, place: Place | None) -> bool:
        """Return whether a line is another one of the same execution of the same statement."""
        if place is None or place is not self._place:
            return False
        again = line == self._line
        # `for x in xs: f(x)` comes to its line once for each item: the same line again is the next iteration.
        if isinstance(place.statement, LoopStatement) and place.part in ("loop", "test") and place.inline:
            return not again
        return not (again and self._alone_in_headerless(place))

    def _alone_in_headerless(self, place: Place) -> bool:
        """Return whether the loop around it can begin its next iteration right with it."""
        # Of `while True: x = f()` over two lines, with one statement, the body's line follows itself in each iteration.
        if not place.within or place.within[-1].name != "body" or place.path[-1] != 0:
            return False
        owner = place.within[-1].owner
        return isinstance(owner, ast.While) and always_true(owner.test) and len(owner.body) == 1

    def _new_step(self, t: int, line: int, place: Place | None) -> Step:
        step = Step(step=t, frame=self.activation.frame, line=line, last=t)
        if place is not None:
            step.statement, step.part, step.clause = place.statement, place.part, place.clause
            step.inline = place.inline
            step.line = place.first
            # Control comes back to a `with` when its block is over: `__exit__` is called on its line.
            step.leaving = place.part == "with" and place.statement in self._withs
        return step

    # What a step turned out to have done

    def _settle(self, line: int | None, place: Place | None, end: str) -> None:
        """The step before is over: the frame goes to `place`, or ends."""
        step, before = self._step, self._place
        if step is None:
            return
        step.branch = line
        # A `raise` without an exception lets the one before go on, and no record says so.
        if (step.raised is not None or isinstance(step.statement, ast.Raise)) and step not in self._raised:
            self._raised.append(step)
        if before is not None:
            tests = (self._records[t] for t in step.tests)
            step.condition = condition_of(before, place, end, [test for test in tests if isinstance(test, schema.Test)])
            self._track_with(step, before, place)
        self._settle_raise(step, before, place, end)
        self._settle_header(place, end)

    def _track_with(self, step: Step, before: Place, place: Place | None) -> None:
        if before.part == "with" and not before.inline:
            if step.leaving:
                self._withs.remove(before.statement)
            elif place is not None and place.inside(before.statement, "body"):
                self._withs.append(before.statement)

    def _settle_raise(self, step: Step, before: Place | None, place: Place | None, end: str) -> None:
        """Find out which handler took the exceptions that are on their way."""
        # An exception that leaves the frame was taken by no handler of it.
        if not self._raised or end:
            return
        if before is not None and before.part == "except" and step.condition and step not in self._raised:
            self._handled_at(step.line)
        # Control goes on in ordinary code, so the exception is over: the `with` took it whose exit this was.
        elif place is not None and not self._may_carry(place):
            self._handled_at(step.line if step.leaving else None)

    def _may_carry(self, place: Place) -> bool:
        """Return whether an exception that was not taken may still be on its way at this place."""
        if place.part == "except" or (place.part == "with" and place.statement in self._withs):
            return True
        return any(block.name == "finalbody" for block in place.within)

    def _handled_at(self, line: int | None) -> None:
        for step in self._raised:
            step.handled = line
        self._raised = []

    def _settle_header(self, place: Place | None, end: str) -> None:
        """The innermost loop's header has run: did an iteration begin, or did the loop end?"""
        top = self._open[-1] if self._open else None
        if top is None or top.pending is None:
            return
        header, before = top.pending, self._place
        assert before is not None
        line = top.loop.line
        number = self._begun.get(line, 0)
        # What the recorder counted comes first; the lines decide only where it says nothing.
        if before.inline and isinstance(top.loop.statement, ast.While):
            self._settle_inline_while(top, header, end)
        elif number:
            top.begin(header, number)
        elif line in self._ended:
            top.loop.counted = self._ended[line]
            self._end_by_header(top, header, end)
        elif place is not None and place.inside(top.loop.statement, "body"):
            top.begin(header)
        elif before.inline:
            self._settle_inline_header(top, header, place, end)
        else:
            self._end_by_header(top, header, end)

    def _settle_inline_header(self, top: _Open, header: Step, place: Place | None, end: str) -> None:
        again = place is self._place and place is not None
        # Header and body are one line, so that no line tells whether the body ran.
        statement = top.loop.statement
        leaves = _leaving_statements(statement)
        if again:
            top.begin(header)
        # A body without `break` or `return` is left by the header alone.
        elif header.raised is None and not leaves:
            self._end_by_header(top, header, end)
        elif self._took_item(statement, header):
            top.begin(header)
        elif not header.effects and not header.calls and header.raised is None:
            top.loop.closing, top.loop.exit, top.pending = header, None, None
            self._open.pop()

    def _settle_inline_while(self, top: _Open, header: Step, end: str) -> None:
        """The next test of a `while` on one line is made before its line event, which there is only if it holds."""
        ended = top.loop.line in self._ended
        if top.headerless or top.loop.iterations or top.loop.line in self._begun:
            header.condition = True
            top.begin(header)
            if ended:
                top.loop.exit = "false"
                self._open.pop()
        elif ended:
            header.condition = False
            self._end_by_header(top, header, end)
        elif header.raised is None and end != OPEN:
            header.condition = top.loop.exit = None
            top.loop.closing, top.pending = header, None
            self._open.pop()

    def _took_item(self, statement: LoopStatement, header: Step) -> bool:
        if isinstance(statement, ast.While):
            return False
        targets = {node.id for node in ast.walk(statement.target) if isinstance(node, ast.Name)}
        effects = (self._records[t] for t in header.effects)
        return any(isinstance(record, schema.Set) and record.name in targets for record in effects)

    def _end_by_header(self, top: _Open, header: Step, end: str) -> None:
        loop = top.loop
        loop.closing = header
        # StopIteration that comes up in the header is how its iterator says that it is over.
        raised = header.raised is not None and (end == UNWIND or self._type_of(header) not in _ENDS_OF_ITERATION)
        if raised:
            loop.exit = "raise"
        elif end == OPEN:
            loop.exit = "open"
        else:
            loop.exit = "false" if loop.kind == "while" else "exhausted"
            # It took no handler, and nothing was wrong.
            header.raised = None
        top.pending = None
        self._open.pop()

    def _type_of(self, step: Step) -> str:
        record = self._records[step.raised] if step.raised is not None else None
        return record.type if isinstance(record, schema.Raise) else ""

    # Loops

    def _enter(self, place: Place | None, step: Step) -> None:
        """Put a step where it belongs: into the loops that are open, or into new ones."""
        if place is None:
            self._append(step)
            return
        # A header belongs to its own loop, and is the step that begins an iteration of it or ends it.
        own = isinstance(place.statement, LoopStatement) and place.part in ("loop", "test")
        self._close_above(self._common(place, own=own), place, "")
        self._begin_headerless(place)
        self._open_missing(place, own=own)
        if own:
            self._open[-1].close_fold()
            self._open[-1].pending = step
            self._open[-1].just_folded = False
        else:
            self._append(step)

    def _append(self, node: Node) -> None:
        # The innermost loop has it; `begin` where its iteration began without a header, as after a fold.
        for opened in reversed(self._open):
            if opened.iteration is None or opened.just_folded:
                opened.begin(None)
            assert opened.iteration is not None
            opened.iteration.body.append(node)
            return
        self.activation.body.append(node)

    def _common(self, place: Place, *, own: bool) -> int:
        """Return how many of the open loops the place is in (or is the header of)."""
        if not self._open:
            return 0
        chain = (*place.loops, place.statement) if own else place.loops
        number = 0
        for opened, statement in zip(self._open, chain, strict=False):
            if opened.loop.statement is not statement:
                break
            number += 1
        return number

    def _begin_headerless(self, place: Place) -> None:
        """Going back without a header is the next iteration of a `while True`."""
        around = place.loops
        if not self._open or self._place is None or len(around) < len(self._open):
            return
        top = self._open[-1]
        if not top.headerless or top.iteration is None or top.loop.statement is place.statement:
            return
        leaving = place.part == "with" and place.statement in self._withs
        # Paths compare as statements stand in the source: going to an earlier one, or to the same, is going back. The
        # exit of a `with` goes back to its line, too, and begins nothing.
        if place.path <= self._place.path and not leaving:
            top.begin(None)

    def _open_missing(self, place: Place, *, own: bool) -> None:
        chain = (*place.loops, place.statement) if own else place.loops
        for statement in chain[len(self._open) :]:
            assert isinstance(statement, LoopStatement)
            kind = "while" if isinstance(statement, ast.While) else "for"
            loop = Loop(line=statement.lineno, kind=kind, statement=statement)
            self._append(loop)
            self._open.append(_Open(loop))

    def _close_above(self, number: int, place: Place | None, end: str) -> None:
        while len(self._open) > number:
            top = self._open.pop()
            top.close_fold()
            top.loop.exit = self._exit(top, place, end)

    def _exit(self, top: _Open, place: Place | None, end: str) -> str | None:
        """Return how a loop was left whose header did not end it."""
        if end in (OPEN, UNWIND):
            return "open" if end == OPEN else "raise"
        leaving = _leaving_statements(top.loop.statement)
        # What happened in the last iterations was not recorded, but for how many there were.
        if top.just_folded and top.ended >= 0:
            top.loop.counted = top.ended
            return "false" if top.loop.kind == "while" else "exhausted"
        if top.just_folded:
            ended = "false" if top.loop.kind == "while" else "exhausted"
            # Nothing in its body could have left it earlier.
            if not leaving and not top.headerless:
                return ended
            return "break" if top.headerless and leaving == {ast.Break} else None
        if self._raised and place is not None and self._may_carry(place):
            return "raise"
        if self._step is not None and isinstance(self._step.statement, ast.Raise):
            return "raise"
        if self._step is not None and self._step.statement is not None:
            # The last thing that ran inside: `if x: break` on one line, or the `break` itself.
            last = {type(node) for node in within_code(self._step.statement)} & {ast.Return, ast.Break}
            if len(last) == 1 and (self._step.inline or not hasattr(self._step.statement, "body")):
                return "return" if ast.Return in last else "break"
        if len(leaving) == 1:
            return "return" if ast.Return in leaving else "break"
        return None


def _leaving_statements(loop: LoopStatement) -> set[type[ast.AST]]:
    """Return which of `break` and `return` may leave a loop from its body."""
    found: set[type[ast.AST]] = set()
    for statement in loop.body:
        for node in within_code(statement):
            if isinstance(node, ast.Return) or (isinstance(node, ast.Break) and _breaks(loop, node)):
                found.add(type(node))
    return found


def _breaks(loop: LoopStatement, wanted: ast.Break) -> bool:
    """Return whether a `break` leaves this loop, and not one inside it."""
    waiting: list[ast.AST] = list(loop.body)
    while waiting:
        node = waiting.pop()
        if node is wanted:
            return True
        if isinstance(node, LoopStatement):
            # A `break` in the `else` of an inner loop leaves this one.
            waiting.extend(node.orelse)
        else:
            waiting.extend(ast.iter_child_nodes(node))
    return False


_HANDLERS: Final[Mapping[type[Record], Any]] = {
    schema.Line: Grower._take_line,
    schema.Set: Grower._take_effect,
    schema.Del: Grower._take_effect,
    schema.Return: Grower._take_end,
    schema.Unwind: Grower._take_end,
    schema.Yield: Grower._take_yield,
    schema.Resume: Grower._take_resume,
    schema.Raise: Grower._take_raise,
    schema.Fold: Grower._take_fold,
    schema.Test: Grower._take_test,
    schema.Iteration: Grower._take_iteration,
    schema.Ended: Grower._take_ended,
}
