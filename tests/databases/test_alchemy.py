"""A sandbox that asks a real server by a dialect that groundbox does not know: PostgreSQL, by another name."""

import asyncio
import importlib.util
import os
import sys
import threading
import time

import pytest

import groundbox as gb
from groundbox.databases import alchemy, alchemy_line, describing
from groundbox.databases.answer import DatabaseUnavailable
from groundbox.databases.database import Database, named
from groundbox.errors import InvalidArgument, SandboxClosed

sqlalchemy = pytest.importorskip(
    "sqlalchemy", reason="SQLAlchemy is not installed: the extra `sqlalchemy` of groundbox brings it"
)

TABLE = "application/vnd.dataresource+json"
ENDLESS = "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b, generate_series(1, 99) c"
LEFT = "the query was left at {} s, and may go on on the server: its driver did not end it"
POWERS = [
    "was not looked at, because groundbox cannot read the grants of elsewhere: it may be able to write, to read files "
    "of the server and to run programs there",
    "was not held to reading by the server: no statement of `setup` says READ ONLY",
    "has no time on the server: no statement of `setup` sets one",
]


INSIDE = """\
import glob, os
word = " ".join(["must", "not", "leave"]).encode()
found = [open("/proc/self/environ", "rb").read()]
for path in glob.glob("/proc/[0-9]*/environ"):
    try: found.append(open(path, "rb").read())
    except PermissionError: pass  # that of the copy from which scripts are forked, whose memory is closed
held = [open(path, "rb").read() for path in glob.glob("**/*", recursive=True) if os.path.isfile(path)]
memory = [repr([result, _sql, [each for each in vars().values() if isinstance(each, str)]]).encode()]
[any(word in each for each in some) for some in (found, held, memory)]
"""


@pytest.fixture(scope="module")
def url(postgres):
    """Where a role is let in, in the words of a dialect that is registered for these tests."""
    module = "sqlalchemy.dialects.postgresql.psycopg"
    sqlalchemy.dialects.registry.register("elsewhere", module, "PGDialect_psycopg")
    sqlalchemy.dialects.registry.register("elsewhere.later", module, "PGDialectAsync_psycopg")

    def made(role, scheme="elsewhere"):
        address = postgres.url(role).replace("postgresql://", f"{scheme}://").replace("@/", "@localhost/")
        return f"{address}&application_name=elsewhere"

    return made


@pytest.fixture
def database(url):
    def made(role="reader", **settings):
        return Database(url=url(role), allow_powerful=True, **{"timeout_s": 60, **settings})

    return made


@pytest.fixture
def box(database):
    with gb.Sandbox(databases={"shop": database(max_rows=5000, max_bytes=1 << 20)}) as opened:
        yield opened


@pytest.fixture
def ask(box):
    """Asks the server and hands over what came of it."""

    def run(source, **options):
        return box.run(source, language="sql", database="shop", **options)

    return run


def asked(database, sql):
    return asyncio.run(alchemy.ask("shop", database, sql))


def running(postgres):
    return postgres.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'elsewhere'")[0][0]


def begun(postgres):
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'elsewhere' AND state = 'active'"
    return postgres.execute(f"{query} AND query ~ 'sleep|generate_series|FETCH'")[0][0]


def soon(condition):
    deadline = time.monotonic() + 30
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def threads():
    return [each for each in threading.enumerate() if each.name == "groundbox-alchemy"]


def test_a_guests_query_is_answered_with_a_loud_warning_and_without_credentials_inside(box, ask, postgres):
    execution = ask("SELECT id, amount, day FROM orders ORDER BY id")

    table = execution.value[TABLE]
    assert execution.ok, execution.error
    assert [(f["name"], f["sql_type"]) for f in table["schema"]["fields"]] == [
        ("id", "int4"),
        ("amount", "numeric(9,2)"),
        ("day", "date"),
    ]
    assert table["data"][0] == {"id": 1, "amount": 10.5, "day": "2024-01-01"}
    assert table["data"][2] == {"id": 3, "amount": None, "day": None}
    assert box.run("float(result.amount.sum()), result.day.dt.year.max()").text.startswith("(14.75, ")
    (warning,) = execution.warnings
    assert (warning.code, warning.tier, warning.evidence) == ("sql.powerful_role", "error", {"powers": POWERS})
    assert warning.message == (
        f"the role of database 'shop' {'; '.join(POWERS)}; it was asked because allow_powerful is set"
    )
    inside = box.run(INSIDE)
    assert inside.ok, inside.error
    assert inside.text == "[False, False, False]"
    assert "must not leave" not in str(execution.to_dict())


