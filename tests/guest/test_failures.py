"""What a failure says: the program's own frames, its values, and nothing the program can break."""

import pytest


def test_the_program_s_frames_are_shown_and_library_frames_counted(run_cells):
    ran = run_cells("import json\n\ndef read(text):\n    return json.loads(text)\n\nread('{')")

    error = ran.error
    library = next(line for line in error["traceback"].splitlines() if "…" in line)
    assert (error["type"], error["line"], error["locals"]) == ("JSONDecodeError", 4, {"text": "'{'"})
    assert error["traceback"].splitlines()[-1] == f"json.decoder.JSONDecodeError: {error['message']}"
    assert library == "  … 3 frames in json"
    assert 'File "<cell 1>", line 4, in read\n    return json.loads(text)\n' in error["traceback"]
    assert "groundbox" not in error["traceback"]


def test_carets_stand_under_the_failing_expression(run_cells):
    ran = run_cells("x = 1/0")

    assert ran.error["traceback"].splitlines()[-3:] == [
        "    x = 1/0",
        "        ~^~",
        "ZeroDivisionError: division by zero",
    ]


def test_the_line_is_of_the_source_that_ran(run_cells):
    ran = run_cells("def f(d):\n\n    return d['a']", "x = 1\nf({'b': x})")

    assert (ran.error["line"], ran.error["locals"]) == (2, {"d": "{'b': 1}"})
    assert '  File "<cell 1>", line 3, in f' in ran.error["traceback"]


def test_a_syntax_error_has_line_and_caret(run_cells):
    ran = run_cells("x = 1\ny = (2")

    assert ran.error == {
        "type": "SyntaxError",
        "message": "'(' was never closed",
        "line": 2,
        "traceback": "  File \"<cell 1>\", line 2\n    y = (2\n        ^\nSyntaxError: '(' was never closed",
        "locals": {},
        "hints": [],
    }


def test_two_exceptions_of_a_chain_are_told_and_the_others_counted(run_cells):
    source = (
        "try:\n  try:\n    try: 1/0\n    except Exception: {}['a']\n"
        "  except Exception as e: raise TypeError('second') from e\n"
        "except Exception as e: raise ValueError('last')"
    )

    traceback = run_cells(source).error["traceback"]

    told = [line for line in traceback.splitlines() if line[:1].strip() and "Traceback" not in line]
    assert told == [
        "(2 earlier exceptions left out)",
        "TypeError: second",
        "While handling it, another happened:",
        "ValueError: last",
    ]


def test_groups_tell_their_members(run_cells):
    ran = run_cells("raise ExceptionGroup('both', [ValueError('a'), KeyError('b')])")

    assert ran.error["traceback"].splitlines()[-5:] == [
        "ExceptionGroup: both (2 sub-exceptions)",
        "  [1]",
        "    ValueError: a",
        "  [2]",
        "    KeyError: 'b'",
    ]


def test_endless_recursion_is_told_in_a_few_lines(run_cells):
    ran = run_cells("def f(n):\n    return f(n + 1)\nf(0)", "def a(): b()\ndef b(): a()\na()")

    direct, mutual = (result["error"] for result in ran.results)
    assert direct["type"] == mutual["type"] == "RecursionError"
    assert "  … the same line 9" in direct["traceback"]
    assert "frames left out" in mutual["traceback"]
    assert len(direct["traceback"]) < 1000
    assert len(mutual["traceback"]) < 3000


@pytest.mark.parametrize(
    ("definition", "shown"),
    [
        ("class X:\n    def __repr__(self): raise ValueError", "<X object; its repr raised ValueError>"),
        ("class X:\n    def __repr__(self):\n        while True: pass", "<its repr took longer than 0.25 s>"),
        (
            "class X:\n    def __repr__(self):\n        while True:\n"
            "            try: 1\n            except BaseException: pass",
            "<its repr took longer than 0.25 s>",
        ),
        ("class X:\n    def __repr__(self): return 'y' * 1000", "y" * 400 + "… (1000 characters)"),
        ("X = lambda: list(range(100))", "[0, 1, 2, 3, 4, 5, … 94 more]"),
        ("X = lambda: 10 ** 5000", "<int of 16610 bits>"),
        ("X = lambda: 'z' * 300", "'" + "z" * 100 + "'… (300 characters)"),
        ("X = lambda: {'a': {'b': {'c': {}}}}", "{'a': {'b': {… 1 items}}}"),
    ],
)
def test_values_on_the_failing_line_are_short_whatever_they_are(run_cells, definition, shown):
    ran = run_cells(f"{definition}\nvalue = X()", "value.nothing")

    assert ran.error["locals"] == {"value": shown}


def test_tables_and_arrays_are_told_by_shape(run_cells):
    ran = run_cells(
        "import pandas as pd, numpy as np\ndf = pd.DataFrame({'a': [1, 2]}); a = np.zeros((2, 2))",
        "df.a + a.nothing",
        needs=("pandas",),
    )

    assert ran.error["locals"] == {
        "df": "DataFrame, 2 rows × 1 columns: a (int64)",
        "a": "ndarray, shape (2, 2), float64: [[0.0, 0.0], [0.0, 0.0]]",
    }


@pytest.mark.parametrize(
    "source",
    [
        "class E(Exception):\n    def __str__(self): raise ValueError\nraise E",
        "class E(Exception):\n    def __str__(self): return 5\nraise E",
        "class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E",
        "class E(BaseException): pass\nraise E('x')",
        "class E(Exception):\n    __class__ = property(lambda self: 1/0)\nraise E('x')",
        "class M(type): __name__ = property(lambda s: 1/0)\nclass E(Exception, metaclass=M): pass\nraise E",
        "class E(SyntaxError): pass\nraise E('x', ('<cell 1>', 'line', {}, 5))",
        "class E(AttributeError):\n    name = property(lambda s: 1/0)\nraise E('x')",
    ],
)
def test_exceptions_that_misbehave_are_errors_like_any_other(run_cells, source):
    ran = run_cells(source, "1")

    assert ran.results[0]["error"]["type"] == "E"
    assert ran.results[1]["value"] == {"text/plain": "1"}


def test_memory_that_is_not_there_is_an_error(run_cells):
    ran = run_cells("x = bytearray(1 << 60)", "1")

    assert (ran.results[0]["error"]["type"], ran.results[0]["error"]["hints"]) == (
        "MemoryError",
        [
            "The memory limit is reached (limits.memory_bytes): read in chunks, load fewer columns, "
            "use smaller types, or `del` what is no longer needed. Files in the workdir and /tmp count, too."
        ],
    )


def test_lines_are_told_even_if_the_program_clears_the_line_cache(run_cells):
    ran = run_cells("def f():\n    return 1/0", "import linecache\nlinecache.clearcache()", "f()")

    assert "return 1/0" in ran.error["traceback"]
