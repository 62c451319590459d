"""Tools of every part of the narrator: the trace, the state at the moment that is told, the draft, the voice."""

from __future__ import annotations

import ast
import functools
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final

from groundbox.trace.narrate.draft import Draft
from groundbox.trace.narrate.evaluation import Results
from groundbox.trace.narrate.explanation import Explanation, Reason
from groundbox.trace.narrate.narration import Claim, ClaimKind
from groundbox.trace.narrate.phrases import Voice
from groundbox.trace.narrate.policy import Level, Policy
from groundbox.trace.narrate.reasons import Reasons, ValueReason
from groundbox.trace.record.reading import Trace
from groundbox.trace.record.schema import Raise, V, Yield
from groundbox.trace.record.syntax import KEPT_PROGRAMS, lines_of, walked
from groundbox.trace.record.value import kind_of, ref_of
from groundbox.trace.run.state import State
from groundbox.trace.run.structure import Activation

UNTOLD: Final = frozenset({"function", "builtin", "module", "class", "method"})
MAX_CODE: Final = 42
"""Characters of a condition that is told in full each time."""
MAX_CHANGED: Final = 60
"""Characters of an object that was told before and has changed since."""
MAX_AGAIN: Final = 40
"""Characters of an object that is told again and again."""


@dataclass(kw_only=True)
class Telling:
    """Narration in the making. The state only moves forward, as the run did.

    Attributes:
        generators: Frames that yielded.
        recursive: Functions that called themselves, at once or by one other.
        passes_over: Whether calls are told by their results alone that lie deeper than the policy goes.
    """

    trace: Trace
    policy: Policy
    voice: Voice
    draft: Draft
    state: State = field(default_factory=State)
    passes_over: bool = False
    _seen: Counter[Hashable] = field(default_factory=Counter)
    _told: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        source = self.trace.source
        self.recursive = _recursive(self.trace)
        self.generators = frozenset(record.f for record in self.trace.records if isinstance(record, Yield))
        self._disturbed = _disturbed(self.trace.structure.syntax.tree)
        self._lines = lines_of(source)
        # Going by the text alone: where either word stands, an instance may be false.
        self._own_truth = "__bool__" in source or "__len__" in source

    def say(self, kind: str, *claims: Claim, alone: bool = False, **slots: str) -> None:
        """Tell a statement, in one of the wordings of its kind."""
        self.draft.say(self.voice.say(kind, **slots), *claims, alone=alone)

    def advance(self, t: int) -> None:
        """Go on to the moment after record `t`, if that is still ahead."""
        while self.state.t < t:
            self.state.apply(self.trace.records[self.state.t + 1])

    def seen(self, key: Hashable) -> int:
        """Return how often this was asked for before."""
        self._seen[key] += 1
        return self._seen[key] - 1

    def text(self, value: V, max_chars: int | None = None) -> str:
        """A value as text at this moment."""
        return self.state.text(value, self.policy.value_chars if max_chars is None else max_chars)

    def told_text(self, value: V) -> str:
        """A value as text; a long one that was told before and has not changed is only called the same."""
        text = self.text(value)
        label = ref_of(value)
        if label is None or len(text) <= MAX_AGAIN:
            return text
        # By label: another object with the same content is told as what it is.
        before = self._told.get(label)
        self._told[label] = text
        if before == text:
            return f"the same {self.thing(value)} as before"
        return text if before is None else self.text(value, MAX_CHANGED)

    def explanation(self, frame: int, results: Results | None = None) -> Explanation:
        """For the expressions of a frame at this moment; it moves with the state."""
        assigned = self.trace.structure.syntax.assigned
        return Explanation(self.state, frame, results=results, assigned=assigned, own_truth=self._own_truth)

    def code(self, node: ast.AST, max_chars: int = 110) -> str | None:
        """The program's own text of an expression in backticks, on one line, if it is short."""
        text = self._segment(node)
        return f"`{text}`" if text and "\n" not in text and "`" not in text and len(text) <= max_chars else None

    def _segment(self, node: ast.AST) -> str:
        """An expression as the program has it on one line, or as it may be put on one; "" for one without a place.

        Like `ast.get_source_segment`, which takes the whole source apart each time.
        """
        line, last = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
        begin, end = getattr(node, "col_offset", None), getattr(node, "end_col_offset", None)
        if line is None or last is None or begin is None or end is None:
            return ""
        # Columns count bytes of UTF-8.
        return ast.unparse(node) if line < last else self._lines[line - 1].encode()[begin:end].decode()

    def is_disturbed(self, statement: ast.stmt | None) -> bool:
        """Return whether another statement of its line may have changed what it assigned."""
        return statement in self._disturbed

    def is_code(self, value: V) -> bool:
        """Return whether a value is a function, class or module: what it stands for is said by its definition."""
        label = ref_of(value)
        return kind_of(value) in UNTOLD or (label is not None and self.state.heap[label].type == "class")

    def thing(self, value: V) -> str:
        """Return what sort of object a reference leads to: `list`, `dict`, `Node`."""
        held = self.state.heap[value["ref"]]
        return held.type if held.type == "array" else (held.class_ or held.type).rpartition(".")[2]

    def condition(self, test: ast.expr, truth: bool, reason: str | None, *, brief: bool, leads: bool) -> str:
        """A condition in words, with its reason; only the reason where the condition was told before."""
        if reason is not None and brief and (truth or leads):
            return reason
        code = self.code(test) or f"the test on line {test.lineno}"
        # A long condition whose block was not entered: the reason and what came of it are enough.
        if brief and len(code) > MAX_CODE and reason is not None:
            return self.voice.say("condition.false.long", reason=reason)
        kind = "condition." + ("true" if truth else "false")
        if reason is None:
            return self.voice.say(kind, code=code)
        # `x is None`, so `x is None` is true.
        if reason.startswith(f"{code} is") or _says_no_more(test):
            return reason if truth or leads else self.voice.say("condition.false.long", reason=reason)
        return self.voice.say(f"{kind}.{'led' if leads else 'reason'}", code=code, reason=reason)

    def exception(self, record: Raise) -> str:
        """An exception as its class would be called: `KeyError('x')`."""
        return f"{record.type}({', '.join(self.text(value, 80) for value in record.args)})"


