"""Calls in the bytecode of Python 3.11, tried on functions of its library, in processes of a Python 3.11."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
VERSION = "import sys; print(*sys.version_info[:2])"


@functools.cache
def python_3_11():
    """Any on this machine: the tests' own, the system's, or one of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for python in [sys.executable, "/usr/bin/python3.11", *map(str, pyenv.glob("3.11.*/bin/python"))]:
        asked = os.access(python, os.X_OK) and subprocess.run([python, "-c", VERSION], capture_output=True, text=True)
        if asked and asked.stdout == "3 11\n":
            return python
    return None


pytestmark = pytest.mark.skipif(python_3_11() is None, reason="needs an interpreter of Python 3.11")


def on_3_11(program):
    head = f"import sys; sys.path.insert(0, {str(SOURCE)!r})\nfrom groundbox.guest.python import bytecode_hooks\n"
    done = subprocess.run([python_3_11(), "-c", head + program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_functions_of_the_library_keep_their_instructions_lines_columns_and_handlers():
    program = """
import argparse, difflib, dis, gc, subprocess, tarfile, textwrap, traceback, types, unittest.mock

def parts(code, calls):
    instructions, begin, starts, own = list(dis.get_instructions(code)), None, {}, []
    n = 0
    while n < len(instructions):
        each = instructions[n]
        begin = each.offset if begin is None else begin
        if each.opname == "EXTENDED_ARG":
            n += 1
        elif each.opname == "PUSH_NULL" and calls is not None and (length := call(instructions, n, calls)):
            n += length  # what follows begins where the call does
        else:
            starts[begin] = starts[each.offset] = len(own)
            own.append(each)
            begin, n = None, n + 1
    handlers = [(starts[h.start], starts.get(h.end, len(own)), starts[h.target], h.depth, h.lasti)
                for h in dis._parse_exception_table(code)]
    return [(each.opname, starts[each.argval] if each.opcode in dis.hasjrel else each.arg, each.positions)
            for each in own], handlers

def call(instructions, n, first_constant):
    load = n + 1
    while instructions[load].opname == "EXTENDED_ARG":
        load += 1
    constant = instructions[load].arg
    if instructions[load].opname != "LOAD_CONST" or constant < first_constant:
        return 0
    return load - n + (4 if constant == first_constant + 1 else 5)

functions = [each for each in gc.get_objects() if isinstance(each, types.FunctionType)]
codes = {each.__code__ for each in functions if not each.__code__.co_flags & bytecode_hooks._SEVERAL_RETURNS}
codes = sorted(codes, key=lambda code: len(code.co_code))[::-3]  # with the longest
for code in codes:
    hooked = bytecode_hooks.with_calls(code, print, print)
    assert parts(hooked, len(code.co_consts)) == parts(code, None), code
print(len(codes) > 500, max(len(code.co_code) for code in codes) > 4000)
"""

    assert on_3_11(program) == "True True\n"


def test_a_function_calls_back_with_its_frame_when_it_starts_and_returns_until_the_hooks_are_removed():
    program = """
import sys

def early(x, *, y=2):
    for n in range(3):
        if x == n:
            return x + y
    try:
        return 10 / x
    except TypeError:
        return "no number"
    finally:
        x = "gone"

def started(code, offset):
    frame = sys._getframe(1)
    print("start", code.co_name, frame.f_lineno - code.co_firstlineno, frame.f_locals)

def returned(code, offset, result):
    frame = sys._getframe(1)
    print("return", result, frame.f_lineno - code.co_firstlineno, frame.f_locals["x"])

hooks = bytecode_hooks.Hooks()
own = early.__code__
hooks.add(early, started=started, returned=returned)
print(early(1), early(5, y=1), early("five"))
hooks.remove()
print(early(1), early.__code__ is own)
"""

    assert on_3_11(program).splitlines() == [
        "start early 0 {'x': 1, 'y': 2}",
        "return 3 3 1",
        "start early 0 {'x': 5, 'y': 1}",
        "return 2.0 9 gone",
        "start early 0 {'x': 'five', 'y': 2}",
        "return no number 9 gone",
        "3 2.0 no number",
        "3 True",
    ]


def test_a_traceback_through_a_hooked_function_reads_the_same():
    program = """
import json, linecache, traceback

def told():
    try:
        json.loads('{"a": [1, 2')
    except ValueError:
        return traceback.format_exc()

plain = told()
hooks = bytecode_hooks.Hooks()
for function in (json.loads, json.JSONDecoder.decode, json.JSONDecoder.raw_decode):
    hooks.add(function, started=lambda *_: None, returned=lambda *_: None)
print(told() == plain, "decoder.py" in plain)
"""

    assert on_3_11(program) == "True True\n"


def test_what_returns_more_than_once_is_refused():
    program = """
import asyncio
def generator():
    yield
async def coroutine():
    return 1
for function in (generator, coroutine):
    try:
        bytecode_hooks.Hooks().add(function, started=None, returned=print)
    except ValueError as error:
        print(error)
"""

    assert on_3_11(program) == "generator is a generator or a coroutine\ncoroutine is a generator or a coroutine\n"


def test_code_that_was_given_to_a_function_meanwhile_stays():
    program = """
def f():
    return 1
def g():
    return 2
hooks = bytecode_hooks.Hooks()
hooks.add(f, started=None, returned=lambda *_: None)
f.__code__ = g.__code__
hooks.remove()
print(f())
"""

    assert on_3_11(program) == "2\n"
