"""Rules for what happens: calls, returns, iterations, lines, changes of containers, output, exceptions, the answer."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence
from typing import Final

from groundbox.trace.proof.claims import (
    Answer,
    AtLine,
    Called,
    Changed,
    Counted,
    Equal,
    How,
    InIteration,
    Iterated,
    Mapped,
    Passed,
    Printed,
    Raised,
    Returned,
    Span,
)
from groundbox.trace.proof.claims import words as words_of
from groundbox.trace.proof.reader import Draft, Rule
from groundbox.trace.proof.text.phrase import ADVERBS, NUMBERS, ORDINALS, Value
from groundbox.trace.proof.text.tokens import NUMBER
from groundbox.trace.proof.value_rules import (
    acceptable,
    arguments,
    callee,
    chain_of,
    function_name,
    is_place,
    one,
    one_chain,
)
from groundbox.trace.proof.values.evaluation import literal
from groundbox.trace.proof.values.things import Part

_THE: Final = frozenset(
    ["the", "a", "an", "value", "of", "list", "queue", "stack", "set", "end", "front", "back", "its", "dictionary"]
)
_RETURNING: Final = (
    _THE | ADVERBS | frozenset({"number", "string", "result", "tuple", "with", "us", "index", "final", "back"})
)
_EXCEPTIONS: Final = frozenset(
    name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)
)
_ENDS_A_ROW: Final = frozenset({",", ".", ";", ":", ")", "", "and", "so", "for", "of"})
_LOOPS: Final = frozenset(
    {"loop", "loops", "body", "iteration", "iterations", "while", "for", "iterates", "rounds", "passes"}
)


def calls(draft: Draft, at: int) -> bool:
    """`main calls f(3)`, `we call f with n = 3`, `call f(3) and f(4)`."""
    phrase = draft.phrase
    begin = phrase.skip(
        at + 1, {"the", "function", "helper", "method", "to", "of", "into", "itself", "now", "again", "constructor"}, 4
    )
    node = phrase.node(begin)
    if (
        node is None
        or (
            phrase.low(at) in ("call", "calls")
            and phrase.low(at - 1) in ("function", "recursive", "the", "second", "first", "calls")
        )
    ) and (phrase.low(at + 1) != "of" or node is None):
        return False
    if not called(draft, begin, node, begin + 1, first=at):
        return False
    while phrase.low(begin + 1) in (",", "and") and isinstance(phrase.node(begin + 2), ast.Call):
        begin += 2
        more = phrase.node(begin)
        if more is None or not called(draft, begin, more, begin + 1, first=begin):
            break
    return True


def called(draft: Draft, index: int, node: ast.expr, after: int, *, first: int) -> bool:
    """A claim that the function at `index` is called, with the arguments that follow from `after` on."""
    name = function_name(node)
    if name not in draft.functions:
        return False
    phrase = draft.phrase
    if isinstance(node, ast.Call):
        draft.add(Called, first, index, function=callee(draft, node), arguments=arguments(node))
        return True
    if phrase.low(after) in ("with", "has", "on", "for"):
        given, end = call_with(draft, after + 1)
        if given:
            draft.add(
                Called,
                first,
                end - 1,
                function=callee(draft, node),
                arguments=tuple(given),
                whole=all(n is None for n, _ in given),
            )
            return True
    draft.add(Called, first, max(index, after - 1), function=callee(draft, node), arguments=None)
    return True


def call_with(draft: Draft, at: int) -> tuple[list[tuple[str | None, ast.expr]], int]:
    """Arguments from `at` on: `a = 1, b = 2 and c = 3`, or values alone."""
    phrase = draft.phrase
    given: list[tuple[str | None, ast.expr]] = []
    at = phrase.skip(at, {"the", "arguments", "argument", "parameters", "inputs", "input", "a", "value"}, 3)
    end = at
    while True:
        node = phrase.node(at)
        if isinstance(node, ast.Name) and phrase.low(at + 1) in ("=", "equal", "being", "as", "set", ":"):
            value = phrase.right(phrase.skip(at + 2, {"to"}))
            if value is None:
                break
            given.append((node.id, value.node))
            draft.used.update(range(at, value.end))
            end = value.end
        elif (value := phrase.right(at)) is not None and phrase.low(value.end) not in ("=",):
            given.append((None, value.node))
            end = value.end
        else:
            break
        at = phrase.skip(end, {",", "and"}, 2)
        if at == end or phrase.node(at) is None:
            break
    return given, end


def runs(draft: Draft, at: int) -> bool:
    """`f runs with a = 1`, `f starts`, `the loop runs 4 times`, `x runs over [1, 2]`."""
    phrase = draft.phrase
    left = phrase.left(at)
    node = phrase.node(left) if left is not None else None
    if (
        left is not None
        and node is not None
        and function_name(node) in draft.functions
        and phrase.low(at) in ("runs", "starts", "gets", "begins", "receives")
        and (phrase.low(at) not in ("starts", "begins") or phrase.low(at + 1) not in ("at", "as"))
    ):
        if phrase.low(at) == "gets" or phrase.low(at) == "receives":
            given, end = call_with(draft, at + 1)
            if given:
                draft.add(Called, left, end - 1, function=function_name(node), arguments=tuple(given), whole=False)
            return bool(given)
        return called(draft, left, node, phrase.skip(at + 1), first=left)
    return False


def source_of_loop(draft: Draft, at: int) -> bool:
    """`x runs over xs = [1, 2]`, `the loop takes x from xs = [1, 2]`: what is iterated over."""
    phrase = draft.phrase
    begin = phrase.skip(
        at + 1, {"over", "through", "the", "from", "of", "items", "list", "values", "in", "elements", "each"}, 4
    )
    if phrase.low(at) in ("takes", "take"):
        begin = at + 3 if is_place(phrase.node(at + 1)) and phrase.low(at + 2) == "from" else -1
    node = phrase.node(begin)
    if node is None or phrase.low(begin + 1) != "=":
        return False
    value = phrase.right(begin + 2, bare=False)
    if value is None or phrase.low(value.end) == "to":
        return False
    draft.add(Equal, begin, value.end - 1, parts=(node, value.node))
    return True


def returns(draft: Draft, at: int) -> bool:
    """`f(2) returns 5`, `we return x = 5`, `it yields 3`."""
    phrase = draft.phrase
    yields = phrase.low(at) in ("yields", "yield", "yielding")
    begin = phrase.skip(at + 1, _RETURNING, 5)
    value = phrase.right(begin)
    if phrase.low(at) in ("return",) and phrase.low(at - 1) in ("a", "the", "no", "to"):
        return False
    if value is None or not acceptable(draft, value):
        return False
    left = _function_left(draft, at)
    node = phrase.node(left) if left is not None else None
    function, given = (
        (callee(draft, node), arguments(node) if isinstance(node, ast.Call) else None)
        if node is not None
        else (None, None)
    )
    if (
        left is None
        and phrase.left(at) is not None
        and phrase.node(phrase.left(at) or 0) is not None
        and _is_foreign(draft, at)
    ):
        index = phrase.left(at)
        assert index is not None
        return one(draft, index, value, How.IS, first=index)
    return _return(draft, at if left is None else left, value, function, given, yields)


def _is_foreign(draft: Draft, at: int) -> bool:
    """A call of something that is not the program's, such as `stack.pop()`."""
    left = draft.phrase.left(at)
    return left is not None and isinstance(draft.phrase.node(left), ast.Call)


