"""The catalogue: which nodes a fleet has, and until when each may be believed to live.

It lies in SQLite, for gateways of one machine, or in PostgreSQL, for many. Gateways hold nothing else that another
gateway needs, so that any of them may end.

Theory of operation. A node joins with a boot id of its own making, and gets a generation, a tag and a lease. It renews
the lease long before it ends; every time is the database's own, so that clocks of machines are never compared. A lease
that has ended is marked as lost by whichever gateway sees it first, and is never renewed again: the node has killed
what it had by then (`member.py`) and joins anew, as another boot. Ids of sandboxes and executions begin with the tag of
the boot that made them, so that a request finds its node by itself, and what was lost is told from what never was.

A gateway that cannot reach the catalogue may lengthen leases by itself (`roster.py`). So that nobody marks a node as
lost meanwhile whose lease another gateway has lengthened, each gateway has a row with two times of the database's
clock: `quiet`, before which it lengthens nothing that the catalogue does not have, and `until`, after which no lease
that it lengthened goes on. Nodes are marked as lost only while no gateway is between the two. `quiet` is told from the
time of the contact before, so that it holds however long a message is on its way; a gateway writes what it has
lengthened in the transaction by which it becomes quiet again. One that ended without a word delays losses until
`until`, and one that starts at the same address takes the row of the one before away where that was quiet.

What is covered: replayed and forged messages (a boot joins once, and each renewal has a greater number than the one
before), two nodes of one name, nodes of another version or with other packages. What is not: somebody who can write to
the database.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from groundbox.errors import ExtraMissing, GroundboxError
from groundbox.server.keys import make_private

READY: Final = "ready"
DRAINING: Final = "draining"
LEAVING: Final = "leaving"
ALIVE: Final = (READY, DRAINING, LEAVING)
"""States of a node that renews its lease."""
LEFT: Final = "left"
LOST: Final = "lost"
TAG_DIGITS: Final = 12
_LOCK: Final = 0x67726F756E64666C
"""Of PostgreSQL, by which one gateway makes the tables."""
_REMEMBERED_S: Final = 7 * 86400.0
_MOST_BOOTS: Final = 1000
"""Of one name that are remembered: a node that starts again and again, each few seconds, fills no gateway."""
_ANSWER_S: Final = 5
_FORGET_S: Final = 10.0
"""Seconds between two times that old names of requests are forgotten."""
_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS groundbox_nodes (boot_id TEXT PRIMARY KEY, tag TEXT UNIQUE NOT NULL, "
    "name TEXT NOT NULL, url TEXT NOT NULL, generation BIGINT NOT NULL, version TEXT NOT NULL, "
    "environment TEXT NOT NULL, state TEXT NOT NULL, joined DOUBLE PRECISION NOT NULL, "
    "ends DOUBLE PRECISION NOT NULL, number BIGINT NOT NULL, drained DOUBLE PRECISION, load TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS groundbox_kept (sandbox_id TEXT PRIMARY KEY, key_id TEXT NOT NULL, tag TEXT NOT NULL, "
    "generation BIGINT NOT NULL, body TEXT NOT NULL, made DOUBLE PRECISION NOT NULL)",
    "CREATE TABLE IF NOT EXISTS groundbox_gateways (gateway_id TEXT PRIMARY KEY, address TEXT NOT NULL, "
    "quiet DOUBLE PRECISION NOT NULL, until DOUBLE PRECISION NOT NULL)",
    "CREATE TABLE IF NOT EXISTS groundbox_asked (name TEXT PRIMARY KEY, tag TEXT NOT NULL, shared BIGINT NOT NULL, "
    "made DOUBLE PRECISION NOT NULL)",
    "CREATE INDEX IF NOT EXISTS groundbox_asked_made ON groundbox_asked (made)",
    "CREATE TABLE IF NOT EXISTS groundbox_fleet (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
)
_NOW: Final = {
    # Of the statement, whose view of the rows is as old: one that waited for a lock goes by no later time.
    "postgres": "EXTRACT(EPOCH FROM statement_timestamp())::double precision",
    "sqlite": "((julianday('now') - 2440587.5) * 86400.0)",
}


class CatalogueUnavailable(GroundboxError):
    """The database of the catalogue cannot be reached or written."""


class JoinRefused(GroundboxError):
    """A node may not join or go on; `code` says why for programs, the message what to do."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """One boot of a node, as the catalogue has it.

    Attributes:
        boot_id: Made by the node at each start, and after each loss of its lease.
        tag: With which its ids begin; made by the catalogue.
        generation: Greater with each boot of this name.
        state: READY takes sandboxes, DRAINING keeps those it has, LEAVING ends when it has none; LEFT and LOST are
            over.
        left_s: Seconds until its lease ends, as far as the catalogue knows; below 0 when it has.
        drained: When what is left on it ends, in seconds from now; None where nothing was said.
        number: Of its last renewal.
        load: As the node told it then.
    """

    boot_id: str
    tag: str
    name: str
    url: str
    generation: int
    version: str
    environment: str
    state: str
    left_s: float
    drained: float | None
    number: int
    load: Mapping[str, Any]

    @property
    def is_alive(self) -> bool:
        """Whether its lease goes on."""
        return self.state in ALIVE and self.left_s > 0


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """A sandbox that is to be restored when its node is lost.

    Attributes:
        tag: Of the boot that it lives on.
        generation: 1 where it was made, and one more with each restoration.
        body: Of the request that made it, as JSON.
    """

    sandbox_id: str
    key_id: str
    tag: str
    generation: int
    body: str


class Heard(NamedTuple):
    """A lease that a gateway lengthened while the catalogue was away: its last renewal, and the seconds it goes on."""

    number: int
    left_s: float


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Presence:
    """A gateway, as it tells the catalogue of itself.

    Attributes:
        address: Where it listens; no two listen at one at the same time.
        quiet: Before this time of the database it lengthens no lease by itself.
        until_s: Seconds after which no lease that it lengthens by itself goes on, if this is its last contact.
        heard: What it lengthened, by boot.
    """

    gateway_id: str
    address: str
    quiet: float
    until_s: float
    heard: Mapping[str, Heard]


class Catalogue:
    """The nodes of one fleet. Its methods block, and may be called from any thread, one at a time."""

    def __init__(self, url: str, *, lease_s: float) -> None:
        """Args:
        url: A path for SQLite, whose folder has to be there, or `postgresql://…`.
        lease_s: Seconds that a node lives on after its last renewal.
        """
        self.lease_s = lease_s
        self._url = url
        self._is_postgres = url.startswith(("postgresql://", "postgres://"))
        self._now = _NOW["postgres" if self._is_postgres else "sqlite"]
        self._lock = threading.Lock()
        self._connection: Any = None
        self._forgot = float("-inf")

    def join(self, *, boot_id: str, name: str, url: str, version: str, environment: str, load: Any) -> Node:
        """Take a node in.

        Raises:
            JoinRefused: It was replayed, the name is taken by a node that lives elsewhere, or the node differs from
                the others in its version or its packages.
            CatalogueUnavailable: The database is away.
        """
        with self._transaction() as run:
            if self._is_postgres:  # of two that join at once, the second sees the first
                run("LOCK TABLE groundbox_nodes IN SHARE ROW EXCLUSIVE MODE")
            self._mark_lost(run)
            if run("SELECT boot_id FROM groundbox_nodes WHERE boot_id = ?", (boot_id,)):
                raise JoinRefused("replayed", "this boot has joined before; a node joins with a new boot_id each time")
            self._check_likeness(run, version, environment)
            for other_url, state in run(
                "SELECT url, state FROM groundbox_nodes WHERE name = ? AND state IN (?, ?, ?)", (name, *ALIVE)
            ):
                if other_url != url:
                    told = f"a node {name!r} lives at {other_url} ({state}); give this one another --node-name"
                    raise JoinRefused("name_taken", told)
            # Whoever answers at its address now is the new boot, so that nothing of the old one lives.
            run(
                "UPDATE groundbox_nodes SET state = ? WHERE (name = ? OR url = ?) AND state IN (?, ?, ?)",
                (LOST, name, url, *ALIVE),
            )
            [(newest,)] = run("SELECT COALESCE(MAX(generation), 0) FROM groundbox_nodes WHERE name = ?", (name,))
            tag = secrets.token_hex(TAG_DIGITS // 2)
            run(
                "INSERT INTO groundbox_nodes VALUES "
                f"(?, ?, ?, ?, ?, ?, ?, ?, {self._now}, {self._now} + ?, 0, NULL, ?)",
                (boot_id, tag, name, url, newest + 1, version, environment, READY, self.lease_s, json.dumps(load)),
            )
            run(
                f"DELETE FROM groundbox_nodes WHERE state IN (?, ?) AND (ends < {self._now} - ? "
                "OR name = ? AND generation <= ?)",
                (LEFT, LOST, _REMEMBERED_S, name, newest + 1 - _MOST_BOOTS),
            )
            [node] = self._nodes(run, "WHERE boot_id = ?", (boot_id,))
            return node

    def renew(self, boot_id: str, number: int, load: Any) -> Node:
        """Lengthen a node's lease.

        Args:
            number: Greater than that of any renewal before.

        Raises:
            JoinRefused: Its lease has ended, it has left, or this is an old message.
        """
        with self._transaction() as run:
            self._mark_lost(run)
            done = run(
                f"UPDATE groundbox_nodes SET ends = {self._now} + ?, number = ?, load = ? "
                "WHERE boot_id = ? AND state IN (?, ?, ?) AND number < ? RETURNING boot_id",
                (self.lease_s, number, json.dumps(load), boot_id, *ALIVE, number),
            )
            found = self._nodes(run, "WHERE boot_id = ?", (boot_id,))
        if not found:
            raise JoinRefused("unknown_boot", "this boot never joined; join first")
        if done:
            return found[0]
        if found[0].state in ALIVE:
            raise JoinRefused("replayed", f"renewal {number} is not newer than the last one")
        raise JoinRefused("fenced", f"this boot is {found[0].state}; end its sandboxes, and join as a new boot")

    def leave(self, boot_id: str) -> bool:
        """Note that a node has ended by itself; whether it was alive."""
        with self._transaction() as run:
            return bool(
                run(
                    "UPDATE groundbox_nodes SET state = ? WHERE boot_id = ? AND state IN (?, ?, ?) RETURNING boot_id",
                    (LEFT, boot_id, *ALIVE),
                )
            )

    def drain(self, name: str, within_s: float | None, *, leave: bool = False) -> bool:
        """Let a node take nothing new; whether there is one of that name that lives.

        Args:
            within_s: Seconds after which what it still has is ended; None for never.
            leave: Whether its process ends when it has nothing any more.
        """
        ends = "NULL" if within_s is None else f"{self._now} + {float(within_s)!r}"
        with self._transaction() as run:
            return bool(
                run(
                    f"UPDATE groundbox_nodes SET state = ?, drained = {ends} "
                    "WHERE name = ? AND state IN (?, ?, ?) RETURNING boot_id",
                    (LEAVING if leave else DRAINING, name, *ALIVE),
                )
            )

    def undrain(self, name: str) -> bool:
        """Let a node that was drained take sandboxes again; whether there is one of that name that lives."""
        with self._transaction() as run:
            return bool(
                run(
                    "UPDATE groundbox_nodes SET state = ?, drained = NULL WHERE name = ? AND state IN (?, ?, ?) "
                    "RETURNING boot_id",
                    (READY, name, *ALIVE),
                )
            )

    def nodes(self, *, ended_within_s: float = _REMEMBERED_S) -> list[Node]:
        """Boots that are remembered, the oldest first; leases that have ended are marked as lost before.

        Args:
            ended_within_s: Those are left out that are over and whose lease ended longer ago: they change no more.
        """
        with self._transaction() as run:
            return self._read(run, ended_within_s)

    def exchange(self, presence: Presence, *, ended_within_s: float = _REMEMBERED_S) -> tuple[float, list[Node]]:
        """Tell of a gateway, and read the nodes as `nodes` does; the time of the database comes with them."""
        with self._transaction() as run:
            for boot_id, (number, left_s) in presence.heard.items():
                lengthened = f"{self._now} + {float(left_s)!r}"
                run(
                    f"UPDATE groundbox_nodes SET ends = CASE WHEN ends < {lengthened} THEN {lengthened} ELSE ends END, "
                    "number = ? WHERE boot_id = ? AND state IN (?, ?, ?) AND number < ?",
                    (number, boot_id, *ALIVE, number),
                )
            own = (presence.gateway_id, presence.address)
            run(
                f"DELETE FROM groundbox_gateways WHERE address = ? AND gateway_id <> ? AND quiet > {self._now}",
                own[::-1],
            )
            run(f"DELETE FROM groundbox_gateways WHERE until < {self._now}")
            run(
                f"INSERT INTO groundbox_gateways VALUES (?, ?, ?, {self._now} + ?) "
                "ON CONFLICT (gateway_id) DO UPDATE SET quiet = excluded.quiet, until = excluded.until",
                (*own, presence.quiet, presence.until_s),
            )
            [(now,)] = run(f"SELECT {self._now}")
            return float(now), self._read(run, ended_within_s)

    def part(self, gateway_id: str) -> None:
        """Forget a gateway that lengthens no lease any more."""
        with self._transaction() as run:
            run("DELETE FROM groundbox_gateways WHERE gateway_id = ?", (gateway_id,))

    def _read(self, run: Any, ended_within_s: float) -> list[Node]:
        self._mark_lost(run)
        return self._nodes(run, f"WHERE ends > {self._now} - ? OR state IN (?, ?, ?)", (float(ended_within_s), *ALIVE))

    def keep(self, sandbox_id: str, key_id: str, tag: str, body: str) -> None:
        """Note a sandbox that is to be restored."""
        with self._transaction() as run:
            run(
                f"INSERT INTO groundbox_kept VALUES (?, ?, ?, 1, ?, {self._now}) ON CONFLICT (sandbox_id) DO NOTHING",
                (sandbox_id, key_id, tag, body),
            )
            run(f"DELETE FROM groundbox_kept WHERE made < {self._now} - ?", (_REMEMBERED_S,))

    def kept(self, sandbox_id: str) -> Kept | None:
        """A sandbox that is to be restored, or None where nobody asked for that."""
        with self._transaction() as run:
            rows = run(
                "SELECT sandbox_id, key_id, tag, generation, body FROM groundbox_kept WHERE sandbox_id = ?",
                (sandbox_id,),
            )
        if not rows:
            return None
        found, key_id, tag, generation, body = rows[0]
        return Kept(sandbox_id=found, key_id=key_id, tag=tag, generation=int(generation), body=body)

    def move(self, sandbox_id: str, generation: int, tag: str) -> bool:
        """Give a sandbox of this generation to another boot, as the next generation; False where another did so."""
        with self._transaction() as run:
            return bool(
                run(
                    "UPDATE groundbox_kept SET generation = generation + 1, tag = ? "
                    "WHERE sandbox_id = ? AND generation = ? RETURNING sandbox_id",
                    (tag, sandbox_id, generation),
                )
            )

    def forget(self, sandbox_id: str) -> None:
        """Forget a sandbox that was closed."""
        with self._transaction() as run:
            run("DELETE FROM groundbox_kept WHERE sandbox_id = ?", (sandbox_id,))

    def claim(self, wished: Mapping[str, str], *, kept_s: float) -> dict[str, str]:
        """Note the boots, by tag, that requests of these names go to; what was noted first holds.

        Args:
            kept_s: Seconds that a name is remembered, and some more.
        """
        with self._transaction() as run:
            if self._is_postgres:  # a database that ends in this moment is as one that is away
                run("SET LOCAL synchronous_commit = off")
            if (now := time.monotonic()) > self._forgot + _FORGET_S:
                run(f"DELETE FROM groundbox_asked WHERE made < {self._now} - ?", (float(kept_s),))
                self._forgot = now
            rows = ", ".join([f"(?, ?, 0, {self._now})"] * len(wished))
            values = [each for name in sorted(wished) for each in (name, wished[name])]  # one order: no deadlock
            found = run(
                f"INSERT INTO groundbox_asked VALUES {rows} ON CONFLICT (name) DO UPDATE SET shared = 1 "
                "RETURNING name, tag",
                values,
            )
        return {str(name): str(tag) for name, tag in found}

    def give_up(self, name: str, tag: str, *, even_shared: bool) -> bool:
        """Forget where requests of a name go; False where another gateway was told of it."""
        shared = "" if even_shared else " AND shared = 0"
        with self._transaction() as run:
            return bool(
                run(f"DELETE FROM groundbox_asked WHERE name = ? AND tag = ?{shared} RETURNING name", (name, tag))
            )

    def welcome(self, *, version: str | None = None, environment: str | None = None) -> dict[str, list[str]]:
        """Let nodes of another version, or with another environment, join beside those that are there.

        With neither, only what is said. The last two of each are taken in, so that an upgrade ends the oldest.
        """
        with self._transaction() as run:
            told = {}
            for name, value in (("versions", version), ("environments", environment)):
                known = self._known(run, name)
                if value is not None and value not in known:
                    known = [*known, value][-2:]
                    self._set_known(run, name, known)
                told[name] = known
            return told

    def close(self) -> None:
        """Close the connection, until the next call."""
        with self._lock:
            self._hang_up()

    def _check_likeness(self, run: Any, version: str, environment: str) -> None:
        for name, what, value in (
            ("versions", "groundbox", version),
            ("environments", "environment", environment),
        ):
            known = self._known(run, name)
            if not known:
                self._set_known(run, name, [value])
            elif value not in known:
                told = f"this node has {what} {value}, and the fleet {' or '.join(known)}"
                option = "--version" if name == "versions" else "--environment"
                raise JoinRefused(
                    f"other_{name[:-1]}", f"{told}; install that, or let both in by `groundbox fleet welcome {option}`"
                )

    def _known(self, run: Any, name: str) -> list[str]:
        rows = run("SELECT value FROM groundbox_fleet WHERE name = ?", (name,))
        return [str(each) for each in json.loads(rows[0][0])] if rows else []

    def _set_known(self, run: Any, name: str, values: Sequence[str]) -> None:
        run(
            "INSERT INTO groundbox_fleet VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (name, json.dumps(list(values))),
        )

    def _mark_lost(self, run: Any) -> None:
        run(
            f"UPDATE groundbox_nodes SET state = ? WHERE state IN (?, ?, ?) AND ends < {self._now} AND NOT EXISTS "
            f"(SELECT 1 FROM groundbox_gateways WHERE quiet < {self._now} AND until > {self._now})",
            (LOST, *ALIVE),
        )

    def _nodes(self, run: Any, where: str, values: Sequence[Any]) -> list[Node]:
        rows = run(
            f"SELECT boot_id, tag, name, url, generation, version, environment, state, ends - {self._now}, "
            f"drained - {self._now}, number, load FROM groundbox_nodes {where} ORDER BY joined, generation",
            values,
        )
        return [_node(row) for row in rows]

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Any]:
        """One transaction, as a function that runs a statement and gives its rows; reconnects after a failure."""
        with self._lock:
            try:
                connection = self._connected()
                begin = "BEGIN" if self._is_postgres else "BEGIN IMMEDIATE"
                connection.execute(begin)
                try:
                    yield self._running(connection)
                except BaseException:
                    connection.execute("ROLLBACK")
                    raise
                connection.execute("COMMIT")
            except JoinRefused:
                raise
            except self._driver_errors() as error:
                self._hang_up()
                why = str(error).strip().splitlines() or [type(error).__name__]
                raise CatalogueUnavailable(f"the catalogue of the fleet cannot be used: {why[0]}") from None

    def _driver_errors(self) -> tuple[type[Exception], ...]:
        """Exceptions by which the database's driver says that it is away, or is none."""
        if not self._is_postgres:
            return (sqlite3.Error,)
        try:
            import psycopg
        except ImportError:  # which connecting tells of
            return ()
        return (psycopg.Error,)

    def _running(self, connection: Any) -> Any:
        def run(statement: str, values: Sequence[Any] = ()) -> list[Any]:
            if self._is_postgres:
                statement = statement.replace("?", "%s")
            cursor = connection.execute(statement, values)
            return list(cursor.fetchall()) if cursor.description else []

        return run

    def _connected(self) -> Any:
        if self._connection is None:
            self._connection = self._postgres() if self._is_postgres else self._sqlite()
        return self._connection

    def _sqlite(self) -> Any:
        make_private(self._url)
        connection = sqlite3.connect(self._url, timeout=_ANSWER_S, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")  # a lease lost with the machine is one that has ended
        for table in _TABLES:
            connection.execute(table)
        return connection

    def _postgres(self) -> Any:
        try:
            import psycopg
        except ImportError:
            raise ExtraMissing("psycopg", "for a catalogue in PostgreSQL", "'psycopg[binary]'") from None
        connection = psycopg.connect(
            self._url,
            autocommit=True,
            connect_timeout=_ANSWER_S,
            options=f"-c statement_timeout={_ANSWER_S * 1000}",
            # A database that went away without a word is given up after as long, too.
            keepalives_idle=_ANSWER_S,
            keepalives_interval=1,
            keepalives_count=2,
            tcp_user_timeout=_ANSWER_S * 1000,
        )
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            for table in _TABLES:
                connection.execute(table)
        return connection

    def _hang_up(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(Exception):  # of any driver: it is given up
                self._connection.close()
            self._connection = None


def _node(row: Sequence[Any]) -> Node:
    boot_id, tag, name, url, generation, version, environment, state, left_s, drained, number, load = row
    return Node(
        boot_id=str(boot_id),
        tag=str(tag),
        name=str(name),
        url=str(url),
        generation=int(generation),
        version=str(version),
        environment=str(environment),
        state=str(state),
        left_s=float(left_s),
        drained=None if drained is None else float(drained),
        number=int(number),
        load=json.loads(load),
    )
