"""Who may join a fleet, and what is answered to who may not."""

import sqlite3
import time

import httpx
import msgspec
import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed here")

from groundbox.errors import InvalidArgument
from groundbox.fleet.catalogue import Catalogue, JoinRefused
from groundbox.fleet.joining import (
    ANSWER_HEADER,
    CLOCK_S,
    BadSignature,
    answer_mac,
    check_answer,
    check_body,
    check_head,
    check_secret,
    signed,
)

LOAD = {"sandboxes": 0}


@pytest.fixture(params=["sqlite", "postgres"])
def catalogue(request, tmp_path):
    if request.param == "sqlite":
        url = str(tmp_path / "fleet.db")
    else:
        url = request.getfixturevalue("postgres").own
    made = Catalogue(url, lease_s=30.0)
    yield made
    with made._transaction() as run:
        run("DELETE FROM groundbox_nodes")
        run("DELETE FROM groundbox_fleet")
        run("DELETE FROM groundbox_gateways")
        run("DELETE FROM groundbox_asked")
    made.close()


def join(catalogue, boot_id="b1", name="ada", url="http://10.0.0.1:8000", version="1", environment="e"):
    return catalogue.join(boot_id=boot_id, name=name, url=url, version=version, environment=environment, load=LOAD)


def test_a_boot_gets_a_tag_a_generation_and_a_lease(catalogue):
    first = join(catalogue)
    other = join(catalogue, "b2", "bob", "http://10.0.0.2:8000")

    assert (first.generation, first.state, first.is_alive) == (1, "ready", True)
    assert 29 < first.left_s <= 30
    assert len(first.tag) == 12
    assert first.tag != other.tag
    assert [each.name for each in catalogue.nodes()] == ["ada", "bob"]


def test_a_replayed_join_is_refused(catalogue):
    join(catalogue)

    with pytest.raises(JoinRefused, match="has joined before") as refused:
        join(catalogue)

    assert refused.value.code == "replayed"


def test_a_replayed_renewal_lengthens_nothing(catalogue):
    join(catalogue)
    catalogue.renew("b1", 1, LOAD)
    catalogue.renew("b1", 2, {"sandboxes": 7})

    with pytest.raises(JoinRefused, match="not newer") as refused:
        catalogue.renew("b1", 1, LOAD)

    assert refused.value.code == "replayed"
    assert catalogue.nodes()[0].load == {"sandboxes": 7}


def test_a_name_belongs_to_the_node_that_lives_under_it(catalogue):
    join(catalogue)

    with pytest.raises(JoinRefused, match="a node 'ada' lives at http://10.0.0.1:8000") as refused:
        join(catalogue, "b2", url="http://10.0.0.9:8000")

    assert refused.value.code == "name_taken"


def test_who_answers_at_the_same_address_is_the_next_boot_and_the_one_before_is_lost(catalogue):
    join(catalogue)
    again = join(catalogue, "b2")

    assert again.generation == 2
    assert [each.state for each in catalogue.nodes()] == ["lost", "ready"]
    with pytest.raises(JoinRefused, match="this boot is lost"):
        catalogue.renew("b1", 5, LOAD)


@pytest.mark.parametrize(
    ("other", "code"), [({"version": "2"}, "other_version"), ({"environment": "f"}, "other_environment")]
)
def test_a_node_of_another_kind_joins_only_when_it_is_welcome(catalogue, other, code):
    join(catalogue)

    with pytest.raises(JoinRefused, match="groundbox fleet welcome") as refused:
        join(catalogue, "b2", "bob", "http://10.0.0.2:8000", **other)
    catalogue.welcome(**other)
    welcomed = join(catalogue, "b3", "bob", "http://10.0.0.2:8000", **other)

    assert refused.value.code == code
    assert welcomed.is_alive


def test_a_lease_that_has_ended_is_never_renewed(tmp_path):
    catalogue = Catalogue(str(tmp_path / "fleet.db"), lease_s=0.2)
    join(catalogue)
    time.sleep(0.4)

    with pytest.raises(JoinRefused, match="this boot is lost") as refused:
        catalogue.renew("b1", 1, LOAD)

    assert refused.value.code == "fenced"
    assert catalogue.nodes()[0].state == "lost"


def test_leases_go_by_the_database_and_no_clock_of_ours(catalogue, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 0.0)

    assert join(catalogue).left_s > 29


def test_a_catalogue_that_is_no_database_is_named(tmp_path):
    (tmp_path / "fleet.db").write_text("no database, and long enough not to be taken for an empty one" * 50)

    with pytest.raises(Exception, match="the catalogue of the fleet cannot be used: file is not a database"):
        Catalogue(str(tmp_path / "fleet.db"), lease_s=6).nodes()


