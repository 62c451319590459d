"""Nodes that are killed, cut off, stopped, started anew and drained: what is lost is said, and nothing else is lost."""

import contextlib
import os
import signal
import threading
import time
from pathlib import Path

import pytest

import groundbox as gb
from groundbox.errors import SandboxLost


def sandboxes_on_both(client, names):
    """Two sandboxes on each node, as lists of ids by the node's name."""
    found = {name: [] for name in names.values()}
    while min(map(len, found.values())) < 2:
        made = client.post("/v1/sandboxes", json={}).json()["sandbox_id"]
        found[names[made[:12]]].append(made)
    for each in (box for boxes in found.values() for box in boxes):
        assert client.post(f"/v1/sandboxes/{each}/run", json={"code": "x = 1"}).status_code == 200
    return found


def tags(fleet):
    return {each["tag"]: each["name"] for each in fleet.status() if each["state"] == "ready"}


def test_a_killed_node_loses_its_own_sandboxes_and_says_so_while_others_go_on(fleet_of):
    with fleet_of("ada", "bob") as fleet, fleet.gateway.client() as client:
        found = sandboxes_on_both(client, tags(fleet))

        fleet.nodes["ada"].kill()
        killed = time.monotonic()
        seen = set()
        while time.monotonic() < killed + fleet.lease_s + 2:
            for each in found["bob"]:
                assert client.post(f"/v1/sandboxes/{each}/run", json={"code": "x += 1"}).status_code == 200
            assert client.post("/v1/run", json={"code": "1"}).status_code == 200
            seen.add(client.get(f"/v1/sandboxes/{found['ada'][0]}").status_code)
            time.sleep(0.05)
        lost = client.post(f"/v1/sandboxes/{found['ada'][0]}/run", json={"code": "1"})
        with gb.connect(fleet.gateway.url, api_key=fleet.token) as there:
            made = there.Sandbox()
            made.run("1")

    assert seen <= {503, 410}
    assert (lost.status_code, lost.json()["error"]["code"]) == (410, "sandbox_lost")
    assert "its node ada was lost" in lost.json()["message"]


@pytest.mark.slow
def test_a_lost_sandbox_is_the_exception_of_a_local_one(fleet_of):
    with fleet_of("ada") as fleet, gb.connect(fleet.gateway.url, api_key=fleet.token) as there:
        box = there.Sandbox()
        box.run("1")
        fleet.nodes["ada"].kill()
        fleet.until(lambda: fleet.node("ada")["state"] == "lost")

        with pytest.raises(
            SandboxLost, match="its node ada was lost.* variables and files .*make another sandbox"
        ) as lost:
            box.run("1")

        assert lost.value.with_files


@pytest.mark.slow
def test_a_node_that_is_started_anew_is_another_one(fleet_of):
    with fleet_of("ada") as fleet, fleet.gateway.client() as client:
        box = client.post("/v1/sandboxes", json={}).json()["sandbox_id"]
        fleet.nodes["ada"].kill()
        port = fleet.nodes["ada"].url.rpartition(":")[2]
        fleet.start_node("ada", "--port", port)
        fleet.until_ready("ada")

        gone = client.get(f"/v1/sandboxes/{box}")

        assert gone.status_code == 410
        assert fleet.node("ada")["generation"] == 2


def test_a_node_that_hears_no_gateway_ends_its_sandboxes_before_they_are_called_lost(fleet_of):
    with fleet_of("ada") as fleet, fleet.gateway.client() as client:
        box = client.post("/v1/sandboxes", json={}).json()["sandbox_id"]
        running = threading.Thread(
            target=lambda: client.post(f"/v1/sandboxes/{box}/run", json={"code": "while True: pass"})
        )
        running.start()
        alone = threading.Thread(target=lambda: client.post("/v1/run", json={"code": "while True: pass"}))
        alone.start()
        fleet.until(lambda: fleet.node("ada")["load"]["runs"] == 2)

        os.kill(fleet.gateway.process.pid, signal.SIGSTOP)
        fleet.until(lambda: "all sandboxes are ended" in fleet.nodes["ada"].log.read_text(), 20)
        children = busy_below(fleet.nodes["ada"].process.pid)
        os.kill(fleet.gateway.process.pid, signal.SIGCONT)
        fleet.until_ready("ada")
        running.join()
        alone.join()

        assert children == []
        assert client.get(f"/v1/sandboxes/{box}").status_code == 410
        assert fleet.node("ada")["generation"] == 2
        assert client.post("/v1/run", json={"code": "print(6 * 7)"}).json()["stdout"] == "42\n"


