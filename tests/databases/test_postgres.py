"""A sandbox that asks a real PostgreSQL server, as the role that docs/sql.md sets up."""

import asyncio
import socket
import threading
import time

import pytest

import groundbox as gb
from groundbox.databases import postgres as postgres_of
from groundbox.databases.answer import DatabaseUnavailable
from groundbox.databases.database import Database, named
from groundbox.errors import InvalidArgument, SandboxClosed

TABLE = "application/vnd.dataresource+json"


@pytest.fixture
def box(postgres):
    database = Database(url=postgres.url("reader"), timeout_s=10, max_rows=5000, max_bytes=1 << 20)
    with gb.Sandbox(databases={"shop": database}) as opened:
        yield opened


@pytest.fixture
def ask(box):
    """Asks the server and hands over what came of it."""

    def run(source, **options):
        return box.run(source, language="sql", database="shop", **options)

    return run


def running(postgres):
    return postgres.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'groundbox' AND state = 'active'"
    )[0][0]


def soon(condition):
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def test_rows_are_a_table_and_a_dataframe(box, ask):
    execution = ask("SELECT id, amount, day FROM orders ORDER BY id")

    table = execution.value[TABLE]
    assert execution.ok, execution.error
    assert [(f["name"], f["sql_type"]) for f in table["schema"]["fields"]] == [
        ("id", "integer"),
        ("amount", "numeric(9,2)"),
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
        "SELECT 9007199254740993::bigint AS big, true AS yes, 'é\"\\'::text AS t, '\\x00ff'::bytea AS b, "
        "'NaN'::float8 AS nan, ARRAY[1,2] AS a, '{\"k\": 1}'::json AS j, 'infinity'::timestamp AS ever, "
        "'2024-01-01 10:00+02'::timestamptz AS at, NULL::text AS nothing, 1 AS dup, 2 AS dup"
    )

    assert execution.ok, execution.error
    names = "big yes t b a j ever at"
    told = box.run(f"row = result.iloc[0]; [str(row[name]) for name in {names.split()}]")
    assert told.value["text/plain"].replace("\n", "") == (
        "['9007199254740993', 'True', 'é\"\\\\', \"b'\\\\x00\\\\xff'\", '{1,2}', '{\"k\": 1}', 'infinity',"
        " '2024-01-01 08:00:00+00:00']"
    )
    assert box.run("list(result.columns)[-2:], result.nan.isna()[0]").text == "(['dup', 'dup'], np.True_)"


def test_failures_name_their_place_and_what_there_is(ask):
    column = ask("SELECT id,\n  nam FROM customers").error
    table = ask("SELECT * FROM order_s").error
    ambiguous = ask("SELECT id FROM orders, customers").error

    assert (column.type, column.line) == ("UndefinedColumn", 2)
    assert "line 2, column 3\n      nam FROM customers\n      ^" in column.traceback
    assert column.hints[:2] == ("Did you mean `name of customers`?", "The columns of customers are: 'id', 'name'.")
    assert table.hints == ("Did you mean `orders`?", "The tables are: 'customers', 'orders'.")
    assert ambiguous.hints[0].startswith("`id` is a column of customers and of orders")


def test_rows_and_bytes_are_bounded_and_the_result_says_so(box, ask, postgres):
    many = ask("SELECT g FROM generate_series(1, 1000000) g")
    long = ask("SELECT repeat('x', 10000) AS x FROM generate_series(1, 1000) g")
    wide = ask("SELECT repeat('x', 100000000)")

    assert many.value[TABLE]["row_count"] == 5000
    assert many.value[TABLE]["row_count_exact"] is False
    assert "more than 5000 rows" in many.text
    assert 90 < long.value[TABLE]["row_count"] < 110
    assert wide.error.type == "RowTooLarge"
    assert soon(lambda: running(postgres) == 0)


def test_the_server_ends_what_takes_too_long(ask, postgres):
    execution = ask("SELECT pg_sleep(60)", wall_s=1)

    assert execution.outcome is gb.Outcome.TIMEOUT
    assert execution.state == "kept"
    assert 1 <= execution.usage.wall_s < 5
    assert soon(lambda: running(postgres) == 0)


