"""Runs that narrations told wrongly or in part; each claim of them is proven."""

import pytest

import groundbox as gb
from groundbox.dataset.narration import prove, tell
from groundbox.sandbox import environments

RAISED_IN_A_GENERATOR_EXPRESSION = """
def pick(xs):
    return min(1 / x for x in xs)
try:
    print(pick([2, 0, 4]))
except ZeroDivisionError as e:
    print('error', e)
"""
RAISED_IN_A_KEY = """
def order(xs):
    return sorted(xs, key=lambda v: 1 / v)
try:
    print(order([2, 0, 4]))
except ZeroDivisionError as e:
    print('error', e)
"""
RAISED_BY_A_CONVERSION = """
def total(texts):
    return sum(int(text) for text in texts)
try:
    print(total(['1', 'two']))
except ValueError as e:
    print('error')
"""
RAISED_BY_A_KEY = """
def names(rows):
    return ', '.join(row['a'] for row in rows)
try:
    print(names([{'a': 'x'}, {'b': 'y'}]))
except KeyError as e:
    print('error')
"""
RAISED_IN_A_CALL = """
def inverse(x):
    return 1 / x
def pick(xs):
    return min(inverse(x) for x in xs)
try:
    print(pick([2, 0, 4]))
except ZeroDivisionError as e:
    print('error')
"""
CHANGED_TWICE = """
d = {'a': 1, 'b': 2}
d['b'], d['c'] = d.pop('a'), 9
print(d)
"""
SET_CHANGED_TWICE = """
s = {1, 2}
t = [s.discard(1), s.add(5)]
print(s)
"""
GIVEN_BY_YIELD_FROM = """
class Inner:
    def send(self, v):
        return None
    def __iter__(self):
        return self
    def __next__(self):
        return self.send(None)
    def throw(self, *exc):
        raise StopIteration('good')
def main():
    got = yield from Inner()
    return got
def run(coro):
    coro.send(None)
    try:
        coro.throw(ValueError)
    except StopIteration as e:
        print(e.value)
run(main())
"""
SENT = """
def echo():
    x = yield 'ready'
    print(x)
g = echo()
next(g)
try:
    g.send('hello')
except StopIteration:
    print('done')
"""


def _told(source, seed=0):
    ran = gb.run(source, mode="script", trace=True)
    told = tell(ran.trace, style="prose", seed=seed, max_chars=9000)
    return told.text, prove(told, ran.trace)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("source", "said", "unsaid"),
    [
        (RAISED_IN_A_GENERATOR_EXPRESSION, ["ZeroDivisionError('division by zero')", "`x` = 0"], []),
        (RAISED_IN_A_KEY, ["ZeroDivisionError('division by zero')", "`v` = 0"], []),
        (RAISED_BY_A_CONVERSION, ["ValueError(", "`text` = 'two'"], []),
        (RAISED_BY_A_KEY, ["KeyError('a')", "`row` = {'b': 'y'}"], []),
        (RAISED_IN_A_CALL, ["ZeroDivisionError('division by zero')"], ["raised with", "With `x` = 0"]),
        (
            CHANGED_TWICE,
            ["the key 'a'", "from 2 to 1", "9, so `d` is now {'b': 1, 'c': 9}."],
            ["which is now", "and is now"],
        ),
        (SET_CHANGED_TWICE, ["1", "5"], ["1 is removed from `s`, which is now {2, 5}"]),
        (GIVEN_BY_YIELD_FROM, ["`got` ", "'good'", "returns 'good'"], ["nothing more", "exhausted"]),
        (SENT, ["`x` ", "'hello'"], []),
    ],
)
def test_a_run_is_told_as_it_was_and_proven(source, said, unsaid, seed):
    if source is GIVEN_BY_YIELD_FROM and environments.get().python_version < (3, 12):
        pytest.skip("CPython 3.11 tells a tracer nothing of a generator that goes on after a `throw` it passed on")
    text, proof = _told(source, seed)

    assert [each for each in said if each not in text] == [], text
    assert [each for each in unsaid if each in text] == [], text
    assert proof.faithful, proof.failed


def test_an_exception_of_a_call_is_told_once():
    text, _ = _told(RAISED_IN_A_CALL)

    assert text.count("ZeroDivisionError('division by zero')") == 1
