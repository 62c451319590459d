"""Rules for values and changes: `x is 5`, `x becomes 5`, `a, b = 1, 2`, `set x to 5`, `x goes from 3 to 5`."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from groundbox.trace.proof.claims import Changed, Equal, Goes, Grows, Has, How, Returned, Truth, Yields
from groundbox.trace.proof.reader import Draft, Rule
from groundbox.trace.proof.text.phrase import ADVERBS, Phrase, Value
from groundbox.trace.proof.text.vocabulary import vocabulary
from groundbox.trace.proof.values.evaluation import literal
from groundbox.trace.proof.values.likeness import EMPTY, is_gap

_NOT_A_VALUE: Final = vocabulary(
    """
    more less fewer times greater digits elements items long characters percent iterations levels steps passes
    calls numbers values words of positions places entries keys smaller larger rounds years
    """
)
_PREPOSITIONS: Final = frozenset(
    {"to", "as", "with", "at", "being", "out", "off", "up", "from", "on", "into", "in", "be", "by", "the", "value"}
)
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
_PLACES: Final = (ast.Name, ast.Attribute, ast.Subscript)


def is_place(node: ast.expr | None) -> bool:
    """Whether an expression is something that has a value of its own: a name, an item, an attribute."""
    return isinstance(node, _PLACES)


def acceptable(draft: Draft, value: Value | None) -> bool:
    """Whether a value is not the beginning of a longer statement: `3 more than`, `2 elements`."""
    if value is None or draft.phrase.low(value.end) in _NOT_A_VALUE:
        return False
    return not (draft.phrase.low(value.end) == "that" and isinstance(value.node, ast.Name))


def has_value(draft: Draft, at: int, how: How, after: int, *, prepositions: bool = True) -> bool:
    """The operands left of `at` have the value that begins at `after`."""
    subjects = draft.phrase.lefts(at)
    if not subjects:
        return False
    if prepositions:
        after = draft.phrase.skip(after, ADVERBS | _PREPOSITIONS, 5)
    value = draft.phrase.right(after)
    if value is None or not acceptable(draft, value):
        return False
    return give(draft, subjects, value, how)


def give(draft: Draft, subjects: Sequence[int], value: Value, how: How) -> bool:
    """Each subject has the value, or, if several follow with commas, one each."""
    values = [value]
    while len(values) < len(subjects) and draft.phrase.low(values[-1].end) in (",", "and"):
        more = draft.phrase.right(values[-1].end + 1)
        if more is None or draft.phrase.low(more.end) == "=":
            break
        values.append(more)
    if len(values) not in (1, len(subjects)):
        values = values[:1]
    if len(values) == 1 and isinstance(values[0].node, ast.Tuple) and len(values[0].node.elts) == len(subjects) > 1:
        values = [Value(node, values[0].end, values[0].about) for node in values[0].node.elts]
    given = False
    for index, subject in enumerate(subjects):
        each = values[min(index, len(values) - 1)]
        given = one(draft, subject, each, how, first=subjects[0]) or given
    return given


def one(draft: Draft, subject: int, value: Value, how: How, *, first: int) -> bool:
    """One subject has one value, which may go on as a chain: `x = a + b = 1 + 2 = 3`."""
    node = draft.phrase.node(subject)
    if node is None:
        return False
    chain = chain_of(draft, value)
    if chain is None:
        return False
    parts, end, about = chain
    if isinstance(parts[-1], ast.Compare) and isinstance(node, ast.BinOp | ast.Call | ast.Constant):
        return compared_chain(draft, subject, end, node, parts)
    if len(parts) > 1 and how is not How.IS_NOT:
        draft.add(Equal, subject, end - 1, parts=tuple(parts), about=about)
    if isinstance(node, ast.Call) and is_a_call_of(draft, node):
        draft.add(
            Returned,
            subject,
            end - 1,
            function=callee(draft, node),
            arguments=arguments(node),
            value=parts[-1],
            about=about,
        )
    elif (
        is_place(node)
        or isinstance(node, ast.Call)
        or (isinstance(node, ast.Tuple) and all(is_place(part) for part in node.elts))
    ):
        draft.has(subject, parts[-1], end, how, about=about, first=first)
    elif how is How.BECOMES or isinstance(node, ast.Constant):
        return False
    elif how is not How.IS_NOT:
        draft.add(Equal, subject, end - 1, parts=(node, *parts), about=about)
    return True


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
        return _next_equals(phrase, end) > 0
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


def is_a_call_of(draft: Draft, node: ast.Call) -> bool:
    """Whether a call is one of the program's own functions."""
    return function_name(node) in draft.functions


