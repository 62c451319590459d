"""A language is known by the names that people and fenced blocks have for it, wherever one is named."""

import asyncio

import pytest

import groundbox as gb
from groundbox.agent.mcp import checked_arguments
from groundbox.agent.messages import Reply
from groundbox.agent.reply import steps_of
from groundbox.cli import program
from groundbox.errors import InvalidArgument
from groundbox.sandbox import languages

NAMES = {
    "python": ("py", "python3", "Python", " python ", "ipython", "ipython3"),
    "shell": ("bash", "sh", "Bash", "SHELL", "shell-script"),
    "javascript": ("js", "node", "nodejs", "JavaScript", "Node.js", "cjs", "ECMAScript"),
    "dot": ("graphviz", "gv", "DOT"),
    "sql": ("SQL",),
}
PAIRS = [(name, own) for own, names in NAMES.items() for name in (own, *names)]


@pytest.mark.parametrize(("name", "own"), PAIRS)
def test_people_name_a_language_as_they_know_it(name, own):
    assert languages.named(name) == own
    assert languages.find(name) is languages.find(own)


def test_python_runs_what_is_called_bash_and_says_shell():
    with gb.Sandbox() as box:
        ran = [box.run("echo hello", language="bash"), *(e.execution for e in box.stream("echo hello", language="sh"))]
    last = gb.run("print('hello')", language="py", mode="script")

    told = [(execution.language, execution.stdout) for execution in (ran[0], ran[-1], last)]
    assert told == [("shell", "hello\n"), ("shell", "hello\n"), ("python", "hello\n")]


async def _awaited():
    async with gb.AsyncSandbox() as box:
        return await box.run("2 + 3", language="Python3", trace=True)


def test_what_python_is_called_does_not_hinder_its_tracer():
    assert asyncio.run(_awaited()).trace.complete


def test_the_command_line_runs_what_is_called_bash(command):
    ran = command("run", "--language", "bash", "-c", "echo hello")

    assert (ran.code, ran.stdout) == (0, "hello\n")


@pytest.mark.parametrize(
    ("first", "language"),
    [("#!/bin/bash", "shell"), ("#!/usr/bin/env -S bash -e", "shell"), ("#!/bin/sh", "shell"),
     ("#!/usr/bin/env node", "javascript"), ("#!/usr/bin/python3.12 -u", "python"), ("#!/usr/bin/perl", "python"),
     ("# bash", "python")],
)  # fmt: skip
def test_a_file_without_an_ending_is_what_its_first_line_names(tmp_path, first, language):
    (tmp_path / "program").write_text(f"{first}\necho hello\n")

    found = program.find([str(tmp_path / "program")], None, language=None, mode=None, stdin=None)

    assert found.language == language


@pytest.mark.parametrize(
    ("name", "says"),
    [("a.ipynb", "is a notebook; `jupyter nbconvert --to script`"), ("a.rb", "ends like no program that runs here")],
)
def test_what_is_no_program_here_is_not_taken_for_python(command, tmp_path, name, says):
    (tmp_path / name).write_text("{}\n")

    ran = command("run", str(tmp_path / name))

    assert ran.code == 2
    assert says in ran.complaint


def test_a_repl_of_py_is_one_of_python(command):
    ran = command("repl", "--language", "py", stdin=b"def f():\n    return 5\n\nf()\n")

    assert (ran.code, ran.stdout) == (0, "5\n")


def test_models_name_languages_so_in_fences_and_in_calls():
    (step,) = steps_of(Reply(text="```bash\necho 1\n```"), {"shell"})

    assert step.language == "shell"
    assert checked_arguments("run_code", {"code": "1", "language": "Bash"})["language"] == "shell"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("sqlite3", "it is `sql` with the dialect `sqlite`"),
        ("DuckDB", "it is `sql` with the dialect `duckdb`"),
        ("postgresql", "it is `sql` with a database of the sandbox (docs/sql.md)"),
        ("pyhton", "did you mean `python`?"),
        ("bsah", "did you mean `shell`?"),
        ("javscript", "did you mean `javascript`?"),
    ],
)
def test_what_was_meant_by_an_unknown_language_is_named(name, meant):
    with pytest.raises(InvalidArgument) as refused:
        languages.find(name)

    assert str(refused.value).endswith(f"shell, sql; {meant}")


def test_an_unknown_language_lists_those_that_there_are():
    with pytest.raises(InvalidArgument, match="'cobol' is not known here; there is: dot, javascript, python"):
        gb.run("1", language="cobol")