def test_values_of_many_types_arrive(box, ask):
    execution = ask(
        "SELECT 9007199254740993::bigint AS big, true AS yes, 'é\"\\'::text AS t, '\\x00ff'::bytea AS b, "
        "'NaN'::float8 AS nan, ARRAY[1,2] AS a, '{\"k\": 1}'::json AS j, '2024-01-01 10:00:00.5'::timestamp AS moment, "
        "'2024-01-01 10:00+02'::timestamptz AS at, 1e30::numeric AS n, "
        "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid AS u, "
        "interval '26 hours' AS d, NULL::text AS nothing, 1 AS dup, 2 AS dup"
    )

    assert execution.ok, execution.error
    names = "big yes t b a j moment at n u d"
    told = box.run(f"row = result.iloc[0]; [str(row[name]) for name in {names.split()}]")
    assert told.value["text/plain"].replace("\n", "") == (
        "['9007199254740993', 'True', 'é\"\\\\', \"b'\\\\x00\\\\xff'\", '[1, 2]', '{\"k\": 1}',"
        " '2024-01-01 10:00:00.500000', '2024-01-01 08:00:00+00:00', '1e+30',"
        " 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '1 day, 2:00:00']"
    )
    assert box.run("list(result.columns)[-2:], result.nan.isna()[0]").text == "(['dup', 'dup'], np.True_)"


@pytest.mark.parametrize("text", ["100%", "%s", "%(a)s", "%%", "?", ":x", "{0}"])
def test_nothing_is_put_into_a_text(database, text):
    answer = asked(database(), f"SELECT '{text}' AS t, '%s' LIKE '%s%' AS l")

    assert answer.rows == [[text, True]]


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT name FROM customers WHERE name LIKE '%a%' ORDER BY 1", [["Ada"], ["Grace"]]),
        ("-- all\n(SELECT 1) ;\n", [[1]]),
        ("WITH x AS (SELECT 7 AS a) SELECT a FROM x", [[7]]),
        ("VALUES (1, 'a')", [[1, "a"]]),
        ("TABLE customers", [[1, "Ada"], [2, "Grace"]]),
        ("SHOW server_version_num", None),
        ("EXPLAIN SELECT 1", [["Result  (cost=0.00..0.01 rows=1 width=4)"]]),
    ],
)
def test_what_reads_is_run(database, query, rows):
    answer = asked(database(), query)

    assert answer.failure is None
    assert rows is None or answer.rows == rows


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("DELETE FROM orders", "not DELETE"),
        ("/* SELECT */ DELETE FROM orders", "not DELETE"),
        ("/* /* */ SELECT */ DELETE FROM orders", "another one in it"),
        ("/* /* */ EXPLAIN */ DELETE FROM orders", "another one in it"),
        ("COMMIT", "not COMMIT"),
        ("", "not this"),
        ("SELECT 1; COMMIT", "CHR(59)"),
        ("SELECT ';'", "CHR(59)"),
        ("SELECT 1;;", "CHR(59)"),
        ("SELECT 1; -- x", "CHR(59)"),
        ("SELECT '\0'", "NUL"),
        ("SELECT '\udc80'", "UTF-8"),
        (" " * 70_000 + "SELECT 1", "64 KiB"),
        ("WITH x AS (DELETE FROM orders RETURNING id) SELECT id FROM x", "data-modifying"),
    ],
)
def test_what_does_not_read_is_refused(database, postgres, query, word):
    answer = asked(database("admin"), query)

    assert word in answer.failure["message"]
    assert postgres.execute("SELECT count(*) FROM orders") == [(3,)]


@pytest.mark.parametrize("query", ["SELECT writes()", "EXPLAIN ANALYZE DELETE FROM orders"])
def test_what_a_statement_wrote_is_gone_afterwards(database, postgres, query):
    postgres.execute("CREATE TABLE log (line text)")
    postgres.execute(
        "CREATE FUNCTION writes() RETURNS int LANGUAGE sql AS 'INSERT INTO log VALUES (''x'') RETURNING 1'"
    )
    try:
        answer = asked(database("admin"), query)
        left = postgres.execute("SELECT (SELECT count(*) FROM log), (SELECT count(*) FROM orders)")
    finally:
        postgres.execute("DROP FUNCTION writes(); DROP TABLE log")

    assert answer.rows
    assert left == [(0, 3)]


