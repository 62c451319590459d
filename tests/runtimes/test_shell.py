"""Shell: what bash says, the program's file, and what is around it."""

import pytest

from groundbox import InvalidArgument, LanguageUnavailable, Limits, Outcome, Sandbox, run
from groundbox.sandbox import languages


@pytest.fixture
def box():
    with Sandbox(profile="bare") as made:
        yield made


def shell(box, source, **options):
    return box.run(source, language="shell", **options)


@pytest.mark.parametrize(
    ("source", "kind", "line", "message"),
    [
        ("x=1\nnope", "CommandFailed", 2, "nope: command not found"),
        ("set -u\necho\necho $missing", "CommandFailed", 3, "missing: unbound variable"),
        ("if true\nthen echo 1\nfoo )\nfi", "SyntaxError", 3, "syntax error near unexpected token `)'"),
        ("echo 'a", "SyntaxError", 1, "unexpected EOF while looking for matching `''"),
        ("false", "SystemExit", None, "the program ended with exit code 1"),
        ("echo 'main.sh: line 9: no'; exit 4", "SystemExit", None, "the program ended with exit code 4"),
    ],
)
def test_the_line_is_the_one_that_bash_names(box, source, kind, line, message):
    error = shell(box, source).error

    assert (error.type, error.line, error.message) == (kind, line, message)


def test_a_command_has_a_name_and_arguments(box):
    assert shell(box, 'echo "$0 $1"', mode="command", argv=["a; b"]).stdout == "main.sh a; b\n"


def test_a_command_too_long_is_refused_before_it_runs(box):
    with pytest.raises(InvalidArgument, match="use mode='script'"):
        shell(box, "#" * 200_000, mode="command")


def test_a_script_lies_in_the_workdir_as_long_as_it_runs(box):
    execution = shell(box, 'cd "$(dirname "$0")"; pwd; ls', filename="tool.sh")

    assert execution.stdout == "/box/work\ntool.sh\n"
    assert box.files.list() == {}


def test_a_file_of_the_same_name_is_neither_run_nor_changed(box):
    box.files.write("main.sh", "echo other")

    execution = shell(box, "echo mine; cat main.sh")

    assert execution.stdout == "mine\necho other"
    assert box.files.read("main.sh") == b"echo other"


def test_a_script_that_is_there_already_stays(box):
    box.files.write("main.sh", "echo mine")

    assert shell(box, "echo mine").stdout == "mine\n"
    assert box.files.read("main.sh") == b"echo mine"


def test_a_link_in_the_place_of_the_program_is_not_written_through(box):
    box.run("import os; os.symlink('target', 'main.sh')")

    assert shell(box, "echo mine").stdout == "mine\n"
    assert "target" not in box.files.list()


def test_a_program_that_was_killed_leaves_no_file_of_its_own():
    execution = run("trap '' INT; kill -STOP 1; while :; do :; done", language="shell", limits=Limits(wall_s=0.5))

    assert execution.outcome is Outcome.TIMEOUT
    assert dict(execution.artifacts) == {}


@pytest.mark.parametrize("name", ["a/b.sh", "..", "x" * 300, "a\0b"])
def test_a_filename_that_is_none_is_refused(box, name):
    with pytest.raises(InvalidArgument, match="filename"):
        shell(box, "true", filename=name)


@pytest.mark.parametrize("name", ["-n", "-c.sh", "a b.sh", "$(id).sh", "é.sh"])
def test_a_strange_name_is_only_a_name(box, name):
    execution = shell(box, 'printf "%s\\n" "$0"', filename=name)

    assert (execution.stdout, execution.error) == (f"{name}\n", None)


def test_what_a_script_leaves_running_is_ended(box):
    shell(box, "setsid sleep 98762 & sleep 98762 & disown -a")

    assert shell(box, "ls /proc > seen; grep -c '^[0-9]' seen").stdout == "3\n"  # the first process, bash, ls