def test_an_interrupt_cancels_on_the_server(box, ask, postgres):
    ask("SELECT 1")
    threading.Timer(1.0, box.interrupt).start()

    execution = ask("SELECT pg_sleep(9)")

    assert execution.outcome is gb.Outcome.CANCELLED
    assert soon(lambda: running(postgres) == 0)
    assert ask("SELECT 1 AS a").ok


def test_closing_the_sandbox_cancels_on_the_server(box, ask, postgres):
    ask("SELECT 1")
    threading.Timer(1.0, box.close).start()

    with pytest.raises(SandboxClosed):
        ask("SELECT pg_sleep(9)")

    assert soon(lambda: running(postgres) == 0)


def test_cancelling_the_callers_task_cancels_on_the_server(postgres):
    async def give_up():
        async with gb.AsyncSandbox(databases={"shop": Database(url=postgres.url("reader"))}) as box:
            await asyncio.wait_for(box.run("SELECT pg_sleep(9)", language="sql", database="shop"), 2)

    with pytest.raises(TimeoutError):
        asyncio.run(give_up())

    assert soon(lambda: running(postgres) == 0)


def test_a_database_that_was_not_given_is_refused(box):
    with pytest.raises(InvalidArgument, match="'other' was not given to this sandbox; there is: shop"):
        box.run("SELECT 1", language="sql", database="other")
    with pytest.raises(InvalidArgument, match="none; Sandbox"):
        gb.run("SELECT 1", language="sql", database="shop")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("postgresql://reader:hidden-word@127.0.0.1:1/shop", "it cannot be reached as configured"),
        ("postgresql://reader:hidden-word@/shop?host={folder}", "it refused the role or its password"),
        ("postgresql://reader:hidden%zzword@/shop?host={folder}", "it cannot be reached as configured"),
    ],
)
def test_what_cannot_be_reached_is_told_without_its_address(postgres, url, reason):
    database = Database(url=url.format(folder=postgres.folder))

    with gb.Sandbox(databases={"shop": database}) as box, pytest.raises(DatabaseUnavailable) as refused:
        box.run("SELECT 1", language="sql", database="shop")

    assert str(refused.value) == f"database 'shop': {reason}"
    assert refused.value.__cause__ is None
    assert "hidden" not in repr(database) + repr(refused.value)


def test_databases_are_described_in_a_file_of_their_owner(tmp_path, monkeypatch, postgres):
    monkeypatch.setenv("SHOP_URL", postgres.url("reader"))
    file = tmp_path / "databases.toml"
    file.write_text('[shop]\nurl_env = "SHOP_URL"\nmax_rows = 10\n[odd]\ncolour = 1\n')

    file.chmod(0o644)
    with pytest.raises(InvalidArgument, match="others may read it"):
        named("shop", file=file)
    file.chmod(0o600)

    assert named("shop", file=file) == Database(url=postgres.url("reader"), max_rows=10)
    for name, word in (("odd", "takes url"), ("none", "is not described")):
        with pytest.raises(InvalidArgument, match=word):
            named(name, file=file)


@pytest.mark.parametrize("settings", [{"url": "oracle://x"}, {"url": "postgresql://x", "max_rows": 0}])
def test_settings_that_cannot_be_meant_are_refused(settings):
    with pytest.raises(InvalidArgument):
        Database(**settings)


def test_a_schema_card_of_a_database(ask, postgres):
    postgres.execute("ANALYZE")

    card = ask("DESCRIBE ALL", max_tokens=500).text

    assert card.splitlines() == [
        "customers (table, about 2 rows)",
        "  id integer primary key: 1, 2",
        "  name text: Ada, Grace",
        "orders (table, about 3 rows)",
        "  id integer primary key: 1, 2, 3",
        "  customer_id integer -> customers.id: 1, 2",
        "  amount numeric(9,2): 10.50, 4.25",
        "  day date: 2024-01-01, 2024-01-02",
    ]


