"""Rules for counts and places: so many iterations, calls or levels, `in iteration 3`, `on line 7`."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Sequence
from typing import Final

from groundbox.trace.proof.claims import AtLine, Counted, InIteration, Iterated, Jumped, Span
from groundbox.trace.proof.claims import words as words_of
from groundbox.trace.proof.rules.operands import TESTED, function_name
from groundbox.trace.proof.rules.reader import Draft, Rule
from groundbox.trace.proof.text.phrase import NUMBERS, ORDINALS
from groundbox.trace.proof.text.tokens import NUMBER

_LOOPS: Final = frozenset(
    {"loop", "loops", "body", "iteration", "iterations", "while", "for", "iterates", "rounds", "passes"}
)
_SORTS: Final = frozenset({"outer", "inner", "for", "while"})
"""Words that say of which sort a loop is; which one it is, they do not say."""


def counts(draft: Draft, at: int) -> bool:
    """`3 iterations`, `4 times`, `three passes`; `called 9 times`, `4 levels deep`."""
    phrase = draft.phrase
    if phrase.node(at) is not None and phrase.items[at].code:
        return False  # `in iterations 7 to 11 `round` takes the values 7, 8`
    number = _number(draft, at - 1)
    if number is None:
        return _numbered(draft, at)
    if at in draft.used:
        return False
    low = phrase.low(at)
    around = set(phrase.lows)
    words = phrase.lows[max(0, at - 9) : at]
    if low in ("levels", "level", "deep"):
        draft.add(Counted, at - 1, at, what="depth", count=number)
    elif low in ("calls",) or ("called" in words or "invoked" in words):
        draft.add(Counted, at - 1, at, what="calls", count=number, function=_called_name(draft, at))
    elif low in ("iterations", "iteration", "passes", "rounds") or around & _LOOPS:
        if low == "passes" and not around & (_LOOPS - {"passes"}) and "after" not in around:
            return False
        which, _ = _which_loop(draft, range(at - 1, at - len(words) - 1, -1))
        ends = bool(around & {"ends", "done", "left", "finishes"}) and "after" in around
        exit = _exit(_clause(phrase.lows, at)) if ends else ""
        draft.add(Iterated, at - 1, at, count=number, which=which, ends=ends, exit=exit)
    else:
        return False
    return True


def _clause(lows: Sequence[str], at: int) -> Sequence[str]:
    """The words around an index up to the next semicolons: others tell of other loops."""
    begin = max((index for index in range(at) if lows[index] == ";"), default=-1) + 1
    end = next((index for index in range(at, len(lows)) if lows[index] == ";"), len(lows))
    return lows[begin:end]


def _exit(lows: Sequence[str]) -> str:
    """Why a loop ends: `as no items are left`, `that was the last item`, `because of a break`."""
    pairs = set(itertools.pairwise(lows))
    if {("no", "items"), ("last", "item")} & pairs:
        return "exhausted"
    return "break" if "break" in lows else ""


def _which_loop(draft: Draft, where: range) -> tuple[str, int]:
    """Which loop the words at some indexes name, the first of them first, and the last index of that."""
    phrase = draft.phrase
    for at in where:
        node = phrase.node(at + 1)
        if phrase.low(at) == "over" and isinstance(node, ast.Name | ast.Tuple | ast.Attribute):
            return words_of(node).strip("()"), at + 1
        if phrase.lows[at - 1 : at + 1] == ["the", "condition"] and node is not None and phrase.items[at + 1].code:
            return words_of(node), at + 1
    for at in where:
        if phrase.low(at) in _SORTS:
            return phrase.low(at), at
    return "", where.start


def _of_loop(draft: Draft, at: int) -> tuple[str, int]:
    """Which loop is meant by `of the loop over x` at `at`, and where that ends; nothing where it does not say."""
    if draft.phrase.low(at) != "of":
        return "", at - 1
    return _which_loop(draft, range(at, min(at + 6, len(draft.phrase.items))))


def _number(draft: Draft, at: int) -> int | None:
    node = draft.phrase.node(at)
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    low = draft.phrase.low(at)
    return {"once": 1, "twice": 2}.get(low, NUMBERS.get(low)) if node is None else None


def _called_name(draft: Draft, at: int) -> str | None:
    for index in range(at - 1, max(-1, at - 10), -1):
        node = draft.phrase.node(index)
        if node is not None and function_name(node) in draft.functions:
            return function_name(node)
    return None


def _numbered(draft: Draft, at: int) -> bool:
    """`in iteration 3`, `the loop is left by a break in iteration 2`, `the third iteration`."""
    phrase = draft.phrase
    if phrase.low(at) not in ("iteration", "pass", "round") or phrase.low(at - 1) == "goes":
        return False
    number = _number(draft, at + 1)
    if number is None or phrase.items[at + 1].kind == NUMBER:
        ordinal = ORDINALS.get(phrase.low(at - 1))
        if ordinal is None or number is not None:
            return False
        draft.add(InIteration, at - 1, at, number=ordinal)
        return True
    which, end = _of_loop(draft, at + 2)
    if which and which not in _SORTS:
        draft.add(Span, at, end, begin=number, finish=number, which=which)
        return True
    before = set(phrase.lows[max(0, at - 8) : at])
    exit = bool(before & {"break", "left", "leaves", "exits", "ends", "breaks"}) and "in" in before
    by = "break" if exit and {"break", "breaks"} & before else ""
    draft.add(InIteration, at, at + 1, number=number, exit=exit, by=by)
    return True


def jumps(draft: Draft, at: int) -> bool:
    """`a continue skips the rest of this iteration`, `a break ends the loop`."""
    low = draft.phrase.low(at)
    ends = ("skips", "ends") if low == "continue" else ("ends", "leaves")
    if (
        draft.phrase.low(at - 1) != "a"
        or draft.phrase.low(at + 1) not in ends
        or "in" in draft.phrase.lows[at : at + 5]
    ):
        return False  # `a break ends the loop in iteration 5` is told by its number
    draft.add(Jumped, at, at + 1, way=low)
    return True


def span(draft: Draft, at: int) -> bool:
    """`in iterations 2 to 5`, `iterations 3 and 4 are left out here`."""
    first, last = _number(draft, at + 1), _number(draft, at + 3)
    if first is None or last is None or draft.phrase.low(at + 2) not in ("to", "and", "through", "-", "–"):
        return False
    which, end = _of_loop(draft, at + 4)
    draft.add(Span, at, end if which else at + 3, begin=first, finish=last, which=which)
    return True


def depth(draft: Draft, at: int) -> bool:
    """`the recursion depth is 4`, `a depth of 4`."""
    phrase = draft.phrase
    begin = phrase.skip(at + 1, {"is", "of", "reaches", "was", "at", "most"}, 3)
    number = _number(draft, begin)
    if number is None or phrase.node(at) is not None:
        return False
    draft.add(Counted, at, begin, what="depth", count=number)
    return True


def line(draft: Draft, at: int) -> bool:
    """`on line 7`, `line 7:`."""
    number = _number(draft, at + 1)
    if number is None or draft.phrase.items[at].code or draft.phrase.low(at + 2) == "=":
        return False
    if draft.phrase.low(at - 2) in TESTED:
        return False  # `the test on line 7`
    draft.add(AtLine, at, at + 1, line=number)
    return True


RULES: Final[dict[str, Sequence[Rule]]] = {
    **dict.fromkeys(("calls", "iteration", "times", "time", "passes", "pass", "rounds", "round", "levels", "deep"),
                    (counts,)),
    "break": (jumps,), "continue": (jumps,),
    "iterations": (span, counts), "depth": (depth,), "line": (line,),
}  # fmt: skip
