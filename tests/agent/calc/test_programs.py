"""Straight-line programs give the bytes that CPython gives, or are for the sandbox."""

import ast
import contextlib
import io
import random
import subprocess
import sys
import tracemalloc
from typing import Any

import pytest

from groundbox.agent.calc import programs
from groundbox.agent.calc.programs import run
from groundbox.agent.calc.straight import NotArithmetic


def cpython(source):
    """What Python prints, and the value of the last expression, as a cell shows it."""
    tree, out, names = ast.parse(source), io.StringIO(), {}
    last = tree.body[-1] if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    body = tree.body[:-1] if last else tree.body
    with contextlib.redirect_stdout(out):
        exec(compile(ast.Module(body, []), "p", "exec"), names)
        value = eval(compile(ast.Expression(last.value), "p", "eval"), names) if last else None
    return out.getvalue(), None if value is None else repr(value)


class Maker:
    """Makes programs, the same for the same seed."""

    def __init__(self, seed):
        self.random, self.names = random.Random(seed), []

    def program(self):
        lines = ["import math"] if self.random.random() < 0.3 else []
        self.math = bool(lines)
        for _ in range(self.random.randint(1, 8)):
            lines.append(self.statement())
        if self.random.random() < 0.5:
            lines.append(self.expression(3))
        return "\n".join(lines)

    def statement(self):
        kind = self.random.randrange(6)
        if kind == 0 and self.names:
            return f"{self.random.choice(self.names)} {self.random.choice(['+=', '-=', '*='])} {self.expression(2)}"
        if kind == 1:
            values = ", ".join(self.expression(2) for _ in range(self.random.randint(1, 3)))
            return f"print({values}, sep={self.random.choice([' ', '-', ''])!r})"
        if kind == 2:
            spec = self.random.choice(["", ":.2f", ":,", ":>10", ":e", ":08.3f", "!r", "=", ":+", ":.1%"])
            return f"print(f'got {{{self.expression(1)}{spec}}} ok')"
        name = self.random.choice("abcdxyz")
        line = f"{name} = {self.expression(3)}"
        self.names.append(name)
        return line

    def expression(self, depth):
        kind = self.random.randrange(10) if depth else 0
        if kind < 3:
            return self.atom()
        one, other = self.expression(depth - 1), self.expression(depth - 1)
        if kind < 6:
            return f"({one} {self.random.choice(['+', '-', '*', '/', '//', '%'])} {other})"
        if kind == 6:
            return f"({one} ** {self.random.choice([0, 1, 2, 3, 0.5, -1])})"
        if kind == 7:
            return f"{self.random.choice(['min', 'max'])}({one}, {other})"
        if kind == 8:
            return f"round({one}, {self.random.randint(-2, 4)})"
        if self.math:
            return f"math.{self.random.choice(['floor', 'ceil', 'sqrt', 'fabs'])}({one})"
        return f"({one} if {other} > 2 else {self.random.choice(['abs', 'int', 'float', '-', 'not '])}({one}))"

    def atom(self):
        if self.names and self.random.random() < 0.5:
            return self.random.choice(self.names)
        return repr(self.random.choice([0, 1, 2, 3, 7, 12, 100, 999, 10**20, 0.1, 0.5, 2.675, 3.3, 1e16, 1e-7, 1e22]))


def test_programs_by_chance_print_what_cpython_prints():
    same = 0
    for seed in range(3000):
        source = Maker(seed).program()
        try:
            finished = run(source)
        except NotArithmetic:
            continue
        assert (finished.stdout, finished.value) == cpython(source), source
        same += 1

    assert same > 1500