def _return(
    draft: Draft, first: int, value: Value, function: str | None,
    given: tuple[tuple[str | None, ast.expr], ...] | None, yields: bool,
) -> bool:  # fmt: skip
    phrase = draft.phrase
    chain = chain_of(draft, value)
    if chain is None:
        return False
    parts, end, about = chain
    if len(parts) > 1:
        draft.add(Equal, first, end - 1, parts=tuple(parts), about=about)
    draft.add(Returned, first, end - 1, function=function, arguments=given, value=parts[-1], yields=yields, about=about)
    if phrase.low(end) in (",", "and") and phrase.low(phrase.skip(end, {",", "and"}, 2)) == "then":
        following = phrase.right(phrase.skip(end, {",", "and", "then"}, 3), bare=False)
        if following is not None and literal(following.node)[0]:
            return _return(draft, end + 1, following, function, given, yields)
    return True


def _function_left(draft: Draft, at: int) -> int | None:
    left = draft.phrase.left(at)
    if left is None and draft.phrase.low(at - 1) in ("which", "also", "that") and draft.phrase.low(at - 2) == ",":
        left = at - 3
    node = draft.phrase.node(left) if left is not None else None
    if left is None or node is None or function_name(node) not in draft.functions:
        return None
    return left if isinstance(node, ast.Call | ast.Name | ast.Attribute) else None


