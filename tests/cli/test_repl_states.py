"""`groundbox repl --undo` and `--rollback`: states of the prompt's sandbox that are kept, and its branches."""

import json
import re
from typing import Any

import pytest

from groundbox.cli.cells import Command, cells, command_in
from groundbox.cli.repl import _Interrupts, _NotBegun
from groundbox.jail import kernel

pytestmark = pytest.mark.skipif(kernel.MACHINE != "x86_64", reason="live sandboxes are copied on x86_64 only")

HOW = "groundbox: this prompt keeps no states; `groundbox repl --undo` does, from its first cell on"
ADVICE = "End or close that in a cell, and states are kept again"
WAY_BACK = "%undo has both back as they were before this cell"


class Lines:
    """Lines as `cells` wants them, none of which is there before it is asked for."""

    def __init__(self, *lines):
        self._left = list(lines)

    def read(self, goes_on):
        if not self._left:
            raise EOFError
        return self._left.pop(0)

    def peek(self):
        return None


def said(ran):
    """Lines of the prompt's own on stderr, with every age as 0 s."""
    found = [line for line in ran.stderr.splitlines() if line.startswith(("groundbox: ", "    ", "note: "))]
    return [re.sub(r"\b\d+ s ago", "0 s ago", line) for line in found]


@pytest.mark.parametrize("language", ["python", "sql", "javascript", "shell"])
def test_a_command_ends_with_its_line_in_every_language(language):
    found = list(cells(Lines("%undo", " %restore  first ", "begun", "%undo", ""), language))

    assert found[:2] == ["%undo", " %restore  first "]
    assert all(command_in(each) for each in found[:2])


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("%undo", Command("undo", "")),
        (" %undo 3 ", Command("undo", "3")),
        ("%restore a b", Command("restore", "a b")),
        ("%undoing", None),
        ("%%undo", None),
        ("undo", None),
        ("x\n%undo", None),
        ("%undo\nx", None),
        ("", None),
    ],
)
def test_a_command_is_a_line_of_its_own(text, command):
    assert command_in(text) == command


def test_undo_takes_cells_back_with_their_variables_and_files(command, nothing_left):
    lines = b"x = [1]\nx.append(2); open('f', 'w').close()\nx.clear()\n%undo\nx\n%undo 3\nimport os; x, os.listdir()\n"

    ran = command("repl", "--undo", stdin=lines)

    assert (ran.code, ran.stdout) == (1, "[1, 2]\n")
    assert [line for line in said(ran) if line.startswith("groundbox: as")] == [
        "groundbox: as before `x.clear()`",
        "groundbox: as before `x = [1]`; 3 cells are taken back",
    ]
    assert ran.stderr.splitlines()[-1] == "NameError: name 'x' is not defined"
    assert nothing_left(ran.pid) is True


def test_as_many_states_are_kept_as_were_asked_for(command):
    ran = command("repl", "--undo", "2", stdin=b"x = 1\nx = 2\nx = 3\n%undo 3\n%undo 2\nx\n%undo\n")

    assert (ran.code, ran.stdout) == (1, "1\n")
    assert said(ran) == [
        "groundbox: 2 cells can be taken back, and not 3",
        "groundbox: as before `x = 2`; 2 cells are taken back",
        "groundbox: as before `x`",
    ]


def test_a_prompt_that_keeps_no_states_says_how_to_get_them(command):
    ran = command("repl", stdin=b"%undo\n%fork\n1 + 1\n")

    assert (ran.code, ran.stdout, ran.stderr.splitlines()) == (1, "2\n", [HOW, HOW])


def test_a_cell_that_fails_is_taken_back_by_itself(command):
    lines = b"x = []\nx.append(1); open('half', 'w').close(); 1/0\nimport os; x, os.listdir()\nos._exit(3)\nx\n%undo\n"

    ran = command("repl", "--rollback", "--out", "kept", stdin=lines)

    assert (ran.code, ran.stdout) == (1, "([], [])\n[]\n")
    assert said(ran).count("note: variables and files are as they were before this cell") == 2
    assert said(ran)[-1] == "groundbox: no states before cells are kept; `groundbox repl --undo` keeps them"
    assert (command.folder / "kept" / "half").exists()


