"""`groundbox repl`: from a pipe, and typed on a terminal."""

import json
import time

import pytest

from groundbox.cli.cells import cells, is_complete
from groundbox.sandbox.engine import _WAIVABLE

LAYERS = ", ".join(sorted(_WAIVABLE))


class Lines:
    """Lines as `cells` wants them.

    Attributes:
        at_once: Whether each is there before the one ahead of it is answered, as in a paste.
    """

    def __init__(self, text, *, at_once=False):
        self._left, self._at_once = text.split("\n"), at_once

    def read(self, goes_on):
        if not self._left:
            raise EOFError
        return self._left.pop(0)

    def peek(self):
        return next(filter(str.strip, self._left), None) if self._at_once else None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x = 1\nx", ["x = 1", "x"]),
        ("\n\n  \nx", ["x"]),
        ("def f():\n    return 1\n\nf()", ["def f():\n    return 1\n", "f()"]),
        ("x = (1,\n\n2)\nx", ["x = (1,\n\n2)", "x"]),
        ("'''a\n\nb'''\n1", ["'''a\n\nb'''", "1"]),
        ("await f()\n1", ["await f()", "1"]),
        ("%%time\nx = 1\ny\n\n!ls\n%who", ["%%time\nx = 1\ny\n", "!ls", "%who"]),
        ("x = = 1\n2", ["x = = 1", "2"]),
        ("for i in y:\n    i", ["for i in y:\n    i"]),
        ("1\nquit()\n2", ["1"]),
    ],
)
def test_cells_end_where_the_prompt_of_python_would_end_them(text, found):
    assert list(cells(Lines(text), "python")) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def f():\n    a = 1\n\n    return a\n\nf()", ["def f():\n    a = 1\n\n    return a\n", "f()"]),
        ("class A:\n    a = 1\n\n\n    def b(self):\n\n        pass\n\nA", None),
        ("if a:\n    b\n\nelse:\n    c\n\nd", ["if a:\n    b\n\nelse:\n    c\n", "d"]),
        ("x = 1\n\nx", ["x = 1", "x"]),
        ("for i in a:\n    i\n\n\nx", ["for i in a:\n    i\n", "x"]),
    ],
)
def test_a_blank_line_within_a_paste_ends_nothing(text, found):
    found = found or [text.removesuffix("\nA"), "A"]

    assert list(cells(Lines(text, at_once=True), "python")) == found


def test_a_cell_of_javascript_ends_when_its_brackets_are_closed():
    text = "function f() { // {\n  return '}';\n\n}\n\nf()"

    assert list(cells(Lines(text), "javascript")) == ["function f() { // {\n  return '}';\n\n}\n", "f()"]


def test_cells_of_other_languages_end_with_a_blank_line():
    assert list(cells(Lines("SELECT 1\nFROM x\n\nSELECT 2"), "sql")) == ["SELECT 1\nFROM x\n", "SELECT 2"]


@pytest.mark.parametrize("source", ["(" * 5000, "-" * 60_000 + "1", "\0", "x" * 100_000 + "\n"])
def test_what_cannot_be_parsed_is_complete(source):
    assert is_complete(source) in (True, False)


def test_a_pipe_keeps_state_and_goes_on_after_a_failure(command, nothing_left):
    ran = command("repl", stdin=b"x = 20\ndef twice(n):\n    return 2 * n\n\n1/0\nprint('to', end=' ')\ntwice(x) + 2\n")

    assert (ran.code, ran.stdout) == (1, "to \n42\n")
    assert ran.stderr.splitlines()[0] == "Traceback (most recent call last):"
    assert ran.stderr.splitlines()[-1] == "ZeroDivisionError: division by zero"
    assert nothing_left(ran.pid) is True


def test_a_pipe_without_failures_ends_with_0(command):
    ran = command("repl", stdin=b"1 + 1")

    assert (ran.code, ran.stdout, ran.stderr) == (0, "2\n", "")


