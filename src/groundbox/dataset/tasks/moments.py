"""Questions about the middle of a run: values, where control goes, conditions, which lines run, loops."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final

from groundbox.dataset.tasks.task import Draft, View, Visit, task
from groundbox.trace.record import schema
from groundbox.trace.run.state import State
from groundbox.trace.run.structure import Iteration, Loop, Node
from groundbox.values import literals
from groundbox.values.numbers import ordinal
from groundbox.values.unknown import Unknown

_MOST_VALUE_CHARS: Final = 200
_TRIES: Final = 12
LEAST_TOLD: Final = 3
"""Sentences of the telling that stand before a question, where the run has so many."""
_MOST_TESTS: Final = 30
_FEWEST_LINES: Final = 3
_ENDS_OF_BOTH: Final = ("break", "return", "raise")
_ENDS: Final = {
    "exhausted": "exhausted",
    "false": "the condition is false",
    "break": "break",
    "return": "return",
    "raise": "an exception",
}


@task("state", about="the value of a name at one moment", place=30, numbered=True)
def state(view: View) -> Iterator[Draft]:
    """Yield one question about a name that has had more than one value by then, if there is one."""
    rng = view.rng("state")
    # Within functions only: names of the module are seldom what a program is about.
    visits = [each for each in view.visits if view.lines.function_at(each.line)]
    for visit in rng.sample(visits, min(_TRIES, len(visits))):
        values = _told_values(view, visit)
        if values:
            name = rng.choice(sorted(values))
            yield _state_draft(view, visit, name, values[name])
            return


def moment(view: View, visit: Visit) -> str:
    """Words for the moment right before a line runs."""
    return f"line {visit.line} (`{view.lines.text(visit.line)}`) is about to run for the {ordinal(visit.time)} time"


def _state_draft(view: View, visit: Visit, name: str, value: str) -> Draft:
    return Draft(
        task="state",
        question=f"When {moment(view, visit)}, what is the value of `{name}`?",
        answer=value,
        check={"kind": "value", "value": value},
        reasoning=view.told.upto(visit.step.step),
    )


def _told_values(view: View, visit: Visit) -> dict[str, str]:
    """Names of the frame that were assigned in it, with the texts of their values, as far as these are told by then.

    The telling up to the moment may end before the last lines that ran: a name that they changed is not asked for.
    """
    state = view.trace.state_at(visit.step.step)
    since = view.told.untold_since(visit.step.step)
    told = view.trace.state_at(since - 1)
    held = told.names(visit.step.frame)
    found: dict[str, str] = {}
    assigned = _assigned(view, visit)
    for name, value in state.names(visit.step.frame).items():
        # Only names that the function itself assigned: its arguments stand in the prompt.
        if name in assigned and name in held:
            text = literal_text(state, value)
            # The value must be the one that the telling has reached; else the reply ends before its own answer.
            if text and len(text) <= _MOST_VALUE_CHARS and text == literal_text(told, held[name]):
                found[name] = text
    return found


def _assigned(view: View, visit: Visit) -> set[str]:
    before = view.trace.records[: visit.step.step]
    return {each.name for each in before if isinstance(each, schema.Set) and each.f == visit.step.frame}


def literal_text(state: State, value: Any) -> str:
    """A value of a state as Python writes it, or "" where it is no literal."""
    try:
        plain = state.python_value(value)
        literals.encode(plain)
    except (Unknown, literals.NotALiteral):
        return ""
    return literals.text(plain)


@task("next_line", about="where control goes from a line", place=40, numbered=True)
def next_line(view: View) -> Iterator[Draft]:
    """Yield one question about an `if`, `while` or `for` that sends control to another line of its function.

    It is posed where LEAST_TOLD sentences lead to it, or in a short run where the most do.
    """
    forks = [(each, view.told.count_upto(each.step.last)) for each in view.visits if _is_fork(view, each)]
    if not forks:
        return
    # A question at the first line has a reply without reasoning.
    enough = min(LEAST_TOLD, max(count for _, count in forks))
    visit = view.rng("next_line").choice([each for each, count in forks if count >= enough])
    yield Draft(
        task="next_line",
        question=f"When {moment(view, visit)}, which line of the same function runs next? "
        "Answer with its number, counted from 1.",
        answer=str(visit.step.branch),
        check={"kind": "value", "value": str(visit.step.branch)},
        reasoning=view.told.upto(visit.step.last),
    )


def _is_fork(view: View, visit: Visit) -> bool:
    step = visit.step
    if _has_changes(view, view.told.untold_since(step.step), step.step):
        return False
    if not isinstance(step.statement, ast.If | ast.While | ast.For) or step.inline or step.raised is not None:
        return False
    return step.last <= view.unfolded and step.branch is not None and view.lines.is_plain(step.branch)


def _has_changes(view: View, first: int, last: int) -> bool:
    """Tell whether a name or an object changed in some records: what the test reads may not be told then."""
    return any(isinstance(record, schema.Set | schema.Mutate) for record in view.trace.records[first : last + 1])


@task("branch", about="how a condition turns out, each time", place=50, numbered=True)
def branch(view: View) -> Iterator[Draft]:
    """Yield one question about a condition that turns out both ways, or, if none does, about one that is tested."""
    if view.trace.folded:
        return
    turns: dict[int, list[bool | None]] = defaultdict(list)
    for visit in view.visits:
        if visit.step.test is not None:
            turns[visit.line].append(visit.step.condition)
    known = {line: each for line, each in turns.items() if None not in each and len(each) <= _MOST_TESTS}
    # A condition that always comes out the same is answered by its first time.
    lines = [line for line, each in known.items() if len(set(each)) == 2] or list(known)
    if not lines:
        return
    line = view.rng("branch").choice(sorted(lines))
    answer = str(known[line])
    yield Draft(
        task="branch",
        question=f"How does the condition in line {line} (`{view.lines.text(line)}`) turn out, each time that it is "
        "tested during the run? Answer with a list of `True` and `False`, in order.",
        answer=answer,
        check={"kind": "value", "value": answer},
        reasoning=view.told.text,
    )


@task("coverage", about="which lines of a function run", place=60, numbered=True)
def coverage(view: View) -> Iterator[Draft]:
    """Yield one question about a function of which some lines run and some do not; folded runs may hide lines."""
    # A folded loop may have gone through lines that no record shows.
    if view.trace.folded or view.item.traced is None:
        return
    ran = set(view.item.traced.lines)
    functions = sorted({view.lines.function_at(line) for line in ran} - {""})
    open_ones = [name for name in functions if _runs_partly(view.lines.plain_in(name), ran)]
    if not open_ones:
        return
    name = view.rng("coverage").choice(open_ones)
    asked = view.lines.plain_in(name)
    answer = str([line for line in asked if line in ran])
    yield Draft(
        task="coverage",
        question=f"Of the lines {', '.join(map(str, asked))} of `{name}`, which run at least once? "
        "Answer with a list of their numbers.",
        answer=answer,
        check={"kind": "lines", "value": answer},
        reasoning=view.told.text,
    )


def _runs_partly(lines: list[int], ran: set[int]) -> bool:
    return len(lines) >= _FEWEST_LINES and 0 < len(ran & set(lines)) < len(lines)


@task("loop", about="how often a loop goes round, and what ends it", place=70, numbered=True)
def loop(view: View) -> Iterator[Draft]:
    """Yield one question about the first time that a loop runs. Iterations that were folded are counted, too."""
    first: dict[int, Loop] = {}
    for activation in view.trace.structure.activations.values():
        for loop in _loops(activation.body):
            if activation.name != "<module>" and _first_record(loop) <= view.unfolded:
                earlier = first.setdefault(loop.line, loop)
                if _first_record(loop) < _first_record(earlier):
                    first[loop.line] = loop
    found = [each for line, each in sorted(first.items()) if view.lines.is_plain(line) and each.exit in _ENDS]
    if found:
        yield _loop_draft(view, view.rng("loop").choice(found))


def _loop_draft(view: View, loop: Loop) -> Draft:
    own = "exhausted" if loop.kind == "for" else "false"
    ends = [text for name, text in _ENDS.items() if name == own or name in _ENDS_OF_BOTH]
    answer = repr((loop.count, _ENDS[loop.exit or ""]))
    return Draft(
        task="loop",
        question=f"The loop in line {loop.line} (`{view.lines.text(loop.line)}`) is run for the first time. How often "
        f"does its body begin, and what ends it: {', '.join(map(repr, ends))}? "
        "Answer with a tuple such as `(2, 'break')`.",
        answer=answer,
        check={"kind": "value", "value": answer},
        reasoning=view.told.text,
    )


def _first_record(loop: Loop) -> int:
    """Index of the first record of the loop's header."""
    first = loop.iterations[0].header if loop.iterations else loop.closing
    return first.step if first is not None else 1 << 62


def _loops(body: Sequence[Node]) -> Iterator[Loop]:
    waiting: list[Node | Iteration] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, Loop):
            yield node
            waiting.extend(node.iterations)
        elif isinstance(node, Iteration):
            waiting.extend(node.body)
