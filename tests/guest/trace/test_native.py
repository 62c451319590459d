"""The core in C: what builds it, and that it writes what the cores in Python write."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from groundbox.guest.trace.native import build

DIFFERENTIAL = Path(__file__).with_name("differential.py")
STRICT = ("-Wall", "-Wextra", "-Werror")
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


VERSION = ".".join(map(str, sys.version_info[:3]))


def compare(programs, module, folder, *, soft_events):
    jobs = folder / "jobs.jsonl"
    lines = [json.dumps({"name": name, "source": source}) for name, source in programs.items()]
    jobs.write_text("\n".join(lines), "utf-8")
    return subprocess.run(
        [sys.executable, DIFFERENTIAL, "--core=settrace", "--core=native", f"--module={module}", "--hold",
         f"--soft-events={soft_events}", jobs],
        capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": "0"},
    )  # fmt: skip


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    made = build.build(Path(sys.executable), tmp_path_factory.mktemp("native"), flags=STRICT)
    if isinstance(made, build.NotBuilt) and made.reason.startswith(("no C compiler", "no headers")):
        pytest.skip(made.reason)
    assert isinstance(made, Path), made.reason
    return made


def test_the_native_core_writes_the_bytes_of_the_one_in_python(module, tmp_path):
    compared = compare(PROGRAMS, module, tmp_path, soft_events=100)

    assert (compared.stdout, compared.returncode) == (f"{VERSION} settrace native {{'same': {len(PROGRAMS)}}}\n", 0)


def test_small_changes_of_large_containers_are_told_as_they_are_in_python(module, tmp_path):
    compared = compare({"large": LARGE}, module, tmp_path, soft_events=100_000)

    assert (compared.stdout, compared.returncode) == (f"{VERSION} settrace native {{'same': 1}}\n", 0)


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