def gives_back(draft: Draft, at: int) -> bool:
    """`f gives back 5`, `f(2) gives 5`, `the generator gives 0`."""
    phrase = draft.phrase
    left = _function_left(draft, at)
    if left is None:
        return False
    node = phrase.node(left)
    value = phrase.right(phrase.skip(at + 1, _RETURNING, 5))
    if node is None or value is None or not acceptable(draft, value):
        return False
    given = arguments(node) if isinstance(node, ast.Call) else None
    generator = "generator" in phrase.lows[max(0, left - 2) : left]
    return _return(draft, left, value, callee(draft, node), given, generator)


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


def value_to_return(draft: Draft, at: int) -> bool:
    """`the value to return is 5`, `its return value is 5`."""
    phrase = draft.phrase
    words = phrase.lows[max(0, at - 5) : at]
    if ("return" not in words and "returned" not in words) or not {"value", "what"} & set(words):
        return False
    value = phrase.right(phrase.skip(at + 1, _RETURNING, 5))
    return value is not None and _return(draft, at, value, None, None, False)


def leaves(draft: Draft, at: int) -> bool:
    """`this leaves xs at [1, 2]`, `f(5) leaves acc as Account(...)`."""
    phrase = draft.phrase
    begin = phrase.skip(at + 1, {"the", "value", "of"})
    if not is_place(phrase.node(begin)) or phrase.low(begin + 1) not in ("at", "as", "with", "="):
        return False
    value = phrase.right(begin + 2)
    return value is not None and one(draft, begin, value, How.IS, first=at)


def counts(draft: Draft, at: int) -> bool:
    """`3 iterations`, `4 times`, `three passes`; `called 9 times`, `4 levels deep`."""
    phrase = draft.phrase
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
        which = next((word for word in words if word in ("outer", "inner", "for", "while")), "")
        if "over" in words and (target := phrase.node(at - len(words) + words.index("over") + 1)) is not None:
            which = words_of(target).strip("()") if isinstance(target, ast.Name | ast.Tuple | ast.Attribute) else which
        ends = bool(around & {"ends", "done", "left", "finishes"}) and "after" in around
        draft.add(Iterated, at - 1, at, count=number, which=which, ends=ends)
    else:
        return False
    return True


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
    before = set(phrase.lows[max(0, at - 8) : at])
    exit = bool(before & {"break", "left", "leaves", "exits", "ends", "breaks"}) and "in" in before
    draft.add(InIteration, at, at + 1, number=number, exit=exit)
    return True


def span(draft: Draft, at: int) -> bool:
    """`in iterations 2 to 5`, `iterations 3 and 4 are left out here`."""
    first, last = _number(draft, at + 1), _number(draft, at + 3)
    if first is None or last is None or draft.phrase.low(at + 2) not in ("to", "and", "through", "-", "–"):
        return False
    draft.add(Span, at, at + 3, begin=first, finish=last)
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
    draft.add(AtLine, at, at + 1, line=number)
    return True


def changes(draft: Draft, at: int) -> bool:
    """`append 5 to xs`, `pop 'a' from stack`, `add 3 to seen`, `appending 5 changes xs`."""
    phrase = draft.phrase
    low = phrase.low(at)
    action = "remove" if low[:3] in ("pop", "rem", "deq", "del", "dis") else "add"
    begin = phrase.skip(
        at + 1,
        ADVERBS
        | {
            "the",
            "character",
            "value",
            "number",
            "item",
            "element",
            "back",
            "off",
            "first",
            "last",
            "top",
            "key",
            "word",
            "node",
            "it",
        },
        4,
    )
    if (
        begin > at + 1
        and phrase.node(begin) is None
        and phrase.low(begin - 1) in ("value", "word", "node", "item", "key", "number")
        and phrase.node(begin - 1) is not None
    ):
        begin -= 1
    item = phrase.node(begin)
    if item is None or phrase.items[begin].start - phrase.items[at].end > 40:
        return False
    if low in ("popping", "pops", "pop") and phrase.low(begin + 1) in ("", ".") and is_place(item):
        return False
    end = begin + 1
    if low in ("adding", "subtracting") and "takes" in phrase.lows[end : end + 6]:
        return True  # `adding 5 takes x from 3 to 8` is told with its verb
    if phrase.low(end) == "=":
        value = phrase.right(end + 1, bare=False)
        if value is not None:
            draft.add(Equal, begin, value.end - 1, parts=(item, value.node))
            item, end = value.node, value.end
    return change_of(draft, begin, end - 1, action, item, at)


