"""Tasks: the view that questions are made of, the drafts they become, and how a kind of question is declared.

A task is a function from the `View` of one run to `Draft`s, under the decorator `task`. A module of this package that
has one is found by itself (`groundbox.dataset.tasks.registry`); docs/contributing/extending.md has an example.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from groundbox.dataset import signature
from groundbox.dataset.item import Item
from groundbox.dataset.narration import Narrator, Prover, Told, mended, seed_of
from groundbox.dataset.problem import Case, Problem
from groundbox.trace.record import schema
from groundbox.trace.record.reading import Trace
from groundbox.trace.record.syntax import lines_of
from groundbox.trace.run.structure import Step

MAKERS: Final[dict[str, Task]] = {}
"""Every task that was declared, by name."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class View:
    """An item with its trace and the narration of that.

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
        records = self.trace.records
        gaps = (t for t, record in enumerate(records) if isinstance(record, schema.Fold | schema.Lost))
        return next(gaps, len(records)) - 1

    @functools.cached_property
    def visits(self) -> tuple[Visit, ...]:
        """Lines that hold one statement, each time the program comes to one before anything is left out."""
        times: Counter[int] = Counter()
        found: list[Visit] = []
        for step in self.trace.structure.steps:
            if step.step > self.unfolded:
                break
            times[step.line] += 1
            if self.lines.is_plain(step.line) and step.statement is not None:
                found.append(Visit(step=step, line=step.line, time=times[step.line]))
        return tuple(found)


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """A kind of question.

    Attributes:
        about: What is asked, for the dataset card.
        place: Tasks stand in this order, and a build chooses among them in it: it decides what a seed means, so that
            the place of a task that datasets were built with must not change.
        numbered: Whether the listing of the program has line numbers, because questions or answers speak of lines.
        always: Whether it is asked before others where there is room for some only.
    """

    name: str
    make: Make
    about: str
    place: int
    numbered: bool = False
    always: bool = False


def task(
    name: str, *, about: str, place: int = 1000, numbered: bool = False, always: bool = False
) -> Callable[[Make], Make]:
    """Declare a function from a `View` to `Draft`s as a task; see `Task` for the arguments.

    Raises:
        ValueError: Another task has the name.
    """

    def declared(make: Make) -> Make:
        if name in MAKERS:
            first, second = MAKERS[name].make, make
            raise ValueError(
                f"two tasks are called {name!r}, in {first.__module__} and in {second.__module__}; rename one"
            )
        MAKERS[name] = Task(name=name, make=make, about=about, place=place, numbered=numbered, always=always)
        return make

    return declared


def rng_of(item: str, seed: int, task: str) -> random.Random:
    """Random choices of one task of an item."""
    # A text as seed is hashed with SHA-512 by `random`, not by the process's own hash.
    return random.Random(f"{seed}/{item}/{task}")


def guess_name(item: str, number: int) -> str:
    """Under which name the trace of an item's guess is kept."""
    return f"{item}?{number}"


Make: TypeAlias = Callable[[View], Iterator[Draft]]


class Lines:
    """A line is plain when it holds one statement, or the head of one, and nothing of it stands on another line.

    Such a line is come to once for each time that its statement runs.
    """

    def __init__(self, source: str) -> None:
        tree = signature.tree_of(source)
        self._texts = lines_of(source)
        self._statements: dict[int, ast.stmt] = {}
        self._functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
        if tree is not None:
            self._read(tree)

    def is_plain(self, line: int) -> bool:
        """Tell whether the line can be asked about."""
        return line in self._statements

    def text(self, line: int) -> str:
        """The line without its indentation."""
        return self._texts[line - 1].strip() if 0 < line <= len(self._texts) else ""

    @property
    def functions(self) -> list[str]:
        """Names of all functions."""
        return sorted({each.name for each in self._functions})

    def function_at(self, line: int) -> str:
        """Name of the innermost function that a line stands in, or ""."""
        around = [each for each in self._functions if each.lineno <= line <= (each.end_lineno or each.lineno)]
        return max(around, key=lambda each: each.lineno).name if around else ""

    def plain_in(self, function: str) -> list[int]:
        """The plain lines of a function's body that say something when they run."""
        return [
            line
            for line, statement in sorted(self._statements.items())
            if self.function_at(line) == function
            and not isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.Global | ast.Nonlocal | ast.Pass)
            and not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        ]

    def _read(self, tree: ast.Module) -> None:
        # On a line with two statements (`a = 1; b = 2`), "the second time" would be ambiguous.
        statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
        self._functions = [each for each in statements if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
        begun = Counter(each.lineno for each in statements)
        for each in statements:
            if begun[each.lineno] == 1 and _head_end(each) == each.lineno:
                self._statements[each.lineno] = each


def _head_end(statement: ast.stmt) -> int:
    """The last line of a statement, or of what stands before its body; 0 for one that comes to its line twice."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and statement.decorator_list:
        return 0  # it runs on the lines of its decorators, too
    inside = {id(node) for child in _blocks(statement) for node in ast.walk(child)}
    head = [node for node in ast.walk(statement) if node is not statement and id(node) not in inside]
    if any(isinstance(node, ast.GeneratorExp | ast.Lambda) for node in head):
        return 0  # their code comes to the line, too
    own = (statement.end_lineno or 0) if not inside else 0
    return max([statement.lineno, own, *(getattr(node, "end_lineno", None) or 0 for node in head)])


def _blocks(statement: ast.stmt) -> list[ast.AST]:
    fields = (getattr(statement, name, []) for name in ("body", "orelse", "finalbody", "handlers", "cases"))
    return [child for block in fields for child in block]
