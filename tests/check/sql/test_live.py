"""Checks of queries over the tables of a live sandbox."""

import pytest

import groundbox as gb
from groundbox.check import check_sql
from groundbox.check.sql.live import SandboxDatabase
from groundbox.errors import InvalidArgument

pytest.importorskip("sqlglot", reason="sqlglot is not installed: pip install 'groundbox[check]'")
TABLES = (
    "CREATE TABLE customer (id INTEGER PRIMARY KEY, name VARCHAR(9), city VARCHAR(9));"
    "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customer (id));"
    "INSERT INTO customer VALUES (1, 'Ada', 'Paris'), (2, 'Grace', 'Rome');"
    "INSERT INTO orders VALUES (7, 1), (8, 1); SELECT count(*) AS n FROM orders"
)


@pytest.mark.parametrize("dialect", ["duckdb", "sqlite"])
def test_a_live_sandbox_is_asked_and_keeps_its_result(dialect):
    with gb.Sandbox() as box:
        assert box.run(TABLES, language="sql", dialect=dialect).ok
        database = SandboxDatabase(box, dialect=dialect)

        case = check_sql("SELECT name FROM customer WHERE city = 'paris'", database=database)
        key = check_sql("SELECT name FROM customer JOIN orders ON customer.id = orders.id", database=database)
        kept = box.run("int(result.n[0]), len(_sql)").text
        again = box.run("SELECT 5 AS five", language="sql", dialect=dialect).ok and box.run("list(result.columns)").text

    assert "sql.value_case" in {warning.code for warning in case}
    assert "sql.join_not_the_key" in {warning.code for warning in key}
    assert kept == "(2, 1)"
    assert again == "['five']"


def test_tables_of_an_attached_file_are_seen():
    with gb.Sandbox() as box:
        made = "ATTACH 'shop.db' AS shop; CREATE TABLE shop.town (name TEXT); INSERT INTO town VALUES ('Rome')"
        assert box.run(made, language="sql", dialect="sqlite").ok

        warnings = check_sql("SELECT 1 FROM town WHERE name = 'rome'", database=SandboxDatabase(box, dialect="sqlite"))

    assert "sql.value_case" in {warning.code for warning in warnings}


def test_a_data_frame_is_a_table():
    with gb.Sandbox() as box:
        box.run("import pandas as pd; towns = pd.DataFrame({'name': ['Rome', 'Oslo'], 'size': [3, 1]})")
        database = SandboxDatabase(box)

        warnings = check_sql("SELECT size FROM towns ORDER BY size DESC LIMIT 1 OFFSET 5", database=database)

    assert "sql.does_not_run" not in {warning.code for warning in warnings}


def test_a_database_of_the_sandbox_is_asked_by_its_name(postgres):
    from groundbox.databases.database import Database

    with gb.Sandbox(databases={"shop": Database(url=postgres.url("reader"))}) as box:
        database = SandboxDatabase(box, dialect="postgres", database="shop")
        names = {table.name for table in database.schema()}
        warnings = check_sql("SELECT 1 WHERE 1 = NULL", database=database)

    assert names
    assert "sql.equals_null" in {warning.code for warning in warnings}


def test_an_engine_that_there_is_not_is_refused():
    with pytest.raises(InvalidArgument, match="dialect"):
        SandboxDatabase(None, dialect="oracle")