def change_of(draft: Draft, index: int, after: int, action: str, item: ast.expr | None, first: int) -> bool:
    """A change of what is named after `to`, `from`, `changes`; the words up to `after` are read."""
    phrase = draft.phrase
    begin = phrase.skip(after + 1)
    target: ast.expr | None = None
    end = after
    if phrase.low(begin) in ("to", "onto", "into", "in", "from", "off", "of", "changes", "as", "at"):
        place = begin + 1
        for _ in range(4):
            place = phrase.skip(place, _THE | {"of", "from", "in", "to", "at", "index", "as", "key"}, 4)
            found = phrase.node(place)
            if found is None or is_place(found):
                break
            place += 1
        if is_place(phrase.node(place)):
            target, end = phrase.node(place), place
    if (
        target is None
        and action == "add"
        and phrase.low(after) in ("added", "subtracted")
        and phrase.low(index - 1) in ("as", "since", "=")
    ):
        return False  # `x grows from 3 to 8, as 5 is added`
    if (
        target is None
        and action == "add"
        and first == index
        and not isinstance(item, ast.Constant | ast.List | ast.Tuple)
    ):
        return False
    if isinstance(item, ast.Name) and target is None and action == "remove":
        item, target = None, item
    draft.add(Changed, first, max(end, index), action=action, item=item, target=target)
    return True


def gets_item(draft: Draft, at: int) -> bool:
    """`xs gets 5 at its end`, `seen gains 'C'`, `xs gets x = 3 at index 2`."""
    phrase = draft.phrase
    left, value = phrase.left(at), phrase.right(at + 1, bare=False)
    target = phrase.node(left) if left is not None else None
    if left is None or target is None or value is None:
        return False
    item, end = one_chain(draft, at + 1, value)
    more: list[ast.expr] = []
    while (
        phrase.low(end) in (",", "and")
        and (following := phrase.right(phrase.skip(end, {",", "and"}, 2), bare=False)) is not None
    ):
        if is_place(following.node) or phrase.low(following.end) not in (",", "and", "at", ".", ""):
            break
        more.append(following.node)
        end = following.end
    if phrase.low(at) not in ("gains", "gain", "loses", "lose") and phrase.low(end) != "at":
        return False
    draft.add(
        Changed,
        left,
        end - 1,
        action="remove" if phrase.low(at).startswith("lose") else "add",
        item=item,
        target=target,
        more=tuple(more),
    )
    return True


def swaps(draft: Draft, at: int) -> bool:
    """`swap 3 and 1`, `swap 3,1 -> [1, 3]`."""
    phrase = draft.phrase
    begin = phrase.skip(at + 1, {"the", "elements", "values", "items", "them"}, 3)
    one_, other = phrase.node(begin), phrase.node(begin + 2)
    if one_ is None or other is None or phrase.low(begin + 1) not in (",", "and", "with", "/"):
        return False
    draft.add(Changed, at, begin + 2, action="swap", item=one_, target=None, other=other)
    return True


def prints(draft: Draft, at: int) -> bool:
    """`it prints 5`, `the program prints 'a\\n'`, `prints Fizz`."""
    phrase = draft.phrase
    begin = phrase.skip(at + 1, ADVERBS | {"the", "string", "value", "text", "number", "out", "line", "word"}, 4)
    node = phrase.node(begin)
    if node is not None:
        known, value = literal(node)
        if known:
            draft.add(Printed, at, begin, text=str(value))
        elif is_place(node) and phrase.low(begin + 1) == "=" and (more := phrase.right(begin + 2)) is not None:
            known, value = literal(more.node)
            if known:
                draft.add(Printed, at, more.end - 1, text=str(value))
        return known
    if (
        begin < len(phrase.items)
        and phrase.low(begin + 1) in ("", ".", ",", "and", ";")
        and phrase.items[begin].kind == "word"
    ):
        draft.add(Printed, at, begin, text=phrase.sentence_text(begin))
        return True
    return False


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


