"""Tests and iterations are told as they came out."""

import ast
import json

AND_OR = """def f(a, b, c):
    if a and not b or c:
        return 1
    x = a or b or c
    return 2 if x else 3
f(1, 0, 0)
f(0, 0, 0)
"""
WHILE = """def f(n, m):
    while n and (m or n > 5):
        n -= 1
        if n == 3: continue
        m -= 1
    while True:
        for i in range(2):
            n += i
        if n > 2: break
    while n: n -= 1
f(4, 3)
"""
TARGETS = """class C: pass
for i, (j, k) in [(1, (2, 3))]:
    pass
for a, b in [(1, [2])]:
    pass
for C.x in "y":
    pass
for (
    c,
    d) in [(1, 2)]:
    pass
for e in "z": pass
try:
    for g, h in [(1, 2), 3]:
        pass
except TypeError:
    pass
"""
ORDER = """def t(x):
    return x
def f(a):
    if t(a) and t(0): pass
    try:
        raise KeyError
    except (ValueError, TypeError):
        pass
    except KeyError:
        pass
    match a:
        case 1 if a < 3 <= a:
            pass
    return None if a is None else a not in (1,) and a
f(1)
"""
NESTED = """def f(t):
    while True:
        while True:
            if not t.pop(): break
            if t.pop(): continue
            t.pop()
        if t.pop(): return
f([1, 0, 0, 0, 5, 1, 1, 1])
"""
FOLDED = """def g(n):
    for i in range(n):
        k = 0
        while k < 2:
            k += 1
        yield i
it = g(100)
a = [next(it) for _ in range(3)]
import itertools
b = list(itertools.islice(it, 50))
c = next(it)
def f(n):
    for i in range(n):
        for j in range(n):
            n += 0
f(40)
"""
RAISING = """class B:
    def __bool__(self):
        if self.x: raise ValueError
        return True
b = B()
b.x = 0
if b: b.x = 1
try:
    while b: pass
except ValueError:
    pass
"""
SOURCES = ("AND_OR", "WHILE", "TARGETS", "ORDER", "NESTED", "FOLDED", "RAISING")


def events(trace, source, *kinds):
    """Tests by the text of their operands, iterations and ends by their lines."""
    found = []
    lines = source.splitlines()
    for record in trace(source).records:
        if record["k"] == "test":
            first, start, _, stop = record["at"]
            found.append(f"{lines[first - 1][start:stop]}:{str(record['v'])[0]}")
        elif record["k"] == "iteration":
            items = ",".join(json.dumps(item) for item in record.get("items", ()))
            found.append(f"{record['n']}#{record['number']}" + (f"={items}" if "items" in record else ""))
        elif record["k"] == "ended":
            found.append(f"{record['n']}.{record['iterations']}")
    return " ".join(found)


def test_each_operand_that_was_evaluated_is_told_with_its_outcome(trace):
    assert events(trace, AND_OR) == "a:T b:F a:F c:F a:F b:F x:F"


def test_a_while_tells_which_operands_held_and_how_often_it_went_round(trace):
    assert events(trace, WHILE) == (
        "n:T m:T 2#1 n == 3:T n:T m:T 2#2 n == 3:F n:T m:T 2#3 n == 3:F n:T m:T 2#4 n == 3:F n:F 2.4 "
        "6#1 7#1=0 7#2=1 7.2 n > 2:F 6#2 7#1=0 7#2=1 7.2 n > 2:F 6#3 7#1=0 7#2=1 7.2 n > 2:T "
        "n:T 10#1 n:T 10#2 n:T 10#3 n:F 10.3"
    )


def test_items_are_told_of_names_alone(trace):
    assert events(trace, TARGETS) == ('2#1 2.1 4#1=1,{"ref": 2} 4.1 6#1 6.1 8#1=1,2 8.1 12#1 12.1 14#1=1,2 TypeError:T')


def test_a_test_stands_where_it_was_made(trace):
    assert trace(ORDER).told.partition("{2")[2] == (
        " f a=1 4: {3 t x=1 2: ->1} ?4.7-4.11=true {4 t x=0 2: ->0} ?4.16-4.20=false "
        "5: 6:raise KeyError() 7:?7.11-7.34=false 9:?9.11-9.19=true 10: 11: 12:?12.18-12.28=false "
        "14:?14.19-14.28=false ?14.34-14.47=false ->false} ->null} end"
    )


def test_loops_without_a_test_that_begin_at_one_instruction_are_told_apart(trace):
    assert events(trace, NESTED) == (
        "2#1 3#1 t.pop():T t.pop():T 3#2 t.pop():T t.pop():T 3#3 t.pop():F t.pop():F 2#2 3#1 t.pop():F t.pop():T"
    )


def test_numbers_go_on_after_what_was_folded(folding):
    records = folding(FOLDED, soft_events=60).records
    told = [
        (r["f"], r["n"], r.get("number") or r.get("iterations"), r["k"])
        for r in records
        if r["k"] in ("iteration", "ended", "fold")
    ]

    assert [each for each in told if each[:2] == (2, 2)][-2:] == [
        (2, 2, 48, "fold"),
        (2, 2, 54, "iteration"),
    ]  # one of 53 waits
    assert [each for each in told if each[0] != 2][-1] == (3, 13, 40, "ended")


def test_an_operand_whose_truth_raises_is_not_told(trace):
    assert events(trace, RAISING) == "self.x:F b:T self.x:T ValueError:T"


def test_every_place_is_one_of_the_source(trace):
    for source in (AND_OR, WHILE, ORDER, NESTED, RAISING):
        nodes = {
            (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.expr)
        }

        assert {tuple(r["at"]) for r in trace(source).records if r["k"] == "test"} <= nodes


def test_cores_tell_tests_and_iterations_alike(by_version):
    for source in map(globals().__getitem__, SOURCES):
        for tracers in by_version.values():
            assert len({tracer(source, soft_events=100_000).data for tracer in tracers}) == 1
