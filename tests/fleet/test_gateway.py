"""A gateway before two nodes, asked as one server is."""

import json
import socket
import threading
import time

import pytest

import groundbox as gb
from groundbox.fleet.sums import summed


@pytest.fixture
def there(fleet):
    with gb.connect(fleet.gateway.url, api_key=fleet.token) as connection:
        yield connection


def tags(fleet):
    return {each["tag"]: each["name"] for each in fleet.status()}


def test_a_sandbox_stays_on_its_node(there):
    with there.Sandbox() as box:
        box.run("x = 41")
        box.files.write("a.txt", "kept")

        execution = box.run("print(x + 1, open('a.txt').read())")

        assert execution.stdout == "42 kept\n"


def test_what_is_new_goes_to_all_nodes(fleet, client):
    names = tags(fleet)

    ids = [client.post("/v1/sandboxes", json={}).json()["sandbox_id"] for _ in range(16)]
    listed = [each["sandbox_id"] for each in client.get("/v1/sandboxes").json()["sandboxes"]]
    for each in ids:
        assert client.delete(f"/v1/sandboxes/{each}").status_code == 204

    assert {names[each[:12]] for each in ids} == {"ada", "bob"}
    assert sorted(listed) == sorted(ids)


def test_executions_are_found_by_their_ids(client):
    told = client.post("/v1/run", json={"code": "print('here')"}).json()

    found = client.get(f"/v1/executions/{told['execution_id']}")
    output = client.get(f"/v1/executions/{told['execution_id']}/output/stdout")

    assert found.json()["stdout"] == "here\n"
    assert output.content == b"here\n"


def test_events_come_while_the_program_runs(there):
    with there.Sandbox() as box:
        seen = [event.kind for event in box.stream("print(1, flush=True); import time; time.sleep(0.2); print(2)")]

    assert seen[0] == "stdout"
    assert seen[-1] == "end"


def test_a_large_file_goes_in_and_out_as_it_is(client):
    path = f"/v1/sandboxes/{client.post('/v1/sandboxes', json={}).json()['sandbox_id']}"
    data = bytes(range(256)) * 40_000

    put = client.put(f"{path}/files/large.bin", content=data)
    chunked = client.put(
        f"{path}/files/chunked.bin", content=(data[at : at + 70_000] for at in range(0, len(data), 70_000))
    )
    got = client.get(f"{path}/files/large.bin").content
    got_chunked = client.get(f"{path}/files/chunked.bin").content
    client.delete(path)

    assert (put.status_code, chunked.status_code) == (200, 200) or (put.status_code, chunked.status_code) == (204, 204)
    assert got == data
    assert got_chunked == data


def test_what_is_asked_without_wanting_a_body_is_answered_without_one(client):
    box = client.post("/v1/sandboxes", json={}).json()["sandbox_id"]
    client.put(f"/v1/sandboxes/{box}/files/a.txt", content=b"12345")

    heads = [client.head(f"/v1/sandboxes/{box}/files/a.txt", timeout=10) for _ in range(2)]
    ended = client.delete(f"/v1/sandboxes/{box}")

    assert [each.content for each in heads] == [b"", b""]
    assert (ended.status_code, ended.content) == (204, b"")
    assert len(ended.headers.get_list("date")) == 1


def test_a_body_that_a_node_refuses_before_its_end_disturbs_no_later_request(fleet, client):
    nowhere = f"{next(iter(tags(fleet)))}{'0' * 32}"
    data = bytes(1 << 20)

    for _ in range(3):
        refused = client.put(f"/v1/sandboxes/{nowhere}/files/a", content=(data for _ in range(8)))
        told = client.post("/v1/run", json={"code": "print('next')"})

        assert refused.status_code == 404
        assert told.json()["stdout"] == "next\n"


def test_a_client_that_waits_to_be_asked_for_its_body_is_asked_for_it(fleet):
    host, _, port = fleet.gateway.url.removeprefix("http://").partition(":")
    body = json.dumps({"code": "print('asked')"}).encode()
    head = (
        f"POST /v1/run HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {fleet.token}\r\n"
        f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
    )

    with socket.create_connection((host, int(port)), 30) as connection:
        connection.sendall(head.encode())
        first = connection.recv(1000)
        connection.sendall(body)
        rest = b"".join(iter(lambda: connection.recv(65536), b""))

    assert first.startswith(b"HTTP/1.1 100 ")
    assert rest.startswith(b"HTTP/1.1 200 ")
    assert b"asked\\n" in rest


def test_long_headers_are_passed_on(client):
    box = client.post("/v1/sandboxes", json={}).json()["sandbox_id"]

    long, longer = (client.get(f"/v1/sandboxes/{box}", headers={"x-long": "x" * n}) for n in (30_000, 40_000))
    after = client.delete(f"/v1/sandboxes/{box}")

    assert (long.status_code, longer.status_code, after.status_code) == (200, 431, 204)


def test_checkpoints_and_forks_work_as_on_one_server(there):
    with there.Sandbox(branching=True) as box:
        box.run("x = 1")
        state = box.checkpoint()
        box.run("x = 2")
        box.restore(state)
        [fork] = box.fork(1)
        with fork:
            assert fork.run("x").text == "1"


