"""Calls of lambdas are told, also within an argument, a comprehension or a sort, and many of them as a count."""

from __future__ import annotations

import re

import pytest

from groundbox.trace.claims import Status, prove
from groundbox.trace.narrate.document import document
from groundbox.trace.narrate.narrator import narrate

BOUND_LATE = """\
fs = []
for i in range(2):
    fs.append(lambda x: x + i)
print(fs[0](10))
"""
IN_A_COMPREHENSION = """\
inc = lambda x: x + 1
print([inc(n) for n in (5, 7)])
"""
IN_A_GENERATOR_EXPRESSION = """\
half = lambda x: x // 2
print(sum(half(n) for n in (5, 9)))
"""
IN_LIBRARY_CALLS = """\
from functools import reduce
def main(rows):
    rows.sort(key=lambda row: row[1])
    product = reduce(lambda a, b: a * b, [row[1] for row in rows])
    return list(map(lambda row: row[0].upper(), rows)), product
print(main([('a', 3), ('b', 2)]))
"""
SAME_EACH_TIME = "same = lambda: 7\nprint([same() for _ in range(3)])\n"
CHANGES = """\
out = []
list(map(lambda x: out.append(x * 2), [4, 5]))
print(out)
"""
CALLS = """\
def cost(n):
    return n * 10
print(sorted([3, 1], key=lambda n: cost(n)))
"""
COMPOSED = """\
compose = lambda f, g: lambda x: f(g(x))
both = compose(lambda a: a + 1, lambda b: b * 2)
print(both(3))
"""
CHANGES_IN_A_GENERATOR_EXPRESSION = """\
out = []
print(any(out.append(n) for n in (4, 5)))
"""
ONE_LINE = "pair = (lambda x: x + 1, lambda a, b: a * b)\nprint(pair[0](1), pair[1](4, 5))\n"
NOT_TOLD_APART = "pair = (lambda x: x + 1, lambda x: x * 2)\nprint(pair[0](1), [pair[1](n) for n in range(2, 9)])\n"
MANY = """\
def main(n):
    return sorted(range(n), key=lambda v: v * 7 % 5)
print(len(main(1000)))
"""
MANY_THAT_COMPOSE = """\
key = lambda v: -v
def main(n):
    return sorted(range(n), key=lambda v: key(v))
print(len(main(300)))
"""
IN_A_LOOP = """\
def main(rows):
    for row in rows:
        row.sort(key=lambda v: -v)
    return rows
print(main([[1, 2, 3, 4] for _ in range(6)]))
"""
CLOSED_OVER_TWICE = """\
def adder(n):
    return lambda x: x + n
print(adder(5)(10), adder(2)(10))
"""


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("source", "said"),
    [
        (BOUND_LATE, ["`lambda x: x + i` is called with `x` = 10 while `i` = 1", "10 + 1 = 11"]),
        (IN_A_COMPREHENSION, ["5 + 1 = 6 for `x` = 5", "7 + 1 = 8 for `x` = 7"]),
        (IN_A_GENERATOR_EXPRESSION, ["5 // 2 = 2 for `x` = 5", "9 // 2 = 4 for `x` = 9"]),
        (IN_LIBRARY_CALLS, ["3 for `row` = ('a', 3)", "with `a` = 2 and `b` = 3", "'A' for `row` = ('a', 3)"]),
        (SAME_EACH_TIME, [" 7, 3 times."]),
        (CHANGES, ["with `x` = 4", "is now [8]", "with `x` = 5", "is now [8, 10]"]),
        (CALLS, ["with `n` = 3", "30 for `n` = 3", "10 for `n` = 1"]),
        (COMPOSED, ["3 * 2 = 6", "6 + 1 = 7", "7 for `x` = 3"]),
        (CHANGES_IN_A_GENERATOR_EXPRESSION, ["[4]", "[4, 5]"]),
        (ONE_LINE, ["1 + 1 = 2", "4 * 5 = 20"]),
        (NOT_TOLD_APART, ["Calls of lambdas returned 2 for `x` = 1, 4 for `x` = 2, and 6 for `x` = 3", "ore calls"]),
        (CLOSED_OVER_TWICE, ["15", "12"]),
    ],
)
def test_calls_of_lambdas_are_told_and_proven(recorded, unproven, source, said, seed):
    trace = recorded(source)
    told = [narrate(trace, detail=detail, seed=seed) for detail in ("normal", "full", "parts", "brief")]

    assert [each for each in said if each not in told[0].text] == [], told[0].text
    assert [wrong for each in told for wrong in unproven(each, trace)] == []


