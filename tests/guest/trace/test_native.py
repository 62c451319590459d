"""The core in C: what builds it, and that it writes what the plain core writes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from groundbox.guest.trace.native import build
from tests.guest.trace.programs import program

pytestmark = pytest.mark.slow

DIFFERENTIAL = Path(__file__).with_name("differential.py")
PROGRAMS = {
    "containers": "a = [1]\nb = a\nb.append([2])\na[1][0] = b\nd = {i: [i] for i in range(300)}\nd[250].append(1)\n",
    "objects": "class P:\n    __slots__ = ('y', 'x')\np = P()\np.x = [p]\np.x.append(1)\ndel p.x\nP.n = 1\n",
    "closures": "def f():\n    n = 0\n    def g():\n        nonlocal n\n        n += 1\n    g()\n    return g\nf()()\n",
    "exceptions": "def f(n):\n    if n == 0:\n        raise ValueError([n])\n    f(n - 1)\ntry:\n    f(3)\nexcept ValueError:\n"
    "    print('x' * 3000)\n",
    "generators": "def g(n):\n    for i in range(n):\n        x = yield i\n    return n\ns = sum(g(4))\nl = list(g(2))\n",
    "folding": "def f(n):\n    s = 0\n    for i in range(n):\n        s += i\n    return s\nt = [f(9) for _ in range(99)]\n",
    "folded generators": "import itertools\ndef g(n):\n    s = [n]\n    for i in range(n):\n        s.append(i)\n"
    "        for j in range(3):\n            n += j\n        yield i, s\n    return n\na = list(g(40))\nit = g(40)\n"
    "b = list(itertools.islice(it, 9))\nc = next(it)\nit.close()\nd = any(x > 20 for x in range(40))\n"
    "e = {x: y for x, y in g(30)}\nf = sum(x * y for x in range(9) for y in range(9))\n"
    "h = list(itertools.islice(((i, g) for i in range(9)), 7))\n",
    "library code": "import functools, json\nclass P:\n    def __lt__(self, o):\n        return id(self) < 0\n    x = 1\n"
    "def told(o):\n    return [o.x]\nt = [json.dumps([P(), P()], default=told) for _ in range(9)]\n"
    "s = [functools.reduce(lambda a, b: a + b, range(n)) for n in range(1, 30)]\nl = sorted([P(), P(), P()])\n"
    "def walk(n):\n    return [walk(n - 1) for _ in range(2)] if n else json.loads('[1, [2]]')\nw = walk(5)\n",
    "jumps": "def f(n):\n    while n: n -= 1\n    for i in range(5): n += i\n    return [x for x in range(n) if x % 2]\n"
    "a = [f(n) for n in range(30)]\nwhile a: b = a.pop()\n",
    "thrown": "def g():\n    while True:\n        try:\n            yield 1\n        except ValueError as e:\n            x = e.args\n"
    "def h():\n    yield from g()\nfor k in range(9):\n    it = h()\n    next(it)\n    it.throw(ValueError(k))\n    it.close()\n"
    "try:\n    h().throw(KeyError(1))\nexcept KeyError:\n    pass\n",
    "threads": "import sys, threading\nsys.setswitchinterval(9)\ndef f(n):\n    s = 0\n    for i in range(n):\n        s += i\n    return s\n"
    "t = threading.Thread(target=f, args=(20,))\nt.start()\nt.join()\nu = f(30)\n",
    "branches": "class B:\n    def __bool__(self): return self.x > 0 and not self.x > 2\nb = B()\nb.x = 1\n"
    "def f(n, m):\n    while n and (m or n > 5):\n        n -= 1\n        if n == 3 is not b: continue\n        m -= 1\n"
    "    while True:\n        while True:\n            n += 1\n            if b and n % 3: continue\n            break\n"
    "        for i, j in [(1, n)]: pass\n        for k in range(2):\n            n += k\n        if n > 9: return n\n"
    "try:\n    for a, c in [(f(4, 3), f(0, 0)), 3]:\n        d = a and c or b\nexcept (KeyError, IndexError):\n    pass\n"
    "except TypeError:\n    assert not c is None\nmatch c:\n    case 5 if b: pass\n    case e if e and (b.x or 0): pass\n"
    "for (\n    g,\n    h) in [(1, 2)] * 9:\n    g = [x for x in range(g) if x] if h else ()\n    t = sum(x for x in (g, h, 3) if x == 3)\n",
    "values": "v = [2**53, 10**400, 1e16, float('nan'), 'é' * 500, '\\ud800', b'x' * 300, (1, (2,)), frozenset('ab'), len]\n",
}

LARGE = """
import random
class Part:
    pass
r = random.Random(5)
parts = [Part() for _ in range(20)]
def place(of):
    return r.randrange(len(of))
