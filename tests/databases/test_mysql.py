"""A sandbox that asks a real MariaDB server, as the role that docs/sql.md sets up."""

import asyncio
import os
import socket
import sys
import threading
import time

import pytest

import groundbox as gb
from groundbox.databases import describing, mysql
from groundbox.databases.answer import DatabaseUnavailable
from groundbox.databases.database import Database
from groundbox.databases.mysql_grants import powers_of
from groundbox.errors import InvalidArgument, SandboxClosed

TABLE = "application/vnd.dataresource+json"
ENDLESS = "SELECT count(*) FROM seq_1_to_1000000 a, seq_1_to_1000000 b, seq_1_to_1000000 c"


@pytest.fixture
def box(mariadb):
    database = Database(url=mariadb.url("reader"), timeout_s=10, max_rows=5000, max_bytes=1 << 20)
    with gb.Sandbox(databases={"shop": database}) as opened:
        yield opened


@pytest.fixture
def ask(box):
    """Asks the server and hands over what came of it."""

    def run(source, **options):
        return box.run(source, language="sql", database="shop", **options)

    return run


def running(mariadb):
    """What SHOW PROCESSLIST tells of the role's connections."""
    return [row for row in mariadb.execute("SHOW PROCESSLIST") if row[1] == "reader"]


def soon(condition):
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def begun(mariadb):
    """Whether the role's query runs."""
    return any("SLEEP" in str(row[7]) or "seq_1_to" in str(row[7]) for row in running(mariadb))


def test_rows_are_a_table_and_a_dataframe(box, ask):
    execution = ask("SELECT id, amount, day FROM orders ORDER BY id")

    table = execution.value[TABLE]
    assert execution.ok, execution.error
    assert [(f["name"], f["sql_type"]) for f in table["schema"]["fields"]] == [
        ("id", "int"),
        ("amount", "decimal(9,2)"),
        ("day", "date"),
    ]
    assert table["data"][0] == {"id": 1, "amount": 10.5, "day": "2024-01-01"}
    assert table["data"][2] == {"id": 3, "amount": None, "day": None}
    assert box.run("str(result.dtypes['id']), float(result.amount.sum()), result.day.dt.year.max()").text.startswith(
        "('int64', 14.75, "
    )
    assert box.run("SELECT sum(amount) AS s FROM result", language="sql").value[TABLE]["data"] == [{"s": 14.75}]


def test_values_of_many_types_arrive(box, ask):
    execution = ask(
        "SELECT 9007199254740993 AS big, CAST(18446744073709551615 AS UNSIGNED) AS huge, true AS yes, 'é\"\\\\' AS t, "
        "x'00ff' AS b, 1.5e0 AS f, CAST('2024-01-01 10:00:01.5' AS DATETIME(1)) AS at, "
        "CAST('838:59:59' AS TIME) AS t2, NULL AS nothing, CAST('0000-00-00' AS DATE) AS zero, 1 AS dup, 2 AS dup"
    )

    assert execution.ok, execution.error
    names = "big huge yes t b f at t2"
    told = box.run(f"row = result.iloc[0]; [str(row[name]) for name in {names.split()}]")
    assert told.value["text/plain"].replace("\n", "") == (
        "['9007199254740993', '18446744073709551615', '1', 'é\"\\\\', \"b'\\\\x00\\\\xff'\", '1.5',"
        " '2024-01-01 10:00:01.500000', '838:59:59']"
    )
    assert box.run("list(result.columns)[-2:], result.nothing.isna()[0]").text == "(['dup', 'dup'], np.True_)"


def test_failures_name_their_place_and_what_there_is(ask):
    column = ask("SELECT id,\n  nam FROM customers").error
    table = ask("SELECT * FROM order_s").error
    ambiguous = ask("SELECT id FROM orders, customers").error
    syntax = ask("SELECT id\nFRM orders").error
    denied = ask("SELECT * FROM mysql.orderz").error

    assert (column.type, column.line) == ("UndefinedColumn", 2)
    assert "line 2, column 3\n      nam FROM customers\n      ^" in column.traceback
    assert column.hints[:2] == ("Did you mean `name of customers`?", "The columns of customers are: 'id', 'name'.")
    assert (table.type, table.hints[0]) == ("UndefinedTable", "Did you mean `orders`?")
    assert ambiguous.hints[0].startswith("`id` is a column of customers and of orders")
    assert (syntax.type, syntax.line) == ("SyntaxError", 2)
    assert (denied.type, denied.message) == (
        "InsufficientPrivilege",
        "SELECT command denied for table `mysql`.`orderz`",
    )