def asked(**changed):
    told = {"boot_id": "f" * 32, "name": "eve", "url": "http://127.0.0.1:9", "version": "0.1.0", "environment": "e"}
    return {**told, "load": {}, **changed}


def code(answer):
    return answer.status_code, answer.json()["error"]["code"]


def test_a_forged_join_is_refused(fleet):
    _, wrong = fleet.tell("join", asked(), secret="another-secret-of-some-length")
    _, changed = fleet.tell("join", asked(), sent=msgspec.json.encode(asked(name="mallory")))
    none = httpx.post(f"{fleet.gateway.url}/v1/fleet/join", json=asked())

    assert [code(each) for each in (wrong, changed, none)] == [(401, "bad_signature")] * 3
    assert ANSWER_HEADER not in wrong.headers


@pytest.mark.parametrize(("off_s", "word"), [(-3600, "behind"), (3600, "ahead of")])
def test_another_clock_or_an_old_message_is_refused(alone, off_s, word):
    _, answer = alone.tell("join", asked(), now=time.time() + off_s)

    assert code(answer) == (401, "other_clock")
    assert f"s {word} the gateway's" in answer.json()["message"]


def test_a_node_that_is_not_reached_does_not_join(alone):
    signature, answer = alone.tell("join", asked())

    assert code(answer) == (409, "unreachable")
    assert "does not reach the node at http://127.0.0.1:9" in answer.json()["message"]
    assert answer.headers[ANSWER_HEADER] == answer_mac(alone.secret.encode(), signature, answer.content)


def test_a_url_where_another_server_answers_is_refused(fleet):
    _, answer = fleet.tell("join", asked(url=fleet.nodes["ada"].url))

    assert code(answer) == (409, "unreachable")


def test_a_captured_join_brings_nothing_when_it_is_sent_again(fleet):
    [node] = [each for each in fleet.status() if each["name"] == "ada"]
    rows = sqlite3.connect(fleet.catalogue).execute("SELECT boot_id FROM groundbox_nodes WHERE name = 'ada'").fetchall()
    told = asked(boot_id=rows[-1][0], name="ada", url=node["url"], environment=node["environment"])

    _, answer = fleet.tell("join", told)

    assert code(answer) == (409, "replayed")
    assert fleet.node("ada")["generation"] == node["generation"]


@pytest.mark.parametrize("act", ["join", "renew", "leave"])
def test_what_is_not_signed_with_the_secret_or_signed_for_something_else_changes_nothing(alone, taps, act):
    [tap] = taps("ada")
    renewal = {"boot_id": tap.boot_id, "number": 7, "load": {}}
    told = {"join": tap.asked(boot_id="e" * 32), "renew": renewal, "leave": {"boot_id": tap.boot_id}}[act]
    other = msgspec.json.encode({**told, "boot_id": "d" * 32})
    before = alone.node("ada")

    answers = [
        alone.tell(act, told, secret="another-secret-of-some-length"),
        alone.tell(act, told, signed_as=(act, other)),
        alone.tell(act, told, signed_as=("self", msgspec.json.encode(told))),
    ]
    after = alone.node("ada")

    assert [code(each) for _, each in answers] == [(401, "bad_signature")] * 3
    assert [ANSWER_HEADER in each.headers for _, each in answers] == [False] * 3
    assert (after["tag"], after["state"]) == (before["tag"], "ready")
    assert tap.renew().status_code == 200  # its number is the first one still


def test_a_captured_renewal_lengthens_nothing_when_it_is_sent_again(alone, taps):
    [tap] = taps("ada")
    told = {"boot_id": tap.boot_id, "number": 5, "load": {"sandboxes": 3}}

    first = alone.tell("renew", told)[1]
    again = alone.tell("renew", told)[1]
    older = alone.tell("renew", {**told, "number": 4, "load": {}})[1]

    assert first.status_code == 200
    assert [code(each) for each in (again, older)] == [(409, "replayed")] * 2
    assert alone.node("ada")["load"]["sandboxes"] == 3


@pytest.mark.parametrize("off_s", [0, CLOCK_S - 1, 1 - CLOCK_S])
def test_a_message_holds_within_half_a_minute(off_s):
    header = signed(b"secret", "POST", "/x", b"body", now=time.time() + off_s)

    check_body(check_head(b"secret", header, "POST", "/x"), b"body")


@pytest.mark.parametrize("off_s", [CLOCK_S + 1, -CLOCK_S - 1])
def test_a_message_does_not_hold_after_half_a_minute(off_s):
    header = signed(b"secret", "POST", "/x", b"body", now=time.time() + off_s)

    with pytest.raises(BadSignature) as refused:
        check_head(b"secret", header, "POST", "/x")

    assert refused.value.code == "other_clock"


