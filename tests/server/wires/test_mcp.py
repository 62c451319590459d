"""MCP over HTTP, as bare messages and as the clients of the protocol's own package in both of its major versions."""

import asyncio
import json
import threading
import time

import httpx
import pytest

from groundbox.testing.base import until

TOKEN = "a-key-of-some-length-for-tests"
STRUCTURED = "/mcp?structured_content=true"
BOTH = {"Accept": "application/json, text/event-stream"}
VERSION = "io.modelcontextprotocol/protocolVersion"
META = {VERSION: "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
LONG = "import time\nprint('begun', flush=True)\ntime.sleep(60)"
ABOUT = {"capabilities": {}, "clientInfo": {"name": "a client", "version": "1"}}


def events(text):
    """Messages of a stream, without comments."""
    return [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: ")]


def answer_of(answer):
    """The answer itself, however it came: what takes over a second comes as a stream."""
    if answer.headers["content-type"].startswith("text/event-stream"):
        return events(answer.text)[-1]
    return answer.json()


class Peer:
    """A client that says what it is told to say, in either era."""

    def __init__(self, server, token=TOKEN):
        self.http = server.client(token)
        self.session = None
        self.path = STRUCTURED

    def post(self, message, **headers):
        session = {} if self.session is None else {"Mcp-Session-Id": self.session}
        return self.http.post(self.path, json=message, headers={**BOTH, **session, **headers})

    def begin(self, version="2025-11-25"):
        answer = self.ask("initialize", protocolVersion=version, **ABOUT)
        self.session = answer.headers["mcp-session-id"]
        self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer

    def ask(self, method, identity=1, **params):
        return self.post({"jsonrpc": "2.0", "id": identity, "method": method, "params": params})

    def call(self, name, **arguments):
        return answer_of(self.ask("tools/call", name=name, arguments=arguments))["result"]

    def modern(self, method, headers=(), meta=META, **params):
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": meta, **params}}
        named = {"Mcp-Name": params["name"]} if "name" in params else {}
        routed = {"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, **named, **dict(headers)}
        return self.post(message, **{name: value for name, value in routed.items() if value is not None})

    def modern_call(self, name, **arguments):
        return answer_of(self.modern("tools/call", name=name, arguments=arguments))["result"]

    def sandboxes(self):
        return {box["sandbox_id"]: box for box in self.http.get("/v1/sandboxes").json()["sandboxes"]}

    def running(self):
        """Runs that go on, as the metrics tell."""
        text = self.http.get("/metrics").text
        return next(float(line.split()[1]) for line in text.splitlines() if line.startswith("groundbox_runs_running "))

    def wait_until_running(self, count, seconds=10):
        """Seconds until so many runs go on."""
        begun = time.monotonic()
        while self.running() != count:
            assert time.monotonic() - begun < seconds, f"{self.running()} runs go on, and not {count}"
            time.sleep(0.02)
        return time.monotonic() - begun


@pytest.fixture
def peer(server):
    made = Peer(server)
    yield made
    for name, box in made.sandboxes().items():
        if box["wire"] == "mcp":
            made.http.delete(f"/v1/sandboxes/{name}")
    made.http.close()


@pytest.fixture
def stranger(server):
    with server.client() as client:
        made = client.post("/v1/keys", json={"owner": "somebody else", "scopes": ["run"]}).json()
    return Peer(server, made["key"])


def value(result):
    return (result.get("structuredContent") or {}).get("value")


# The era with sessions


def test_a_session_is_a_sandbox_until_it_is_deleted(peer):
    begun = peer.begin()
    peer.call("run_code", code="x = 6")
    kept = peer.call("run_code", code="x * 7")
    box = peer.sandboxes()[peer.session]
    ended = peer.http.delete("/mcp", headers={"Mcp-Session-Id": peer.session})
    after = peer.ask("ping")

    assert begun.json()["result"]["protocolVersion"] == "2025-11-25"
    assert value(kept) == {"text/plain": "42"}
    assert (box["wire"], box["labels"]) == ("mcp", {"mcp": "session", "client": "a client"})
    assert (ended.status_code, peer.session in peer.sandboxes()) == (204, False)
    assert (after.status_code, after.json()["error"]["code"]) == (404, -32001)


@pytest.mark.parametrize("modern", [False, True])
def test_a_result_is_text_and_pictures_unless_the_address_asks_for_json(peer, modern):
    peer.path = "/mcp"
    if not modern:
        peer.begin()
    call = peer.modern_call if modern else peer.call

    result = call("run_code", code="import matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()")

    kinds = ["text", "image", "text"] if modern else ["text", "image"]
    assert "structuredContent" not in result
    assert [part["type"] for part in result["content"]] == kinds


def test_an_address_that_asks_for_json_in_other_words_is_refused_before_anything_runs(peer):
    peer.path = "/mcp?structured_content=yes"

    answer = peer.ask("initialize", protocolVersion="2025-11-25", **ABOUT)

    assert (
        answer.json()["error"]["message"] == "structured_content in the address must be true or false; nothing was run"
    )
    assert not peer.sandboxes()


def test_tools_have_no_sandbox_to_choose_in_a_session(peer):
    peer.begin()

    tools = peer.ask("tools/list").json()["result"]["tools"]

    assert [tool["name"] for tool in tools] == ["run_code", "write_file", "read_file", "restart"]
    assert not any("sandbox" in tool["inputSchema"]["properties"] for tool in tools)


def test_a_request_without_a_session_is_told_to_begin(peer):
    answer = peer.ask("tools/list")

    assert (answer.status_code, answer.json()["error"]["data"]) == (400, {"code": "no_session", "status": 400})


def test_a_session_of_another_key_is_not_found(peer, stranger):
    peer.begin()
    stranger.session = peer.session

    answers = [stranger.ask("ping"), stranger.http.delete("/mcp", headers={"Mcp-Session-Id": peer.session})]

    assert [answer.status_code for answer in answers] == [404, 404]
    assert peer.ask("ping").json()["result"] == {}


def test_a_program_that_ends_the_process_does_not_stand_in_the_way(peer):
    peer.begin()
    peer.call("write_file", path="kept", content="kept")

    ended = peer.call("run_code", code="import os; os._exit(3)")
    after = peer.call("run_code", code="open('kept').read()")

    assert ended["isError"]
    assert value(after) == {"text/plain": "'kept'"}


def test_what_a_model_can_mend_is_a_result(peer):
    peer.begin()

    told = [
        peer.call("run_code", code="1 / 0"),
        peer.call("run_code", code="1", language="cobol"),
        peer.call("run_code", code="1", wall_s=-1),
        peer.call("read_file", path="missing"),
    ]

    assert [each["isError"] for each in told] == [True] * 4
    assert "ZeroDivisionError" in told[0]["content"][0]["text"]
    assert "No such file" in told[3]["content"][0]["text"]


def test_a_long_answer_is_a_stream_with_progress(peer):
    peer.begin()
    params = {
        "name": "run_code",
        "arguments": {"code": "import time; time.sleep(3.5)"},
        "_meta": {"progressToken": "p"},
    }

    answer = peer.ask("tools/call", **params)

    *progress, last = events(answer.text)
    seconds = [each["params"]["progress"] for each in progress]
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert {(each["method"], each["params"]["progressToken"]) for each in progress} == {("notifications/progress", "p")}
    assert seconds == sorted(set(seconds))
    assert (last["id"], last["result"]["isError"]) == (1, False)


def test_who_accepts_no_stream_waits_for_json(peer):
    peer.begin()
    message = {"name": "run_code", "arguments": {"code": "import time; time.sleep(1.5); 'done'"}}

    answer = peer.post(
        {"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": message}, Accept="application/json"
    )

    assert answer.headers["content-type"] == "application/json"
    assert value(answer.json()["result"]) == {"text/plain": "'done'"}


def test_a_notice_of_cancelling_ends_the_run_within_a_second_and_keeps_the_variables(peer):
    peer.begin()
    peer.call("run_code", code="x = 42")
    answers = []
    call = {"name": "run_code", "arguments": {"code": LONG}}
    thread = threading.Thread(target=lambda: answers.append(peer.ask("tools/call", "long", **call)))
    thread.start()
    peer.wait_until_running(1)
    time.sleep(1.5)

    noticed = peer.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "long"}})
    ended_s = peer.wait_until_running(0)
    thread.join()

    assert noticed.status_code == 202
    assert ended_s < 1
    assert events(answers[0].text) == []
    assert value(peer.call("run_code", code="x")) == {"text/plain": "42"}


