"""Causes of lines that ran, or did not: the conditions on the way to it, their values, and where these came from."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from groundbox.trace.record import schema
from groundbox.trace.record.syntax import Block, Code, Place
from groundbox.trace.run.python_values import recorded
from groundbox.trace.run.state import State
from groundbox.trace.run.structure import Activation, Step
from groundbox.values.evaluate import evaluate
from groundbox.values.unknown import Unknown

if TYPE_CHECKING:
    from groundbox.trace.record.reading import Trace

MOST_CHARS = 80


@dataclasses.dataclass(frozen=True, kw_only=True)
class Origin:
    """A value on a condition, and where it came from.

    Attributes:
        line: The line that gave the name its value; None when the trace does not say.
        source: That line's text.
        how: `argument`, `assigned`, or empty.
    """

    name: str
    text: str
    line: int | None = None
    source: str = ""
    how: str = ""

    def __str__(self) -> str:
        said = f"{self.name} = {self.text}"
        if self.line is None:
            return said
        return f"{said} ({'passed to the call' if self.how == 'argument' else f'line {self.line}: {self.source}'})"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cause:
    """Condition on the way to a line.

    Attributes:
        step: The step that decided, None when it never ran.
        line: Where the condition stands.
        source: The condition: `if x > 3`, `for x in xs`, `except KeyError`.
        held: Whether it let the program go towards the line.
        times: How often it was decided in this activation (or in all, for a line that did not run).
        values: What stood on it.
    """

    step: int | None
    line: int
    source: str
    held: bool | None
    times: int
    values: tuple[Origin, ...] = ()

    def __str__(self) -> str:
        verdict = {True: "led there", False: "did not lead there", None: "led there or not, which is not known"}[
            self.held
        ]
        if self.step is None:
            return f"line {self.line}, `{self.source}`, was not reached"
        values = "; ".join(map(str, self.values))
        return f"line {self.line}, `{self.source}`, {verdict}" + (f": {values}" if values else "")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Why:
    """The answer for one line.

    Attributes:
        times: How often the line ran.
        step: Its last execution, None if it never ran.
        function: The code that the line belongs to; None when it holds no statement.
        causes: The conditions around it, the outermost first.
        calls: From which lines its function was called, the innermost call first: function and line.
    """

    line: int
    source: str
    times: int
    step: int | None
    function: str | None
    causes: tuple[Cause, ...]
    calls: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        if self.function is None:
            return f"line {self.line} holds no statement of its own"
        times = "once" if self.times == 1 else f"{self.times} times"
        lines = [f"line {self.line}, `{self.source}`, " + (f"ran {times}" if self.times else "never ran")]
        if self.times > 1:
            lines[0] += "; its last time:"
        lines.extend(f"  {cause}" for cause in self.causes)
        if self.times:
            lines.extend(f"  {name} was called in line {line}" for name, line in self.calls)
        elif not self.causes and self.function != "<module>":
            lines.append(
                f"  {self.function} was never called" if not self.calls else f"  {self.function} did not get so far"
            )
        elif not self.causes:
            lines.append("  the program did not get so far")
        return "\n".join(lines)


def why(trace: Trace, line: int) -> Why:
    """Return what led to the last execution of a line, or kept the program from it."""
    structure = trace.structure
    ran = [step for step in structure.steps if _is_at(trace, step, line)]
    step = ran[-1] if ran else None
    source = trace.structure.syntax.line(line)
    if step is not None:
        activation = structure.activations[step.frame]
        code = activation.code
        causes = _causes_of(trace, activation, code.place(line) if code is not None else None, step.step)
        return Why(
            line=line,
            source=source,
            times=len(ran),
            step=step.step,
            function=activation.name,
            causes=tuple(causes),
            calls=tuple(_calls(trace, activation)),
        )
    found = _code_at(trace, line)
    if found is None:
        return Why(line=line, source=source, times=0, step=None, function=None, causes=(), calls=())
    code, place = found
    activations = [a for a in structure.activations.values() if a.code is code]
    kept = _kept(trace, activations, place) if activations else ()
    calls = tuple((a.name, a.line) for a in activations)
    return Why(line=line, source=source, times=0, step=None, function=code.qualname, causes=kept, calls=calls)


def _is_at(trace: Trace, step: Step, line: int) -> bool:
    if step.line == line:
        return True
    records = (trace.records[t] for t in step.records)
    return any(isinstance(record, schema.Line) and record.n == line for record in records)


def _code_at(trace: Trace, line: int) -> tuple[Code, Place] | None:
    """The innermost code that has a statement in this line."""
    best: tuple[Code, Place] | None = None
    for code in trace.structure.syntax.codes:
        place = code.place(line)
        # Of nested codes the innermost begins last.
        if place is not None and (best is None or code.first >= best[0].first):
            best = code, place
    return best


def _causes_of(trace: Trace, activation: Activation, place: Place | None, before: int) -> Iterator[Cause]:
    if place is None:
        return
    steps = [step for step in activation.steps() if step.step < before]
    for block in place.within:
        deciding = [step for step in steps if _decides(step, block)]
        if deciding and _has_condition(block):
            # The last one before the line ran: of a loop, the header that began this very iteration.
            yield _cause(trace, deciding[-1], block, True, len(deciding))


def _kept(trace: Trace, activations: Sequence[Activation], place: Place) -> tuple[Cause, ...]:
    """The outermost condition that kept the program from a line in its last activation, and what led to it."""
    causes: list[Cause] = []
    for block in place.within:
        if not _has_condition(block):
            continue
        deciding = [step for activation in activations for step in activation.steps() if _decides(step, block)]
        if not deciding:
            # Nothing inside of it was come to either.
            causes.append(Cause(step=None, line=_line(block), source=_heading(block), held=None, times=0))
            break
        # Gone into once, in whatever activation, it did not keep the program from the line.
        held = _held(deciding[-1], block)
        entered = any(_held(step, block) for step in deciding)
        causes.append(_cause(trace, deciding[-1], block, True if entered else held, len(deciding)))
        if not entered:
            break
    return tuple(causes)


def _has_condition(block: Block) -> bool:
    # The block of a `with`, and the body of a `try`, are entered whatever was so.
    if isinstance(block.owner, (ast.With, ast.AsyncWith)):
        return False
    return block.clause is not None or not isinstance(block.owner, (ast.Try, ast.TryStar))


def _decides(step: Step, block: Block) -> bool:
    return step.statement is block.owner and step.clause is block.clause


def _held(step: Step, block: Block) -> bool | None:
    """Return whether a step of the block's header let the program into the block."""
    if isinstance(block.owner, (ast.For, ast.AsyncFor)):
        # A loop's header says by where it goes whether there was an item.
        statements: list[ast.stmt] = getattr(block.owner, block.name)
        last = statements[-1].end_lineno or statements[-1].lineno
        return None if step.branch is None else statements[0].lineno <= step.branch <= last
    if step.condition is None:
        return None
    return step.condition if block.name == "body" else not step.condition


