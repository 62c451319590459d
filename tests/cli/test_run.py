"""`groundbox run`: what goes where, what the exit status says, and what bad usage is told."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time

import pytest

from groundbox import Limits, MiB
from groundbox.sandbox.engine import _WAIVABLE

TABLE = "application/vnd.dataresource+json"
SUMMARY = re.compile(
    r"groundbox: (?P<end>[^,]+), [\d.]+ m?s(, cpu [\d.]+ m?s)?(, memory [\d.]+ [KMG]?i?B)?, cold start [\d.]+ m?s"
    r"(?P<trust>, trust guest)?"
)
LAYERS = ", ".join(sorted(_WAIVABLE))


def told(ran):
    """stderr without the summary, and the summary's outcome."""
    *lines, last = ran.stderr.splitlines()
    return lines, SUMMARY.fullmatch(last)["end"]


def test_a_cell_prints_and_its_value_follows(command, nothing_left):
    ran = command("run", "-c", "print('hello'); 6 * 7")

    assert (ran.code, ran.stdout) == (0, "hello\n42\n")
    assert told(ran) == ([], "ok")
    assert nothing_left(ran.pid) is True


def test_the_summary_says_whose_word_the_outcome_is(command):
    (command.folder / "count.py").write_text("print(1)\n")

    cell, script = command("run", "-c", "1"), command("run", "count.py")

    assert cell.stderr.splitlines()[-1].endswith(", trust guest")
    assert "trust" not in script.stderr.splitlines()[-1]


def test_a_file_is_a_script_with_arguments_and_stdin(command):
    (command.folder / "count.py").write_text(
        "import sys\nprint(__name__, sys.argv[1:])\nprint(len(sys.stdin.read()))\nsys.exit(7)\n"
    )

    ran = command("run", "count.py", "--stdin", "-", "--", "--fast", "x", stdin=b"12345")

    assert (ran.code, ran.stdout) == (1, "__main__ ['--fast', 'x']\n5\n")
    assert told(ran) == (["SystemExit: the program ended with exit code 7"], "error (exit code 7)")


def test_a_script_shows_its_traceback_once(command):
    (command.folder / "wrong.py").write_text("prices = {'tea': 3}\nprint(prices['Tea'])\n")

    ran = command("run", "wrong.py")

    lines, end = told(ran)
    assert (ran.code, ran.stdout, end) == (1, "", "error")
    assert ran.stderr.count("Traceback (most recent call last)") == 1
    assert 'File "wrong.py", line 2, in <module>' in ran.stderr
    assert lines[-1] == "hint: The keys of `prices` are: 'tea'."


def test_a_failing_cell_is_explained(command):
    ran = command("run", "-c", "prices = {'tea': 3}\nprices['Tea']")

    lines, end = told(ran)
    assert (ran.code, ran.stdout, end) == (1, "", "error")
    assert lines[0] == "Traceback (most recent call last):"
    where = lines.index("where")
    assert lines[where - 1] == "KeyError: 'Tea'"
    assert lines[where + 1] == "    prices = {'tea': 3}"
    assert [line[:6] for line in lines[where + 2 :]] == ["hint: "] * (len(lines) - where - 2)
    assert lines[-1] == "hint: The keys of `prices` are: 'tea'."


@pytest.mark.parametrize("source", ["-", "-c"])
def test_arguments_make_a_script_of_it(command, source):
    code = "import sys; print(sys.argv)"

    ran = command("run", *(["-c", code] if source == "-c" else ["-"]), "--", "one", stdin=code.encode())

    assert (ran.code, ran.stdout) == (0, "['main.py', 'one']\n")


def test_json_is_one_line_and_nothing_else(command, nothing_left):
    ran = command("run", "--json", "-c", "import os; print('x'); os.system('echo y >&2'); [1, 2]")

    (line,) = ran.stdout.splitlines()
    execution = json.loads(line)
    assert (ran.code, ran.stderr) == (0, "")
    assert list(execution)[:8] == [
        "execution_id",
        "language",
        "outcome",
        "exit_code",
        "exit_signal",
        "stdout",
        "stderr",
        "dropped_bytes",
    ]
    assert execution["outcome"] == "ok"
    assert (execution["stdout"], execution["stderr"]) == ("x\n", "y\n")
    assert execution["value"] == {"text/plain": "[1, 2]"}
    assert execution["isolation"]["missing"] == []
    assert nothing_left(ran.pid) is True


