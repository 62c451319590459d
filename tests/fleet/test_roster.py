"""Nodes as one gateway sees them: who is alive, who is preferred, and what no reading of the catalogue takes back."""

import asyncio
import dataclasses
import time

import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed here")

from groundbox.fleet.catalogue import Catalogue
from groundbox.fleet.roster import Roster

SECRET = b"a-join-secret-of-some-length"


@pytest.fixture
def catalogue(tmp_path):
    return Catalogue(str(tmp_path / "fleet.db"), lease_s=30.0)


def join(catalogue, name="ada", boot_id=None, load=None):
    where = {"url": f"http://127.0.0.1:{9000 + sum(name.encode())}", "version": "1", "environment": "e"}
    return catalogue.join(boot_id=boot_id or f"boot-{name}", name=name, load=load or {}, **where)


async def read(roster):
    await roster.refresh()
    assert roster.problem == ""


def test_a_boot_that_has_said_it_is_over_stays_so(catalogue):
    async def scenario():
        node, roster = join(catalogue), Roster(catalogue, SECRET)
        await read(roster)
        before = roster.get(node.tag).is_alive
        roster.lose(roster.get(node.tag))
        catalogue.renew("boot-ada", 1, {})
        await read(roster)
        return before, roster.get(node.tag).is_alive, roster.placed(None, ())

    assert asyncio.run(scenario()) == (True, False, None)


def test_runs_of_one_key_that_go_on_at_once_make_no_sandbox_that_counts(catalogue):
    peer = Roster(catalogue, SECRET).take(join(catalogue))
    for count in (0, 0, 1):
        peer.begin_making("carol", count)
    going_on = peer.sandboxes_of("carol")
    for count in (0, 1, 0):
        peer.end_making("carol", count, is_made=True)

    assert (going_on, peer.sandboxes_of("carol"), peer.making) == (1, 1, {})


def test_what_was_read_before_a_renewal_does_not_shorten_the_lease(catalogue):
    async def scenario():
        joined, roster = join(catalogue), Roster(catalogue, SECRET)
        peer = roster.take(catalogue.renew("boot-ada", 1, {}))
        ends = peer.ends
        roster.take(dataclasses.replace(joined, left_s=0.1))
        return peer.ends == ends, peer.is_alive

    assert asyncio.run(scenario()) == (True, True)


def test_the_same_lease_is_not_longer_when_it_is_told_later(catalogue):
    async def scenario():
        node, roster = join(catalogue), Roster(catalogue, SECRET)
        first = roster.take(node).ends
        await asyncio.sleep(0.2)
        return roster.take(node).ends - first

    assert asyncio.run(scenario()) == 0.0


def test_nodes_that_do_not_answer_or_missed_a_renewal_are_taken_last(catalogue):
    async def scenario():
        nodes, roster = {name: join(catalogue, name) for name in ("ada", "bob", "eve")}, Roster(catalogue, SECRET)
        await read(roster)
        peers = {name: roster.get(node.tag) for name, node in nodes.items()}

        def chosen():
            return {roster.placed(None, ()).node.name for _ in range(50)}

        found = [chosen()]
        peers["ada"].upstream.give_up()
        peers["bob"].ends = time.monotonic() + 10
        found.append(chosen())
        peers["eve"].upstream.give_up()
        found.append(chosen())
        peers["ada"].upstream.note_heard()
        found.append(chosen())
        return found

    everybody = {"ada", "bob", "eve"}
    assert asyncio.run(scenario()) == [everybody, {"eve"}, everybody, {"ada"}]


def test_boots_that_are_over_are_kept_without_what_they_told_and_read_once(catalogue):
    async def scenario():
        roster = Roster(catalogue, SECRET)
        for number in range(20):
            join(catalogue, boot_id=f"boot-{number}", load={"sandboxes": number})
        await read(roster)
        with catalogue._transaction() as run:
            run("UPDATE groundbox_nodes SET ends = ends - 1000 WHERE state = 'lost'")
        await read(roster)
        return (
            [len(roster._peers), len(roster._over)],
            {len(each.node.load) for each in roster._over.values()},
            len(catalogue.nodes(ended_within_s=60.0)),
        )

    assert asyncio.run(scenario()) == ([1, 19], {0}, 1)


def test_a_name_that_starts_again_and_again_is_remembered_so_far(catalogue, monkeypatch):
    monkeypatch.setattr("groundbox.fleet.catalogue._MOST_BOOTS", 5)
    for number in range(12):
        join(catalogue, boot_id=f"boot-{number}")

    assert [each.generation for each in catalogue.nodes()] == [8, 9, 10, 11, 12]
