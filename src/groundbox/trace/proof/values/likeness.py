"""Whether what a text says is the value that was recorded."""

from __future__ import annotations

import ast
import math
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from groundbox.trace.proof.values.code import parse_source
from groundbox.trace.proof.values.evaluation import literal, written
from groundbox.trace.proof.values.things import (
    Array,
    Gap,
    Named,
    Opaque,
    OwnDict,
    OwnList,
    OwnSet,
    Part,
    Thing,
    Written,
    int_words,
)

EMPTY: Final = "__empty__"
"""The name that stands for `empty` where the text does not say an empty what."""


class _Empty:
    """What `empty` says where the text does not say an empty what."""


_NOTHING: Final = _Empty()


def said_value(node: ast.expr) -> tuple[bool, Any]:
    """Whether what a text writes is a value by itself, and which."""
    if isinstance(node, ast.Name) and node.id == EMPTY:
        return True, _NOTHING
    return literal(node)


def is_gap(node: ast.expr) -> bool:
    """Whether a text leaves something out there."""
    return isinstance(node, ast.Constant) and (node.value is ... or isinstance(node.value, Gap))


def is_written(node: ast.expr, actual: Any) -> bool:
    """Whether an expression is how a value of a standard type shows itself: `Decimal('1.5')`, `Color.RED`."""
    if any(isinstance(part, ast.Call) for part in ast.walk(node)):
        known, said = written(node)
        if known and same(said, actual):
            return True
    if not isinstance(actual, Thing) or actual.kind != "repr":
        return False
    return _is_code(ast.unparse(node), actual.name)


def _is_code(said: str, shown: str) -> bool:
    """Whether two pieces of code differ in nothing but spaces and quotes."""
    if said.replace(" ", "") == shown.replace(" ", ""):
        return True
    one, other = parse_source(said), parse_source(shown)
    return one is not None and other is not None and ast.dump(one) == ast.dump(other)


def same(said: Any, actual: Any, *, about: bool = False) -> bool:
    """Whether the two are the same value.

    Numbers are equal when Python says so, but True is not 1. A deque, an array or a range may be written as a list,
    a Counter as a dict. With `about`, a number may be rounded: it is compared to the digits that were said.
    """
    if isinstance(said, _Empty):
        return actual.length == 0 if isinstance(actual, Part) else hasattr(actual, "__len__") and len(actual) == 0
    if isinstance(said, bool) or isinstance(actual, bool):
        return said is actual
    if isinstance(said, Opaque) and isinstance(actual, Part) and actual.type == "int":
        return said.text == int_words(actual)
    if isinstance(said, Opaque):
        name = actual.name.replace(" ", "") if isinstance(actual, Thing) else ""
        if re.fullmatch(r"# ?\d+", said.text):  # an object inside itself, by its label
            return isinstance(actual, Thing) and actual.label == int(said.text[1:])
        is_type = isinstance(actual, Thing) and actual.kind == "repr" and said.text == actual.type
        return is_type or (bool(name) and name in said.text.replace(" ", ""))
    if isinstance(said, int | float | complex):
        return isinstance(actual, int | float | complex) and _same_number(said, actual, about)
    compare = _CONTAINERS.get(type(said))
    if compare is not None:
        return compare(said, actual, about)
    if isinstance(said, Written):
        return _same_written(said, actual, about)
    if isinstance(said, Thing):
        return _same_thing(said, actual, about)
    return type(said) is type(actual) and bool(said == actual)


def listed(value: Any) -> Any:
    """Tuples as lists: an answer may be written as JSON."""
    return [listed(item) for item in value] if isinstance(value, list | tuple) else value


def _same_number(said: Any, actual: Any, about: bool) -> bool:
    if said == actual:
        return True
    if isinstance(said, float) and isinstance(actual, float) and math.isnan(said) and math.isnan(actual):
        return True
    if not about or isinstance(said, complex) or isinstance(actual, complex):
        return False
    try:
        return bool(abs(said - actual) <= _unit(said) * 0.51 + 1e-12)
    except OverflowError:
        return False


def _unit(said: float) -> float:
    """The value of the last digit that was said: of 115.76 one hundredth, of 1200 one hundred."""
    text = repr(said)
    if "e" in text or "n" in text:
        return abs(said) * 1e-6
    whole, _, decimals = text.partition(".")
    if decimals and decimals != "0":
        return float(10.0 ** -len(decimals))
    return float(10.0 ** (len(whole) - len(whole.rstrip("0")))) if said else 1.0


def _same_array(said: Array, actual: Any, about: bool) -> bool:
    return isinstance(actual, Array) and same(said.nested(), actual, about=about)


