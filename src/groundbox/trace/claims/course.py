"""Course of control: loops with the numbers of their iterations, and how conditions came out, as records tell them.

This fold is small and of its own; nothing that a narrator works out of records is used. `iteration` and `ended` say
how often a loop ran and that it ended by itself, `test` says how the parts of a condition came out. Lines say only
when a frame has left a loop in another way, and whether a `case` matched. A loop of which a body ran and no iteration
was told (`async for`, files of an older schema) is `unsure`, and nothing is said of it.
"""

from __future__ import annotations

import ast
import bisect
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from groundbox.trace.record import schema
from groundbox.trace.record.operands import Range, range_of
from groundbox.trace.record.syntax import walked

LoopNode: TypeAlias = ast.For | ast.AsyncFor | ast.While
_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)
_CODES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Loop(NamedTuple):
    """A loop of the program, by its lines.

    Attributes:
        inline: Its body begins on the line on which its header ends.
    """

    node: LoopNode
    header: range
    body: range
    inline: bool

    def has(self, line: int) -> bool:
        """Return whether a line is one of its header or its body."""
        return line in self.header or line in self.body


class LoopRun:
    """Execution of a loop, as far as it has come.

    Attributes:
        count: Iterations that have begun.
        exact: A record has told this number; after iterations that were not recorded, one more may have begun.
        unsure: Its body ran, and no record tells of an iteration.
        exit: `exhausted`, `false`, `break`, `return` or `raise` once it has ended, if that is known.
        end: The record with which it has ended.
    """

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.count = 0
        self.exact = False
        self.unsure = False
        self.exit: str | None = None
        self.end = -1


class _Frame:
    def __init__(self, loops: Sequence[Loop]) -> None:
        self.loops = loops
        self.open: list[LoopRun] = []
        self.ended: dict[LoopNode, LoopRun] = {}
        self.line = 0
        self.raised = False


