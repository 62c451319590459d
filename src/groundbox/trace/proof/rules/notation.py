"""Rules for arrows and colons: `x: 0 → 3 → 6`, `... -> [1, 4]`, `total: 4`, `seen: [3], [3, 6]`."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from groundbox.trace.proof.claims import Goes, How, Yields
from groundbox.trace.proof.rules.operands import is_place
from groundbox.trace.proof.rules.reader import Draft, Rule
from groundbox.trace.proof.rules.values import is_telling, one
from groundbox.trace.proof.values.evaluation import literal


def arrow(draft: Draft, at: int) -> bool:
    """`x: 0 → 3 → 6`, `x → 5`, `... -> [1, 4]`."""
    phrase = draft.phrase
    if phrase.low(at - 2) == "→" and at - 1 in draft.used:
        return True
    left = phrase.node(at - 1)
    value = phrase.right(at + 1, bare=False, fill=frozenset())
    if value is None or phrase.low(value.end) in (
        "=",
        "is",
        "==",
        "goes",
        "becomes",
        "starts",
        ":",
        "stays",
        "returns",
        "drops",
    ):
        return False
    if left is not None and not is_place(left) and phrase.low(at - 2) not in ("=", "is", "becomes"):
        return _chain(draft, at)
    if left is not None and phrase.low(at - 2) == "=":
        return _chain(draft, at)
    if left is not None and is_place(left) and (at - 1) not in draft.used and not is_place(value.node):
        if phrase.low(value.end) == "→":
            return _chain(draft, at, subject=at - 1)
        return one(draft, at - 1, value, How.BECOMES, first=at - 1)
    if left is None and is_telling(value.node) and isinstance(value.node, ast.List | ast.Dict | ast.Set | ast.Tuple):
        draft.add(Yields, at, value.end - 1, value=value.node)
        return True
    return False


def _chain(draft: Draft, at: int, subject: int | None = None) -> bool:
    """Values with arrows between, after a name and a colon or by themselves."""
    phrase = draft.phrase
    begin = at - 1 if subject is None else at
    values: list[ast.expr] = []
    end = begin if subject is None else at + 1
    about = False
    while (value := phrase.right(end, bare=False, fill=frozenset())) is not None:
        values.append(value.node)
        end, about = value.end, about or value.about
        if phrase.low(end) != "→":
            break
        end += 1
    if subject is None and phrase.low(begin - 1) in (":", "=") and phrase.node(begin - 2) is not None:
        subject = begin - 2
    node = phrase.node(subject) if subject is not None else None
    if len(values) < 2 or not all(literal(value)[0] for value in values):
        return False
    if node is None and (len(values) < 3 or begin > 1):
        return False
    first = subject if subject is not None else begin
    draft.add(Goes, first, end - 1, subject=node, values=tuple(values), first_is_old=False, about=about)
    return True


def colon(draft: Draft, at: int) -> bool:
    """`total: 4` in a list, `{seen: [3]}`; not `x = 3: odd`."""
    phrase = draft.phrase
    node = phrase.node(at - 1)
    if node is None or not is_place(node) or at - 1 in draft.used or phrase.low(at - 2) not in ("", ",", ";", "("):
        return False
    value = phrase.right(at + 1, fill=frozenset(), bare=False)
    if value is None or phrase.low(value.end) not in ("", ",", ".", ";", ")") or not literal(value.node)[0]:
        return False
    if phrase.low(value.end) == "," and not isinstance(phrase.node(value.end + 1), ast.Name):
        return _listed(draft, at, node)
    return one(draft, at - 1, value, How.IS, first=at - 1)


def _listed(draft: Draft, at: int, node: ast.expr) -> bool:
    """`seen: [3], [3, 6], [3, 6, 9]`: one value after the other."""
    values: list[ast.expr] = []
    end = at + 1
    while (value := draft.phrase.right(end, fill=frozenset(), bare=False)) is not None:
        values.append(value.node)
        end = value.end
        if draft.phrase.low(end) not in (",", "then", "and"):
            break
        end += 1
    if len(values) < 2:
        return False
    draft.add(Goes, at - 1, end - 1, subject=node, values=tuple(values), first_is_old=False)
    return True


RULES: Final[dict[str, Sequence[Rule]]] = {"→": (arrow,), ":": (colon,)}