@pytest.fixture
def slow_views(postgres):
    """Eight views whose rows take a minute each; they come before the tables."""
    names = [f"a{number}" for number in range(8)]
    for name in names:
        postgres.execute(f"CREATE VIEW {name} AS SELECT pg_sleep(60)::text AS nap")
        postgres.execute(f"GRANT SELECT ON {name} TO reader")
    yield names
    postgres.execute(f"DROP VIEW IF EXISTS {', '.join(names)}")


def test_a_description_has_one_deadline_and_tells_what_it_left_out(postgres, monkeypatch, slow_views):
    asked = []
    ask = postgres_of.ask

    async def counted(name, database, sql, **options):
        asked.append(sql)
        return await ask(name, database, sql, **options)

    monkeypatch.setattr(postgres_of, "ask", counted)
    database = Database(url=postgres.url("reader"), timeout_s=2)

    with gb.Sandbox(databases={"shop": database}) as box:
        card = box.run("DESCRIBE ALL", language="sql", database="shop").text.splitlines()

    assert len(asked) <= 1 + 4, "each took a quarter of the time, and one had less left"
    assert [line.partition(" (")[0] for line in card if not line.startswith(" ")] == [
        *slow_views,
        "customers",
        "orders",
        "…",
    ]
    assert "  id integer primary key" in card
    assert card[-1] == "… (values, those of 10 tables left out, because of the time of 2 s)"
    assert soon(lambda: not running(postgres))


def test_one_slow_view_leaves_time_for_the_others(postgres, slow_views):
    postgres.execute(f"DROP VIEW {', '.join(slow_views[1:])}")

    database = Database(url=postgres.url("reader"), timeout_s=4)
    with gb.Sandbox(databases={"shop": database}) as box:
        card = box.run("DESCRIBE ALL", language="sql", database="shop").text.splitlines()

    assert "  name text: Ada, Grace" in card
    assert card[-1] == "… (values, those of 1 table left out, because of the time of 4 s)"


def test_empty_values_count_for_the_bound_of_bytes(postgres):
    database = Database(url=postgres.url("reader"), max_bytes=8000)
    empty = ", ".join(["''"] * 100)

    with gb.Sandbox(databases={"shop": database}) as box:
        execution = box.run(f"SELECT {empty} FROM generate_series(1, 1000)", language="sql", database="shop")

    assert execution.value[TABLE]["row_count"] == 10


def test_a_long_statement_is_sent_whole(ask):
    assert ask("SELECT 42 AS x /* " + "x" * 4_000_000 + " */").value[TABLE]["data"] == [{"x": 42}]


def test_a_statement_with_a_nul_is_refused(ask):
    assert "NUL" in ask("SELECT 1 /* \0 */").error.message


def test_a_server_that_does_not_go_on_after_the_connection_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            peer, _ = server.accept()
            peer.recv(8)
            peer.sendall(b"N")  # no TLS
            peer.recv(4096)
            peer.sendall(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I")  # authenticated, ready; and nothing more
            time.sleep(8)
            peer.close()

        threading.Thread(target=answer, daemon=True).start()
        database = Database(url=f"postgresql://reader@127.0.0.1:{server.getsockname()[1]}/shop", timeout_s=1)

        answered = asyncio.run(postgres_of.ask("shop", database, "SELECT 1"))

    assert answered.timed_out


def test_a_connection_that_failed_leaves_no_password_behind():
    database = Database(url="postgresql://reader:secret-word@127.0.0.1:1/shop")

    with pytest.raises(DatabaseUnavailable) as caught:
        asyncio.run(postgres_of.ask("shop", database, "SELECT 1"))

    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


def test_a_file_that_is_no_toml_leaves_no_password_behind(tmp_path):
    file = tmp_path / "databases.toml"
    file.write_text("url = postgresql://reader:secret-word@host/shop")
    file.chmod(0o600)

    with pytest.raises(InvalidArgument) as caught:
        named("shop", file=file)

    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
