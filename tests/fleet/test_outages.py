"""A catalogue that is away: nodes that are heard live on, those that are not end, and nobody says otherwise."""

import asyncio
import contextlib
import os
import signal
import sqlite3
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed here")

from groundbox.fleet import roster as rosters
from groundbox.fleet.catalogue import Catalogue, CatalogueUnavailable, Heard, JoinRefused, Presence
from groundbox.fleet.roster import Roster

SECRET = b"a-join-secret-of-some-length"
LEASE_S = 0.3


@pytest.fixture(params=["sqlite", "postgres"])
def catalogue(request, tmp_path):
    url = str(tmp_path / "fleet.db")
    if request.param == "postgres":
        url = request.getfixturevalue("postgres").own
    made = Catalogue(url, lease_s=LEASE_S)
    yield made
    clear(made)


def clear(catalogue):
    """Leave nothing in a database that other tests use, too."""
    with catalogue._transaction() as run:
        for table in ("nodes", "fleet", "gateways"):
            run(f"DELETE FROM groundbox_{table}")
    catalogue.close()


def join(catalogue, boot_id="b1", name="ada", port=9):
    where = {"url": f"http://127.0.0.1:{port}", "version": "1", "environment": "e"}
    return catalogue.join(boot_id=boot_id, name=name, load={}, **where)


def tell(catalogue, gateway="g1", *, quiet=0.0, until_s=60.0, heard=None, address=None):
    presence = Presence(gateway_id=gateway, address=address or gateway, quiet=quiet, until_s=until_s, heard=heard or {})
    return catalogue.exchange(presence)


def test_no_node_is_called_lost_while_a_gateway_that_is_cut_off_may_have_heard_it(catalogue):
    join(catalogue)
    now, _ = tell(catalogue, "cut-off", until_s=2 * LEASE_S)
    time.sleep(LEASE_S * 1.2)

    _, [doubtful] = tell(catalogue, "other", quiet=now + 60)
    time.sleep(LEASE_S)
    _, [lost] = tell(catalogue, "other", quiet=now + 60)

    assert (doubtful.state, doubtful.is_alive) == ("ready", False)
    assert lost.state == "lost"


def test_a_gateway_that_is_quiet_delays_no_loss(catalogue):
    join(catalogue)
    now, _ = tell(catalogue, "other", quiet=0.0)
    tell(catalogue, "other", quiet=now + 60)
    time.sleep(LEASE_S * 1.2)

    _, [node] = tell(catalogue, "one", quiet=now + 60)

    assert node.state == "lost"


def test_what_was_lengthened_meanwhile_is_in_the_catalogue_when_its_gateway_is_quiet_again(catalogue):
    join(catalogue)
    now, _ = tell(catalogue)
    time.sleep(LEASE_S * 1.2)

    _, [node] = tell(catalogue, quiet=now + 60, heard={"b1": Heard(7, 5.0)})
    _, [seen_by_another] = tell(catalogue, "g2", quiet=now + 60)

    assert (node.number, node.is_alive, seen_by_another.is_alive) == (7, True, True)
    with pytest.raises(JoinRefused, match="not newer"):
        catalogue.renew("b1", 7, {})


def test_what_was_heard_of_a_node_that_is_lost_brings_it_not_back(catalogue):
    join(catalogue)
    time.sleep(LEASE_S * 1.2)
    assert [each.state for each in catalogue.nodes()] == ["lost"]

    _, [node] = tell(catalogue, heard={"b1": Heard(7, 5.0)})

    assert (node.state, node.number) == ("lost", 0)


def test_a_gateway_at_the_address_of_one_that_was_quiet_takes_its_place_and_of_no_other(catalogue):
    now, _ = tell(catalogue, "old", address="a")
    tell(catalogue, "new", address="a")
    with catalogue._transaction() as run:
        noisy = run("SELECT gateway_id FROM groundbox_gateways ORDER BY gateway_id")
    tell(catalogue, "old", address="a", quiet=now + 60)
    tell(catalogue, "new", address="a")
    with catalogue._transaction() as run:
        quiet = run("SELECT gateway_id FROM groundbox_gateways ORDER BY gateway_id")

    assert [each for (each,) in noisy] == ["new", "old"]
    assert [each for (each,) in quiet] == ["new"]


def test_what_was_heard_before_the_last_renewal_takes_no_number_back(catalogue):
    join(catalogue)
    catalogue.renew("b1", 9, {})

    _, [node] = tell(catalogue, heard={"b1": Heard(7, 5.0)})

    assert node.number == 9
    assert node.left_s <= LEASE_S


