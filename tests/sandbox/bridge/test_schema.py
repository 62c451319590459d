"""JSON Schema: what is checked, and what is refused because it could not be."""

import json
import socket
from typing import Any

import pytest

from groundbox.sandbox.bridge import schema as schema_module
from groundbox.sandbox.bridge.schema import MOST_STEPS, Checker, Refused, TooMuch

FITS = [
    (True, "anything"),
    ({}, [1, None]),
    ({"type": "integer"}, 5),
    ({"type": ["integer", "null"]}, None),
    ({"type": "number"}, 1),
    ({"type": "string", "contentEncoding": "base64"}, b"x"),
    ({"enum": [1, "a", [1]]}, [1]),
    ({"const": {"a": 1, "b": 2}}, {"b": 2, "a": 1}),
    ({"type": "object", "properties": {"a": {"type": "string"}}}, {"b": 1}),
    ({"properties": {"a": {"type": "string"}}}, 5),
    ({"patternProperties": {"^x-": {"type": "integer"}}, "additionalProperties": False}, {"x-1": 1}),
    ({"items": {"type": "integer"}, "prefixItems": [{"type": "string"}]}, ["a", 1, 2]),
    ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, 1),
    ({"oneOf": [{"minimum": 3}, {"maximum": 1}]}, 5),
    ({"not": {"type": "string"}}, 1),
    ({"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"type": "integer"}}, 5),
    ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "integer"}}}, 5),
    ({"multipleOf": 0.1}, 0.3),
    ({"multipleOf": 3}, 10**400 * 3),
    ({"pattern": "^a+$"}, "aa"),
    ({"dependentRequired": {"a": ["b"]}}, {"b": 1}),
    ({"uniqueItems": True}, [1, True, "1", [1]]),
    ({"format": "email"}, "told, not checked"),
]
PROBLEMS = [
    (False, 1, "is not allowed"),
    ({"type": "integer"}, True, "True is not of type integer"),
    ({"type": "integer"}, 1.0, "1.0 is not of type integer"),
    ({"type": "number"}, False, "False is not of type number"),
    ({"type": "string"}, b"x", "b'x' is not of type string"),
    ({"type": ["integer", "null"]}, "x", "'x' is not of type integer or null"),
    ({"enum": [1, 2]}, True, "True is none of [1, 2]"),
    ({"const": 1}, "1", "'1' is not 1"),
    ({"properties": {"a": {"properties": {"b": {"type": "null"}}}}}, {"a": {"b": 1}}, "a.b: 1 is not of type null"),
    ({"required": ["a", "b"]}, {"a": 1}, "'b' is missing"),
    ({"properties": {"a": {}}, "additionalProperties": False}, {"c": 1}, "'c' is not known; there is a"),
    ({"additionalProperties": {"type": "integer"}}, {"c": "x"}, "c: 'x' is not of type integer"),
    ({"propertyNames": {"maxLength": 2}}, {"abc": 1}, "abc: 'abc' is longer than 2"),
    ({"items": {"type": "integer"}}, [1, "x"], "[1]: 'x' is not of type integer"),
    ({"prefixItems": [{"type": "integer"}]}, ["x"], "[0]: 'x' is not of type integer"),
    ({"anyOf": [{"type": "string"}, {"minimum": 9}]}, 1, "1 is not of type string or 1 is under the minimum 9"),
    ({"oneOf": [{"minimum": 1}, {"maximum": 9}]}, 5, "fits 2 of the choices, not one"),
    ({"allOf": [{"minimum": 1}, {"maximum": 9}]}, 10, "10 is over the maximum 9"),
    ({"not": {}}, 1, "1 is not allowed"),
    ({"if": {"type": "string"}, "then": {"minLength": 2}}, "a", "'a' is shorter than 2"),
    ({"multipleOf": 3}, 10, "10 is no multiple of 3"),
    ({"multipleOf": 0.5}, float("inf"), "inf is no multiple of 0.5"),
    ({"pattern": "^a+$"}, "b", "'b' does not match ^a+$"),
    ({"minimum": 1}, float("nan"), "nan is under the minimum 1"),
    ({"exclusiveMaximum": 1}, 1, "1 is not under 1"),
    ({"minItems": 2}, [1], "[1] has fewer items than 2"),
    ({"maxProperties": 0}, {"a": 1}, "{'a': 1} has more members than 0"),
    ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "'b' is missing beside 'a'"),
    ({"uniqueItems": True}, [{"a": 1, "b": 2}, {"b": 2, "a": 1}], "it holds an item twice"),
]


