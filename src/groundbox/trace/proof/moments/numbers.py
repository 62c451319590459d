"""Which numbers a run has at a moment, or its program writes: arithmetic with others is not about it."""

from __future__ import annotations

import ast
import bisect
from typing import Any

from groundbox.trace.proof.records.ledger import Ledger
from groundbox.trace.proof.values.likeness import same
from groundbox.trace.proof.values.things import Array, Part, Thing


def is_known(ledger: Ledger, node: ast.expr, t: int) -> bool:
    """Whether every number in a plain expression is one that the run has at `t`, or the program writes.

    A choice is never plain arithmetic: only the program can have made it.
    """
    if any(isinstance(part, ast.IfExp) for part in ast.walk(node)):
        return False
    numbers = [
        part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and type(part.value) in (int, float)
    ]
    unknown = [number for number in numbers if number not in (0, 1, 2)]
    if not unknown:
        return True
    have = _numbers(ledger, t)
    return all(
        number in have or any(same(number, other, about=True) for other in have if isinstance(number, float))
        for number in unknown
    )


def _numbers(ledger: Ledger, t: int) -> set[float]:
    have: set[float] = set()
    tree = ledger.structure.syntax.tree
    for part in ast.walk(tree) if tree is not None else ():
        if isinstance(part, ast.Constant) and type(part.value) in (int, float):
            have |= {part.value, -part.value}  # type: ignore[arg-type,operator]
    for moment in (t, max(0, t - 1), *_near(ledger, t)):
        for name in ledger.names:
            value = ledger.frames.visible(name, moment)
            _gather(ledger.memory.read(value, moment) if not isinstance(value, Thing) else value, have, 0)
    return have


def _near(ledger: Ledger, t: int) -> list[int]:
    at = bisect.bisect_right(ledger.course.step_times, t)
    return ledger.course.step_times[max(0, at - 3) : at + 3]


def _gather(value: Any, have: set[float], depth: int) -> None:
    """All numbers in a value."""
    if depth > 4 or len(have) > 5000:
        return
    if isinstance(value, int | float) and not isinstance(value, bool):
        have.add(value)
    elif isinstance(value, dict):
        for key, item in list(value.items())[:200]:
            _gather(key, have, depth + 1)
            _gather(item, have, depth + 1)
    elif isinstance(value, Thing):
        for item in value.attrs.values():
            _gather(item, have, depth + 1)
    elif isinstance(value, Part):
        _gather(list(value.shown()), have, depth + 1)
    elif isinstance(value, Array):
        _gather(value.items, have, depth + 1)
    elif hasattr(value, "__len__"):
        have.add(len(value))
        if not isinstance(value, str | bytes):
            for item in list(value)[:200]:
                _gather(item, have, depth + 1)
