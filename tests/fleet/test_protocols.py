"""Protocols of others at a gateway before two nodes: ids name their node, lists are those of both."""

import contextlib
import json
import sqlite3

import httpx
import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed here")

from groundbox.fleet.joining import dumped_key, gateway_key, proof
from groundbox.server.keys import OWNER

from .conftest import Tap

PYTHON = 71  # Judge0's number


@pytest.fixture
def names(fleet):
    """Names of nodes by tag."""
    return {each["tag"]: each["name"] for each in fleet.status()}


@contextlib.contextmanager
def only(fleet, client, name):
    """Let one node alone take what is new."""
    others = [each["name"] for each in fleet.status() if each["name"] != name and each["state"] == "ready"]
    for each in others:
        client.post(f"/v1/fleet/nodes/{each}/drain")
    try:
        yield
    finally:
        for each in others:
            client.post(f"/v1/fleet/nodes/{each}/join")


def on_both(fleet, client, make):
    """What a call makes on each of the two nodes."""
    found = []
    for name in ("ada", "bob"):
        with only(fleet, client, name):
            found.append(make())
    return found


def test_submissions_are_judged_on_any_node_and_found_by_their_tokens(fleet, client, names):
    def submitted(text):
        asked = {"source_code": f"print({text!r})", "language_id": PYTHON, "expected_output": f"{text}\n"}
        return client.post("/submissions", json=asked).json()["token"]

    one, two = on_both(fleet, client, lambda: submitted("right"))
    tokens = [two, one, "0" * 8, two]
    asked = {"source_code": "print(1)", "language_id": PYTHON}
    waited = client.post("/submissions", json=asked, params={"wait": "true"}).json()
    batch = client.post("/submissions/batch", json={"submissions": [asked, asked]}).json()

    def ended():
        told = client.get("/submissions/batch", params={"tokens": ",".join(tokens), "fields": "token,status_id"}).json()
        return [each and each["status_id"] > 2 for each in told["submissions"]] == [True, True, None, True] and told

    together = fleet.until(ended)
    each_alone = [client.get(f"/submissions/{token}").json() for token in (one, two)]
    deleted = client.delete(f"/submissions/{one}").status_code
    gone = client.get(f"/submissions/{one}")

    assert [names[each.replace("-", "")[:12]] for each in (one, two)] == ["ada", "bob"]
    assert [each and (each["token"], each["status_id"]) for each in together["submissions"]] == [
        (two, 3),
        (one, 3),
        None,
        (two, 3),
    ]
    assert [(each["stdout"], each["status"]["description"]) for each in each_alone] == [("right\n", "Accepted")] * 2
    assert waited["stdout"] == "1\n"
    assert len({each["token"].replace("-", "")[:12] for each in batch}) == 1
    assert (deleted, gone.status_code) == (200, 404)
    assert PYTHON in [each["id"] for each in client.get("/languages").json()]
    assert client.get(f"/languages/{PYTHON}").json()["id"] == PYTHON
    assert [client.get(path).status_code for path in ("/statuses", "/about", "/config_info")] == [200] * 3


def test_submissions_of_another_key_are_not_found(fleet, client):
    token = client.post("/submissions", json={"source_code": "1", "language_id": PYTHON}).json()["token"]
    key = client.post("/v1/keys", json={"owner": "mallory"}).json()["key"]

    with fleet.gateway.client(key) as mallory:
        alone = mallory.get(f"/submissions/{token}").status_code
        batch = mallory.get("/submissions/batch", params={"tokens": token}).json()

    assert alone == 404
    assert batch == {"submissions": [None]}