class Course:
    """The run up to a record, frame by frame.

    Attributes:
        statements: Statements, handlers and cases by the line on which they begin.
        headers: The same by each line that stands in no block of theirs.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.statements: dict[int, list[ast.AST]] = {}
        self.headers: dict[int, list[ast.AST]] = {}
        self._tree = tree
        self._codes: dict[tuple[int, str], ast.AST] = {}
        self._index(tree)
        self._loops: dict[ast.AST, list[Loop]] = {}
        self._frames: dict[int, _Frame] = {}

    def _index(self, tree: ast.Module) -> None:
        """Index statements by line, and functions and classes by line and name."""
        for node in walked(tree):
            if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
                header = header_of(node)
                self.statements.setdefault(header.start, []).append(node)
                for line in header:
                    self.headers.setdefault(line, []).append(node)
            if isinstance(node, _CODES):
                self._codes[_first_line(node), node.name] = node

    def follow(self, step: int, record: schema.Record) -> None:
        """Take the next record."""
        if isinstance(record, schema.Call):
            self._frames[record.f] = _Frame(self._loops_of(record))
            return
        # Records of objects and output are of no frame, and move nobody.
        frame = self._frames.get(getattr(record, "f", 0))
        if frame is None:
            return
        if isinstance(record, schema.Line):
            self._line(frame, step, record.n)
        elif isinstance(record, schema.Iteration | schema.Ended) or (
            isinstance(record, schema.Fold) and record.what == "loop"
        ):
            self._turn(frame, step, record)
        elif isinstance(record, schema.Raise):
            frame.raised = True
        elif isinstance(record, schema.Return | schema.Unwind):
            while frame.open:
                self._leave(frame, step, "return" if isinstance(record, schema.Return) else "raise")

    def open_runs(self, frame: int) -> Sequence[LoopRun]:
        """The loops that a frame is in, the outermost first."""
        found = self._frames.get(frame)
        return found.open if found is not None else ()

    def ended(self, frame: int) -> Sequence[LoopRun]:
        """Of each loop that a frame has run, the run that ended last."""
        found = self._frames.get(frame)
        return [*found.ended.values()] if found is not None else ()

    def arguments(self, call: schema.Call) -> ast.arguments | None:
        """Parameters of a function, where they are known."""
        found = getattr(self._codes.get((call.n, call.name.rpartition(".")[2])), "args", None)
        return found if isinstance(found, ast.arguments) else None

    def defines(self, owner: str, name: str) -> bool:
        """Return whether a class of the program has a function of its own by this name."""
        classes = (code for (_, each), code in self._codes.items() if each == owner and isinstance(code, ast.ClassDef))
        functions = (each for code in classes for each in code.body if not isinstance(each, ast.ClassDef))
        return any(getattr(each, "name", None) == name for each in functions)

    def is_property(self, call: schema.Call) -> bool:
        """Return whether a function is called where its name is asked for, so that arguments go to what it gives."""
        decorators = getattr(self._codes.get((call.n, call.name.rpartition(".")[2])), "decorator_list", ())
        return any(isinstance(each, ast.Name) and each.id in ("property", "cached_property") for each in decorators)

    def _line(self, frame: _Frame, step: int, line: int) -> None:
        # A line outside of the innermost loop has left it, however.
        while frame.open and not frame.open[-1].loop.has(line):
            self._leave(frame, step, None)
        for loop in frame.loops:
            if loop.has(line) and all(run.loop is not loop for run in frame.open):
                frame.open.append(LoopRun(loop))
        for run in frame.open:
            # In its body, and no iteration has been told.
            run.unsure = run.unsure or (not run.count and line not in run.loop.header)
        frame.line, frame.raised = line, False

    def _turn(self, frame: _Frame, step: int, record: schema.Iteration | schema.Ended | schema.Fold) -> None:
        """An iteration of a loop begins, the loop is over, or iterations of it were not recorded."""
        run = next((run for run in reversed(frame.open) if run.loop.node.lineno == record.n), None)
        # The loop around goes on, so that those inside are over.
        while run is not None and frame.open[-1] is not run:
            self._leave(frame, step, None)
        if run is not None and run.count and isinstance(record, schema.Iteration) and record.number == 1:
            self._leave(frame, step, None)  # it was left, and is entered anew
            run = None
        if run is None:
            loop = next((loop for loop in frame.loops if loop.node.lineno == record.n), None)
            if loop is None:
                return
            run = LoopRun(loop)
            frame.open.append(run)
        if isinstance(record, schema.Fold):
            run.count, run.exact = run.count + record.iterations, False
            return
        run.count, run.exact = record.number if isinstance(record, schema.Iteration) else record.iterations, True
        if isinstance(record, schema.Ended):
            run.exit = "false" if isinstance(run.loop.node, ast.While) else "exhausted"
            self._leave(frame, step, None)

    def _leave(self, frame: _Frame, step: int, how: str | None) -> None:
        """The innermost loop has ended."""
        run = frame.open.pop()
        run.end = step
        frame.ended[run.loop.node] = run
        if run.exit is not None:
            return
        last = self.statements.get(frame.line, ())
        # The line that was left last says how: an exception came up in it, or it is a `break` or `return`.
        if frame.raised:
            run.exit = "raise"
        elif how is not None:
            run.exit = how
        elif any(isinstance(each, ast.Break) for each in last):
            run.exit = "break"
        elif any(isinstance(each, ast.Return) for each in last):
            run.exit = "return"

    def _loops_of(self, call: schema.Call) -> Sequence[Loop]:
        code = self._tree if call.name == "<module>" else self._codes.get((call.n, call.name.rpartition(".")[2]))
        if code is None:
            return ()
        if code not in self._loops:
            # Outer loops begin on earlier lines than inner ones, so that they are opened first.
            self._loops[code] = sorted(map(_loop, _own_loops(code)), key=lambda loop: loop.node.lineno)
        return self._loops[code]


class Lines:
    """The records of each frame that say where it goes, to look ahead in: lines, tests and iterations."""

    def __init__(self, records: Sequence[schema.Record]) -> None:
        self._at: dict[int, list[int]] = {}
        self._told: dict[int, list[int]] = {}
        self._records = records
        for step, record in enumerate(records):
            if isinstance(record, schema.Line):
                self._at.setdefault(record.f, []).append(step)
            elif isinstance(record, schema.Test | schema.Iteration):
                self._told.setdefault(record.f, []).append(step)

    def after(self, frame: int, step: int) -> int | None:
        """The line that a frame went to next after a record; None if it went to none."""
        steps = self._at.get(frame, [])
        place = bisect.bisect_right(steps, step)
        return self._line(steps[place]) if place < len(steps) else None

    def before(self, frame: int, step: int) -> int | None:
        """The line that a frame was on at a record; None if it was on none."""
        steps = self._at.get(frame, [])
        place = bisect.bisect_right(steps, step) - 1
        return self._line(steps[place]) if place >= 0 else None

    def tests(self, frame: int, step: int, header: range) -> Mapping[Range, bool]:
        """Return how parts of conditions came out while a frame went through the lines of a header, around a record.

        A part that came out in both ways is left out.
        """
        # A condition of several lines has several line events, and the tests stand among them.
        found: dict[Range, bool] = {}
        both: set[Range] = set()
        for record in self._told_within(frame, step, header):
            if isinstance(record, schema.Test) and found.setdefault(record.at, record.v) is not record.v:
                both.add(record.at)
        return {at: outcome for at, outcome in found.items() if at not in both}

    def begins(self, frame: int, step: int, loop: Loop) -> int | None:
        """The number of the iteration that a header begins which a frame is on at a record; None if none begins."""
        for record in self._told_within(frame, step, loop.header, only_after=True):
            if isinstance(record, schema.Iteration) and record.n == loop.node.lineno:
                return record.number
        return None

    def _told_within(
        self, frame: int, step: int, header: range, *, only_after: bool = False
    ) -> Iterator[schema.Record]:
        """The records of a frame but lines, from its line at a record on as long as it stays in some lines."""
        steps, told = self._at.get(frame, []), self._told.get(frame, [])
        end = bisect.bisect_right(steps, step)
        begin = max(end - 1, 0)
        # Back to where this run of the header began, and on to where it was left.
        if len(header) > 1:
            begin = next((at + 1 for at in range(begin, -1, -1) if self._line(steps[at]) not in header), 0)
            while end < len(steps) and self._line(steps[end]) in header:
                end += 1
        first = step if only_after else steps[begin] if begin < len(steps) else -1
        last = steps[end] if end < len(steps) else len(self._records)
        for at in told[bisect.bisect_right(told, first) : bisect.bisect_left(told, last)]:
            yield self._records[at]

    def _line(self, step: int) -> int:
        record = self._records[step]
        assert isinstance(record, schema.Line)
        return record.n


def truth_of(condition: ast.expr, told: Mapping[Range, bool]) -> bool | None:
    """Return how a condition came out, by the outcomes of its parts; None if one that decides is not told."""
    # A part may be told as a whole, as an inner `and` is whose value is used.
    if (outcome := told.get(range_of(condition))) is not None:
        return outcome
    match condition:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = truth_of(operand, told)
            return None if inner is None else not inner
        case ast.BoolOp(op=op, values=values):
            # The first that decides ends it; what is not told of it may have ended it, too.
            for value in values[:-1]:
                outcome = truth_of(value, told)
                if outcome is not isinstance(op, ast.And):
                    return outcome
            return truth_of(values[-1], told)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            chosen = truth_of(test, told)
            return None if chosen is None else truth_of(body if chosen else orelse, told)
        case ast.Constant(value=value):
            return bool(value)
    return None


def header_text(node: LoopNode) -> str:
    """A loop's header as code: `for x in xs`, `while n > 1`."""
    if isinstance(node, ast.While):
        return f"while {ast.unparse(node.test)}"
    return f"for {ast.unparse(node.target)} in {ast.unparse(node.iter)}"


