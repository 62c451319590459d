"""Keys and quotas: who is known, for how long without a database, and how much each may use."""

import asyncio
import os
import re
import sqlite3
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed here")

from groundbox.errors import InvalidArgument
from groundbox.fleet.catalogue import Catalogue
from groundbox.server import keys as module
from groundbox.server.keys import (
    OWNER,
    Keys,
    KeyStore,
    KeyStoreUnavailable,
    Quotas,
    check_token,
    digest_of,
    e2b_form,
    new_token,
)
from groundbox.server.refusals import Refused

TOKEN = "the-owners-token-of-some-length"


@pytest.fixture
def store(tmp_path):
    return KeyStore(tmp_path / "keys.db")


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test moves."""

    class Clock:
        now = 1_000_000.0

        def monotonic(self):
            return self.now

        def __getattr__(self, name):
            return getattr(time, name)

    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


class Away(KeyStore):
    """A database that raises, or does not answer."""

    def __init__(self, store):
        self.store, self.error, self.hangs, self.asked = store, None, None, 0

    def exchange(self, spent, day):
        self.asked += 1
        if self.hangs is not None:
            self.hangs.wait(10)
        if self.error is not None:
            raise self.error
        return self.store.exchange(spent, day)


async def refusal_of(keys, token):
    with pytest.raises(Refused) as caught:
        await keys.find(token)
    return caught.value.status


async def test_a_secret_leads_to_its_key_and_any_other_to_none(store):
    secret, key = store.create("ada", ["run"], Quotas(sandboxes=3))
    keys = Keys(token=TOKEN, store=store)
    await keys.refresh()

    assert await keys.find(secret) == key
    assert await keys.find(TOKEN) == OWNER
    for token in (None, "", "x", key.id, digest_of(secret), secret[:-1], secret + " ", "\ud800", "é" * 20):
        assert await refusal_of(keys, token) == 401


async def test_a_new_key_is_known_at_once(store):
    keys = Keys(token=TOKEN, store=store)
    await keys.refresh()

    secret, key = store.create("ada", ["run"], Quotas())
    await asyncio.sleep(0.3)

    assert await keys.find(secret) == key


async def test_keys_are_read_while_all_threads_for_requests_are_busy(store):
    keys, may_end = Keys(token=TOKEN, store=store), threading.Event()
    secret, key = store.create("ada", ["run"], Quotas())
    busy = [asyncio.ensure_future(asyncio.to_thread(may_end.wait, 30)) for _ in range(200)]
    try:
        async with asyncio.timeout(20):
            await keys.refresh()
    finally:
        may_end.set()
        await asyncio.gather(*busy)

    assert await keys.find(secret) == key


async def test_guesses_make_few_questions_to_the_database(store):
    away = Away(store)
    keys = Keys(token=TOKEN, store=away)
    await keys.refresh()

    for number in range(500):
        await refusal_of(keys, f"guess {number}")

    assert away.asked <= 25  # one in 0.2 s, also where each guess takes 10 ms
    assert len(keys._usage) == 0


async def test_a_secret_is_kept_nowhere(store, tmp_path):
    secret, _ = store.create("ada", ["run"], Quotas())

    kept = (tmp_path / "keys.db").read_bytes()

    assert secret.encode() not in kept
    assert digest_of(secret).encode() in kept
    assert not stat.S_IMODE((tmp_path / "keys.db").stat().st_mode) & 0o022


@pytest.mark.parametrize(
    "error", [KeyStoreUnavailable("away"), OSError(5, "broken"), ValueError("odd"), RuntimeError()]
)
async def test_keys_go_on_for_half_a_minute_without_a_database_and_no_longer(store, clock, error):
    secret, key = store.create("ada", ["run"], Quotas())
    away = Away(store)
    keys = Keys(token=TOKEN, store=away)
    await keys.refresh()

    away.error = error
    await keys.refresh()
    clock.now += 29
    known = await keys.find(secret)
    clock.now += 2
    later = await refusal_of(keys, secret)
    problem, owner = keys.problem, await keys.find(TOKEN)
    away.error = None
    await keys.refresh()

    assert (known, later, owner) == (key, 503, OWNER)
    assert problem
    assert (await keys.find(secret), keys.problem) == (key, "")


async def test_a_database_that_does_not_answer_at_all_is_as_one_that_is_away(store, clock, monkeypatch):
    import threading

    monkeypatch.setattr(module, "_ANSWER_S", 0.1)
    secret, _ = store.create("ada", ["run"], Quotas())
    away = Away(store)
    keys = Keys(token=TOKEN, store=away)
    await keys.refresh()

    away.hangs = threading.Event()
    reading = asyncio.ensure_future(keys.refresh())
    await asyncio.sleep(0.05)
    clock.now += 31
    begun = time.monotonic()
    statuses = [await refusal_of(keys, secret), await refusal_of(keys, "unknown")]
    lasted_s = time.monotonic() - begun
    away.hangs.set()
    await reading

    assert statuses == [503, 503]
    assert lasted_s < 5


async def test_reading_goes_on_after_any_failure(store, monkeypatch):
    monkeypatch.setattr(module, "_REFRESH_S", 0.01)
    away = Away(store)
    away.error = RuntimeError("of a driver")
    keys = Keys(token=TOKEN, store=away)
    reading = asyncio.ensure_future(keys.keep_reading())
    await asyncio.sleep(0.2)

    away.error = None
    await asyncio.sleep(0.3)
    problem, ended = keys.problem, reading.done()
    reading.cancel()

    assert (problem, ended) == ("", False)


async def test_what_was_used_survives_a_database_that_is_away(store):
    away = Away(store)
    keys = Keys(token=TOKEN, store=away)
    keys.usage("k").charge(cpu_s=3.0, size=100)

    away.error = OSError(5, "broken")
    await keys.refresh()
    away.error = None
    await keys.refresh()
    again = Keys(token=TOKEN, store=store)
    await again.refresh()

    for each in (keys, again):
        with pytest.raises(Refused, match="cpu_s_a_day=3"):
            each.usage("k").begin_run(Quotas(cpu_s_a_day=3))


def test_a_file_that_is_no_database_is_told(tmp_path):
    (tmp_path / "keys.db").write_bytes(b"no database" * 1000)

    with pytest.raises(KeyStoreUnavailable, match="cannot be used"):
        KeyStore(tmp_path / "keys.db").all()


def test_rows_that_are_no_keys_are_told_and_not_taken(store, tmp_path):
    store.create("ada", ["run"], Quotas())
    with sqlite3.connect(tmp_path / "keys.db") as connection:
        connection.execute("UPDATE groundbox_keys SET quotas = '{\"sandboxes\": -1}'")

    with pytest.raises(KeyStoreUnavailable, match="is no key"):
        store.all()


@pytest.mark.parametrize("owner", ["", " ", "a\nb", "a\x1b[31m", "x" * 201, "\u202e"])
def test_an_owner_has_a_name_that_can_be_shown(store, owner):
    with pytest.raises(InvalidArgument, match="owner"):
        store.create(owner, ["run"], Quotas())


def test_there_are_no_other_scopes(store):
    with pytest.raises(InvalidArgument, match="no scope 'root'"):
        store.create("ada", ["root"], Quotas())


def test_a_key_ends_once(store):
    _, key = store.create("ada", ["run"], Quotas())

    assert [store.revoke(key.id), store.revoke(key.id), store.revoke("no-such")] == [True, False, False]


@pytest.mark.parametrize("field", ["sandboxes", "runs_a_minute", "cpu_s_a_day", "bytes_a_day"])
@pytest.mark.parametrize("value", [0, -1, True, "1"])
def test_a_quota_is_a_number_above_0(field, value):
    with pytest.raises(InvalidArgument, match=field):
        Quotas(**{field: value})


def test_runs_a_minute_come_back_with_time(clock):
    usage = Keys(token=None).usage("k")
    quotas = Quotas(runs_a_minute=60)

    for _ in range(60):
        usage.begin_run(quotas)
    with pytest.raises(Refused) as caught:
        usage.begin_run(quotas)
    clock.now += 1.001
    usage.begin_run(quotas)

    assert (caught.value.code, caught.value.retry_after_s) == ("quota.runs_a_minute", pytest.approx(1.0))  # type: ignore[comparison-overlap]  # approx equals floats


async def test_runs_a_minute_are_those_on_all_servers_of_a_database(store):
    _, key = store.create("ada", ["run"], Quotas(runs_a_minute=6))
    _, free = store.create("eve", ["run"], Quotas())
    one, two = (Keys(token=TOKEN, store=store) for _ in range(2))
    for each in (one, two):
        await each.refresh()

    for _ in range(4):
        one.usage(key.id).begin_run(key.quotas)
        one.usage(free.id).begin_run(free.quotas)
    await one.refresh()
    await two.refresh()
    await two.refresh()  # what was counted counts once
    for _ in range(2):
        two.usage(key.id).begin_run(key.quotas)
    with pytest.raises(Refused, match="runs_a_minute=6 is used up") as refused:
        two.usage(key.id).begin_run(key.quotas)
    await two.refresh()
    await one.refresh()
    with pytest.raises(Refused, match="runs_a_minute=6 is used up"):
        one.usage(key.id).begin_run(key.quotas)

    assert 0 < refused.value.retry_after_s <= 10
    assert store.share_runs({}, "2999-01-01") == {}


async def test_runs_that_could_not_be_told_are_told_later(store, monkeypatch):
    _, key = store.create("ada", ["run"], Quotas(runs_a_minute=6))
    one, two = (Keys(token=TOKEN, store=store) for _ in range(2))
    for each in (one, two):
        await each.refresh()
    for _ in range(6):
        one.usage(key.id).begin_run(key.quotas)

    def away(ran, day):
        raise KeyStoreUnavailable("away")

    with monkeypatch.context() as patched:
        patched.setattr(store, "share_runs", away)
        await one.refresh()
    problem = one.problem
    await one.refresh()
    await two.refresh()

    assert problem == "away"
    with pytest.raises(Refused):
        two.usage(key.id).begin_run(key.quotas)


def test_a_day_ends(monkeypatch):
    usage = Keys(token=None).usage("k")
    quotas = Quotas(cpu_s_a_day=1, bytes_a_day=10)
    usage.charge(cpu_s=1, size=10)

    with pytest.raises(Refused, match="cpu_s_a_day"):
        usage.begin_run(quotas)
    with pytest.raises(Refused, match="bytes_a_day"):
        usage.check_bytes(quotas)
    monkeypatch.setattr(module, "_today", lambda: "2999-01-01")

    usage.begin_run(quotas)
    usage.check_bytes(quotas)


def test_secrets_are_long_and_each_another():
    made = {new_token() for _ in range(1000)}

    assert len(made) == 1000
    assert {len(each) for each in made} == {67}


async def test_a_secret_is_a_key_of_e2b_too_with_their_prefix(store):
    secret, key = store.create("ada", ["run"], Quotas())
    keys = Keys(token="e2b_" + "0" * 40, store=store)
    await keys.refresh()

    assert re.fullmatch("e2b_[0-9a-f]{64}", e2b_form(secret))
    assert await keys.find(e2b_form(secret)) == key
    assert [await keys.find(prefix + "0" * 40) for prefix in ("e2b_", "gb_")] == [OWNER] * 2
    assert [await refusal_of(keys, prefix + secret[3:]) for prefix in ("", "e2b", "gbs_")] == [401] * 3


@pytest.mark.parametrize(
    "token", ["short", "x" * 513, "has a blank in it somewhere", "has\na line break in it", "é" * 20]
)
def test_a_secret_that_cannot_be_sent_or_is_soon_guessed_is_refused_without_being_told(token):
    with pytest.raises(InvalidArgument) as caught:
        check_token(token)

    assert token not in str(caught.value)


class TestPostgres:
    """The same keys in PostgreSQL, which several servers may share."""

    @pytest.fixture
    def stores(self, postgres):
        """Two servers' views of one database."""
        url = postgres.own
        yield KeyStore(url), KeyStore(url)
        postgres.execute("DROP TABLE IF EXISTS groundbox_keys, groundbox_used, groundbox_ran", "groundbox")

    async def test_a_key_that_one_server_makes_another_knows_until_it_is_revoked(self, stores):
        here, there = stores
        secret, key = here.create("ada", ["run", "ask"], Quotas(sandboxes=3, cpu_s_a_day=1.5))
        keys = Keys(token=TOKEN, store=there)
        await keys.refresh()

        known = await keys.find(secret)
        revoked = [here.revoke(key.id), here.revoke(key.id), there.revoke("no-such")]
        await keys.refresh()

        assert known == key
        assert revoked == [True, False, False]
        assert await refusal_of(keys, secret) == 401
        assert [each.id for each in there.all()] == [key.id]

    async def test_servers_add_up_what_a_key_used(self, stores):
        servers = [Keys(token=TOKEN, store=store) for store in stores]
        for number, keys in enumerate(servers, 1):
            keys.usage("k").charge(cpu_s=number, size=10 * number)
            await keys.refresh()
        await servers[0].refresh()

        for keys in servers:
            with pytest.raises(Refused, match="cpu_s_a_day=3"):
                keys.usage("k").begin_run(Quotas(cpu_s_a_day=3))
            keys.usage("k").begin_run(Quotas(cpu_s_a_day=3.1))

    def test_many_that_come_at_once_to_an_empty_database_all_find_it(self, postgres, stores):
        with ThreadPoolExecutor(8) as pool:
            made = list(
                pool.map(lambda number: KeyStore(postgres.own).create(f"n{number}", ["run"], Quotas()), range(8))
            )

        assert {key.id for key in stores[0].all()} == {key.id for _, key in made}

    async def test_one_that_is_away_or_lets_nobody_in_is_told_without_its_password(self, postgres, tmp_path):
        away = KeyStore(f"postgresql://ada:a-secret-word@/shop?host={tmp_path}")
        closed = KeyStore(postgres.url("admin", password="a-wrong-word"))

        told = []
        for store in (away, closed):
            with pytest.raises(KeyStoreUnavailable, match="PostgreSQL cannot be used") as caught:
                store.all()
            told.append(str(caught.value))

        assert not any(word in text for text in told for word in ("a-secret-word", "a-wrong-word"))


def modes(folder):
    return {each.name: stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()}


def test_a_database_of_keys_is_closed_to_others(tmp_path):
    former = os.umask(0o022)
    try:
        KeyStore(tmp_path / "new.db").all()
        (tmp_path / "old.db").touch(0o644)
        KeyStore(tmp_path / "old.db").all()
        (tmp_path / "shared.db").touch(0o640)
        KeyStore(tmp_path / "shared.db").all()
    finally:
        os.umask(former)

    assert modes(tmp_path) == {"new.db": 0o600, "old.db": 0o600, "shared.db": 0o640}


def test_a_database_of_a_fleet_is_closed_to_others_with_its_log(tmp_path):
    former = os.umask(0o022)
    try:
        catalogue = Catalogue(str(tmp_path / "fleet.db"), lease_s=6)
        catalogue.nodes()
        while_open = modes(tmp_path)
        catalogue.close()
    finally:
        os.umask(former)

    assert "fleet.db-wal" in while_open
    assert set(while_open.values()) == {0o600}