def test_submissions_of_a_node_that_is_lost_have_ended_by_nobodys_fault(alone, taps):
    one, two = taps("ada", "bob")
    tokens = [f"{each.tag[:8]}-{each.tag[8:]}-4000-8000-{'0' * 12}" for each in (one, two)]
    two.answer = lambda heard: (200, json.dumps({"submissions": [{"token": tokens[1], "status_id": 3}]}).encode())
    alone.tell("leave", {"boot_id": one.boot_id})

    with alone.gateway.client() as client:
        told = client.get("/submissions/batch", params={"tokens": ",".join(tokens), "fields": "*"}).json()
        single = client.get(f"/submissions/{tokens[0]}")
        two.answer = lambda heard: None
        silent = client.get("/submissions/batch", params={"tokens": tokens[1]})

    lost, kept = told["submissions"]
    assert (lost["token"], lost["status_id"], lost["message"]) == (tokens[0], 13, "its node ada was lost")
    assert kept == {"token": tokens[1], "status_id": 3}
    assert (single.status_code, single.json()["error"]["code"]) == (410, "sandbox_lost")
    assert (silent.status_code, silent.json()["error"]["code"]) == (503, "node_unreachable")


def events(answer):
    return [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]


def test_sandboxes_of_opensandbox_are_reached_through_the_gateway_by_their_endpoints(fleet, client, names):
    headers = {"OPEN-SANDBOX-API-KEY": fleet.token}
    made = on_both(fleet, client, lambda: client.post("/opensandbox/v1/sandboxes", json={"timeout": 600}).json()["id"])
    shown = []
    for each in made:
        path = f"/opensandbox/v1/sandboxes/{each}/endpoints/44772"
        plain, by_header = client.get(path).json(), client.get(path, headers=headers).json()
        base = f"http://{plain['endpoint']}"
        client.post(f"{base}/code", json={"code": "x = 41"}, headers=plain["headers"])
        ran = client.post(f"{base}/code", json={"code": "print(x + 1)"}, headers=plain["headers"])
        shown.append((plain, by_header, [event["text"] for event in events(ran) if event["type"] == "stdout"]))
    pages = [client.get("/opensandbox/sandboxes", params={"page": page, "pageSize": 1}).json() for page in (1, 2)]
    whole = client.get("/opensandbox/sandboxes", params={"pageSize": 100}).json()
    wrong = client.get("/opensandbox/sandboxes", params={"page": 0})
    for each in made:
        assert client.delete(f"/opensandbox/sandboxes/{each}").status_code == 204
    host = fleet.gateway.url.removeprefix("http://")

    assert [names[each[:12]] for each in made] == ["ada", "bob"]
    for each, (plain, by_header, printed) in zip(made, shown, strict=True):
        assert plain == {
            "endpoint": f"{host}/opensandbox/execd/{each}",
            "headers": {"OPEN-SANDBOX-API-KEY": fleet.token},
        }
        assert by_header == plain
        assert printed == ["42\n"]
    assert [each["id"] for page in pages for each in page["items"]] == made
    assert [page["pagination"] for page in pages] == [
        {"page": 1, "pageSize": 1, "totalItems": 2, "totalPages": 2, "hasNextPage": True},
        {"page": 2, "pageSize": 1, "totalItems": 2, "totalPages": 2, "hasNextPage": False},
    ]
    assert [each["id"] for each in whole["items"]] == made
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, "invalid_argument")


def test_a_node_does_not_tell_what_its_gateway_brought(fleet, client):
    node = fleet.node("ada")
    [(boot_id,)] = sqlite3.connect(fleet.catalogue).execute(
        "SELECT boot_id FROM groundbox_nodes WHERE tag = ?", (node["tag"],)
    )
    with only(fleet, client, "ada"):
        box = client.post("/opensandbox/sandboxes", json={}).json()["id"]
    told = dumped_key(OWNER)
    shown = proof(gateway_key(fleet.secret.encode(), boot_id), told)
    headers = {"authorization": f"Bearer {shown}", "groundbox-fleet-boot": boot_id, "groundbox-fleet-key": told}

    answer = httpx.get(f"{node['url']}/opensandbox/sandboxes/{box}/endpoints/44772", headers=headers)
    client.delete(f"/opensandbox/sandboxes/{box}")

    assert answer.status_code == 200
    assert shown not in answer.text


