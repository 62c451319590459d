"""`groundbox trace`."""

import json

import pytest

from groundbox.trace.record.reading import Trace

SOURCE = "def double(n):\n    m = n * 2\n    return m\n\nprint('hi')\n"


@pytest.fixture
def program(command):
    (command.folder / "p.py").write_text(SOURCE)
    return "p.py"


def test_a_program_is_shown_step_by_step(command, program):
    ran = command("trace", program)

    assert (ran.code, ran.stdout) == (
        0,
        "1 def double(n):  double = <function double>\n5 print('hi')     prints 'hi\\n'\n",
    )
    assert "groundbox: 7 records\n" in ran.stderr


@pytest.mark.parametrize("arguments", ["[4]", '{"n": 4}'])
def test_a_function_is_called(command, program, arguments):
    ran = command("trace", program, "--call", "double", "--args", arguments)

    assert ran.code == 0
    assert "→ double(n=4)\n2     m = n * 2   m = 8\n3     return m\n  ← 8\n" in ran.stdout


def test_a_trace_that_was_written_is_shown_again(command, program):
    first = command("trace", program, "--json", "t.jsonl")

    again = command("trace", "t.jsonl", "--form", "concise")

    assert (first.code, first.stdout, again.code) == (0, "", 0)
    assert again.stdout.startswith("1 def double(n):: double = <function double>\n")
    assert Trace.loads((command.folder / "t.jsonl").read_bytes()).complete


def test_a_page_is_written(command, program):
    ran = command("trace", program, "--html", "t.html")

    assert (ran.code, ran.stdout) == (0, "")
    assert "groundbox: wrote t.html\n" in ran.stderr
    assert (command.folder / "t.html").read_text().startswith("<!doctype html>")


def test_a_program_from_stdin_is_traced(command):
    ran = command("trace", "-", "--form", "scratchpad", stdin=b"x = 1\n")

    assert (ran.code, ran.stdout) == (0, "call <module>()\nline 1: x = 1\nstate: x = 1\nreturn None\n")


def test_a_program_that_fails_is_shown_and_fails(command):
    ran = command("trace", "-", stdin=b"x = [1]\nx[3]\n")

    assert (ran.code, ran.stdout.splitlines()[1]) == (1, "2 x[3]     raises IndexError('list index out of range')")
    assert "IndexError: list index out of range" in ran.stderr


def test_a_trace_that_is_not_complete_says_so(command):
    ran = command("trace", "-", "--max-events", 50, "--soft-events", 1000, stdin=b"n = 0\nwhile n < 99:\n    n += 1\n")

    assert "groundbox: this trace is not complete: the trace reached max_events=50" in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["no.py"], "Error: Invalid value for 'FILE': 'no.py' cannot be read: No such file or directory"),
        (["no.jsonl"], "Error: Invalid value for 'PROGRAM': 'no.jsonl' cannot be read: No such file or directory"),
        (
            ["bad.jsonl"],
            "Error: Invalid value for 'PROGRAM': 'bad.jsonl' is no trace that can be used: line 1 of the trace: "
            "this is no header of a trace: JSON is malformed: invalid character (byte 4); make it anew",
        ),
        (
            ["p.py", "--args", "[1]"],
            "Error: Invalid value for '--args': there is nothing to pass arguments to; name a function with --call",
        ),
        (
            ["p.py", "--call", "double", "--args", "4"],
            "Error: Invalid value for '--args': must be a list or an object, not 4; write [4]",
        ),
        (["p.py", "--html", "no/t.html"], "there is no folder"),
        (
            ["bad.jsonl", "--call", "f"],
            "Error: Invalid value for '--call': 'bad.jsonl' is a trace made before; name a program to run it again",
        ),
        (["p.py", "--form", "poem"], "Error: Invalid value for '--form': 'poem' is not one of"),
    ],
)
def test_bad_usage_names_the_argument_and_the_mend(command, program, arguments, complaint):
    (command.folder / "bad.jsonl").write_text("nothing\n")

    ran = command("trace", *arguments)

    assert (ran.code, ran.stdout) == (2, "")
    assert complaint in " ".join(ran.complaint.split())


def test_the_written_trace_is_json_lines(command, program):
    command("trace", program, "--json", "t.jsonl")

    lines = (command.folder / "t.jsonl").read_text().splitlines()

    assert [json.loads(line)["k"] for line in lines] == [
        "header",
        "call",
        "line",
        "set",
        "line",
        "out",
        "return",
        "end",
    ]
