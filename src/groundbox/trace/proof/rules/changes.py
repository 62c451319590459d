"""Rules for changes: `x becomes 5`, `set x to 5`, `x goes from 3 to 5`, `x grows by 2`.

What goes into a container or out of it is the matter of `containers`.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from groundbox.trace.proof.claims import Alters, Changed, Goes, Grows, Has, How, Span
from groundbox.trace.proof.rules.chains import chain_of, one_chain
from groundbox.trace.proof.rules.operands import acceptable, is_place
from groundbox.trace.proof.rules.reader import Draft, Rule
from groundbox.trace.proof.rules.values import PREPOSITIONS, give, has_value, one
from groundbox.trace.proof.text.phrase import ADVERBS, negation
from groundbox.trace.proof.text.vocabulary import vocabulary
from groundbox.trace.proof.values.evaluation import literal

_MOVES: Final = vocabulary(
    """
    goes go went changes change grows grow drops drop rises rise moves move jumps falls fall increases
    increase decreases decrease decreased shrinks climbs turns switches went going changed grew dropped rose
    transitions counts runs increased
    """
)
_DOWN: Final = vocabulary(
    """
    drops drop falls fall decreases decrease decremented decreased reduced shrinks reduces decrement
    decrementing
    """
)
_WHOLE: Final = vocabulary(
    """
    total altogether eventually gradually overall runs loops ranges iterates counts steadily
    """
)

_LONGEST_AMOUNT: Final = 40


def becomes(draft: Draft, at: int) -> bool:
    """`x becomes 5`, `x gets 5`, `x takes the value 5`; `x takes the values 1, 2`."""
    phrase = draft.phrase
    if phrase.low(at) in ("takes", "take", "goes") and _several(draft, at, phrase.skip(at + 1, _LIST_WORDS, 4)):
        return True
    return has_value(draft, at, How.BECOMES, at + 1)


_LIST_WORDS: Final = frozenset({"on", "the", "values", "through", "in", "turn", "over"})


def _several(draft: Draft, at: int, after: int) -> bool:
    """The subject takes several values, told with commas."""
    phrase = draft.phrase
    if not {"values", "through", "over"} & set(phrase.lows[at + 1 : after]):
        return False
    left, end = phrase.left(at), after
    values: list[ast.expr] = []
    last = end
    while (value := phrase.right(end, bare=False)) is not None and literal(value.node)[0]:
        values.append(value.node)
        end = last = value.end
        if phrase.low(end) not in (",", "and", "then"):
            break
        end = phrase.skip(end, {",", "and", "then", "finally"}, 3)
    is_one_of_some = (
        len(values) == 1
        and "values" in phrase.lows[at:after]
        and any(isinstance(claim, Span) for claim in draft.claims)
    )
    if left is None or (len(values) < 2 and not is_one_of_some):
        return False
    node = phrase.node(left)
    if node is None:
        return False
    draft.add(Goes, left, last - 1, subject=node, values=tuple(values), first_is_old=False)
    return True


def moves(draft: Draft, at: int) -> bool:
    """`x goes from 3 to 5`, `x grows to 5`, `x drops by 2`, `x goes 8, 4, 2, 1`."""
    phrase = draft.phrase
    left = phrase.left(at)
    if left is None and phrase.low(at - 1) == "which" and phrase.low(at + 1) == "from":
        changed = [claim.target for claim in draft.claims if isinstance(claim, Changed) and claim.target is not None]
        return bool(changed) and from_to(draft, at, changed[-1], at + 1)
    if left is None:
        return _transitive(draft, at)
    if phrase.low(at) in ("goes", "go", "runs") and _several(draft, at, phrase.skip(at + 1, _LIST_WORDS, 4)):
        return True
    after = phrase.skip(at + 1, ADVERBS | {"up", "down", "back", "steadily", "gradually", "over", "in", "value"}, 4)
    return move(draft, left, after, down=phrase.low(at) in _DOWN or "down" in phrase.lows[at:after])


def alters(draft: Draft, at: int) -> bool:
    """`x does not change`, `x never changes`: the claim is denied by whoever reads the verb."""
    left = draft.phrase.left(at)
    node = draft.phrase.node(left) if left is not None else None
    if left is None or not is_place(node) or not negation(draft.phrase, at):
        return False
    draft.add(Alters, left, at, subject=node)
    return True


def move(draft: Draft, left: int, after: int, *, down: bool) -> bool:
    phrase = draft.phrase
    node = phrase.node(left)
    word = phrase.low(after)
    if node is None or not is_place(node):
        return False
    if word == "from":
        return from_to(draft, left, node, after)
    if word in ("to", "into") and (value := phrase.right(after + 1)) is not None and acceptable(draft, value):
        return one(draft, left, value, How.BECOMES, first=left)
    if word == "by" and (value := phrase.right(after + 1, bare=False)) is not None:
        amount, end = one_chain(draft, after + 1, value)
        begin = phrase.skip(end, {","}, 1)
        if phrase.low(begin) == "from":
            return from_to(draft, left, node, begin)
        sign = -1 if down else 1
        more = phrase.right(begin + 1) if phrase.low(begin) in ("to", "giving", "becoming", "reaching") else None
        if more is not None:  # `x is increased by 2 to 16`
            draft.add(
                Goes, left, more.end - 1, subject=node, values=(more.node,), first_is_old=False, by=amount, sign=sign
            )
        else:
            draft.add(Grows, left, value.end - 1, subject=node, amount=amount, sign=sign)
        return True
    return False


def from_to(draft: Draft, left: int, node: ast.expr, at: int) -> bool:
    """From `from` on: the old value and the new ones."""
    phrase = draft.phrase
    values: list[ast.expr] = []
    end, about = at, False
    while phrase.low(end) in ("from", "to", "→", "then", "and"):
        begin = phrase.skip(end + 1, {"up", "down", "to", "back"}, 2) if values else end + 1
        value = phrase.right(begin)
        if value is None:
            break
        values.append(value.node)
        end, about = value.end, about or value.about
        if phrase.low(end) == "=":  # workings after the new value
            more = one_chain(draft, left, value)
            values[-1], end = more
        if phrase.low(end) in (",",) and phrase.low(end + 1) in ("to", "then"):
            end += 1
        if phrase.low(end) == "and":
            break
    if len(values) < 2:
        return False
    amount, sign, end = _amount(draft, left, end)
    whole = bool(_WHOLE & set(phrase.lows)) and amount is None
    draft.add(Goes, left, end - 1, subject=node, values=tuple(values), whole=whole, about=about, by=amount, sign=sign)
    return True


def _amount(draft: Draft, left: int, end: int) -> tuple[ast.expr | None, int, int]:
    """By how much: `adding 5 takes x from 3 to 8`, `x grows from 3 to 8, as 5 is added`, `x goes up by 5, ...`."""
    phrase = draft.phrase
    begin = _added(draft, left - 1) if phrase.low(left - 1) == "takes" else None
    if begin is not None and (value := phrase.right(begin + 1, bare=False)) is not None:
        node, _ = one_chain(draft, begin, value)
        return node, 1 if phrase.low(begin) == "adding" else -1, end
    for begin in range(left + 1, min(left + 4, end)):
        if phrase.low(begin) == "by" and (value := phrase.right(begin + 1, bare=False)) is not None:
            node, _ = one_chain(draft, begin, value)
            return node, -1 if "down" in phrase.lows[left:begin] or phrase.low(left + 1) in _DOWN else 1, end
    if (
        phrase.low(end) == ","
        and phrase.low(end + 1) in ("as", "since")
        and (value := phrase.right(end + 2, bare=False)) is not None
    ):
        node, after = one_chain(draft, end + 2, value)
        word = phrase.low(after + 1)
        if phrase.low(after) == "is" and word in ("added", "subtracted", "appended"):
            return node, -1 if word == "subtracted" else 1, after + 2
    return None, 1, end


def _added(draft: Draft, takes: int) -> int | None:
    """Where `adding 5` begins before `takes`; farther before it if all between the two is one chain, as of a choice."""
    phrase = draft.phrase
    for begin in range(takes - 1, max(-1, takes - _LONGEST_AMOUNT), -1):
        if phrase.low(begin) in ("adding", "subtracting"):
            value = phrase.right(begin + 1, bare=False)
            chain = chain_of(draft, value) if value is not None else None
            return begin if takes - begin < 9 or (chain is not None and chain[1] == takes) else None
    return None


def _transitive(draft: Draft, at: int) -> bool:
    """`adding 5 takes x from 3 to 8`, `we change x from 3 to 8`, `we move 18 into a`."""
    phrase = draft.phrase
    after = phrase.skip(at + 1, ADVERBS | {"the", "value", "of", "variable"}, 4)
    node = phrase.node(after)
    if node is None:
        return False
    if is_place(node) and phrase.low(after + 1) == "from":
        return from_to(draft, after, node, after + 1)
    if is_place(node) and phrase.low(after + 1) in ("to", "by"):
        return move(draft, after, after + 1, down=phrase.low(at) in _DOWN)
    if phrase.low(after + 1) in ("into", "to") and is_place(phrase.node(after + 2)):
        draft.has(after + 2, node, after + 3, How.BECOMES, first=at)
        return True
    return False


def takes_from_to(draft: Draft, at: int) -> bool:
    """`adding 5 takes x from 3 to 8`."""
    phrase = draft.phrase
    if not is_place(phrase.node(at + 1)) or phrase.low(at + 2) != "from":
        return False
    node = phrase.node(at + 1)
    return node is not None and from_to(draft, at + 1, node, at + 2)


def sets(draft: Draft, at: int) -> bool:
    """`set x to 5`, `initialize x as 0`, `increment x by 1`, `assign 5 to x`."""
    phrase = draft.phrase
    low = phrase.low(at)
    after = phrase.skip(at + 1, ADVERBS | {"the", "value", "of", "variable", "a", "an", "counter", "pointer"}, 4)
    if low.startswith("assign"):
        return _assigns(draft, at)
    if phrase.node(after) is None:
        return False
    subjects = [after]
    while phrase.low(subjects[-1] + 1) in (",", "and") and is_place(phrase.node(subjects[-1] + 2)):
        subjects.append(subjects[-1] + 2)
    word = phrase.low(subjects[-1] + 1)
    if word == "from" and low not in ("set", "sets"):
        return move(draft, after, after + 1, down=low in _DOWN)
    if word == "by":
        return move(draft, after, after + 1, down=low in _DOWN)
    if word in ("to", "as", "with", "at", "equal"):
        value = phrase.right(phrase.skip(subjects[-1] + 1, PREPOSITIONS | {"equal"}, 4))
        return value is not None and acceptable(draft, value) and give(draft, subjects, value, How.BECOMES)
    if word == "=":
        value = phrase.right(subjects[-1] + 2)
        return value is not None and give(draft, subjects, value, How.BECOMES)
    return False


def _assigns(draft: Draft, at: int) -> bool:
    value = draft.phrase.right(at + 1)
    if value is None or draft.phrase.low(value.end) != "to":
        return False
    subject = draft.phrase.skip(value.end + 1, {"the", "variable", "name"})
    if not is_place(draft.phrase.node(subject)):
        return False
    draft.has(subject, value.node, subject + 1, How.BECOMES, first=at)
    return True


def then_value(draft: Draft, at: int) -> bool:
    """`line becomes [2] and then [2, 5]`, `x is 8, then 4`: the same subject takes the next value."""
    phrase = draft.phrase
    value = phrase.right(at + 1, bare=False, fill=frozenset({"to", "finally"}))
    before = draft.claims[-1] if draft.claims else None
    if value is None or not isinstance(before, Has) or not literal(value.node)[0]:
        return False
    if phrase.low(value.end) not in (".", ",", "", ";", "and", "then") or before.how is How.IS_NOT:
        return False
    if before.end > phrase.items[at].start or phrase.items[at].start - before.end > 8:
        return False
    draft.add(Has, at, value.end - 1, subject=before.subject, value=value.node, how=How.BECOMES)
    return True


RULES: Final[dict[str, Sequence[Rule]]] = {
    **dict.fromkeys(("becomes", "become", "became", "gets", "get", "got", "equals", "reaches", "becoming", "receives",
                     "hits"), (becomes,)),
    **dict.fromkeys(("takes", "take", "took"), (takes_from_to, becomes)),
    **dict.fromkeys(("turns", "turn"), (moves, becomes)),
    **dict.fromkeys(_MOVES - {"turns", "change", "changes"}, (moves,)),
    **dict.fromkeys(("change", "changes"), (moves, alters)),
    **dict.fromkeys(("set", "sets", "setting", "update", "updates", "updating", "reset", "resets", "initialize",
                     "initializes", "initialise", "initialises", "increment", "increments", "decrement", "decrements",
                     "bump", "bumps", "assign", "assigns", "assigning", "raise", "reduces", "reduce", "incrementing",
                     "initializing", "make", "makes", "lets", "let"), (sets,)),
    "then": (then_value,),
}  # fmt: skip
