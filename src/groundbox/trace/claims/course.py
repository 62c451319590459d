"""Where control went: loops with the numbers of their iterations, worked out from line records and the syntax tree.

This fold is small and of its own; nothing that a narrator works out of records is used. It follows one frame's lines:
a line of a loop's header asks for the next item or tests the condition, a line of its body after that begins an
iteration, and a line outside of both is where the loop has ended. Where lines cannot tell (a body on the line of its
header, `while True` whose body begins with a loop) a run of a loop is `unsure`, and nothing is said of it.
"""

from __future__ import annotations

import ast
import bisect
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from groundbox.trace import schema

LoopNode: TypeAlias = ast.For | ast.AsyncFor | ast.While
_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


class Loop(NamedTuple):
    """A loop of the program, by its lines.

    Attributes:
        always: Its condition is a constant, so that its header has no line of its own from the second iteration on.
        unsure: Lines do not tell its iterations.
    """

    node: LoopNode
    header: range
    body: range
    always: bool
    unsure: bool


class LoopRun:
    """One execution of a loop, as far as it has come.

    Attributes:
        count: Iterations that have begun.
        has_folds: Iterations of it were not recorded.
        at_header: Its header ran last, and whether another iteration comes is open.
        exit: `exhausted`, `false`, `break`, `return` or `raise` once it has ended, if lines tell.
    """

    def __init__(self, loop: Loop, step: int) -> None:
        self.loop = loop
        self.start = step
        self.count = 0
        self.at_header = True
        self.folded = False
        self.has_folds = False
        self.unsure = loop.unsure
        self.exit: str | None = None


class _Frame:
    def __init__(self, loops: Sequence[Loop]) -> None:
        self.loops = loops
        self.open: list[LoopRun] = []
        self.ended: dict[LoopNode, LoopRun] = {}
        self.line = 0
        self.step = -1
        self.raised = False


class Course:
    """The run up to a record, frame by frame."""

    def __init__(self, tree: ast.Module) -> None:
        self.statements: dict[int, list[ast.AST]] = {}
        self._tree = tree
        self._codes: dict[tuple[int, str], ast.AST] = {}
        self._index(tree)
        self._loops: dict[ast.AST, list[Loop]] = {}
        self._frames: dict[int, _Frame] = {}

    def _index(self, tree: ast.Module) -> None:
        """Statements, handlers and cases by the line on which they begin; functions by line and name."""
        for node in ast.walk(tree):
            if isinstance(node, ast.stmt | ast.ExceptHandler):
                self.statements.setdefault(node.lineno, []).append(node)
            elif isinstance(node, ast.match_case):
                self.statements.setdefault(node.pattern.lineno, []).append(node)
            if isinstance(node, _FUNCTIONS):
                self._codes[_first_line(node), node.name] = node

    def follow(self, step: int, record: schema.Record) -> None:
        """Take the next record."""
        if isinstance(record, schema.Call):
            self._frames[record.f] = _Frame(self._loops_of(record))
            return
        frame = self._frames.get(getattr(record, "f", 0))
        if frame is None:
            return
        if isinstance(record, schema.Line):
            self._line(frame, step, record.n)
        elif isinstance(record, schema.Fold) and record.what == "loop":
            self._fold(frame, record)
        elif isinstance(record, schema.Raise):
            frame.raised = True
        elif isinstance(record, schema.Return | schema.Unwind):
            while frame.open:
                self._end(frame, "return" if isinstance(record, schema.Return) else "raise")

    def open_runs(self, frame: int) -> Sequence[LoopRun]:
        """The loops that a frame is in, the outermost first."""
        found = self._frames.get(frame)
        return found.open if found is not None else ()

    def latest(self, frame: int, node: LoopNode) -> LoopRun | None:
        """The run of a loop in a frame that ended last."""
        found = self._frames.get(frame)
        return found.ended.get(node) if found is not None else None

    def nodes(self, frame: int) -> Sequence[LoopNode]:
        """The loops of the code that a frame runs."""
        found = self._frames.get(frame)
        return [loop.node for loop in found.loops] if found is not None else ()

    def spreads(self, call: schema.Call) -> bool:
        """Whether a function takes `*args` or `**options`."""
        arguments = getattr(self._codes.get((call.n, call.name.rpartition(".")[2])), "args", None)
        return arguments is not None and bool(arguments.vararg or arguments.kwarg)

    def required(self, call: schema.Call) -> int:
        """How many arguments a function has to be called with, its object counted; 0 if that is not known."""
        code = self._codes.get((call.n, call.name.rpartition(".")[2]))
        arguments = getattr(code, "args", None)
        if arguments is None:
            return 0
        keywords = sum(default is None for default in arguments.kw_defaults)
        return len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults) + keywords

    def _line(self, frame: _Frame, step: int, line: int) -> None:
        while frame.open and line not in frame.open[-1].loop.header and line not in frame.open[-1].loop.body:
            self._end(frame, None)
        while frame.open and self._is_begun_again(frame.open[-1], line):
            self._end(frame, None)
        for loop in frame.loops:
            if (line in loop.header or line in loop.body) and all(run.loop is not loop for run in frame.open):
                run = LoopRun(loop, step)
                frame.open.append(run)
        for run in frame.open:
            self._visit(run, line)
        frame.line, frame.step, frame.raised = line, step, False

    def _is_begun_again(self, run: LoopRun, line: int) -> bool:
        """Whether the header runs once more though no iteration came of the last time: it is another run."""
        header = run.loop.header
        return run.at_header and not run.folded and not run.loop.always and len(header) == 1 and line in header and (
            run.loop.body.start > line
        )  # fmt: skip

    def _visit(self, run: LoopRun, line: int) -> None:
        loop = run.loop
        if line in loop.header and not (line in loop.body and loop.unsure):
            run.at_header = True
        elif run.at_header or (loop.always and line == loop.body.start):
            run.count += 1
            run.at_header = False
        run.folded = False

    def _fold(self, frame: _Frame, record: schema.Fold) -> None:
        run = next((run for run in reversed(frame.open) if run.loop.node.lineno == record.n), None)
        if run is None:
            return
        while frame.open[-1] is not run:
            self._end(frame, None)
        run.count += record.iterations
        run.at_header = run.folded = run.has_folds = True
        run.unsure = run.unsure or run.loop.always

    def _end(self, frame: _Frame, how: str | None) -> None:
        """The innermost loop has ended."""
        run = frame.open.pop()
        last = self.statements.get(frame.line, ())
        if frame.raised:
            run.exit = "raise"
        elif run.at_header:
            run.exit = "false" if isinstance(run.loop.node, ast.While) else "exhausted"
        elif how is not None:
            run.exit = how
        elif any(isinstance(each, ast.Break) for each in last):
            run.exit = "break"
        elif any(isinstance(each, ast.Return) for each in last):
            run.exit = "return"
        frame.ended[run.loop.node] = run

    def _loops_of(self, call: schema.Call) -> Sequence[Loop]:
        code = self._tree if call.name == "<module>" else self._codes.get((call.n, call.name.rpartition(".")[2]))
        if code is None:
            return ()
        if code not in self._loops:
            self._loops[code] = sorted(map(_loop, _own_loops(code)), key=lambda loop: loop.node.lineno)
        return self._loops[code]


