"""A client's configuration brings files in, and keeps what programs make."""

import json
import subprocess
import sys

import pytest


@pytest.fixture
def called(tmp_path):
    """What a client of `groundbox mcp` is told of one program: the texts of the result."""

    def call(*arguments, **program):
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
        with subprocess.Popen(
            [sys.executable, "-m", "groundbox", "mcp", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=tmp_path,
        ) as server:
            message = json.dumps({**request, "params": {"name": "run_code", "arguments": program}})
            server.stdin.write(f"{message}\n".encode())
            server.stdin.flush()
            answer = json.loads(server.stdout.readline())
            server.stdin.close()
        return [part.get("text", "") for part in answer["result"]["content"]]

    return call


def test_files_come_in_and_pictures_stay(called, tmp_path):
    (tmp_path / "sales.csv").write_text("region,sum\nnorth,3\n")
    source = (
        "import matplotlib.pyplot as plt\nplt.plot([1, 2])\n"
        "open('/mnt/data/copy.csv', 'w').write(open('data/sales.csv').read())"
    )

    texts = called("--file", "sales.csv:data/", "--out", "kept", code=source, language="py")

    assert {path.name for path in (tmp_path / "kept").iterdir()} == {"run-1-display-1.png", "copy.csv"}
    assert texts[-1] == "2 files of this run are kept for the user."


def test_a_folder_that_cannot_be_written_is_refused_at_the_start(command):
    (command.folder / "taken").write_text("")

    ran = command("mcp", "--out", "taken/deeper", stdin=b"")

    assert (ran.code, ran.stdout) == (2, "")
    assert "Invalid value for '--out'" in ran.complaint


def test_a_hint_names_no_option_that_a_model_cannot_set(called):
    text = called(code="import urllib.request; urllib.request.urlopen('https://data.test/')")[0]

    assert "--allow-host" not in text
    assert "Only the person who set up this server can change that." in text