def _line(block: Block) -> int:
    if isinstance(block.clause, ast.match_case):
        # A `case` has no line of its own; its pattern has.
        return block.clause.pattern.lineno
    return block.clause.lineno if isinstance(block.clause, ast.ExceptHandler) else block.owner.lineno


def _heading(block: Block) -> str:
    owner = block.owner
    if isinstance(owner, (ast.If, ast.While)):
        word = "if" if isinstance(owner, ast.If) else "while"
        return f"{word} {ast.unparse(owner.test)}" + (" … else" if block.name == "orelse" else "")
    if isinstance(owner, (ast.For, ast.AsyncFor)):
        return f"for {ast.unparse(owner.target)} in {ast.unparse(owner.iter)}"
    if isinstance(block.clause, ast.ExceptHandler):
        return f"except {ast.unparse(block.clause.type)}" if block.clause.type is not None else "except"
    if isinstance(block.clause, ast.match_case):
        return f"case {ast.unparse(block.clause.pattern)}"
    return type(owner).__name__.lower()


def _cause(trace: Trace, step: Step, block: Block, held: bool | None, times: int) -> Cause:
    expression = _expression(block)
    values = tuple(_origins(trace, step, expression)) if expression is not None else ()
    return Cause(step=step.step, line=_line(block), source=_heading(block), held=held, times=times, values=values)


def _expression(block: Block) -> ast.expr | None:
    owner = block.owner
    if isinstance(owner, (ast.If, ast.While)):
        return owner.test
    if isinstance(owner, (ast.For, ast.AsyncFor)):
        return owner.iter
    return owner.subject if isinstance(owner, ast.Match) else None


def _origins(trace: Trace, step: Step, expression: ast.expr) -> Iterator[Origin]:
    # Before the step has done anything: these are the values that its condition was asked of.
    state = trace.state_at(step.step)
    seen = set()
    for node in ast.walk(expression):
        if isinstance(node, ast.Name) and node.id not in seen:
            seen.add(node.id)
            origin = _origin(trace, state, step, node.id)
            if origin is not None:
                yield origin
    lookup = recorded(state, step.frame, trace.structure.syntax.assigned)
    # Items and attributes are told as well: `xs[i]` with its value, beside `xs` and `i`.
    for node in ast.walk(expression):
        if isinstance(node, (ast.Attribute, ast.Subscript)) and ast.unparse(node) not in seen:
            seen.add(ast.unparse(node))
            try:
                yield Origin(name=ast.unparse(node), text=_short(evaluate(node, lookup)))
            except Unknown:
                continue


def _short(value: object) -> str:
    if not isinstance(value, (int, float, str, bool, type(None), tuple, list, dict)):
        raise Unknown("it is not shown")
    shown = repr(value)
    # A list may have a `Handle` in it, of which the repr says nothing.
    if len(shown) > MOST_CHARS or "Handle" in shown:
        raise Unknown("it is not shown")
    return shown


def _origin(trace: Trace, state: State, step: Step, name: str) -> Origin | None:
    try:
        value = state.lookup(step.frame, name)
    except (KeyError, Unknown):
        return None
    # Functions, modules and the like explain no condition.
    if isinstance(value, dict) and not value.keys() & {"ref", "tuple", "frozenset", "str", "int", "float", "repr"}:
        return None
    given = [each for each in trace.history(name, step.frame) if each.step < step.step]
    text = state.text(value, MOST_CHARS)
    if not given:
        return Origin(name=name, text=text)
    last = given[-1]
    return Origin(name=name, text=text, line=last.line, source=trace.structure.syntax.line(last.line), how=last.how)


def _calls(trace: Trace, activation: Activation) -> Iterator[tuple[str, int]]:
    # So many show how the program came here; a recursion may have thousands.
    for _ in range(20):
        caller = trace.structure.activations.get(activation.parent)
        if caller is None:
            return
        step = trace.structure.step_before(caller.frame, activation.first)
        yield activation.name, step.line if step is not None else caller.line
        activation = caller