def test_json_tells_a_failure_by_the_exit_status_too(command):
    ran = command("run", "--json", "-c", "1/0")

    assert (ran.code, ran.stderr) == (1, "")
    assert json.loads(ran.stdout)["error"]["type"] == "ZeroDivisionError"


def test_options_of_the_language_are_given_by_their_names(command):
    dialect = command(
        "run", "--language", "sql", "--option", "dialect=sqlite", "-c", "SELECT sqlite_version() > '3' AS s"
    )
    tokens = command("run", "--language", "sql", "--option", "max_tokens=300", "-c", "DESCRIBE ALL")

    assert (dialect.code, dialect.stdout.splitlines()[3].strip()) == (0, "1")
    assert (tokens.code, tokens.stdout) == (0, "There are no tables, no DataFrames and no files of data yet.\n")


WITH_A_HOME = """
import pathlib
from groundbox.cli.main import main
from groundbox.databases import database

database._home = lambda: pathlib.Path({folder!r})
main()
"""


@pytest.fixture
def with_databases(command, tmp_path):
    """Runs `groundbox` with a databases.toml of its own; environments are those of the host."""

    def run(text, *arguments, **more):
        file = tmp_path / "databases.toml"
        file.write_text(text)
        file.chmod(0o600)
        return command(*arguments, prefix=("-c", WITH_A_HOME.format(folder=str(tmp_path))), **more)

    return run


def test_a_database_of_the_file_is_asked_by_its_name(with_databases, postgres):
    file = f'[shop]\nurl = "{postgres.url("reader")}"\n'
    asked = ("--language", "sql", "--option", "database=shop")

    one = with_databases(file, "run", "--json", *asked, "-c", "SELECT name FROM customers ORDER BY id")
    broken = with_databases(file, "run", "--json", *asked, "-c", "SELECT nam FROM customers")
    cells = with_databases(file, "repl", *asked, stdin=b"SELECT 1 AS a\n\nDELETE FROM orders\n")

    assert (one.code, json.loads(one.stdout)["value"][TABLE]["data"]) == (0, [{"name": "Ada"}, {"name": "Grace"}])
    assert (broken.code, json.loads(broken.stdout)["error"]["type"]) == (1, "UndefinedColumn")
    assert (cells.code, cells.stdout.splitlines()[0].strip()) == (1, "a")
    assert "only statements that read are run here" in cells.stderr


def test_a_database_that_cannot_be_asked_is_told_by_the_exit_status(with_databases):
    file = '[shop]\nurl = "postgresql://reader:hidden-word@127.0.0.1:1/shop"\n'
    asked, other = (
        ("--language", "sql", "--option", "database=shop"),
        ("--language", "sql", "--option", "database=other"),
    )

    run = with_databases(file, "run", "--json", *asked, "-c", "SELECT 1")
    repl = with_databases(file, "repl", *asked, stdin=b"SELECT 1\n\nSELECT 2\n")
    unknown = with_databases(file, "run", "--json", *other, "-c", "SELECT 1")

    assert (run.code, run.stdout) == (3, "")
    assert run.stderr.startswith("groundbox: database 'shop': ")
    assert (repl.code, repl.stderr.count("groundbox: database 'shop': ")) == (1, 2)
    assert (unknown.code, unknown.stdout) == (2, "")
    assert unknown.complaint.startswith("Error: Invalid value for '--option database': 'other' is not described in ")
    assert not [ran for ran in (run, repl, unknown) if "hidden-word" in ran.stdout + ran.stderr]


def test_a_timeout_keeps_what_was_printed(command):
    ran = command("run", "--wall-s", "0.5", "-c", "print('begun', flush=True)\nwhile True: pass")

    lines, end = told(ran)
    assert (ran.code, ran.stdout, end) == (1, "begun\n", "timeout")
    assert [line for line in lines if "^" not in line] == [  # where 3.11 shows no carets
        "Traceback (most recent call last):",
        '  File "<cell 1>", line 2, in <module>',
        "    while True: pass",
        "KeyboardInterrupt",
        "Timeout: the program was stopped at --wall-s 0.5",
        "hint: Make the program cheaper, or run it with a larger --wall-s.",
    ]