def test_ids_of_no_node_are_not_found(client):
    unknown = client.get(f"/v1/sandboxes/{'0' * 44}")
    nowhere = client.post("/v1/nowhere", json={})

    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "not_found")
    assert (nowhere.status_code, nowhere.json()["error"]["code"]) == (404, "not_found")


def test_a_repeated_request_of_one_name_runs_once(client):
    headers = {"Idempotency-Key": "only-once"}

    first = client.post("/v1/run", json={"code": "import secrets; print(secrets.token_hex())"}, headers=headers)
    again = [
        client.post("/v1/run", json={"code": "import secrets; print(secrets.token_hex())"}, headers=headers)
        for _ in range(6)
    ]

    assert {each.json()["stdout"] for each in again} == {first.json()["stdout"]}


def test_only_keys_of_the_gateway_come_in_and_see_their_own(fleet, client):
    made = client.post("/v1/keys", json={"owner": "carol", "quotas": {"sandboxes": 1}}).json()
    others = client.post("/v1/sandboxes", json={}).json()["sandbox_id"]

    with fleet.gateway.client(made["key"]) as carol, fleet.gateway.client("no-key-at-all-anywhere") as nobody:
        refused = nobody.post("/v1/run", json={"code": "1"})
        own = carol.post("/v1/sandboxes", json={}).json()["sandbox_id"]
        more = carol.post("/v1/sandboxes", json={})
        hidden = carol.get(f"/v1/sandboxes/{others}")
        shown = carol.get(f"/v1/sandboxes/{own}")
        fleet_of_carol = carol.get("/v1/fleet")
    client.delete(f"/v1/sandboxes/{others}")

    assert refused.status_code == 401
    assert shown.status_code == 200
    assert hidden.status_code == 404
    assert fleet_of_carol.status_code == 403
    assert (more.status_code, more.json()["error"]["code"]) == (429, "quota.sandboxes")
    with fleet.gateway.client(made["key"]) as carol:
        time.sleep(3)  # until it was told with a renewal
        told = carol.post("/v1/sandboxes", json={})
        carol.delete(f"/v1/sandboxes/{own}")
    assert (told.status_code, told.json()["error"]["code"]) == (429, "quota.sandboxes")


def test_a_node_takes_no_request_that_comes_with_a_boot_of_its_own_making(fleet):
    node = next(iter(fleet.nodes.values()))
    headers = {"groundbox-fleet-boot": "0" * 32, "groundbox-fleet-key": json.dumps({"id": "owner"})}

    with node.client() as client:
        answer = client.post("/v1/run", json={"code": "1"}, headers=headers)

    assert (answer.status_code, answer.json()["error"]["code"]) == (421, "other_boot")


def test_a_client_that_goes_away_ends_its_run(fleet, client):
    with fleet.gateway.client() as leaving:
        box = leaving.post("/v1/sandboxes", json={}).json()["sandbox_id"]
        leaving.timeout = 1.0
        with pytest.raises(Exception, match="timed out"):
            leaving.post(f"/v1/sandboxes/{box}/run", json={"code": "import time; time.sleep(30)"})

    fleet.until(lambda: not client.get(f"/v1/sandboxes/{box}").json()["busy"], 10)
    client.delete(f"/v1/sandboxes/{box}")


def test_terminals_are_passed_on(fleet, client):
    from websockets.sync.client import connect

    box = client.post("/v1/sandboxes", json={}).json()["sandbox_id"]
    started = client.post(f"/v1/sandboxes/{box}/processes", json={"command": "cat", "pty": [24, 80]}).json()
    url = f"{fleet.gateway.url.replace('http', 'ws')}/v1/sandboxes/{box}/processes/{started['pid']}/terminal"

    with connect(url, additional_headers={"Authorization": f"Bearer {fleet.token}"}) as terminal:
        terminal.send(b"through\r")
        shown = b""
        while shown.count(b"through") < 2:
            told = terminal.recv(timeout=20)
            shown += told if isinstance(told, bytes) else told.encode()
    client.delete(f"/v1/sandboxes/{box}")

    assert b"through" in shown


def test_metrics_are_those_of_all_nodes(client):
    for _ in range(4):
        client.post("/v1/run", json={"code": "1"})

    text = client.get("/metrics").text

    assert 'groundbox_nodes{state="ready"} 2' in text
    runs = [
        line for line in text.splitlines() if line.startswith('groundbox_runs_total{language="python",outcome="ok"')
    ]
    assert sum(float(line.rpartition(" ")[2]) for line in runs) >= 4


def test_sums_of_metrics():
    one = '# TYPE a counter\na_total{x="1"} 2\n# TYPE b_started_seconds gauge\nb_started_seconds 10\n'
    two = '# TYPE a counter\na_total{x="1"} 3\na_total{x="2"} 1\n# TYPE b_started_seconds gauge\nb_started_seconds 5\n'

    told = "\n".join(summed([one, two, "no metrics {"]))

    assert 'a_total{x="1"} 5' in told
    assert 'a_total{x="2"} 1' in told
    assert "b_started_seconds 5" in told


def test_many_runs_at_once_lose_none_and_double_none(client, fleet):
    found = []

    def run(number):
        with fleet.gateway.client() as own:
            found.extend(
                own.post("/v1/run", json={"code": f"print({number} * 10 + {each})"}).json()["stdout"]
                for each in range(10)
            )

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(map(int, found)) == list(range(80))