@pytest.mark.parametrize(
    ("statement", "asked_for"),
    [
        ("SET TRANSACTION READ ONLY", True),
        ("SET SESSION read_only = on", True),
        ("SET default_transaction_read_only = on", True),
        ("SET SESSION read_only = off", False),
        ("SET default_transaction_read_only TO 'off'", False),
    ],
)
def test_setup_that_turns_reading_only_off_asks_for_nothing(statement, asked_for):
    told = alchemy.powers_of("elsewhere", [statement])[1]

    assert told.startswith("was asked by `setup` to read only") is asked_for


def test_setup_runs_first_and_what_it_asks_for_is_told_as_unchecked(database):
    setup = ("SET TRANSACTION READ ONLY", "SET LOCAL statement_timeout = '1s'")

    shown = asked(database("admin", setup=setup), "SELECT current_setting('transaction_read_only')")
    written = asked(database("admin", setup=setup), "SELECT nextval('made')")
    ended = asked(database("admin", setup=setup), "SELECT pg_sleep(20)")

    assert shown.rows == [["on"]]
    assert shown.powers[1:] == [
        "was asked by `setup` to read only, which nobody checked",
        "has a time on the server that `setup` asked for, which nobody checked",
    ]
    assert written.failure["type"] == "UndefinedTable"
    assert (ended.failure["type"], ended.timed_out) == ("QueryCanceled", False)


def test_a_setup_that_fails_is_told_by_its_number(database):
    with pytest.raises(DatabaseUnavailable) as refused:
        asked(database(setup=["SELECT 1", "SET secret_word = 1"]), "SELECT 1")

    assert str(refused.value) == "database 'shop': it refused statement 2 of `setup` (UndefinedObject)"


def test_rows_and_bytes_are_bounded_and_the_result_says_so(ask, database, postgres):
    many = ask("SELECT g FROM generate_series(1, 1000000) g")
    long = ask("SELECT repeat('x', 10000) AS x FROM generate_series(1, 1000) g")
    wide = ask("SELECT repeat('x', 10000000)")
    empty = asked(database(max_bytes=8000), f"SELECT {', '.join(['NULL'] * 100)} FROM generate_series(1, 1000)")
    exact = asked(database(max_rows=100), "SELECT g FROM generate_series(1, 100) g")
    above = asked(database(max_rows=100), "SELECT g FROM generate_series(1, 101) g")

    assert many.value[TABLE]["row_count"] == 5000
    assert many.value[TABLE]["row_count_exact"] is False
    assert 90 < long.value[TABLE]["row_count"] < 110
    assert wide.error.type == "RowTooLarge"
    assert (len(empty.rows), empty.complete) == (10, False)
    assert (len(exact.rows), exact.complete) == (100, True)
    assert (len(above.rows), above.complete) == (100, False)
    assert soon(lambda: not running(postgres))


def test_rows_are_fetched_a_few_at_a_time(database, monkeypatch):
    """A row of a megabyte, of which two may be held: no more than three are taken from the server."""
    taken = []
    fetch = sqlalchemy.CursorResult.fetchmany

    def counted(self, size):
        rows = fetch(self, size)
        taken.append(len(rows))
        return rows

    monkeypatch.setattr(sqlalchemy.CursorResult, "fetchmany", counted)

    answer = asked(database(max_bytes=2_100_000), "SELECT repeat('x', 1000000) FROM generate_series(1, 50)")

    assert (len(answer.rows), answer.complete) == (2, False)
    assert sum(taken) <= 3


@pytest.mark.parametrize("query", ["SELECT pg_sleep(60)", ENDLESS])
def test_a_query_over_its_time_is_gone_from_the_server(ask, postgres, query):
    execution = ask(query, wall_s=1)

    assert execution.outcome is gb.Outcome.TIMEOUT
    assert execution.state == "kept"
    assert execution.error.message == "the query was stopped at 1 s"
    assert [warning.code for warning in execution.warnings] == ["sql.powerful_role"]
    assert soon(lambda: not running(postgres))
    assert soon(lambda: not threads())


