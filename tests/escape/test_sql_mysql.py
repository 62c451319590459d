"""What a hostile query may try against a real MariaDB: writing, files, accounts, its own limits, other sessions.

Each attack runs as the role that docs/sql.md sets up. What holds each is shown by switching the guards off: each guard
holds alone what it is said to hold, and without all of them the attack succeeds.
"""

import asyncio
import contextlib
import os
import socket
import struct
import threading

import pytest

import groundbox as gb
from groundbox.databases import mysql, mysql_line
from groundbox.databases.answer import DatabaseUnavailable, RoleTooPowerful
from groundbox.databases.database import Database

pytestmark = pytest.mark.slow

TABLE = "application/vnd.dataresource+json"
ENDLESS = "SELECT count(*) FROM seq_1_to_1000000 a, seq_1_to_1000000 b, seq_1_to_1000000 c"


@pytest.fixture
def ask(mariadb):
    with gb.Sandbox(databases={"shop": Database(url=mariadb.url("reader"), timeout_s=3)}) as box:
        yield lambda source, **options: box.run(source, language="sql", database="shop", **options)


def state(mariadb):
    """What an attack would change."""
    (counts,) = mariadb.execute(
        "SELECT (SELECT count(*) FROM orders), (SELECT sum(id) FROM orders), "
        "@@global.max_connections, @@global.general_log, (SELECT count(*) FROM information_schema.tables), "
        "(SELECT count(*) FROM mysql.global_priv), "
        "(SELECT group_concat(Priv) FROM mysql.global_priv WHERE User = 'reader'), "
        "(SELECT count(*) FROM mysql.tables_priv), (SELECT count(*) FROM mysql.proc), (SELECT count(*) FROM mysql.func)"
    )
    log = mariadb.execute("SELECT count(*) FROM information_schema.tables WHERE table_name = 'log'")[0][0]
    lines = mariadb.execute("SELECT count(*) FROM log")[0][0] if log else None
    number = mariadb.execute("SELECT next_not_cached_value FROM numbers")[0][0]
    return (*counts, lines, number, sorted(os.listdir(mariadb.folder)))


def table(execution):
    return execution.value[TABLE]["data"]


