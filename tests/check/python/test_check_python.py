"""What `check_python` takes, and what it makes of sources that nobody would write."""

import dataclasses
import itertools
import sys
from typing import Any

import pytest

import groundbox as gb
from groundbox.check import check_python
from groundbox.check.python.check import _findings, _not_looked_at
from groundbox.check.python.flow import MOST_STEPS, Flow, Steps
from groundbox.check.python.program import MOST_SOURCE_CHARS
from groundbox.errors import InvalidArgument

OK = gb.run("print(1)")


def codes(source, **results):
    return [warning.code for warning in check_python(source, dataclasses.replace(OK, **results))]


def test_a_run_that_failed_is_not_looked_at():
    source = "x = 1\nif x is 1:\n    1 / 0"

    assert check_python(source, gb.run(source)) == []


def test_only_python_is_looked_at():
    execution = gb.run("echo 1", language="shell")

    with pytest.raises(InvalidArgument, match="execution: is of a program in 'shell'"):
        check_python("echo 1", execution)


@pytest.mark.parametrize(("source", "execution"), [(None, OK), ("1", None), (b"1", OK)])
def test_other_arguments_are_refused_by_name(source, execution):
    with pytest.raises(InvalidArgument, match="must be"):
        check_python(source, execution)


def test_lines_for_the_shell_are_stepped_over():
    assert codes("%matplotlib inline\n!ls\nx = 1000\nprint(x is 1000)") == ["python.is_literal"]


def test_a_warning_has_its_line_its_names_and_a_hint():
    source = "def f(a, seen=[]):\n    seen.append(a)\n    return seen\nprint(f(1), f(2))"

    (warning,) = check_python(source, OK)

    assert warning.evidence == {"line": 1, "names": ["f", "seen"]}
    assert warning.hint


def test_what_was_right_most_often_comes_first():
    source = "import pandas as pd\ndf = pd.read_csv('x')\nprint(df.a is 5)\ndf['a'][0] = 1"

    assert codes(source) == ["pandas.chained_assignment", "python.is_literal"]


@pytest.mark.parametrize(
    "source",
    [
        "(" * 100_000,
        "x = " + "-" * 100_000 + "1",
        "print(" + "+".join(["1.1"] * 20_000) + " == 0.3)",
        "x = a" + ".b" * 50_000,
        "x = a" + "[0]" * 50_000,
        "if 1:\n a = 1\n" + "".join(f"elif a == {n}:\n a = {n}\n" for n in range(5_000)) + "print(a)",
        "\n" * 200_000 + "(",
        "\0",
        "x = '\ud800'",
        "class A:\n" + "".join(f" def f{n}(self): return self.f{n + 1}()\n" for n in range(3_000)) + "print(A().f0())",
    ],
    ids=lambda source: source[:12].encode("ascii", "backslashreplace").decode(),
)
def test_sources_that_nobody_writes_are_survived(source):
    assert isinstance(check_python(source, OK), list)


@pytest.mark.parametrize(
    "text",
    [
        "x:1: " * 40_000,
        "1." + "0" * 200_000,
        "nan " * 50_000,
        ":1: RuntimeWarning: " + "overflo" * 30_000,
        "\n" * 200_000,
    ],
    ids=["locations", "digits", "nan", "warning", "lines"],
)
def test_output_that_nobody_prints_is_survived(text):
    assert isinstance(codes("price = 1\nprint(price)", stdout=text, stderr=text), list)


def test_what_a_warning_said_is_told_once_and_short():
    stderr = "main.py:1: RuntimeWarning: overflow encountered in " + "x" * 1000 + "\n"

    (warning,) = check_python("print(1)", dataclasses.replace(OK, stderr=stderr * 100))

    assert warning.code == "python.overflow"
    assert len(warning.message) < 300


def test_one_rule_tells_five_places_at_most():
    assert codes("x = 1\n" + "print(x is 5)\n" * 20) == ["python.is_literal"] * 5


