"""Loops and bodies that run without records once there are many. The plain core folds nothing."""

import pytest


@pytest.fixture
def trace(folding):
    return folding


def test_a_loop_that_showed_two_iterations_is_folded(trace):
    traced = trace("t = 0\nxs = []\nfor i in range(100):\n    t += i\n    xs.append(i)\nprint(t)\n", soft_events=10)

    assert traced.short == (
        "{1 <module> 1:t=0 2:#1=list[] xs=#1 3:i=0 4: 5:#1.splice start=0 removed=0[0] 3:i=1 4:t=1 "
        "5:#1.splice start=1 removed=0[1] fold loop 3 iterations=98 steps=295 "
        f'#1.splice start=2 removed=0{list(range(2, 100))} t=4950 i=99 6:out1 "4950\\n" ->null}} end'
    )


def test_a_body_that_was_recorded_twice_is_folded(trace):
    traced = trace(
        "n = 0\ndef g(k):\n    global n\n    n += k\ndef f(k):\n    g(k)\n    return k\nf(1)\nf(2)\nf(3)\n",
        soft_events=8,
    )

    assert traced.short == (
        '{1 <module> 1:n=0 2:g={function: "g"} 5:f={function: "f"} 8: {2 f k=1 6: {3 g k=1 4:n@global=1 ->null} '
        "7: ->1} 9: {4 f k=2 6: {5 g k=2 4:n@global=3 ->null} 7: ->2} 10: {6 f k=3 fold call 5 steps=3 calls=1 "
        "n@global=6 ->3} ->null} end"
    )


def test_a_break_counts_its_iteration(trace):
    traced = trace("for i in range(9):\n    if i == 5:\n        break\n", soft_events=1)

    assert traced.short == "{1 <module> 1:i=0 2: 1:i=1 2:fold loop 1 iterations=4 steps=9 i=5 ->null} end"


def test_an_exception_that_leaves_a_folded_loop_is_told(trace):
    traced = trace(
        "def f(x):\n    for i in range(9):\n        if i == x:\n            raise ValueError(i)\n"
        "try:\n    f(4)\nexcept ValueError as e:\n    r = 1\n",
        soft_events=4,
    )

    assert traced.short == (
        '{1 <module> 1:f={function: "f"} 5: 6: {2 f x=4 2:i=0 3: 2:i=1 3:fold loop 2 iterations=3 steps=7 i=4 '
        'raise ValueError(4) !} raise ValueError(4) from 2 7:e={opaque: "ValueError"} 8:del e r=1 ->null} end'
    )


def test_a_loop_of_a_generator_that_library_code_goes_through_is_folded(trace):
    traced = trace("def g():\n    for i in range(9):\n        yield i\nxs = list(g())\n", soft_events=1)

    assert traced.short == (
        '{1 <module> 1:g={function: "g"} 4: {2 g 2:i=0 3: ~0} {2 2:i=1 3: ~1} {2 fold loop 2 iterations=7 steps=15 '
        "i=8 ->null} #1=list[0, 1, 2, 3, 4, 5, 6, 7, 8] xs=#1 ->null} end"
    )


def test_a_generator_that_waits_when_its_fold_is_over_gives_what_it_gave_last(trace):
    traced = trace(
        "from itertools import islice\ndef g():\n    n = 0\n    while n < 50:\n        n += 1\n        got = yield n\n"
        "it = g()\na = sum(islice(it, 6))\nb = it.send('s')\n",
        soft_events=1,
    )

    assert traced.short == (
        '{1 <module> 1:islice={class: "islice"} 2:g={function: "g"} 7:it={opaque: "generator"} '
        "8: {2 g 3:n=0 4: 5:n=1 6: ~1} {2 got=null 4: 5:n=2 6: ~2} {2 fold loop 4 iterations=3 steps=12 n=6 ~6} a=21 "
        '9: {2 got="s" 4: 5:n=7 6: ~7} b=7 ->null} end'
    )


def test_a_generator_expression_is_folded_on_one_line_and_on_several(trace):
    source = "a = sum(x * 2 for x in range(9))\nb = sum(\n    x\n    for x in range(9)\n    if x > 2\n)\n"

    folds = [r for r in trace(source, soft_events=1).records if r["k"] == "fold"]

    assert [(fold["n"], fold["iterations"]) for fold in folds] == [(1, 7), (4, 4)]


def test_items_of_several_fors_on_one_line_are_counted_together(trace):
    records = trace("a = sum(x * y for x in range(3) for y in range(4))\n", soft_events=1).records

    (fold,) = [r for r in records if r["k"] == "fold"]
    assert fold["iterations"] == 3 + 12 - 2
    assert [(r["name"], r["v"]) for r in records if r["k"] == "set"][-3:] == [("x", 2), ("y", 3), ("a", 18)]