def busy_below(pid):
    """Processes below a server that compute all the time, and not for a moment as those that fill its pool."""
    before = cpu_s_below(pid)
    time.sleep(3)
    after = cpu_s_below(pid)
    return [each for each in before.keys() & after.keys() if after[each] - before[each] > 0.7]


def cpu_s_below(pid):
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            found[int(path.parts[2])] = int(fields[1]), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    below, grown = {pid}, True
    while grown:
        more = {child for child, (parent, _) in found.items() if parent in below} - below
        grown = bool(more)
        below |= more
    return {child: found[child][1] for child in below - {pid} if child in found}


@pytest.mark.slow
def test_a_node_that_was_stopped_past_its_lease_answers_nothing_of_before(fleet_of):
    with fleet_of("ada", "bob") as fleet, fleet.gateway.client() as client:
        found = sandboxes_on_both(client, tags(fleet))
        os.kill(fleet.nodes["ada"].process.pid, signal.SIGSTOP)
        fleet.until(lambda: fleet.node("ada")["state"] == "lost")

        while_stopped = client.get(f"/v1/sandboxes/{found['ada'][0]}").status_code
        os.kill(fleet.nodes["ada"].process.pid, signal.SIGCONT)
        fleet.until(lambda: fleet.node("ada")["generation"] == 2)
        fleet.until_ready("ada")

        assert while_stopped == 410
        assert client.get(f"/v1/sandboxes/{found['ada'][0]}").status_code == 410
        assert client.get(f"/v1/sandboxes/{found['bob'][0]}").status_code == 200
        with fleet.nodes["ada"].client() as direct:
            assert direct.get("/v1/sandboxes").json()["sandboxes"] == []


def in_background(call):
    """The result of a call that goes on in a thread, as a function that waits for it."""
    told = []
    thread = threading.Thread(target=lambda: told.append(call()))
    thread.start()

    def result():
        thread.join()
        return told[0]

    return result


@pytest.mark.slow
def test_a_run_that_may_have_begun_is_not_run_again_unless_that_does_no_harm(fleet_of, tmp_path):
    with fleet_of("ada", "bob", lease_s=3.0) as fleet:
        program = "import time; time.sleep(4); print('done')"

        def slow():
            with fleet.gateway.client() as own:
                return own.post("/v1/run", json={"code": program})

        def slow_and_safe():
            with gb.connect(fleet.gateway.url, api_key=fleet.token, retry_safe=True) as there:
                return there.run(program)

        def busy():
            return [each["name"] for each in fleet.status() if each["load"].get("runs") and each["state"] == "ready"]

        answer = in_background(slow)
        fleet.nodes[fleet.until(busy)[0]].kill()
        refused = answer()
        fleet.start_node("eve")
        fleet.until_ready("eve")
        again = in_background(slow_and_safe)
        fleet.nodes[fleet.until(busy)[0]].kill()
        repeated = again()

    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "run_lost")
    assert repeated.stdout == "done\n"


@pytest.mark.slow
def test_a_request_of_one_name_is_sent_to_no_other_node_than_that_which_had_it(fleet_of):
    with fleet_of("ada", "bob", lease_s=4.0) as fleet, fleet.gateway.client() as client:
        named = {f"name-{number}": None for number in range(6)}

        def ask(name):
            return client.post("/v1/run", json={"code": "print('once')"}, headers={"Idempotency-Key": name})

        tag = {name: ask(name).json()["execution_id"][:12] for name in named}
        names = tags(fleet)
        had = [name for name in named if names[tag[name]] == "ada"]
        fleet.nodes["ada"].kill()

        before = ask(had[0])
        fleet.until(lambda: fleet.node("ada")["state"] == "lost")
        after = ask(had[0])

    assert (before.status_code, before.json()["error"]["code"]) == (503, "node_unreachable")
    assert (after.status_code, after.json()["error"]["code"]) == (503, "run_lost")


@pytest.mark.slow
def test_a_gateway_that_ends_answers_what_it_calls_off_and_another_one_goes_on(fleet_of):
    with fleet_of() as fleet:
        other = fleet.start_gateway()
        fleet.start_node("ada", gateway=other)
        fleet.until_ready("ada")

        def asked(seconds):
            with fleet.gateway.client() as own:
                return own.post("/v1/run", json={"code": f"import time; time.sleep({seconds}); print('done')"})

        short, long = in_background(lambda: asked(2)), in_background(lambda: asked(30))
        fleet.until(lambda: fleet.node("ada")["load"].get("runs") == 2)
        fleet.gateway.process.send_signal(signal.SIGTERM)
        ended = fleet.gateway.process.wait(30)
        told, lost = short(), long()
        with other.client() as client:
            after = client.post("/v1/run", json={"code": "print('other')"})

    assert (ended, told.json()["stdout"], after.json()["stdout"]) == (0, "done\n", "other\n")
    assert (lost.status_code, lost.json()["error"]["code"]) == (503, "run_lost")
    assert "this gateway ends" in lost.json()["message"]