def test_pages_of_a_list_go_on_until_each_node_has_told_all(alone, taps):
    def listing(prefix, count):
        items = [{"id": f"{prefix}{each:03}", "createdAt": f"{each:03}"} for each in range(count)]

        def answer(heard):
            page = int(heard.target.partition("page=")[2].partition("&")[0])
            told = {"items": items[(page - 1) * 200 : page * 200], "pagination": {"hasNextPage": page * 200 < count}}
            return 200, json.dumps(told).encode()

        return answer

    one, two = taps("ada", "bob")
    one.answer, two.answer = listing("a", 450), listing("b", 3)
    with alone.gateway.client() as client:
        told = client.get("/opensandbox/sandboxes", params={"page": 5, "pageSize": 100, "metadata": "a=b"}).json()

    assert told["pagination"]["totalItems"] == 453
    assert [each["id"] for each in told["items"]] == [f"a{each:03}" for each in range(397, 450)]
    assert (len(one.heard), len(two.heard)) == (3, 1)
    assert {"metadata=a%3Db" in heard.target for heard in one.heard} == {True}


def test_a_node_that_says_it_is_over_is_missing_in_a_list_and_no_answer_to_all_of_it(alone, taps):
    one, two = taps("ada", "bob")
    one.answer = lambda heard: (421, b'{"error": {"code": "fenced", "message": "no lease"}}')
    two.answer = lambda heard: (200, b'[{"id": "x"}]')

    with alone.gateway.client() as client:
        answers = [client.get("/api/kernels") for _ in range(2)]

    assert [(each.status_code, each.json()) for each in answers] == [(200, [{"id": "x"}])] * 2
    assert answers[0].headers["groundbox-missing-nodes"] == "ada"
    assert (len(one.heard), alone.node("ada")["state"]) == (1, "lost")


def test_kernels_of_jupyter_live_on_their_nodes(fleet, client, names):
    from websockets.sync.client import connect

    kernels = on_both(fleet, client, lambda: client.post("/api/kernels", json={}).json()["id"])
    listed = [each["id"] for each in client.get("/api/kernels").json()]
    roots = [each["name"] for each in client.get("/api/contents").json()["content"]]
    printed = []
    for each in kernels:
        url = f"{fleet.gateway.url.replace('http', 'ws')}/api/kernels/{each}/channels?token={fleet.token}"
        with connect(url) as channels:
            header = {"msg_id": "1", "msg_type": "execute_request", "session": "s", "username": "", "version": "5.3"}
            content = {"code": "print(6 * 7); open('a.txt', 'w').write('kept')", "silent": False}
            asked = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
            channels.send(json.dumps(asked))
            while (told := json.loads(channels.recv(timeout=60)))["msg_type"] != "stream":
                pass
            printed.append(told["content"]["text"])
            while told["msg_type"] != "execute_reply":
                told = json.loads(channels.recv(timeout=60))
    files = [client.get(f"/api/contents/{each}/a.txt").json()["content"] for each in kernels]
    ended = [client.delete(f"/api/kernels/{each}").status_code for each in kernels]

    assert [names[each[:12]] for each in kernels] == ["ada", "bob"]
    assert sorted(listed) == sorted(roots) == sorted(kernels)
    assert printed == ["42\n"] * 2
    assert files == ["kept"] * 2
    assert ended == [204] * 2
    assert "python3" in client.get("/api/kernelspecs").json()["kernelspecs"]
    assert client.get("/api").status_code == 200


def test_a_session_of_jupyter_is_the_one_of_its_path_on_whichever_node(fleet, client, names):
    asked = {"path": "a.ipynb", "type": "notebook", "kernel": {"name": "python3"}}
    first, again = on_both(fleet, client, lambda: client.post("/api/sessions", json=asked).json()["id"])
    other = client.post("/api/sessions", json={**asked, "path": "b.ipynb"}).json()["id"]
    listed = [each["id"] for each in client.get("/api/sessions").json()]
    for each in (first, other):
        assert client.delete(f"/api/sessions/{each}").status_code == 204

    assert first == again
    assert names[first[:12]] == "ada"
    assert sorted(listed) == sorted([first, other])