@pytest.mark.parametrize(
    "attempt",
    [
        "DELETE FROM orders",
        "INSERT INTO log VALUES ('x')",
        "INSERT DELAYED INTO log VALUES ('x')",
        "UPDATE orders SET amount = 0",
        "REPLACE INTO orders (id) VALUES (1)",
        "TRUNCATE orders",
        "DROP TABLE orders",
        "CREATE TABLE stolen AS SELECT 1",
        "CREATE TEMPORARY TABLE x (a int)",
        "ALTER TABLE orders ADD x int",
        "RENAME TABLE orders TO stolen",
        "SELECT 1; DROP TABLE orders",
        "SELECT 1; COMMIT; DELETE FROM orders",
        "COMMIT; DELETE FROM orders",
        "COMMIT",
        "ROLLBACK",
        "START TRANSACTION READ WRITE",
        "SET SESSION TRANSACTION READ WRITE",
        "SET @@session.max_statement_time = 0",
        "SET STATEMENT max_statement_time = 0 FOR SELECT SLEEP(9)",
        "SET GLOBAL max_connections = 99",
        "SET GLOBAL general_log = 1",
        "SET PASSWORD = ''",
        "SET ROLE admin",
        "WITH x AS (SELECT 1) DELETE FROM orders",
        "EXPLAIN DELETE FROM orders",
        "ANALYZE DELETE FROM orders",
        "/* SELECT */ DELETE FROM orders",
        "-- SELECT\nDELETE FROM orders",
        "# SELECT\nDELETE FROM orders",
        "--SELECT\nDELETE FROM orders",
        "/*!50000 DELETE FROM orders */",
        "/*! DELETE */ FROM orders",
        "/*M!100100 DELETE FROM orders */",
        "/*!50000 SELECT 1; */ DELETE FROM orders",
        "SELECT 1 /*!50000 ; DELETE FROM orders */",
        "SELECT 1 /*!50000 INTO OUTFILE '{folder}/stolen' */",
        "/*!999999 SELECT */ DELETE FROM orders",
        "SELECT * FROM orders INTO OUTFILE '{folder}/stolen'",
        "SELECT 1 INTO DUMPFILE '{folder}/stolen'",
        "LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE log",
        "LOAD DATA INFILE '/etc/passwd' INTO TABLE log",
        "LOAD XML LOCAL INFILE '/etc/passwd' INTO TABLE log",
        "CALL deletes()",
        "SELECT writes()",
        "DO writes()",
        "SELECT NEXTVAL(numbers)",
        "SELECT SETVAL(numbers, 500)",
        "SELECT NEXT VALUE FOR numbers",
        "SELECT * FROM orders FOR UPDATE",
        "PREPARE p FROM 'DELETE FROM orders'",
        "EXECUTE IMMEDIATE 'DELETE FROM orders'",
        "BEGIN NOT ATOMIC DELETE FROM orders; END",
        "HANDLER orders OPEN",
        "LOCK TABLES orders READ",
        "FLUSH TABLES",
        "XA START 'x'",
        "KILL 1",
        "SHUTDOWN",
        "USE mysql",
        "GRANT ALL ON *.* TO reader@localhost",
        "CREATE USER x@localhost",
        "ALTER USER reader@localhost IDENTIFIED BY 'x'",
        "CREATE FUNCTION f RETURNS STRING SONAME 'x.so'",
        "CREATE PROCEDURE p() SELECT 1",
        "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO SELECT 1",
        "INSTALL SONAME 'x'",
        "CHANGE MASTER TO MASTER_HOST = 'x'",
        "SHOW GRANTS",
        "SHOW /* x */ GRANTS",
        "SHOW /*!50000 GRANTS */",
        "SHOW CREATE USER",
        "SHOW CREATE USER CURRENT_USER",
        "SHOW BINARY LOGS",
        "SELECT * FROM mysql.global_priv",
        "SELECT authentication_string FROM mysql.user",
        "SELECT * FROM performance_schema.threads",
        "SELECT * FROM orders LOCK IN SHARE MODE",
        "SELECT * FROM orders lock/**/in -- x\n#\nshare MODE",
        "SELECT * FROM orders WHERE id<1e5lock in share mode",
        "SELECT * FROM orders LOCK /*!50000 IN */ SHARE MODE",
        "(SELECT * FROM orders LOCK IN SHARE MODE) UNION SELECT 1, 2, 3, 4",
        "SELECT GET_LOCK('app', 0)",
        "SELECT `get_lock` ('app', 0)",
    ],
)
def test_nothing_is_written_or_reached(ask, mariadb, attempt):
    before = state(mariadb)

    execution = ask(attempt.format(folder=mariadb.folder))

    assert execution.outcome is gb.Outcome.ERROR, execution.text
    assert state(mariadb) == before
    assert ask("SELECT count(*) AS n FROM orders").ok


@pytest.fixture
def serializable(mariadb):
    mariadb.execute("SET GLOBAL tx_isolation = 'SERIALIZABLE'")
    yield
    mariadb.execute("SET GLOBAL tx_isolation = 'REPEATABLE-READ'")


@pytest.mark.parametrize("guarded", [True, False])
def test_reading_holds_up_no_writer_on_a_server_that_is_serializable(mariadb, serializable, monkeypatch, guarded):
    """Without the isolation of the session a writer waits."""
    if not guarded:
        rows = mysql_line.Line.rows
        monkeypatch.setattr(mysql_line.Line, "rows", lambda line, sql: None if "ISOLATION" in sql else rows(line, sql))
    asked = []
    query = "SELECT *, SLEEP(2) FROM orders ORDER BY id"
    database = Database(url=mariadb.url("reader"), timeout_s=20)
    thread = threading.Thread(target=lambda: asked.append(asyncio.run(mysql.ask("shop", database, query))))
    thread.start()
    while not any("SLEEP" in str(row[7]) for row in mariadb.execute("SHOW PROCESSLIST") if row[1] == "reader"):
        assert thread.is_alive()

    try:
        mariadb.execute("SET STATEMENT innodb_lock_wait_timeout = 0 FOR UPDATE orders SET amount = 10.5 WHERE id = 1")
        written = True
    except Exception as error:  # PyMySQL, which is not imported by tests that need no server
        written = error.args[0] != 1205
    thread.join()

    assert (written, asked[0].failure) == (guarded, None)