def test_output_comes_while_the_program_runs(command):
    code = "import time\nfor i in range(2):\n    print(i, flush=True)\n    time.sleep(1)"

    with subprocess.Popen(
        [sys.executable, "-m", "groundbox", "run", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        first = process.stdout.readline()
        running = process.poll() is None
        rest = process.stdout.read()

    assert (first, running, rest) == (b"0\n", True, b"1\n")


def test_limits_reach_the_guest(command):
    code = "for name in 'abc': open(name, 'wb').write(bytes(1 << 20))"

    ran = command("run", "--disk-mib", "2", "--json", "-c", code)

    assert ran.code == 1
    assert json.loads(ran.stdout)["error"]["message"] == "[Errno 28] No space left on device"


def test_a_limit_above_the_default_is_one(command):
    usual = Limits().memory_bytes
    code = f"len(bytearray(b'x') * {usual})"

    below = command("run", "-c", code)
    above = command("run", "--memory-mib", str(usual // MiB + 256), "-c", code)

    assert (below.code, told(below)[1].split()[0]) == (1, "memory")
    assert (above.code, above.stdout) == (0, f"{usual}\n")


def test_none_is_no_limit(command):
    limits = ["--wall-s", "--cpu-s", "--memory-mib", "--processes", "--disk-mib", "--output-kib"]

    ran = command("run", *(word for limit in limits for word in (limit, "none")), "-c", "1")

    assert (ran.code, ran.stdout) == (0, "1\n")


def test_files_go_in_under_their_own_name_or_another(command):
    (command.folder / "a.txt").write_text("A")
    (command.folder / "with:colon").write_text("C")
    (command.folder / "tree/deep").mkdir(parents=True)
    (command.folder / "tree/deep/b.txt").write_text("B")
    handed = ["a.txt", "a.txt:in/other.txt", "a.txt:into/", "with:colon", "tree", "tree:forest"]
    code = "import pathlib\nprint(*sorted(str(p) for p in pathlib.Path().rglob('*') if p.is_file()), sep='\\n')"

    ran = command("run", *(word for each in handed for word in ("--file", each)), "-c", code)

    assert ran.stdout.splitlines() == [
        "a.txt",
        "forest/deep/b.txt",
        "in/other.txt",
        "into/a.txt",
        "tree/deep/b.txt",
        "with:colon",
    ]
    assert ran.code == 0


def test_files_given_are_no_artifacts(command):
    (command.folder / "a.txt").write_text("A")

    ran = command("run", "--file", "a.txt", "--json", "-c", "open('b.txt', 'w').write('B')")

    assert [artifact["path"] for artifact in json.loads(ran.stdout)["artifacts"]] == ["b.txt"]


SHOWS = """
from IPython.display import HTML, display
import os
os.mkdir("out")
open("out/report.txt", "w").write("written")
open("display-1.html", "w").write("a file of that name")
os.symlink("/etc/passwd", "link.txt")
os.symlink("/etc", "folder")
display(HTML("<b>bold</b>"))
"""


def test_out_gets_files_and_displays_and_no_link(command):
    ran = command("run", "--out", "results/new", "-c", SHOWS)

    folder = command.folder / "results/new"
    found = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*"))}
    assert ran.code == 0
    assert list(found) == ["display-1-2.html", "display-1.html", "out", "out/report.txt"]
    assert found["out/report.txt"].read_text() == "written"
    assert found["display-1.html"].read_text() == "a file of that name"
    assert found["display-1-2.html"].read_text() == "<b>bold</b>"
    lines, _ = told(ran)
    assert [line for line in lines if "left out" not in line] == [
        "display 1: <IPython.core.display.HTML object>  (html, 11 B)",
        "    in display-1-2.html",
        "files",
        "    display-1.html      19 B  text/html",
        "    out/report.txt       7 B  text/plain",
    ]


def test_out_replaces_a_link_and_never_writes_through_it(command):
    outside = command.folder / "outside.txt"
    outside.write_text("untouched")
    folder = command.folder / "results"
    folder.mkdir()
    (folder / "a.txt").symlink_to(outside)
    (folder / "sub").symlink_to(command.folder)
    code = "import os\nopen('a.txt', 'w').write('new')\nos.mkdir('sub')\nopen('sub/b.txt', 'w').write('new')"

    ran = command("run", "--out", "results", "-c", code)

    assert ran.code == 3
    assert outside.read_text() == "untouched"
    assert not (folder / "a.txt").is_symlink()
    assert (folder / "a.txt").read_text() == "new"
    assert not (command.folder / "b.txt").exists()
    assert "    sub/b.txt       3 B  text/plain  NOT WRITTEN: Not a directory" in ran.stderr.splitlines()


def test_a_file_name_cannot_pretend_to_be_a_line_of_ours(command):
    ran = command("run", "-c", "open('a\\ngroundbox: ok, all is well\\x1b[2K', 'w').close()")

    assert "    a groundbox: ok, all is well\ufffd[2K       0 B  application/octet-stream" in ran.stderr


def test_a_pipe_gets_control_sequences_as_they_are(command):
    ran = command("run", "-c", "print('a\\x1b[31mred\\u202e')")

    assert ran.stdout == "a\x1b[31mred\u202e\n"


def test_a_terminal_gets_none(command):
    shown = on_a_terminal("run", "-c", "print('a\\x1b[31mred\\x1b]0;title\\x07\\u202eend\\ttab\\rover')\n'\\x9b2J'")

    assert shown.splitlines()[:3] == ["aredend\ttab", "over", "'\\x9b2J'"]
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202e]", shown)


def on_a_terminal(*arguments):
    """All that a command writes when its streams are a terminal."""
    ours, its = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "groundbox", *arguments], stdout=its, stderr=its, stdin=its
    ) as process:
        os.close(its)
        shown = b""
        while True:
            try:
                data = os.read(ours, 65536)
            except OSError:
                break
            shown += data
        process.wait()
    os.close(ours)
    return shown.decode()


MESSAGES = {
    ("-c", ""): "Invalid value for '-c': the program is empty; give it at least one statement",
    ("empty.py",): "Invalid value for 'FILE': the program is empty; give it at least one statement",
    ("missing.py",): "Invalid value for 'FILE': 'missing.py' cannot be read: No such file or directory",
    ("folder",): "Invalid value for 'FILE': 'folder' is a folder; name a file",
    ("latin.py",): "Invalid value for 'FILE': 'latin.py' is not UTF-8: byte 0xe9 in line 2; save it as UTF-8",
    ("large.py",): (
        "Invalid value for 'FILE': 'large.py' has more than 8388608 bytes; "
        "put data into files and hand them over with --file"
    ),
    (): "there is nothing to run: name a FILE, say - for stdin, or -c CODE",
    ("-", "--stdin", "-"): "both the program and its --stdin come from stdin; put one into a file",
    ("-c", "1", "--mode", "cell", "--", "x"): "a cell takes no arguments; say --mode script",
    ("-c", "1", "--mode", "cell", "--stdin", "empty.py"): "a cell takes no stdin; say --mode script",
    ("-c", "1", "--stdin", "folder"): "Invalid value for '--stdin': 'folder' is a folder; name a file",
    ("-c", "1", "--wall-s", "0"): ("Invalid value for '--wall-s': must be above 0, not 0; write none for no limit"),
    ("-c", "1", "--wall-s", "-1"): ("Invalid value for '--wall-s': must be above 0, not -1; write none for no limit"),
    ("-c", "1", "--wall-s", "nan"): ("Invalid value for '--wall-s': must be finite, not nan; write none for no limit"),
    ("-c", "1", "--cpu-s", "soon"): "Invalid value for '--cpu-s': 'soon' is neither a number of seconds nor none",
    ("-c", "1", "--memory-mib", "1"): ("Invalid value for '--memory-mib': must be at least 16, not 1"),
    ("-c", "1", "--processes", "1.5"): "Invalid value for '--processes': '1.5' is neither a whole number nor none",
    ("-c", "1", "--disk-mib", "99999999999"): (
        "Invalid value for '--disk-mib': 99999999999 is too large; write none for no limit"
    ),
    ("-c", "1", "--output-kib", "0"): (
        "Invalid value for '--output-kib': must be above 0, not 0; write none for no limit"
    ),
    ("-c", "1", "--language", "cobol"): (
        "Invalid value for '--language': 'cobol' is not known here; there is: dot, javascript, python, shell, sql"
    ),
    ("-c", "1", "--option", "dialect=sqlite"): (
        "Invalid value for '--option': 'dialect' is none of python, which takes call_cpu_s, call_wall_s, checks, env, "
        "namespace"
    ),
    ("-c", "SELECT 1", "--language", "sql", "--option", "colour=red"): (
        "Invalid value for '--option': 'colour' is none of sql, which takes aside, database, dialect, max_tokens"
    ),
    ("-c", "SELECT 1", "--language", "sql", "--option", "dialect"): (
        "Invalid value for '--option': 'dialect' is no NAME=VALUE"
    ),
    ("-c", "SELECT 1", "--language", "sql", "--option", "dialect=duckdb", "--option", "dialect=sqlite"): (
        "Invalid value for '--option dialect': is given twice"
    ),
    ("-c", "SELECT 1", "--language", "sql", "--option", "dialect=oracle"): (
        "Invalid value for '--option dialect': 'oracle' is none of 'duckdb' and 'sqlite'"
    ),
    ("-c", "DESCRIBE ALL", "--language", "sql", "--option", "max_tokens=many"): (
        "Invalid value for '--option max_tokens': must be a whole number above 0, not 'many'"
    ),
    ("-c", "1", "--backend", "none"): (
        "Invalid value for '--backend': 'none' is not one of 'namespaces', 'landlock', 'gvisor', 'bare'."
    ),
    ("-c", "1", "--waive", "nonsense"): (
        "Invalid value for '--waive': nonsense is not a layer that can be waived; choose among " + LAYERS
    ),
    ("-c", "1", "--allow-host", "127.0.0.1"): (
        "Invalid value for '--allow-host': '127.0.0.1' is an address; name the host instead"
    ),
    ("-c", "1", "--allow-host", "*.example.org"): (
        "Invalid value for '--allow-host': '*.example.org' is not a host name such as 'example.org'"
    ),
    ("-c", "1", "--allow-host", "example.org", "--backend", "landlock"): (
        "Invalid value for '--allow-host': the backend landlock cannot give any; use namespaces"
    ),
    ("-c", "1", "--file", "missing.csv"): (
        "Invalid value for '--file': 'missing.csv' cannot be read: No such file or directory"
    ),
    ("-c", "1", "--file", "pipe"): "Invalid value for '--file': 'pipe' is neither a file nor a folder",
    ("-c", "1", "--file", "empty.py:../up"): (
        "Invalid value for '--file': '../up' must be a path inside the workdir, such as 'data/sales.csv'"
    ),
    ("-c", "1", "--file", "empty.py:/etc/passwd"): (
        "Invalid value for '--file': '/etc/passwd' must be a path inside the workdir, such as 'data/sales.csv'"
    ),
    ("-c", "1", "--file", "large.py", "--disk-mib", "1"): (
        "Invalid value for '--file': 'large.py' has 52428800 bytes and --disk-mib allows 1048576; raise --disk-mib"
    ),
    ("-c", "1", "--out", "empty.py"): "Invalid value for '--out': '{here}/empty.py' is no folder",
    ("-c", "1", "--out", "empty.py/deeper"): "Invalid value for '--out': '{here}/empty.py' is no folder",
    ("-c", "1", "--nonsense"): "No such option: --nonsense",
}


@pytest.mark.parametrize("arguments", MESSAGES, ids=" ".join)
def test_bad_usage_is_named_and_leaves_nothing(command, nothing_left, arguments):
    here = command.folder
    (here / "empty.py").write_text("\n \t\n")
    (here / "folder").mkdir()
    (here / "latin.py").write_bytes(b"print(1)\nprint('caf\xe9')\n")
    with open(here / "large.py", "wb") as file:
        file.truncate(50 * 1024 * 1024)
    os.mkfifo(here / "pipe")
    files_before = sorted(os.listdir(here))

    ran = command("run", *arguments)

    message = MESSAGES[arguments].replace("{here}", str(here))
    assert (ran.code, ran.stdout, ran.complaint) == (2, "", f"Error: {message}")
    assert sorted(os.listdir(here)) == files_before
    assert nothing_left(ran.pid) is True


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["a\0b.py"], "'FILE'"),
        (["-c", "1", "--stdin", "a\0b"], "'--stdin'"),
        (["-c", "1", "--file", "a\0b"], "'--file'"),
        (["-c", "1", "--file", "empty.py:a\0b"], "'--file'"),
        (["-c", "1", "--out", "a\0b"], "'--out'"),
    ],
)
def test_a_name_with_a_nul_byte_is_refused(command, nothing_left, arguments, named):
    """No shell can pass one; a caller of `main` can."""
    (command.folder / "empty.py").write_text("")
    code = f"from groundbox.cli.main import main; main(['run', *{arguments!r}])"

    ran = command(code, prefix=["-c"])

    assert (ran.code, ran.stdout) == (2, "")
    assert re.fullmatch(rf"Error: Invalid value for {named}: '.*a\\x00b.*' holds a NUL byte; .*", ran.complaint)
    assert nothing_left(ran.pid) is True


