"""Programs that reach for the tracer: they run as ever, and the trace says what may be missing."""

import subprocess
import sys
from pathlib import Path

import pytest

REASONS = {
    "import sys\nsys.setprofile(None)\n": ["the program changed the profile function"],
    "import ctypes\n": ["the program loaded ctypes or cffi"],
    "__import__('ctypes').sizeof(1 and __import__('ctypes').c_int)\n__import__('_ctypes')\n": None,
    "import gc\ngc.get_referrers(1)\nn = len(gc.get_referents([]))\n": [
        "the program asked the garbage collector for all objects"
    ],
    "try:\n    open('/proc/self/mem')\nexcept OSError:\n    pass\n": ["the program opened the memory of a process"],
    "import subprocess, sys\nsubprocess.run([sys.executable, '-c', ''])\nopen('/proc/self/stat').close()\n": [],
    "import threading\nt = threading.Thread(target=lambda: None)\nt.start()\nt.join()\n": [],
}


@pytest.mark.parametrize("source", [source for source, reasons in REASONS.items() if reasons is not None])
def test_doubtful_acts_are_told_once(trace, source):
    records = trace(source).records

    assert [r["why"] for r in records if r["k"] == "lost"] == REASONS[source]
    assert records[-1] == {"k": "end"}


def test_a_program_that_takes_the_trace_function_away(trace):
    traced = trace("import sys\na = 1\nsys.settrace(None)\nb = 2\nprint(b)\n")

    reasons = [r["why"] for r in traced.records if r["k"] == "lost"]
    assert reasons[0] == "the program changed the trace function"
    assert traced.stdout == "2\n"


def test_a_forked_child_writes_no_records(trace):
    traced = trace(
        "import os\na = 1\nif os.fork() == 0:\n    a = [2]\n    print('child', a)\nelse:\n    os.wait()\n    b = 2\n"
    )

    records = [r for r in traced.records if r["k"] in ("object", "out")]
    assert records == []
    assert "lost a forked process was not traced" in traced.short
    assert traced.short.endswith("7: 8:b=2 ->null} end")
    assert traced.stdout == "child [2]\n"


MISSED = "a function ended without a word: its frame's trace function was taken away"
BLIND = "def f():\n    sys._getframe().f_trace = None\n    a = 1\n    return a\n"


@pytest.mark.parametrize(
    "source",
    [
        f"import sys\n{BLIND}f()\nc = 3\n",
        f"import sys\n{BLIND}def g():\n    return f()\ng()\n",
        f"import sys\n{BLIND}def g():\n    pass\nf(), g()\n",
        "import sys\na = 1\nsys._getframe().f_trace = None\nb = 2\n",
    ],
    ids=["before a line", "before a return", "before a call", "before the end"],
)
def test_a_frame_whose_trace_function_was_taken_is_missed(trace, source):
    lost = [r["why"] for r in trace(source).records if r["k"] == "lost"]

    assert lost == ([MISSED] if trace.core == "plain" else [])


def test_lines_that_are_switched_off_are_missed(trace):
    source = "import sys\ndef f():\n    sys._getframe().f_trace_lines = False\n    return 1\nf()\n"

    traced = trace(source)

    lost = [r["why"] for r in traced.records if r["k"] == "lost"]
    if trace.core == "native" and trace.version >= (3, 12):
        assert lost == []
        assert " 4: ->1}" in traced.short
    else:
        assert lost == ["the program switched lines of a frame off"]


def test_a_hook_for_threads_that_was_taken_away_is_told(trace):
    source = "import threading\nthreading.settrace(None)\nt = threading.Thread(target=lambda: 1)\nt.start(); t.join()\n"

    traced = trace(source)

    lost = [r["why"] for r in traced.records if r["k"] == "lost"]
    if trace.core == "native" and trace.version >= (3, 12):
        assert lost == []
        assert "<lambda>" in traced.short
    else:
        assert lost == ["the trace function was taken away"]


def test_patched_builtins_are_not_called(trace):
    traced = trace(
        "import builtins\nbad = lambda *a: 1 / 0\n"
        "for name in 'len type id isinstance list dict str map all zip sorted repr set tuple range int'.split():\n"
        "    setattr(builtins, name, bad)\nx = [1]\nx.append({2: (3,)})\nprint('done')\n"
    )

    assert traced.short.endswith(
        '6:#2=dict[[2, {tuple: [3]}]] #1.splice start=1 removed=0[#2] 7:out1 "done\\n" ->null} end'
    )


