"""Loops and bodies that run without records once there are many."""


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


def test_loops_with_a_yield_are_recorded_on(trace):
    records = trace("def g():\n    for i in range(9):\n        yield i\nxs = list(g())\n", soft_events=1).records

    assert [r for r in records if r["k"] == "fold"] == []
    assert len([r for r in records if r["k"] == "yield"]) == 9


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


def test_recording_ends_when_there_are_too_many_records(trace):
    traced = trace("n = 0\nwhile n < 50:\n    n += 1\n", soft_events=10**6, max_events=9)

    assert traced.short == (
        "{1 <module> 1:n=0 2: 3:n=1 2: 3:n=2 lost the trace reached max_events=9"
    ) or traced.short == ("{1 <module> 1:n=0 2: 3:n=1 2: 3:lost the trace reached max_events=9")


def test_recording_ends_when_the_buffer_is_full(trace):
    traced = trace("a = 'x' * 300\nb = [a] * 5\nc = [a] * 500\n", bytes=2600)

    assert [r["k"] for r in traced.records][-2:] == ["line", "lost"]
    assert traced.records[-1] == {"k": "lost", "why": "the trace reached max_bytes=2600"}
    assert len(traced.data) <= 2600