def test_an_interrupt_ends_it_on_the_server(box, ask, postgres):
    ask("SELECT 1")
    threading.Thread(target=lambda: soon(lambda: begun(postgres)) and box.interrupt()).start()

    execution = ask("SELECT pg_sleep(60)", wall_s=60)

    assert execution.outcome is gb.Outcome.CANCELLED
    assert soon(lambda: not running(postgres))
    assert ask("SELECT 1 AS a").ok


def test_closing_the_sandbox_ends_it_on_the_server(box, ask, postgres):
    ask("SELECT 1")
    threading.Thread(target=lambda: soon(lambda: begun(postgres)) and box.close()).start()

    with pytest.raises(SandboxClosed):
        ask("SELECT pg_sleep(60)", wall_s=60)

    assert soon(lambda: not running(postgres))


def give_up(database, postgres):
    """Cancel who asks an endless query; whether it is gone from the server then."""

    async def asking():
        task = asyncio.ensure_future(alchemy.ask("shop", database, ENDLESS))
        assert await asyncio.to_thread(soon, lambda: begun(postgres))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asking())
    return not begun(postgres)


def test_cancelling_the_callers_task_ends_it_on_the_server(database, postgres):
    assert give_up(database(), postgres)
    assert soon(lambda: not running(postgres))
    assert soon(lambda: not threads())


def test_without_cancel_and_socket_a_query_outlives_its_caller(database, postgres, monkeypatch):
    """The control of the test above."""
    monkeypatch.setattr(alchemy_line, "_WAYS", ())
    monkeypatch.setattr(alchemy_line.Line, "_cut", lambda line: None)

    ended = give_up(database(), postgres)
    postgres.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'elsewhere'")

    assert not ended
    assert soon(lambda: not running(postgres))
    assert soon(lambda: not threads())


def test_a_driver_that_cannot_cancel_loses_its_socket(database, postgres, monkeypatch):
    monkeypatch.setattr(alchemy_line, "_WAYS", ())

    answer = asked(database(timeout_s=1), "SELECT pg_sleep(60)")

    assert (answer.timed_out, answer.failure["message"]) == (True, LEFT.format("1"))
    assert soon(lambda: not threads())
    postgres.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'elsewhere'")


def test_what_cannot_be_ended_is_told_and_only_a_few_of_these_go_on(database, postgres, monkeypatch):
    monkeypatch.setattr(alchemy_line, "_WAYS", ())
    monkeypatch.setattr(alchemy_line.Line, "_cut", lambda line: None)
    monkeypatch.setattr(alchemy_line, "_CANCEL_S", 0.3)
    stuck = database(timeout_s=0.5)

    answers = [asked(stuck, "SELECT pg_sleep(60)") for _ in range(4)]
    with pytest.raises(DatabaseUnavailable) as refused:
        asked(stuck, "SELECT 1")
    postgres.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'elsewhere'")

    assert [(each.timed_out, each.failure["message"]) for each in answers] == [(True, LEFT.format("0.5"))] * 4
    assert str(refused.value) == "database 'shop': 4 connections to it do not come back, nor does its driver end them"
    assert soon(lambda: not threads())
    assert asked(stuck, "SELECT 1").rows == [[1]]


def test_a_lost_connection_is_told(ask, postgres):
    def end():
        soon(lambda: begun(postgres))
        postgres.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'elsewhere'")

    threading.Thread(target=end).start()

    with pytest.raises(DatabaseUnavailable, match="the connection was lost"):
        ask("SELECT pg_sleep(60)")


def test_failures_name_their_place_and_what_there_is(ask):
    column = ask("SELECT id,\n  nam FROM customers").error
    table = ask("SELECT * FROM order_s").error
    ambiguous = ask("SELECT id FROM orders, customers").error

    assert (column.type, column.line, column.message) == ("UndefinedColumn", 2, 'column "nam" does not exist')
    assert "line 2, column 3\n      nam FROM customers\n      ^" in column.traceback
    assert column.hints[:2] == ("Did you mean `name of customers`?", "The columns of customers are: 'id', 'name'.")
    assert table.hints == ("Did you mean `orders`?", "The tables are: 'customers', 'orders'.")
    assert ambiguous.hints[0].startswith("`id` is a column of customers and of orders")
    assert "sqlalche.me" not in str([column, table, ambiguous])