@pytest.mark.parametrize("waits_s", [0.3, 2.5], ids=["before the stream", "in the stream"])
def test_a_client_that_goes_away_ends_its_run_within_a_second(peer, server, waits_s):
    peer.begin()
    call = {"name": "run_code", "arguments": {"code": LONG}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}

    with server.client() as leaving, pytest.raises(httpx.ReadTimeout):
        leaving.post(
            "/mcp", json=message, headers={**BOTH, "Mcp-Session-Id": peer.session}, timeout=httpx.Timeout(waits_s)
        )
    ended_s = peer.wait_until_running(0)

    assert ended_s < 1
    assert value(peer.call("run_code", code="1 + 1")) == {"text/plain": "2"}


def test_a_program_that_heeds_no_interrupt_ends_within_two_seconds(peer, server):
    peer.begin()
    stubborn = "import time\nwhile True:\n    try:\n        time.sleep(60)\n    except BaseException:\n        pass"
    message = {"name": "run_code", "arguments": {"code": stubborn}}

    with server.client() as leaving, pytest.raises(httpx.ReadTimeout):
        leaving.post(
            "/mcp",
            json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": message},
            headers={**BOTH, "Mcp-Session-Id": peer.session},
            timeout=httpx.Timeout(1.0),
        )

    assert peer.wait_until_running(0) < 2
    assert value(peer.call("run_code", code="1 + 1")) == {"text/plain": "2"}


