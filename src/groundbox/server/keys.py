"""API keys: who asks, what they may do, and how much of it.

A key is shown once, when it is made; kept is its SHA-256, which suffices because keys are 256 random bits. Keys and
what they used today lie in SQLite, or in PostgreSQL by a URL. All of them are held in memory and read again every two
seconds, and at once for a key that is not known, so that a request waits for no database; one that was revoked is
refused two seconds later. While the database is away, keys that were known a moment ago go on, for half a minute.

Quotas that concern a moment (sandboxes, runs a minute) are counted here, in this process; those of a day are kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import hmac
import json
import logging
import os
import re
import secrets
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

from groundbox.errors import ExtraMissing, GroundboxError, InvalidArgument
from groundbox.server.refusals import Refused

logger = logging.getLogger(__name__)

T = TypeVar("T")

SCOPES: Final = ("run", "ask", "network", "mounts", "metrics", "admin")
"""`run`: programs, sandboxes, files. `ask`: questions to the server's model, which cost what the model costs.
`network`: hosts for sandboxes. `metrics`: /metrics. `admin`: keys, all else."""
_PREFIX: Final = "gb_"
_E2B_PREFIX: Final = "e2b_"
"""E2B's SDKs refuse other keys, and demand hexadecimal digits after it."""
_REFRESH_S: Final = 2.0
_LOCK: Final = 0x67726F756E64626F
"""Of PostgreSQL, by which one server makes the tables."""
_UNKNOWN_S: Final = 0.2
STALE_S: Final = 30.0
_ANSWER_S: Final = 5.0
_MOST_KEYS: Final = 100_000
_MOST_VOUCHED: Final = 10_000
_TOKEN: Final = re.compile(r"[\x21-\x7e]{16,512}")
_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS groundbox_keys (id TEXT PRIMARY KEY, digest TEXT UNIQUE NOT NULL, owner TEXT NOT NULL, "
    "scopes TEXT NOT NULL, quotas TEXT NOT NULL, created DOUBLE PRECISION NOT NULL, revoked DOUBLE PRECISION)",
    "CREATE TABLE IF NOT EXISTS groundbox_used (key_id TEXT NOT NULL, day TEXT NOT NULL, "
    "cpu_s DOUBLE PRECISION NOT NULL, bytes BIGINT NOT NULL, PRIMARY KEY (key_id, day))",
    "CREATE TABLE IF NOT EXISTS groundbox_ran (key_id TEXT NOT NULL, day TEXT NOT NULL, runs BIGINT NOT NULL, "
    "PRIMARY KEY (key_id, day))",
)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Quotas:
    """Bounds on what one key uses; None where its owner has none.

    Attributes:
        sandboxes: Alive at the same time.
        runs_a_minute: Begun in any minute, as a token bucket.
        cpu_s_a_day: Processor seconds of all runs of a day (UTC); the run that reaches it is ended by its own limits.
        bytes_a_day: Of bodies of requests and replies of a day.
    """

    sandboxes: int | None = None
    runs_a_minute: int | None = None
    cpu_s_a_day: float | None = None
    bytes_a_day: int | None = None

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            whole = field.name != "cpu_s_a_day"
            right = isinstance(value, int if whole else int | float) and not isinstance(value, bool) and value > 0
            if value is not None and not right:
                raise InvalidArgument(field.name, f"must be a {'whole ' if whole else ''}number above 0, not {value!r}")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Key:
    """One key as it is known; its secret is not.

    Attributes:
        id: Named in logs, and no secret.
        owner: A name for people.
        created: Seconds since the epoch.
        revoked: The same, or None while it holds.
    """

    id: str
    owner: str
    scopes: frozenset[str] = frozenset(("run",))
    quotas: Quotas = Quotas()
    created: float = 0.0
    revoked: float | None = None

    def require(self, scope: str) -> None:
        """Raises Refused with 403 where the key has not this scope."""
        if scope not in self.scopes and "admin" not in self.scopes:
            raise Refused(403, "scope_missing", f"this key lacks the scope {scope!r}; `groundbox keys` gives scopes")

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, without a secret."""
        return {
            "id": self.id,
            "owner": self.owner,
            "scopes": sorted(self.scopes),
            "quotas": dataclasses.asdict(self.quotas),
            "created": self.created,
            "revoked": self.revoked,
        }


OWNER: Final = Key(id="owner", owner="the user who started this server", scopes=frozenset(SCOPES))


def make_private(path: str) -> None:
    """Make the file of a SQLite database before SQLite does, which would let others read it.

    SQLite gives its `-wal` and `-shm` the mode of the database. Files that everybody may read are closed; a mode that
    lets a group read is the operator's choice. No descriptor of a file that exists is closed here, because that would
    drop the locks that this process holds on it.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        for each in (path, f"{path}-wal", f"{path}-shm"):
            with contextlib.suppress(OSError):  # it is not there, or another user's
                found = os.stat(each)
                if stat.S_ISREG(found.st_mode) and found.st_mode & stat.S_IRWXO:
                    os.chmod(each, 0o600)
    except OSError:
        return  # SQLite says what is wrong


