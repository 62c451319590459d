"""Rules for comprehensions: `x * 2 gives 4, 8 for the items 2, 4`, `the items 2, 4 of [1, 2, 4] pass x % 2 == 0`."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from groundbox.trace.proof.claims import Mapped, Passed
from groundbox.trace.proof.rules.reader import Draft, Rule

_ENDS_A_ROW: Final = frozenset({",", ".", ";", ":", ")", "", "and", "so", "for", "of"})


def gives_items(draft: Draft, at: int) -> bool:
    """`x * 2 gives 4, 8 for the items 2, 4`, of a comprehension."""
    phrase = draft.phrase
    left = phrase.left(at)
    code = phrase.node(left) if left is not None else None
    values, end = row(draft, at + 1)
    if left is None or code is None or not values or tuple(phrase.lows[end : end + 3]) != ("for", "the", "items"):
        return False
    items, end = row(draft, end + 3)
    draft.add(Mapped, left, end - 1, code=code, values=values, items=items)
    return True


def pass_test(draft: Draft, at: int) -> bool:
    """`the items 2, 4 of [1, 2, 4] pass x % 2 == 0`, `all of [2] pass ...`, `none of [1] pass ...`."""
    phrase = draft.phrase
    test, through = phrase.node(at + 1), phrase.node(at - 1)
    if test is None or through is None or phrase.low(at - 2) != "of":
        return False
    begin, word = at - 3, phrase.low(at - 3)
    items: tuple[ast.expr, ...] | None = None if word == "all" else ()
    if word not in ("all", "none"):
        while begin > 0 and phrase.low(begin - 1) != "items":
            begin -= 1
        items, end = row(draft, begin)
        if not items or end != at - 2:
            return False
    draft.add(Passed, begin, at + 1, test=test, items=items, through=through)
    return True


def row(draft: Draft, at: int) -> tuple[tuple[ast.expr, ...], int]:
    """Values with commas between, and where they end."""
    phrase = draft.phrase
    values: list[ast.expr] = []
    end = at
    while (value := phrase.right(at, bare=False, fill=())) is not None:
        if phrase.items[at].code or phrase.low(value.end) not in _ENDS_A_ROW:
            break  # the beginning of another clause
        values.append(value.node)
        end = value.end
        if phrase.low(end) != ",":
            break
        at = end + 1
    return tuple(values), end


RULES: Final[dict[str, Sequence[Rule]]] = {
    **dict.fromkeys(("gives", "give", "produces"), (gives_items,)),
    "pass": (pass_test,),
}