items, table, seen, queue = list(range(1100)), dict.fromkeys(range(600)), set(range(600)), list(range(1100))
for turn in range(30):
    some = [r.choice([1, 700, "text", None, (2, 3), r.choice(parts), [4]]) for _ in range(30)]
    items[place(items)] = some[0]
    items[::90] = some[:len(items[::90])]
    items[turn], items[turn + 600] = some[1], some[2]
    items.append(some[3])
    items.insert(place(items), some[4])
    del items[place(items)]
    items[3:6] = some[:turn]
    queue.append(queue.pop(0))
    queue.reverse()
    table[place(table)] = some[5]
    table[("new", turn)] = some[6]
    table.update(zip(range(turn), some))
    table.pop(turn, None)
    seen.add(parts[turn % 20])
    seen.discard(turn * 7)
    seen -= set(range(turn * 20, turn * 20 + turn))
    seen |= {("many", turn, k) for k in range(turn)}
    seen ^= {turn, ("many", turn, 0)}
"""


MEDDLING = """
import sys
monitoring = sys.monitoring
tool = next(tool for tool in range(6) if monitoring.get_tool(tool))
events = monitoring.get_events(tool)
def f():
    return 1
"""
"""What a program may know before it takes events from the tracer, and gives them back."""

CHANGED = ["the program changed sys.monitoring"]
MEDDLERS = {
    "": [],
    "monitoring.set_local_events(tool, f.__code__, 0)\n": [],
    "monitoring.set_local_events(tool, f.__code__, 32)\nf()\nmonitoring.set_local_events(tool, f.__code__, 0)\n": [],
    "monitoring.restart_events()\n": CHANGED,
    "monitoring.set_events(tool, 0)\nf()\nmonitoring.set_events(tool, events)\n": CHANGED,
    "monitoring.free_tool_id(tool)\nmonitoring.use_tool_id(tool, 'mine')\n": CHANGED,
    "sys.settrace(None)\n": ["the program changed the trace function"],
}
"""To what a trace says of it."""

TELLING = """
import json, sys
sys.path.insert(0, sys.argv[2])
from runner import import_tracer
tracer = import_tracer(sys.argv[3])
tracer.NATIVE = sys.argv[1]
source, memory = sys.argv[4], bytearray(1 << 20)
code = compile(source, "main.py", "exec")
recording = tracer.start(code, source, memory)
exec(code, {"__name__": "__main__"})
recording.stop(ended=True)
lines = [json.loads(line) for line in bytes(memory[8:]).split(b"\\n") if line[:1] == b"{"]
print(json.dumps([recording.core, lines]))
"""

REHEARSAL = """
import os, sys
sys.path.insert(0, sys.argv[2])
from runner import import_tracer
tracer = import_tracer(sys.argv[3])
from groundbox.guest.trace.native import bridge
tracer.NATIVE = sys.argv[1]
SOURCE = "import math\\nx = [1]\\nx.append(math.sqrt(4))\\n"

def traced():
    memory = bytearray(1 << 16)
    code = compile(SOURCE, "main.py", "exec")
    recording = tracer.start(code, SOURCE, memory)
    exec(code, {"__name__": "__main__"})
    recording.stop(ended=True)
    return recording.core, bytes(memory)

child = os.fork()
if not child:
    tracer.rehearse()
    assert sys.argv[1] in bridge._loaded
    rehearsed = traced()
    bridge._loaded.clear()
    os._exit(rehearsed != traced())
