"""Chains of equal parts: `x = a + b = 1 + 2 = 3`.

Who has the value at its end is the matter of `values` and `changes`.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from groundbox.trace.proof.claims import Equal, Truth
from groundbox.trace.proof.rules.reader import Draft
from groundbox.trace.proof.text.phrase import Phrase, Value

_VERBS: Final = frozenset({"is", "are", "was", "isn't"})
"""Where one of these follows, `and` joins clauses: `range(9) = range(0, 9) and 3 is in range(0, 9)`."""


def chain_of(draft: Draft, value: Value) -> tuple[list[ast.expr], int, bool] | None:
    """All parts of `a + b = 1 + 2 = 3`, where the chain ends, and whether it says `about`.

    A part that is a choice (`1 if x else 2`) is passed over; None when nothing comes after it.
    """
    phrase = draft.phrase
    parts, end, about = [value.node], value.end, value.about
    while True:
        if _goes_on(phrase, parts, end):
            parts.pop()
            end = _next_equals(phrase, end)
            if end < 0:
                return None
        if phrase.low(end) not in ("=", "≈"):
            break
        about = about or phrase.low(end) == "≈"
        more = phrase.right(end + 1, bare=False)
        if more is None:
            break
        parts.append(more.node)
        end, about = more.end, about or more.about
    return (parts, end, about) if parts and phrase.low(end) != "=" else None


def _goes_on(phrase: Phrase, parts: Sequence[ast.expr], end: int) -> bool:
    """Whether the last part is only the beginning of something that cannot be read: a choice, a formatted string."""
    low = phrase.low(end)
    if low == "if":
        return "else" in phrase.lows[end : end + 40]
    if low in ("+", "*", "%", "//", "**", "&", "|", "^", ">>", "<<"):
        return "=" in phrase.lows[end : end + 40]
    if (
        low in ("and", "or")
        and phrase.items[end + 1 : end + 2]
        and phrase.items[end + 1].code
        and not phrase.items[end - 1].code
    ):
        return False  # `p = Point(x=1) and `q` = 2`
    if low in ("and", "or") and (isinstance(parts[-1], ast.Compare | ast.Call) or isinstance(parts[0], ast.BoolOp)):
        following = _next_equals(phrase, end)
        return following > 0 and _VERBS.isdisjoint(phrase.lows[end:following])
    return False


def _next_equals(phrase: Phrase, end: int) -> int:
    while end < len(phrase.items) and phrase.low(end) not in (".", ";"):
        if phrase.low(end) == "=":
            return end
        end += 1
    return -1


def compared_chain(draft: Draft, subject: int, end: int, node: ast.expr, parts: Sequence[ast.expr]) -> bool:
    """`7 % 2 = 1 != 0`: an equation whose last part is compared."""
    last = parts[-1]
    assert isinstance(last, ast.Compare)
    draft.add(Equal, subject, end - 1, parts=(node, *parts[:-1], last.left))
    draft.add(Truth, subject, end - 1, test=ast.Compare(node, last.ops, last.comparators), truth=True)
    return True


def one_chain(draft: Draft, left: int, value: Value) -> tuple[ast.expr, int]:
    """The rest of `3 + 5 = 8`: its last value, and where it ends."""
    chain = chain_of(draft, value)
    if chain is None:
        return value.node, value.end
    parts, end, _ = chain
    if len(parts) > 1:
        draft.add(Equal, left, end - 1, parts=tuple(parts))
    return parts[-1], end