def function_name(node: ast.expr) -> str:
    """The last name of what is called."""
    if isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def callee(draft: Draft, node: ast.expr) -> str:
    """What is called, with its class where the text names one of the program's: `Node.__init__`."""
    function = node.func if isinstance(node, ast.Call) else node
    if (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id in draft.functions
    ):
        return f"{function.value.id}.{function.attr}"
    return function_name(node)


def arguments(node: ast.Call) -> tuple[tuple[str | None, ast.expr], ...] | None:
    """What a call is given; None where the text leaves it out, as `f(...)` does."""
    given = [*((None, value) for value in node.args), *((word.arg, word.value) for word in node.keywords)]
    if len(given) == 1 and is_gap(given[0][1]):
        return None
    return tuple(given)


def equals(draft: Draft, at: int) -> bool:
    """`x = 5`, `a, b = 1, 2`, `x = a + b = 3`, `17 % 5 = 2`."""
    if at in draft.used:
        return False  # the middle of a claim that was read already
    subjects = draft.phrase.lefts(at)
    value = draft.phrase.right(at + 1)
    if not subjects or value is None:
        return False
    if len(subjects) > 1 and draft.phrase.low(value.end) not in (",", "and") and not isinstance(value.node, ast.Tuple):
        subjects = subjects[-1:]
    elif len(subjects) > 1 and draft.phrase.low(value.end) in (",", "and"):
        more = draft.phrase.right(value.end + 1)
        if more is None or draft.phrase.low(more.end) == "=":
            subjects = subjects[-1:]
    return give(draft, subjects, value, How.IS)


def nearly(draft: Draft, at: int) -> bool:
    """`x ≈ 3.14`."""
    left, value = draft.phrase.left(at), draft.phrase.right(at + 1)
    if left is None or value is None:
        return False
    return one(draft, left, Value(value.node, value.end, True), How.IS, first=left)


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
    if left is None or len(values) < 2:
        return False
    node = phrase.node(left)
    if node is None:
        return False
    draft.add(Goes, left, last - 1, subject=node, values=tuple(values), first_is_old=False)
    return True


def holds_value(draft: Draft, at: int) -> bool:
    """`x contains [1, 2]`, `x starts at 0`, `x ends up as 5`, `x remains 5`."""
    low = draft.phrase.low(at)
    how = How.STAYS if low in ("stays", "remains", "stay", "remain", "keeps", "stayed", "remained") else How.IS
    if (
        how is How.STAYS
        and draft.phrase.low(draft.phrase.skip(at + 1)) in ("unchanged", "the")
        and _unchanged(draft, at)
    ):
        return True
    if low[:5] in ("start", "begin") and draft.phrase.low(at + 1) == "with":
        value = draft.phrase.right(at + 2)
        if value is None or not isinstance(value.node, ast.List | ast.Dict | ast.Set):
            return False  # `the queue starts with ('A', 0)`: an item, perhaps
    if low == "keeps" and draft.phrase.low(at + 1) in ("all", "only", "none", "of"):
        return False
    if low in ("contains", "contain", "has") and not _is_whole(draft, at):
        return False
    return has_value(draft, at, how, at + 1)


def _is_whole(draft: Draft, at: int) -> bool:
    """`xs contains [1, 2]` tells all of it, `xs contains 3` does not."""
    value = draft.phrase.right(at + 1)
    return value is not None and isinstance(value.node, ast.List | ast.Dict | ast.Set | ast.Tuple)


