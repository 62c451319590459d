"""What tasks are made from, and what they are made into."""

from __future__ import annotations

import dataclasses
import functools
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from groundbox.dataset.item import Item
from groundbox.dataset.mending import mended
from groundbox.dataset.narrating import Narrator, Prover, Told
from groundbox.dataset.problem import Case, Problem
from groundbox.dataset.stages.narrate import seed_of
from groundbox.dataset.tasks.lines import Lines
from groundbox.trace.record import schema
from groundbox.trace.record.reading import Trace
from groundbox.trace.run.structure import Step


@dataclasses.dataclass(frozen=True, kw_only=True)
class View:
    """One item with its trace and the narration of that.

    Attributes:
        seed: Of every choice that is made for this item.
        guesses: Traces of the arguments that the item has tried.
    """

    problem: Problem
    item: Item
    trace: Trace
    told: Told
    narrator: Narrator
    prove: Prover
    seed: int
    max_chars: int
    guesses: Sequence[Trace] = ()

    def told_guess(self, number: int) -> Told | None:
        """The run of a guess, told whole, if every claim of that is proven and nothing has to be left out for it."""
        trace, name = self.guesses[number], guess_name(self.item.id, number)
        told = self.narrator(trace, style=self.told.style, seed=seed_of(name, self.seed), max_chars=self.max_chars)
        found = mended(told, trace, self.prove)
        is_whole = told.whole and not found.left_out
        return found.told if is_whole and found.proved.faithful else None

    def rng(self, task: str) -> random.Random:
        """Random choices of one task: the same in every build with the same seed."""
        return rng_of(self.item.id, self.seed, task)

    @functools.cached_property
    def lines(self) -> Lines:
        """The program's statements by line."""
        return Lines(self.problem.source)

    @functools.cached_property
    def unfolded(self) -> int:
        """Index of the last record before anything was left out; times are counted up to there."""
        for t, record in enumerate(self.trace.records):
            if isinstance(record, schema.Fold | schema.Lost):
                return t - 1
        return len(self.trace.records) - 1

    @functools.cached_property
    def visits(self) -> tuple[Visit, ...]:
        """Lines that hold one statement, each time the program comes to one before anything is left out."""
        return tuple(_visits(self))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Visit:
    """The program comes to a line.

    Attributes:
        time: It does so for the time-th time, counted from 1 over the whole run.
    """

    step: Step
    line: int
    time: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Draft:
    """A question with its answer.

    Attributes:
        question: What is asked; program and input stand before it.
        answer: What stands after `Answer: `.
        check: How an answer is judged; `groundbox.dataset.tasks.checking` reads it.
        reasoning: What leads to the answer; every statement in it is the narrator's.
        shows_input: Whether the input is told in the prompt.
        given: A text that the question is about, shown after program and input.
        case: Arguments that the answer tells, where these are not the item's own.
        tellings: Of other runs, which `reasoning` holds in place of the item's own.
    """

    task: str
    question: str
    answer: str
    check: Mapping[str, Any]
    reasoning: str
    shows_input: bool = True
    given: str = ""
    case: Case | None = None
    tellings: Sequence[Told] = ()


def rng_of(item: str, seed: int, task: str) -> random.Random:
    """Random choices of one task of an item."""
    return random.Random(f"{seed}/{item}/{task}")


def guess_name(item: str, number: int) -> str:
    """Under which name the trace of an item's guess is kept."""
    return f"{item}?{number}"


class Task(Protocol):
    """Makes questions of one kind."""

    NAME: str

    def make(self, view: View) -> Iterator[Draft]:
        """The questions that this trace answers; none where it does not."""


def _visits(view: View) -> Iterator[Visit]:
    times: Counter[int] = Counter()
    for step in view.trace.structure.steps:
        if step.step > view.unfolded:
            return
        times[step.line] += 1
        if view.lines.is_plain(step.line) and step.statement is not None:
            yield Visit(step=step, line=step.line, time=times[step.line])
