"""`groundbox repl`: from a pipe, and typed on a terminal."""

import json
import os
import pty
import re
import select
import subprocess
import sys
import time

import pytest

from groundbox.cli.repl import cells, is_complete


def lines_of(text):
    """A reader of lines as `cells` wants one."""
    left = text.split("\n")

    def read_line(_):
        if not left:
            raise EOFError
        return left.pop(0)

    return read_line


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
    assert list(cells(lines_of(text), "python")) == found


def test_cells_of_other_languages_end_with_a_blank_line():
    assert list(cells(lines_of("SELECT 1\nFROM x\n\nSELECT 2"), "sql")) == ["SELECT 1\nFROM x\n", "SELECT 2"]


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
    assert "Timeout: the program was stopped at wall_s=0.5\n" in ran.stderr


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
        (["--waive", "nonsense"], "Invalid value for '--waive': nonsense is no layer; see `groundbox doctor`"),
        (["file.py"], "Got unexpected extra argument (file.py)"),
    ],
)
def test_bad_usage_is_named(command, nothing_left, arguments, message):
    ran = command("repl", *arguments)

    assert (ran.code, ran.stdout, ran.complaint) == (2, "", f"Error: {message}")
    assert nothing_left(ran.pid) is True


class Terminal:
    """A person at a terminal."""

    def __init__(self, *arguments):
        self._ours, its = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "groundbox", *arguments],
            stdin=its,
            stdout=its,
            stderr=its,
            start_new_session=True,
            preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),
        )
        os.close(its)
        self.shown = ""

    def type(self, text, until):
        """Type, and give back what is shown up to `until`.

        A person looks at the prompt before pressing Ctrl-C; readline loses one that comes in the very moment
        between showing the prompt and waiting for keys.
        """
        if text == "\x03":
            time.sleep(0.5)
        os.write(self._ours, text.encode())
        return self.wait(until)

    def wait(self, until):
        """What is shown up to the pattern `until`."""
        deadline = time.monotonic() + 30
        while not (found := re.search(until, self.shown)):
            assert time.monotonic() < deadline, f"{until!r} is not in {self.shown!r}"
            if select.select([self._ours], [], [], 0.1)[0]:
                self.shown += os.read(self._ours, 65536).decode().replace("\r\n", "\n")
        before, self.shown = self.shown[: found.end()], self.shown[found.end() :]
        return before

    def close(self):
        """Wait for the end, by force if need be."""
        try:
            return self.process.wait(10)
        finally:
            self.process.kill()
            self.process.wait()
            os.close(self._ours)


def test_on_a_terminal_ctrl_c_interrupts_and_ctrl_d_ends():
    terminal = Terminal("repl")
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


def test_ctrl_c_twice_gives_a_cell_up():
    terminal = Terminal("repl")
    terminal.wait(">>> ")
    terminal.type("import signal, time; old = signal.signal(signal.SIGINT, signal.SIG_IGN)\n", ">>> ")
    terminal.type("open('f', 'w').write('x'); print('asleep', flush=True); time.sleep(60)\n", r"\nasleep\n")
    os.write(terminal._ours, b"\x03")
    time.sleep(0.3)
    terminal.type("\x03", "groundbox: given up; the process is gone, its files are kept\n>>> ")
    after = terminal.type("open('f').read()\n", r"'x'\n>>> ")
    terminal.type("\x04", r"\n")
    code = terminal.close()

    assert "'x'" in after
    assert code == 0