def _unchanged(draft: Draft, at: int) -> bool:
    after = draft.phrase.skip(at + 1)
    same = draft.phrase.low(after) == "unchanged" or draft.phrase.low(after + 1) == "same"
    left = draft.phrase.left(at)
    node = draft.phrase.node(left) if left is not None else None
    if not same or left is None or node is None:
        return False
    draft.add(Has, left, after, subject=node, value=node, how=How.STAYS)
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
    for begin in range(left - 1, max(-1, left - 9), -1):
        if phrase.low(begin) in ("adding", "subtracting") and phrase.low(left - 1) == "takes":
            value = phrase.right(begin + 1, bare=False)
            if value is not None:
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


def one_chain(draft: Draft, left: int, value: Value) -> tuple[ast.expr, int]:
    """The rest of `3 + 5 = 8`: its last value, and where it ends."""
    chain = chain_of(draft, value)
    if chain is None:
        return value.node, value.end
    parts, end, _ = chain
    if len(parts) > 1:
        draft.add(Equal, left, end - 1, parts=tuple(parts))
    return parts[-1], end


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
        value = phrase.right(phrase.skip(subjects[-1] + 1, _PREPOSITIONS | {"equal"}, 4))
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


def gives(draft: Draft, at: int) -> bool:
    """`giving [1, 4]`, `which results in 8`, `E gives 3`, `E evaluates to 3`."""
    phrase = draft.phrase
    after = phrase.skip(
        at + 1, ADVERBS | {"us", "in", "to", "the", "a", "value", "of", "list", "back", "be", "result"}, 5
    )
    value = phrase.right(after, bare=False)
    left = phrase.left(at)
    if value is None or not acceptable(draft, value):
        return False
    if left is not None and left not in draft.used:
        return one(draft, left, value, How.IS, first=left)
    if _is_telling(value.node):
        draft.add(Yields, at, value.end - 1, value=value.node, about=value.about)
        return True
    return False


def _is_telling(node: ast.expr) -> bool:
    return isinstance(node, ast.List | ast.Dict | ast.Set | ast.Tuple) or (
        isinstance(node, ast.Constant) and node.value not in (0, 1, True, False, None)
    )


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
    if left is None and _is_telling(value.node) and isinstance(value.node, ast.List | ast.Dict | ast.Set | ast.Tuple):
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


def empty_name(node: ast.expr) -> bool:
    """Whether the value is `empty`, of whatever kind."""
    return isinstance(node, ast.Name) and node.id == EMPTY


RULES: Final[dict[str, Sequence[Rule]]] = {
    "=": (equals,), "≈": (nearly,), "~": (nearly,), "→": (arrow,), ":": (colon,), "then": (then_value,),
    **dict.fromkeys(("becomes", "become", "became", "gets", "get", "got", "equals", "reaches", "becoming", "receives",
                     "hits"), (becomes,)),
    **dict.fromkeys(("takes", "take", "took"), (takes_from_to, becomes)),
    **dict.fromkeys(("contains", "contain", "holds", "hold", "stores", "starts", "start", "begins", "begin", "stays",
                     "stay", "remains", "remain", "keeps", "ends", "end", "started", "stayed", "remained", "ended",
                     "has", "equal", "starting", "defaults", "collects"), (holds_value,)),
    **dict.fromkeys(("turns", "turn"), (moves, becomes)),
    **dict.fromkeys(_MOVES - {"turns"}, (moves,)),
    **dict.fromkeys(("set", "sets", "setting", "update", "updates", "updating", "reset", "resets", "initialize",
                     "initializes", "initialise", "initialises", "increment", "increments", "decrement", "decrements",
                     "bump", "bumps", "assign", "assigns", "assigning", "raise", "reduces", "reduce", "incrementing",
                     "initializing", "make", "makes", "lets", "let"), (sets,)),
    **dict.fromkeys(("giving", "gives", "give", "gave", "yielding", "results", "resulting", "evaluates", "produces",
                     "producing", "leaving", "leaves", "making", "evaluate", "computes"), (gives,)),
}  # fmt: skip
