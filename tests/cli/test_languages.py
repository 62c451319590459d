"""`groundbox languages`, files by their endings, and what `doctor` says of each language."""

import json

import pytest

from groundbox.cli import doctor
from groundbox.sandbox import languages


def needs(language):
    return pytest.mark.skipif(languages.missing(language) is not None, reason=f"{language} is not installed")


def test_every_language_is_listed_with_its_modes(command):
    ran = command("languages", "--json")

    listed = {each["language"]: each for each in map(json.loads, ran.stdout.splitlines())}
    assert listed["python"] == {"language": "python", "modes": ["cell", "script", "call", "calls"], "installed": True}
    assert list(listed) == [each.name for each in languages.listed()]


@pytest.mark.parametrize(
    ("name", "source", "stdout"),
    [
        ("tool.sh", 'echo "$1" from "$0"', "x from tool.sh\n"),
        pytest.param("tool.js", "console.log(process.argv[2])", "x\n", marks=needs("javascript")),
    ],
)
def test_a_file_is_run_by_the_language_of_its_ending(command, name, source, stdout):
    (command.folder / name).write_text(source)

    ran = command("run", name, "--", "x")

    assert (ran.code, ran.stdout) == (0, stdout)


@needs("dot")
def test_a_graph_is_drawn_into_a_folder(command):
    (command.folder / "flow.gv").write_text("digraph { a -> b }")

    ran = command("run", "flow.gv", "--out", "made", "--", "-Tsvg")

    assert (ran.code, ran.stdout.splitlines()[0]) == (0, "digraph: 2 nodes, 1 edge, 1 component, no cycles")
    assert [path.suffix for path in (command.folder / "made").iterdir()].count(".svg") == 1


def test_code_of_a_language_runs_in_its_first_mode(command):
    assert command("run", "--language", "shell", "-c", "echo $((6 * 7))").stdout == "42\n"
    assert command("run", "--language", "shell", "--mode", "command", "-c", "echo $0").stdout == "main.sh\n"


@needs("javascript")
def test_the_prompt_keeps_the_variables_of_a_language(command):
    ran = command("repl", "--language", "javascript", stdin=b"const a = 6\n\na * 7\n")

    assert (ran.code, ran.stdout) == (0, "42\n")


def test_a_language_that_is_missing_says_how_to_get_it(monkeypatch):
    from groundbox.runtimes import shell

    monkeypatch.setattr(shell, "NEEDS", languages.Needs("no-such-shell", "apt install it"))
    (missing,) = [each for each in languages.listed() if each.name == "shell"]

    facts = doctor._language(missing, doctor.Wall("namespaces", "default", ()))

    assert (facts["installed"], facts["works"], facts["mend"]) == (False, False, "apt install it")


def test_a_language_that_fails_its_self_test_is_told(monkeypatch):
    from groundbox.runtimes import shell

    monkeypatch.setattr(shell, "SELF_TEST", languages.SelfTest("exit 3", "script", ""))
    (broken,) = [each for each in languages.listed() if each.name == "shell"]

    facts = doctor._language(broken, doctor.Wall("namespaces", "default", ()))

    assert (facts["installed"], facts["works"]) == (True, False)
    assert facts["detail"] == "its self-test ended with error: SystemExit: the program ended with exit code 3"
