"""The truth of tests: told by where the frame went next, or by evaluating the test in the recorded state."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from groundbox.trace import schema
from groundbox.trace.errors import Unknown
from groundbox.trace.schema import Record
from groundbox.trace.syntax import Place, Syntax, always_true, says_nothing, within_code

if TYPE_CHECKING:
    from groundbox.trace.reading import Trace
    from groundbox.trace.structure import Loop, Step

_JUMPS: Final = (ast.Return, ast.Break, ast.Continue, ast.Raise)


def condition_of(step: Step, before: Place, place: Place | None, end: str, records: Sequence[Record]) -> bool | None:
    """The truth of a step's test, from what came next in its frame.

    Args:
        before: Where the step stands.
        place: Where the frame went, None when it ended or went to no known place.
        end: `return`, `unwind` or `open` when it ended.
    """
    statement = before.statement
    if isinstance(statement, ast.Assert):
        return _assertion(step, end, records)
    if before.part == "test" and isinstance(statement, (ast.If, ast.While)):
        return _test(step, before, statement, place, end)
    if before.part == "case":
        return _case(before, place, end)
    if before.part == "except":
        return _except(step, before, place, end)
    return None


def _assertion(step: Step, end: str, records: Sequence[Record]) -> bool | None:
    if step.raised is None:
        return None if end == "open" else True
    record = records[step.raised]
    failed = isinstance(record, schema.Raise) and record.type == "AssertionError" and record.from_ is None
    return False if failed and not step.calls else None


def _test(step: Step, before: Place, statement: ast.If | ast.While, place: Place | None, end: str) -> bool | None:
    if isinstance(statement, ast.While) and always_true(statement.test):
        return True
    if place is not None and place.inside(statement, "body"):
        return True
    if place is not None and isinstance(statement, ast.If) and place.inside(statement, "orelse"):
        return False
    if before.inline or end == "open" or step.raised is not None or (place is None and not end):
        return None
    if all(map(says_nothing, statement.body)):
        return None
    if isinstance(statement, ast.If) and not all(map(says_nothing, statement.orelse)):
        return None
    return False


def _case(before: Place, place: Place | None, end: str) -> bool | None:
    if place is not None and place.inside(before.statement, "body", before.clause):
        return True
    if before.inline or end == "open":
        return False if place is not None and place.statement is before.statement and not before.inline else None
    return False


def _except(step: Step, before: Place, place: Place | None, end: str) -> bool | None:
    if place is not None and place.inside(before.statement, "body", before.clause):
        return True
    if place is not None and place.statement is before.statement and place.part == "except":
        return False
    if isinstance(before.clause, ast.ExceptHandler) and before.clause.type is None:
        return True
    if before.inline:
        carried = place is None or place.part == "except" or any(b.name == "finalbody" for b in place.within)
        return None if carried and end != "return" else True
    return None if end == "open" else False


def is_inline_test(place: Place) -> bool:
    """Whether a step at this place has a test whose outcome the next line does not show."""
    return place.inline and place.part == "test" and isinstance(place.statement, (ast.If, ast.While))


@dataclasses.dataclass(kw_only=True)
class Inline:
    """A one-line `if` or `while` whose test is not known yet.

    Attributes:
        place: Where the step stands in its code.
        siblings: The block that its statement stands in.
        goes_to: Where the frame went next, None when it ended.
        loop: For the last run of a one-line `while`: its loop, which ends here one way or the other.
    """

    step: Step
    place: Place
    siblings: Sequence[ast.stmt]
    goes_to: Place | None
    loop: Loop | None = None

    def statement(self) -> ast.If | ast.While:
        """The statement."""
        assert isinstance(self.place.statement, (ast.If, ast.While))
        return self.place.statement

    def by_what_followed(self, records: Sequence[Record]) -> bool | None:
        """The truth, from what the step did or where the frame went."""
        statement = self.statement()
        names = _stored(statement.body) - _stored([statement.test]) - _stored(statement.orelse)
        effects = (records[t] for t in self.step.effects)
        if any(isinstance(record, schema.Set) and record.name in names for record in effects):
            return True
        index = self.place.path[-1] + 1
        jumps = isinstance(statement.body[-1], _JUMPS) and isinstance(statement, ast.If) and not statement.orelse
        if not jumps or index >= len(self.siblings) or says_nothing(self.siblings[index]):
            return None
        return self.goes_to is None or self.goes_to.path[: len(self.place.path)] != (*self.place.path[:-1], index)

    def settle(self, truth: bool | None) -> None:
        """Note the truth; of a `while`, also whether an iteration began, and how the loop ended."""
        self.step.condition = truth
        if self.loop is None:
            return
        if truth is not True:
            # Whether the body ran once more is not known without the truth; the step is kept as the header's last.
            self.loop.iterations.pop()
            self.loop.closing = self.step
        leaves = any(
            isinstance(node, (ast.Break, ast.Return)) for s in self.statement().body for node in within_code(s)
        )
        if truth is None or (truth and leaves):
            self.loop.exit = None
        else:
            self.loop.exit = "false"


def _stored(nodes: Sequence[ast.AST]) -> set[str]:
    found = (each for node in nodes for each in within_code(node))
    return {node.id for node in found if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def settle_inline(trace: Trace, syntax: Syntax, waiting: Sequence[Inline]) -> None:
    """Find the conditions of one-line `if` and `while` statements, as far as they can be known."""
    from groundbox.trace.evaluate import recorded, truth
    from groundbox.trace.state import State

    state = State()
    for inline in sorted(waiting, key=lambda each: each.step.step):
        known = inline.by_what_followed(trace.records)
        if known is None:
            while state.t < inline.step.step:
                state.apply(trace.records[state.t + 1])
            try:
                lookup = recorded(state, inline.step.frame, syntax.assigned)
                known = truth(inline.statement().test, lookup, _results(trace, inline.step))
            except Unknown:
                known = None
        inline.settle(known)


def _results(trace: Trace, step: Step) -> Callable[[ast.Call], Any]:
    """What the user functions returned that a step called, asked for in the order in which they were called."""
    from groundbox.trace.plain import handled_value

    waiting = list(step.calls)

    def result(node: ast.Call) -> Any:
        inner = (each for part in (*node.args, *node.keywords) for each in within_code(part))
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if any(isinstance(each, ast.Call) for each in inner) or not waiting:
            raise Unknown("which call it was is not known")
        call = waiting.pop(0)
        body = call.node
        plain = isinstance(body, ast.FunctionDef) and not any(
            _waits(each) for s in body.body for each in within_code(s)
        )
        if call.name.rpartition(".")[2] != name or not plain or call.outcome != "return":
            raise Unknown("its result is not known")
        return handled_value(trace.state_at(call.last), call.value)

    return result


def _waits(node: ast.AST) -> bool:
    return isinstance(node, (ast.Yield, ast.YieldFrom))
