"""Calls, generators, exceptions, threads and output, in the short notation of conftest.py."""

import pytest

PROGRAMS = {
    "arguments are told in the order of the parameters": (
        "def add(a, b=2, *rest, c, **more):\n    total = a + b\n    return total\nadd(1, c=3)\n"
        "add(1, 2, 3, c=4, d=5)\n",
        '1:add={function: "add"} 4:#1=dict[] {2 add a=1 b=2 c=3 rest={tuple: []} more=#1 2:total=3 3: ->3} '
        '5:#2=dict[["d", 5]] {3 add a=1 b=2 c=4 rest={tuple: [3]} more=#2 2:total=3 3: ->3}',
    ),
    "an outer function's variable is told by the frame that rebinds it, and not again": (
        "def outer():\n    m = 0\n    def inner():\n        nonlocal m\n        m += 1\n"
        "    inner()\n    return inner\nf = outer()\nf()\n",
        '1:outer={function: "outer"} 8: {2 outer 2:m=0 3:inner={function: "outer.<locals>.inner"} '
        "6: {3 outer.<locals>.inner 5:m@nonlocal=1 ->null} 7: ->{function: \"outer.<locals>.inner\"}} "
        'f={function: "outer.<locals>.inner"} 9: {4 outer.<locals>.inner 5:m@nonlocal=2 ->null}',
    ),
    "a global that a function rebinds": (
        "n = 0\ndef f():\n    global n, m\n    n += 1\n    m = [n]\nf()\nm.append(1)\nn = n\n",
        '1:n=0 2:f={function: "f"} 6: {2 f 4:n@global=1 5:#1=list[1] m@global=#1 ->null} '
        "7:#1.splice start=1 removed=0[1] 8:",
    ),
    "a generator keeps its frame": (
        "def g(n):\n    for i in range(n):\n        got = yield i\nit = g(2)\nnext(it)\n"
        "it.send('s')\nfor v in it: pass\n"
        "def d():\n    return (yield from g(1))\nlist(d())\nt = sum(k for k in [1])\n",
        '1:g={function: "g"} 4:it={opaque: "generator"} 5: {2 g n=2 2:i=0 3: ~0} 6: {2 got="s" 2:i=1 3: ~1} '
        '7: {2 got=null 2: ->null} 8:d={function: "d"} 10: {3 d 9: {4 g n=1 2:i=0 3: ~0} ~0} {3 {4 got=null 2: ->null} '
        "->null} 11: {5 <genexpr> 11:k=1 ~1} {5 11: ->null} t=1",
    ),
    "an exception is told in each frame that it comes through": (
        "def f(x):\n    raise KeyError('k', [x])\ntry:\n    f(1)\nexcept KeyError:\n    pass\n"
        "try:\n    sorted([1, 2], key=f)\nexcept KeyError: a = 1\n",
        '1:f={function: "f"} 3: 4: {2 f x=1 2:#1=list[1] raise KeyError("k", #1) !} raise KeyError("k", #1) from 2 '
        '5: 6: 7: 8: {3 f x=1 2:#2=list[1] raise KeyError("k", #2) !} raise KeyError("k", #2) from 3 9:a=1',
    ),
    "an exception that is thrown into a generator": (
        "def g():\n    try:\n        yield 1\n    except ValueError:\n        yield 2\n"
        "it = g()\nnext(it)\nit.throw(ValueError('v'))\n"
        "try:\n    it.throw(KeyError)\nexcept KeyError:\n    pass\n",
        '1:g={function: "g"} 6:it={opaque: "generator"} 7: {2 g 2: 3: ~1} 8: {2 raise ValueError("v") 4: 5: ~2} 9: '
        "10: {2 raise KeyError() !} raise KeyError() from 2 11: 12:",
    ),
    "the end of a loop over an iterator of the program is no exception": (
        "class I:\n    def __iter__(self): return self\n"
        "    def __next__(self): raise StopIteration\nfor x in I(): pass\n",
        '1: {2 I 1: 2:__iter__={function: "I.__iter__"} 3:__next__={function: "I.__next__"} ->null} #1=I{} I=#1 '
        "4:#2=I{} {3 I.__iter__ self=#2 2: ->#2} {4 I.__next__ self=#2 3:raise StopIteration() !}",
    ),
    "library code is part of the line, user code that it calls is not": (
        "import functools\nf = functools.lru_cache(lambda n: n)\nf(1)\nf(1)\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass P:\n    x: int\np = P(3)\n",
        '1:functools={module: "functools"} 2:f={opaque: "_lru_cache_wrapper"} 3: {2 <lambda> n=1 2: ->1} 4: '
        '5:dataclass={function: "dataclass"} 6: 7: {3 P 6: 8: ->null} 6: 7:#1=P{} P=#1 9:#2=P{x: 3} p=#2',
    ),
    "what is printed stands behind the line that printed it": (
        "import sys\nprint('a', 1)\nsys.stderr.write('e')\nsys.stdout.writelines(['b', 'c'])\nprint('x' * 2001)\n",
        '1:sys={module: "sys"} 2:out1 "a 1\\n" 3:out2 "e" 4:out1 "bc" '
        f'5:out1 "{"x" * 1500}"',
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_frames_are_told(trace, name):
    source, expected = PROGRAMS[name]

    traced = trace(source)

    assert traced.short == f"{{1 <module> {expected} ->null}} end"


@pytest.mark.parametrize("source", ["# nothing but this\n", "\n\n"])
def test_a_program_without_a_statement_is_told(trace, source):
    assert trace(source).short == "{1 <module> ->null} end"


def test_output_is_what_it_is_without_a_tracer(trace):
    source = "import sys\nprint('a', end='')\nprint('é\\u20ac', file=sys.stderr)\nsys.stdout.buffer.write(b'b\\n')\n"

    traced = trace(source)

    assert (traced.stdout, traced.stderr, traced.status) == ("ab\n", "é€\n", 0)
    assert traced[1:] == trace.plain(source)[1:]


def test_long_output_is_cut_and_counted(trace):
    records = trace("print('a' * 1500 + 'b' * 600 + 'c' * 299)\n").records

    (out,) = [r for r in records if r["k"] == "out"]
    assert out == {"k": "out", "s": 1, "text": "a" * 1500, "tail": "c" * 299 + "\n", "elided": 600}


def test_another_thread_is_named(trace):
    records = trace(
        "import threading\nx = []\ndef w(n):\n    x.append(n)\nt = threading.Thread(target=w, args=(1,), name='T')\n"
        "t.start()\nt.join()\n"
    ).records

    assert [r for r in records if r["k"] == "call"][1] == {
        "k": "call", "f": 2, "p": 0, "name": "w", "n": 3, "args": {"n": 1}, "thread": "T",
    }  # fmt: skip
    assert records[-1] == {"k": "end"}


def test_an_uncaught_exception_ends_the_trace_like_any_end(trace):
    traced = trace("def f():\n    1 / 0\nf()\n")

    assert traced.short == (
        '{1 <module> 1:f={function: "f"} 3: {2 f 2:raise ZeroDivisionError("division by zero") !} '
        'raise ZeroDivisionError("division by zero") from 2 !} out2 "ZeroDivisionError: division by zero\\n" end'
    )


RECURSION = """
import sys
def f(n):
    try:
        return f(n + 1)
    except RecursionError as e:
        return n, str(e)
def g(n):
    return g(n + 1)
print(f(0), sys.getrecursionlimit())
sys.setrecursionlimit(1500)
print(f(0), sys.getrecursionlimit())
g(0)
"""


@pytest.mark.parametrize("soft_events", [10**6, 10])
def test_the_recursion_limit_is_where_it_is_without_a_tracer(trace, soft_events):
    if (trace.core, trace.version) == ("native", (3, 11)):
        pytest.skip("on 3.11 the core in C leaves a frame less to the program")

    traced = trace(RECURSION, soft_events=soft_events)

    assert traced[1:] == trace.plain(RECURSION)[1:]


def test_a_trace_of_a_recursion_to_the_limit_is_whole_where_the_core_allows(trace):
    records = trace(RECURSION, soft_events=10**6).records

    lost = [r["why"] for r in records if r["k"] == "lost"]
    if trace.core == "plain":
        assert lost == ["the program came too near to its recursion limit for a trace function"]
    else:
        kinds = [r["k"] for r in records]
        assert lost == []
        assert kinds.count("return") + kinds.count("unwind") == kinds.count("call")
