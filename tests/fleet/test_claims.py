"""Requests with a name (`Idempotency-Key`) at several gateways: each goes to one node."""

import asyncio
import sqlite3
import threading
import time

import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed here")

from groundbox.fleet import claims
from groundbox.fleet.catalogue import Catalogue
from groundbox.fleet.roster import Roster


@pytest.fixture
def gateways(alone, taps):
    """Two gateways of one catalogue that know two nodes, as clients, and these nodes."""
    nodes = taps("ada", "bob")
    other = alone.start_gateway()
    with alone.gateway.client() as one, other.client() as two:

        def known():
            tags = {each["tag"] for each in two.get("/v1/fleet").json()["nodes"] if each["state"] == "ready"}
            return tags >= {each.tag for each in nodes}

        alone.until(known)
        yield one, two, nodes
    other.end()


def ask(client, name, **headers):
    headers |= {"Idempotency-Key": name} if name else {}
    return client.post("/v1/run", json={"code": "1"}, headers=headers)


def had(nodes, name):
    """Who heard requests of a name, and how many."""
    counts = {each.name: sum(("idempotency-key", name) in heard.headers for heard in each.heard) for each in nodes}
    return {node: count for node, count in counts.items() if count}


def test_a_request_of_one_name_goes_to_one_node_through_whichever_gateway(gateways):
    one, two, nodes = gateways

    for number in range(16):
        for client in (one, two, two, one):
            assert ask(client, f"whichever-{number}").status_code == 200

    counts = [had(nodes, f"whichever-{number}") for number in range(16)]
    assert [list(each.values()) for each in counts] == [[4]] * 16
    assert {name for each in counts for name in each} == {"ada", "bob"}


