"""Python values as JSON and back, where they cross the wall between host and guest.

There are two forms. *Call data* goes into a guest and travels between guests: arguments of calls, and results that are
handed on as arguments. *Results* come out of a guest, in the words that traces use (docs/trace.md), and say also what
is no data. `decode` reads both. Atoms stand for themselves; the rest is an object whose key says what it is:

| value | call data | result |
|---|---|---|
| None, bool, str, int below 2^53, finite float | itself | itself |
| other int | `{"int": "0x20000000000000"}` | `{"int": "9007199254740992"}` |
| other float | `{"float": "nan"}` | the same |
| complex | `{"complex": [0.0, 1.0]}` | the same |
| range | `{"range": [0, 9, 2]}`, integers as above | the same, integers as they are |
| bytes | `{"bytes": "00ff"}`; of a bytearray, too | `{"bytes": {"len": 2, "hex": "00ff"}}` |
| list | `[…]` | `{"list": […]}` |
| tuple, set, frozenset | `{"tuple": […]}` | the same |
| dict | `{"dict": [[key, value], …]}` | the same |
| deque | - | `{"deque": […]}` |
| instance of a subclass | as its base | as its base; a container with `"class"` beside it |
| scalar or array of numpy | - | the number, or the list of lists, that it is |
| anything else | - | `{"opaque": "its type"}` |

Both sides load this module, so it needs little of the standard library; each runs its own copy. What the host decodes
may have been written by a guest: nothing is looked up by a name from the data, no recursion goes deeper than
MOST_DECODED, and no set or dict takes long to make: keys with one hash are counted before, and keys that meet in its
table for another reason are added piece by piece, by a clock.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

RESULT_MIME: Final = "application/vnd.groundbox.value+json"
"""Media type of a result in the bundle of an execution's value."""
MOST_DEPTH: Final = 40
MOST_DECODED: Final = 60
"""Values in each other that `decode` takes, whatever the bounds of the JSON (guestjson.py) are."""
MOST_RESULT_DEPTH: Final = 25
"""Two levels of JSON each, and three of a dict."""
MOST_RESULT_ITEMS: Final = 100_000
MOST_ALIKE: Final = 100
"""Keys with one hash: a set takes time by the square of their number, all of it in one step of the interpreter."""
MOST_KEYS_S: Final = 0.5
"""Of the thread's processor time, for all keys of a value. The 200,000 that a frame can hold take a tenth of it.

An integer is its own hash, and a table of CPython looks for a free place by arithmetic on the hash: 60,000 integers of
different hashes can be chosen so that each is compared with tens of thousands of places.
"""
_KEYS_AT_ONCE: Final = 64
"""Others have their turn between two steps of the interpreter; such a step with 64 of those keys takes 20 ms."""
_EXACT: Final = 1 << 53
_MOST_DIGITS: Final = 4000


class NotData(ValueError):
    """A value that has no such form, or JSON that is the form of no value. The message says why.

    Attributes:
        type_name: Type of what is no plain data, "" where something else is wrong.
    """

    def __init__(self, problem: str, type_name: str = "") -> None:
        super().__init__(problem)
        self.type_name = type_name


def encode(value: Any, *, exact: bool = True, most_depth: int = MOST_DEPTH) -> Any:
    """Write a value as call data.

    Args:
        exact: For values of a caller on the host: of the built-in types alone, whose texts are text, and sets in an
            order that does not depend on the hash seed. Otherwise subclasses are written as what they derive from, by
            that type's own methods, sets as they come, and half a surrogate pair is let through: a program compares
            what it gets with what it made.
        most_depth: Containers in each other.

    Raises:
        NotData: It holds something that is no plain data, or is nested too deeply.
    """
    return _CallEncoder(exact, most_depth).encode(value, 0)


class _CallEncoder:
    def __init__(self, exact: bool, most_depth: int) -> None:
        self._exact, self._most_depth = exact, most_depth

    def encode(self, value: Any, depth: int) -> Any:
        if depth > self._most_depth:
            raise NotData(f"is nested deeper than {self._most_depth}")
        kind = type(value)
        if value is None or kind is bool:
            return value
        base = kind if self._exact else _base_of(kind)
        if base is str:
            return _whole_text(value) if self._exact else str.__str__(value)
        if base is int:
            number = int.__index__(value)
            return number if -_EXACT < number < _EXACT else {"int": hex(number)}
        if base is bytes or (base is bytearray and not self._exact):
            return {"bytes": base.hex(value)}
        if base is range:
            return {"range": [self.encode(part, depth) for part in (value.start, value.stop, value.step)]}
        if base is float:
            return _real(value)
        if base is complex:
            return _complex(value)
        if base is dict:
            pairs = dict.items(value)
            return {"dict": [[self.encode(part, depth + 1) for part in pair] for pair in pairs]}
        if base not in _ITERATORS or base is deque:
            raise NotData(f"a {kind.__name__} is no plain data", kind.__name__)
        told = [self.encode(item, depth + 1) for item in _ITERATORS[base](value)]
        if self._exact and base in (set, frozenset):
            told.sort(key=repr)  # once written: the text of a frozenset inside depends on the hash seed
        return told if base is list else {base.__name__: told}