def call(number, method, **params):
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def test_sessions_of_mcp_stay_on_their_nodes(fleet, client, names):
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    plain = {"Accept": "application/json"}

    def begun():
        return client.post("/mcp", json=call(1, "initialize", **about), headers=plain).headers["mcp-session-id"]

    sessions = on_both(fleet, client, begun)
    printed = []
    for each in sessions:
        headers = {**plain, "Mcp-Session-Id": each}
        client.post("/mcp", json=call(2, "tools/call", name="run_code", arguments={"code": "x = 41"}), headers=headers)
        more = call(3, "tools/call", name="run_code", arguments={"code": "print(x + 1)"})
        printed.append("42" in client.post("/mcp", json=more, headers=headers).text)
    ended = [client.delete("/mcp", headers={"Mcp-Session-Id": each}).status_code for each in sessions]
    gone = [
        client.post("/mcp", json=call(4, "tools/list"), headers={**plain, "Mcp-Session-Id": each}) for each in sessions
    ]
    never = client.post("/mcp", json=call(5, "tools/list"), headers={**plain, "Mcp-Session-Id": "0" * 44})

    assert [names[each[:12]] for each in sessions] == ["ada", "bob"]
    assert printed == [True, True]
    assert ended == [204, 204]
    assert [each.status_code for each in (*gone, never)] == [404] * 3
    assert [each.json()["error"]["code"] for each in (*gone, never)] == [gone[0].json()["error"]["code"]] * 3


