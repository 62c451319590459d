"""Hints on the command line name options and not arguments of Python; a model behind MCP is told of neither."""

import dataclasses
import re
from pathlib import Path

import pytest

import groundbox as gb
from groundbox.agent.fixed_settings import WHO_CAN, for_a_tool, without_settings
from groundbox.cli.wording import with_options
from groundbox.execution import Failure, Outcome, Warning

SOURCE = Path(gb.__file__).parent
PYTHON_WORDS = re.compile(r"Network\(|\blimits\.|environment=|mode=['\"]|\bprivate_ranges\b|_bytes\b|\bwall_s\b")


@pytest.mark.parametrize(
    ("python", "options"),
    [
        ('To allow it: Network(allow=["data.test"]).', "To allow it: --allow-host data.test."),
        ('Network(allow=["a.test", "b.test:81"])', "--allow-host a.test --allow-host b.test:81"),
        ("Allow it with Network(allow=[…])", "Allow it with --allow-host HOST"),
        ('Network(private_ranges=["10.0.0.0/8"])', "--private-range 10.0.0.0/8"),
        ("that talk to each other: Network(loopback=True).", "that talk to each other: --loopback."),
        ("is reached (limits.memory_bytes): read", "is reached (--memory-mib): read"),
        ("the program was stopped at wall_s=1.5", "the program was stopped at --wall-s 1.5"),
        ("at memory_bytes=536870912", "at --memory-mib 512"),
        ("or run it with a larger cpu_s.", "or run it with a larger --cpu-s."),
        ("environment='plots' or --environment plots.", "--environment plots."),
        ("belongs to a script; add mode='script'", "belongs to a script; add --mode script"),
        ("`df` has no column 'wall_s'; did you mean `'memory_bytes'`?",) * 2,
        ("The columns of `df` are: 'limits', 'Network', 'wall_s=3'.",) * 2,
    ],
)
def test_a_setting_is_named_by_its_option(python, options):
    assert with_options(python) == options


def test_no_hint_of_ours_is_left_in_words_of_python():
    texts = [
        text
        for file in ("guest/python/surroundings.py", "guest/python/network.py", "guest/python/commands.py")
        for text in re.findall(r'"([^"\n]*)"|\'([^\'\n]*)\'', (SOURCE / file).read_text())
    ]
    named = [text for pair in texts for text in pair if re.search(r"\(limits\.|Network\((private|loopback)", text)]

    assert len(named) >= 6
    assert [text for text in named if PYTHON_WORDS.search(with_options(text))] == []


def test_the_command_line_says_which_of_its_options_help(command):
    ran = command("run", "--wall-s", "0.3", "-c", "while True: pass")
    asked = command("run", "--json", "-c", "import urllib.request\nurllib.request.urlopen('https://data.test/')")

    assert "Timeout: the program was stopped at --wall-s 0.3\n" in ran.stderr
    assert "run it with a larger --wall-s" in ran.stderr
    assert "--allow-host data.test" in asked.stdout
    assert "Network(" not in asked.stdout


def test_a_script_that_lacks_input_learns_how_to_pipe_it_in(command):
    ended = command("run", "--mode", "script", "-c", "input()")

    assert "--stdin FILE" in ended.stderr
    assert "--stdin -" in ended.stderr


def test_a_command_of_a_cell_that_fails_is_a_warning(command):
    ran = command("run", "-c", "!false")
    installed = command("run", "-c", "!pip install nothing")

    assert "the command 'false' failed with exit status 1" in ran.stderr
    assert "--allow-host pypi.org" in installed.stderr
    assert (ran.code, installed.code, "Network(" in installed.stderr) == (0, 0, False)


HINTS = {
    'The network is off in this sandbox. To allow it: Network(allow=["data.test"]). Or use data that is in the working '
    "directory.": f"The network is off in this sandbox. Or use data that is in the working directory. {WHO_CAN}",
    "Make the program cheaper, or run it with a larger cpu_s.": f"Make the program cheaper. {WHO_CAN}",
    "The limit of processes and threads is reached (limits.process_count): use fewer workers.": (
        f"The limit of processes and threads is reached: use fewer workers. {WHO_CAN}"
    ),
    "The environment 'plots' has it: environment='plots' or --environment plots.": WHO_CAN,
    "`groundbox environment create NAME --requirement x`, outside of the sandbox, makes an environment that has it.": (
        WHO_CAN
    ),
    "The network is off in this sandbox, and an address cannot be allowed: name the host instead, as in "
    'Network(allow=["example.org"]).': f"The network is off in this sandbox. {WHO_CAN}",
    "`x` has no key 'a-b --c'; did you mean `a`?": "`x` has no key 'a-b --c'; did you mean `a`?",
    "Look again.": "Look again.",
}


@pytest.mark.parametrize(("hint", "told"), HINTS.items())
def test_a_model_behind_a_server_is_not_told_of_settings_that_it_cannot_change(hint, told):
    failure = Failure(type="X", message="no", hints=(hint,))
    warning = Warning(code="x", tier="note", message="no", hint=hint)
    execution = dataclasses.replace(gb.run("1"), outcome=Outcome.ERROR, error=failure, warnings=(warning,))

    worded = for_a_tool(execution, may_raise_wall=False)

    assert (worded.error.hints, worded.warnings[0].hint) == ((told,), told)


def test_a_model_is_told_of_the_limit_that_is_an_argument_of_its_own():
    hint = "Make the program cheaper, or run it with a larger wall_s."

    assert without_settings(hint, may_raise_wall=True) == hint
    assert without_settings(hint) == f"Make the program cheaper. {WHO_CAN}"


def test_an_allowed_host_at_home_and_programs_that_talk_to_each_other_have_options(command):
    server = "import socket\ns = socket.create_server(('127.0.0.1', 0))\nsocket.create_connection(s.getsockname())\n"

    talked = command("run", "--loopback", "-c", server + "print('talked')")
    refused = command("run", "--private-range", "127.0.0.0/8", "-c", "1")

    assert (talked.code, talked.stdout) == (0, "talked\n")
    assert refused.complaint == (
        "Error: Invalid value for '--private-range': '127.0.0.0/8' is never allowed: it reaches the host itself"
    )


def test_a_variable_is_given_by_value_or_taken_from_the_command_itself(command, monkeypatch):
    monkeypatch.setenv("REGION", "eu")
    source = "import os; print(os.environ['REGION'], os.environ['STAGE'])"

    ran = command("run", "--env", "REGION", "--env", "STAGE=a=b", "-c", source)
    unset = command("run", "--env", "NOT_SET_HERE", "-c", "1")

    assert (ran.code, ran.stdout) == (0, "eu a=b\n")
    assert "'NOT_SET_HERE' is not set here; write NAME=VALUE" in unset.complaint.replace("\n", " ")