def test_a_schema_card_of_a_database(ask):
    card = ask("DESCRIBE ALL", max_tokens=500)

    assert card.text.splitlines() == [
        "customers (table, not counted)",
        "  id integer primary key: 1, 2",
        "  name text: Ada, Grace",
        "orders (table, not counted)",
        "  id integer primary key: 1, 2, 3",
        "  customer_id integer -> customers.id: 1, 2",
        "  amount numeric(9, 2): 10.50, 4.25",
        "  day date: 2024-01-01, 2024-01-02",
    ]
    assert [warning.evidence for warning in card.warnings] == [{"powers": POWERS}]


def test_a_card_of_odd_names_and_views(ask, postgres):
    postgres.execute('CREATE VIEW "100% Odd" AS SELECT 1 AS "a%b", 2 AS "Select"')
    postgres.execute('GRANT SELECT ON "100% Odd" TO reader')
    try:
        card = ask("DESCRIBE ALL", max_tokens=500).text.splitlines()
    finally:
        postgres.execute('DROP VIEW "100% Odd"')

    assert card[:3] == ["100% Odd (view, not counted)", "  a%b integer: 1", "  Select integer: 2"]


def test_a_description_holds_the_beginning_of_large_values(database, postgres):
    postgres.execute("CREATE VIEW a AS SELECT repeat('x', 3000000) AS long")
    postgres.execute("GRANT SELECT ON a TO reader")
    try:
        described = asyncio.run(describing.describe("shop", database()))
    finally:
        postgres.execute("DROP VIEW a")

    assert described.tables[0].columns[0].examples == ["x" * 1000]


def test_a_description_has_one_deadline(database, postgres):
    postgres.execute("CREATE VIEW a AS SELECT pg_sleep(60)::text AS nap")
    postgres.execute("GRANT SELECT ON a TO reader")
    try:
        described = asyncio.run(describing.describe("shop", database(timeout_s=4)))
    finally:
        postgres.execute("DROP VIEW a")

    assert [table.name for table in described.tables] == ["a", "customers", "orders", "…"]
    assert described.tables[1].columns[1].examples == ["Ada", "Grace"]
    assert soon(lambda: not running(postgres))


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("elsewhere://reader:hidden-word@127.0.0.1:1/shop", "it cannot be reached as configured"),
        ("elsewhere://reader:hidden-word@localhost/shop?host={folder}", "it refused the role or its password"),
        ("elsewhere://reader:hidden-word@localhost:port/shop", "its URL cannot be meant (ValueError)"),
        (
            "elsewhere://reader:hidden-word@/shop",
            "its URL names no host, and an engine in the host's process is not asked",
        ),
        ("elsewhere+later://reader:hidden-word@h/shop", "its driver is for asynchronous programs; name another one"),
        ("nowhere://reader:hidden-word@h/shop", "SQLAlchemy has no dialect for its URL; install the package of one"),
        ("mssql+pymssql://reader:hidden-word@h/shop", "the dialect of its URL needs pymssql, which cannot be imported"),
    ],
)
def test_what_cannot_be_reached_is_told_without_its_address(url, postgres, address, reason):
    if "pymssql" in reason and importlib.util.find_spec("pymssql"):
        pytest.skip("pymssql is installed")
    database = Database(url=address.format(folder=postgres.folder), allow_powerful=True)

    with pytest.raises(DatabaseUnavailable) as refused:
        asked(database, "SELECT 1")

    assert str(refused.value) == f"database 'shop': {reason}"
    assert (refused.value.__cause__, refused.value.__context__) == (None, None)
    assert "hidden" not in repr(database) + repr(refused.value)