def test_no_builtin_is_called_that_the_program_replaced(trace):
    traced = trace(
        "import builtins\ndef bad(*a, **k): raise ZeroDivisionError\nput, keep = setattr, ('print', 'setattr')\n"
        "for name in vars(builtins).copy():\n    if '_' not in name and name.lower() == name and name not in keep:\n"
        "        put(builtins, name, bad)\nx = [1]\nx.append({2: (3,)})\nprint('done')\n"
    )

    assert (traced.stdout, traced.stderr) == ("done\n", "")
    assert traced.records[-1] == {"k": "end"}


HOSTILE = """
calls = []
def says(name):
    def say(*args):
        calls.append(name)
        return NotImplemented
    return say
class Meta(type):
    __hash__ = says("meta hash")
    __eq__ = says("meta eq")
    __instancecheck__ = __subclasscheck__ = says("check")
    def __getattribute__(cls, name):
        calls.append("meta " + name)
        return type.__getattribute__(cls, name)
NAMES = "repr str len iter getitem eq hash bool contains format getattr index int float bytes".split()
def make(base, meta=type):
    body = {f"__{name}__": says(name) for name in NAMES}
    body["keys"] = body["items"] = body["copy"] = body["hex"] = says("method")
    body["__class__"] = property(says("class"))
    return meta("H", (base,), body)
H = [make(base) for base in (list, dict, set, frozenset, tuple, str, bytes, bytearray, int, float, object)]
M = Meta("M", (), {})
class Own:
    def __getattribute__(self, name):
        calls.append(name)
        return object.__getattribute__(self, name)
    __dict__ = property(says("dict"))
del calls[:]
def run():
    values = [cls() for cls in H]
    own = Own()
    m = M()
    a, b = values[0], values[1]
    list.append(a, own)
    dict.update(b, k=m)
    held = {1: values, 2: (m, own)}
    held[3] = a
    return held
held = run()
count = len(calls)
print(calls[:count])
"""


def test_no_method_of_the_program_is_called(trace):
    traced = trace(HOSTILE)

    assert traced.stdout == "[]\n"
    assert traced.records[-1] == {"k": "end"}
    assert [r for r in traced.records if r["k"] == "lost"] == []


def test_objects_end_when_the_program_lets_them_go(trace):
    source = (
        "import weakref\nclass A:\n    def __init__(self, n): self.n = n\n    def __del__(self): print('del', self.n)\n"
        "a = A(1)\na = None\nb = [A(2)]\nb.pop()\nr = weakref.ref(A(3))\nprint(r() is None)\n"
        "def g():\n    try:\n        yield 1\n    finally:\n        print('closed')\nit = g()\nnext(it)\nit = None\n"
        "print('last')\n"
    )

    assert trace(source).stdout == "del 1\ndel 2\ndel 3\nTrue\nclosed\nlast\n"


def test_an_exception_of_a_signal_handler_reaches_the_program(trace):
    source = (
        "import signal, time\ndef late(*a):\n    raise TimeoutError('late')\nsignal.signal(signal.SIGALRM, late)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.05)\nn = 0\ntry:\n    while True:\n        n += 1\n"
        "except TimeoutError as e:\n    print('caught', e)\n"
    )

    assert trace(source).stdout == "caught late\n"


FAULT = """
import sys
sys.path.insert(0, sys.argv[1])
from runner import import_tracer
tracer = import_tracer(sys.argv[2])
from groundbox.guest.trace.values import Values
def text(self, value):
    raise ZeroDivisionError("of the tracer")
text.__code__ = text.__code__.replace(co_filename=Values.text.__code__.co_filename)
source, memory = "a = 1\\nb = 2\\n", bytearray(1 << 16)
code = compile(source, "main.py", "exec")
recording = tracer.start(code, source, memory, core="plain")
Values.text = text
names = {"__name__": "__main__"}
exec(code, names)
recording.stop(ended=True)
print(names["b"], bytes(memory[8:]).decode().rstrip("\\0"))
"""


def test_a_fault_of_the_tracer_is_told_and_does_not_reach_the_program():
    folder = Path(__file__).parent

    ran = subprocess.run(
        [sys.executable, "-c", FAULT, folder, folder.parents[2] / "src"], capture_output=True, text=True
    )

    assert (ran.stderr, ran.stdout[:2]) == ("", "2 ")
    assert '"why":"the tracer failed: ZeroDivisionError: of the tracer"' in ran.stdout