def _says_no_more(test: ast.expr) -> bool:
    """Return whether the reason of a test is the test itself: `x is None`, or a call that was true."""
    if isinstance(test, ast.Compare):
        return len(test.ops) == 1 and isinstance(test.ops[0], ast.Is | ast.IsNot)
    return isinstance(test, ast.Call)


@functools.lru_cache(maxsize=KEPT_PROGRAMS)
def _disturbed(tree: ast.Module | None) -> frozenset[ast.stmt]:
    """Statements whose values what stands beside them may have changed, or whose calls are not told from its calls.

    `x = [1]; x.append(2)`, and `a = Node(1); b = Node(2)`.
    """
    lines: dict[int, list[ast.stmt]] = {}
    for node in walked(tree) if tree is not None else ():
        if isinstance(node, ast.stmt) and not hasattr(node, "body") and not isinstance(node, ast.Match):
            lines.setdefault(node.lineno, []).append(node)
    return frozenset(
        one
        for row in lines.values()
        for one in row
        if any(_assigned(one) & _named(other) or _calls(one) for other in row if other is not one)
    )


def _assigned(statement: ast.stmt) -> set[str]:
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    return {name for target in targets if isinstance(target, ast.expr) for name in _named(target)}


def _calls(statement: ast.stmt) -> bool:
    return any(isinstance(part, ast.Call) for part in ast.walk(statement))


def _named(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _recursive(trace: Trace) -> frozenset[str]:
    """Functions that called themselves, at once or by one other."""
    activations = trace.structure.activations
    found = set()
    for activation in activations.values():
        caller = activations.get(activation.parent)
        beyond = activations.get(caller.parent) if caller is not None else None
        if activation.name in (caller.name if caller else "", beyond.name if beyond else ""):
            found.add(activation.name)
    return frozenset(found)


@dataclass(frozen=True, kw_only=True)
class Where:
    """The place in the run that is told.

    Attributes:
        number: Of the iteration of the innermost loop, 0 outside of loops.
        depth: Loops of this activation around it.
        quiet: Whether the statement itself says what its call returned.
        nested: How loops and calls inside are told at most.
        returning: How the value of the last return came about; the call's end takes it from here.
    """

    activation: Activation
    level: Level
    nested: Level
    number: int = 0
    depth: int = 0
    quiet: bool = False
    returning: list[Reasons] = field(default_factory=list)


def claim(
    kind: ClaimKind,
    refs: Sequence[int],
    frame: int,
    subject: str,
    value: str,
    *,
    why: ValueReason | Reason | None = None,
) -> Claim:
    """A claim with its evidence in order."""
    at = tuple(sorted(set(refs)))
    return Claim(kind=kind, refs=at, frame=frame, subject=subject, value=value, why=why)
