"""`groundbox jupyter install` and `remove`: where kernelspecs lie, and what they say."""

import json
import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("zmq", reason="the extra `jupyter` is not installed here: make clients")
from groundbox.cli.main import root
from groundbox.jupyter.kernelspec import folder_of


@pytest.fixture
def call():
    def called(*words):
        return CliRunner().invoke(root, ["jupyter", *map(str, words)], prog_name="groundbox")

    return called


def test_a_kernelspec_starts_this_python_with_the_options_that_were_given(call, tmp_path):
    data = tmp_path / "data.csv"
    data.write_text("a\n1\n")

    made = call(
        "install", "--prefix", tmp_path, "--wall-s", "none", "--loopback", "--file", f"{data}:in/", "--name", "x"
    )

    path = tmp_path / "share" / "jupyter" / "kernels" / "x"
    assert made.output == f"{path}\n"
    assert json.loads((path / "kernel.json").read_text()) == {
        "argv": [
            *[sys.executable, "-m", "groundbox", "jupyter", "kernel", "-f", "{connection_file}"],
            *["--file", f"{data}:in/data.csv", "--wall-s", "none", "--loopback"],
        ],
        "env": {},
        "display_name": "Python (groundbox)",
        "language": "python",
        "interrupt_mode": "message",
        "metadata": {"file_extension": ".py", "keeps_variables": True},
    }


def test_each_language_has_a_kernel_of_its_own_which_is_replaced_and_removed(call, tmp_path):
    first = call("install", "--prefix", tmp_path, "--language", "sql", "--option", "dialect=sqlite")
    again = call("install", "--prefix", tmp_path, "--language", "sql")
    path = Path(again.output.strip())
    spec = json.loads((path / "kernel.json").read_text())
    removed = call("remove", "--prefix", tmp_path, "--language", "sql")

    assert (first.exit_code, again.exit_code, path.name) == (0, 0, "groundbox-sql")
    assert (spec["argv"][7:], spec["display_name"]) == (["--language", "sql"], "SQL (groundbox)")
    assert (removed.output, path.exists()) == (f"{path}\n", False)
    assert os.listdir(path.parent) == []


def test_kernels_of_others_are_neither_replaced_nor_removed(call, tmp_path):
    path = tmp_path / "share" / "jupyter" / "kernels" / "python3"
    path.mkdir(parents=True)
    (path / "kernel.json").write_text('{"argv": ["python", "-m", "ipykernel_launcher"]}')

    told = [call(each, "--prefix", tmp_path, "--name", "python3") for each in ("install", "remove")]

    assert [each.exit_code for each in told] == [2, 2]
    assert "is another kernel" in told[0].output
    assert "is no kernel of groundbox" in told[1].output
    assert json.loads((path / "kernel.json").read_text())["argv"][0] == "python"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--name", "../x"], "'../x' is none"),
        (["--name", ".."], "'..' is none"),
        (["--user", "--sys-prefix"], "different places"),
        (["--file", "/nothing/there"], "cannot be read"),
        (["--language", "cobol"], "cobol"),
        (["--memory-mib", "few"], "'few'"),
    ],
)
def test_what_cannot_be_meant_writes_nothing(call, tmp_path, monkeypatch, words, told):
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))

    made = call("install", *words)

    assert (made.exit_code, told in made.output) == (2, True)
    assert not (tmp_path / "data").exists()


def test_kernelspecs_of_a_user_lie_where_jupyter_looks_for_them():
    assert [
        str(folder_of(None, {"JUPYTER_DATA_DIR": "/a"})),
        str(folder_of(None, {"XDG_DATA_HOME": "/b"})),
        str(folder_of(None, {"HOME": "/c"})),
        str(folder_of(Path("/d"), {"JUPYTER_DATA_DIR": "/a"})),
    ] == ["/a/kernels", "/b/jupyter/kernels", "/c/.local/share/jupyter/kernels", "/d/share/jupyter/kernels"]
