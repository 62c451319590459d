"""Builtin functions and methods that `evaluate` may call: without side effects, on plain data, within bounds."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from groundbox.values.codec import BoundedKeys
from groundbox.values.unknown import DefaultDict, Handle, Unknown

MOST_BITS: Final = 20_000
MOST_ITEMS: Final = 100_000
_MOST_MODULAR_BITS: Final = 2000
MOST_WIDTH: Final = 10_000
UNORDERED: Final = (set, frozenset)
_SHOWN_AS_THEY_ARE: Final = (type(None), bool, int, float, complex, str, bytes, range, bytearray)


class Lazy(list[Any]):
    """The items of an iterator (`zip`, `enumerate`, `reversed`, a generator), which is iterated and nothing else.

    An iterator is true, also without items, equals nothing but itself, and has no length, items or text that is known.
    """

    __slots__ = ()

    def __bool__(self) -> bool:
        return True

    def _unknown(self, *_: object) -> Any:
        raise Unknown("an iterator is iterated and nothing else")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __add__ = __mul__ = __rmul__ = __getitem__ = _unknown
    __hash__ = None


def in_order(values: Any) -> list[Any]:
    """The items of a value whose order is Python's own.

    Raises:
        Unknown: It is a set, whose order the trace does not tell, too long, or cannot be iterated.
    """
    if isinstance(values, UNORDERED):
        raise Unknown("the order of a set is not known")
    return _any_order(values)


def _any_order(values: Any) -> list[Any]:
    if not isinstance(values, Collection):
        raise Unknown("it is not iterated")
    if len(values) > MOST_ITEMS:
        raise Unknown("it is too long")
    return list(values)


def _shown(value: Any) -> str:
    """The `repr` of a value, if it is the same as in the program."""
    if isinstance(value, (DefaultDict, Handle)):
        raise Unknown("how it is shown is not known")
    if isinstance(value, (set, frozenset)):
        if len(value) > 1:
            raise Unknown("the order of a set is not known")
        for item in value:
            _shown(item)
    elif type(value) in (list, tuple, deque):
        for item in value:
            _shown(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            _shown(key)
            _shown(item)
    elif type(value) not in _SHOWN_AS_THEY_ARE:
        raise Unknown("how it is shown is not known")
    return repr(value)


def _str(value: Any = "") -> str:
    if isinstance(value, str):
        return value
    return _shown(value)


def _sum(values: Any, start: Any = 0) -> Any:
    if not isinstance(start, (int, float)):
        raise Unknown("only numbers are summed")
    items = _any_order(values)
    if isinstance(values, UNORDERED) and any(isinstance(item, float) for item in items):
        raise Unknown("the order of a set is not known")
    if not all(isinstance(item, (int, float)) for item in items):
        raise Unknown("only numbers are summed")
    return sum(items, start)


def _extreme(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*values: Any, **keywords: Any) -> Any:
        if keywords.keys() - {"default"}:
            raise Unknown("a key is not evaluated")
        if len(values) == 1:
            return function(_any_order(values[0]), **keywords)
        return function(*values)

    return call


def _sorted(values: Any, *, reverse: bool = False) -> list[Any]:
    return sorted(_any_order(values), reverse=reverse)


def _pow(base: Any, exponent: Any, modulus: Any = None) -> Any:
    whole = isinstance(base, int) and isinstance(exponent, int)
    if modulus is None and whole and exponent > 0 and base.bit_length() * exponent > MOST_BITS:
        raise Unknown("its result is too large")
    if modulus is None:
        return pow(base, exponent)
    if not all(isinstance(each, int) and each.bit_length() < _MOST_MODULAR_BITS for each in (base, exponent, modulus)):
        raise Unknown("its result is too large")
    return pow(base, exponent, modulus)


def _round(number: Any, digits: Any = None) -> Any:
    # Python works out ten to the power of the digits, however short the number is.
    if isinstance(digits, int) and abs(digits) > MOST_BITS:
        raise Unknown("its result takes too long")
    return round(number, digits)


def _range(*parts: int) -> range:
    made = range(*parts)
    if len(made) > MOST_ITEMS:
        raise Unknown("it is too long")
    return made


def _len(value: Any) -> int:
    if isinstance(value, Lazy):
        raise Unknown("an iterator has no length")
    return value.length() if isinstance(value, Handle) else len(value)


def _make(kind: Callable[..., Any]) -> Callable[..., Any]:
    def call(*values: Any) -> Any:
        if len(values) > 1:
            raise Unknown("it is called with too much")
        return kind(in_order(values[0])) if values else kind()

    return call


def _set(values: Any = ()) -> set[Any]:
    made: set[Any] = set()
    items = _any_order(values)
    BoundedKeys().add(made.update, items, items)
    return made


def _dict(values: Any = (), /, **named: Any) -> dict[Any, Any]:
    if isinstance(values, dict):
        return dict(values, **named)
    made: dict[Any, Any] = {}
    items = in_order(values)
    BoundedKeys().add(made.update, items, [key for key, _ in items])
    return dict(made, **named)


def _number(kind: Callable[..., Any]) -> Callable[..., Any]:
    def call(*values: Any) -> Any:
        if not all(isinstance(value, (int, float, str)) for value in values):
            raise Unknown("only numbers and strings are converted")
        return kind(*values)

    return call


def _zip(*values: Any, strict: bool = False) -> Lazy:
    return Lazy(zip(*map(in_order, values), strict=strict))


def _reversed(values: Any) -> Lazy:
    if isinstance(values, Lazy):
        raise Unknown("an iterator is not reversed")
    return Lazy(in_order(values)[::-1])


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "abs": abs,
    "all": lambda values: all(_any_order(values)),
    "any": lambda values: any(_any_order(values)),
    "bin": bin,
    "bool": bool,
    "chr": chr,
    "dict": _dict,
    "divmod": divmod,
    "enumerate": lambda values, start=0: Lazy(enumerate(in_order(values), start)),
    "float": _number(float),
    "frozenset": lambda values=(): frozenset(_set(values)),
    "hex": hex,
    "int": _number(int),
    "len": _len,
    "list": _make(list),
    "max": _extreme(max),
    "min": _extreme(min),
    "oct": oct,
    "ord": ord,
    "pow": _pow,
    "range": _range,
    "repr": _shown,
    "reversed": _reversed,
    "round": _round,
    "set": _set,
    "sorted": _sorted,
    "str": _str,
    "sum": _sum,
    "tuple": _make(tuple),
    "zip": _zip,
}


def _of_sets(method: Callable[..., Any]) -> Callable[..., Any]:
    def call(owner: Any, *others: Any) -> Any:
        return method(owner, *(other if isinstance(other, UNORDERED) else _set(other) for other in others))

    return call


def _padded(method: Callable[..., str]) -> Callable[..., str]:
    def call(text: str, width: int, *fill: str) -> str:
        if width > MOST_WIDTH:
            raise Unknown("its result is too large")
        return method(text, width, *fill)

    return call


def _replace(text: str, old: str, new: str, *count: int) -> str:
    if (len(text) + 1) * (len(new) + 1) > 10 * MOST_ITEMS:
        raise Unknown("its result is too large")
    return text.replace(old, new, *count)


def _join(text: str, values: Any) -> str:
    items = in_order(values)
    if sum(len(item) + len(text) for item in items) > MOST_ITEMS:
        raise Unknown("its result is too large")
    return text.join(items)


_STR: Final = (
    "capitalize casefold count endswith find index isalnum isalpha isascii isdecimal isdigit isidentifier islower "
    "isnumeric isprintable isspace istitle isupper lower lstrip partition removeprefix removesuffix rfind rindex "
    "rpartition rsplit rstrip split splitlines startswith strip swapcase title upper"
)
_SET: Final = "copy difference intersection isdisjoint issubset issuperset symmetric_difference union"
_PLAIN: Final[Mapping[type, str]] = {
    str: _STR,
    list: "copy count index",
    tuple: "count index",
    deque: "copy count index",
    dict: "copy get items keys values",
    OrderedDict: "copy get items keys values",
    DefaultDict: "get items keys values",
    Counter: "copy get items keys values total",
    int: "bit_count bit_length",
    float: "is_integer",
    range: "count index",
}
METHODS: Final[Mapping[tuple[type, str], Callable[..., Any]]] = {
    **{(kind, name): getattr(kind, name) for kind, names in _PLAIN.items() for name in names.split()},
    **{(kind, name): _of_sets(getattr(kind, name)) for kind in UNORDERED for name in _SET.split()},
    (str, "join"): _join,
    (str, "replace"): _replace,
    (str, "zfill"): _padded(str.zfill),
    (str, "ljust"): _padded(str.ljust),
    (str, "rjust"): _padded(str.rjust),
    (str, "center"): _padded(str.center),
}