def test_orphans_do_not_pile_up_while_a_script_runs():
    with Sandbox(profile="bare", limits=Limits(process_count=30)) as box:
        execution = shell(box, "for i in $(seq 100); do (true &); sleep 0.01; done; echo done")

    assert (execution.stdout, execution.stderr) == ("done\n", "")


def test_streams_that_a_script_made_non_blocking_block_again(box):
    box.run("import os; os.set_blocking(1, False)")
    shell(box, "true")

    assert len(box.run("print('x' * 1_000_000)").outputs["stdout"].read()) == 1_000_001


def test_signals_that_a_cell_blocked_are_not_blocked_in_a_script(box):
    box.run("import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})")

    assert shell(box, "kill -TERM $$; echo survived").exit_signal == 15


def test_a_script_goes_on_where_a_cell_is(box):
    box.run("import os; os.mkdir('sub'); os.chdir('sub'); os.environ['NAME'] = 'x'")

    assert shell(box, 'pwd; echo "$NAME"').stdout == "/box/work/sub\nx\n"


def test_a_language_that_is_not_installed_is_listed_with_the_way_to_get_it(monkeypatch):
    from groundbox.runtimes import shell as runtime

    monkeypatch.setattr(runtime, "NEEDS", languages.Needs("no-such-shell", "apt install no-such-shell"))

    (listed,) = [each for each in languages.listed() if each.name == "shell"]
    assert "apt install no-such-shell" in str(listed.missing)
    with pytest.raises(LanguageUnavailable, match="apt install no-such-shell"):
        run("true", language="shell")


def test_it_runs_in_the_folder_and_with_the_variables_it_is_given(box):
    box.files.write("sub/f", "")
    given = {"cwd": "sub", "env": {"A": "b c", "EMPTY": ""}}

    for mode in ("script", "command"):
        execution = shell(box, 'pwd; ls; echo "$A$EMPTY" ${PATH:+path}; basename "$0"', mode=mode, **given)

        assert (execution.stdout, execution.stderr) == ("/box/work/sub\nf\nb c path\nmain.sh\n", "")
    assert box.run("import os; os.getcwd(), 'A' in os.environ").text == "('/box/work', False)"


def test_a_folder_that_is_not_there_is_an_exit_code(box):
    execution = shell(box, "echo ran", cwd="nowhere")

    assert (execution.exit_code, execution.stdout) == (125, "")
    assert "nowhere" in execution.stderr


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"cwd": ""}, "cwd"),
        ({"cwd": "a\0b"}, "cwd"),
        ({"env": {"A=B": ""}}, "env"),
        ({"env": {"": "x"}}, "env"),
        ({"env": {"A": 1}}, "env"),
        ({"env": {"A": "\0"}}, "env"),
        ({"env": ["A"]}, "env"),
        ({"keep_processes": "yes"}, "keep_processes"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused(box, options, argument):
    with pytest.raises(InvalidArgument) as refused:
        shell(box, "true", **options)

    assert refused.value.argument == argument


def test_python_is_the_one_that_cells_run_on(box):
    in_cells = box.run("import sys; print(sys.executable, sys.version_info, end='')").stdout

    asked = "import sys; print(sys.executable, sys.version_info, end='')"
    for name in ("python", "python3"):
        found = shell(box, f'{name} -c "{asked}"').stdout
        assert found.rsplit("/", 1)[0] == in_cells.rsplit("/", 1)[0]
        assert found.split(" ", 1)[1] == in_cells.split(" ", 1)[1]


def test_what_a_script_leaves_running_lives_on_where_that_is_asked_for(box):
    left = "(while [ ! -e go ]; do sleep 0.01; done; touch heard) & setsid sleep 98761 >/dev/null 2>&1 & echo started"
    count = "cat /proc/[0-9]*/cmdline 2> /dev/null | tr '\\0' ' ' | grep -c '[s]leep 98761'"

    assert shell(box, left, keep_processes=True).stdout == "started\n"
    shell(box, "touch go; until [ -e heard ]; do sleep 0.01; done", keep_processes=True)

    assert shell(box, count, keep_processes=True).stdout == "1\n"
    shell(box, "true")
    assert shell(box, count).stdout == "0\n"
