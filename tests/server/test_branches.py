"""Checkpoints, undo and forks of sandboxes on a server, over HTTP."""

import asyncio
import contextlib
import json
import os
import re
import signal
import time
from typing import Any

import httpx
import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed here")

import groundbox as gb
from groundbox.errors import SandboxClosed
from groundbox.jail import kernel
from groundbox.server.branches import Branches
from groundbox.server.keys import Key, Keys, Quotas
from groundbox.server.refusals import Refused
from groundbox.server.service import Service
from groundbox.server.settings import Settings
from groundbox.testing.base import until

from .conftest import serving

pytestmark = pytest.mark.skipif(kernel.MACHINE != "x86_64", reason="live sandboxes are copied on x86_64 only")

BUSY = "import threading, time; threading.Thread(target=time.sleep, args=(60,), name='waits', daemon=True).start()"
ADA = Key(id="a", owner="ada")


@pytest.fixture
def box(client):
    """The path of a new sandbox that can be copied, which is closed with its forks after the test."""
    path = made(client)
    yield path
    client.delete("/v1/sandboxes", params={"label": "of=branches"})


def made(client, **asked):
    settings = {"profile": "bare", "branching": True, "labels": {"of": "branches"}, **asked}
    answer = client.post("/v1/sandboxes", json=settings)
    assert answer.status_code == 201, answer.text
    return f"/v1/sandboxes/{answer.json()['sandbox_id']}"


def said(client, box, code):
    execution = client.post(f"{box}/run", json={"code": code}).json()
    assert execution["outcome"] == "ok", execution
    return execution["stdout"]


def taken(client, box):
    """The path of a new checkpoint."""
    answer = client.post(f"{box}/checkpoints")
    assert answer.status_code == 201, answer.text
    return f"{box}/checkpoints/{answer.json()['checkpoint_id']}"


def refused(answer):
    return answer.status_code, answer.json()["error"]["code"]


def key_of(client, **asked):
    return client.post("/v1/keys", json={"owner": "ada", **asked}).json()["key"]


def descendants(pid):
    """Processes that descend from one."""
    found = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                found += map(int, file.read().split())
    return found + [below for each in found for below in descendants(each)]


# Over HTTP


def test_a_sandbox_goes_back_to_a_checkpoint_as_often_as_it_is_asked_to(client, box):
    said(client, box, "x = 1; open('kept', 'w').write('before')")
    state = taken(client, box)

    for _ in range(2):
        said(client, box, "x = 2; open('kept', 'w').write('after'); open('new', 'w').close()")
        answer = client.post(f"{state}/restore")

        assert (answer.status_code, answer.json()["sandbox_id"]) == (200, box.rpartition("/")[2])
        assert said(client, box, "print(x, open('kept').read())") == "1 before\n"
        assert client.get(f"{box}/files").json() == {"files": {"kept": 6}}


def test_checkpoints_are_listed_and_told_until_they_are_dropped(client, box):
    first, second = taken(client, box), taken(client, box)
    listed = client.get(f"{box}/checkpoints").json()["checkpoints"]
    told = client.get(first).json()

    dropped = client.delete(first).status_code

    assert [each["checkpoint_id"] for each in listed] == [path.rpartition("/")[2] for path in (first, second)]
    assert all(re.fullmatch("[0-9a-f]{32}", each["checkpoint_id"]) for each in listed)
    assert (told, told["lost"], told.keys()) == (listed[0], "", {"checkpoint_id", "created", "lost"})
    assert dropped == 204
    assert client.get(f"{box}/checkpoints").json()["checkpoints"] == listed[1:]
    assert client.get(box).json()["checkpoints"] == 1
    for gone in (client.get(first), client.delete(first), client.post(f"{first}/restore")):
        assert refused(gone) == (404, "not_found")


def test_what_a_checkpoint_holds_is_given_back_when_it_is_dropped(client, server, box):
    said(client, box, "data = bytearray(b'x' * 30_000_000)")
    state = taken(client, box)
    said(client, box, "data[:] = b'y' * 30_000_000")
    held = client.get(box).json()["load"]
    if held is None:
        pytest.skip("the kernel counts no groups of processes here")

    client.delete(state)

    assert held["memory_bytes"] > 60_000_000
    assert until(lambda: client.get(box).json()["load"]["memory_bytes"] < 45_000_000)