def _whole_text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise NotData("holds half of a surrogate pair, which is no text; give bytes instead") from None
    return value


def _base_of(kind: type) -> type:
    return kind if kind in _BASES else next((base for base in _BASES if issubclass(kind, base)), kind)


def result_of(value: Any) -> Any:
    """Write a value as a result, or return None when it is too large or too deep.

    It is made after the program has ended, by the built-in base types' own methods: a subclass of `dict` is told as a
    dict with its class, whatever it overrides. What is no data is told by the name of its type.
    """
    try:
        return _ResultEncoder().encode(value, 0)
    except (NotData, RuntimeError, MemoryError):  # RuntimeError: a thread of the program changes it meanwhile
        return None


class _ResultEncoder:
    def __init__(self) -> None:
        self._left = MOST_RESULT_ITEMS

    def encode(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if depth > MOST_RESULT_DEPTH or self._left < 0:
            raise NotData("it is not worth handing over")
        kind = type(value)
        if value is None or kind is bool:
            return value
        base = _base_of(kind)
        if base is str:
            return str.__str__(value)
        if base is int:
            number = int.__index__(value)
            return number if -_EXACT < number < _EXACT else {"int": int.__repr__(_in_bounds(number))}
        if base is bytes:
            return {"bytes": {"len": bytes.__len__(value), "hex": bytes.hex(value)}}
        if base is range:
            return {"range": [_in_bounds(part) for part in (value.start, value.stop, value.step)]}
        if base is float:
            return _real(value)
        if base is complex:
            return _complex(value)
        if base is dict:  # the list: a thread may change the dict meanwhile
            told = [[self.encode(part, depth + 1) for part in pair] for pair in list(dict.items(value))]
        elif base in _ITERATORS:
            told = [self.encode(item, depth + 1) for item in _ITERATORS[base](value)]
        else:
            plain = _from_numpy(value, kind)
            return {"opaque": kind.__name__} if plain is None else self.encode(plain, depth)
        if base in (set, frozenset):
            told.sort(key=repr)
        return {base.__name__: told} if kind is base else {base.__name__: told, "class": kind.__name__}


def _in_bounds(number: int) -> int:
    if number.bit_length() > _MOST_DIGITS * 3:
        raise NotData("it is not worth handing over")
    return number


def _real(value: float) -> Any:
    number = float.__pos__(value)
    return number if math.isfinite(number) else {"float": float.__repr__(number)}


def _complex(value: complex) -> Any:
    number = complex.__pos__(value)
    return {"complex": [_real(number.real), _real(number.imag)]}


def _from_numpy(value: Any, kind: type) -> Any:
    """A number or a list for a scalar or an array of numpy, None for everything else."""
    if kind.__module__ != "numpy":
        return None
    try:
        return value.tolist() if hasattr(value, "ndim") else None
    except Exception:  # what calls itself numpy may be anything
        return None


_ITERATORS: Final[Mapping[type, Callable[[Any], Iterable[Any]]]] = {
    list: list.__iter__,
    tuple: tuple.__iter__,
    set: set.__iter__,
    frozenset: frozenset.__iter__,
    deque: deque.__iter__,
}
_BASES: Final[tuple[type, ...]] = (int, str, bytes, bytearray, range, dict, float, complex, *_ITERATORS)


def decode(data: Any, *, literals: bool = False, most_alike: int | None = MOST_ALIKE) -> Any:
    """Build the value that stands in call data or in a result. It is of built-in types, whatever the data says.

    Args:
        literals: Refuse what Python does not write as a literal: ranges, deques, instances of a program's own classes,
            and integers of more digits than it writes (`sys.get_int_max_str_digits`). Otherwise a deque is a list, and
            an instance is a value of its base.
        most_alike: Keys of one set or dict that may have the same hash; None for data that was written on this side of
            the wall, where the same set was made before.

    Raises:
        NotData: It is no value that can be built, or one of which not all is told.
    """
    return _Reader(literals, most_alike).read(data, 0)


class BoundedKeys:
    """Adds keys that a guest chose to sets and dicts, so that it ends soon. Of one value: its time is for all of them.

    Args:
        most_alike: Keys of one set or dict that may have the same hash; None for any keys, in any time.
    """

    def __init__(self, most_alike: int | None = MOST_ALIKE) -> None:
        self._most_alike = most_alike
        self._left_s = MOST_KEYS_S

    def add(self, update: Callable[[Any], None], items: Sequence[Any], keys: Sequence[Any]) -> None:
        """Give the items to `update` of an empty set or dict, where they have these keys.

        Raises:
            NotData: Too many keys have one hash, or it takes too long.
            TypeError: A key has no hash.
        """
        if self._most_alike is None or len(keys) <= self._most_alike:
            update(items)
            return
        alike = Counter[int]()
        self._in_pieces(alike.update, list(map(hash, keys)))
        if max(alike.values()) > self._most_alike:
            raise NotData(f"more than {self._most_alike} keys have the same hash")
        self._in_pieces(update, items)

    def _in_pieces(self, update: Callable[[Any], None], items: Sequence[Any]) -> None:
        for at in range(0, len(items), _KEYS_AT_ONCE):
            begun = time.thread_time()
            update(items[at : at + _KEYS_AT_ONCE])
            self._left_s -= time.thread_time() - begun
            if self._left_s < 0:
                raise NotData("its keys take too long to tell apart")


class _Reader:
    def __init__(self, literals: bool, most_alike: int | None) -> None:
        self._literals = literals
        self._keys = BoundedKeys(most_alike)

    def read(self, data: Any, depth: int) -> Any:
        if depth > MOST_DECODED:
            raise NotData("it is too deep")
        if isinstance(data, list):
            return [self.read(item, depth + 1) for item in data]
        if not isinstance(data, dict):
            return data
        if data.get("elided"):
            raise NotData(f"{str(data['elided'])[:20]} items are not shown")
        tags = [tag for tag in data if tag not in ("class", "elided")]
        if len(tags) != 1 or tags[0] not in _READERS:
            raise NotData(f"it holds {str(data.get('opaque', 'something'))[:60]!r}, which is no plain data")
        if self._literals and (tags[0] in ("range", "deque") or data.get("class", tags[0]) != tags[0]):
            raise NotData(f"a {str(data.get('class', tags[0]))[:60]} is no literal")
        try:
            return _READERS[tags[0]](self, data[tags[0]], depth + 1)
        except NotData:
            raise
        except (TypeError, ValueError, OverflowError, AttributeError, KeyError):
            raise NotData(f"it is no {tags[0]}") from None

    def integer(self, data: Any) -> int:
        if not isinstance(data, str):
            raise NotData("an int of which not all digits are shown is no data")
        number = int(data, 0)  # hexadecimal digits have no limit, as reading them takes no more than linear time
        if self._literals:
            try:
                int.__repr__(number)
            except ValueError:
                raise NotData("an int of more digits than Python writes is no literal") from None
        return number

    def items(self, data: Any, depth: int) -> list[Any]:
        if not isinstance(data, list):
            raise TypeError
        return [self.read(item, depth) for item in data]

    def set_of(self, data: Any, depth: int) -> set[Any]:
        held = self.items(data, depth)
        made: set[Any] = set()
        self._keys.add(made.update, held, held)
        return made

    def dict_of(self, data: Any, depth: int) -> dict[Any, Any]:
        if not isinstance(data, list):
            raise TypeError
        keys = self.items([key for key, _ in data], depth)
        made: dict[Any, Any] = {}
        self._keys.add(made.update, list(zip(keys, self.items([value for _, value in data], depth), strict=True)), keys)
        return made


def _str(data: Any) -> str:
    if not isinstance(data, str):
        raise NotData(f"a text of which {str(data['len'])[:20]} characters are not all shown is no data")
    return data


def _bytes(data: Any) -> bytes:
    if isinstance(data, str):
        return bytes.fromhex(data)
    shown = bytes.fromhex(data["hex"])
    if len(shown) != data["len"]:
        raise NotData(f"bytes of which {str(data['len'])[:20]} are not all shown are no data")
    return shown


_READERS: Final[Mapping[str, Callable[[_Reader, Any, int], Any]]] = {
    "int": lambda reader, data, depth: reader.integer(data),
    "float": lambda _, data, depth: float(data),
    "complex": lambda reader, data, depth: complex(*reader.items(data, depth)),
    "str": lambda _, data, depth: _str(data),
    "bytes": lambda _, data, depth: _bytes(data),
    "range": lambda reader, data, depth: range(*reader.items(data, depth)),
    "list": _Reader.items,
    "deque": _Reader.items,
    "tuple": lambda reader, data, depth: tuple(reader.items(data, depth)),
    "set": _Reader.set_of,
    "frozenset": lambda reader, data, depth: frozenset(reader.set_of(data, depth)),
    "dict": _Reader.dict_of,
}
