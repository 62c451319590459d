"""Rules for the verb `to be`: whatever follows `is` says which claim it makes.

`x is true` goes to `truths`, `x is less than 5` to `comparisons`, `x is added to y` to `containers`, and so on.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from groundbox.trace.proof.claims import Changed, Has, How, Printed, Raised, Returned, Yields
from groundbox.trace.proof.rules.calls import called
from groundbox.trace.proof.rules.changes import from_to, move
from groundbox.trace.proof.rules.comparisons import (
    COMPARATIVES,
    adjective,
    at_least,
    between,
    comparative,
    copy_of,
    equal_to,
    is_in,
    same_object,
    symbol,
)
from groundbox.trace.proof.rules.containers import change_of
from groundbox.trace.proof.rules.exceptions import message_of
from groundbox.trace.proof.rules.operands import arguments, empty_name, function_name, is_place
from groundbox.trace.proof.rules.output import is_to_error
from groundbox.trace.proof.rules.reader import Draft, Rule
from groundbox.trace.proof.rules.truths import FALSE, TESTS, TRUE, never, true_or_false
from groundbox.trace.proof.rules.values import has_value, unchanged
from groundbox.trace.proof.text.vocabulary import vocabulary
from groundbox.trace.proof.values.evaluation import literal
from groundbox.trace.proof.values.things import Part

_PARTICIPLES: Final = vocabulary(
    """
    set updated changed reset assigned initialized initialised incremented increased decremented decreased
    reduced bound moved turned rounded
    """
)
_ADDED: Final = frozenset(
    ["appended", "added", "pushed", "inserted", "enqueued", "stored", "placed", "put", "queued", "recorded"]
)
_REMOVED: Final = frozenset(["popped", "removed", "dequeued", "deleted", "discarded", "taken", "dropped"])
_CALLED: Final = frozenset({"called", "invoked", "instantiated", "made"})
_RETURNED: Final = frozenset({"returned", "yielded"})
_PRINTED: Final = frozenset({"printed", "output", "written", "displayed"})
_RAISED: Final = frozenset({"raised", "thrown", "caught", "handled", "swallowed"})
_EVENTS: Final = _PARTICIPLES | _ADDED | _REMOVED | _CALLED | _RETURNED | _PRINTED | _RAISED
_NEGATIVES: Final = frozenset({"isn't", "wasn't", "aren't", "weren't"})


def be(draft: Draft, at: int) -> bool:
    """Whatever follows `is`."""
    phrase = draft.phrase
    negated = phrase.low(at) in _NEGATIVES
    after = phrase.skip(at + 1)
    if phrase.low(after) == "the" and phrase.low(after + 1) == "same":
        after += 1
    if phrase.low(after) == "not" and phrase.node(after) is None:
        negated, after = not negated, phrase.skip(after + 1)
        after += phrase.low(after) == "the" and phrase.low(after + 1) == "same"
    if phrase.lows[after : after + 3] == ["a", "copy", "of"]:
        return copy_of(draft, at, after, negated)
    if phrase.low(after) == "another" and phrase.low(after + 2) == "than":
        return copy_of(draft, at, after, negated)
    low = phrase.low(after)
    never = low == "never" and phrase.low(after + 1) in _EVENTS
    if low == "unchanged" and not negated and (left := phrase.left(at)) is not None:
        return unchanged(draft, left, after)
    if (low in _EVENTS and negated) or never:
        return _denied(draft, at, after + never, never=never)
    for words, rule in _BY_WORD:
        if low in words:
            return rule(draft, at, after, negated)
    if isinstance(phrase.node(after), ast.Constant) and isinstance(getattr(phrase.node(after), "value", None), bool):
        return true_or_false(draft, at, after, negated)
    return _is_value(draft, at, after, negated)


def _denied(draft: Draft, at: int, after: int, *, never: bool) -> bool:
    """`5 is not appended to xs`, `f is never called`."""
    told = len(draft.claims)
    [rule] = [rule for words, rule in _BY_WORD if draft.phrase.low(after) in words]
    made = rule(draft, at, after, False)
    draft.deny(told, never=never)
    return made


def _is_value(draft: Draft, at: int, after: int, negated: bool) -> bool:
    phrase = draft.phrase
    if phrase.low(at) in ("be", "being"):
        return False
    if (
        phrase.low(after) in ("a", "an")
        and isinstance(phrase.node(after + 1), ast.Name)
        and not phrase.items[after + 1].code
    ):
        return False  # `it is a palindrome`
    if phrase.low(after) in ("<", "<=", ">", ">=", "==", "!=") and not phrase.is_opaque(after):
        return symbol(draft, at, after, negated)
    if phrase.low(after) == "initially":
        after += 1
    if phrase.low(after) in ("as", "then") or (phrase.low(after) == "also" and phrase.node(after + 1) is None):
        return False
    if phrase.left(at) is None and phrase.low(at - 1) in ("which", "it", "that", "this", "now", "and"):
        return _which_is(draft, at, after, negated)
    left = phrase.left(at)
    if isinstance(phrase.node(left) if left is not None else None, (*TESTS, ast.UnaryOp)) and left is not None:
        return False
    return has_value(draft, at, How.IS_NOT if negated else How.IS, after, prepositions=False)


def _which_is(draft: Draft, at: int, after: int, negated: bool) -> bool:
    """`5 is appended to xs, which is now [1, 5]`."""
    value = draft.phrase.right(after)
    before = [claim for claim in draft.claims if isinstance(claim, Changed) and claim.target is not None]
    if not before or value is None or negated or draft.phrase.items[at].start - before[-1].end > 40:
        return False
    if draft.phrase.low(at - 1) not in ("which", "it", "and") or not _is_container(value.node):
        return False
    draft.add(Has, at - 1, value.end - 1, subject=before[-1].target, value=value.node, how=How.IS)
    return True


def _is_container(node: ast.expr) -> bool:
    return empty_name(node) or not (isinstance(node, ast.Constant) or is_place(node))


def _participle(draft: Draft, at: int, after: int, negated: bool) -> bool:
    phrase = draft.phrase
    if negated:
        return False
    begin = phrase.skip(after + 1)
    if phrase.low(begin) == "by":
        left = phrase.left(at)

        down = phrase.low(after) in ("decremented", "decreased", "reduced")
        return left is not None and move(draft, left, begin, down=down)
    if phrase.low(begin) == "from":
        left = phrase.left(at)

        node = phrase.node(left) if left is not None else None
        return left is not None and node is not None and from_to(draft, left, node, begin)
    if phrase.low(begin) not in ("to", "as", "with", "at", "="):
        return False
    left = phrase.left(at)
    if phrase.low(after) == "assigned" and left is not None and not is_place(phrase.node(left)):
        subject = phrase.skip(begin + 1, {"the", "variable", "name"})
        value = phrase.node(left)
        if is_place(phrase.node(subject)) and value is not None:
            draft.has(subject, value, subject + 1, How.BECOMES, first=left)
            return True
    return has_value(draft, at, How.BECOMES, begin)


def _added(draft: Draft, at: int, after: int, negated: bool) -> bool:
    """`5 is appended to xs`, `90 is added to refused`."""
    phrase = draft.phrase
    left = phrase.left(at)
    if left is None or negated:
        return False
    return change_of(draft, left, after, "add", phrase.node(left), left)


def _removed(draft: Draft, at: int, after: int, negated: bool) -> bool:
    phrase = draft.phrase
    left = phrase.left(at)
    if left is None and phrase.low(at - 1) == ",":
        left = at - 2 if phrase.node(at - 2) is not None else None
    if left is not None and phrase.low(left - 1) == "name":
        return False  # `the name x is removed`
    if phrase.low(after) == "deleted" and left is not None and isinstance(phrase.node(left), ast.Name):
        return False
    if left is not None and phrase.low(left - 1) == "index" and phrase.node(left - 3) is not None:
        left -= 3  # `the item 'a' at index 4 is removed`
    if left is None or negated:
        return False
    return change_of(draft, left, after, "remove", phrase.node(left), left)


def _called(draft: Draft, at: int, after: int, negated: bool) -> bool:
    made = draft.phrase.left(at)
    if draft.phrase.low(after) == "made" and made is not None and isinstance(draft.phrase.node(made), ast.Call):
        draft.add(Yields, made, after, value=draft.phrase.node(made))
        return True
    left = draft.phrase.left(at)
    if (
        left is None
        and draft.phrase.low(after) in ("made", "created")
        and draft.phrase.low(at - 1) in ("object", "instance")
    ):
        left = at - 2
    node = draft.phrase.node(left) if left is not None else None
    if left is None or node is None or negated:
        return False
    if draft.phrase.low(after + 1) in ("a", "an", "the") or draft.phrase.low(after + 1) == "total":
        return False
    if draft.phrase.low(after + 2) == "times":
        return False  # `f is called 9 times` counts the calls of the run, and is none
    return called(draft, left, node, after + 1, first=left)


def _returned(draft: Draft, at: int, after: int, negated: bool) -> bool:
    left = draft.phrase.left(at)
    node = draft.phrase.node(left) if left is not None else None
    if left is None or node is None or negated:
        return False
    function = None
    begin = draft.phrase.skip(after + 1, {"by", "from", "the", "function", "call"})
    by = draft.phrase.node(begin)
    arguments_ = None
    if by is not None and draft.phrase.low(after + 1) in ("by", "from") and function_name(by) in draft.functions:
        function = function_name(by)
        arguments_ = arguments(by) if isinstance(by, ast.Call) else None
    draft.add(
        Returned,
        left,
        after,
        function=function,
        arguments=arguments_,
        value=node,
        yields=draft.phrase.low(after) == "yielded",
    )
    return True


def _printed(draft: Draft, at: int, after: int, negated: bool) -> bool:
    left = draft.phrase.left(at)
    if left is None or negated:
        return False
    known, value = literal(draft.phrase.node(left) or ast.Name("?"))
    if known:
        to_error = is_to_error(draft, after + 1)
        cut = value if isinstance(value, Part) else None
        draft.add(Printed, left, after, text=str(value), cut=cut, to_error=to_error)
    return known


def _raised(draft: Draft, at: int, after: int, negated: bool) -> bool:
    """`a ValueError is raised`, `ValueError('x') is raised`, `it is caught`."""
    phrase = draft.phrase
    index = at - 1
    kind = message_of(draft, index)
    if negated or kind is None:
        return False
    handled = True if phrase.low(after) in ("caught", "handled", "swallowed") else None
    draft.add(Raised, index, after, type=kind[0], message=kind[1], handled=handled)
    return True


_BY_WORD: Final = (
    (TRUE | FALSE, true_or_false),
    (_PARTICIPLES, _participle),
    (frozenset({"equal", "identical"}), equal_to),
    (frozenset(COMPARATIVES), comparative),
    (frozenset({"at"}), at_least),
    (frozenset({"between"}), between),
    (frozenset({"in"}), is_in),
    (frozenset({"even", "odd", "divisible", "zero", "nonzero", "non-zero", "positive",
                "negative", "empty", "nonempty", "non-empty"}),
     adjective),
    (_ADDED, _added),
    (_REMOVED, _removed),
    (frozenset({"never"}), never),
    (frozenset({"same"}), same_object),
    (_CALLED, _called),
    (_RETURNED, _returned),
    (_PRINTED, _printed),
    (_RAISED, _raised),
)  # fmt: skip


RULES: Final[dict[str, Sequence[Rule]]] = dict.fromkeys(
    ("is", "was", "are", "were", "isn't", "wasn't", "aren't", "being"), (be,)
)