def test_a_checkpoint_is_there_for_its_sandbox_and_its_key_alone(client, server, box):
    state = taken(client, box)
    other_box = made(client)
    with server.client(key_of(client)) as other_key:
        as_other = [
            other_key.post(f"{box}/checkpoints"),
            other_key.get(f"{box}/checkpoints"),
            other_key.get(state),
            other_key.delete(state),
            other_key.post(f"{state}/restore"),
            other_key.post(f"{box}/undo", json={}),
            other_key.post(f"{box}/fork", json={"n": 1}),
        ]
        own = made(other_key)
        of_own = other_key.post(f"{own}/checkpoints/{state.rpartition('/')[2]}/restore")
        other_key.delete(own)
    of_other = client.post(f"{other_box}/checkpoints/{state.rpartition('/')[2]}/restore")

    assert [refused(each) for each in (*as_other, of_own, of_other)] == [(404, "not_found")] * 9
    assert {each.json()["message"] for each in as_other} == {"there is no such sandbox"}
    assert client.post(f"{state}/restore").status_code == 200


def test_runs_are_undone_one_by_one_and_no_more_than_are_kept(client):
    box = made(client, undo=2)
    for number in range(3):
        said(client, box, f"x = {number}")

    first = client.post(f"{box}/undo")
    told = said(client, box, "print(x)")
    second = client.post(f"{box}/undo", json={"n": 2})
    none = client.post(f"{box}/undo", json={"n": 1})
    client.delete(box)

    assert (first.status_code, told, second.status_code) == (200, "1\n", 200)
    assert (refused(none), none.json()["message"]) == ((400, "invalid_argument"), "n: is 1, and 0 states are kept")


def test_a_run_that_failed_is_taken_back_and_its_reply_says_so(client):
    box = made(client, branching=None, rollback="on_error")
    said(client, box, "rows = []")

    failed = client.post(f"{box}/run", json={"code": "rows.append(1); open('half', 'w').close(); rows[5]"}).json()
    after = said(client, box, "import os; print(rows, os.listdir())")
    client.delete(box)

    assert (failed["error"]["type"], failed["state"]) == ("IndexError", "kept")
    assert [(each["code"], each["message"]) for each in failed["warnings"]] == [
        ("session.rolled_back", "variables and files are as they were before this run")
    ]
    assert after == "[] []\n"


def test_forks_have_the_state_labels_and_times_of_their_origin_and_share_nothing(client):
    box = made(client, labels={"of": "branches", "job": "forks"}, idle_s=500, total_s=600)
    said(client, box, "x = [1]; open('f', 'w').write('1')")

    answer = client.post(f"{box}/fork", json={"n": 2})
    told = answer.json()["sandboxes"]
    first, second = (f"/v1/sandboxes/{each['sandbox_id']}" for each in told)
    said(client, first, "x.append(2); open('f', 'w').write('2')")
    states = [said(client, path, "print(x, open('f').read())") for path in (box, first, second)]
    origin = client.get(box).json()
    client.delete(box)
    alive = said(client, second, "print(x)")
    listed = client.get("/v1/sandboxes", params={"label": "job=forks"}).json()["sandboxes"]
    client.delete("/v1/sandboxes", params={"label": "job=forks"})

    assert answer.status_code == 201
    assert states == ["[1] 1\n", "[1, 2] 2\n", "[1] 1\n"]
    assert alive == "[1]\n"
    assert {each["sandbox_id"] for each in listed} == {each["sandbox_id"] for each in told}
    assert all(each["labels"] == {"of": "branches", "job": "forks"} for each in told)
    assert all(490 < each["closes_in_s"] <= 500 for each in told)
    assert all((each["limits"], each["branching"]) == (origin["limits"], True) for each in told)
    assert client.get(first).status_code == 404


