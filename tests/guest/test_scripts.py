"""Scripts end as `python main.py` ends: the same output, the same exit code."""

import re
import sys

import pytest

import groundbox as gb

PROGRAMS = {
    "prints": "import sys\nprint('out'); print('err', file=sys.stderr)",
    "fails": "def f(x):\n    return 1 / x\nf(0)",
    "does not parse": "x = (1",
    "chains": "try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError('b') from e",
    "leaves with words": "import sys; sys.exit('words')",
    "leaves with a number": "import sys; sys.exit(300)",
    "leaves with None": "import sys; sys.exit()",
    "leaves by exit": "exit(5)",
    "is interrupted": "raise KeyboardInterrupt",
    "has a hook": "import sys\nsys.excepthook = lambda t, v, tb: print('hook', v)\nraise ValueError('x')",
    "has a hook that fails": "import sys\nsys.excepthook = lambda t, v, tb: 1 / 0\nraise ValueError('x')",
    "has threads and exit functions": (
        "import atexit, threading, time\n"
        "atexit.register(print, 'atexit')\n"
        "threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()\n"
        "class D:\n    def __del__(self): print('deleted')\n"
        "d = D(); cycle = [D()]; cycle.append(cycle); print('main')"
    ),
    "forgets to close": "f = open('f.txt', 'w'); f.write('kept'); g = lambda: f",
    "loses its output": (
        "import os\nprint('x', flush=True)\nos.dup2(os.open('/dev/full', os.O_WRONLY), 1)\nprint('y')"
    ),
    "forks": "import os\nif os.fork() == 0: raise ValueError('child')\nos.wait(); print('parent')",
    "has a pool": "import multiprocessing as mp\nprint(mp.get_context('fork').Pool(2).map(abs, [-1, 2]))",
    "looks around": (
        "import sys, __main__\n"
        "print(__name__, sys.argv[1:], __file__.endswith('main.py'), sorted(vars(__main__)))\n"
        "print([n for n in ('display', 'get_ipython') if n in dir(__builtins__)], hasattr(sys, 'ps1'))"
    ),
    "uses asyncio": (
        "import asyncio\nasync def f(): return await asyncio.to_thread(lambda: 3)\nprint(asyncio.run(f()))"
    ),
    "fails deeply": (
        "import sys\nsys.setrecursionlimit(9000)\n"
        "def f(n):\n    if n == 0: raise ValueError\n    f(n - 1)\n"
        "def g():\n    f(3000)\ng()"
    ),
    "fails deeply twice": (
        "import sys\nsys.setrecursionlimit(9000)\nf = lambda n: f(n - 1) if n else 1 / 0\n"
        "try: f(2500)\nexcept Exception: f(2001)"
    ),
    "takes away every way to leave": "import os, sys\nexit = quit = sys.exit = os._exit = None\nprint('out')",
    "raises a group": "raise ExceptionGroup('g', [ValueError(1), KeyError(2)])",
    "raises what is no Exception": "class B(BaseException): pass\nraise B('x')",
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_a_script_ends_as_python_ends_it(run_script, run_python, workdir, program):
    if program in (PROGRAMS["fails deeply"], PROGRAMS["fails deeply twice"]) and sys.version_info < (3, 13):
        pytest.skip("before CPython 3.13, the interpreter prints the last 1,000 frames alone; scripts print all here")
    path = workdir / "main.py"
    path.write_text(program)
    expected = run_python("main.py", "a", "b")
    made = {p.name: p.read_text() for p in workdir.glob("*.txt")}
    for leftover in workdir.glob("*.txt"):
        leftover.unlink()

    ended = run_script(program, "a", "b")

    assert ended.stdout == expected.stdout
    assert ended.stderr == expected.stderr.replace(str(path), "main.py")
    assert ended.returncode == expected.returncode
    assert {p.name: p.read_text() for p in workdir.glob("*.txt")} == made


def test_an_uncaught_exception_is_reported_once(run_script):
    ended = run_script("def f(x):\n    return 1 / x\nf(0)")

    assert ended.reports == [
        {
            "error": {
                "type": "ZeroDivisionError",
                "message": "division by zero",
                "line": 2,
                "traceback": "Traceback (most recent call last):\n"
                '  File "main.py", line 3, in <module>\n    f(0)\n' + ended.stderr.split("    f(0)\n")[1].rstrip("\n"),
                "locals": {"x": "0"},
                "hints": [],
            }
        }
    ]


@pytest.mark.parametrize("source", ["print(1)", "import sys; sys.exit(3)", "raise KeyboardInterrupt"])
def test_leaving_is_not_reported_as_an_error(run_script, source):
    assert run_script(source).reports == []


def test_a_script_does_not_see_ipython(run_script):
    ended = run_script(
        "try:\n    display\nexcept NameError as e: print(e)\n"
        "try:\n    get_ipython\nexcept NameError as e: print(e)\n"
        "import sys\nmodule = sys.modules.get('IPython')\nprint(module and module.get_ipython())",
        ipython=True,
    )

    assert ended.stdout == "name 'display' is not defined\nname 'get_ipython' is not defined\nNone\n"


@pytest.mark.parametrize("ending", ["plt.show()", "", "1/0"])
def test_figures_are_reported_once(run_script, ending):
    ended = run_script(f"import matplotlib.pyplot as plt\nplt.plot([1, 2])\n{ending}", needs=("matplotlib",))

    assert [sorted(r["data"]) for r in ended.reports if r.get("ev") == "display"] == [
        ["application/vnd.groundbox.chart+json", "image/png", "text/plain"]
    ]


DEEP = "import sys\nsys.setrecursionlimit(1_000_000)\n"
DEEP_PROGRAMS = {
    "a function that calls itself": "def f(n):\n    return f(n + 1)\nf(0)",
    "two functions that call each other": "def a(n): b(n + 1)\ndef b(n): a(n + 1)\na(0)",
    "a failure that caused another": (
        "def f(n):\n    return f(n + 1)\ntry:\n    f(0)\nexcept RecursionError as e:\n    raise ValueError('x') from e"
    ),
}


@pytest.mark.parametrize("program", DEEP_PROGRAMS.values(), ids=DEEP_PROGRAMS.keys())
def test_a_failure_a_million_frames_deep_is_told_at_about_the_cost_of_getting_there(program):
    limits = gb.Limits(wall_s=None, cpu_s=20, memory_bytes=2 * gb.GiB)  # CPython's own printing takes 30 s and more

    execution = gb.run(DEEP + program, mode="script", limits=limits)

    assert execution.outcome is gb.Outcome.ERROR
    assert execution.error.type in ("RecursionError", "ValueError")
    assert execution.stderr.rstrip().endswith(execution.error.message)
    assert len(execution.stderr) < 300_000
    assert re.search(r"\b99\d{4} (?:more times|frames left out)", execution.stderr)