def test_the_stream_of_a_session_ends_with_it(peer):
    peer.begin()
    headers = {"Mcp-Session-Id": peer.session, "Accept": "text/event-stream"}

    with peer.http.stream("GET", "/mcp", headers=headers) as stream:
        lines = stream.iter_lines()
        first = next(lines)
        peer.http.delete("/mcp", headers={"Mcp-Session-Id": peer.session})
        rest = list(lines)

    assert (stream.status_code, first) == (200, ": this stream is open")
    assert not [line for line in rest if line and not line.startswith(":")]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Accept": "application/json"}, 406),
        ({"Accept": "text/event-stream"}, 400),
        ({"Accept": "text/event-stream", "Mcp-Session-Id": "../x"}, 404),
        ({"Accept": "text/event-stream", "Mcp-Protocol-Version": "2026-07-28"}, 405),
    ],
)
def test_a_stream_that_is_of_no_session_is_refused(peer, headers, status):
    answer = peer.http.get("/mcp", headers=headers)

    assert answer.status_code == status


def test_several_messages_in_one_body_are_answered_where_the_version_has_that(peer):
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/unheard_of"},
        {"jsonrpc": "2.0", "id": 2, "method": "no/such"},
    ]
    peer.begin("2025-03-26")
    older = peer.post(messages)
    notices = peer.post(messages[1:2])
    peer.begin("2025-11-25")
    newer = peer.post(messages)

    assert [(each["id"], "result" in each) for each in older.json()] == [(1, True), (2, False)]
    assert (notices.status_code, notices.content) == (202, b"")
    assert (newer.status_code, newer.json()["error"]["code"]) == (400, -32600)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"\xff", -32700),
        (b"[" * 100_000, -32700),
        (b'"text"', -32600),
        (b'{"id": 1, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 2}', -32600),
    ],
)
def test_a_body_that_is_no_message_is_refused(peer, body, code):
    peer.begin()

    answer = peer.http.post("/mcp", content=body, headers={**BOTH, "Mcp-Session-Id": peer.session})

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, code)


def test_a_wrong_key_and_a_page_of_somebody_else_come_no_further(server):
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", **ABOUT}}

    with server.client("wrong") as wrong, server.client() as right:
        unknown = wrong.post("/mcp", json=message, headers=BOTH)
        foreign = right.post("/mcp", json=message, headers={**BOTH, "Origin": "http://evil.example"})

    assert (unknown.status_code, foreign.status_code) == (401, 403)


def test_no_room_is_an_error_of_the_protocol_and_no_failed_program(server):
    with server.client() as owner:
        quotas = {"sandboxes": 1}
        made = owner.post("/v1/keys", json={"owner": "small", "scopes": ["run"], "quotas": quotas}).json()
    small = Peer(server, made["key"])
    small.begin()
    small.session, first = None, small.session

    second = small.ask("initialize", protocolVersion="2025-11-25", **ABOUT)
    modern = small.modern("tools/call", name="run_code", arguments={"code": "1"})
    small.http.delete("/mcp", headers={"Mcp-Session-Id": first})

    assert (second.status_code, second.json()["error"]["code"], "mcp-session-id" in second.headers) == (
        200,
        -32000,
        False,
    )
    assert (modern.status_code, modern.json()["error"]["data"]["status"]) == (429, 429)


