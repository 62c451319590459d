"""JSON Schema, as far as it is used for tools: what a schema says is checked, or the schema is refused.

A validation keyword that is not known here would be a check that never happens, so that a schema with one is not
taken. `$ref` goes to places in the same schema only, and nothing is ever fetched. Keywords that only tell something
(`title`, `format`, `examples`, …) are kept and check nothing.

We do not use the package `jsonschema`: it takes five packages with one of native code, checks `uniqueItems` in
quadratic time, and does not bound its work. What a hostile value can cost here is MOST_STEPS. A `pattern` is the
host's own: one that backtracks without end is the host's fault, so write it so that it is linear.
"""

from __future__ import annotations

import copy
import datetime
import decimal
import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

Schema = Mapping[str, Any] | bool
MOST_STEPS: Final = 200_000
_KEYED: Final = 8
"""Values that are written down, to be compared, in the time of one step."""
_SHOWN: Final = 60
_TELLING_NAMES: Final = """
    $schema $id $comment $defs definitions title description default examples deprecated readOnly writeOnly format
    contentEncoding contentMediaType discriminator
"""
_TELLING: Final = frozenset(_TELLING_NAMES.split())
_TYPES: Final = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_FORMATS: Final = {
    datetime.datetime: "date-time",
    datetime.date: "date",
    datetime.time: "time",
    decimal.Decimal: "decimal",
}


class Refused(ValueError):
    """A schema that cannot be checked. The message says where and why."""


class TooMuch(Exception):
    """A value that would take too long to check."""