HELD = [
    ("DELETE FROM orders", "words read_only role"),
    ("INSERT INTO log VALUES ('x')", "words read_only role"),
    ("DROP TABLE log", "words read_only role"),
    ("CREATE TABLE stolen AS SELECT 1", "words read_only role"),
    ("CALL deletes()", "words read_only role"),
    ("EXECUTE IMMEDIATE 'DELETE FROM orders'", "words read_only role"),
    ("/*!50000 DELETE FROM orders */", "words read_only role"),
    ("SELECT 1; DELETE FROM orders", "protocol read_only role"),
    ("SELECT writes()", "read_only role"),
    ("SELECT NEXTVAL(numbers)", "read_only role"),
    ("SET GLOBAL max_connections = 99", "words role"),
    ("GRANT INSERT ON shop.log TO reader@localhost", "words read_only role"),
    ("SELECT 1 INTO OUTFILE '{folder}/stolen'", "role"),
    ("SELECT 1 INTO DUMPFILE '{folder}/stolen'", "role"),
]


@pytest.fixture
def attack(mariadb, monkeypatch):
    """Runs an attack with only some guards; what it changed is put back afterwards."""

    def run(attempt, guards):
        with monkeypatch.context() as patched:
            if "words" not in guards:
                patched.setattr(mysql, "_refusal", lambda sql: None)
            if "read_only" not in guards:
                patched.setattr(mysql, "_READ_ONLY", ())
            if "protocol" not in guards:
                arguments = mysql_line._arguments
                patched.setattr(mysql_line, "_arguments", lambda url: {**arguments(url), "client_flag": 1 << 16})
            url = mariadb.url("reader" if "role" in guards else "admin")
            database = Database(url=url, allow_powerful="role" not in guards, timeout_s=3)
            asyncio.run(mysql.ask("shop", database, attempt.format(folder=mariadb.folder)))
        return state(mariadb)

    yield run
    for statement in (
        "SET GLOBAL max_connections = 151",
        "REVOKE INSERT ON shop.log FROM reader@localhost",
        "CREATE TABLE IF NOT EXISTS log (line text) ENGINE=MyISAM",
        "DROP TABLE IF EXISTS stolen",
        "TRUNCATE log",
        "DELETE FROM orders",
        "INSERT INTO orders VALUES (1, 1, 10.50, '2024-01-01'), (2, 1, 4.25, '2024-01-02'), (3, 2, NULL, NULL)",
    ):
        with contextlib.suppress(Exception):  # there is nothing to put back
            mariadb.execute(statement)
    if os.path.exists(f"{mariadb.folder}/stolen"):
        os.unlink(f"{mariadb.folder}/stolen")


@pytest.mark.parametrize(("attempt", "guards"), HELD)
def test_each_guard_holds_alone_and_without_all_of_them_the_attack_succeeds(attack, mariadb, attempt, guards):
    before = state(mariadb)

    for guard in guards.split():
        assert attack(attempt, {guard}) == before, guard

    assert attack(attempt, ()) != before


def test_the_servers_files_are_read_by_a_role_that_may_and_by_no_other(ask, mariadb):
    query = "SELECT LENGTH(LOAD_FILE('/etc/passwd')) AS n"
    powerful = Database(url=mariadb.url("admin"), allow_powerful=True)

    answer = asyncio.run(mysql.ask("shop", powerful, query))

    assert table(ask(query)) == [{"n": None}]
    assert answer.rows[0][0] > 100


@pytest.mark.parametrize("as_session", [True, False])
def test_a_session_of_the_same_role_is_not_ended(ask, mariadb, as_session):
    import pymysql

    with contextlib.closing(
        pymysql.connect(
            user="reader",
            password=mariadb.url("x").partition("//x:")[2].partition("@")[0].replace("%20", " "),
            unix_socket=f"{mariadb.folder}/socket",
        )
    ) as victim:
        execution = ask(f"KILL {'' if as_session else 'QUERY '}{victim.thread_id()}")

        victim.ping(reconnect=False)
    assert execution.error.type == "ReadOnly"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT SLEEP(60)",
        "SELECT BENCHMARK(10000000000, MD5('x'))",
        ENDLESS,
        "SELECT seq, SLEEP(1) FROM seq_1_to_60",
        "SELECT @@max_statement_time, SLEEP(60)",
        "SELECT /*+ MAX_EXECUTION_TIME(0) */ SLEEP(60)",
        "SELECT count(*) FROM seq_1_to_100000 WHERE sha2(concat(seq, repeat('x', 1000000)), 512) > ''",
    ],
)
def test_a_query_without_end_ends(ask, mariadb, query):
    execution = ask(query, wall_s=1)

    assert execution.outcome is gb.Outcome.TIMEOUT
    assert not [row for row in mariadb.execute("SHOW PROCESSLIST") if row[1] == "reader" and row[4] == "Query"]