def _same_sequence(said: Any, actual: Any, about: bool) -> bool:
    if isinstance(actual, Array):  # one that is cut is written in a row
        actual = actual.items if any(isinstance(item, Gap) for item in said) else actual.nested()
    if isinstance(said, tuple) != isinstance(actual, tuple) and not (
        isinstance(actual, Part) and actual.type == "tuple"
    ):
        return False
    gaps = [at for at, item in enumerate(said) if isinstance(item, Gap)]
    if len(gaps) > 1:
        return _same_runs(said, actual, about)
    gap = gaps[0] if gaps else None
    if gap is not None:
        return _same_ends(said[:gap], said[gap], said[gap + 1 :], actual, about)
    if isinstance(actual, Part) or not isinstance(actual, list | tuple | deque | range):
        return False
    return len(said) == len(actual) and all(same(a, b, about=about) for a, b in zip(said, actual, strict=True))


def _same_runs(said: Any, actual: Any, about: bool) -> bool:
    """A list of which several parts are left out, each with its length."""
    if not isinstance(actual, Part | list | tuple | deque | range):
        return False
    at = 0
    for item in said:
        if isinstance(item, Gap):
            if item.count is None:
                return False
            at += item.count
            continue
        found = actual.item(at) if isinstance(actual, Part) else (actual[at],) if at < len(actual) else None
        if found is None or not same(item, found[0], about=about):
            return False
        at += 1
    return at == (actual.length if isinstance(actual, Part) else len(actual))


def _same_ends(head: Any, gap: Gap, tail: Any, actual: Any, about: bool) -> bool:
    """A list of which the middle is left out, in the text or in the trace."""
    if isinstance(actual, Part):
        if actual.type in ("str", "dict", "set"):
            return False
        first, last, length = list(actual.head), list(actual.tail), actual.length
    elif isinstance(actual, list | tuple | deque | range):
        first = last = list(actual)
        length = len(first)
    else:
        return False
    if len(head) > len(first) or len(tail) > len(last) or len(head) + len(tail) > length:
        return False
    if gap.count is not None and len(head) + len(tail) + gap.count != length:
        return False
    pairs = zip((*head, *tail), (*first[: len(head)], *last[len(last) - len(tail) :]), strict=True)
    return all(same(a, b, about=about) for a, b in pairs)


def _same_set(said: Any, actual: Any, about: bool) -> bool:
    gap = next((item for item in said if isinstance(item, Gap)), None)
    if gap is None and isinstance(actual, Part) and actual.type in ("set", "frozenset"):
        return actual.length == len(actual.shown()) and _same_items(list(said), actual.shown(), about)
    if gap is None:
        if not isinstance(actual, set | frozenset) or len(said) != len(actual):
            return False
        if any(isinstance(item, Thing | Named | tuple | Part) or item != item for item in actual):
            return all(any(same(item, other, about=about) for other in actual) for item in said)
        return said == actual and _same_kinds(said, actual)
    is_part = isinstance(actual, Part) and actual.type in ("set", "frozenset")
    if not is_part and not isinstance(actual, set | frozenset):
        return False
    shown, length = (actual.shown(), actual.length) if is_part else (list(actual), len(actual))
    items = [item for item in said if item is not gap]
    return gap.count in (None, length - len(items)) and _takes_one_each(items, shown, about)


def _same_items(said: list[Any], shown: list[Any], about: bool) -> bool:
    return len(said) == len(shown) and _takes_one_each(said, shown, about)


def _takes_one_each(said: list[Any], shown: list[Any], about: bool) -> bool:
    """Whether each item that is said is one of those that are shown, and no two are the same one."""
    left = list(shown)
    for item in said:
        found = [at for at, other in enumerate(left) if same(item, other, about=about)]
        if not found:
            return False
        # `<function execv>` has the names `exec` and `execv` in it, and is the longer one
        del left[max(found, key=lambda at: len(getattr(left[at], "name", "")))]
    return True


def _same_kinds(said: Any, actual: Any) -> bool:
    return {(type(item) is bool, item) for item in said} == {(type(item) is bool, item) for item in actual}


def _same_dict(said: Any, actual: Any, about: bool) -> bool:
    if len(said) == 1 and isinstance(next(iter(said)), Gap):  # `{… 2 more …}` may be a dict or a set
        length = (
            actual.length
            if isinstance(actual, Part)
            else len(actual)
            if isinstance(actual, dict | set | frozenset)
            else -1
        )
        return next(iter(said)).count in (None, length)
    gap = next((key for key in said if isinstance(key, Gap)), None)
    if gap is not None:
        return _same_dict_part({key: value for key, value in said.items() if key is not gap}, gap, actual, about)
    if isinstance(actual, Part) and actual.type == "dict":
        return actual.length == len(actual.head) == len(said) and _has_pairs(actual.head, {}, said, about)
    if not isinstance(actual, dict) or len(said) != len(actual):
        return False
    if any(isinstance(key, tuple) or not _is_plain(key) for key in said):
        return _has_pairs(list(actual.items()), actual, said, about)
    if not _same_kinds(said, actual):
        return False
    return all(key in actual and same(value, actual[key], about=about) for key, value in said.items())


