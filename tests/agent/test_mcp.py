"""The server of the Model Context Protocol, spoken to line by line over its pipes."""

import base64
import itertools
import json
import re
import subprocess
import sys

import pytest

VERSION = "io.modelcontextprotocol/protocolVersion"
MODERN = {"_meta": {VERSION: "2026-07-28"}}


def parts(text):
    """What stands between marks, part by part."""
    return {name: told for name, _, told in re.findall(r"<(\w+) (\w{8})>\n(.*?)\n</\1 \2>", text, re.DOTALL)}


class Peer:
    """A client that says what it is told to say."""

    def __init__(self, *arguments):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "groundbox", "mcp", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._ids = itertools.count(1)

    def write(self, line):
        self._process.stdin.write(line + b"\n")
        self._process.stdin.flush()

    def read(self):
        return json.loads(self._process.stdout.readline())

    def send(self, method, params=None, **more):
        message = {"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params}), **more}
        self.write(json.dumps(message).encode())

    def ask(self, method, params=None):
        """The answer, whole."""
        identity = next(self._ids)
        self.send(method, params, id=identity)
        answer = self.read()
        assert answer["id"] == identity
        return answer

    def call(self, name, **arguments):
        return self.ask("tools/call", {"name": name, "arguments": arguments})["result"]

    def run(self, code, **more):
        return self.call("run_code", code=code, **more)["content"][0]["text"]

    def close(self):
        if self._process.stdin.closed:
            return None
        self._process.stdin.close()
        rest = self._process.stdout.read()
        self._process.stdout.close()
        return self._process.wait(timeout=30), rest


@pytest.fixture
def peer():
    made = Peer("--wall-s", "20")
    yield made
    made.close()


@pytest.mark.parametrize(
    ("asked", "agreed"),
    [("2024-11-05", "2024-11-05"), ("2025-11-25", "2025-11-25"), ("1999-01-01", "2025-11-25"), (None, "2025-11-25")],
)
def test_a_session_begins_with_a_version_that_both_speak(peer, asked, agreed):
    client = {"capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}

    result = peer.ask("initialize", {"protocolVersion": asked, **client})["result"]
    peer.send("notifications/initialized")

    assert result["protocolVersion"] == agreed
    assert (result["serverInfo"]["name"], result["capabilities"]) == ("groundbox", {"tools": {}})
    assert peer.ask("ping") == {"jsonrpc": "2.0", "id": 2, "result": {}}


def test_without_sessions_each_request_says_its_version(peer):
    discovered = peer.ask("server/discover", MODERN)["result"]
    listed = peer.ask("tools/list", MODERN)["result"]
    called = peer.ask("tools/call", {"name": "run_code", "arguments": {"code": "6 * 7"}, **MODERN})["result"]

    assert discovered["supportedVersions"] == ["2026-07-28"]
    assert {discovered["resultType"], listed["resultType"], called["resultType"]} == {"complete"}
    assert (listed["cacheScope"], listed["ttlMs"] > 0) == ("public", True)
    assert [parts(each["text"]) for each in called["content"]] == [{"value": "42"}]


def test_a_version_that_is_not_spoken_is_answered_with_those_that_are(peer):
    error = peer.ask("tools/list", {"_meta": {VERSION: "2031-01-01"}})["error"]

    assert error["code"] == -32022
    assert error["data"]["requested"] == "2031-01-01"
    assert "2026-07-28" in error["data"]["supported"]


def test_the_older_era_is_not_told_of_what_came_later(peer):
    listed = peer.ask("tools/list")["result"]

    assert list(listed) == ["tools"]
    assert [tool["name"] for tool in listed["tools"]] == ["run_code", "write_file", "read_file", "restart"]


def test_variables_and_files_are_kept_over_languages(peer):
    peer.run("import pandas as pd\ndf = pd.DataFrame({'a': [40, 2]})")
    peer.call("write_file", path="data/note.txt", content="kept")

    assert "42" in peer.run("SELECT sum(a) AS total FROM df", language="sql")
    assert parts(peer.run("cat data/note.txt", language="shell")) == {"stdout": "kept"}


PLOT = "import matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()\nopen('f', 'w')"


def test_a_result_is_a_text_and_a_picture(peer):
    result = peer.call("run_code", code=PLOT)

    assert result.keys() == {"content", "isError"}
    assert [part["type"] for part in result["content"]] == ["text", "image"]
    assert base64.b64decode(result["content"][1]["data"]).startswith(b"\x89PNG")


def test_a_result_is_json_too_where_an_option_asks_for_it():
    peer = Peer("--structured-content")
    result = peer.call("run_code", code=PLOT)
    peer.close()

    assert [part["type"] for part in result["content"]] == ["text", "image"]
    assert (result["isError"], result["structuredContent"]["outcome"]) == (False, "ok")
    assert "image/png" not in result["structuredContent"]["displays"][0]


def test_a_failure_is_a_result_that_a_model_can_mend(peer):
    result = peer.call("run_code", code="{'tea': 3}['milk']")

    assert result["isError"]
    assert "KeyError: 'milk'" in result["content"][0]["text"]


def test_a_limit_for_one_program_keeps_what_was_printed(peer):
    text = peer.run("print('out', flush=True)\nimport time; time.sleep(60)", wall_s=0.5)

    assert parts(text)["stdout"] == "out"
    assert "stopped at wall_s=0.5" in text


def test_files_of_any_kind_go_in_and_out(peer):
    raw = base64.b64encode(b"\x00\xff").decode()
    peer.call("write_file", path="raw.bin", content=raw, encoding="base64")
    pictures = ["p.png", "p.jpg", "p.gif", "p.webp"]
    peer.run(f"import PIL.Image\nfor name in {pictures}: PIL.Image.new('RGB', (2, 2)).save(name)")
    peer.run("open('t.txt', 'w').write('é')")

    [blob] = peer.call("read_file", path="raw.bin")["content"]
    media_types = [peer.call("read_file", path=name)["content"][0]["mimeType"] for name in pictures]

    resource = {"uri": "sandbox:///raw.bin", "mimeType": "application/octet-stream", "blob": raw}
    assert blob == {"type": "resource", "resource": resource}
    assert media_types == ["image/png", "image/jpeg", "image/gif", "image/webp"]
    assert peer.call("read_file", path="t.txt")["content"] == [{"type": "text", "text": "é"}]


def test_a_restart_forgets_variables_and_keeps_files(peer):
    peer.run("x = 1; open('kept', 'w').close()")

    assert peer.call("restart")["content"][0]["text"] == "The variables are gone."
    assert parts(peer.run("import os; ('x' in globals(), os.listdir())")) == {"value": "(False, ['kept'])"}


def test_a_program_that_ends_the_process_does_not_stand_in_the_way(peer):
    peer.run("x = 1")

    assert "its variables with it" in peer.run("import os; os._exit(3)")
    assert parts(peer.run("1 + 1")) == {"value": "2"}


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("run_code", {}, "code: is missing"),
        ("run_code", {"code": 1}, "code: must be a text"),
        ("run_code", {"code": "1", "wall_s": "x"}, "wall_s: must be a number"),
        ("run_code", {"code": "1", "wall_s": -1}, "wall_s: must be above 0"),
        ("run_code", {"code": "1", "language": "cobol"}, "language: must be one of python"),
        ("run_code", {"code": "1", "more": 1}, "arguments: must be an object with no others than code"),
        ("run_code", {"code": " "}, "source: is empty"),
        ("write_file", {"path": "../x", "content": ""}, "must be a path inside the workdir"),
        ("write_file", {"path": "x", "content": "?", "encoding": "base64"}, "content: is no base64"),
        ("read_file", {"path": "missing"}, "No such file"),
        ("restart", [], "arguments: must be an object"),
    ],
)
def test_arguments_that_cannot_be_meant_are_told_to_the_model(peer, name, arguments, words):
    result = peer.ask("tools/call", {"name": name, "arguments": arguments or {} if arguments != [] else [1]})["result"]

    assert result["isError"]
    assert words in result["content"][0]["text"]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", -32700),
        (b"[" * 100_000, -32700),
        (b'"text"', -32600),
        (b'{"id": 1, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "resources/list"}', -32601),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}', -32602),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "no"}}', -32602),
    ],
)
def test_what_is_no_request_gets_an_error_and_the_next_one_an_answer(peer, line, code):
    peer.write(line)

    assert peer.read()["error"]["code"] == code
    assert peer.ask("ping")["result"] == {}