class Lines:
    """The line records of each frame, to look ahead in."""

    def __init__(self, records: Sequence[schema.Record]) -> None:
        self._at: dict[int, list[int]] = {}
        self._records = records
        for step, record in enumerate(records):
            if isinstance(record, schema.Line):
                self._at.setdefault(record.f, []).append(step)

    def after(self, frame: int, step: int) -> int | None:
        """The line that a frame went to next after a record; None if it went to none."""
        steps = self._at.get(frame, [])
        place = bisect.bisect_right(steps, step)
        if place == len(steps):
            return None
        record = self._records[steps[place]]
        assert isinstance(record, schema.Line)
        return record.n

    def before(self, frame: int, step: int) -> int | None:
        """The line that a frame was on at a record; None if it was on none."""
        steps = self._at.get(frame, [])
        place = bisect.bisect_right(steps, step) - 1
        if place < 0:
            return None
        record = self._records[steps[place]]
        assert isinstance(record, schema.Line)
        return record.n


def header_text(node: LoopNode) -> str:
    """A loop's header as code: `for x in xs`, `while n > 1`."""
    if isinstance(node, ast.While):
        return f"while {ast.unparse(node.test)}"
    return f"for {ast.unparse(node.target)} in {ast.unparse(node.iter)}"


def lines_of(block: Sequence[ast.stmt]) -> range:
    """The lines of a block; none for an empty one."""
    return range(_first_line(block[0]), (block[-1].end_lineno or 0) + 1) if block else range(0)


def _loop(node: LoopNode) -> Loop:
    asked = node.test if isinstance(node, ast.While) else node.iter
    body = lines_of(node.body)
    always = isinstance(asked, ast.Constant)
    first = node.body[0]
    is_several = isinstance(first, _LOOPS) or (not hasattr(first, "body") and first.end_lineno != first.lineno)
    inline = body.start <= (asked.end_lineno or 0)
    header = range(node.lineno, (asked.end_lineno or node.lineno) + 1)
    return Loop(node, header, body, always, unsure=inline or (always and is_several))


def _first_line(node: ast.stmt) -> int:
    decorators: Sequence[ast.expr] = getattr(node, "decorator_list", ())
    return min([node.lineno, *(each.lineno for each in decorators)])


def _own_loops(code: ast.AST) -> list[LoopNode]:
    """The loops of a function or module, without those of functions in it."""
    found: list[LoopNode] = []
    waiting = list(getattr(code, "body", ()))
    while waiting:
        node = waiting.pop()
        if isinstance(node, _LOOPS):
            found.append(node)
        if not isinstance(node, (*_FUNCTIONS, ast.ClassDef, ast.Lambda)):
            waiting += ast.iter_child_nodes(node)
    return found
