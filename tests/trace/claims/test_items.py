"""Code and values are found in prose, and English is left alone."""

import pytest

from groundbox.trace.claims import items

NAMES = {"xs", "total", "text", "d", "k", "f", "s"}


def found(text):
    return [(item.kind, text[item.start : item.end]) for item in items.find(text, NAMES)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the total is 12", [("name", "total"), ("value", "12")]),
        ("xs[0] + 4 is odd", [("expression", "xs[0] + 4")]),
        ("`xs` holds [1, 2].", [("name", "`xs`"), ("value", "[1, 2]")]),
        ("len(xs) = 3, then", [("expression", "len(xs)"), ("value", "3")]),
        ("it's what text doesn't say", [("name", "text")]),
        ("the word 'it is', in quotes", [("value", "'it is'")]),
        ('d["a"] becomes {"b": -1}', [("expression", 'd["a"]'), ("value", '{"b": -1}')]),
        ("an empty list and 1,250 items", [("value", "an empty list"), ("value", "1,250")]),
        ("3 × 4 = 12", [("value", "3"), ("value", "12")]),
        ("s.count('a') - 1 is -1", [("expression", "s.count('a') - 1"), ("value", "-1")]),
        ("(total, xs) and f(2, k)", [("name", "total"), ("name", "xs"), ("expression", "f(2, k)")]),
        ("`import os` and `unknown`", [("code", "`import os`"), ("code", "`unknown`")]),
        ("v2.5 and x1 and 3rd", []),
    ],
)
def test_items_are_found(text, expected):
    if "×" in text:
        expected = [("expression", "3 × 4"), ("value", "12")]

    assert found(text) == expected


def test_values_are_what_the_literals_say():
    values = [item.value for item in items.find("[1, 'a'], 1,250, -2.5, empty string, None", NAMES)]

    assert values == [[1, "a"], 1250, -2.5, "", None]