def test_named_states_are_gone_back_to_and_that_is_taken_back(command):
    lines = (
        b"x = 1\n%checkpoint first\nx = 2\n%checkpoint\n%restore first\nx\n%restore 1\nx\n%undo 2\nx\n%undo 3\nx\n"
        b"%checkpoints\n%drop first\n%restore first\n%undo 5\n%checkpoints\n"
    )

    ran = command("repl", "--undo", stdin=lines)

    assert (ran.code, ran.stdout) == (1, "1\n2\n1\n2\n")
    assert said(ran) == [
        "groundbox: kept as first; %restore first goes back to it",
        "groundbox: kept as 1; %restore 1 goes back to it",
        "groundbox: as it was at first, 0 s ago",
        "groundbox: as it was at 1, 0 s ago",
        "groundbox: as before `%restore 1`; 2 cells are taken back",
        "groundbox: as before `%restore first`; 3 cells are taken back",
        "groundbox: 5 states",
        "    first    0 s ago  after `x = 1`",
        "    1        0 s ago  after `x = 2`",
        "    %undo 1  0 s ago  after `x = 2`",
        "    %undo 2  0 s ago  after `x = 1`",
        "    %undo 3  0 s ago  before any cell",
        "groundbox: the checkpoint first is dropped",
        "groundbox: there is no checkpoint 'first'; there is: 1",
        "groundbox: 3 cells can be taken back, and not 5",
        "groundbox: 4 states",
        "    1        0 s ago  after `x = 2`",
        "    %undo 1  0 s ago  after `x = 2`",
        "    %undo 2  0 s ago  after `x = 1`",
        "    %undo 3  0 s ago  before any cell",
    ]


def test_what_cannot_be_meant_is_told_and_the_session_goes_on(command):
    asked = [
        "%undo",
        "%undo 0",
        "%undo one",
        "%undo 1 2",
        "%checkpoint a/b",
        "%checkpoint main",
        "%checkpoints all",
        "%restore",
        "%restore none",
        "%drop",
        "%drop none",
        "%drop main",
        "%switch none",
    ]

    ran = command("repl", "--undo", stdin="\n".join([*asked, "1 + 1", "%undo 2"]).encode())

    assert (ran.code, ran.stdout) == (1, "2\n")
    assert ran.stderr.splitlines() == [
        "groundbox: there is nothing to take back",
        "groundbox: %undo takes how many cells to take back, not '0'",
        "groundbox: %undo takes how many cells to take back, not 'one'",
        "groundbox: it is written %undo [N], without '1 2'",
        "groundbox: a name has at most 40 letters, digits, dots, - and _, not 'a/b'",
        "groundbox: main is there already; %drop main first, or take another name",
        "groundbox: it is written %checkpoints, without 'all'",
        "groundbox: %restore takes the name of a checkpoint, and none is kept",
        "groundbox: there is no checkpoint 'none', and none is kept",
        "groundbox: %drop takes a name; there is: main",
        "groundbox: there is no checkpoint and no branch 'none'; there is: main",
        "groundbox: main is the branch that is active; %switch to another one first",
        "groundbox: there is no branch 'none'; there is: main",
        "groundbox: 1 cell can be taken back, and not 2",
    ]


def test_branches_go_on_beside_each_other(command, nothing_left):
    lines = (
        b"x = ['begun']\n%checkpoint start\n%fork other\nx.append(input()); open('f', 'w').close()\ntyped\n"
        b"%restore start\n%branches\n%switch main\nx.append(2); x\n%switch other\nimport os; x, os.listdir()\n"
        b"%drop main\n%undo 2\nx\n%branches\n"
    )

    ran = command("repl", "--undo", stdin=lines)

    assert (ran.code, ran.stdout) == (1, "['begun', 2]\n(['begun', 'typed'], ['f'])\n['begun']\n")
    assert [line for line in said(ran) if "octet" not in line] == [
        "groundbox: kept as start; %restore start goes back to it",
        "groundbox: the branch other begins with the state of main, and is active; %switch main leaves it",
        "groundbox: --out DIR keeps these",
        "groundbox: start is a checkpoint of the branch main; %switch main first",
        "groundbox: 2 branches",
        "       main   after `x = ['begun']`",
        "    *  other  after `x.append(input()); open('f', 'w').close()`",
        "groundbox: the branch main is active, after `x = ['begun']`",
        "groundbox: the branch other is active, after `x.append(input()); open('f', 'w').close()`",
        "groundbox: the branch main is dropped, with its states",
        "groundbox: as before `x.append(input()); open('f', 'w').close()`; 2 cells are taken back",
        "groundbox: 1 branch",
        "    *  other  after `x`",
    ]
    assert nothing_left(ran.pid) is True