class KeyStoreUnavailable(GroundboxError):
    """The database of keys cannot be reached or written."""


class Keys:
    """All keys of one server, and what each of them uses."""

    def __init__(self, *, token: str | None, store: KeyStore | None = None, stale_s: float = STALE_S) -> None:
        """Args:
        token: The owner's own; None where whoever can connect is the owner (a unix socket, or --no-auth).
        store: Where others' keys lie; None for no others.
        stale_s: Seconds that keys hold which were not read again, because their database is away.
        """
        self._stale_s = stale_s
        self._open = token is None
        self._owner_digest = "" if token is None else digest_of(token)
        self._store = store
        self._known: dict[str, Key] = {}
        self._by_id: dict[str, Key] = {}
        self._read_at = self._asked_at = float("-inf")
        self._problem = ""
        self._usage: dict[str, _Usage] = {}
        self._vouched: dict[str, Key] = {}
        self._ran: dict[str, int] | None = None
        self._reading = asyncio.Lock()
        # No work for keys goes there, so that nothing that a key asks for keeps keys from being read.
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="groundbox-keys")
        self._asking: set[asyncio.Task[None]] = set()

    @property
    def problem(self) -> str:
        """Why keys could not be read the last time, or ""."""
        if self._is_stale:
            return self._problem or "the database of keys does not answer"
        return self._problem

    @property
    def is_shared(self) -> bool:
        """Whether keys of others than the owner are known, so that no key may take everything."""
        return bool(self._by_id) or len(self._vouched) > (OWNER.id in self._vouched)

    @property
    def unusable(self) -> str:
        """Why no key can be looked up any more, or ""."""
        return self.problem if self._is_stale else ""

    @property
    def _is_stale(self) -> bool:
        """Whether keys were read too long ago.

        By the clock alone: a database that does not answer at all tells of no problem, and keys that were revoked there
        would hold for ever.
        """
        return self._store is not None and time.monotonic() - self._read_at > self._stale_s

    async def find(self, token: str | None) -> Key:
        """The key that a secret is of.

        Raises:
            Refused: 401 for none or an unknown one, 503 where that cannot be told because the database is away.
        """
        if self._open:
            return OWNER
        if token:
            digest = digest_of(token)
            if hmac.compare_digest(digest, self._owner_digest):
                return OWNER
            key = self._known.get(digest)
            if key is None and self._store is not None and time.monotonic() - self._asked_at > _UNKNOWN_S:
                self._asked_at = time.monotonic()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_ANSWER_S):
                        await asyncio.shield(self._in_background(self.refresh()))
                key = self._known.get(digest)
            self._check_fresh()
            if key is not None and key.revoked is None:
                return key
        raise _unauthorized()

    def of_id(self, key_id: str) -> Key:
        """The key of this id, for a request that brings a secret which was given to that key.

        Raises:
            Refused: 401 where it was revoked meanwhile, 503 where that cannot be told.
        """
        if key_id == OWNER.id:
            return OWNER
        if (vouched := self._vouched.get(key_id)) is not None:
            if vouched.revoked is not None:
                raise _unauthorized()
            return vouched
        self._check_fresh()
        key = self._by_id.get(key_id)
        if key is None or key.revoked is not None:
            raise _unauthorized()
        return key

    def _check_fresh(self) -> None:
        """Refuse where keys were read too long ago."""
        if self._is_stale:
            told = f"keys cannot be looked up: {self._problem or 'their database does not answer'}"
            raise Refused(503, "keys_unavailable", told, retry_after_s=5)

    def vouch(self, key: Key) -> None:
        """Take a key as a gateway knows it, which has looked at its secret."""
        self._vouched.pop(key.id, None)  # so that those asked with last are kept
        self._vouched[key.id] = key
        if len(self._vouched) > _MOST_VOUCHED:
            del self._vouched[next(iter(self._vouched))]

    def revoke_vouched(self, key_ids: Iterable[str]) -> None:
        """Refuse keys that a gateway calls revoked, also on connections that stay open."""
        for key_id in key_ids:
            if (key := self._vouched.get(key_id)) is not None:
                self._vouched[key_id] = dataclasses.replace(key, revoked=time.time())

    def take_vouched(self) -> dict[str, tuple[float, int]]:
        """What runs of vouched keys used since this was asked last, by id, for a gateway to charge."""
        used = ((key_id, self._usage[key_id]) for key_id in self._vouched if key_id in self._usage)
        return {key_id: usage.take() for key_id, usage in used if usage.unsaved}

    def give_back_vouched(self, used: Mapping[str, tuple[float, int]]) -> None:
        """Take back what no gateway has charged."""
        for key_id, spent in used.items():
            self.usage(key_id).give_back(*spent)

    def current(self, key: Key) -> Key:
        """A key that was found before, as it is known now; for connections that stay open.

        Raises:
            Refused: 401 where it was revoked since, 429 where its bytes of today are used up.
        """
        now = self.of_id(key.id)
        self.usage(now.id).check_bytes(now.quotas)
        return now

    async def refresh(self) -> None:
        """Read all keys again, and write what was used. A database that is away is noted and told by `find`."""
        if self._store is None:
            return
        async with self._reading:
            spent = {usage.key_id: usage.take() for usage in self._usage.values() if usage.unsaved}
            try:
                keys, used = await self._in_thread(self._store.exchange, spent, _today())
            except Exception as error:  # whatever a driver raises: reading has to go on, or nobody is revoked any more
                for key_id, (cpu_s, size) in spent.items():
                    self._usage[key_id].give_back(cpu_s, size)
                problem = str(error) if isinstance(error, GroundboxError) else f"{type(error).__name__}: {error}"
                if not self._problem:
                    logger.warning("keys cannot be read: %s", problem)
                self._problem = problem
                return
            self._problem, self._read_at = "", time.monotonic()
            self._known, self._by_id = keys, {key.id: key for key in keys.values()}
            for key_id, (cpu_s, size) in used.items():
                self.usage(key_id).saved(cpu_s, size)
            if any(key.quotas.runs_a_minute is not None and key.revoked is None for key in keys.values()):
                await self._share_runs(self._store)

    async def _share_runs(self, store: KeyStore) -> None:
        """Count what other servers of this database ran against the quotas by the minute here."""
        ran = {usage.key_id: runs for usage in self._usage.values() if (runs := usage.take_runs())}
        try:
            totals = await self._in_thread(store.share_runs, ran, _today())
        except Exception as error:  # as when keys are read
            for key_id, runs in ran.items():
                self._usage[key_id].give_back_runs(runs)
            self._problem = str(error) if isinstance(error, GroundboxError) else f"{type(error).__name__}: {error}"
            return
        before, self._ran = totals if self._ran is None else self._ran, totals
        for key_id, total in totals.items():
            elsewhere = total - before.get(key_id, 0) - ran.get(key_id, 0)
            if elsewhere > 0 and (key := self._by_id.get(key_id)) is not None:
                self.usage(key_id).ran_elsewhere(elsewhere, key.quotas)

    def _in_thread(self, call: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._threads, call, *args)

    async def keep_reading(self) -> None:
        """Refresh for as long as the server runs."""
        while True:
            await self.refresh()
            await asyncio.sleep(_REFRESH_S)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Go on with it, also when the one who asked for it waits no longer."""
        task = asyncio.create_task(work)
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)
        return task

    def usage(self, key_id: str) -> _Usage:
        """The counts of one key."""
        usage = self._usage.get(key_id)
        if usage is None:
            usage = self._usage[key_id] = _Usage(key_id)
        return usage


class _Usage:
    """Counts of one key: of today, and of this minute."""

    def __init__(self, key_id: str) -> None:
        self.key_id = key_id
        self.sandboxes = 0
        self._day = _today()
        self._cpu_s, self._bytes = 0.0, 0
        self._new_cpu_s, self._new_bytes = 0.0, 0
        self._tokens, self._filled_at = float("inf"), time.monotonic()
        self._new_runs = 0

    @property
    def unsaved(self) -> bool:
        return bool(self._new_cpu_s or self._new_bytes)

    def take(self) -> tuple[float, int]:
        spent = self._new_cpu_s, self._new_bytes
        self._cpu_s, self._bytes = self._cpu_s + spent[0], self._bytes + spent[1]
        self._new_cpu_s, self._new_bytes = 0.0, 0
        return spent

    def give_back(self, cpu_s: float, size: int) -> None:
        self._cpu_s, self._bytes = self._cpu_s - cpu_s, self._bytes - size
        self._new_cpu_s, self._new_bytes = self._new_cpu_s + cpu_s, self._new_bytes + size

    def saved(self, cpu_s: float, size: int) -> None:
        """Take over the sums of all servers that share the database."""
        self._roll_over()
        self._cpu_s, self._bytes = cpu_s, size

    def charge(self, *, cpu_s: float = 0.0, size: int = 0) -> None:
        """Count what a run or a request used."""
        self._roll_over()
        self._new_cpu_s, self._new_bytes = self._new_cpu_s + cpu_s, self._new_bytes + size

    def check_cpu(self, quotas: Quotas) -> None:
        """Raises Refused, 429, where the processor seconds of today are used up."""
        self._roll_over()
        if quotas.cpu_s_a_day is not None and self._cpu_s + self._new_cpu_s >= quotas.cpu_s_a_day:
            raise _used_up("cpu_s_a_day", quotas.cpu_s_a_day, _until_tomorrow_s())

    def begin_run(self, quotas: Quotas) -> None:
        """Count a run that begins.

        Raises:
            Refused: 429, naming the quota that is used up.
        """
        self.check_cpu(quotas)
        if quotas.runs_a_minute is not None:
            self._fill(quotas.runs_a_minute)
            if self._tokens < 1:
                wait_s = (1 - self._tokens) * 60.0 / quotas.runs_a_minute
                raise _used_up("runs_a_minute", quotas.runs_a_minute, wait_s)
            self._tokens -= 1
            self._new_runs += 1

    def _fill(self, most: float) -> None:
        """Give back what time has brought of a minute's runs."""
        now = time.monotonic()
        self._tokens = min(most, self._tokens + (now - self._filled_at) * most / 60.0)
        self._filled_at = now

    def take_runs(self) -> int:
        """Runs that began since this was asked last, of those that a quota counts."""
        runs, self._new_runs = self._new_runs, 0
        return runs

    def give_back_runs(self, runs: int) -> None:
        """Take back what could not be told."""
        self._new_runs += runs

    def ran_elsewhere(self, runs: int, quotas: Quotas) -> None:
        """Count runs that other servers began a moment ago; more than there was room for is waited for."""
        if quotas.runs_a_minute is not None:
            self._fill(quotas.runs_a_minute)
            self._tokens -= runs

    def check_bytes(self, quotas: Quotas) -> None:
        """Raises Refused, 429, where the bytes of today are used up."""
        self._roll_over()
        if quotas.bytes_a_day is not None and self._bytes + self._new_bytes >= quotas.bytes_a_day:
            raise _used_up("bytes_a_day", quotas.bytes_a_day, _until_tomorrow_s())

    def check_sandboxes(self, quotas: Quotas, count: int = 1) -> None:
        """Raises Refused, 429, where the key may not have so many more sandboxes."""
        if quotas.sandboxes is not None and self.sandboxes + count > quotas.sandboxes:
            raise _used_up("sandboxes", quotas.sandboxes, 5.0)

    def _roll_over(self) -> None:
        if self._day != (today := _today()):
            self._day = today
            self._cpu_s, self._bytes, self._new_cpu_s, self._new_bytes = 0.0, 0, 0.0, 0