assert sys.argv[1] not in bridge._loaded
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), *traced()[:1])
tracer.NATIVE = "/nowhere.so"
tracer.rehearse()
"""


class Built(NamedTuple):
    """An interpreter, and the core that was built for it."""

    python: str
    module: Path
    version: str

    def compare(self, programs, folder):
        jobs = folder / "jobs.jsonl"
        lines = [json.dumps({"name": name, "source": source}) for name, source in programs.items()]
        jobs.write_text("\n".join(lines), "utf-8")
        return subprocess.run(
            [self.python, DIFFERENTIAL, "--core=plain", "--core=native", f"--module={self.module}", "--hold",
             "--soft-events=1000000", jobs],
            capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": "0"},
        )  # fmt: skip


@pytest.fixture(scope="module", params=["3.11", "3.12", "3.13"])
def built(request, pythons, native):
    python = pythons.get(request.param)
    if python is None:
        pytest.skip(f"there is no Python {request.param} here")
    made = native(python)
    if isinstance(made, build.NotBuilt) and made.reason.startswith(("no C compiler", "no headers")):
        pytest.skip(made.reason)
    assert isinstance(made, Path), made.reason
    told = subprocess.run([python, "-c", "import sys; print(*sys.version_info[:3], sep='.')"], capture_output=True)
    return Built(python, made, told.stdout.decode().strip())


TOUCHES = {
    "a method of a builtin type": "a = [1]\nlist.append(a, 2)\nclass P:\n    def __init__(self, v):\n"
    "        object.__setattr__(self, 'v', v)\np = P(a)\nobject.__setattr__(p, 'w', 2)\n",
    "a name that the line deletes": "class P: pass\ny = x = P()\nx.a = 1; del x\nz = y\nz.b = 2; z = 3\n",
    "functions with two names": "import operator\ng = [3]\noperator.setitem(g, 0, 9)\noperator.__iadd__(g, [1])\n",
    "an attribute that is made up": "a = []\nclass C:\n    def __getattr__(self, n):\n        a.append(n)\n"
    "        return a\nc = C()\nc.foo.append(2)\nx, *y = c.bar\n",
    "a list that is being sorted": "class Q(list): pass\ng, n = Q([3, 1]), [0]\ndef key(v):\n    n.append(v)\n"
    "    return v\ng.sort(key=key)\ndef own():\n    g.sort(key=key, reverse=True)\n    return g\nown()\n",
    "several objects on one line": "import collections\nd = collections.defaultdict(lambda: [0])\nd[1].append(2)\n"
    "d[2][0] += 1\na, b = [1], [2]\nb.append(a.pop())\na.append(b), b.append(a)\n",
    "several objects that functions in a list change": "x, b, z = [], [1], {}\nf = [b.append, x.append, z.update]\n"
    "f[0](x), f[1](2)\nf[0]({'k': x}), f[2](a=b), f[1](5)\n",
    "attributes of the classes that a class is derived from": "class M(type):\n    def __call__(cls):\n"
    "        o = super().__call__(); cls.made.append(o); return o\nclass B(metaclass=M):\n    made, items = [], []\n"
    "class C(B):\n    n = 0\n    def __init__(self):\n        type(self).n += 1; self.items.append(1)\nC()\nC()\n",
    "code made of text": "x, y = [1], [2]\neval('x.clear()')\nexec('y.append(3)')\nglobals()['x'].append(4)\n"
    "def f(z):\n    exec('z.append(5)')\n    eval('y.append(z)')\nf([])\n",
    "methods that are called by name": "from operator import methodcaller\nx, b = [], [1]\n"
    "list(map(methodcaller('append', 1), [b, x]))\n",
    "arguments of an exception": "x = [1]\ntry:\n    raise ValueError(x, [2])\nexcept ValueError as e:\n"
    "    e.args[0].append(e)\n    e.args[1].append(3)\n    y = 1\n",
    "the end of an iterator of the program": "class I:\n    def __iter__(self): return self\n"
    "    def __next__(self): raise StopIteration\nfor x in I(): pass\n",
}  # fmt: skip


@pytest.mark.parametrize("programs", [PROGRAMS | {"large": LARGE}, TOUCHES, {str(n): program(n) for n in range(6)}])
def test_the_native_core_writes_the_bytes_of_the_plain_one(built, tmp_path, programs):
    compared = built.compare(programs, tmp_path)

    assert compared.stdout == f"{built.version} plain native {{'same': {len(programs)}}}\n"
    assert compared.returncode == 0


@pytest.mark.parametrize("meddler", MEDDLERS)
def test_events_that_a_program_takes_away_and_gives_back_are_told(built, meddler):
    if built.version.startswith("3.11."):
        pytest.skip("3.11 has no sys.monitoring")
    folder = Path(__file__).parent
    source = f"{MEDDLING}{meddler}f()\n"

    told = subprocess.run(
        [built.python, "-c", TELLING, built.module, folder, folder.parents[2] / "src", source],
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    core, records = json.loads(told.stdout)
    assert core == "native"
    assert [record["why"] for record in records if record["k"] == "lost"] == MEDDLERS[meddler]
    if not MEDDLERS[meddler]:
        calls = [record for record in records if record["k"] == "call" and record["name"] == "f"]
        assert len(calls) == source.count("f()\n")


def test_a_rehearsal_loads_the_core_and_leaves_nothing_in_a_trace(built):
    folder = Path(__file__).parent

    told = subprocess.run(
        [built.python, "-c", REHEARSAL, built.module, folder, folder.parents[2] / "src"], capture_output=True, text=True
    )

    assert (told.stdout, told.stderr) == ("0 native\n", "")


def test_without_a_compiler_nothing_is_built(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)

    made = build.build(Path(sys.executable), tmp_path)

    assert isinstance(made, build.NotBuilt)
    assert made.reason.startswith(("no C compiler: $CC is not set", "no headers: "))


def test_an_interpreter_that_does_not_exist_is_told_of(tmp_path):
    made = build.build(tmp_path / "python", tmp_path)

    assert isinstance(made, build.NotBuilt)
    assert made.reason.startswith(f"{tmp_path / 'python'} does not tell its build settings")
    assert list(tmp_path.iterdir()) == []