@pytest.mark.parametrize(
    "source",
    [
        "try:\n    import numpy\nexcept ImportError:\n    numpy = None\nprint(numpy)",
        "def f(n, memo={}):\n    memo[n] = n\n    return memo\nprint(f(1), f(2))",
        "import random\nrng = random.Random(3)\nprint(rng.random())",
        "grid = [[0, 0], [0, 0]]\ngrid[0][1] = 5\nprint(grid)",
        "import csv\nrows = list(csv.reader(open('x')))\nprint('rows', len(rows))",
        "import pandas as pd\ndf = pd.read_csv('x')\nprint('loaded')",
        "n = 7\nprint(n / 2 == 3.5)",
    ],
)
def test_what_is_common_and_right_is_left_alone(source):
    assert codes(source) == []


def test_each_name_is_looked_at_once_however_often_names_are_bound_to_each_other(monkeypatch):
    asked: Any = []
    assigned = Flow.assigned
    monkeypatch.setattr(Flow, "assigned", lambda self, name: asked.append(name) or assigned(self, name))
    bound = "".join(f"{one} = {other}\n" * 10 for one, other in itertools.pairwise("abcdefghi"))

    assert codes(bound + "a[a > 0]['x'] = 1\nprint(a)") == []
    assert len(asked) < 100  # ten to the power of four when every way to a name is gone


def test_a_frame_is_known_by_each_name_that_it_goes_by():
    source = (
        "import pandas as pd\na = pd.DataFrame(rows)\nb = a.copy()\na = b\nc = b[b > 0]\nd = c\ne = d\nf = e.head()\n"
    )

    assert codes(source + "f[f.x > 0]['y'] = 1\nprint(f)") == ["pandas.chained_assignment"]


def test_the_limit_of_a_source_is_a_limit():
    source = "x = 1000\nprint(x is 1000)\n"

    assert codes(source + "#" * (MOST_SOURCE_CHARS - len(source))) == ["python.is_literal"]
    assert codes(source + "#" * (MOST_SOURCE_CHARS - len(source) + 1)) == ["python.not_looked_at"]


NAMES = "".join(f"{one} = {other}\n" * 300 for one, other in itertools.pairwise("abcd"))
LAMBDA = f"lambda {', '.join(f'x{n}' for n in range(20))}: 0"
HOSTILE = {
    "names bound to names": NAMES + "print(a == 0.1 + 0.2)",
    "names for texts": NAMES.replace("c = d", "c = input()") + "print(a == 5)",
    "branches": "if q:\n a = 1\n" + "elif a:\n a = 1\n" * 700 + "else:\n" + " a = 1\n" * 700,
    "parameters and defaults": f"def f({', '.join(f'a{n}=1' for n in range(600))}): pass\n",
    "functions of one call": f"g({', '.join([LAMBDA] * 120)})",
    "targets": f"({', '.join(f'a[{n}]' for n in range(600))}) = b\n",
    "defaults that may change": f"def f({', '.join(f'a{n}=[]' for n in range(300))}):\n" + " b()\n" * 600,
    "handlers": "try:\n" + " b()\n" * 600 + "except A:\n pass\n" * 300 + "print(b)",
    "places shown": "x = open('f')\n" + "y = y + z\n" * 600 + "print(y)\n" * 199,
}


def counted(work):
    """How often functions were entered, resumed or left, which nothing under test counts."""
    events = itertools.count()
    sys.setprofile(lambda *_: next(events))
    try:
        work()
    finally:
        sys.setprofile(None)
    return next(events)


@pytest.mark.parametrize("name", HOSTILE)
def test_looking_at_a_program_takes_a_number_of_steps_and_not_more(name):
    most = 50_000
    steps = Steps(most)
    told = []

    events = counted(lambda: told.extend(_findings(HOSTILE[name], OK, steps)))

    assert steps.taken <= most
    assert told[-1:] == [_not_looked_at(f"that would take more than {MOST_STEPS} steps")]
    assert events < 40 * most  # those of isinstance and the like are among them