class Checker:
    """One schema, looked through once."""

    def __init__(self, schema: Schema) -> None:
        """Raises:
        Refused: It has a keyword that is not known, or one of a wrong kind.
        """
        self.schema = schema
        self._left = 0
        _look_through(schema, schema, "#")

    def problem(self, value: Any) -> str | None:
        """What is wrong with a value, such as `limit: 5 is over the maximum 3`; None when it fits.

        Raises:
            TooMuch: Finding out takes more than MOST_STEPS.
        """
        once = copy.copy(self)  # calls of one tool are checked at the same time, each with its own steps
        once._left = MOST_STEPS
        try:
            return once._first(self.schema, value, "")
        except RecursionError:
            raise TooMuch from None

    def _first(self, schema: Schema, value: Any, path: str) -> str | None:
        self._left -= 1
        if self._left < 0:
            raise TooMuch
        if isinstance(schema, bool):
            return None if schema else _at(path, "is not allowed")
        for keyword, wanted in schema.items():
            check = _CHECKS.get(keyword)
            if check is not None and (problem := check(self, wanted, value, schema, path)) is not None:
                return problem
        return None

    def _key(self, value: Any) -> str:
        """As the function, and what it takes is counted."""
        left, size = [value], 0
        while left:
            item = left.pop()
            size += 1
            if isinstance(item, dict):
                left += item
                left += item.values()
            elif isinstance(item, list):
                left += item
            elif isinstance(item, str | bytes):
                size += len(item) // _SHOWN
        self._left -= size // _KEYED
        if self._left < 0:
            raise TooMuch
        return _key(value)

    def _fits(self, schema: Schema, value: Any) -> bool:
        return self._first(schema, value, "") is None

    def _type(self, wanted: Any, value: Any, schema: Any, path: str) -> str | None:
        names = [wanted] if isinstance(wanted, str) else wanted
        if any(_is(name, value, schema) for name in names):
            return None
        return _at(path, f"{_short(value)} is not of type {' or '.join(names)}")

    def _enum(self, wanted: Any, value: Any, schema: Any, path: str) -> str | None:
        alike = [item for item in wanted if _alike(item, value)]
        if alike and self._key(value) in map(_key, alike):
            return None
        return _at(path, f"{_short(value)} is none of {_short(wanted)}")

    def _const(self, wanted: Any, value: Any, schema: Any, path: str) -> str | None:
        if _alike(wanted, value) and self._key(value) == _key(wanted):
            return None
        return _at(path, f"{_short(value)} is not {_short(wanted)}")

    def _properties(self, wanted: Any, value: Any, schema: Any, path: str) -> str | None:
        if not isinstance(value, dict):
            return None
        for name, inner in wanted.items():
            if name in value and (problem := self._first(inner, value[name], _member(path, name))) is not None:
                return problem
        return None

    def _pattern_properties(self, wanted: Any, value: Any, schema: Any, path: str) -> str | None:
        if not isinstance(value, dict):
            return None
        for pattern, inner in wanted.items():
            for name, item in value.items():
                if re.search(pattern, name) and (problem := self._first(inner, item, _member(path, name))) is not None:
                    return problem
        return None

    def _additional(self, wanted: Any, value: Any, schema: Any, path: str) -> str | None:
        if not isinstance(value, dict) or wanted is True:
            return None
        named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
        for name, item in value.items():
            if name in named or any(re.search(pattern, name) for pattern in patterns):
                continue
            if wanted is False:
                known = f"; there is {', '.join(named)}" if named else ""
                return _at(path, f"{_short(name)} is not known{known}")
            if (problem := self._first(wanted, item, _member(path, name))) is not None:
                return problem
        return None

    def _names(self, wanted: Any, value: Any, schema: Any, path: str) -> str | None:
        for name in value if isinstance(value, dict) else ():
            if (problem := self._first(wanted, name, _member(path, name))) is not None:
                return problem
        return None

    def _required(self, wanted: Any, value: Any, schema: Any, path: str) -> str | None:
        missing = [name for name in wanted if name not in value] if isinstance(value, dict) else []
        return _at(path, f"{missing[0]!r} is missing") if missing else None

    def _dependent(self, wanted: Any, value: Any, schema: Any, path: str) -> str | None:
        for name, others in wanted.items() if isinstance(value, dict) else ():
            if name in value and (missing := [other for other in others if other not in value]):
                return _at(path, f"{missing[0]!r} is missing beside {name!r}")
        return None

    def _items(self, wanted: Any, value: Any, schema: Any, path: str) -> str | None:
        begin = len(schema.get("prefixItems", ()))
        for index, item in enumerate(value[begin:] if isinstance(value, list) else (), begin):
            if (problem := self._first(wanted, item, f"{path}[{index}]")) is not None:
                return problem
        return None

    def _prefix_items(self, wanted: Any, value: Any, schema: Any, path: str) -> str | None:
        for index, (inner, item) in enumerate(zip(wanted, value, strict=False) if isinstance(value, list) else ()):
            if (problem := self._first(inner, item, f"{path}[{index}]")) is not None:
                return problem
        return None

    def _unique(self, wanted: Any, value: Any, schema: Any, path: str) -> str | None:
        if not wanted or not isinstance(value, list) or len({self._key(item) for item in value}) == len(value):
            return None
        return _at(path, "it holds an item twice")

    def _all_of(self, wanted: Any, value: Any, schema: Any, path: str) -> str | None:
        return next((p for inner in wanted if (p := self._first(inner, value, path)) is not None), None)

    def _any_of(self, wanted: Any, value: Any, schema: Any, path: str) -> str | None:
        problems = []
        for inner in wanted:
            if (problem := self._first(inner, value, path)) is None:
                return None
            problems.append(problem)
        return " or ".join(dict.fromkeys(problems))[:400] or _at(path, "fits none of the choices")

    def _one_of(self, wanted: Any, value: Any, schema: Any, path: str) -> str | None:
        count = sum(self._fits(inner, value) for inner in wanted)
        if count == 1:
            return None
        return self._any_of(wanted, value, schema, path) or _at(path, f"fits {count} of the choices, not one")

    def _not(self, wanted: Any, value: Any, schema: Any, path: str) -> str | None:
        return _at(path, f"{_short(value)} is not allowed") if self._fits(wanted, value) else None

    def _if(self, wanted: Any, value: Any, schema: Any, path: str) -> str | None:
        branch = schema.get("then" if self._fits(wanted, value) else "else", True)
        return self._first(branch, value, path)

    def _ref(self, wanted: Any, value: Any, schema: Any, path: str) -> str | None:
        return self._first(resolved(self.schema, wanted), value, path)

    def _multiple(self, wanted: Any, value: Any, schema: Any, path: str) -> str | None:
        if not _is_number(value) or _is_multiple(value, wanted):
            return None
        return _at(path, f"{_short(value)} is no multiple of {wanted}")

    def _pattern(self, wanted: Any, value: Any, schema: Any, path: str) -> str | None:
        if not isinstance(value, str) or re.search(wanted, value):
            return None
        return _at(path, f"{_short(value)} does not match {wanted}")