def test_rows_and_bytes_are_bounded_and_the_result_says_so(box, ask, mariadb):
    many = ask("SELECT seq FROM seq_1_to_10000000")
    long = ask("SELECT repeat('x', 10000) AS x FROM seq_1_to_1000")
    wide = ask("SELECT repeat('x', 10000000)")

    assert many.value[TABLE]["row_count"] == 5000
    assert many.value[TABLE]["row_count_exact"] is False
    assert "more than 5000 rows" in many.text
    assert 90 < long.value[TABLE]["row_count"] < 110
    assert wide.error.type == "RowTooLarge"
    assert soon(lambda: not running(mariadb))


def test_empty_values_count_for_the_bound_of_bytes(mariadb):
    database = Database(url=mariadb.url("reader"), max_bytes=8000)
    empty = ", ".join(["''"] * 100)

    with gb.Sandbox(databases={"shop": database}) as box:
        execution = box.run(f"SELECT {empty} FROM seq_1_to_1000", language="sql", database="shop")

    assert execution.value[TABLE]["row_count"] == 10


@pytest.mark.parametrize(
    "query",
    ["SELECT SLEEP(60)", "SELECT BENCHMARK(10000000000, MD5('x'))", ENDLESS, "SELECT seq, SLEEP(1) FROM seq_1_to_60"],
)
def test_the_server_ends_what_takes_too_long(ask, mariadb, query):
    execution = ask(query, wall_s=1)

    assert execution.outcome is gb.Outcome.TIMEOUT
    assert execution.state == "kept"
    assert soon(lambda: not running(mariadb))


def test_our_clock_ends_what_the_servers_does_not(mariadb, monkeypatch):
    monkeypatch.setattr(mysql, "_clock", lambda line, time_s: "max_statement_time = 0")
    database = Database(url=mariadb.url("reader"), timeout_s=1)

    answer = asyncio.run(mysql.ask("shop", database, "SELECT SLEEP(60)"))

    assert answer.timed_out
    assert soon(lambda: not running(mariadb))


def test_an_interrupt_ends_it_on_the_server(box, ask, mariadb):
    ask("SELECT 1")
    threading.Thread(target=lambda: soon(lambda: begun(mariadb)) and box.interrupt()).start()

    execution = ask("SELECT SLEEP(9)")

    assert execution.outcome is gb.Outcome.CANCELLED
    assert soon(lambda: not running(mariadb))
    assert ask("SELECT 1 AS a").ok


def test_closing_the_sandbox_ends_it_on_the_server(box, ask, mariadb):
    ask("SELECT 1")
    threading.Thread(target=lambda: soon(lambda: begun(mariadb)) and box.close()).start()

    with pytest.raises(SandboxClosed):
        ask("SELECT SLEEP(9)")

    assert soon(lambda: not running(mariadb))


def test_cancelling_the_callers_task_ends_it_on_the_server(mariadb):
    async def give_up():
        task = asyncio.ensure_future(mysql.ask("shop", Database(url=mariadb.url("reader")), "SELECT SLEEP(20)"))
        assert await asyncio.to_thread(soon, lambda: begun(mariadb))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())

    assert soon(lambda: not running(mariadb))


def test_without_the_kill_a_query_outlives_its_caller(mariadb, monkeypatch):
    """The control of the test above."""
    monkeypatch.setattr(mysql, "_kill", lambda line: None)

    async def give_up():
        task = asyncio.ensure_future(mysql.ask("shop", Database(url=mariadb.url("reader")), ENDLESS))
        assert await asyncio.to_thread(soon, lambda: begun(mariadb))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())

    (left,) = running(mariadb)
    mariadb.execute(f"KILL {left[0]}")
    assert soon(lambda: not running(mariadb))


def test_a_connection_of_another_server_is_not_ended(mariadb, monkeypatch):
    """Behind a proxy a second connection may reach another server, where the number is somebody else's."""
    monkeypatch.setattr(mysql, "_SAME_SERVER", "SELECT UUID()")
    killed = []
    monkeypatch.setattr(mysql, "_end_connection", lambda other, number: killed.append(number))

    answer = asyncio.run(
        mysql.ask("shop", Database(url=mariadb.url("reader"), max_rows=1), "SELECT seq FROM seq_1_to_99")
    )

    assert (answer.complete, killed) == (False, [])


def test_a_lost_connection_is_told(ask, mariadb):
    def end():
        soon(lambda: begun(mariadb))
        mariadb.execute(f"KILL {running(mariadb)[0][0]}")

    threading.Thread(target=end).start()

    with pytest.raises(DatabaseUnavailable, match="the connection was lost"):
        ask("SELECT SLEEP(9)")