def message_of(draft: Draft, at: int) -> tuple[str, str | Part | None] | None:
    """The exception that an item names, and its message: `ValueError`, `ValueError('x')`."""
    if not 0 <= at < len(draft.phrase.items):
        return None
    node = draft.phrase.node(at)
    name = function_name(node) if node is not None else draft.phrase.sentence_text(at)
    if name not in _EXCEPTIONS and not (name.endswith(("Error", "Exception")) and name[:1].isupper()):
        return None
    if isinstance(node, ast.Call) and len(node.args) == 1:
        known, value = literal(node.args[0])
        return name, (value if isinstance(value, Part) else str(value)) if known else None
    return name, None


def answer(draft: Draft, at: int) -> bool:
    """`the final answer is 5`, `Answer: 5`, `Output: 5`, `so the result is 5`."""
    phrase = draft.phrase
    low = phrase.low(at)
    if (
        phrase.node(at) is not None
        and phrase.low(at + 1) not in (":",)
        and phrase.low(at - 1) not in ("final", "overall")
    ):
        return False
    if low in ("result", "output", "final", "returned") and phrase.low(at - 1) not in (
        "",
        "final",
        "the",
        "overall",
        "so",
        ".",
        "end",
    ):
        return False
    if low == "result" and phrase.low(at + 1) == "of":
        return False
    begin = phrase.skip(
        at + 1,
        ADVERBS | {"is", "answer", "result", "output", "value", ":", "=", "→", "the", "will", "be", "of", "program"},
        5,
    )
    if begin == at + 1:
        return False
    value = phrase.right(begin)
    if value is None or not acceptable(draft, value) or not literal(value.node)[0]:
        return False
    if phrase.low(begin - 1) not in ("is", ":", "=", "→", "be") and phrase.low(begin - 1) not in ("the",):
        return False
    draft.add(Answer, at, value.end - 1, value=value.node, about=value.about)
    return True


def final_arrow(draft: Draft, at: int) -> bool:
    """`→ 5` by itself in its sentence: the result."""
    phrase = draft.phrase
    node = phrase.node(1)
    if at != 0 or node is None or len(phrase.items) > 3 or not literal(node)[0]:
        return False
    draft.add(Answer, 0, 1, value=node)
    return True


RULES: Final[dict[str, Sequence[Rule]]] = {
    "calls": (counts, calls),
    **dict.fromkeys(("call", "calling", "invokes", "invoke", "enter", "enters", "entering", "into", "kicks"), (calls,)),
    **dict.fromkeys(("runs", "run", "ran", "starts", "begins", "receives"), (runs, source_of_loop)),
    "gets": (runs, gets_item), "gains": (gets_item,), "loses": (gets_item,), "takes": (source_of_loop,),
    "goes": (source_of_loop,), "loops": (source_of_loop,), "iterates": (source_of_loop,),
    **dict.fromkeys(("returns", "return", "returning", "yields", "yield", "returned", "yielding"), (returns,)),
    **dict.fromkeys(("gives", "give", "produces"), (gives_items, gives_back)),
    "is": (value_to_return,), "leaves": (leaves,),
    **dict.fromkeys(("iteration", "times", "passes", "rounds", "round", "levels", "deep"), (counts,)),
    "pass": (pass_test, counts),
    "depth": (depth,), "iterations": (span, counts), "line": (line,), "message": (message,), "→": (final_arrow,),
    **dict.fromkeys(("append", "appends", "appending", "push", "pushes", "pushing", "add", "adds", "adding", "insert",
                     "inserts", "inserting", "enqueue", "enqueues", "pop", "pops", "popping", "remove", "removes",
                     "removing",
                     "dequeue", "dequeues", "discard", "discards", "discarding", "store", "stores"), (changes,)),
    **dict.fromkeys(("swap", "swaps", "swapping"), (swaps,)),
    **dict.fromkeys(("prints", "print", "printing", "outputs", "printed"), (prints,)),
    **dict.fromkeys(("raises", "raise", "throws", "raising"), (raises,)),
    **dict.fromkeys(("answer", "result", "output", "final"), (answer,)),
}  # fmt: skip
LAST: Final[Sequence[Rule]] = (exception_named,)