def test_a_server_that_says_nothing_is_given_up(url, monkeypatch):
    import socket

    monkeypatch.setattr(alchemy, "CONNECT_S", 0.5)
    monkeypatch.setattr(alchemy_line, "_CANCEL_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"elsewhere://reader:hidden@127.0.0.1:{server.getsockname()[1]}/shop"
        with pytest.raises(DatabaseUnavailable, match=r"it did not answer within 0\.5 s"):
            asked(Database(url=address, allow_powerful=True), "SELECT 1")

    assert soon(lambda: not threads())


def test_a_driver_that_commits_by_itself_is_not_asked(database, monkeypatch):
    monkeypatch.setattr(alchemy_line.Line, "commits", True)

    with pytest.raises(DatabaseUnavailable, match="commits each statement by itself; take autocommit out of its URL"):
        asked(database(), "SELECT 1")


def test_a_missing_package_is_told_with_the_way_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)

    with pytest.raises(
        DatabaseUnavailable, match=r"SQLAlchemy is not installed: the extra `sqlalchemy` of groundbox brings it"
    ):
        asked(Database(url="oracle+oracledb://reader@h/shop", allow_powerful=True), "SELECT 1")


@pytest.mark.parametrize("scheme", ["sqlite", "sqlite+pysqlite", "SQLite", "duckdb", "shillelagh", "chdb"])
def test_an_engine_in_the_hosts_process_is_never_asked(scheme):
    with pytest.raises(InvalidArgument, match=r"is not asked, .* it would need nothing: "):
        Database(url=f"{scheme}://reader:hidden@h/shop", allow_powerful=True)


def test_an_engine_in_the_hosts_process_is_not_asked_by_another_name():
    sqlalchemy.dialects.registry.register("lite_elsewhere", "sqlalchemy.dialects.sqlite.pysqlite", "dialect")
    database = Database(url="lite_elsewhere://h/shop.db", allow_powerful=True)

    with pytest.raises(DatabaseUnavailable, match="its engine would run in the host's process; ATTACH the file in the"):
        asked(database, "SELECT 1")


@pytest.mark.parametrize("scheme", ["postgresql+psycopg2", "mysql+pymysql", "mariadb+mariadbconnector", "PostgreSQL"])
def test_a_driver_for_a_server_with_a_guard_is_refused(scheme):
    with pytest.raises(InvalidArgument, match=r"must begin with \w+://, without a driver"):
        Database(url=f"{scheme}://reader:hidden@h/shop", allow_powerful=True)


@pytest.mark.parametrize("url", ["hidden-word", "hidden-word://x", "hidden word://x", "://x", "a+b+hidden://x"])
def test_what_is_no_url_is_refused_without_a_word_of_it(url):
    with pytest.raises(InvalidArgument, match="must begin with") as refused:
        Database(url=url, allow_powerful=True)

    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize("setup", ["SET x = 1", [""], [1], None, {"SET x = 1": 1}])
def test_a_setup_that_is_no_list_of_statements_is_refused(setup):
    with pytest.raises(InvalidArgument, match="must be a list of statements"):
        Database(url="oracle://h/x", allow_powerful=True, setup=setup)


@pytest.mark.parametrize("said", ["false", 1, None])
def test_whether_a_powerful_role_is_allowed_is_said_by_a_bool(said):
    with pytest.raises(InvalidArgument, match="must be True or False"):
        Database(url="oracle://h/x", allow_powerful=said)


def test_setup_is_for_these_servers_only_and_never_printed():
    with pytest.raises(InvalidArgument, match="is for servers that SQLAlchemy asks; mysql is held without it"):
        Database(url="mysql://h/x", setup=["SET x = 1"])

    assert "hidden" not in repr(
        Database(url="oracle://h/x", allow_powerful=True, setup=["SET ROLE x IDENTIFIED BY hidden"])
    )


def test_a_file_describes_such_a_database_too(tmp_path, url):
    file = tmp_path / "databases.toml"
    file.write_text(f'[far]\nurl = "{url("reader")}"\nallow_powerful = true\nsetup = ["SET TRANSACTION READ ONLY"]\n')
    file.chmod(0o600)

    assert named("far", file=file) == Database(
        url=url("reader"), allow_powerful=True, setup=("SET TRANSACTION READ ONLY",)
    )


def test_no_thread_and_no_descriptor_is_left(database, postgres):
    bounded = database(timeout_s=5, max_rows=10)
    asked(bounded, "SELECT 1")
    descriptors = len(os.listdir("/proc/self/fd"))

    for query in ("SELECT 1", "SELECT x", "SELECT generate_series(1, 1000000)", "SELECT repeat('x', 100000000)"):
        asked(bounded, query)

    assert soon(lambda: not threads())
    assert len(os.listdir("/proc/self/fd")) <= descriptors
    assert soon(lambda: not running(postgres))