def test_a_server_without_a_clock_is_not_asked(mariadb, monkeypatch):
    monkeypatch.setattr(mysql, "_clock", lambda line, time_s: "no_such_clock = 1")

    with pytest.raises(DatabaseUnavailable, match="it has no time-out for statements; MySQL has one since"):
        asyncio.run(mysql.ask("shop", Database(url=mariadb.url("reader")), "SELECT 1"))


def test_a_server_that_refuses_a_bound_is_not_asked(mariadb, monkeypatch):
    monkeypatch.setattr(mysql, "_clock", lambda line, time_s: "max_statement_time = 'long'")

    with pytest.raises(DatabaseUnavailable, match=r"it refuses what bounds a session, .* \(error 1232\)"):
        asyncio.run(mysql.ask("shop", Database(url=mariadb.url("reader")), "SELECT 1"))


def test_no_thread_and_no_descriptor_is_left(mariadb):
    database = Database(url=mariadb.url("reader"), timeout_s=5, max_rows=10)
    asyncio.run(mysql.ask("shop", database, "SELECT 1"))
    descriptors = len(os.listdir("/proc/self/fd"))

    for query in ("SELECT 1", "SELEC", "SELECT seq FROM seq_1_to_10000000", "SELECT repeat('x', 100000000)"):
        asyncio.run(mysql.ask("shop", database, query))

    assert soon(lambda: not [each for each in threading.enumerate() if each.name == "groundbox-mysql"])
    assert len(os.listdir("/proc/self/fd")) <= descriptors


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("mysql://reader:hidden-word@127.0.0.1:1/shop", "it cannot be reached as configured"),
        ("mariadb://reader:hidden-word@/shop?unix_socket={folder}/socket", "it refused the role or its password"),
        ("mysql://reader:hidden%zzword@/shop?unix_socket={folder}/socket", "it cannot be reached as configured"),
        ("mysql://reader:hidden-word@/shop?unix_socket={folder}/none", "it cannot be reached as configured"),
        ("mysql://reader:hidden-word@h:port/shop", "it cannot be reached as configured"),
        ("mysql://reader:hidden-word@h/shop?local_infile=1", "it cannot be reached as configured"),
        ("mysql://reader:hidden-word@h/shop?ssl_ca=/none", "it cannot be reached as configured"),
    ],
)
def test_what_cannot_be_reached_is_told_without_its_address(mariadb, url, reason):
    database = Database(url=url.format(folder=mariadb.folder))

    with pytest.raises(DatabaseUnavailable) as refused:
        asyncio.run(mysql.ask("shop", database, "SELECT 1"))

    assert str(refused.value) == f"database 'shop': {reason}"
    assert (refused.value.__cause__, refused.value.__context__) == (None, None)
    assert "hidden" not in repr(database) + repr(refused.value)


def test_a_missing_driver_is_told_with_the_way_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymysql", None)

    with pytest.raises(
        DatabaseUnavailable, match=r"PyMySQL is not installed: the extra `mysql` of groundbox brings it"
    ):
        asyncio.run(mysql.ask("shop", Database(url="mysql://reader@h/shop"), "SELECT 1"))