def test_requests_of_one_name_that_come_to_two_gateways_at_once_go_to_one_node(gateways):
    one, two, nodes = gateways
    names = [f"at-once-{number}" for number in range(12)]

    def all_of(client):
        for name in names:
            both.wait(30)
            ask(client, name)

    both = threading.Barrier(2)
    threads = [threading.Thread(target=all_of, args=(client,)) for client in (one, two)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert [list(had(nodes, name).values()) for name in names] == [[2]] * len(names)


def test_names_are_those_of_their_keys(gateways):
    one, two, nodes = gateways
    key = one.post("/v1/keys", json={"owner": "carol"}).json()["key"]

    for number in range(16):
        ask(one, f"own-{number}")
        ask(two, f"own-{number}", Authorization=f"Bearer {key}")

    assert any(len(had(nodes, f"own-{number}")) == 2 for number in range(16))


def test_a_node_that_refuses_gives_the_name_up_to_another_one(gateways):
    one, two, (ada, bob) = gateways
    ada.answer = lambda heard: (429, b"{}")
    for number in range(6):
        assert ask(one, f"refused-{number}").status_code == 200
    ada.answer = lambda heard: (200, b"{}")
    for each in (ada, bob):
        each.heard.clear()

    statuses = [ask(two, f"refused-{number}").status_code for number in range(6)]

    assert statuses == [200] * 6
    assert (len(ada.heard), len(bob.heard)) == (0, 6)


def test_what_was_sent_through_one_gateway_to_a_node_that_is_lost_is_lost_at_the_other_one(gateways, alone):
    one, two, nodes = gateways
    ask(one, "lost")
    [name] = had(nodes, "lost")
    [gone] = [each for each in nodes if each.name == name]
    alone.tell("leave", {"boot_id": gone.boot_id})
    alone.until(lambda: gone.tag not in [each["tag"] for each in two.get("/v1/fleet").json()["nodes"]])

    told = ask(two, "lost")
    safe = ask(two, "lost", **{"Groundbox-Retry-Safe": "1"})

    assert (told.status_code, told.json()["error"]["code"]) == (503, "run_lost")
    assert safe.status_code == 200
    assert len(had(nodes, "lost")) == 2


def test_what_went_to_another_node_as_its_own_was_lost_goes_there_at_every_gateway(gateways, alone, taps):
    one, two, nodes = gateways
    nodes = [*nodes, *taps("eve")]
    for client in (one, two):
        alone.until(lambda client=client: nodes[-1].tag in client.get("/v1/fleet").text)
    safe = {"Groundbox-Retry-Safe": "1"}
    names = [f"moved-{number}" for number in range(36)]
    for name in names:
        ask(two, name, **safe)
    gone = max(nodes, key=lambda each: len(each.heard))
    moved = [name for name in names if had(nodes, name) == {gone.name: 1}]
    alone.tell("leave", {"boot_id": gone.boot_id})
    for client in (one, two):
        alone.until(lambda client=client: gone.tag not in client.get("/v1/fleet").text)

    for name in moved:
        for client in (one, two):
            assert ask(client, name, **safe).status_code == 200

    assert moved
    assert [sorted(had(nodes, name).values()) for name in moved] == [[1, 2]] * len(moved)


def test_a_node_that_refuses_one_of_two_requests_of_a_name_has_both(gateways):
    one, _, (ada, bob) = gateways
    both_there, told = threading.Event(), []

    def first_refused(heard):
        told.append(heard)
        if len(told) == 1:
            both_there.wait(30)
            return 429, b"{}"
        both_there.set()
        return 200, b"{}"

    ada.answer = bob.answer = first_refused
    statuses = []
    asking = threading.Thread(target=lambda: statuses.append(ask(one, "shared").status_code))
    asking.start()
    while not told:
        time.sleep(0.01)
    statuses.append(ask(one, "shared").status_code)
    asking.join()

    assert sorted(statuses) == [200, 429]
    assert list(had((ada, bob), "shared").values()) == [2]


def test_a_request_that_a_quota_refuses_leaves_no_node_to_its_name(gateways, alone):
    one, _, (ada, bob) = gateways
    key = one.post("/v1/keys", json={"owner": "erin", "quotas": {"sandboxes": 1}}).json()
    names = [f"quota-{number}" for number in range(12)]
    for each in (ada, bob):
        each.renew(of_keys={key["id"]: 1})

    refused = {ask(one, name, Authorization=f"Bearer {key['key']}").status_code for name in names}
    alone.tell("leave", {"boot_id": ada.boot_id})
    bob.renew()
    taken = {ask(one, name, Authorization=f"Bearer {key['key']}").status_code for name in names}

    assert (refused, taken) == ({429}, {200})
    assert (len(ada.heard), len(bob.heard)) == (0, 12)


def test_an_empty_name_is_none(gateways):
    one, _, nodes = gateways

    for _ in range(20):
        one.post("/v1/run", json={"code": "1"}, headers={"Idempotency-Key": ""})

    assert len(had(nodes, "")) == 2


def test_requests_without_a_name_ask_the_catalogue_nothing_and_others_go_on_without_it(alone, taps):
    [tap] = taps("ada")
    held = sqlite3.connect(alone.catalogue, isolation_level=None, timeout=30)
    held.execute("BEGIN EXCLUSIVE")
    try:
        with alone.gateway.client() as client:
            plain = [ask(client, None).status_code for _ in range(20)]
            named = [ask(client, "away").status_code for _ in range(2)]
    finally:
        held.execute("ROLLBACK")
        held.close()

    assert plain == [200] * 20
    assert named == [200] * 2
    assert had([tap], "away") == {"ada": 2}
    alone.until(lambda: tap.renew().status_code == 200)


@pytest.fixture(params=["sqlite", "postgres"])
def catalogue(request, tmp_path):
    url = str(tmp_path / "fleet.db")
    if request.param == "postgres":
        url = request.getfixturevalue("postgres").own
    made = Catalogue(url, lease_s=30.0)
    yield made
    with made._transaction() as run:
        run("DELETE FROM groundbox_asked")
    made.close()


def test_the_first_claim_of_a_name_holds_until_it_is_given_up(catalogue):
    first = catalogue.claim({"a": "tag-1", "b": "tag-1"}, kept_s=600)
    given_up = catalogue.give_up("b", "tag-1", even_shared=False)
    second = catalogue.claim({"b": "tag-2", "a": "tag-2", "c": "tag-2"}, kept_s=600)

    assert first == {"a": "tag-1", "b": "tag-1"}
    assert given_up
    assert second == {"a": "tag-1", "b": "tag-2", "c": "tag-2"}


def test_a_claim_that_another_gateway_was_told_of_is_given_up_only_where_twice_does_no_harm(catalogue):
    catalogue.claim({"a": "tag-1"}, kept_s=600)
    catalogue.claim({"a": "tag-2"}, kept_s=600)

    told = [catalogue.give_up("a", tag, even_shared=shared) for tag, shared in (("tag-1", False), ("tag-2", True))]

    assert told == [False, False]
    assert catalogue.give_up("a", "tag-1", even_shared=True)


def test_old_claims_are_forgotten(catalogue):
    catalogue.claim({"old": "tag-1"}, kept_s=600)
    with catalogue._transaction() as run:
        run("UPDATE groundbox_asked SET made = made - 601")
    catalogue._forgot = float("-inf")

    assert catalogue.claim({"old": "tag-2"}, kept_s=600) == {"old": "tag-2"}


class FaultyRoster(Roster):
    """Of a catalogue that cannot be asked, for a reason that nobody thought of."""

    def __init__(self):
        self.problem, self.catalogue = "", Catalogue(":memory:", lease_s=30.0)

    async def call(self, function, most_s=1.0):
        raise ValueError("a fault")


def test_a_fault_in_writing_claims_leaves_no_request_waiting(caplog):
    async def claimed():
        known = claims.Claims(FaultyRoster())
        first = await asyncio.gather(known.claim("a", "tag-1"), known.claim("b", "tag-2"))
        return [*first, await known.claim("c", "tag-3"), await known.known("a")]

    assert asyncio.run(asyncio.wait_for(claimed(), 10)) == ["tag-1", "tag-2", "tag-3", "tag-1"]
    assert "claims could not be written" in caplog.text


def test_a_name_is_known_for_as_long_as_its_run_may_take_and_its_reply_is_kept(monkeypatch):
    async def known_after(seconds):
        known = claims.Claims(FaultyRoster())
        await known.claim("a", "tag-1")
        later = time.monotonic() + seconds
        monkeypatch.setattr(time, "monotonic", lambda: later)
        try:
            return await known.known("a")
        finally:
            monkeypatch.undo()

    assert asyncio.run(known_after(3600 + 599)) == "tag-1"
    assert asyncio.run(known_after(3600 + 601)) is None