Check = Callable[[Checker, Any, Any, Any, str], str | None]


def _bound(kinds: type | tuple[type, ...], measure: Callable[[Any], Any], broken: Any, words: str) -> Check:
    def check(self: Checker, wanted: Any, value: Any, schema: Any, path: str) -> str | None:
        if isinstance(value, bool) or not isinstance(value, kinds) or not broken(measure(value), wanted):
            return None
        return _at(path, f"{_short(value)} {words} {wanted}")

    return check


_NUMBERS: Final = (int, float, decimal.Decimal)
_CHECKS: Final[Mapping[str, Check]] = {
    "type": Checker._type,
    "enum": Checker._enum,
    "const": Checker._const,
    "required": Checker._required,
    "properties": Checker._properties,
    "patternProperties": Checker._pattern_properties,
    "additionalProperties": Checker._additional,
    "propertyNames": Checker._names,
    "dependentRequired": Checker._dependent,
    "items": Checker._items,
    "prefixItems": Checker._prefix_items,
    "uniqueItems": Checker._unique,
    "allOf": Checker._all_of,
    "anyOf": Checker._any_of,
    "oneOf": Checker._one_of,
    "not": Checker._not,
    "if": Checker._if,
    "$ref": Checker._ref,
    "multipleOf": Checker._multiple,
    "pattern": Checker._pattern,
    "minimum": _bound(_NUMBERS, lambda v: v, lambda v, w: not v >= w, "is under the minimum"),
    "maximum": _bound(_NUMBERS, lambda v: v, lambda v, w: not v <= w, "is over the maximum"),
    "exclusiveMinimum": _bound(_NUMBERS, lambda v: v, lambda v, w: not v > w, "is not over"),
    "exclusiveMaximum": _bound(_NUMBERS, lambda v: v, lambda v, w: not v < w, "is not under"),
    "minLength": _bound(str, len, lambda n, w: n < w, "is shorter than"),
    "maxLength": _bound(str, len, lambda n, w: n > w, "is longer than"),
    "minItems": _bound(list, len, lambda n, w: n < w, "has fewer items than"),
    "maxItems": _bound(list, len, lambda n, w: n > w, "has more items than"),
    "minProperties": _bound(dict, len, lambda n, w: n < w, "has fewer members than"),
    "maxProperties": _bound(dict, len, lambda n, w: n > w, "has more members than"),
}
_ONE: Final = frozenset({"additionalProperties", "propertyNames", "items", "not", "if", "then", "else"})
_MANY: Final = frozenset({"prefixItems", "allOf", "anyOf", "oneOf"})
_NAMED: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})
_KNOWN: Final = _CHECKS.keys() | _TELLING | _ONE


