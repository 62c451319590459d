"""The prompt, as people use it: pasting, Tab, `input()`, `?`, pictures into a folder."""

import json

import pytest

from groundbox.cli.repl import completions

PASTED = "def twice(n):\n    total = 0\n\n    for _ in range(2):\n        total += n\n\n    return total\n\ntwice(21)\n"
FILE_OF_CELLS = f"{PASTED}name = input('Who? ')\nAda\n'Hello ' + name\nimport tools\ntools.here\n"
PLOT = (
    "import matplotlib.pyplot as plt; lines = plt.plot([1, 2])\nopen('table.csv', 'w').write('a')\nplt.bar([1], [2]);\n"
)


@pytest.fixture
def prompt(terminal):
    """A prompt that waits for a cell."""

    def start(*arguments):
        started = terminal("repl", *arguments)
        started.wait(r">>> $")
        return started

    return start


def test_a_file_of_cells_with_blank_lines_in_its_functions_is_piped_in(command):
    (command.folder / "tools.py").write_text("here = 'a module of my own'\n")

    ran = command("repl", "--file", "tools.py", stdin=FILE_OF_CELLS.encode())

    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout == "42\nWho? \n'Hello Ada'\n'a module of my own'\n"


def test_a_statement_of_sql_ends_with_its_semicolon(command):
    cells = "SELECT 1 AS first;\nSELECT ';\n' AS text,\n2 AS second; -- two\nSELECT 3 AS third\n"

    ran = command("repl", "--language", "sql", "--json", stdin=cells.encode())

    told = [json.loads(line)["value"]["text/plain"] for line in ran.stdout.splitlines()]
    assert [[name for name in ("first", "second", "third") if name in text] for text in told] == [
        ["first"],
        ["second"],
        ["third"],
    ]


def test_a_prompt_says_how_a_cell_of_another_language_ends(terminal):
    started = terminal("repl", "--language", "bash")

    assert "ended by a blank line" in started.wait(r">>> $")


@pytest.mark.parametrize("paste", [PASTED.replace("\n", "\r"), f"\x1b[200~{PASTED}\x1b[201~\r"])
def test_a_function_with_blank_lines_is_pasted(prompt, paste):
    typist = prompt()

    typist.send(paste)
    shown = typist.wait(r"\n42\n>>> ")
    again = typist.type("twice(1)\n", r"\n2\n>>> ")

    assert "Error" not in shown + again
    assert "None" not in shown


def test_tab_completes_what_the_live_process_has(prompt):
    typist = prompt()
    typist.type("longest_name = {'first key': 1}; open('sales 2024.csv', 'w').close()\n", ">>> ")
    typist.type("class Odd:\n", r"\.\.\. ")
    typist.type("    def __dir__(self): return ['fine_one', 'bad\\x1b]0;title\\x07']\n", r"\.\.\. ")
    typist.type("\n", ">>> ")
    typist.type("odd = Odd()\n", ">>> ")

    attribute = typist.type("longest_na\t.ke\t()\n", r"\]\)\n>>> ")
    key = typist.type("longest_name['fi\t]\n", r"\n1\n>>> ")
    file = typist.type("open('sal\t).name\n", r"\n'sales 2024.csv'\n>>> ")
    typist.type("odd.fine_one = 7\n", ">>> ")
    made = typist.type("odd.fi\t\n", r"\n7\n>>> ")
    before = typist.type("len(In), _\n", r"\)\n>>> ")

    assert "longest_name.keys()" in attribute
    assert "longest_name['first key']" in key
    assert "sales 2024.csv" in file
    assert "odd.fine_one" in made
    assert "(10, 7)" in before  # Tab is no cell, and its answer no value


def test_tab_at_the_beginning_of_a_line_indents(prompt):
    typist = prompt()
    typist.type("if True:\n", r"\.\.\. ")
    typist.type("\tx = 5\n", r"\.\.\. ")
    typist.type("\n", ">>> ")

    assert "5" in typist.type("x\n", r"5\n>>> ")


def test_input_is_answered_by_what_is_typed(prompt):
    typist = prompt()

    typist.type("name = input('Your name? '); print('Hello', name)\n", r"Your name\? $")
    shown = typist.type("Ada\n", ">>> ")
    typist.type("input('Again? ')\n", r"Again\? $")
    interrupted = typist.type("\x03", ">>> ")
    kept = typist.type("name\n", r"'Ada'\n>>> ")

    assert "Hello Ada\n" in shown
    assert "KeyboardInterrupt" in interrupted
    assert "'Ada'" in kept


def test_a_question_mark_tells_what_something_is(prompt):
    typist = prompt()

    one = typist.type("len?\n", ">>> ")
    typist.type("def mine(a, b=2):\n", r"\.\.\. ")
    typist.type("    return a + b\n", r"\.\.\. ")
    typist.type("\n", ">>> ")
    two = typist.type("mine??\n", ">>> ")

    assert "Signature: len(obj, /)" in one
    assert "return a + b" in two


def test_pictures_and_files_of_cells_go_into_a_folder(command):
    ran = command("repl", "--out", "kept", stdin=PLOT.encode())

    kept = command.folder / "kept"
    assert ran.code == 0
    assert sorted(path.name for path in kept.iterdir()) == [
        "cell-1-display-1.png", "cell-3-display-1.png", "table.csv"
    ]  # fmt: skip
    assert "in cell-1-display-1.png" in ran.stderr


def test_a_picture_that_nobody_keeps_says_how_to_keep_it_once(command):
    ran = command("repl", stdin=PLOT.encode())

    assert ran.stderr.count("groundbox: --out DIR keeps these") == 1


def test_json_and_a_folder_go_together(command):
    ran = command("repl", "--json", "--out", "kept", stdin=PLOT.encode())

    assert [json.loads(line)["outcome"] for line in ran.stdout.splitlines()] == ["ok"] * 3
    assert (command.folder / "kept" / "cell-1-display-1.png").read_bytes().startswith(b"\x89PNG")


def test_a_file_that_is_not_there_is_refused_before_anything_runs(command):
    ran = command("repl", "--file", "none.csv", stdin=b"1\n")

    assert (ran.code, ran.stdout) == (2, "")
    assert ran.complaint == "Error: Invalid value for '--file': 'none.csv' cannot be read: No such file or directory"


@pytest.mark.parametrize(
    ("told", "begun", "shown"),
    [
        ('["keys", "key"]', "ke", ["keys", "key"]),
        ('["keys", "other"]', "ke", ["keys"]),
        ('["ke\\u001b[2Jys", "ke\\nys", "ke\\u202eys"]', "ke", []),
        ('["ke", 5, null, ["key"]]', "ke", ["ke"]),
        ('{"ke": 1}', "ke", []),
        ("[" * 100_000, "ke", []),
        ("no json", "ke", []),
        ("", "", []),
    ],
)
def test_what_a_guest_says_of_completions_is_a_claim(told, begun, shown):
    assert completions(told, begun) == shown
