"""The course of a run: its steps, tests, loops and calls, each with the moment at which it was.

Which names had which values then is the matter of `frames`.
"""

from __future__ import annotations

import ast
import bisect
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from groundbox.trace.proof.records.frames import Frames
from groundbox.trace.schema import Record
from groundbox.trace.structure import Activation, Loop, Step, Structure


class Condition(NamedTuple):
    """A test that was evaluated."""

    t: int
    frame: int
    test: ast.expr
    truth: bool
    calls: Sequence[Activation] = ()


class LoopRun(NamedTuple):
    """One execution of a loop."""

    start: int
    end: int
    loop: Loop
    depth: int


class Course:
    """What ran, in order."""

    def __init__(self, structure: Structure, records: Sequence[Record], frames: Frames) -> None:
        self._structure = structure
        self._records = records
        self._frames = frames

    @cached_property
    def conditions(self) -> Sequence[Condition]:
        """Every test of an `if`, `while` or `assert`, in order."""
        tests = [
            Condition(step.step, step.frame, step.test, step.condition, step.calls)
            for step in self._structure.steps if step.test is not None and step.condition is not None
        ]  # fmt: skip
        return sorted((*tests, *map(_last_test, filter(_ends_in_line, self.loops))), key=lambda test: test.t)

    @cached_property
    def condition_times(self) -> list[int]:
        """When the tests were evaluated."""
        return [condition.t for condition in self.conditions]

    @cached_property
    def steps(self) -> Sequence[Step]:
        """All steps."""
        return self._structure.steps

    @cached_property
    def step_times(self) -> list[int]:
        """When they began."""
        return [step.step for step in self.steps]

    @cached_property
    def _frame_steps(self) -> dict[int, tuple[list[int], list[Step]]]:
        found: dict[int, tuple[list[int], list[Step]]] = {}
        for step in self.steps:
            times, steps = found.setdefault(step.frame, ([], []))
            times.append(step.step)
            steps.append(step)
        return found

    def _step_in(self, frame: int, t: int) -> Step | None:
        """The last step of a frame that began by `t`."""
        times, steps = self._frame_steps.get(frame, ([], []))
        at = bisect.bisect_right(times, t) - 1
        return steps[at] if at >= 0 else None

    def step_of(self, t: int) -> Step | None:
        """The step that a record belongs to: the last that had begun in its frame."""
        record = self._records[t] if 0 <= t < len(self._records) else None
        frame = getattr(record, "f", None) or self._frames.running(t)
        return self._step_in(frame, t)

    def open_steps(self, t: int) -> list[Step]:
        """The steps that are going on at `t`, in the running frame and in those that wait for it."""
        found, frame = [], self._frames.running(t)
        for _ in range(60):
            step = self._step_in(frame, t)
            if step is not None:
                found.append(step)
            if frame == 0:
                break
            frame = self._frames.parent(frame, t)
        return found

    def line_of(self, t: int) -> int | None:
        """The line that ran when a record was written."""
        record = self._records[t] if 0 <= t < len(self._records) else None
        own = getattr(record, "n", None)
        if own is not None:
            return int(own)
        step = self.step_of(t)
        return step.line if step is not None else None

    @cached_property
    def loops(self) -> Sequence[LoopRun]:
        """Every execution of a loop, by its beginning."""
        found: list[LoopRun] = []
        for activation in self._structure.activations.values():
            _collect(activation.body, 0, activation.last, found)
        return sorted(found, key=lambda run: run.start)

    @cached_property
    def iterations(self) -> Sequence[tuple[int, int]]:
        """`(t, number)` of every recorded iteration."""
        found = []
        for run in self.loops:
            for iteration in run.loop.iterations:
                first = iteration.header or next((node for node in iteration.body if isinstance(node, Step)), None)
                if first is not None:
                    found.append((first.step, iteration.number))
        return sorted(found)

    @cached_property
    def last_iterations(self) -> Mapping[int, int]:
        """When the last recorded iteration of each number began, whichever its loop."""
        return {number: t for t, number in self.iterations}

    @cached_property
    def activations(self) -> Sequence[Activation]:
        """Calls in order."""
        return sorted(self._structure.activations.values(), key=lambda activation: activation.first)

    @cached_property
    def returns(self) -> Sequence[Activation]:
        """Calls that returned, by when they did."""
        ended = [activation for activation in self.activations if activation.outcome == "return"]
        return sorted(ended, key=lambda activation: activation.last)


def _ends_in_line(run: LoopRun) -> bool:
    """Whether it is `while x: y()`, whose last test is part of its last iteration and has no step."""
    loop = run.loop
    headers = [each.header for each in loop.iterations[-1:] if each.header is not None]
    is_while = isinstance(loop.statement, ast.While) and loop.exit == "false" and loop.closing is None
    return is_while and any(header.inline for header in headers)


def _last_test(run: LoopRun) -> Condition:
    header = run.loop.iterations[-1].header
    assert header is not None
    assert isinstance(run.loop.statement, ast.While)
    return Condition(header.last, header.frame, run.loop.statement.test, False)


def _collect(nodes: Sequence[Any], depth: int, last: int, found: list[LoopRun]) -> None:
    for node in nodes:
        if not isinstance(node, Loop):
            continue
        begins = [iteration.header.step for iteration in node.iterations[:1] if iteration.header is not None]
        inner = [last_ for iteration in node.iterations[-1:] if (last_ := _last_of(iteration.body))]
        inner += [each.header.last for each in node.iterations[-1:] if each.header is not None and each.header.inline]
        closing = [node.closing.step, node.closing.last] if node.closing is not None else []
        folded = _folded(node)
        ends = closing[-1:] or [*inner, *begins, *folded]
        firsts = [*begins, *closing, *inner, *folded]
        if firsts:
            found.append(LoopRun(min(firsts), max(ends), node, depth))
        for iteration in node.iterations:
            _collect(iteration.body, depth + 1, last, found)


def _last_of(nodes: Sequence[Any]) -> int:
    node = nodes[-1] if nodes else None
    if isinstance(node, Step):
        return node.last
    if isinstance(node, Loop):
        inner = _last_of(node.iterations[-1].body) if node.iterations else 0
        return max(inner, node.closing.step if node.closing is not None else 0, *_folded(node))
    return 0


def _folded(loop: Loop) -> list[int]:
    """The records of the iterations that ran without being recorded."""
    return [t for fold in loop.folds for t in (fold.record, *fold.effects)]