def _unauthorized() -> Refused:
    return Refused(401, "unauthorized", "send the header `Authorization: Bearer KEY` (or `X-API-Key: KEY`)")


def _used_up(quota: str, most: float, retry_after_s: float) -> Refused:
    told = f"this key's quota {quota}={most:g} is used up"
    return Refused(429, f"quota.{quota}", told, retry_after_s=retry_after_s)


class KeyStore:
    """Keys in a database. Its methods block; every one opens what it needs and holds nothing between calls."""

    def __init__(self, url: str | Path) -> None:
        """Args:
        url: A path for SQLite, whose folder has to be there, or `postgresql://…`.
        """
        self._url, self._is_private = str(url), False
        self._lock = threading.Lock()
        self._is_postgres = self._url.startswith(("postgresql://", "postgres://"))

    def create(self, owner: str, scopes: Iterable[str], quotas: Quotas) -> tuple[str, Key]:
        """Make a key.

        Returns:
            The secret, which is kept nowhere, and the key.

        Raises:
            InvalidArgument: A scope is none, or the owner has no name.
            KeyStoreUnavailable: The database cannot be written.
        """
        scopes = frozenset(scopes)
        if unknown := scopes - set(SCOPES):
            raise InvalidArgument("scopes", f"there is no scope {min(unknown)!r}; there are {', '.join(SCOPES)}")
        if not owner.strip() or len(owner) > 200 or not owner.isprintable():
            raise InvalidArgument("owner", "must be a name of at most 200 printable characters")
        secret = new_token()
        key = Key(id=secrets.token_hex(6), owner=owner, scopes=scopes, quotas=quotas, created=time.time())
        row = (key.id, digest_of(secret), owner, json.dumps(sorted(scopes)), json.dumps(dataclasses.asdict(quotas)))
        with self._connected() as run:
            run("INSERT INTO groundbox_keys VALUES (?, ?, ?, ?, ?, ?, NULL)", (*row, key.created))
        return secret, key

    def revoke(self, key_id: str) -> bool:
        """End a key; whether there was one that held."""
        with self._connected() as run:
            held = run("SELECT id FROM groundbox_keys WHERE id = ? AND revoked IS NULL", (key_id,))
            run("UPDATE groundbox_keys SET revoked = ? WHERE id = ? AND revoked IS NULL", (time.time(), key_id))
        return bool(held)

    def all(self) -> Sequence[Key]:
        """Every key, also revoked ones, the oldest first."""
        return sorted(self.exchange({}, _today())[0].values(), key=lambda key: key.created)

    def exchange(
        self, spent: Mapping[str, tuple[float, int]], day: str
    ) -> tuple[dict[str, Key], dict[str, tuple[float, int]]]:
        """Add what was spent, and read all keys by digest, and the day's sums by id.

        Raises:
            KeyStoreUnavailable: The database is away, or holds what is no key.
        """
        with self._connected() as run:
            for key_id, (cpu_s, size) in spent.items():
                run(
                    "INSERT INTO groundbox_used VALUES (?, ?, ?, ?) ON CONFLICT (key_id, day) DO UPDATE SET "
                    "cpu_s = groundbox_used.cpu_s + excluded.cpu_s, bytes = groundbox_used.bytes + excluded.bytes",
                    (key_id, day, cpu_s, size),
                )
            rows = run(f"SELECT * FROM groundbox_keys LIMIT {_MOST_KEYS}", ())
            used = run("SELECT key_id, cpu_s, bytes FROM groundbox_used WHERE day = ?", (day,))
        try:
            keys = {str(row[1]): _key(row) for row in rows}
        except (ValueError, TypeError, GroundboxError) as error:
            raise KeyStoreUnavailable(f"the database of keys holds what is no key: {error}") from None
        return keys, {str(key_id): (float(cpu_s), int(size)) for key_id, cpu_s, size in used}

    def share_runs(self, ran: Mapping[str, int], day: str) -> dict[str, int]:
        """Add runs that began here, and read the day's sums by key.

        Raises:
            KeyStoreUnavailable: The database is away.
        """
        with self._connected() as run:
            for key_id, runs in ran.items():
                run(
                    "INSERT INTO groundbox_ran VALUES (?, ?, ?) ON CONFLICT (key_id, day) DO UPDATE SET "
                    "runs = groundbox_ran.runs + excluded.runs",
                    (key_id, day, runs),
                )
            run("DELETE FROM groundbox_ran WHERE day < ?", (day,))
            rows = run("SELECT key_id, runs FROM groundbox_ran WHERE day = ?", (day,))
        return {str(key_id): int(runs) for key_id, runs in rows}

    @contextlib.contextmanager
    def _connected(self) -> Any:
        """One transaction: a function that runs a statement and gives its rows."""
        with self._lock:
            connect = self._postgres if self._is_postgres else self._sqlite
            with connect() as run:
                yield run

    @contextlib.contextmanager
    def _sqlite(self) -> Any:
        if not self._is_private:
            make_private(self._url)
            self._is_private = True
        try:
            connection = sqlite3.connect(self._url, timeout=5.0)
            try:
                with connection:
                    for table in _TABLES:
                        connection.execute(table)
                    yield lambda statement, values: connection.execute(statement, values).fetchall()
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise KeyStoreUnavailable(f"the keys in '{self._url}' cannot be used: {error}") from None

    @contextlib.contextmanager
    def _postgres(self) -> Any:
        try:
            import psycopg
        except ImportError:
            raise ExtraMissing("psycopg", "for keys in PostgreSQL", "'psycopg[binary]'") from None

        def run(statement: str, values: Sequence[Any]) -> list[Any]:
            cursor = connection.execute(statement.replace("?", "%s"), values)
            return cursor.fetchall() if cursor.description else []

        try:
            with psycopg.connect(self._url, connect_timeout=5) as connection:
                if connection.execute("SELECT to_regclass('groundbox_ran')").fetchone() == (None,):
                    # IF NOT EXISTS alone fails in all but one of several servers that come at once.
                    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                    for table in _TABLES:
                        connection.execute(table)
                yield run
        except psycopg.Error as error:
            told = str(error).strip().splitlines() or ["no reason was given"]
            raise KeyStoreUnavailable(f"the keys in PostgreSQL cannot be used: {told[0]}") from None