@pytest.mark.parametrize("detail", ["normal", "full", "parts", "brief"])
@pytest.mark.parametrize(("source", "count"), [(MANY, 1000), (MANY_THAT_COMPOSE, 300)])
def test_many_calls_in_a_line_are_a_count(recorded, unproven, source, count, detail):
    trace = recorded(source)
    told = narrate(trace, detail=detail)

    numbers = [int(each) for each in re.findall(r"is called (\d+) (?:more )?times", told.text)]
    assert [count - 10 <= number <= count for number in numbers] == [True] * len(numbers) != []
    assert len(told.sentences) < 60
    assert unproven(told, trace) == []


def test_what_a_lambda_does_again_and_again_is_told_in_fewer_words(recorded, unproven):
    trace = recorded(IN_A_LOOP)
    told = narrate(trace)

    assert told.whole
    assert told.text.count("is called 4 times") == 6
    assert told.text.count(" for `v` = ") == 2 * 3 + 4 * 2
    assert unproven(told, trace) == []


def test_a_name_that_a_line_with_the_lambda_reads_is_not_told_with_it(recorded):
    within = "k = 3\nprint(sorted([2, 1], key=lambda v: v * k))\n"
    before = "k = 3\nkey = lambda v: v * k\nprint(sorted([2, 1], key=key))\n"

    assert "while `k` = 3" not in narrate(recorded(within)).text
    assert narrate(recorded(before)).text.count("while `k` = 3") == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1000 times", "999 times"),
        ("1000 times", "7 times"),
        ("0 * 7 % 5 = 0", "0 * 7 % 5 = 7"),
        ("`lambda v: v * 7 % 5`", "`lambda v: v * 7 % 6`"),
        ("`v` = 1", "`v` = 2"),
    ],
)
def test_a_false_word_about_a_lambda_is_noticed(recorded, old, new):
    trace = recorded(MANY)
    told = narrate(trace)
    claims = document(told, trace)
    assert old in told.text
    for sentence in claims["sentences"]:
        sentence["text"] = sentence["text"].replace(old, new)
        for claim in sentence["claims"]:
            claim["quote"] = claim.get("quote", sentence["text"]).replace(old, new)

    assert not prove(told.text.replace(old, new), trace, claims=claims, strict=True).passes


@pytest.mark.parametrize(
    ("kind", "subject", "value", "status"),
    [
        ("call", "lambda x: x + 1", "", Status.SUPPORTED),
        ("call", "lambda x: x + 2", "", Status.REFUTED),
        ("return", "lambda x: x + 1", "6", Status.SUPPORTED),
        ("return", "lambda x: x + 2", "6", Status.REFUTED),
        ("count", "calls since 0: lambda x: x + 1", "1", Status.SUPPORTED),
        ("count", "calls since 0: lambda x: x + 1", "2", Status.REFUTED),
        ("count", "calls since 0: print", "1", Status.NOT_FOUND),
    ],
)
def test_claims_about_a_lambda_are_held_against_its_code(recorded, kind, subject, value, status):
    trace = recorded(IN_A_COMPREHENSION)
    wanted = "Return" if kind == "return" else "Call"
    step = next(at for at, each in enumerate(trace.records) if type(each).__name__ == wanted and each.f == 2)
    claim = {"kind": kind, "subject": subject, "value": value, "step": step}
    claims = {"schema": "groundbox.claims/1", "sentences": [{"text": "It is so.", "claims": [claim]}]}

    (verdict,) = prove("It is so.", trace, claims=claims).verdicts

    assert verdict.status is status, verdict.message