def test_a_fork_outlives_its_origins_time_no_more_than_the_origin(client):
    box = made(client, total_s=100)
    client.post(f"{box}/timeout", json={"total_s": 50})

    fork = client.post(f"{box}/fork", json={"n": 1}).json()["sandboxes"][0]
    client.delete("/v1/sandboxes", params={"label": "of=branches"})

    assert 40 < fork["closes_in_s"] <= 50


def test_forks_count_against_the_quota_before_they_are_made(client, server):
    with server.client(key_of(client, quotas={"sandboxes": 3})) as ada:
        box = made(ada)
        said(ada, box, "x = 1")
        before = len(descendants(server.process.pid))
        too_many = ada.post(f"{box}/fork", json={"n": 3})
        alive = ada.get("/v1/sandboxes").json()["sandboxes"]
        after = len(descendants(server.process.pid))
        fitting = ada.post(f"{box}/fork", json={"n": 2})
        one_more = ada.post("/v1/sandboxes", json={})
        ada.delete("/v1/sandboxes", params={"label": "of=branches"})
        again = ada.post("/v1/sandboxes", json={"labels": {"of": "branches"}})
        ada.delete("/v1/sandboxes", params={"label": "of=branches"})

    assert refused(too_many) == (429, "quota.sandboxes")
    assert int(too_many.headers["retry-after"]) >= 1
    assert (len(alive), after <= before) == (1, True)
    assert fitting.status_code == 201
    assert refused(one_more) == (429, "quota.sandboxes")
    assert again.status_code == 201


def test_forks_count_among_the_hash_seeds_of_a_key(client, server):
    """They keep the template of their origin, which may be closed."""
    with server.client(key_of(client)) as ada:
        for seed in range(4):
            box = made(ada, hash_seed=seed)
            said(ada, box, "x = 1")
            assert ada.post(f"{box}/fork", json={"n": 1}).status_code == 201
            assert ada.delete(box).status_code == 204
        one_more = ada.post("/v1/sandboxes", json={"profile": "bare", "hash_seed": 4})
        same = ada.post("/v1/sandboxes", json={"profile": "bare", "hash_seed": 3, "labels": {"of": "branches"}})
        ada.delete("/v1/sandboxes", params={"label": "of=branches"})

    assert refused(one_more) == (429, "busy")
    assert "hash seeds" in one_more.json()["error"]["message"]
    assert same.status_code == 201


@pytest.mark.parametrize("n", [0, -1, 65, True, 1.5, "2", None])
def test_a_number_of_forks_or_runs_is_a_whole_number_that_can_be_meant(client, box, n):
    answers = [client.post(f"{box}/fork", json={"n": n})]
    if n != 65:
        answers.append(client.post(f"{box}/undo", json={"n": n}))

    assert [refused(each) for each in answers] == [(400, "invalid_argument")] * len(answers)
    assert len(client.get("/v1/sandboxes", params={"label": "of=branches"}).json()["sandboxes"]) == 1


def test_a_sandbox_that_is_busy_says_what_is_in_the_way_and_goes_on(client, box):
    said(client, box, f"x = 1; {BUSY}")

    answers = [client.post(f"{box}/checkpoints"), client.post(f"{box}/fork", json={"n": 2})]

    assert [refused(each) for each in answers] == [(409, "sandbox_busy")] * 2
    assert "thread waits" in answers[0].json()["error"]["details"]["why"]
    assert said(client, box, "print(x)") == "1\n"
    assert client.get(box).json()["checkpoints"] == 0


