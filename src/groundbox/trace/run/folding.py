"""A run told in order, with most iterations and deep recursion left out and counted.

Folding here is a matter of showing: everything stays in the trace. Iterations and calls that were folded while
recording are told by the same markers.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from groundbox.trace.run.structure import Activation, Folded, Iteration, Loop, Node, Step, Structure


@dataclasses.dataclass(frozen=True, kw_only=True)
class Folding:
    """Bounds of what is shown; None shows all.

    Attributes:
        iterations: So many of the first iterations of each loop are shown, and the last one.
        recursion: So many activations of one function inside each other are shown; deeper ones only by their
            arguments and results.
    """

    iterations: int | None = 2
    recursion: int | None = 4


ALL = Folding(iterations=None, recursion=None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gap:
    """Stretch that is left out.

    Attributes:
        start: The first record left out.
        last: The last one.
        line: Of the loop's header, or where the function begins.
        effects: What is recorded of the difference that it made, when the rest is not.
        iterations: How many iterations, 0 for the body of a call.
        first: The number of the first iteration left out.
        steps: How many steps; of iterations folded while recording, how many lines.
        function: The function whose body is left out, or the one that the loop is in.
    """

    start: int
    last: int
    frame: int
    line: int
    effects: tuple[int, ...] = ()
    iterations: int = 0
    first: int = 0
    steps: int = 0
    function: str = ""

    @property
    def text(self) -> str:
        """`… 96 more iterations of line 3 (288 steps) …`"""
        steps = f"{self.steps} step" + ("" if self.steps == 1 else "s")
        if not self.iterations:
            return f"… {steps} of {self.function} …"
        more = " more" if self.first > 1 else ""
        return (
            f"… {self.iterations}{more} iteration{'' if self.iterations == 1 else 's'} of line {self.line} ({steps}) …"
        )


class Enter(NamedTuple):
    """A call begins."""

    t: int
    activation: Activation


class Begin(NamedTuple):
    """A step begins that calls user code, or makes a generator go on."""

    t: int
    step: Step


class Done(NamedTuple):
    """A step is over."""

    t: int
    step: Step


class Leave(NamedTuple):
    """A call is over."""

    t: int
    activation: Activation


class Skip(NamedTuple):
    """Something is left out."""

    t: int
    gap: Gap


Moment: TypeAlias = Enter | Begin | Done | Leave | Skip
_FARTHEST: Final = 100
"""Callers that are looked at for another activation of the same function."""
# At one record: a call begins before anything in it, and a step is over before the call that it belongs to.
_ORDER = {Enter: 0, Skip: 1, Begin: 2, Done: 3, Leave: 4}


def hidden_spans(structure: Structure, folding: Folding | None = None) -> list[Gap]:
    """Return what is left out, in order; none is inside another."""
    return list(_outermost(all_hidden(structure, folding or Folding())))


def told(structure: Structure, folding: Folding | None = None) -> list[Moment]:
    """The moments of a run in the order in which they came, less what is folded."""
    hidden = hidden_spans(structure, folding)
    moments: list[Moment] = []
    for activation in structure.activations.values():
        moments.append(Enter(activation.first, activation))
        if activation.outcome != "open":
            moments.append(Leave(activation.last, activation))
    for step in structure.steps:
        if step.calls or step.resumes:
            moments.append(Begin(step.step, step))
        moments.append(Done(step.last, step))
    moments.extend(Skip(gap.start, gap) for gap in hidden)
    moments.sort(key=_key)
    return _visible(moments, hidden)


def _key(moment: Moment) -> tuple[int, int, int]:
    """Order moments; where several steps are over at once, the one that began last is the innermost.

    A step of which the last that happened is the end of a call is over after that call, and not before.
    """
    if not isinstance(moment, Done):
        return moment.t, _ORDER[type(moment)], 0
    outer = any(call.last == moment.t and call.outcome != "open" for call in moment.step.calls)
    return moment.t, _ORDER[Leave] + 1 if outer else _ORDER[Done], -moment.step.step


def _visible(moments: Sequence[Moment], hidden: Sequence[Gap]) -> list[Moment]:
    """Leave out what began inside of something that is left out; a generator's step may end outside of it."""
    starts = [gap.start for gap in hidden]
    shown: list[Moment] = []
    for moment in moments:
        begins = _begins(moment)
        # None of `hidden` is inside another, so only the last one that begins before can have it.
        at = bisect_right(starts, begins) - 1
        if isinstance(moment, Skip) or at < 0 or begins > hidden[at].last:
            shown.append(moment)
    return shown


def _begins(moment: Moment) -> int:
    if isinstance(moment, Done):
        return moment.step.step
    return moment.activation.first if isinstance(moment, Leave) else moment.t


def _outermost(hidden: Sequence[Gap]) -> Iterator[Gap]:
    end = -1
    # Of two that begin at one record the longer one is outside.
    for gap in sorted(hidden, key=lambda gap: (gap.start, -gap.last)):
        if gap.start > end:
            end = gap.last
            yield gap