@pytest.mark.parametrize("engine", [[], ["--no-engine"]], ids=["engine", "alone"])
@pytest.mark.parametrize("given", [b"\xff.txt", b"folder"])
def test_a_file_whose_name_is_no_unicode_is_refused(command, engine, given):
    (command.folder / "folder").mkdir()
    for name in (b"\xff.txt", b"folder/\xff.txt"):
        (command.folder / os.fsdecode(name)).write_text("x")

    ran = command("run", *engine, "-c", "1", "--file", os.fsdecode(given))

    assert (ran.code, ran.stdout) == (2, "")
    assert "has bytes that are no UTF-8; give it another name" in ran.complaint


def test_text_that_is_no_unicode_is_refused(command, nothing_left):
    ran = command("run", "-c", b"print('\xff')".decode("utf-8", "surrogateescape"))

    message = "source cannot be encoded as UTF-8; decode the file as it was written"
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.complaint == f"Error: Invalid value for 'FILE': {message.removeprefix('source ')}"
    assert nothing_left(ran.pid) is True


def test_an_environment_that_is_not_there_is_our_failure(command, nothing_left):
    ran = command("run", "-c", "1", "--environment", "nowhere")

    assert (ran.code, ran.stdout) == (3, "")
    assert ran.stderr.startswith("groundbox: there is no environment 'nowhere'")
    assert nothing_left(ran.pid) is True