def test_a_cell_that_ended_the_process_is_taken_back_with_what_it_took_along(command):
    ran = command("repl", "--undo", stdin=b"import os; x = 1\nos._exit(5)\n%undo\nx\nos._exit(5)\n7\n%undo 2\nx\n")

    assert ran.stdout == "1\n7\n1\n"
    assert said(ran)[:2] == [
        f"groundbox: the process is gone and its variables with it; its files are kept; {WAY_BACK}",
        "groundbox: as before `os._exit(5)`",
    ]


def test_what_cannot_go_along_is_named_and_the_session_goes_on(command):
    name = r"timer\x1b]0;title\x07\ngroundbox: forged"
    lines = (
        f"import threading; ends = threading.Event(); name = '{name}'\n"
        "thread = threading.Thread(target=ends.wait, name=name); thread.start()\nx = 1\n%undo\n%checkpoint\n%fork\n"
        "ends.set(); thread.join()\nx\n%undo\n%undo 3\nends.is_set()\n"
    )

    ran = command("repl", "--undo", stdin=lines.encode())

    assert (ran.code, ran.stdout) == (1, "1\nFalse\n")
    assert [line.replace(told, "THREAD") for line in said(ran) for told in [thread_told(line)]] == [
        f"groundbox: the state before this cell is not kept (THREAD). {ADVICE}",
        "groundbox: the state before `x = 1` is not there: THREAD. %undo 2 goes back further",
        f"groundbox: not done, because it cannot be copied now: THREAD. {ADVICE}",
        f"groundbox: not done, because it cannot be copied now: THREAD. {ADVICE}",
        "groundbox: as before `x`",
        "groundbox: as before `thread = threading.Thread(target=ends.wait, name …`; 3 cells are taken back",
    ]
    assert "\x1b" not in ran.stderr


def thread_told(line):
    """The part of a line that names the thread; what is in no line where there is none."""
    found = re.search(r"thread timer.*forged", line)
    return found[0] if found else "\0"


def test_states_of_javascript_are_kept_up_to_its_first_cell(command):
    ran = command("repl", "--undo", "--language", "javascript", stdin=b"a = 1\n\na = 2\n\n%undo\n%undo 2\ntypeof a\n")

    told = said(ran)
    assert (ran.code, ran.stdout) == (1, "1\n2\n'undefined'\n")
    assert (len(told), "The state of JavaScript cells cannot be copied; %undo takes back" in told[0]) == (3, True)
    assert told[1].startswith("groundbox: the state before `a = 2` is not there: state of javascript")
    assert told[2] == "groundbox: as before `a = 1`; 2 cells are taken back"


@pytest.mark.parametrize("dialect", ["duckdb", "sqlite"])
def test_tables_are_taken_back(command, dialect):
    lines = b"CREATE TABLE t AS SELECT 7 AS a;\nDROP TABLE t;\n%undo\nSELECT a FROM t;\n%undo 2\nSELECT a FROM t;\n"

    ran = command("repl", "--undo", "--language", "sql", "--option", f"dialect={dialect}", stdin=lines)

    assert (ran.code, ran.stdout.split().count("7")) == (1, 1)
    assert said(ran)[:2] == [
        "groundbox: as before `DROP TABLE t;`",
        "groundbox: as before `CREATE TABLE t AS SELECT 7 AS a;`; 2 cells are taken back",
    ]