def all_hidden(structure: Structure, folding: Folding) -> list[Gap]:
    """Everything that is left out, also inside other things that are."""
    counter = _Counter(structure)
    found: list[Gap] = []
    levels: dict[int, int] = {}
    # In the order of calls, so that the level of a caller is known before that of what it called.
    for activation in structure.activations.values():
        level = levels[activation.frame] = _level(structure, activation, levels)
        if activation.folded is not None:
            found.append(_folded_call(activation, activation.folded))
        # One that does nothing between its call and its end has nothing to leave out.
        elif folding.recursion is not None and level > folding.recursion and activation.last > activation.first + 1:
            found.append(_deep_call(activation, counter))
        for loop in loops(activation.body):
            found.extend(_hidden_iterations(activation, loop, folding.iterations, counter))
    return found


def _level(structure: Structure, activation: Activation, levels: dict[int, int]) -> int:
    """Return how many activations of its function an activation is inside of, with itself."""
    caller = structure.activations.get(activation.parent)
    # Recursion by way of other functions is found, too, but not at any distance.
    for _ in range(_FARTHEST):
        if caller is None:
            break
        if caller.name == activation.name:
            return levels[caller.frame] + 1
        caller = structure.activations.get(caller.parent)
    return 1


class _Counter:
    """Counter of the steps that began between two records."""

    def __init__(self, structure: Structure) -> None:
        self._starts = [step.step for step in structure.steps]

    def between(self, first: int, last: int) -> int:
        return bisect_right(self._starts, last) - bisect_left(self._starts, first)


def _folded_call(activation: Activation, folded: Folded) -> Gap:
    return Gap(
        start=folded.record,
        last=max((folded.record, *folded.effects)),
        effects=tuple(folded.effects),
        frame=activation.frame,
        line=activation.line,
        steps=folded.steps,
        function=activation.short_name,
    )


def _deep_call(activation: Activation, counter: _Counter) -> Gap:
    first = activation.first + 1
    # The call and its end stay: arguments and result are told.
    last = activation.last - (activation.outcome != "open")
    return Gap(
        start=first,
        last=last,
        frame=activation.frame,
        line=activation.line,
        steps=counter.between(first, last),
        function=activation.short_name,
    )


def loops(nodes: Sequence[Node]) -> Iterator[Loop]:
    """All loops in a row of nodes, those inside others too."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if isinstance(node, Loop):
            yield node
            for iteration in node.iterations:
                waiting.extend(iteration.body)


def shown_iterations(loop: Loop, most: int | None = 2) -> list[Iteration | list[Iteration | Folded]]:
    """The iterations of a loop in order; those that are left out stand together in lists.

    Args:
        most: So many of the first ones are shown, and the last; None shows all that were recorded.
    """
    items: list[Iteration | Folded] = sorted([*loop.iterations, *loop.folds], key=_number)
    shown: list[Iteration | list[Iteration | Folded]] = []
    for index, item in enumerate(items):
        early = most is None or index < most or index == len(items) - 1
        # One iteration is as short as a marker that counts one.
        lone = most is not None and len(items) == most + 2
        if isinstance(item, Iteration) and (early or lone):
            shown.append(item)
        elif shown and isinstance(shown[-1], list):
            shown[-1].append(item)
        else:
            shown.append([item])
    return shown


def _number(item: Iteration | Folded) -> float:
    # A fold stands behind the iteration that it follows.
    return item.number if isinstance(item, Iteration) else item.after + 0.5


def _hidden_iterations(activation: Activation, loop: Loop, most: int | None, counter: _Counter) -> Iterator[Gap]:
    shown = shown_iterations(loop, most)
    for index, group in enumerate(shown):
        if not isinstance(group, list):
            continue
        following = shown[index + 1] if index + 1 < len(shown) else None
        first = start(group[0])
        last = start(following) - 1 if isinstance(following, Iteration) else _end(loop, group)
        yield Gap(
            start=first,
            last=max(first, last),
            effects=tuple(t for item in group if isinstance(item, Folded) for t in item.effects),
            frame=activation.frame,
            line=loop.line,
            iterations=sum(item.iterations if isinstance(item, Folded) else 1 for item in group),
            first=group[0].number if isinstance(group[0], Iteration) else group[0].after + 1,
            steps=counter.between(first, last) + sum(item.steps for item in group if isinstance(item, Folded)),
            function=activation.short_name,
        )


def start(item: Iteration | Folded) -> int:
    """The first record of an iteration, or of what was folded."""
    if isinstance(item, Folded):
        return item.record
    if item.header is not None:
        return item.header.step
    node = item.body[0] if item.body else None
    # A loop without a header's step that begins with an inner loop begins where that does.
    while isinstance(node, Loop):
        if node.iterations:
            return start(node.iterations[0])
        if node.folds:
            return node.folds[0].record
        node = node.closing
    return node.step if node is not None else 0


def _end(loop: Loop, group: Sequence[Iteration | Folded]) -> int:
    if loop.closing is not None:
        return loop.closing.step - 1
    last = group[-1]
    if isinstance(last, Folded):
        return max((last.record, *last.effects))
    return start(last)