def test_a_reader_that_has_gone_is_not_the_guests_failure(command):
    code = "for i in range(200000): print(i)"

    with subprocess.Popen(
        [sys.executable, "-m", "groundbox", "run", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.read(1)
        process.stdout.close()
        said = process.stderr.read().decode()

    assert (process.returncode, said) == (3, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_takes_the_sandbox_down(scratch, nothing_left, number):
    code = "print('begun', flush=True)\nimport time, subprocess\nsubprocess.run(['sleep', '60'])"
    environ = {**os.environ, "TMPDIR": str(scratch)}

    with subprocess.Popen(
        [sys.executable, "-m", "groundbox", "run", "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environ,
        # Whoever started the tests may ignore the signal, as nohup does with SIGHUP.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    ) as process:
        process.stdout.readline()
        begun = time.monotonic()
        process.send_signal(number)
        status = process.wait(10)

    assert status == (130 if number == signal.SIGINT else 128 + number)
    assert time.monotonic() - begun < 5
    assert nothing_left(process.pid) is True


def test_no_extra_is_loaded(command):
    bare = command("import sys; print(*sys.modules, sep='\\n')", prefix=["-c"]).stdout.split()
    code = (
        "import sys\nfrom groundbox.cli.main import main\n"
        "try: main(['run', '-c', 'print(1)', '--json'])\n"
        "finally: print(*sys.modules, sep='\\n', file=sys.stderr)"
    )

    ran = command(code, prefix=["-c"])

    loaded = {name.partition(".")[0] for name in ran.stderr.split()} - set(bare)
    # msgspec looks for typing_extensions, which it does not need, and finds it where tools are installed.
    assert loaded - sys.stdlib_module_names - {"typing_extensions"} == {"groundbox", "click", "msgspec"}


def test_importing_groundbox_loads_nothing_else(command):
    bare = command("import sys; print(*sys.modules, sep='\\n')", prefix=["-c"]).stdout.split()

    ran = command("import sys, groundbox; print(*sys.modules, sep='\\n')", prefix=["-c"])

    loaded = {name.partition(".")[0] for name in set(ran.stdout.split()) - set(bare)}
    assert loaded - sys.stdlib_module_names == {"groundbox"}
