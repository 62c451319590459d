"""Many calls in one run: each finds the module as new, and none learns what will be asked next."""

import pytest

import groundbox as gb
from groundbox.errors import InvalidArgument
from groundbox.sandbox.answers import Answer, read


def called(source, *cases, **options):
    calls = [(case, {}) if isinstance(case, list) else case for case in cases]
    return gb.run(source, mode="calls", call="f", args=calls, profile="bare", **options)


def answers(source, *cases, **options):
    return [(each.told, each.raised, each.lost) for each in read(called(source, *cases, **options))]


def test_each_call_has_an_answer():
    source = "def f(x, y=1):\n    if x == 2:\n        raise ValueError('two')\n    return [x, y]\n"

    execution = called(source, [1], ([], {"x": 3, "y": (4,)}), [2], [4])

    assert execution.outcome == "ok"
    assert execution.value["text/plain"] == "4 of 4 calls"
    assert [(each.told, each.raised, each.message) for each in read(execution)] == [
        ({"list": [1, 1]}, "", ""),
        ({"list": [3, {"tuple": [4]}]}, "", ""),
        (None, "ValueError", "two"),
        ({"list": [4, 1]}, "", ""),
    ]


def test_each_call_finds_the_module_as_new():
    source = "seen = []\ndef f(x):\n    seen.append(x)\n    return len(seen)\n"

    assert answers(source, [1], [2]) == [(1, "", ""), (1, "", "")]


@pytest.mark.parametrize(
    ("body", "lost"),
    [
        ("import os; os._exit(0)", "ended"),
        ("raise SystemExit", "ended"),
        ("raise KeyboardInterrupt", "ended"),
        ("import ctypes; ctypes.string_at(0)", "signal"),
        ("return bytearray(2 ** 40)", "memory"),
        ("return 'x' * (20 << 20)", "too-large"),
        ("return list(range(100_001))", "too-large"),
    ],
)
def test_a_call_that_does_not_come_back_is_the_last(body, lost):
    source = f"def f(x):\n    if x == 1:\n        {body}\n    return x\n"

    assert answers(source, [0], [1], [2]) == [(0, "", ""), (None, "", lost)]


@pytest.mark.parametrize("limit", ["call_wall_s", "call_cpu_s", "wall_s"])
@pytest.mark.parametrize("stubborn", [False, True])
def test_a_call_ends_at_its_limit(limit, stubborn):
    heeds = "pass" if not stubborn else "try:\n            while True: pass\n        except BaseException: pass"
    source = f"def f(x):\n    while x == 1:\n        {heeds}\n    return x\n"

    execution = called(source, [0], [1], [2], **{limit: 0.3})

    assert [(each.told, each.lost) for each in read(execution)] == [(0, ""), (None, "timeout")]
    assert execution.error.message == f"the program was stopped at {limit}=0.3"
    assert execution.outcome == "timeout"


def test_an_answer_after_the_limit_is_none():
    loops = "while x == 1: pass\n    except KeyboardInterrupt:\n        return 'late'"
    source = f"def f(x):\n    try:\n        {loops}\n    return x\n"

    assert answers(source, [0], [1], [2], call_wall_s=0.3) == [(0, "", ""), (None, "", "timeout")]


def test_limits_are_of_each_call():
    source = "import time\ndef f(x):\n    time.sleep(0.2)\n    return x\n"

    assert [each[0] for each in answers(source, [0], [1], [2], [3], call_wall_s=0.6)] == [0, 1, 2, 3]


_SEARCH = """
import gc, os, re, socket

def f(x):
    wanted = re.compile("mark[e]r-later")
    as_bytes = re.compile(b"mark[e]r-later")
    held = [each for each in gc.get_objects() if type(each) in (list, dict, tuple)]
    found = [each for each in held if wanted.search(repr(each)[:9999])]
    for number in range(3, 96):
        try:
            with socket.socket(fileno=os.dup(number)) as other:
                found += as_bytes.findall(other.recv(1 << 16, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except OSError:
            pass
        try:
            found += as_bytes.findall(os.pread(number, 1 << 16, 0))
        except OSError:
            pass
    try:
        for line in open("/proc/self/maps"):
            first, last = (int(part, 16) for part in line.split()[0].split("-"))
            if " rw" in line and last - first < 1 << 26:
                with open("/proc/self/mem", "rb") as memory:
                    memory.seek(first)
                    found += as_bytes.findall(memory.read(last - first))
    except (OSError, ValueError):
        pass
    return len(found) > 0
"""