@pytest.mark.parametrize(("schema", "value"), FITS, ids=lambda each: json.dumps(each, default=repr)[:60])
def test_what_fits_is_taken(schema, value):
    assert Checker(schema).problem(value) is None


@pytest.mark.parametrize(("schema", "value", "problem"), PROBLEMS, ids=lambda each: json.dumps(each, default=repr)[:60])
def test_what_does_not_fit_is_told_with_its_place(schema, value, problem):
    assert Checker(schema).problem(value) == problem


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"unevaluatedProperties": False}, "this keyword is not checked here"),
        ({"properties": {"a": {"contains": {}}}}, "#/properties/a/contains: this keyword is not checked here"),
        ({"minLenght": 5}, "#/minLenght: this keyword is not checked here"),
        ({"type": "int"}, "#/type: int is no type"),
        ({"pattern": "("}, "the pattern '(' is none"),
        ({"$ref": "#/$defs/no"}, "names nothing"),
        ({"$ref": "#"}, "leads back to itself"),
        ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, "leads back to itself"),
        ({"items": 5}, "#/items: 5 is no schema"),
    ],
)
def test_a_schema_that_cannot_be_checked_is_refused(schema, problem):
    with pytest.raises(Refused) as refused:
        Checker(schema)

    assert problem in str(refused.value)


@pytest.mark.parametrize("reference", ["http://127.0.0.1:{}/schema.json", "file:///etc/passwd", "other.json#/a"])
def test_a_reference_to_elsewhere_is_refused_and_never_fetched(reference):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        with pytest.raises(Refused, match="lies elsewhere, and nothing is fetched"):
            Checker({"$ref": reference.format(server.getsockname()[1])})
        with pytest.raises(BlockingIOError):
            server.accept()


def test_a_value_that_would_take_too_long_is_given_up():
    """Each level doubles the work of a schema whose choices all look at everything below."""
    node = {"anyOf": [{"type": "array", "items": {"$ref": "#"}, "minItems": n} for n in (2, 3)]}
    value = []
    for _ in range(25):
        value = [value]

    checker = Checker(node)

    with pytest.raises(TooMuch):
        checker.problem([[[value, 1], 1], 1])
    assert Checker({"items": True}).problem([0] * (MOST_STEPS - 2)) is None
    with pytest.raises(TooMuch):
        Checker({"items": True}).problem([0] * MOST_STEPS)


def test_values_that_are_checked_at_the_same_time_have_their_own_steps():
    class Meanwhile(dict):
        def __contains__(self, name):
            assert checker.problem([]) is None
            return super().__contains__(name)

    checker = Checker({"items": {"properties": {"a": True}}})

    with pytest.raises(TooMuch):
        checker.problem([Meanwhile()] * MOST_STEPS)


@pytest.mark.parametrize(
    ("schema", "value", "most"),
    [
        ({"enum": ["a", 1, None]}, ["x"], 0),
        ({"enum": [[str(n)] for n in range(50)]}, ["x"], 51),
        ({"const": "a"}, ["x"], 0),
    ],
)
def test_a_value_is_written_down_once_to_be_compared(schema, value, most, monkeypatch):
    written: Any = []
    key = schema_module._key
    monkeypatch.setattr(schema_module, "_key", lambda value: written.append(value) or key(value))

    assert Checker(schema).problem(value) is not None
    assert len(written) <= most


@pytest.mark.parametrize("keyword", [{"enum": [[1]]}, {"const": [1]}, {"uniqueItems": True}])
def test_what_comparing_takes_is_counted(keyword):
    value = [[n] * 1000 for n in range(100)]
    schema = {"allOf": [keyword if "uniqueItems" in keyword else {"not": keyword}] * 100}

    assert Checker({"allOf": schema["allOf"][:1]}).problem(value) is None
    with pytest.raises(TooMuch):
        Checker(schema).problem(value)


def test_a_schema_that_goes_around_in_circles_ends():
    with pytest.raises(TooMuch):
        Checker({"allOf": [{"$ref": "#"}]}).problem(1)
