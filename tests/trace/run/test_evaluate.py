"""Expressions over recorded values: what Python would say, or Unknown."""

import ast
from collections import Counter, deque

import pytest

from groundbox.testing.traces import written
from groundbox.trace.run.python_values import recorded
from groundbox.values.evaluate import evaluate
from groundbox.values.unknown import Unknown

NAMES = {
    "n": 7,
    "x": 2.5,
    "s": "Hello",
    "xs": [3, 1, 2],
    "d": {"a": 1, "b": [1, 2]},
    "t": (1, "b"),
    "st": {1, 2, 3},
    "q": deque([1, 2]),
    "c": Counter("aab"),
    "b": True,
    "none": None,
}


def value(text, names=NAMES):
    return evaluate(ast.parse(text, mode="eval").body, names.__getitem__)


@pytest.mark.parametrize(
    "text",
    """
    n + 1 | n // 2 * 3 - n % 4 | -n ** 2 | ~n & 6 | n << 2 | 7 / 2 | x * 2
    1 < n <= 7 != 8 | n > 10 or xs | b and none | not xs | n if n > 3 else s
    xs[0] + xs[-1] | xs[1:] | s[::-1] | d['b'][1] | t[1] | s[1:3].upper()
    len(xs) + len(d) | min(xs) | max(1, 2, 3) | sum(xs) | sorted(xs, reverse=True) | abs(-n) | round(2.567, 1)
    all(v > 0 for v in xs) | [v * v for v in xs if v > 1] | {k: 1 for k in d} | {v for v in xs}
    [(a, b) for a, b in d.items()]
    'a' in d | 3 not in xs | 'ell' in s | none is None | none is not None | b is True
    s.lower().count('l') | ','.join(sorted(d)) | s.split('l') | s.replace('l', 'L')
    s.startswith(('H', 'J')) | s.zfill(8)
    list(range(3)) | list(zip(xs, s)) | list(enumerate(xs)) | tuple(reversed(xs))
    divmod(n, 4) | ord('a') + 1 | chr(98)
    f'{n:>4}|{x!r}|{s}' | str(n) + str(xs) | '%d %s' % (n, s) | int('12') | float('1.5') | bool([]) | [*xs, *t]
    st | {1} | st - {1} | len(st) | sorted(st) | sum(st) | 2 in st | st == {1, 2, 3} | st.issubset({1, 2, 3, 4})
    d.get('z', 5) | list(d.keys()) | q[0] | c['a'] | c['z'] | n.bit_length()
    (1, 2) < (1, 3) | xs.index(2) | xs == [3, 1, 2]
    """.strip()
    .replace("\n    ", " | ")
    .split(" | "),
)
def test_an_expression_has_the_value_that_python_gives_it(text):
    found = value(text)

    expected = eval(text, dict(NAMES))
    assert (type(found), found) == (type(expected), expected)


@pytest.mark.parametrize(
    "text",
    [
        "unbound",
        "1 / 0",
        "xs[9]",
        "10 ** 10 ** 10",
        "1 << 10 ** 9",
        "'a' * 10 ** 9",
        "[0] * 10 ** 9",
        "'%01000000d' % 1",
        "f'{n:1000000}'",
        "'a'.ljust(10 ** 9)",
        "list(range(10 ** 9))",
        "sum(v for v in range(90000) for w in range(90000))",
        "list(st)",
        "[v for v in st]",
        "str(st)",
        "xs is xs",
        "xs.append(1)",
        "xs.sort()",
        "d.pop('a')",
        "print(1)",
        "open('x')",
        "__import__('os')",
        "(lambda: 1)()",
        "s.__class__",
        "s.format(1)",
        "(n := 2)",
        "max(xs, key=len)",
        "[*st]",
        "'x'.join(st)",
        "len(n)",
        "...",
    ],
)
def test_what_is_not_certain_is_unknown(text):
    with pytest.raises(Unknown):
        value(text)


def test_a_name_that_the_program_binds_is_no_builtin():
    def lookup(name):
        if name == "len":
            raise Unknown("a function")
        return NAMES[name]

    with pytest.raises(Unknown):
        evaluate(ast.parse("len(xs)", mode="eval").body, lookup)


NODE = {"k": "object", "id": 1, "type": "object", "class": "Node", "attrs": {"value": 3, "next": {"ref": 2}}}
LIST = {"k": "object", "id": 2, "type": "list", "items": [1] * 150, "elided": 10, "tail": [5]}


def state_and_names():
    state = written(
        LIST,
        NODE,
        {"k": "set", "f": 1, "name": "node", "v": {"ref": 1}},
        {"k": "set", "f": 1, "name": "same", "v": {"ref": 1}},
    ).state_at(4)
    return recorded(state, 1, {"node", "same", "other"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("node is None", False),
        ("node is same", True),
        ("node.value + 1", 4),
        ("len(node.next)", 161),
        ("node.next[0]", 1),
        ("node.next[-1]", 5),
        ("bool(node.next)", True),
        ("node.value > 2 and node.next is not None", True),
    ],
)
def test_what_is_recorded_of_an_object_can_be_asked(text, expected):
    assert evaluate(ast.parse(text, mode="eval").body, state_and_names()) == expected


@pytest.mark.parametrize(
    "text",
    [
        "node == same",
        "bool(node)",
        "node < 3",
        "node.missing",
        "node.next[155]",
        "node in [same, 1] and node in [1]",
        "other",
        "sum(node.next)",
    ],
)
def test_what_the_programs_own_classes_would_answer_is_unknown(text):
    with pytest.raises(Unknown):
        bool(evaluate(ast.parse(text, mode="eval").body, state_and_names()))
