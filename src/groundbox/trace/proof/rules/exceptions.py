"""Rules for exceptions: `f raises ValueError('x')`, `→ ZeroDivisionError, handled`."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence
from typing import Final

from groundbox.trace.proof.claims import Caught, Raised, Unwound
from groundbox.trace.proof.rules.operands import arguments, callee, function_name
from groundbox.trace.proof.rules.reader import Draft, Rule
from groundbox.trace.proof.text.phrase import ADVERBS
from groundbox.trace.proof.values.evaluation import literal
from groundbox.trace.proof.values.things import Opaque, Part

_EXCEPTIONS: Final = frozenset(
    name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)
)


def raises(draft: Draft, at: int) -> bool:
    """`f raises ValueError('x')`, `raises a ZeroDivisionError`."""
    phrase = draft.phrase
    begin = phrase.skip(at + 1, ADVERBS | {"a", "an", "the", "exception", "with"}, 4)
    kind = message_of(draft, begin)
    if kind is None:
        return False
    left = phrase.left(at)
    by = function_name(phrase.node(left) or ast.Name("")) if left is not None else ""
    message = kind[1]
    end = begin
    if message is None and phrase.low(begin + 1) == "with":
        place = phrase.skip(begin + 2, {"the", "a", "message", "text"}, 3)
        known, value = literal(phrase.node(place) or ast.Name("?"))
        message, end = (str(value), place) if known else (None, begin)
    draft.add(Raised, at, end, type=kind[0], message=message, by=by if by in draft.functions else None)
    return True


def exception_named(draft: Draft, at: int) -> bool:
    """`... fails with ValueError`, `→ ZeroDivisionError, handled`; also a message after `with the message`."""
    kind = message_of(draft, at)
    phrase = draft.phrase
    if kind is None or at in draft.used:
        return False
    around = set(phrase.lows)
    if draft.phrase.low(at - 1) in ("type", "class") or not around & {
        "except",
        "raises",
        "raised",
        "fails",
        "caught",
        "handled",
        "handler",
        "exception",
        "error",
        "thrown",
        "→",
        "leaves",
        "catches",
        "throws",
    }:
        return False
    handled = True if around & {"caught", "handled", "catches", "handler"} else None
    draft.add(Raised, at, at, type=kind[0], message=kind[1], handled=handled)
    return True


def message(draft: Draft, at: int) -> bool:
    """`is raised with the message "..."`."""
    phrase = draft.phrase
    place = phrase.skip(at + 1, {"is", "reads", ":", "says", "of"}, 2)
    known, value = literal(phrase.node(place) or ast.Name("?"))
    if not known or not isinstance(value, str) or phrase.node(at) is not None:
        return False
    if not any(isinstance(claim, Raised) for claim in draft.claims):
        return False
    draft.add(Raised, at, place, type=None, message=value)
    return True


def handler(draft: Draft, at: int) -> bool:
    """`except KeyError` catches it, the handler `except KeyError` takes over, it does not match `except KeyError`."""
    phrase = draft.phrase
    if not phrase.items[at].code or phrase.node(at) is not None:
        return False
    type_ = phrase.node(at + 1) if at + 1 < len(phrase.items) and phrase.items[at + 1].code else None
    end = at + (type_ is not None)
    following = phrase.lows[end + 1 : end + 4]
    taken = following[:1] == ["catches"] or following[:2] == ["takes", "over"]
    refused = following == ["does", "not", "catch"] or phrase.lows[max(0, at - 2) : at] == ["not", "match"]
    if not taken and not refused:
        return False
    draft.add(Caught, at, end, type=ast.unparse(type_) if type_ is not None else "", matches=taken)
    return True


def leaves(draft: Draft, at: int) -> bool:
    """`the exception leaves f`."""
    node = draft.phrase.node(at + 1)
    if draft.phrase.low(at - 1) != "exception" or node is None or function_name(node) not in draft.functions:
        return False
    given = arguments(node) if isinstance(node, ast.Call) else None
    draft.add(Unwound, at - 1, at + 1, function=callee(draft, node), arguments=given)
    return True


def message_of(draft: Draft, at: int) -> tuple[str, str | Part | Opaque | None] | None:
    """The exception that an item names, and its message: `ValueError`, `ValueError('x')`."""
    if not 0 <= at < len(draft.phrase.items):
        return None
    node = draft.phrase.node(at)
    name = function_name(node) if node is not None else draft.phrase.sentence_text(at)
    if name not in _EXCEPTIONS and not (name.endswith(("Error", "Exception")) and name[:1].isupper()):
        return None
    if isinstance(node, ast.Call) and len(node.args) == 1:
        known, value = literal(node.args[0])
        return name, (value if isinstance(value, Part | Opaque) else str(value)) if known else None
    return name, None


RULES: Final[dict[str, Sequence[Rule]]] = {
    **dict.fromkeys(("raises", "raise", "throws", "raising"), (raises,)),
    "message": (message,), "except": (handler,), "leaves": (leaves,),
}  # fmt: skip
LAST: Final[Sequence[Rule]] = (exception_named,)