# The era without sessions


def test_without_sessions_a_server_says_what_there_is(peer):
    discovered = peer.modern("server/discover").json()["result"]
    listed = peer.modern("tools/list").json()["result"]

    assert (discovered["supportedVersions"], discovered["resultType"]) == (["2026-07-28"], "complete")
    assert (listed["cacheScope"], listed["ttlMs"] > 0) == ("public", True)
    assert all("sandbox" in tool["inputSchema"]["properties"] for tool in listed["tools"])


def test_calls_share_variables_only_where_they_name_the_same_sandbox(peer):
    first = peer.modern_call("run_code", code="x = 6")
    name = first["structuredContent"]["sandbox"]
    again = peer.modern_call("run_code", code="x * 7", sandbox=name)
    apart = peer.modern_call("run_code", code="x")
    peer.modern_call("write_file", path="f", content="é", sandbox=name)
    file = peer.modern_call("read_file", path="f", sandbox=name)

    assert first["content"][-1] == {"type": "text", "text": f"sandbox: {name}"}
    assert value(again) == {"text/plain": "42"}
    assert apart["structuredContent"]["error"]["type"] == "NameError"
    assert file["content"][0]["text"] == "é"


def test_a_sandbox_that_is_not_there_or_not_named_is_told_to_the_model(peer, stranger):
    name = peer.modern_call("run_code", code="1")["structuredContent"]["sandbox"]

    told = [
        stranger.modern_call("run_code", code="1", sandbox=name),
        peer.modern_call("run_code", code="1", sandbox="../x"),
        peer.modern_call("read_file", path="f"),
        peer.modern_call("restart"),
    ]

    words = [each["content"][0]["text"] for each in told]
    assert all(each["isError"] for each in told)
    assert words[0] == words[1]
    assert words[2:] == ["Error: sandbox: is missing", "Error: sandbox: is missing"]


def test_a_sandbox_of_the_native_interface_can_be_named(peer, sandbox):
    name = sandbox.rpartition("/")[2]
    peer.http.post(f"{sandbox}/run", json={"code": "x = 42"})

    result = peer.modern_call("run_code", code="x", sandbox=name)

    assert value(result) == {"text/plain": "42"}


def test_where_there_is_no_room_a_sandbox_that_nobody_came_back_to_gives_way(server):
    with server.client() as owner:
        made = owner.post("/v1/keys", json={"owner": "two", "scopes": ["run"], "quotas": {"sandboxes": 2}}).json()
    two = Peer(server, made["key"])
    kept = two.modern_call("run_code", code="x = 1")["structuredContent"]["sandbox"]
    two.modern_call("run_code", code="x", sandbox=kept)
    once = two.modern_call("run_code", code="1")["structuredContent"]["sandbox"]

    newest = two.modern_call("run_code", code="2")["structuredContent"]["sandbox"]

    assert set(two.sandboxes()) == {kept, newest}
    assert once not in (kept, newest)


@pytest.mark.parametrize(
    ("headers", "meta", "status", "code"),
    [
        ({"Mcp-Method": "ping"}, META, 400, -32020),
        ({"Mcp-Method": None}, META, 400, -32020),
        ({"Mcp-Protocol-Version": "2025-11-25"}, META, 400, -32020),
        ({"Mcp-Protocol-Version": "2031-01-01"}, {**META, VERSION: "2031-01-01"}, 400, -32022),
        ({}, {VERSION: "2026-07-28"}, 400, -32602),
        ({}, {}, 400, -32602),
    ],
)
def test_what_a_request_says_of_itself_has_to_be_whole_and_of_one_voice(peer, headers, meta, status, code):
    answer = peer.modern("tools/list", headers=headers, meta=meta)

    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


def test_a_name_in_the_header_has_to_be_that_of_the_body(peer):
    call = {"name": "restart", "arguments": {}}

    wrong = peer.modern("tools/call", headers={"Mcp-Name": "run_code"}, **call)
    encoded = peer.modern("tools/call", headers={"Mcp-Name": "=?base64?cmVzdGFydA==?="}, **call)
    unknown = peer.modern("tools/call", name="no_such", arguments={})
    no_method = peer.modern("resources/list")
    of_sessions = peer.modern("ping")

    assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, -32020)
    assert encoded.status_code == 200
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (400, -32602)
    assert (no_method.status_code, no_method.json()["error"]["code"]) == (404, -32601)
    assert (of_sessions.status_code, of_sessions.json()["error"]["code"]) == (404, -32601)