def test_notices_and_answers_to_nothing_are_let_by(peer):
    peer.send("notifications/unheard_of")
    peer.write(b'{"jsonrpc": "2.0", "id": 7, "result": {}}')
    peer.write(b"")

    assert peer.ask("ping")["result"] == {}


def test_a_program_is_cancelled_while_others_are_answered(peer):
    peer.run("x = 42")
    peer.send("tools/call", {"name": "run_code", "arguments": {"code": "import time; time.sleep(60)"}}, id="long")
    peer.send("ping", id="meanwhile")
    assert peer.read()["id"] == "meanwhile"

    peer.send("notifications/cancelled", {"requestId": "long"})

    assert parts(peer.run("x")) == {"value": "42"}


def test_progress_is_told_each_second_where_it_is_asked_for(peer):
    peer.run("import time")
    params = {"name": "run_code", "arguments": {"code": "time.sleep(2.5)"}}

    peer.send("tools/call", {**params, "_meta": {"progressToken": "p"}}, id="told")
    told = [peer.read()]
    while "id" not in told[-1]:
        told.append(peer.read())
    silent = peer.ask("tools/call", params)

    *notices, answer = told
    assert (answer["id"], answer["result"]["isError"], silent["result"]["isError"]) == ("told", False, False)
    assert {notice["method"] for notice in notices} == {"notifications/progress"}
    assert {notice["params"]["progressToken"] for notice in notices} == {"p"}
    seconds = [notice["params"]["progress"] for notice in notices]
    assert len(seconds) >= 2
    assert seconds == sorted(set(seconds))