def check_token(token: str) -> str:
    """A secret that somebody chose, if it can be sent in a header and is not soon guessed.

    Raises:
        InvalidArgument: It is not; the message does not hold it.
    """
    if not _TOKEN.fullmatch(token):
        problem = "must have 16 to 512 printable characters without blanks; `openssl rand -hex 32` writes one"
        raise InvalidArgument("GROUNDBOX_API_KEY", problem)
    return token


def new_token() -> str:
    """Return a secret of 256 random bits, in hexadecimal so that it is a key for E2B's SDKs, too (`e2b_form`)."""
    return _PREFIX + secrets.token_hex(32)


def e2b_form(token: str) -> str:
    """Return the spelling of a key that E2B's SDKs accept: the same digits after `e2b_`. A server accepts both."""
    return _E2B_PREFIX + token.removeprefix(_PREFIX)


def digest_of(token: str) -> str:
    """Return the SHA-256 of a secret in hexadecimal; `e2b_…` and `gb_…` with the same rest are one secret."""
    if token.startswith(_E2B_PREFIX):
        token = _PREFIX + token.removeprefix(_E2B_PREFIX)
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _key(row: Sequence[Any]) -> Key:
    key_id, _, owner, scopes, quotas, created, revoked = row
    return Key(
        id=str(key_id),
        owner=str(owner),
        scopes=frozenset(json.loads(scopes)),
        quotas=Quotas(**json.loads(quotas)),
        created=float(created),
        revoked=None if revoked is None else float(revoked),
    )


def _today() -> str:
    return time.strftime("%Y-%m-%d", time.gmtime())


def _until_tomorrow_s() -> float:
    return 86400 - time.time() % 86400