def without_session(code, **arguments):
    """A call of MCP's era without sessions, and its headers."""
    from groundbox.agent import mcp

    version = max(mcp.MODERN)
    meta = {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    asked = call(1, "tools/call", name="run_code", arguments={"code": code, **arguments}, _meta=meta)
    headers = {"Accept": "application/json", "MCP-Protocol-Version": version}
    return asked, headers | {"Mcp-Method": "tools/call", "Mcp-Name": "run_code"}


def test_calls_of_mcp_without_sessions_go_on_where_their_sandbox_lives(fleet, client, names):
    def called(code, **arguments):
        asked, headers = without_session(code, **arguments)
        return client.post("/mcp?structured_content=true", json=asked, headers=headers).json()["result"]

    boxes = on_both(fleet, client, lambda: called("x = 41")["structuredContent"]["sandbox"])
    printed = ["42" in json.dumps(called("print(x + 1)", sandbox=each)) for each in boxes for _ in range(3)]
    unknown = called("print(1)", sandbox="0" * 44)
    for each in boxes:
        client.delete(f"/v1/sandboxes/{each}")

    assert [names[each[:12]] for each in boxes] == ["ada", "bob"]
    assert printed == [True] * 6
    assert unknown["isError"]
    assert "there is none of that name" in unknown["content"][0]["text"]


def test_a_session_that_a_call_without_sessions_names_gives_a_key_no_room_on_another_node(fleet, client):
    key = client.post("/v1/keys", json={"owner": "grace", "quotas": {"sandboxes": 1}}).json()
    asked, headers = without_session("x = 41")

    def told():
        return sum(each["load"]["sandboxes"] for each in fleet.status())

    with fleet.gateway.client(key["key"]) as grace:
        grace.post("/mcp", json=asked, headers=headers)
        fleet.until(lambda: told() == 1)
        for node in fleet.status():
            grace.post("/mcp", json=asked, headers={**headers, "Mcp-Session-Id": f"{node['tag']}{'0' * 32}"})
        made = [each["sandbox_id"] for each in grace.get("/v1/sandboxes").json()["sandboxes"]]
        for each in made:
            grace.delete(f"/v1/sandboxes/{each}")
    fleet.until(lambda: told() == 0)

    assert len(made) == 1


def spelt(method):
    """A message of MCP in which one letter of its method is written as its number."""
    return json.dumps(call(1, method)).replace(f'"{method}"', f'"\\u{ord(method[0]):04x}{method[1:]}"')


@pytest.mark.parametrize("method", ["initialize", "tools/call"])
def test_what_mcp_makes_counts_in_a_quota_however_it_is_spelt(alone, taps, method):
    one, two = taps("ada", "bob")
    with alone.gateway.client() as owner:
        made = owner.post("/v1/keys", json={"owner": "heidi", "quotas": {"sandboxes": 1}}).json()
    one.renew(of_keys={made["id"]: 1})
    one.answer = lambda heard: (429, b"{}")  # so that the other one is asked
    with alone.gateway.client(made["key"]) as heidi:
        statuses = {heidi.post("/mcp", content=spelt(method)).status_code for _ in range(4)}
        question = heidi.post("/mcp", content=spelt("tools/list")).status_code

    assert json.loads(spelt(method)) == call(1, method)
    assert statuses == {429}
    assert question == 200
    assert len(two.heard) == 1


def test_a_session_of_mcp_counts_in_a_quota_as_soon_as_it_is_made(alone, taps):
    both = taps("ada", "bob")
    with alone.gateway.client() as owner:
        made = owner.post("/v1/keys", json={"owner": "judy", "quotas": {"sandboxes": 1}}).json()
    with alone.gateway.client(made["key"]) as judy:
        first = judy.post("/mcp", json=call(1, "initialize")).status_code
        [free] = [each for each in both if not each.heard]
        [busy] = [each for each in both if each.heard]
        busy.answer = lambda heard: (429, b"{}")  # so that the other one is asked
        statuses = {judy.post("/mcp", json=call(1, "initialize")).status_code for _ in range(4)}

    assert (first, statuses) == (200, {429})
    assert free.heard == []


def test_an_episode_of_openenv_is_a_connection_to_some_node(fleet, client):
    from websockets.sync.client import connect

    url = f"{fleet.gateway.url.replace('http', 'ws')}/openenv/ws"

    def played():
        with connect(url, additional_headers={"Authorization": f"Bearer {fleet.token}"}) as episode:
            told = []
            for code in ("x = 41", "print(x + 1)"):
                episode.send(json.dumps({"type": "step", "data": {"code": code}}))
                told.append(json.loads(episode.recv(timeout=60))["data"]["observation"]["stdout"])
            where = fleet.until(lambda: [each["name"] for each in fleet.status() if each["load"]["sandboxes"]])
        fleet.until(lambda: not any(each["load"]["sandboxes"] for each in fleet.status()))
        return told, where

    found = on_both(fleet, client, played)
    stepped = client.post("/openenv/step", json={"action": {"code": "print(1)"}}).json()
    paths = [client.get(f"/openenv/{each}").status_code for each in ("schema", "metadata", "health")]

    assert found == [(["", "42\n"], ["ada"]), (["", "42\n"], ["bob"])]
    assert stepped["observation"]["stdout"] == "1\n"
    assert paths == [200] * 3


def test_an_episode_goes_to_a_node_that_takes_it(alone, taps):
    from websockets.exceptions import InvalidStatus
    from websockets.sync.client import connect

    one, two = taps("ada", "bob")
    for each in (one, two):
        each.answer = lambda heard: (429, b'{"error": {"code": "busy", "message": "full"}}')
    url = f"{alone.gateway.url.replace('http', 'ws')}/openenv/ws"

    with pytest.raises(InvalidStatus) as refused:
        connect(url, additional_headers={"Authorization": f"Bearer {alone.token}"})

    assert refused.value.response.status_code == 503
    assert json.loads(refused.value.response.body)["error"]["code"] == "no_node"
    assert (len(one.heard), len(two.heard)) == (1, 1)


def test_the_wish_to_be_restored_is_that_of_the_native_interface_alone(client):
    made = client.post("/api/kernels", json={}, headers={"Groundbox-On-Lost": "restore"})

    assert made.status_code == 201
    assert client.delete(f"/api/kernels/{made.json()['id']}").status_code == 204


def test_notebooks_of_sandboxfusion_run_on_any_node(fleet, client):
    told = client.post("/run_jupyter", json={"cells": ["x = 41", "print(x + 1)"]}).json()
    stranger = httpx.get(f"{fleet.gateway.url}/v1/ping")

    assert told["status"] == "Success"
    assert "42" in json.dumps(told["cells"])
    assert (stranger.status_code, stranger.json()) == (200, "pong")


def test_what_no_single_rule_places_is_refused_by_name(client):
    answers = [client.post(path, json={}) for path in ("/exec", "/exec/programmatic", "/upload", "/v1/conversations")]

    assert {(each.status_code, each.json()["error"]["code"]) for each in answers} == {(404, "not_found")}
    assert "docs/fleet.md" in answers[0].json()["error"]["message"]


# Protocols that are off by default


def test_what_is_new_by_a_protocol_goes_to_nodes_that_speak_it(alone, taps):
    [one] = taps("ada")
    one.renew(protocols=[])
    with alone.gateway.client() as client:
        nobody = client.post("/api/v2/execute", json={})
        listed = client.get("/opensandbox/sandboxes")
        [two] = taps("bob")
        asked = [client.post("/api/v2/execute", json={}).status_code for _ in range(6)]
        asked += [client.get("/about").status_code for _ in range(6)]

    assert (nobody.status_code, nobody.json()["error"]["code"]) == (503, "no_node")
    assert "none was started with --protocol piston" in nobody.json()["error"]["message"]
    assert (listed.status_code, listed.json()["items"]) == (200, [])
    assert (set(asked), len(one.heard), len(two.heard)) == ({200}, 0, 12)


def test_a_field_that_is_too_long_is_refused_by_a_node_at_once_and_costs_no_sandbox(fleet, client):
    box = f"/v1/sandboxes/{client.post('/v1/sandboxes', json={}).json()['sandbox_id']}"
    client.post(f"{box}/run", json={"code": "x = 41"})
    body = {"language": "python", "version": " " * 17_000 + "!", "files": [{"content": "1"}]}

    refused = [client.post("/api/v2/execute", json=body).status_code for _ in range(4)]
    arguments = {"language_id": PYTHON, "source_code": "1", "command_line_arguments": "a" * 10_000}
    refused.append(client.post("/submissions", json=arguments).status_code)
    still = client.post(f"{box}/run", json={"code": "x + 1"}).json()
    client.delete(box)

    assert refused == [400, 400, 400, 400, 422]
    assert still["value"]["text/plain"] == "42"


def test_a_gateway_without_a_protocol_answers_that_it_is_not_there(fleet_of):
    with fleet_of(protocols=()) as fleet:
        paths = ("/submissions", "/api/v2/execute", "/opensandbox/sandboxes", "/v1/containers")
        with fleet.gateway.client() as client:
            answers = [client.post(path, json={}) for path in paths]

    assert {(each.status_code, each.json()["error"]["code"]) for each in answers} == {(404, "not_found")}


def test_a_gateway_passes_no_key_on_in_a_header_of_a_protocol_that_is_off(fleet_of):
    with fleet_of(protocols=()) as fleet:
        tap = Tap(fleet, "ada")
        tap.join()
        headers = {"X-Auth-Token": fleet.token, "OPEN-SANDBOX-API-KEY": fleet.token, "X-Kept": "yes"}
        with fleet.gateway.client() as client:
            answer = client.get(f"/v1/sandboxes/{tap.tag}{'0' * 32}", headers=headers)
        tap.end()

    assert answer.status_code == 200
    assert [("x-kept", "yes") in heard.headers for heard in tap.heard] == [True]
    assert fleet.token not in repr(tap.heard)