def test_an_exception_ends_a_folded_generator_and_is_told(trace):
    traced = trace(
        "def g():\n    for i in range(9):\n        if i == 5:\n            raise KeyError(i)\n        yield i\n"
        "try:\n    list(g())\nexcept KeyError:\n    pass\n",
        soft_events=1,
    )

    assert traced.short.endswith(
        "{2 fold loop 2 iterations=4 steps=12 i=5 raise KeyError(5) !} raise KeyError(5) from 2 8: 9: ->null} end"
    )


def test_a_folded_generator_that_is_closed_is_told_as_far_as_the_interpreter_tells_it(trace):
    traced = trace("a = any(x == 5 for x in range(9))\n", soft_events=1)

    closed = (
        "iterations=3 steps=4 x=5 ~true}"
        if trace.version >= (3, 13)
        else ("iterations=4 steps=4 x=5 raise GeneratorExit() !}")
    )
    assert traced.short == (
        "{1 <module> 1: {2 <genexpr> 1:x=0 ~false} {2 1:x=1 ~false} {2 fold loop 1 " + closed + " a=true ->null} end"
    )


def test_a_generator_whose_end_matters_is_recorded_on_and_ends_when_it_does_without_a_tracer(trace):
    source = (
        "def g():\n    try:\n        for i in range(9):\n            yield i\n    finally:\n        print('closed')\n"
        "print(any(map((5).__eq__, g())), 'is told after it')\n"
    )

    traced = trace(source, soft_events=1)

    assert traced.stdout == "closed\nTrue is told after it\n"
    assert traced[1:] == trace.plain(source)[1:]
    assert [r for r in traced.records if r["k"] == "fold"] == []


def test_an_exception_thrown_into_a_generator_after_its_fold_is_told(trace):
    traced = trace(
        "from itertools import islice\ndef g():\n    for i in range(19):\n        try:\n            yield i\n"
        "        except ValueError:\n            yield -i\nit = g()\na = sum(islice(it, 5))\nb = it.throw(ValueError)\n",
        soft_events=1,
    )

    assert traced.short.endswith(
        "fold loop 3 iterations=2 steps=9 i=4 ~4} a=10 10: {2 raise ValueError() 6: 7: ~-4} b=-4 ->null} end"
    )


def test_a_generator_whose_values_cannot_be_held_is_folded_no_further(trace):
    records = trace(
        "def h():\n    yield 1\ndef g():\n    for i in range(9):\n        yield h\nxs = list(map(callable, g()))\n",
        soft_events=1,
    ).records

    assert [r["iterations"] for r in records if r["k"] == "fold"] == [0]
    assert len([r for r in records if r["k"] == "yield"]) == 9


def test_generators_that_take_turns_are_recorded_on(trace):
    records = trace(
        "def g():\n    for i in range(9):\n        yield i\nxs = list(zip(g(), g()))\nys = list(map(lambda x: x, g()))\n",
        soft_events=1,
    ).records

    folds = [(r["n"], r["what"]) for r in records if r["k"] == "fold"]
    assert folds == [(5, "call")] * 7
    assert len([r for r in records if r["k"] == "yield"]) == 3 * 9


def test_generators_of_a_program_that_waits_for_the_end_of_objects_are_recorded_on(trace):
    records = trace(
        "import weakref\ndef g():\n    for i in range(9):\n        yield [i]\nxs = list(g())\n", soft_events=1
    ).records

    assert [r for r in records if r["k"] == "fold"] == []
    assert len([r for r in records if r["k"] == "yield"]) == 9


def test_what_the_driving_line_stores_is_its_own(trace):
    traced = trace(
        "n = 0\ndef g():\n    global n\n    for i in range(9):\n        n += 1\n        yield i\n"
        "from itertools import islice\nit = g()\nn = sum(islice(it, 6))\n",
        soft_events=1,
    )

    assert traced.short.endswith("fold loop 4 iterations=3 steps=12 i=5 ~5} n=15 ->null} end")


def test_variables_of_outer_functions_are_told_after_a_fold(trace):
    traced = trace(
        "def f():\n    n = 0\n    def add():\n        nonlocal n\n        n += 1\n"
        "    for i in range(9): add()\n    return n\nf()\n",
        soft_events=1,
    )

    assert traced.short == (
        '{1 <module> 1:f={function: "f"} 8: {2 f 2:n=0 3:add={function: "f.<locals>.add"} '
        "6: {3 f.<locals>.add 5:n@nonlocal=1 ->null} i=0 6: {4 f.<locals>.add 5:n@nonlocal=2 ->null} i=1 "
        "fold loop 6 iterations=7 steps=15 i=8 n=9 7: ->9} ->null} end"
    )