def test_a_time_that_was_changed_spoils_the_signature():
    header = signed(b"secret", "POST", "/x", b"body", now=time.time() - 3600)
    scheme, _, rest = header.partition(" ")
    fresh = f"{scheme} {time.time():.3f} {rest.partition(' ')[2]}"

    with pytest.raises(BadSignature) as refused:
        check_head(b"secret", fresh, "POST", "/x")

    assert refused.value.code == "bad_signature"


def test_an_answer_holds_for_its_own_request_and_body_alone():
    mac = answer_mac(b"secret", "request one", b"body")

    check_answer(b"secret", "request one", mac, b"body")
    for other in (
        (b"other", "request one", b"body"),
        (b"secret", "request two", b"body"),
        (b"secret", "request one", b""),
    ):
        with pytest.raises(BadSignature):
            check_answer(other[0], other[1], mac, other[2])


def test_a_secret_of_less_than_sixteen_characters_is_refused():
    assert check_secret("x" * 16) == b"x" * 16
    for short in (None, "", "x" * 15):
        with pytest.raises(InvalidArgument, match="at least 16 characters"):
            check_secret(short)


@pytest.mark.parametrize("wrong", [{"url": "http://127.0.0.1:9/path"}, {"name": "../eve"}])
def test_a_node_does_not_join_with_a_url_or_a_name_that_is_none(alone, wrong):
    assert code(alone.tell("join", asked(**wrong))[1]) == (400, "invalid_argument")


def test_a_url_where_another_boot_answers_is_refused(alone, taps):
    [tap] = taps("ada")

    assert code(alone.tell("join", tap.asked(name="eve", boot_id="e" * 32))[1]) == (409, "unreachable")


def test_a_renewal_is_told_which_of_its_keys_are_revoked(alone, taps):
    [tap] = taps("ada")
    with alone.gateway.client() as owner:
        kept, revoked = (owner.post("/v1/keys", json={"owner": each}).json() for each in ("carol", "dave"))
        before = tap.renew(of_keys={kept["id"]: 1, revoked["id"]: 2}).json()["revoked"]
        owner.delete(f"/v1/keys/{revoked['id']}")
        after = tap.renew(of_keys={kept["id"]: 1, revoked["id"]: 2}).json()["revoked"]

    assert (before, after) == ([], [revoked["id"]])


def test_a_node_that_comes_at_the_address_of_another_one_ends_it(alone, taps):
    [tap] = taps("ada")

    old, tap.boot_id = tap.boot_id, "c" * 32
    tap.join(name="bob")

    assert alone.node("ada")["state"] == "lost"
    assert code(alone.tell("renew", {"boot_id": old, "number": 9, "load": {}})[1]) == (410, "fenced")


def test_a_boot_that_has_left_is_not_renewed(alone, taps):
    [tap] = taps("ada")

    alone.tell("leave", {"boot_id": tap.boot_id})

    assert code(tap.renew()) == (410, "fenced")


def test_of_two_gateways_that_restore_a_sandbox_one_does(catalogue):
    catalogue.keep("box", "key", "tag-1", "{}")

    moved = [catalogue.move("box", 1, "tag-2"), catalogue.move("box", 1, "tag-3")]
    kept = catalogue.kept("box")
    catalogue.forget("box")

    assert moved == [True, False]
    assert (kept.tag, kept.generation) == ("tag-2", 2)


@pytest.mark.slow
def test_a_node_with_another_secret_says_so_and_does_not_serve_for_the_fleet(fleet_of):
    with fleet_of() as fleet:
        node = fleet.start_node("eve", environ={"GROUNDBOX_JOIN_SECRET": "another-secret-of-some-length"})

        fleet.until(lambda: "cannot join the fleet" in node.log.read_text())

        assert "not signed with this fleet's GROUNDBOX_JOIN_SECRET" in node.log.read_text()
        assert fleet.status() == []


@pytest.mark.slow
def test_two_gateways_of_one_catalogue_know_the_same_nodes(fleet_of):
    with fleet_of("ada") as fleet, fleet.gateway.client() as one:
        second = fleet.start_gateway()
        box = one.post("/v1/sandboxes", json={}).json()["sandbox_id"]
        with second.client() as two:
            fleet.until(lambda: two.get("/readyz").status_code == 200)
            found = two.get(f"/v1/sandboxes/{box}")
        fleet.gateway.kill()
        with second.client() as two:
            still = two.get(f"/v1/sandboxes/{box}")

    assert (found.status_code, still.status_code) == (200, 200)