def _same_dict_part(said: dict[Any, Any], gap: Gap, actual: Any, about: bool) -> bool:
    if isinstance(actual, Part) and actual.type == "dict":
        pairs, length = actual.head, actual.length
    elif isinstance(actual, dict):
        pairs, length = list(actual.items()), len(actual)
    else:
        return False
    known = actual if isinstance(actual, dict) else {}
    return gap.count in (None, length - len(said)) and _has_pairs(pairs, known, said, about)


def _has_pairs(pairs: Sequence[tuple[Any, Any]], known: Mapping[Any, Any], said: dict[Any, Any], about: bool) -> bool:
    """Whether each pair is there; a key that is written like others takes one of them. `known`: those Python finds."""
    left = list(pairs)
    for key, value in said.items():
        if _is_plain(key) and key in known:
            if not same(value, known[key], about=about):
                return False
            continue
        found = (at for at, pair in enumerate(left) if same(key, pair[0]) and same(value, pair[1], about=about))
        at = next(found, None)
        if at is None:
            return False
        del left[at]
    return True


def _is_plain(key: Any) -> bool:
    """Whether Python finds a key that is equal to this one."""
    if isinstance(key, tuple):
        return all(_is_plain(part) for part in key)
    return not isinstance(key, Gap | Opaque | Part | Thing | Written) and key == key


def _same_text(said: Part, actual: Any, about: bool) -> bool:
    """A string of which the middle is left out."""
    if said.type == "int" and isinstance(actual, Part):
        return said.origin is not None and (said.head, said.length, said.origin) == (
            actual.head, actual.length, actual.origin
        )  # fmt: skip
    if said.type == "int":
        digits = str(abs(actual)) if isinstance(actual, int) and actual.bit_length() < 20_000 else ""
        return len(digits) == said.length and digits.startswith(said.head) and digits.endswith(said.tail)
    if isinstance(actual, Part) and actual.type == "str":
        head, tail, length = actual.head, actual.tail, actual.length
    elif isinstance(actual, str):
        head = tail = actual
        length = len(actual)
    else:
        return False
    return bool(
        head.startswith(said.head[: len(head)])
        and tail.endswith(said.tail[-len(tail) :] if said.tail else "")
        and length == said.length
    )


def _same_written(said: Written, actual: Any, about: bool) -> bool:
    """`Decimal('1.5')`, `Point(1, 2)`."""
    if isinstance(actual, Named):
        return actual.name.endswith(said.name) and _same_sequence(tuple(said.args), tuple(actual), about)
    if _is_of(actual, said.name):
        left_out = sum(arg.count or 0 for arg in said.args[1:] if isinstance(arg, Gap))
        content = [arg for arg in said.args if not isinstance(arg, Gap)]
        is_content = len(content) == 1 and same(content[0], actual, about=about)
        return is_content and left_out <= len(actual.attrs) and _has_attrs(actual, said.attrs, about)
    if isinstance(actual, int | float) and said.text.startswith("np.") and len(said.args) == 1:
        return same(said.args[0], actual, about=about)  # a scalar of numpy is the number that it holds
    return isinstance(actual, Thing) and actual.kind == "repr" and _is_code(said.text, actual.name)


def _same_thing(said: Thing, actual: Any, about: bool) -> bool:
    if isinstance(actual, Named):
        return said.name in actual.name
    if _is_of(actual, said.name):  # one of a container class that holds nothing
        return not isinstance(actual, Part) and len(actual) == 0 and _has_attrs(actual, said.attrs, about)
    if not isinstance(actual, Thing):
        return False
    if said.name != actual.name and not actual.name.endswith("." + said.name):
        return False
    if said.label and said.label != actual.label:
        return False
    return _has_attrs(actual, said.attrs, about)


def _is_of(actual: Any, name: str) -> bool:
    """Whether it is a list, dict or set of a class of the program, of this name."""
    is_own = isinstance(actual, OwnList | OwnDict | OwnSet) or (isinstance(actual, Part) and actual.name != "")
    return is_own and f".{actual.name}".endswith(f".{name}")


def _has_attrs(actual: Any, said: Mapping[str, Any], about: bool) -> bool:
    return all(name in actual.attrs and same(value, actual.attrs[name], about=about) for name, value in said.items())


_CONTAINERS: Final[dict[type, Callable[[Any, Any, bool], bool]]] = {
    list: _same_sequence,
    tuple: _same_sequence,
    set: _same_set,
    frozenset: _same_set,
    dict: _same_dict,
    Array: _same_array,
    Part: _same_text,
    deque: lambda said, actual, about: (
        (isinstance(actual, deque) or getattr(actual, "type", "") == "deque")
        and said.maxlen in (None, getattr(actual, "maxlen", None))
        and _same_sequence(list(said), actual, about)
    ),
}