def test_a_server_that_says_nothing_is_given_up(monkeypatch):
    monkeypatch.setattr(mysql, "CONNECT_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        database = Database(url=f"mysql://reader:hidden@127.0.0.1:{server.getsockname()[1]}/shop")

        with pytest.raises(DatabaseUnavailable, match=r"it did not answer within 0.5 s"):
            asyncio.run(mysql.ask("shop", database, "SELECT 1"))

    assert soon(lambda: not [each for each in threading.enumerate() if each.name == "groundbox-mysql"])


def test_an_encrypted_connection_is_one_to_a_server_that_is_vouched_for(mariadb):
    if mariadb.certificate is None:
        pytest.skip("no openssl program to make a certificate with: apt-get install openssl")
    url = f"{mariadb.url('reader')}&ssl_ca={mariadb.certificate}"
    cipher = "SELECT variable_value FROM information_schema.session_status WHERE variable_name = 'Ssl_cipher'"

    asked = asyncio.run(mysql.ask("shop", Database(url=url, max_rows=1), cipher))
    stopped = asyncio.run(
        mysql.ask("shop", Database(url=url, timeout_s=5, max_rows=3), "SELECT seq FROM seq_1_to_10000000")
    )
    other = url.replace("@/", "@other.example.org/")
    with pytest.raises(DatabaseUnavailable, match="cannot be reached as configured"):
        asyncio.run(mysql.ask("shop", Database(url=other), cipher))

    assert asked.rows[0][0].startswith("TLS")
    assert (len(stopped.rows), stopped.complete) == (3, False)
    assert soon(lambda: not running(mariadb))


def test_a_server_that_does_not_encrypt_gets_no_password(tmp_path, mariadb):
    if mariadb.certificate is None:
        pytest.skip("no openssl program to make a certificate with: apt-get install openssl")
    said = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet():
            peer, _ = server.accept()
            with peer:
                greeting = b"\x0a8.0.0\0\1\0\0\0" + b"12345678\0" + b"\0\x82\x2d\x02\0\x08\0\x15" + b"\0" * 10
                greeting += b"123456789012\0mysql_native_password\0"
                peer.sendall(bytes([len(greeting), 0, 0, 0]) + greeting)
                said.append(peer.recv(4096))

        thread = threading.Thread(target=greet)
        thread.start()
        url = f"mysql://reader:hidden@localhost:{server.getsockname()[1]}/shop?ssl_ca={mariadb.certificate}"
        with pytest.raises(DatabaseUnavailable, match="cannot be reached as configured"):
            asyncio.run(mysql.ask("shop", Database(url=url), "SELECT 1"))
        thread.join(10)

    assert said == [b""]


@pytest.mark.parametrize("dialect", ["oracle", "mssql", "oracle+oracledb", "sqlite", "duckdb"])
def test_a_server_without_a_guard_is_refused_by_name(dialect):
    with pytest.raises(InvalidArgument, match=f"{dialect.partition('+')[0]} is not asked, .* it would need "):
        Database(url=f"{dialect}://reader:hidden@h/shop")


@pytest.mark.parametrize("url", ["hidden-word", "hidden-word://x", "mysql+pymysql://x:hidden-word@y"])
def test_what_is_no_url_of_a_database_is_refused_without_a_word_of_it(url):
    with pytest.raises(InvalidArgument, match="must begin with") as refused:
        Database(url=url)

    assert "hidden" not in str(refused.value)


def test_a_schema_card_of_a_database(ask):
    card = ask("DESCRIBE ALL", max_tokens=500).text

    assert card.splitlines()[:9] == [
        "customers (table, about 2 rows)",
        "  id int(11) primary key: 1, 2",
        "  name varchar(40): Ada, Grace",
        "log (table, about 0 rows)",
        "  line text",
        "orders (table, about 3 rows)",
        "  id int(11) primary key: 1, 2, 3",
        "  customer_id int(11) -> customers.id: 1, 2",
        "  amount decimal(9,2): 10.50, 4.25",
    ]


@pytest.mark.parametrize("settings", [{"max_rows": 2}, {"max_bytes": 100}])
def test_a_schema_card_is_whole_where_few_rows_may_be_asked_for(mariadb, settings):
    with gb.Sandbox(databases={"shop": Database(url=mariadb.url("reader"), **settings)}) as box:
        card = box.run("DESCRIBE ALL", language="sql", database="shop").text

    assert [line for line in card.splitlines() if not line.startswith(" ")] == [
        "customers (table, about 2 rows)",
        "log (table, about 0 rows)",
        "orders (table, about 3 rows)",
    ]


def test_more_columns_than_a_card_is_made_of_are_told(ask, monkeypatch):
    monkeypatch.setattr(describing, "_MOST_COLUMNS", 3)

    card = ask("DESCRIBE ALL").text

    assert card.splitlines()[-1] == "… (tables, more than 3 columns in all, the rest left out)"


@pytest.fixture
def slow_views(mariadb):
    """Eight views whose rows take a minute each; they come before the tables."""
    names = [f"a{number}" for number in range(8)]
    for name in names:
        mariadb.execute(f"CREATE VIEW {name} AS SELECT SLEEP(60) AS nap")
    yield names
    mariadb.execute(f"DROP VIEW IF EXISTS {', '.join(names)}")


def test_a_description_has_one_deadline_and_tells_what_it_left_out(mariadb, monkeypatch, slow_views):
    asked = []
    ask = mysql.ask

    async def counted(name, database, sql, **options):
        asked.append(sql)
        return await ask(name, database, sql, **options)

    monkeypatch.setattr(mysql, "ask", counted)
    database = Database(url=mariadb.url("reader"), timeout_s=2)

    with gb.Sandbox(databases={"shop": database}) as box:
        card = box.run("DESCRIBE ALL", language="sql", database="shop").text.splitlines()

    assert len(asked) <= 1 + 4, "each took a quarter of the time, and one had less left"
    assert [line.partition(" (")[0] for line in card if not line.startswith(" ")] == [
        *slow_views,
        "customers",
        "log",
        "orders",
        "…",
    ]
    assert "  id int(11) primary key" in card
    assert card[-1] == "… (values, those of 11 tables left out, because of the time of 2 s)"
    assert soon(lambda: not running(mariadb))


def test_one_slow_view_leaves_time_for_the_others(mariadb, slow_views):
    mariadb.execute(f"DROP VIEW {', '.join(slow_views[1:])}")

    database = Database(url=mariadb.url("reader"), timeout_s=4)
    with gb.Sandbox(databases={"shop": database}) as box:
        card = box.run("DESCRIBE ALL", language="sql", database="shop").text.splitlines()

    assert "  name varchar(40): Ada, Grace" in card
    assert card[-1] == "… (values, those of 1 table left out, because of the time of 4 s)"


def test_half_of_a_character_is_refused(mariadb):
    answer = asyncio.run(mysql.ask("shop", Database(url=mariadb.url("reader")), "SELECT '\udc80'"))

    assert "UTF-8" in answer.failure["message"]


def test_more_connections_than_the_role_may_have_are_told(mariadb):
    async def crowd():
        database = Database(url=mariadb.url("reader"), timeout_s=10)
        asked = (mysql.ask("shop", database, "SELECT SLEEP(1)") for _ in range(24))
        return await asyncio.gather(*asked, return_exceptions=True)

    came = asyncio.run(crowd())

    refused = [str(each) for each in came if isinstance(each, DatabaseUnavailable)]
    assert refused
    assert set(refused) == {"database 'shop': it takes no more connections now"}
    assert all(each.rows == [[0]] for each in came if not isinstance(each, DatabaseUnavailable))


def test_a_long_statement_is_sent_whole(ask):
    assert ask("SELECT 42 AS x /* " + "x" * 4_000_000 + " */").value[TABLE]["data"] == [{"x": 42}]


@pytest.mark.parametrize(
    ("grants", "powers"),
    [
        (["GRANT USAGE ON *.* TO `r`@`%` IDENTIFIED BY PASSWORD '*2'", "GRANT SELECT ON `shop`.* TO `r`@`%`"], []),
        (["GRANT SELECT (`a`, `b ON c`), SHOW VIEW ON `shop`.`t` TO `r`@`%`"], []),
        (['GRANT SELECT ON "shop".* TO "r"@"%"'], []),
        (["GRANT SELECT ON `my\\_%`.* TO `r`@`%`"], []),
        (["GRANT SELECT ON `my%`.* TO `r`@`%`"], ["may read mysql.*"]),
        (["GRANT SELECT ON `mysq_`.* TO `r`@`%`"], ["may read mysql.*"]),
        (["GRANT SELECT ON `sys`.`x` TO `r`@`%`"], ["may read sys.x"]),
        (["GRANT SELECT ON *.* TO `r`@`%`"], ["may read mysql.*"]),
        (["GRANT SELECT (`a`), UPDATE (`a`) ON `shop`.`t` TO `r`@`%`"], ["may UPDATE on shop.t"]),
        (["GRANT EXECUTE ON PROCEDURE `shop`.`p` TO `r`@`%`"], ["may EXECUTE on shop.p"]),
        (["GRANT SELECT ON `shop`.* TO `r`@`%` WITH GRANT OPTION"], ["may grant what it has on shop.*"]),
        (["GRANT ALL PRIVILEGES ON *.* TO `r`@`%`"], ["may ALL PRIVILEGES on *.*"]),
        (["GRANT BACKUP_ADMIN,XA_RECOVER_ADMIN ON *.* TO `r`@`%`"], ["may BACKUP_ADMIN, XA_RECOVER_ADMIN on *.*"]),
        (["GRANT `a`@`%`,`b`@`%` TO `r`@`%`"], ["is granted the role `a`@`%`,`b`@`%`"]),
        (["GRANT PROXY ON ''@'%' TO `r`@`%`"], ["has a grant that is not understood: GRANT PROXY ON ''@'%'"]),
        (["REVOKE SELECT ON `a`.* FROM `r`"], ["has a grant that is not understood: REVOKE SELECT ON `a`.* FROM `r`"]),
        (["GRANT INSERT ON `t`.* TO PUBLIC"], ["is in a server where everybody may INSERT on t.*"]),
    ],
)  # fmt: skip
def test_grants_are_read_one_by_one(grants, powers):
    assert powers_of(grants) == powers