def resolved(root: Schema, reference: object) -> Schema:
    """The part of a schema that `#/…` names.

    Raises:
        Refused: There is none, or it lies elsewhere.
    """
    if not isinstance(reference, str) or not reference.startswith("#"):
        raise Refused(f"$ref {reference!r} lies elsewhere, and nothing is fetched; put it under $defs")
    part: Any = root
    for step in reference[1:].split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        part = part.get(name) if isinstance(part, Mapping) else None
    if not isinstance(part, Mapping | bool):
        raise Refused(f"$ref {reference!r} names nothing")
    return part


def _look_through(root: Schema, schema: Any, where: str) -> None:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        raise Refused(f"{where}: {_short(schema)} is no schema")
    for keyword, wanted in schema.items():
        place = f"{where}/{keyword}"
        if keyword not in _KNOWN:
            raise Refused(f"{place}: this keyword is not checked here; leave it out, or say it otherwise")
        if keyword in _ONE:
            _look_through(root, wanted, place)
        elif keyword in _MANY:
            for index, inner in enumerate(wanted):
                _look_through(root, inner, f"{place}/{index}")
        elif keyword in _NAMED:
            for name, inner in wanted.items():
                _look_through(root, inner, f"{place}/{name}")
    _look_at_values(root, schema, where)


def _look_at_values(root: Schema, schema: Mapping[str, Any], where: str) -> None:
    names = schema.get("type", [])
    if unknown := ({names} if isinstance(names, str) else set(names)) - _TYPES:
        raise Refused(f"{where}/type: {', '.join(sorted(unknown))} is no type")
    try:
        for pattern in (*schema.get("patternProperties", ()), schema.get("pattern", "")):
            re.compile(pattern)
    except re.error as error:
        raise Refused(f"{where}: the pattern {pattern!r} is none: {error}") from None
    if "$ref" in schema:
        _refuse_circle(root, schema, where)


def _refuse_circle(root: Schema, schema: Schema, where: str) -> None:
    """A reference that comes back to itself without a step into the value would never end."""
    seen: list[int] = []
    while isinstance(schema, Mapping) and "$ref" in schema:
        if id(schema) in seen:
            raise Refused(f"{where}: this $ref leads back to itself")
        seen.append(id(schema))
        schema = resolved(root, schema["$ref"])


def _is(name: str, value: Any, schema: Mapping[str, Any]) -> bool:
    if name == "null":
        return value is None
    if name == "boolean":
        return isinstance(value, bool)
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)  # 1.0 is none, unlike in JSON Schema
    if name == "number":
        return _is_number(value)
    if name == "array":
        return isinstance(value, list)
    if name == "object":
        return isinstance(value, dict)
    if isinstance(value, bytes | bytearray):
        return schema.get("contentEncoding") == "base64"
    return isinstance(value, str) or _FORMATS.get(type(value), "") == schema.get("format")


def _is_number(value: Any) -> bool:
    return isinstance(value, _NUMBERS) and not isinstance(value, bool)


def _is_multiple(value: Any, of: Any) -> bool:
    if isinstance(value, int) and isinstance(of, int):
        return value % of == 0
    try:
        times = float(value) / of
        return math.isclose(times, round(times), rel_tol=1e-12)
    except (OverflowError, ValueError):
        return False


def _alike(one: Any, other: Any) -> bool:
    """Whether two values can be equal at all, by their types."""
    return isinstance(one, type(other)) or isinstance(other, type(one))


def _key(value: Any) -> str:
    """Equal for equal JSON; true and 1 are not, and 1 and 1.0 are not either."""
    return json.dumps(value, sort_keys=True, default=repr)


def _member(path: str, name: str) -> str:
    return f"{path}.{name[:_SHOWN]}" if path else name[:_SHOWN]


def _at(path: str, what: str) -> str:
    return f"{path}: {what}" if path else what


def _short(value: Any) -> str:
    """A value in an error's message."""
    if isinstance(value, list | dict) and len(value) > 20:
        return f"a {'list' if isinstance(value, list) else 'dict'} of {len(value)}"
    if isinstance(value, str | bytes | bytearray):
        value = value[: _SHOWN + 1]
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