def test_json_is_one_line_for_each_cell(command):
    ran = command("repl", "--json", stdin=b"x = 1\nx + 1\n")

    outcomes = [(json.loads(line)["outcome"], json.loads(line)["value"]) for line in ran.stdout.splitlines()]
    assert (ran.code, ran.stderr) == (0, "")
    assert outcomes == [("ok", None), ("ok", {"text/plain": "2"})]


def test_a_process_that_ended_is_replaced_and_the_files_stay(command):
    cells = b"kept = open('kept.txt', 'w').write('file')\nimport os; os._exit(5)\nopen('kept.txt').read()\nkept\n"

    ran = command("repl", stdin=cells)

    assert ran.stdout == "'file'\n"
    assert ran.code == 1
    assert "groundbox: the process is gone and its variables with it; its files are kept\n" in ran.stderr
    assert "NameError: name 'kept' is not defined\n" in ran.stderr


def test_options_of_the_language_are_those_of_every_cell(command):
    cells = b"CREATE TABLE t AS SELECT sqlite_version() > '3' AS s\n\nSELECT s FROM t\n"

    ran = command("repl", "--language", "sql", "--option", "dialect=sqlite", stdin=cells)

    assert (ran.code, ran.stdout.splitlines()[4].strip()) == (0, "1")


def test_limits_are_those_of_run(command):
    ran = command("repl", "--wall-s", "0.5", stdin=b"n = 7\nwhile True: pass\n\nn\n")

    assert ran.stdout == "7\n"
    assert "Timeout: the program was stopped at --wall-s 0.5\n" in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--language", "cobol"],
            "Invalid value for '--language': 'cobol' is not known here; there is: dot, javascript, python, shell, sql",
        ),
        (
            ["--language", "sql", "--option", "dialect=oracle"],
            "Invalid value for '--option dialect': 'oracle' is none of 'duckdb' and 'sqlite'",
        ),
        (
            ["--waive", "nonsense"],
            "Invalid value for '--waive': nonsense is not a layer that can be waived; choose among " + LAYERS,
        ),
        (["file.py"], "Got unexpected extra argument (file.py)"),
    ],
)
def test_bad_usage_is_named(command, nothing_left, arguments, message):
    ran = command("repl", *arguments)

    assert (ran.code, ran.stdout, ran.complaint) == (2, "", f"Error: {message}")
    assert nothing_left(ran.pid) is True


def test_on_a_terminal_ctrl_c_interrupts_and_ctrl_d_ends(terminal):
    terminal = terminal("repl")
    terminal.wait(">>> ")
    terminal.type("kept = 5\n", ">>> ")
    asked = terminal.type("for i in range(2):\n", r"\.\.\. ")
    terminal.type("    print('round', i)\n", r"\.\.\. ")
    shown = terminal.type("\n", ">>> ")
    terminal.type("import time; print('asleep', flush=True); time.sleep(60)\n", r"\nasleep\n")
    interrupted = terminal.type("\x03", ">>> ")
    terminal.type("half = (1,\n", r"\.\.\. ")
    dropped = terminal.type("\x03", ">>> ")
    after = terminal.type("kept\n", r"5\n>>> ")
    terminal.type("\x04", r"\n")
    code = terminal.close()

    assert "for i in range(2):" in asked
    assert "round 0\nround 1\n" in shown
    assert "line 1, in <module>" in interrupted
    assert "\nKeyboardInterrupt\n" in interrupted
    assert "half" not in dropped
    assert "5" in after
    assert code == 0


def test_ctrl_c_twice_gives_a_cell_up(terminal):
    terminal = terminal("repl")
    terminal.wait(">>> ")
    terminal.type("import signal, time; old = signal.signal(signal.SIGINT, signal.SIG_IGN)\n", ">>> ")
    terminal.type("open('f', 'w').write('x'); print('asleep', flush=True); time.sleep(60)\n", r"\nasleep\n")
    terminal.send("\x03")
    time.sleep(0.3)
    terminal.type("\x03", "groundbox: given up; the process is gone, its files are kept\n>>> ")
    after = terminal.type("open('f').read()\n", r"'x'\n>>> ")
    terminal.type("\x04", r"\n")
    code = terminal.close()

    assert "'x'" in after
    assert code == 0