@pytest.mark.parametrize(
    "source",
    [
        "def solution():\n    '''How'''\n    eggs = 16\n    left = eggs - 7\n    return left * 2\nprint(solution())",
        "a, b = 3, 4\na, b = b, a\nprint(a, b)\n(a, b)[:1] if False else a",
        "x = y = 2.5\nx += 1\nprint(round(x), round(y), x == y, not x)",
        "total = 0\ntotal = total + 7\nprint('Total: ' + str(total))\ntotal",
        "from math import pi, floor\nr = 2\nprint(f'{pi * r ** 2:.3f} {floor(pi)}')",
        "print(sum([1, 2, 3]), max((4, 5)), len('abc'), bool(0), int(-2.5), float(3))",
        "x: int = 5\nx if x > 3 else 0",
        "q, r = divmod(7, 2)\nprint(q, r, sum((q, r)))",
        "n = 2 ** 1000\nn",
        "print(-0.0, 1e400, -1e400, 1e400 - 1e400)",
        "print()\nprint('a', end='')\nprint('b')",
        "'text'",
        "None",
    ],
)
def test_a_program_prints_what_cpython_prints(source):
    try:
        finished = run(source)
    except NotArithmetic:
        assert "[:1]" in source
        return

    assert (finished.stdout, finished.value) == cpython(source)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("for i in range(3): print(i)", "For"),
        ("x = [i for i in (1, 2)]", "ListComp"),
        ("import os", "imports more"),
        ("import math as m", "imports more"),
        ("open('x')", "open is not|not known"),
        ("(1).__class__", "__class__"),
        ("x = 1 / 0", "ZeroDivisionError"),
        ("y", "not assigned"),
        ("(-8) ** 0.5", "complex"),
        ("10 ** 10000", "bits"),
        ("x = 9 ** 999\nx = x * x * x", "bits"),
        ("'a' * 10", "more than numbers"),
        ("'%s' % 3", "more than numbers"),
        ("sum([0.1] )", "version"),
        ("round(5, -10 ** 9)", "many places"),
        ("print(f'{1:999999999}')", "format"),
        ("print(1, file=3)", "elsewhere"),
        ("x = 1;", "semicolon"),
        ("print('\\d')", "escape"),
        ("print = 3", "another meaning"),
        ("sum = 3", "another meaning"),
        ("def f(x): return x", "parameters"),
        ("def f(): return f()\nf()", "call each other"),
        ("lambda: 3", "Lambda"),
        ("x = 3j", "complex"),
        ("1 + 'a'", "more than numbers"),
        ("%time 3", "parse"),
        ("-" * 19_999 + "1", "parse|deep"),
        ("(" * 9_000, "parse"),
        ("x = 1\n" * 3000, "long"),
        ("a" * 20_001, "characters"),
        ("if True: x = 1", "If"),
        ("x = yield 3", "parse|Yield"),
        ("print(chr(55296))", "not known"),
        ("x = ((1, 2), 3)", "in another"),
        ("x = [[1]]", "in another"),
        ("x = (1, 2)\nx == 3", "compares"),
        ("x = 3 < [1]", "compares"),
        ("print((1, 2))", "writes"),
        ("x = str([1, 2])", "writes"),
        ("print(f'{(1, 2)}')", "formats"),
        ("(1, 2)", "no number"),
    ],
)
def test_everything_else_is_for_the_sandbox(source, reason):
    with pytest.raises(NotArithmetic, match=reason):
        run(source)


def test_functions_that_call_each_other_many_times_end():
    calls = "\n".join(f"def f{n}(): return f{n - 1}() + f{n - 1}()" for n in range(1, 30))

    with pytest.raises(NotArithmetic, match="steps|call each other"):
        run(f"def f0(): return 1\n{calls}\nf18()")


def test_a_name_of_a_function_is_its_own():
    source = "x = 1\ndef f():\n    x = 2\n    return x + 1\nprint(f(), x)"

    assert run(source).stdout == "3 1\n" == cpython(source)[0]


def test_a_limit_is_a_limit():
    assert run(f"x = 2 ** {programs.MOST_BITS - 1}").names["x"].bit_length() == programs.MOST_BITS
    with pytest.raises(NotArithmetic):
        run(f"x = 2 ** {programs.MOST_BITS}")


TOWER = "x = (1,)\ny = (1,)\n" + "x = (x, x)\ny = (y, y)\n" * 60


@pytest.mark.parametrize("last", ["print(x)", "print(x == y)", "a = x < y", "a = str(x)", "print(f'{x}')", "x"])
def test_tuples_of_tuples_do_not_keep_the_host_busy(last):
    """In a process of its own, because without the limit the walk never ends."""
    source = f"from groundbox.agent.calc.programs import run\nrun({TOWER + last!r})"

    ended = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=False)

    assert ended.stderr.rstrip().endswith("NotArithmetic: it has a tuple or a list in another")


@pytest.mark.parametrize(
    "body",
    [
        "    pass\n" * 1_000 + "    return 1",
        "    " + "a = " * 1_000 + "1\n    return 1",
        "    " + ", ".join(["a"] * 1_000) + " = t\n    return 1",
        "    return sum(t)",
        "    return max(t)",
    ],
    ids=["pass", "targets", "taken apart", "sum", "max"],
)
def test_all_that_a_function_does_counts_as_steps(body):
    source = f"t = ({', '.join(['1'] * 1_000)})\ndef f():\n{body}\n"

    assert run(source + "f()\n" * 10).stdout == ""
    with pytest.raises(NotArithmetic, match="steps"):
        run(source + "f()\n" * 30)


def test_a_function_is_looked_through_once(monkeypatch):
    walked: Any = []
    walk = ast.walk
    monkeypatch.setattr(ast, "walk", lambda node: walked.append(node) or walk(node))

    run("def f():\n    x = 1\n    return x\n" + "f()\n" * 100)

    assert len(walked) == 1


def test_a_long_text_is_refused_before_it_is_made():
    source = f"x = '{'a' * 10_000}'\ny = f'{'{x}' * 900}'"
    tracemalloc.start()

    with pytest.raises(NotArithmetic, match="long text"):
        run(source)

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000  # the text would have nine million characters
