"""Magics, shell commands and help: what models write because notebooks have it."""

import pytest


def test_commands_write_to_the_program_s_own_output_in_order(run_cells):
    ran = run_cells("name = 'x'\nprint('before')\n!echo {name} $name\nprint('after')", ipython=True)

    assert ran.stdout == "before\nx x\nafter\n"


def test_a_command_s_lines_can_be_kept(run_cells):
    ran = run_cells("rows = !printf 'a\\nb\\n'\nlist(rows)", ipython=True)

    assert ran.value == {"text/plain": "['a', 'b']"}


def test_lines_count_as_written_where_magics_stand_between(run_cells):
    ran = run_cells("\n\n%pwd\n!true\n1/0", ipython=True)

    assert (ran.error["type"], ran.error["line"]) == ("ZeroDivisionError", 5)


@pytest.mark.parametrize(
    "source",
    [
        "%matplotlib inline",
        "%config InlineBackend.figure_format = 'retina'",
        "%load_ext autoreload\n%autoreload 2",
    ],
)
def test_settings_of_notebooks_are_accepted_quietly(run_cells, source):
    ran = run_cells(source + "\n1", ipython=True)

    assert (ran.value, ran.stdout, ran.stderr) == ({"text/plain": "1"}, "", "")


def test_cell_magics_run_and_their_errors_are_the_cell_s(run_cells):
    ran = run_cells(
        "%%bash\necho in bash",
        "%%writefile m.py\ndef g(d):\n    return d['a']\n",
        "import m\nm.g({'b': 1})",
        "%%capture out\nprint('kept')",
        "out.stdout",
        "%%capture\n1/0",
        ipython=True,
    )

    assert ran.stdout == "in bash\nWriting m.py\n"
    assert (ran.results[2]["error"]["type"], ran.results[2]["error"]["locals"]) == (
        "KeyError",
        {"d": "{'b': 1}"},
    )
    assert ran.results[4]["value"] == {"text/plain": "'kept\\n'"}
    assert ran.results[5]["error"]["type"] == "ZeroDivisionError"


def test_help_goes_to_standard_output(run_cells):
    ran = run_cells("def f(a):\n    'Adds nothing.'", "f?", ipython=True)

    assert "Signature: f(a)" in ran.stdout
    assert "Adds nothing." in ran.stdout


def test_an_unknown_magic_is_an_error(run_cells):
    ran = run_cells("%nothing_of_this_name", ipython=True)

    assert (ran.error["type"], ran.error["line"]) == ("UsageError", 1)


@pytest.mark.parametrize("line", ["%pip install nothing", "pip install nothing"])
def test_pip_without_a_network_says_which_setting_allows_it(run_cells, line):
    ran = run_cells(f"{line} --retries 1 --no-cache-dir --isolated --index-url http://127.0.0.1:9/simple", ipython=True)

    assert (ran.error["type"], ran.error["hints"]) == (
        "PipFailed",
        [
            "pip could not reach its package index. The network is off in this sandbox, and an address cannot be "
            'allowed: name the host instead, as in Network(allow=["example.org"]). Or use a package that is installed.'
        ],
    )
    assert ran.error["traceback"].endswith("\nPipFailed: pip ended with status 1")


@pytest.mark.parametrize(
    ("source", "command", "status"),
    [
        ("!false", "false", 1),
        ("rows = !ls  /nothing-here", "ls /nothing-here", 2),
        ("!!exit 7", "exit 7", 7),
        ("%%sx\nexit 7", "exit 7", 7),
        ("!kill -9 $$", "kill -9 $$", -9),
        ("!nothing_of_this_name", "nothing_of_this_name", 127),
    ],
)
def test_a_command_that_fails_in_a_cell_that_ends_well_is_reported(run_cells, source, command, status):
    ran = run_cells(source, "1", ipython=True)

    failed, after = ran.results
    assert failed["error"] is None
    assert failed["failed_commands"] == [{"command": command, "status": status, "hint": ""}]
    assert "failed_commands" not in after


def test_failed_commands_are_bounded_however_many_and_long_they_are(run_cells):
    ran = run_cells("for i in range(20):\n    get_ipython().system('false ' + 'x' * 5000)", ipython=True)

    told = ran.last["failed_commands"]
    assert (len(told), max(len(each["command"]) for each in told)) == (8, 200)


@pytest.mark.parametrize("source", ["!pip install nothing", "!{sys.executable} -m pip install nothing"])
def test_a_failed_pip_command_says_why(run_cells, source):
    options = "--retries 1 --no-cache-dir --isolated --index-url http://127.0.0.1:9/simple"

    ran = run_cells(f"import sys\n{source} {options}", ipython=True)

    [failed] = ran.last["failed_commands"]
    assert failed["status"] == 1
    assert "pip could not reach its package index. The network is off" in failed["hint"]
    assert "Network(" not in ran.stderr


@pytest.mark.parametrize("source", ["%time 1", "!ls", "x = 1\n!ls"])
def test_without_ipython_magics_fail_with_a_hint(run_cells, source):
    ran = run_cells(source)

    assert ran.error["type"] == "SyntaxError"
    assert ran.error["hints"] == [
        "Lines with `%` and `!` need IPython, which this environment lacks: "
        'use `import subprocess; subprocess.run(["…"])`, or the library that the magic wraps.'
    ]
