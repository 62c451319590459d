"""A runtime of another package: found by its entry point, and run without any code of its own in the guest."""

import sys

import pytest

from groundbox import Outcome, Sandbox
from groundbox.sandbox import languages
from groundbox.testing.languages import Programs, RuntimeConformance

MODULE = '''
"""Scripts of awk, cells that count how many there have been, and scripts that leave a result in a file."""

from groundbox import InvalidArgument
from groundbox.sandbox.languages import Needs, SelfTest

MODES = ("script", "cell", "draw")
EXTENSION = ".awk"
NEEDS = Needs("awk", "apt install mawk")
SELF_TEST = SelfTest(source='BEGIN { print 6 * 7 }', mode="script", prints="42\\n")
DRIVER = """
count=0
while IFS= read -r line <&3; do
  [[ $line =~ '"id": '([0-9]+) ]]
  [[ $line == *die* ]] && exit 4
  count=$((count + 1))
  answer='"id": '"${BASH_REMATCH[1]}"', "ok": true, "value": {"text/plain": "'"$count"'"}'
  echo '{"ev": "done", '"$answer"'}' >&3
done
"""


def profile(source):
    return "bare"


def order(program):
    if program.mode == "cell":
        resident = {"name": "counter", "argv": ["bash", "-c", DRIVER]}
        return {"op": "run", "mode": "resident", "resident": resident, "source": program.source, "filename": ""}
    file = {"name": program.filename, "text": program.source, "where": "private"}
    if program.mode == "draw":
        argv = ["awk", "-f", {"place": program.filename}, "--", {"place": "picture.txt"}]
        results = {"picture.txt": "text/markdown"}
        return {"op": "run", "mode": "command", "argv": argv, "file": file, "results": results}
    if program.mode != "script":
        raise InvalidArgument("mode", f"{program.mode!r} is neither 'script' nor 'cell'")
    argv = ["awk", "-f", {"place": program.filename}, "--", *program.argv]
    return {"op": "run", "mode": "command", "argv": argv, "file": file}
'''


@pytest.fixture(scope="module", autouse=True)
def package(tmp_path_factory):
    """A package as pip would have installed it."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "their_awk.py").write_text(MODULE)
    facts = folder / "their_awk-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: their-awk\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(f"[{languages.ENTRY_POINTS}]\nawk = their_awk\n")
    sys.path.append(str(folder))
    yield
    sys.path.remove(str(folder))
    sys.modules.pop("their_awk", None)


def test_it_is_listed_beside_our_own():
    assert [(each.name, each.modes) for each in languages.listed()][-1] == ("awk", ("script", "cell", "draw"))


def test_a_command_runs_with_its_file_and_leaves_nothing():
    with Sandbox(profile="bare") as box:
        execution = box.run("BEGIN { print ARGV[1] }\n{ print $2 }", language="awk", argv=["-"], stdin="a b\n")

        assert (execution.stdout, execution.error) == ("-\nb\n", None)
        assert box.run("import os; os.listdir('.') + os.listdir('/tmp')").text == "[]"


RESULTS = {
    'BEGIN { printf "drawn" > ARGV[1] }': [{"text/markdown": "drawn"}],
    "BEGIN { 1 }": [],
    'BEGIN { system("mkdir " ARGV[1]) }': [],
    'BEGIN { system("ln -s /etc/passwd " ARGV[1]) }': [],
    'BEGIN { system("mkfifo " ARGV[1]) }': [{"text/markdown": ""}],
    'BEGIN { system("truncate -s 20M " ARGV[1]) }': [
        {"text/plain": "picture.txt is too large to show: over 10485760 bytes"}
    ],
}


@pytest.mark.parametrize("source", RESULTS)
def test_a_result_that_it_leaves_is_shown(source):
    with Sandbox(profile="bare") as box:
        execution = box.run(source, language="awk", mode="draw")  # type: ignore[arg-type]  # a mode of its own

        assert (execution.error, [display.data for display in execution.displays]) == (None, RESULTS[source])
        assert box.run("import os; os.listdir('.') + os.listdir('/tmp')").text == "[]"


def test_a_resident_keeps_its_state_until_it_dies():
    with Sandbox(profile="bare") as box:
        values = [box.run("next", language="awk", mode="cell").text for _ in range(3)]
        died = box.run("die", language="awk", mode="cell")
        after = box.run("next", language="awk", mode="cell")

    assert values == ["1", "2", "3"]
    assert (died.outcome, died.exit_code, died.state) == (Outcome.ERROR, 4, "kept")
    assert [warning.code for warning in died.warnings] == ["session.state_lost"]
    assert (after.text, list(after.warnings)) == ("1", [])


def test_a_runtime_that_fails_at_telling_a_result_loses_none(monkeypatch):
    import their_awk

    def finish(program, execution, studied):
        raise KeyError("what is there")

    monkeypatch.setattr(their_awk, "finish", finish, raising=False)
    with Sandbox(profile="bare") as box:
        execution = box.run('BEGIN { print "hello" }', language="awk")

    assert (execution.stdout, [each.code for each in execution.warnings]) == ("hello\n", ["language.unread"])


class TestAwk(RuntimeConformance):
    language = "awk"
    programs = Programs(
        prints='BEGIN { print "hello" }',
        spins="BEGIN { while (1) i++ }",
        floods='BEGIN { while (i++ < 100000) printf "x"; print "" }',
        writes='BEGIN { print "hello" > "made.txt" }',
        reads='BEGIN { getline < "given.txt"; print }',
        script='BEGIN { print ARGV[1]; ARGV[1] = "-" } { printf "%s", $0 }',
        exits="BEGIN { exit 3 }",
    )