def test_a_program_whose_progress_is_told_is_cancelled_like_another(peer):
    peer.run("x = 42")
    params = {"name": "run_code", "arguments": {"code": "import time; time.sleep(60)"}, "_meta": {"progressToken": 7}}
    peer.send("tools/call", params, id="long")
    assert peer.read()["params"]["progressToken"] == 7

    peer.send("notifications/cancelled", {"requestId": "long"})
    peer.send("tools/call", {"name": "run_code", "arguments": {"code": "x"}}, id="next")
    answer = peer.read()
    while "id" not in answer:
        answer = peer.read()

    assert (answer["id"], parts(answer["result"]["content"][0]["text"])) == ("next", {"value": "42"})


def test_nothing_but_the_protocol_is_on_stdout_and_the_end_of_input_is_the_end(peer):
    shown = peer.run("import os; os.write(1, b'{}\\n'); print('{\"jsonrpc\": \"2.0\"}')")
    peer.send("tools/call", {"name": "run_code", "arguments": {"code": "import time; time.sleep(60)"}}, id="long")

    assert parts(shown) == {"stdout": '{}\n{"jsonrpc": "2.0"}'}
    assert peer.close() == (0, b"")


@pytest.mark.parametrize("given", ["a file", "/dev/null", "/dev/zero"])
def test_an_input_that_cannot_be_waited_for_is_refused_with_what_to_do(tmp_path, given):
    if given == "a file":
        given = tmp_path / "in"
        given.touch()
    with open(given, "rb") as stdin:
        ended = subprocess.run(
            [sys.executable, "-m", "groundbox", "mcp"], stdin=stdin, capture_output=True, check=False
        )

    assert (ended.returncode, ended.stdout) == (2, b"")
    assert b"stdin: must be a pipe" in ended.stderr
