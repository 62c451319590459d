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
    "values": "v = [2**53, 10**400, 1e16, float('nan'), 'é' * 500, '\\ud800', b'x' * 300, (1, (2,)), frozenset('ab'), len]\n",
}


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    made = build.build(Path(sys.executable), tmp_path_factory.mktemp("native"), flags=STRICT)
    if isinstance(made, build.NotBuilt) and made.reason.startswith(("no C compiler", "no headers")):
        pytest.skip(made.reason)
    assert isinstance(made, Path), made.reason
    return made


def test_the_native_core_writes_the_bytes_of_the_one_in_python(module, tmp_path):
    jobs = tmp_path / "jobs.jsonl"
    lines = [json.dumps({"name": name, "source": source}) for name, source in PROGRAMS.items()]
    jobs.write_text("\n".join(lines), "utf-8")

    compared = subprocess.run(
        [sys.executable, DIFFERENTIAL, "--core=settrace", "--core=native", f"--module={module}", "--hold",
         "--soft-events=100", jobs],
        capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": "0"},
    )  # fmt: skip

    version = ".".join(map(str, sys.version_info[:3]))
    assert (compared.stdout, compared.returncode) == (f"{version} settrace native {{'same': {len(PROGRAMS)}}}\n", 0)


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
