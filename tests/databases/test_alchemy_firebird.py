"""A sandbox that asks a real Firebird server by its dialect of SQLAlchemy, as the role that docs/sql.md sets up."""

import asyncio
import threading
import time

import pytest

import groundbox as gb
from groundbox.databases import alchemy
from groundbox.databases.answer import DatabaseUnavailable
from groundbox.databases.database import Database

TABLE = "application/vnd.dataresource+json"
ENDLESS = "SELECT count(*) FROM rdb$fields a, rdb$fields b, rdb$fields c, rdb$fields d"


@pytest.fixture
def database(firebird):
    def made(role="reader", **settings):
        return Database(url=firebird.url(role), allow_powerful=True, **{"timeout_s": 60, **settings})

    return made


@pytest.fixture
def ask(database):
    with gb.Sandbox(databases={"shop": database(max_rows=5000, max_bytes=1 << 20)}) as box:
        yield lambda source, **options: box.run(source, language="sql", database="shop", **options)


def asked(database, sql):
    return asyncio.run(alchemy.ask("shop", database, sql))


def running(firebird):
    return firebird.execute("SELECT count(*) FROM mon$attachments WHERE mon$user = 'READER'")[0][0]


def begun(firebird):
    query = "SELECT count(*) FROM mon$statements WHERE mon$state = 1 AND mon$sql_text LIKE '%rdb$fields d'"
    return firebird.execute(query)[0][0]


def soon(condition):
    deadline = time.monotonic() + 30
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def test_rows_are_a_table_and_the_warning_names_the_server(ask):
    execution = ask("SELECT id, amount, ordered FROM orders WHERE '5%' LIKE '%%' ORDER BY id")

    assert execution.ok, execution.error
    table = execution.value[TABLE]
    assert [(f["name"], f["sql_type"]) for f in table["schema"]["fields"]] == [
        ("ID", "integer"),
        ("AMOUNT", "decimal(9,2)"),
        ("ORDERED", "date"),
    ]
    assert table["data"][0] == {"ID": 1, "AMOUNT": 10.5, "ORDERED": "2024-01-01"}
    assert table["data"][2] == {"ID": 3, "AMOUNT": None, "ORDERED": None}
    (warning,) = execution.warnings
    assert "cannot read the grants of firebird: it may be able to write" in warning.message


def test_values_of_many_types_arrive(database):
    answer = asked(
        database(),
        "SELECT 9007199254740993 AS big, true AS yes, CAST('é\"' AS varchar(9)) AS t, CAST(x'00ff' AS blob) AS b, "
        "1.5e0 AS f, CAST('2024-01-01 10:00:00.5' AS timestamp) AS moment, CAST('10:00' AS time) AS clock, "
        "NULL AS nothing, CAST('text' AS blob sub_type text) AS c FROM rdb$database",
    )

    assert [list(answer.rows[0]), [field.type for field in answer.fields]] == [
        [9007199254740993, True, 'é"', "\\x00ff", 1.5, "2024-01-01 10:00:00.500000", "10:00:00", None, "text"],
        ["integer", "boolean", "text", "binary", "double", "timestamp", "time", "text", "text"],
    ]


def test_what_a_statement_wrote_is_gone_afterwards(database, firebird):
    written = asked(database("sysdba"), "SELECT done FROM writes")

    assert (written.failure, written.rows) == (None, [[1]])
    assert firebird.execute("SELECT count(*) FROM log") == [(0,)]


def test_the_role_of_the_docs_may_not_write(database):
    assert "no permission" in asked(database(), "SELECT done FROM writes").failure["message"]


def test_rows_and_bytes_are_bounded_and_the_result_says_so(ask, database, firebird):
    many = ask("SELECT a.rdb$field_id AS n FROM rdb$relation_fields a, rdb$relation_fields b")
    wide = asked(database(max_bytes=5000), "SELECT rpad('x', 8000, 'x') AS x FROM rdb$database")

    assert many.value[TABLE]["row_count"] == 5000
    assert many.value[TABLE]["row_count_exact"] is False
    assert wide.failure["type"] == "RowTooLarge"
    assert soon(lambda: not running(firebird))


def test_a_query_over_its_time_is_gone_from_the_server(ask, firebird):
    execution = ask(ENDLESS, wall_s=1)

    assert execution.outcome is gb.Outcome.TIMEOUT
    assert execution.error.message == "the query was stopped at 1 s"
    assert soon(lambda: not running(firebird))


def test_cancelling_the_callers_task_ends_it_on_the_server(database, firebird):
    async def give_up():
        task = asyncio.ensure_future(alchemy.ask("shop", database(), ENDLESS))
        assert await asyncio.to_thread(soon, lambda: begun(firebird))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())

    assert not begun(firebird)
    assert soon(lambda: not running(firebird))
    assert soon(lambda: not [each for each in threading.enumerate() if each.name == "groundbox-alchemy"])


def test_failures_name_their_place_and_what_there_is(ask):
    column = ask("SELECT id,\n  nam FROM customers").error
    table = ask("SELECT * FROM order_s").error

    assert column.line == 2
    assert "line 2, column 3\n      nam FROM customers\n      ^" in column.traceback
    assert column.hints[:2] == ("Did you mean `name of customers`?", "The columns of customers are: 'id', 'name'.")
    assert table.hints[0] == "Did you mean `orders`?"


def test_a_schema_card_of_a_database(ask):
    card = ask("DESCRIBE ALL", max_tokens=500).text

    assert card.splitlines() == [
        "customers (table, not counted)",
        "  id integer primary key: 1, 2",
        "  name varchar(40) character set utf8: Ada, Grace",
        "log (table, not counted)",
        "  line varchar(40) character set utf8",
        "orders (table, not counted)",
        "  id integer primary key: 1, 2, 3",
        "  customer_id integer -> customers.id: 1, 2",
        "  amount numeric(9, 2): 10.50, 4.25",
        "  ordered date: 2024-01-01, 2024-01-02",
    ]


def test_a_wrong_password_and_a_file_without_a_server_are_refused(firebird):
    wrong = Database(url=firebird.url("reader", "hidden-word"), allow_powerful=True)
    embedded = Database(url=f"firebird+firebird:///{firebird.folder}/shop.fdb", allow_powerful=True)

    with pytest.raises(DatabaseUnavailable, match="'shop': it refused the role or its password$"):
        asked(wrong, "SELECT 1 FROM rdb$database")
    with pytest.raises(DatabaseUnavailable, match="names no host, and an engine in the host's process is not asked"):
        asked(embedded, "SELECT 1 FROM rdb$database")