def test_a_call_that_nobody_waits_for_leaves_no_sandbox(peer, server):
    before = set(peer.sandboxes())
    params = {"_meta": META, "name": "run_code", "arguments": {"code": LONG}}
    routed = {"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "run_code"}

    with server.client() as leaving, pytest.raises(httpx.ReadTimeout):
        leaving.post(
            "/mcp",
            json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params},
            headers={**BOTH, **routed},
            timeout=httpx.Timeout(2.5),
        )

    peer.wait_until_running(0)  # the program itself takes a minute
    assert until(lambda: set(peer.sandboxes()) == before)


def test_notices_are_taken_and_change_nothing(peer):
    notice = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}

    answer = peer.post(notice, **{"Mcp-Protocol-Version": "2026-07-28"})

    assert (answer.status_code, answer.content) == (202, b"")


# The clients of the protocol's own package


def test_a_client_of_the_newer_package_speaks_both_eras(server):
    pytest.importorskip("mcp.client.client", reason="mcp 2 is not installed here: make clients")
    from mcp.client.client import Client
    from mcp.client.session import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    url = f"{server.url}/with-key/{TOKEN}{STRUCTURED}"

    async def without_sessions():
        async with Client(url) as client:
            first = await client.call_tool("run_code", {"code": "x = 6"})
            name = first.structured_content["sandbox"]
            result = await client.call_tool("run_code", {"code": "x * 7", "sandbox": name})
            return client.protocol_version, result.structured_content["value"], result.is_error

    async def with_a_session():
        async with streamable_http_client(url) as streams, ClientSession(*streams[:2]) as session:
            begun = await session.initialize()
            await session.call_tool("run_code", {"code": "x = 6"})
            slow = await session.call_tool("run_code", {"code": "import time; time.sleep(1.5); x * 7"})
            return begun.protocol_version, slow.structured_content["value"], slow.is_error

    assert asyncio.run(without_sessions()) == ("2026-07-28", {"text/plain": "42"}, False)
    assert asyncio.run(with_a_session()) == ("2025-11-25", {"text/plain": "42"}, False)


def test_a_client_of_the_newer_package_is_told_of_progress_and_calls_off(server, peer):
    pytest.importorskip("mcp.client.client", reason="mcp 2 is not installed here: make clients")
    import anyio
    from mcp.client.client import Client

    seen = []

    async def progress(done, total, message):
        seen.append((done > 0, total))

    async def work():
        async with Client(f"{server.url}/with-key/{TOKEN}/mcp") as client:
            slow = {"code": "import time; time.sleep(3)"}
            await client.call_tool("run_code", slow, progress_callback=progress)
            with anyio.move_on_after(2):
                await client.call_tool("run_code", {"code": LONG})
            return await anyio.to_thread.run_sync(peer.wait_until_running, 0)

    assert asyncio.run(work()) < 1
    assert set(seen) == {(True, None)}


def test_a_client_of_the_older_package_runs_programs_in_a_session(server, peer):
    pytest.importorskip("mcp.server.fastmcp", reason="mcp 1 is not installed here: make clients")
    from mcp import ClientSession
    from mcp.client.streamable_http import streamablehttp_client

    seen = []

    async def progress(done, total, message):
        seen.append((done > 0, total))

    async def work():
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with (
            streamablehttp_client(f"{server.url}{STRUCTURED}", headers=headers) as (read, write, _),
            ClientSession(read, write) as session,
        ):
            begun = await session.initialize()
            names = [tool.name for tool in (await session.list_tools()).tools]
            await session.call_tool("run_code", {"code": "x = 6"})
            code = "import time; time.sleep(3); x * 7"
            result = await session.call_tool("run_code", {"code": code}, progress_callback=progress)
            failed = await session.call_tool("run_code", {"code": "1 / 0"})
            return begun.protocolVersion, names, result.structuredContent["value"], failed.isError

    before = set(peer.sandboxes())
    version, names, told, failed = asyncio.run(work())

    assert (version, told, failed) == ("2025-11-25", {"text/plain": "42"}, True)
    assert names == ["run_code", "write_file", "read_file", "restart"]
    assert set(seen) == {(True, None)}
    assert set(peer.sandboxes()) == before