def test_programs_get_one_json_object_for_each_command(command):
    lines = b"x = 1\n%checkpoint a\nx = 2; 1/0\n%undo\n%checkpoints\n%branches\n%restore b\n"

    ran = command("repl", "--json", "--undo", "--rollback", stdin=lines)

    told = [json.loads(line) for line in ran.stdout.splitlines()]
    for row in told[4]["checkpoints"]:
        row["age_s"] = 0
    assert (ran.code, ran.stderr) == (1, "")
    assert [each.get("command") for each in told] == [
        None,
        "checkpoint",
        None,
        "undo",
        "checkpoints",
        "branches",
        "restore",
    ]
    assert (told[2]["state"], [each["code"] for each in told[2]["warnings"]]) == ("kept", ["session.rolled_back"])
    assert told[3] == {"command": "undo", "done": True, "message": "as before `x = 1`"}
    assert told[4]["checkpoints"] == [{"name": "a", "age_s": 0, "last_cell": "x = 1"}]
    assert told[5]["branches"] == [{"active": True, "name": "main", "last_cell": ""}]
    assert told[6] == {"command": "restore", "done": False, "message": "there is no checkpoint 'b'; there is: a"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--undo", "--allow-host", "example.org"],
            "Invalid value for '--undo': is for sandboxes without a network, so far",
        ),
        (
            ["--rollback", "--backend", "landlock"],
            "Invalid value for '--rollback': needs the backend namespaces, with every layer",
        ),
        (["--undo", "65"], "Invalid value for '--undo': 65 is not in the range 0<=x<=64."),
    ],
)
def test_where_a_sandbox_cannot_be_copied_the_option_is_refused(command, nothing_left, arguments, message):
    ran = command("repl", *arguments)

    assert (ran.code, ran.stdout, ran.complaint) == (2, "", f"Error: {message}")
    assert nothing_left(ran.pid) is True


def test_on_a_terminal_cells_that_were_interrupted_or_given_up_are_taken_back(terminal):
    terminal = terminal("repl", "--undo")
    terminal.wait(">>> ")
    terminal.type("import signal, time; x = [1]\n", ">>> ")
    terminal.type("x.append(2); print('asleep', flush=True); time.sleep(60)\n", r"\nasleep\n")
    terminal.type("\x03", "KeyboardInterrupt\n(.*\n)*>>> ")
    terminal.type("%undo\n", "as before `x.append")
    interrupted = terminal.type("x\n", r"\[1\]\n>>> ")
    terminal.type("old = signal.signal(signal.SIGINT, signal.SIG_IGN)\n", ">>> ")
    terminal.type("x.clear(); print('asleep', flush=True); time.sleep(60)\n", r"\nasleep\n")
    terminal.type("\x03", "")
    given_up = terminal.type("\x03", "before this cell\n>>> ")
    terminal.type("%undo\n", "as before `x.clear")
    after = terminal.type("x\n", r"\[1\]\n>>> ")
    terminal.type("\x04", r"\n")
    code = terminal.close()

    assert ("[1]" in interrupted, "[1]" in after, code) == (True, True, 0)
    assert f"groundbox: given up; the process is gone, its files are kept; {WAY_BACK}\n" in given_up


def test_on_a_terminal_a_cell_that_is_given_up_is_taken_back_by_itself(terminal):
    terminal = terminal("repl", "--rollback")
    terminal.wait(">>> ")
    terminal.type("import signal, time; x = [1]; old = signal.signal(signal.SIGINT, signal.SIG_IGN)\n", ">>> ")
    terminal.type("x.clear(); print('asleep', flush=True); time.sleep(60)\n", r"\nasleep\n")
    terminal.type("\x03", "")
    given_up = terminal.type("\x03", r"given up; .*\n>>> ")
    terminal.type("x\n", r"\[1\]\n>>> ")
    terminal.type("\x04", r"\n")
    code = terminal.close()

    assert "groundbox: given up; variables and files are as they were before this cell\n" in given_up
    assert code == 0


def test_a_terminal_shows_which_branch_is_active_and_completes_commands(terminal):
    terminal = terminal("repl", "--undo")
    terminal.wait(">>> ")
    terminal.type("x = 1\n", ">>> ")
    terminal.type("%checkpoint beginning\n", "kept as beginning.*\n>>> ")
    there = terminal.type("%fork other\n", r"\nother >>> ")
    terminal.type("x = 2\n", "other >>> ")
    back = terminal.type("%sw\tma\t\n", r"\n>>> ")
    restored = terminal.type("%rest\tbeg\t\n", r"as it was at beginning.*\n>>> ")
    terminal.type("\x04", r"\n")
    code = terminal.close()

    assert "the branch other begins with the state of main" in there
    assert "the branch main is active" in back
    assert "as it was at beginning" in restored
    assert code == 0


class Box:
    """Counts interrupts."""

    interrupts = 0

    def interrupt(self):
        self.interrupts += 1


def test_ctrl_c_before_a_cell_begins_ends_no_process():
    """A sandbox that is interrupted while it is copied would be ended."""
    box: Any = Box()
    interrupts = _Interrupts(box)

    interrupts(2, None)

    with pytest.raises(_NotBegun):
        interrupts.begin()
    with pytest.raises(KeyboardInterrupt):
        interrupts(2, None)
    assert box.interrupts == 0