def test_a_recursion_without_end_is_ended_by_the_server(ask):
    execution = ask(
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) AS n FROM t", wall_s=2
    )

    assert execution.outcome is gb.Outcome.TIMEOUT or table(execution)[0]["n"] <= 1001


def test_nothing_stays_for_the_next_query(ask):
    assert ask("SELECT @x := 7").ok

    assert table(ask("SELECT @x AS x")) == [{"x": None}]


def test_a_variable_is_no_way_to_keep_rows(ask):
    assert ask("SELECT id FROM orders LIMIT 1 INTO @x").error.type == "NoRows"


@pytest.mark.parametrize("given", [False, True])
def test_a_server_that_asks_for_a_local_file_gets_none(monkeypatch, given):
    """Any server may answer any query so (LOAD DATA LOCAL in MySQL's manual); with the option on, it gets the file."""
    said = []
    arguments = mysql_line._arguments
    if given:
        monkeypatch.setattr(mysql_line, "_arguments", lambda url: {**arguments(url), "local_infile": True})
    with socket.create_server(("127.0.0.1", 0)) as server:
        done = threading.Thread(target=_ask_for_a_file, args=(server, said))
        done.start()
        database = Database(url=f"mysql://reader:x@127.0.0.1:{server.getsockname()[1]}/shop", timeout_s=2)

        with pytest.raises(DatabaseUnavailable, match="the connection was lost"):
            asyncio.run(mysql.ask("shop", database, "SELECT 1"))
        done.join(10)

    assert any(b"SET SESSION max_execution_time = 2000" in each for each in said)  # it says that it is no MariaDB
    assert (b"root:" in b"".join(said)) is given


def _ask_for_a_file(server, said):
    peer, _ = server.accept()
    with peer:
        peer.settimeout(5)
        capabilities = 1 << 9 | 1 << 15 | 1 << 19 | 1 << 7
        low, high = struct.pack("<I", capabilities)[:2], struct.pack("<I", capabilities)[2:]
        greeting = b"\x0a8.0.0\0" + struct.pack("<I", 1) + b"12345678\0" + low + b"\x2d\x02\0" + high + b"\x15"
        _send(peer, 0, greeting + b"\0" * 10 + b"123456789012\0mysql_native_password\0")
        said.append(peer.recv(65536))
        _send(peer, 2, b"\0\0\0\x02\0\0\0")
        with contextlib.suppress(OSError):
            while more := peer.recv(65536):
                said.append(more)
                _send(peer, 1, b"\xfb/etc/passwd")


def _send(peer, number, data):
    peer.sendall(struct.pack("<I", len(data))[:3] + bytes([number]) + data)


def test_credentials_are_nowhere_inside(mariadb, everything):
    with gb.Sandbox(databases={"shop": Database(url=mariadb.url("reader"))}) as box:
        results = [
            box.run("SELECT current_user, nothing", language="sql", database="shop"),
            box.run("SELECT * FROM information_schema.processlist", language="sql", database="shop"),
            box.run("SHOW CREATE USER", language="sql", database="shop"),
            box.run("import os, sys; print(dict(os.environ), open('/proc/self/cmdline').read(), os.listdir('/'))"),
        ]

    assert results[1].ok
    assert all(mariadb.folder.encode() not in everything(result) for result in results)
    assert all(b"must not leave" not in everything(result) for result in results)
    assert all(b"IDENTIFIED" not in everything(result) for result in results)