@pytest.mark.slow
def test_a_run_without_a_sandbox_is_called_off_with_the_lease_too(fleet_of):
    with fleet_of("ada") as fleet, fleet.gateway.client() as client:
        answer = in_background(lambda: client.post("/v1/run", json={"code": "while True: pass"}))
        fleet.until(lambda: fleet.node("ada")["load"]["runs"] == 1)

        os.kill(fleet.gateway.process.pid, signal.SIGSTOP)
        fleet.until(lambda: "all sandboxes are ended" in fleet.nodes["ada"].log.read_text(), 20)
        busy = busy_below(fleet.nodes["ada"].process.pid)
        os.kill(fleet.gateway.process.pid, signal.SIGCONT)
        told = answer()

    assert busy == []
    assert (told.status_code, told.json()["error"]["code"]) == (503, "run_lost")


@pytest.mark.slow
def test_a_drained_node_takes_nothing_new_and_ends_what_it_has_in_time(fleet_of):
    with fleet_of("ada", "bob") as fleet, fleet.gateway.client() as client:
        names = tags(fleet)
        found = sandboxes_on_both(client, names)

        client.post("/v1/fleet/nodes/ada/drain", json={"within_s": 600})
        new = [client.post("/v1/sandboxes", json={}).json()["sandbox_id"] for _ in range(8)]
        still = client.post(f"/v1/sandboxes/{found['ada'][0]}/run", json={"code": "print(x)"}).json()["stdout"]
        fleet.until(lambda: client.get(f"/v1/sandboxes/{found['ada'][0]}").json()["closes_in_s"] < 601)
        client.post("/v1/fleet/nodes/ada/join")
        fleet.until(lambda: fleet.node("ada")["state"] == "ready")
        client.post("/v1/fleet/nodes/ada/drain", json={"within_s": 0.5})
        fleet.until(lambda: client.get(f"/v1/sandboxes/{found['ada'][0]}").status_code == 404)

        assert {names[each[:12]] for each in new} == {"bob"}
        assert still == "1\n"
        assert client.get(f"/v1/sandboxes/{found['bob'][0]}").status_code == 200


@pytest.mark.slow
def test_a_node_that_is_told_to_leave_ends_when_it_has_nothing(fleet_of):
    with fleet_of("ada", "bob") as fleet, fleet.gateway.client() as client:
        found = sandboxes_on_both(client, tags(fleet))

        client.post("/v1/fleet/nodes/ada/drain", json={"leave": True})
        time.sleep(fleet.lease_s)
        alive = fleet.nodes["ada"].process.poll() is None
        for each in found["ada"]:
            client.delete(f"/v1/sandboxes/{each}")

        assert alive
        assert fleet.nodes["ada"].process.wait(30) == 0
        assert fleet.until(lambda: fleet.node("ada") is None) is True
        assert client.get(f"/v1/sandboxes/{found['ada'][0]}").status_code == 410


@pytest.mark.slow
def test_an_upgrade_node_by_node_loses_no_session_that_was_not_told(fleet_of):
    with fleet_of("ada", "bob") as fleet, fleet.gateway.client() as client:
        found = sandboxes_on_both(client, tags(fleet))
        for name in ("ada", "bob"):
            client.post(f"/v1/fleet/nodes/{name}/drain", json={"leave": True})
            fleet.until(lambda name=name: fleet.node(name)["state"] == "leaving")
            for each in found[name]:
                assert client.post(f"/v1/sandboxes/{each}/run", json={"code": "x"}).status_code == 200
                client.delete(f"/v1/sandboxes/{each}")
            assert fleet.nodes[name].process.wait(30) == 0
            fleet.start_node(name)
            fleet.until_ready(name)

        assert client.post("/v1/run", json={"code": "print(1)"}).json()["stdout"] == "1\n"
        assert [each["generation"] for each in fleet.status()] == [2, 2]


@pytest.mark.slow
def test_without_any_node_new_things_are_refused_for_now(fleet_of):
    with fleet_of() as fleet, fleet.gateway.client() as client:
        refused = client.post("/v1/run", json={"code": "1"})

        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "no_node")
        assert refused.headers["retry-after"] == "1"
        assert client.get("/readyz").status_code == 503


@pytest.mark.slow
def test_who_asks_before_any_node_is_there_waits_for_one(fleet_of):
    with fleet_of() as fleet, gb.connect(fleet.gateway.url, api_key=fleet.token) as there:
        answer = in_background(lambda: there.run("print(6 * 7)").stdout)
        fleet.start_node("ada")

        assert answer() == "42\n"