@contextlib.contextmanager
def locked(path):
    """A file of SQLite that nobody can write."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=30)
    connection.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


def test_a_gateway_lengthens_leases_only_between_the_two_times_that_it_has_told(tmp_path, monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr(rosters, "_now", lambda: clock[0])
    catalogue = Catalogue(str(tmp_path / "fleet.db"), lease_s=30.0)
    monkeypatch.setattr("groundbox.fleet.catalogue._ANSWER_S", 0.05)

    async def scenario():
        join(catalogue)
        roster = Roster(catalogue, SECRET, outage_s=60.0)
        await roster.refresh()
        found = {}
        number = 0
        with locked(tmp_path / "fleet.db"):
            for later in (9.9, 10.1, 60.0, 60.1):
                clock[0], number = 1000.0 + later, number + 1
                try:
                    found[later] = (await roster.renew("b1", number, {})).left_s
                except CatalogueUnavailable:
                    found[later] = None
            clock[0] = 1030.0
            refusals = []
            for boot_id, again in (("b1", 1), ("b9", 1)):
                with pytest.raises((JoinRefused, CatalogueUnavailable)) as refused:
                    await roster.renew(boot_id, again, {})
                refusals.append(type(refused.value).__name__)
            roster.lose(next(iter(roster)))
            with pytest.raises(JoinRefused, match="this boot is lost"):
                await roster.renew("b1", 99, {})
        await roster.refresh()
        return found, refusals, catalogue.nodes()[0].number

    found, refusals, number = asyncio.run(scenario())

    assert found == {9.9: None, 10.1: 30.0, 60.0: 30.0, 60.1: None}
    assert refusals == ["JoinRefused", "CatalogueUnavailable"]
    assert number == 3


def counted_up(client, box):
    told = client.post(f"/v1/sandboxes/{box}/run", json={"code": "x = globals().get('x', 0) + 1; print(x)"})
    return int(told.json()["stdout"]) if told.status_code == 200 else told.status_code


def test_sessions_outlive_a_catalogue_that_is_away_for_three_leases(fleet_of):
    with fleet_of("ada", lease_s=3.0) as fleet, fleet.gateway.client() as client:
        box, other = (client.post("/v1/sandboxes", json={}).json()["sandbox_id"] for _ in range(2))
        counted = []
        with locked(fleet.catalogue):
            end = time.monotonic() + 3 * fleet.lease_s
            while time.monotonic() < end:
                counted.append(counted_up(client, box))
                time.sleep(0.2)
            made = client.post("/v1/sandboxes", json={}).status_code
            closed = client.delete(f"/v1/sandboxes/{other}").status_code
            ready = client.get("/readyz").status_code
        fleet.until(lambda: "the catalogue is there again" in fleet.gateway.log.read_text())
        after = counted_up(client, box)

        assert counted == list(range(1, len(counted) + 1))
        assert after == len(counted) + 1
        assert (made, closed, ready) == (201, 204, 200)
        assert fleet.node("ada")["generation"] == 1


@pytest.mark.slow
def test_without_time_for_outages_all_ends_with_the_catalogue(fleet_of):
    with fleet_of(lease_s=3.0) as fleet:
        alone = fleet.start_gateway("--outage-s", 0)
        fleet.gateway.end()
        fleet.gateway = alone
        fleet.start_node("ada")
        fleet.until_ready("ada")
        with alone.client() as client:
            box = client.post("/v1/sandboxes", json={}).json()["sandbox_id"]
            with locked(fleet.catalogue):
                fleet.until(lambda: "all sandboxes are ended" in fleet.nodes["ada"].log.read_text())
            gone = fleet.until(lambda: (told := client.get(f"/v1/sandboxes/{box}").status_code) in (404, 410) and told)

    assert gone == 410


@pytest.mark.slow
def test_a_node_that_is_cut_off_while_the_catalogue_is_away_ends_and_is_lost_for_both_gateways(fleet_of):
    with fleet_of("bob", lease_s=3.0) as fleet, fleet.gateway.client() as client:
        other = fleet.start_gateway()
        fleet.start_node("ada", gateway=other)
        fleet.until_ready("ada", "bob")
        names = {each["tag"]: each["name"] for each in fleet.status()}
        boxes = {}
        while len(boxes) < 2:
            made = client.post("/v1/sandboxes", json={}).json()["sandbox_id"]
            boxes[names[made[:12]]] = made
        with other.client() as second:
            with locked(fleet.catalogue):
                time.sleep(2 * fleet.lease_s)  # both live by what gateways heard, each by another one
                alive = [counted_up(each, box) for each in (client, second) for box in boxes.values()]
                os.kill(other.process.pid, signal.SIGSTOP)  # ada's only gateway
                fleet.until(lambda: "all sandboxes are ended" in fleet.nodes["ada"].log.read_text())
                told = client.get(f"/v1/sandboxes/{boxes['ada']}").status_code
                going_on = counted_up(client, boxes["bob"])
                os.kill(other.process.pid, signal.SIGCONT)
            fleet.until(lambda: fleet.node("ada")["generation"] == 2)
            after = [each.get(f"/v1/sandboxes/{boxes['ada']}").status_code for each in (client, second)]
            kept = [counted_up(each, boxes["bob"]) for each in (client, second)]

    assert alive == [1, 1, 2, 2]
    assert told in (410, 503)
    assert (going_on, after, kept) == (3, [410, 410], [4, 5])


@pytest.mark.slow
def test_sessions_outlive_a_postgresql_that_hangs(fleet_of, postgres):
    def all_of_it(sent):
        postmaster = int(Path(postgres.folder, "data/postmaster.pid").read_text().split()[0])
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                if int(path.read_text().rpartition(")")[2].split()[1]) == postmaster:
                    os.kill(int(path.parts[2]), sent)
        os.kill(postmaster, sent)

    with fleet_of("ada", lease_s=3.0, catalogue=postgres.own) as fleet, fleet.gateway.client() as client:
        box = client.post("/v1/sandboxes", json={}).json()["sandbox_id"]
        counted = []
        all_of_it(signal.SIGSTOP)
        waking = threading.Timer(3 * fleet.lease_s, all_of_it, (signal.SIGCONT,))
        waking.start()
        while waking.is_alive():
            counted.append(counted_up(client, box))
            time.sleep(0.2)
        waking.join()
        fleet.until(lambda: "the catalogue is there again" in fleet.gateway.log.read_text())

        assert counted == list(range(1, len(counted) + 1))
        assert counted_up(client, box) == len(counted) + 1
        assert fleet.node("ada")["generation"] == 1
    clear(Catalogue(postgres.own, lease_s=LEASE_S))