def test_a_checkpoint_whose_process_was_killed_is_lost_and_says_why(tmp_path):
    with serving(tmp_path / "log") as server, server.client() as client:
        box = made(client)
        said(client, box, "x = 1")
        state = taken(client, box)
        for pid in descendants(server.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

        assert until(lambda: client.get(state).json()["lost"] != "")
        answer = client.post(f"{state}/restore")
        dropped = client.delete(state).status_code

    assert refused(answer) == (410, "checkpoint_lost")
    assert answer.json()["error"]["details"]["why"]
    assert dropped == 204


def test_a_sandbox_that_was_not_made_for_it_says_so(client, sandbox):
    said(client, sandbox, "x = 1")

    answers = [client.post(f"{sandbox}/checkpoints"), client.post(f"{sandbox}/fork", json={"n": 1})]

    assert [refused(each) for each in answers] == [(400, "invalid_argument")] * 2
    assert answers[0].json()["error"]["details"]["argument"] == "branching"
    assert client.get(sandbox).json()["branching"] is False


def test_a_repeated_request_with_its_key_is_carried_out_once(client, box):
    headers = {"Idempotency-Key": f"of {box}"}

    first, second = (client.post(f"{box}/checkpoints", headers=headers).json() for _ in range(2))
    of_fork = {"Idempotency-Key": f"fork of {box}"}
    forked = [client.post(f"{box}/fork", json={"n": 1}, headers=of_fork).json() for _ in range(2)]
    reused = client.post(f"{box}/undo", json={}, headers=headers)

    assert first == second
    assert len(client.get(f"{box}/checkpoints").json()["checkpoints"]) == 1
    assert forked[0] == forked[1]
    assert len(client.get("/v1/sandboxes", params={"label": "of=branches"}).json()["sandboxes"]) == 2
    assert refused(reused) == (422, "idempotency_key_reused")


def test_a_client_that_goes_away_meanwhile_costs_the_sandbox_nothing(client, server, box):
    said(client, box, "x = 1; data = bytearray(b'x' * 100_000_000)")
    state = taken(client, box)

    for path in (f"{box}/checkpoints", f"{state}/restore") * 3:
        with server.client() as leaving, contextlib.suppress(httpx.TimeoutException):
            leaving.post(path, timeout=0.01)

    assert said(client, box, "print(x, len(data))") == "1 100000000\n"


def test_going_back_and_copying_count_as_runs_do(client, server):
    with server.client(key_of(client, quotas={"runs_a_minute": 3})) as ada:
        box = made(ada)
        state = taken(ada, box)
        ada.post(f"{state}/restore")
        ada.post(f"{box}/fork", json={"n": 1})

        answers = [ada.post(path) for path in (f"{box}/checkpoints", f"{state}/restore")]
        runs = ada.get(box).json()["runs"]
        ada.delete("/v1/sandboxes", params={"label": "of=branches"})

    assert [refused(each) for each in answers] == [(429, "quota.runs_a_minute")] * 2
    assert runs == 0


def test_each_act_has_its_line_in_the_audit_log_and_is_counted(tmp_path):
    with serving(tmp_path / "log", "--audit", tmp_path / "audit") as server, server.client() as client:
        box = made(client, undo=1)
        said(client, box, "x = 1")
        state = taken(client, box)
        client.post(f"{state}/restore")
        client.post(f"{box}/undo")
        client.post(f"{box}/undo")
        fork = client.post(f"{box}/fork", json={"n": 1}).json()["sandboxes"][0]["sandbox_id"]
        said(client, f"/v1/sandboxes/{fork}", "x = 2")
        counted = set(re.findall(r"^groundbox_branches_total(.*)$", client.get("/metrics").text, re.MULTILINE))
    lines = [json.loads(line) for line in (tmp_path / "audit").read_text().splitlines()]

    box, state = box.rpartition("/")[2], state.rpartition("/")[2]
    common = {"key": "owner", "owner": "the user who started this server", "wire": "v1", "sandbox": box}
    told = [each for each in lines if each["event"] not in ("begin", "run")]
    assert [{name: value for name, value in each.items() if name != "time"} for each in told] == [
        {"event": "checkpoint", **common, "outcome": "ok", "checkpoint": state},
        {"event": "restore", **common, "outcome": "ok", "checkpoint": state},
        {"event": "undo", **common, "outcome": "ok", "n": 1},
        {"event": "undo", **common, "outcome": "invalid_argument", "n": 1},
        {"event": "fork", **common, "outcome": "ok", "n": 1, "forks": [fork]},
    ]
    assert [each["sandbox"] for each in lines if each["event"] == "run"] == [box, fork]
    assert counted == {
        '{act="checkpoint",outcome="ok"} 1.0',
        '{act="restore",outcome="ok"} 1.0',
        '{act="undo",outcome="ok"} 1.0',
        '{act="undo",outcome="invalid_argument"} 1.0',
        '{act="fork",outcome="ok"} 1.0',
    }


def are_the_same(pid):
    """Whether its processes stay the same for a while."""
    found = set(descendants(pid))
    time.sleep(1.5)
    return found == set(descendants(pid))


def test_nothing_is_left_of_sandboxes_checkpoints_and_forks_that_were_closed(tmp_path):
    def files_in_memory():
        count = 0
        for name in os.listdir(f"/proc/{server.process.pid}/fd"):
            with contextlib.suppress(FileNotFoundError):
                count += "memfd" in os.readlink(f"/proc/{server.process.pid}/fd/{name}")
        return count

    def round_():
        box = made(client, undo=2)
        said(client, box, "x = 1; open('f', 'w').write('1')")
        states = [taken(client, box) for _ in range(4)]
        client.post(f"{states[1]}/restore")
        for each in client.post(f"{box}/fork", json={"n": 3}).json()["sandboxes"]:
            said(client, f"/v1/sandboxes/{each['sandbox_id']}", "x = 2; open('g', 'w').write('2')")
        there = set(descendants(server.process.pid))
        client.delete("/v1/sandboxes", params={"label": "of=branches"})
        return there

    def left():
        """Processes of the second round, when the spare ones that were made during it have been used up."""
        box = made(client)
        said(client, box, "1")
        client.delete(box)
        return (during - before) & set(descendants(server.process.pid))

    with serving(tmp_path / "log") as server, server.client() as client:
        round_()  # templates stay, of which one may only just begin on a machine with other work
        assert until(lambda: are_the_same(server.process.pid), within_s=60)
        before, files_before = set(descendants(server.process.pid)), files_in_memory()
        during = round_()

        assert until(lambda: not left(), within_s=30)
        assert until(lambda: files_in_memory() <= files_before)
        told = client.get("/metrics").text

    assert len(during - before) >= 4 + 3 * 2
    assert "groundbox_checkpoints 0.0" in told
    assert "groundbox_sandboxes 0.0" in told


def test_a_server_that_makes_none_says_so(tmp_path):
    with serving(tmp_path / "log", "--no-branching") as server, server.client() as client:
        asked: list[dict[str, Any]] = [{"branching": True}, {"undo": 1}, {"rollback": "on_error"}]
        answers = [client.post("/v1/sandboxes", json=each) for each in asked]
        answers += [client.post("/v1/run", json={"code": "1", **each}) for each in asked]
        plain = f"/v1/sandboxes/{client.post('/v1/sandboxes', json={'branching': False}).json()['sandbox_id']}"
        answers += [client.post(f"{plain}/checkpoints"), client.post(f"{plain}/fork", json={"n": 1})]

        assert said(client, plain, "print(1)") == "1\n"

    assert [refused(each) for each in answers] == [(400, "invalid_argument")] * 8
    assert {each.json()["message"] for each in answers} == {
        "branching: is switched off on this server (--no-branching)"
    }


def test_every_route_is_described_with_an_example_of_what_it_takes(client):
    described = client.get("/v1/openapi.json").json()["paths"]

    for route in Branches(Service(Settings(), Keys(token=None))).routes():
        for method in route.methods - {"HEAD"}:
            told = described[route.path][method.lower()]
            takes = route.path.rpartition("/")[2] in ("undo", "fork")
            assert told["summary"]
            assert takes == ("requestBody" in told)
            if takes:
                assert told["requestBody"]["content"]["application/json"]["example"]["n"] >= 1
            assert [each["name"] for each in described[route.path]["parameters"]] == re.findall(r"{(\w+)}", route.path)


# The service beneath


class Box:
    """Stands where a sandbox does: copies take as long as they are told to."""

    _branching = True

    def __init__(self):
        self.closed, self.going_on, self.forks, self.dropped = 0, asyncio.Event(), [], 0
        self.lost = ""

    async def checkpoint(self):
        return self

    async def restore(self, checkpoint):
        await self.going_on.wait()

    async def fork(self, n):
        await self.going_on.wait()
        self.forks = [Box() for _ in range(n)]
        return self.forks

    def drop(self):
        self.dropped += 1

    async def close(self):
        self.closed += 1


def service_of(monkeypatch, **settings):
    service = Service(Settings(**settings), Keys(token=None))
    monkeypatch.setattr(service, "_made", lambda *_: Box())
    return service


async def settled():
    for _ in range(20):
        await asyncio.sleep(0)


async def test_forks_of_a_sandbox_that_is_closed_meanwhile_are_closed_too(monkeypatch):
    service = service_of(monkeypatch)
    held = service.create(ADA, wire="v1")
    forking = asyncio.ensure_future(Branches(service)._forks(ADA, held, 3))
    await settled()
    during = service.keys.usage("a").sandboxes

    await service.sandboxes.close(held)
    held.box.going_on.set()
    with pytest.raises(SandboxClosed):
        await forking

    assert during == 4
    assert [each.closed for each in held.box.forks] == [1, 1, 1]
    assert (service.keys.usage("a").sandboxes, service.sandboxes._making, len(service.sandboxes)) == (0, 0, 0)


async def test_forks_that_are_made_are_room_that_is_taken(monkeypatch):
    service = service_of(monkeypatch, sandboxes=4)
    key = Key(id="a", owner="ada", quotas=Quotas(sandboxes=4))
    held = service.create(key, wire="v1")
    forking = asyncio.ensure_future(Branches(service)._forks(key, held, 3))
    await settled()

    with pytest.raises(Refused) as of_key:
        service.create(key, wire="v1")
    with pytest.raises(Refused) as of_all:
        service.create(Key(id="b", owner="bob"), wire="v1")
    held.box.going_on.set()
    forks = await forking

    assert (of_key.value.code, of_all.value.code) == ("quota.sandboxes", "busy")
    assert [each.key_id for each in forks] == ["a"] * 3
    assert service.keys.usage("a").sandboxes == 4


async def test_a_checkpoint_is_not_dropped_under_those_that_go_back_to_it(monkeypatch):
    service = service_of(monkeypatch)
    held = service.create(ADA, wire="v1")

    async def asked(method, path):
        transport = httpx.ASGITransport(application_of(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.request(method, f"/v1/sandboxes/{held.id}/checkpoints{path}")

    held.key_id = "owner"
    name = (await asked("POST", "")).json()["checkpoint_id"]
    restoring = asyncio.ensure_future(asked("POST", f"/{name}/restore"))
    await asyncio.sleep(0.1)
    dropped = (await asked("DELETE", f"/{name}")).status_code
    during = held.box.dropped
    held.box.going_on.set()
    held.box.limits, held.box.network, held.box._loan = gb.Limits(), gb.Network(), None
    restored = (await restoring).status_code

    assert (dropped, during, restored, held.box.dropped) == (204, 0, 200, 1)


def application_of(service):
    from groundbox.server.application import application

    return application(service)


async def test_checkpoints_of_all_sandboxes_together_are_bounded_with_those_that_undo_keeps(monkeypatch):
    service = service_of(monkeypatch, checkpoints=20)
    first = service.create(ADA, wire="v1", undo=8, rollback="on_error")
    service.create(ADA, wire="v1", undo=8)

    with pytest.raises(Refused) as by_undo:
        service.create(ADA, wire="v1", undo=4)
    with pytest.raises(Refused) as by_forks:
        await Branches(service)._forks(ADA, first, 1)
    with service.sandboxes.room_for_checkpoints(ADA, 1), pytest.raises(Refused) as meanwhile:
        service.sandboxes.check_checkpoints(ADA, 3)
    service.sandboxes.check_checkpoints(ADA, 3)
    with pytest.raises(Refused) as by_one:
        service.sandboxes.check_checkpoints(ADA, 4)
    await service.sandboxes.close(first)

    assert [each.value.status for each in (by_undo, by_forks, by_one, meanwhile)] == [429] * 4
    assert "20 checkpoints are kept on this server" in by_one.value.message
    assert service.sandboxes.checkpoints == 8