@pytest.fixture
def strong(mariadb):
    """Makes a role that may more; it is gone afterwards."""
    password = mariadb.url("x").partition("//x:")[2].partition("@")[0].replace("%20", " ")
    mariadb.execute(f"CREATE USER strong@localhost IDENTIFIED BY '{password}'")
    mariadb.execute("CREATE ROLE helper")
    mariadb.execute("GRANT UPDATE ON shop.* TO helper")
    mariadb.execute("GRANT SELECT ON shop.* TO strong@localhost")

    def make(*statements):
        for statement in statements:
            mariadb.execute(statement)
        return mariadb.url("strong")

    yield make
    mariadb.execute("DROP USER strong@localhost")
    mariadb.execute("DROP ROLE helper")


@pytest.mark.parametrize(
    ("grant", "power"),
    [
        ("GRANT FILE ON *.* TO strong@localhost", "may FILE on *.*"),
        ("GRANT SUPER ON *.* TO strong@localhost", "may SUPER on *.*"),
        ("GRANT PROCESS ON *.* TO strong@localhost", "may PROCESS on *.*"),
        ("GRANT CONNECTION ADMIN ON *.* TO strong@localhost", "may CONNECTION ADMIN on *.*"),
        ("GRANT SELECT ON *.* TO strong@localhost", "may read mysql.*"),
        ("GRANT SELECT ON mysql.* TO strong@localhost", "may read mysql.*"),
        ("GRANT SELECT ON `%`.* TO strong@localhost", "may read mysql.*"),
        ("GRANT SELECT ON mysql.global_priv TO strong@localhost", "may read mysql.global_priv"),
        ("GRANT INSERT ON shop.orders TO strong@localhost", "may INSERT on shop.orders"),
        ("GRANT UPDATE (amount) ON shop.orders TO strong@localhost", "may UPDATE on shop.orders"),
        ("GRANT CREATE, DROP ON shop.* TO strong@localhost", "may CREATE, DROP on shop.*"),
        ("GRANT EXECUTE ON FUNCTION shop.writes TO strong@localhost", "may EXECUTE on shop.writes"),
        ("GRANT LOCK TABLES ON shop.* TO strong@localhost", "may LOCK TABLES on shop.*"),
        ("GRANT SELECT ON shop.* TO strong@localhost WITH GRANT OPTION", "may grant what it has on shop.*"),
        ("GRANT helper TO strong@localhost", "is granted the role `helper`"),
        ("GRANT PROXY ON admin@localhost TO strong@localhost", "has a grant that is not understood: GRANT PROXY ON"),
    ],
)
def test_a_grant_that_is_too_powerful_is_refused_by_name(strong, grant, power):
    with gb.Sandbox(databases={"shop": Database(url=strong(grant))}) as box:
        with pytest.raises(RoleTooPowerful) as refused:
            box.run("SELECT 1", language="sql", database="shop")
        assert [each for each in refused.value.powers if each.startswith(power)]
        assert "IDENTIFIED" not in str(refused.value)
        assert box.run("1 + 1").text == "2"


def test_a_grant_to_everybody_is_one_of_every_role(strong, mariadb):
    mariadb.execute("GRANT INSERT ON shop.log TO PUBLIC")
    try:
        with pytest.raises(RoleTooPowerful, match=r"everybody may INSERT on shop\.log"):
            asyncio.run(mysql.ask("shop", Database(url=strong()), "SELECT 1"))
    finally:
        mariadb.execute("REVOKE INSERT ON shop.log FROM PUBLIC")


def test_the_override_says_so_in_every_result_and_still_writes_nothing(mariadb):
    database = Database(url=mariadb.url("admin"), allow_powerful=True)
    before = state(mariadb)

    with gb.Sandbox(databases={"shop": database}) as box:
        read = box.run("SELECT count(*) AS n FROM mysql.global_priv", language="sql", database="shop")
        called = box.run("SELECT writes()", language="sql", database="shop")
        told = box.run("SELECT nothing FROM orders", language="sql", database="shop")
        late = box.run("SELECT SLEEP(9)", language="sql", database="shop", wall_s=1)
        wide = box.run("SELECT repeat('x', 15000000) AS x, repeat('y', 15000000) AS y", language="sql", database="shop")

    assert read.ok
    for execution in (read, called, told, late, wide):
        assert [warning.code for warning in execution.warnings] == ["sql.powerful_role"]
        assert "may ALL PRIVILEGES on *.*" in execution.warnings[0].message
    assert wide.error.type == "RowTooLarge"
    assert called.error.type == "ReadOnlySqlTransaction"
    assert state(mariadb) == before