def test_a_call_does_not_know_what_will_be_asked_next():
    assert answers(_SEARCH, ["now"], ["marker-later"]) == [(False, "", ""), (True, "", "")]


_FORGED = """
import json, os, struct, time

def f(x):
    for frame in FRAMES:
        body = json.dumps({"ev": "answer", **frame}).encode()
        for descriptor in range(3, 96):
            try:
                os.write(descriptor, struct.pack("<I", len(body)) + body)
            except OSError:
                pass
    if FRAMES[-1]["number"] < 0:
        time.sleep(60)  # that it is ended is seen by what it does not say
    return x
"""


@pytest.mark.parametrize(
    ("frames", "told"),
    [
        ([{"number": 0, "value": "forged"}], [("forged", ""), (1, ""), (2, "")]),
        ([{"number": 2, "value": "forged"}, {"number": 7, "value": "forged"}], [(0, ""), (1, ""), ("forged", "")]),
        ([{"number": 0, "lost": "ended"}, {"number": 1, "value": "forged"}], [(None, "ended")]),
        ([{"number": -1, "value": "forged"}], [(None, "signal")]),
    ],
)
def test_answers_are_to_the_call_that_was_asked(frames, told):
    execution = called(f"FRAMES = {frames!r}\n{_FORGED}", [0], [1], [2])

    assert [(each.told, each.lost) for each in read(execution)] == told


def test_the_sandbox_serves_on_after_a_call_that_was_ended():
    with gb.Sandbox(profile="bare") as box:
        lost = box.run("def f(x):\n    while True: pass\n", mode="calls", call="f", args=[([1], {})], call_wall_s=0.2)
        after = box.run("def f(x): return x", mode="calls", call="f", args=[([1], {})])

    assert [each.lost for each in read(lost)] == ["timeout"]
    assert [each.told for each in read(after)] == [1]


def test_a_program_that_is_none_fails_as_a_run():
    execution = called("def f(x) return x", [1])

    assert (execution.outcome, execution.error.type, read(execution)) == ("error", "SyntaxError", [])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"args": [[1]]}, "args: must be a list with a pair"),
        ({"args": [([1], {1: 2})]}, "args: must have texts as the names of arguments"),
        ({"args": [([1], {})], "kwargs": {"a": 1}}, "kwargs: belongs to one call"),
        ({"args": [], "call_wall_s": 0}, "call_wall_s: must be a number of seconds above 0, not 0"),
        ({"args": [], "mode": "call", "call_cpu_s": 1}, "call_cpu_s: belongs to many calls; add mode='calls'"),
    ],
)
def test_what_cannot_be_meant_is_refused(given, message):
    with pytest.raises(InvalidArgument, match=message):
        gb.run("def f(x): return x", **{"mode": "calls", "call": "f", **given})


@pytest.mark.parametrize("rows", [None, 5, {"a": 1}])
def test_what_is_no_list_of_answers_has_none(rows):
    import dataclasses

    execution = dataclasses.replace(called("def f(x): return x", [1]), value={"x": rows})

    assert read(execution) == []


def test_answers_before_the_interpreter_was_broken_are_kept():
    source = "import builtins\ndef f(x):\n    if x == 1:\n        builtins.__dict__.clear()\n    return x\n"

    told = answers(source, [0], [1], [2], call_wall_s=5)

    assert told[0] == (0, "", "")
    assert all(each[2] or each[1] or each[0] in (1, 2) for each in told[1:])


def test_no_calls_have_no_answers():
    assert called("def f(x): return x").value["text/plain"] == "0 of 0 calls"
    assert Answer().lost == ""


def test_a_child_that_a_call_forks_answers_none_of_the_calls():
    """It has the worker's socket: it would tell what came of a call, and hear the next one, before its parent."""
    source = """import os
def f(n):
    pid = os.fork()
    if pid == 0:
        return "the child's"
    os.waitpid(pid, 0)
    return n * 2"""

    assert answers(source, [0], [1], [2]) == [(0, "", ""), (2, "", ""), (4, "", "")]
