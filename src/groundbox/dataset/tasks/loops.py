"""Loops: how often a loop goes round, and what ends it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from groundbox.dataset.tasks.draft import Draft, View
from groundbox.trace.run.structure import Iteration, Loop, Node

NAME: Final = "loop"
_EITHER: Final = ("break", "return", "raise")
_ENDS: Final = {
    "exhausted": "exhausted",
    "false": "the condition is false",
    "break": "break",
    "return": "return",
    "raise": "an exception",
}


def make(view: View) -> Iterator[Draft]:
    """One question about the first time that a loop runs. Iterations that were folded are counted, too."""
    first: dict[int, Loop] = {}
    for activation in view.trace.structure.activations.values():
        for loop in _loops(activation.body):
            if activation.name != "<module>" and _begin(loop) <= view.unfolded:
                earlier = first.setdefault(loop.line, loop)
                if _begin(loop) < _begin(earlier):
                    first[loop.line] = loop
    found = [each for line, each in sorted(first.items()) if view.lines.is_plain(line) and each.exit in _ENDS]
    if found:
        yield _draft(view, view.rng(NAME).choice(found))


def _draft(view: View, loop: Loop) -> Draft:
    own = "exhausted" if loop.kind == "for" else "false"
    ends = [text for name, text in _ENDS.items() if name == own or name in _EITHER]
    answer = repr((loop.count, _ENDS[loop.exit or ""]))
    return Draft(
        task=NAME,
        question=f"The loop in line {loop.line} (`{view.lines.text(loop.line)}`) is run for the first time. How often "
        f"does its body begin, and what ends it: {', '.join(map(repr, ends))}? "
        "Answer with a tuple such as `(2, 'break')`.",
        answer=answer,
        check={"kind": "value", "value": answer},
        reasoning=view.told.text,
    )


def _begin(loop: Loop) -> int:
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