def header_of(statement: ast.AST) -> range:
    """The lines of a statement before its block; all of one without a block."""
    first: int = statement.pattern.lineno if isinstance(statement, ast.match_case) else getattr(statement, "lineno", 0)
    if not getattr(statement, "body", None):
        return range(first, (getattr(statement, "end_lineno", None) or first) + 1)
    return range(first, max([first, *(part.end_lineno or 0 for part in asked_by(statement))]) + 1)


def asked_by(statement: ast.AST) -> Iterator[ast.expr]:
    """The expressions of a statement that do not stand in a block of it."""
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.expr):
            yield child
        elif isinstance(child, ast.withitem | ast.pattern):
            yield from asked_by(child)


def lines_of(block: Sequence[ast.stmt]) -> range:
    """The lines of a block; none for an empty one."""
    return range(_first_line(block[0]), (block[-1].end_lineno or 0) + 1) if block else range(0)


def _loop(node: LoopNode) -> Loop:
    asked = node.test if isinstance(node, ast.While) else node.iter
    body = lines_of(node.body)
    header = range(node.lineno, (asked.end_lineno or node.lineno) + 1)
    return Loop(node, header, body, inline=body.start < header.stop)


def _first_line(node: ast.stmt) -> int:
    decorators: Sequence[ast.expr] = getattr(node, "decorator_list", ())
    return min([node.lineno, *(each.lineno for each in decorators)])


def _own_loops(code: ast.AST) -> list[LoopNode]:
    """The loops of a function, class or module, without those of functions and classes in it."""
    found: list[LoopNode] = []
    waiting = list(getattr(code, "body", ()))
    while waiting:
        node = waiting.pop()
        if isinstance(node, _LOOPS):
            found.append(node)
        if not isinstance(node, (*_CODES, ast.Lambda)):
            waiting += ast.iter_child_nodes(node)
    return found
