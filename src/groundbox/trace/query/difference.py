"""Differences of two runs: the first step that differs, what both sides did there, and which values differ."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from groundbox.trace.record import schema
from groundbox.trace.run.state import State
from groundbox.trace.run.structure import Step

if TYPE_CHECKING:
    from groundbox.trace.record.reading import Trace

MOST_CHARS = 2000
_SHOWN = 120


@dataclasses.dataclass(frozen=True, kw_only=True)
class Side:
    """Doings of one run at the step where they part.

    Attributes:
        step: The step's number in its own trace; None when this run had ended.
        effects: What the step did, as short texts.
    """

    step: int | None
    function: str = ""
    line: int | None = None
    source: str = ""
    effects: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.step is None:
            return "had ended"
        did = "; ".join(self.effects)
        return f"step {self.step}, line {self.line} of {self.function}: {self.source}" + (f"   # {did}" if did else "")


class Differing(NamedTuple):
    """A name whose values differ; None where it has none."""

    name: str
    left: str | None
    right: str | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Difference:
    """Place where two runs part.

    Attributes:
        same: Whether they do not.
        steps: How many steps they have in common.
        control: Whether they went to different lines (else one step did different things).
        names: Names of the frame whose values differ after that step.
    """

    same: bool
    steps: int
    control: bool = False
    left: Side | None = None
    right: Side | None = None
    names: tuple[Differing, ...] = ()

    def __bool__(self) -> bool:
        return not self.same

    def __str__(self) -> str:
        if self.same:
            return f"the same {self.steps} steps"
        what = "went different ways" if self.control else "did different things"
        lines = [f"after {self.steps} steps in common they {what}", f"  left:  {self.left}", f"  right: {self.right}"]
        lines.extend(f"  {n.name}: {_said(n.left)} and {_said(n.right)}" for n in self.names)
        return "\n".join(lines)


def _said(text: str | None) -> str:
    if text is None:
        return "no value"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def diff(left: Trace, right: Trace) -> Difference:
    """Compare two runs step by step, of one program or of two versions of it.

    Lines of two versions correspond as far as their texts do. Labels of objects are not compared, contents are.
    """
    lines = _line_map(left.source, right.source)
    sides = _Reader(left), _Reader(right)
    begun = 0
    # A run that goes on where the other one has ended parts from it there.
    for mine, other in zip_longest(sides[0].moments, sides[1].moments):
        # One of them has ended, or calls where the other one does not.
        if mine is None or other is None or mine.over != other.over:
            return _difference(sides, begun, mine, other, control=True)
        a, b = mine.step, other.step
        if not mine.over:
            # A line that only one version has corresponds to none.
            if lines.get(a.line) != b.line or sides[0].function(a) != sides[1].function(b):
                return _difference(sides, begun, mine, other, control=True)
            begun += 1
        elif a.condition != b.condition or sides[0].effects(a) != sides[1].effects(b):
            # The step that differs has begun in both, and is none of those in common.
            return _difference(sides, begun - 1, mine, other, control=False)
    return Difference(same=True, steps=begun)


class Moment(NamedTuple):
    """A step begins, or is over; what it did is compared then, after what it called."""

    t: int
    step: Step
    over: bool


def _difference(
    sides: tuple[_Reader, _Reader], number: int, mine: Moment | None, other: Moment | None, *, control: bool
) -> Difference:
    left, right = (None if each is None else each.step for each in (mine, other))
    names = [side.names(each) for side, each in zip(sides, (mine, other), strict=True)]
    differing = tuple(
        Differing(name, names[0].get(name), names[1].get(name))
        for name in dict.fromkeys([*names[0], *names[1]])
        if left is not None and right is not None and names[0].get(name) != names[1].get(name)
    )
    return Difference(
        same=False,
        steps=number,
        control=control,
        left=sides[0].side(left),
        right=sides[1].side(right),
        names=differing,
    )


class _Reader:
    """Run that is read forwards."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._structure = trace.structure
        self._state = State()
        self.moments = _moments(self._structure.steps)

    def function(self, step: Step) -> str:
        return self._structure.activations[step.frame].name

    def _at(self, t: int) -> State:
        """The state after a record; going back costs a walk from the nearest keyframe."""
        if t < self._state.t:
            return self._trace.state_at(t)
        while self._state.t < t:
            self._state.apply(self._trace.records[self._state.t + 1])
        return self._state

    def effects(self, step: Step) -> tuple[str, ...]:
        said = []
        for t in step.effects:
            record = self._trace.records[t]
            if isinstance(record, schema.Set):
                said.append(f"{record.name} = {self._at(t).text(record.v, MOST_CHARS)}")
            elif isinstance(record, schema.Del):
                said.append(f"del {record.name}")
            elif isinstance(record, schema.Out):
                said.append(f"printed {record.text!r}")
            elif isinstance(record, schema.Mutate):
                said.append(f"now {self._at(t).text({'ref': record.id}, MOST_CHARS)}")
        if step.raised is not None:
            raised = self._trace.records[step.raised]
            said.append(f"raised {raised.type}" if isinstance(raised, schema.Raise) else "raised")
        if step.condition is not None:
            said.append(f"the test was {'true' if step.condition else 'false'}")
        return tuple(said)

    def names(self, moment: Moment | None) -> dict[str, str]:
        if moment is None:
            return {}
        state = self._trace.state_at(moment.t)
        return {name: state.text(value, MOST_CHARS) for name, value in state.names(moment.step.frame).items()}

    def side(self, step: Step | None) -> Side:
        if step is None:
            return Side(step=None)
        return Side(
            step=step.step,
            function=self.function(step),
            line=step.line,
            source=self._structure.syntax.line(step.line),
            effects=tuple(_said(effect) for effect in self.effects(step)),
        )


def _moments(steps: Sequence[Step]) -> list[Moment]:
    moments = [Moment(step.step, step, False) for step in steps]
    # What a step did is known when it is over, after what it called; where it went is known when it begins.
    moments.extend(Moment(step.last, step, True) for step in steps)
    # Where several are over at once, the one that began last is the innermost.
    return sorted(moments, key=lambda each: (each.t, each.over, -each.step.step))


def _line_map(left: str, right: str) -> dict[int, int]:
    """Lines of the left source to lines of the right one, where both versions have them."""
    if left == right:
        return {n: n for n in range(1, left.count("\n") + 3)}
    mine, other = left.splitlines(), right.splitlines()
    lines: dict[int, int] = {}
    for tag, a, b, c, d in difflib.SequenceMatcher(None, mine, other, autojunk=False).get_opcodes():
        # Lines that were changed in their place correspond as well, one by one.
        if tag == "equal" or (tag == "replace" and b - a == d - c):
            lines.update((a + offset + 1, c + offset + 1) for offset in range(b - a))
    return lines
