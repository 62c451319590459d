"""Checks of queries over the tables of a live sandbox."""

import pytest

import groundbox as gb
from groundbox.check import check_sql
from groundbox.check.sql.live import SandboxDatabase
from groundbox.errors import InvalidArgument

pytest.importorskip("sqlglot", reason="sqlglot is not installed: the extra `check` of groundbox brings it")
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

    assert "sql.value_absent" in {warning.code for warning in case}
    assert "sql.join_not_by_key" in {warning.code for warning in key}
    assert kept == "(2, 1)"
    assert again == "['five']"


def test_tables_of_an_attached_file_are_seen():
    with gb.Sandbox() as box:
        made = "ATTACH 'shop.db' AS shop; CREATE TABLE shop.town (name TEXT); INSERT INTO town VALUES ('Rome')"
        assert box.run(made, language="sql", dialect="sqlite").ok

        warnings = check_sql("SELECT 1 FROM town WHERE name = 'rome'", database=SandboxDatabase(box, dialect="sqlite"))

    assert "sql.value_absent" in {warning.code for warning in warnings}


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
    assert "sql.and_or_not" in {warning.code for warning in warnings}


def test_an_engine_that_there_is_not_is_refused():
    with pytest.raises(InvalidArgument, match="dialect"):
        SandboxDatabase(None, dialect="oracle")


CUSTOMERS = "id,name,city\n1,Ada,Paris\n2,Grace,Rome\n3,Alan,Paris\n"
ORDERS = "id,customer_id,amount\n1,1,10\n2,1,20\n3,2,5\n"
MADE = """
import pandas as pd
Towns = pd.DataFrame({'name': ['Rome', 'Oslo'], 'size': [3, 1]})
Towns.to_parquet('towns.parquet')
with pd.ExcelWriter('book.xlsx') as book:
    Towns.assign(name='Bonn').to_excel(book, sheet_name='First', index=False)
    Towns.to_excel(book, sheet_name='Sheet 2', index=False)
"""


@pytest.fixture(scope="module")
def shop_box():
    """A sandbox with files and a DataFrame, of which nothing was asked before."""
    with gb.Sandbox() as box:
        box.files.write("customers.csv", CUSTOMERS)
        box.files.write("data/Orders.csv", ORDERS)
        box.files.write("semicolons.txt", "name;size\nRome;3\nOslo;1\n")
        assert box.run(MADE).ok
        yield box


def codes(box, sql, dialect="duckdb"):
    return [warning.code for warning in check_sql(sql, database=SandboxDatabase(box, dialect=dialect))]


@pytest.mark.parametrize(
    ("dialect", "source"),
    [
        ("duckdb", "'towns.parquet'"),
        ("duckdb", '"towns.parquet" AS t'),
        ("duckdb", "read_parquet('towns.parquet')"),
        ("duckdb", "read_csv('semicolons.txt', delim = ';')"),
        ("duckdb", "Towns"),
        ("duckdb", "'book.xlsx#Sheet 2'"),
        ("duckdb", "read_xlsx('book.xlsx', sheet = 'Sheet 2')"),
        ("duckdb", "(SELECT * FROM 'towns.parquet')"),
        ("sqlite", "Towns"),
        ("sqlite", "'book.xlsx#Sheet 2'"),
        ("sqlite", "'towns.parquet'"),
    ],
)
def test_what_stands_behind_from_is_looked_at(shop_box, dialect, source):
    wrong = codes(shop_box, f"SELECT size FROM {source} WHERE name = 'rome'", dialect)
    right = codes(shop_box, f"SELECT size FROM {source} WHERE name = 'Rome'", dialect)

    assert wrong == ["sql.value_absent", "sql.empty_result"]
    assert right == []


@pytest.mark.parametrize("condition", ["lower(city) = 'paris'", "city ILIKE 'paris'", "lower(city) LIKE 'par%'"])
def test_a_comparison_of_any_case_finds_what_is_written_in_another(shop_box, condition):
    assert codes(shop_box, f"SELECT name FROM 'customers.csv' WHERE {condition}") == []
    assert codes(shop_box, f"SELECT name FROM 'customers.csv' WHERE {condition.replace('par', 'lon')}") != []


def test_columns_are_found_by_the_alias_that_the_engine_gives(shop_box):
    of_a_file = "SELECT customers.name FROM 'customers.csv' WHERE customers.city = 'paris'"
    of_a_call = "SELECT read_csv.name FROM read_csv('customers.csv') WHERE read_csv.city = 'paris'"

    assert codes(shop_box, of_a_file) == codes(shop_box, of_a_call) == ["sql.value_absent", "sql.empty_result"]


@pytest.mark.parametrize("dialect", ["duckdb", "sqlite"])
def test_a_column_that_is_unique_in_a_file_is_a_key_of_joins(shop_box, dialect):
    joined = "FROM 'data/Orders.csv' o JOIN 'customers.csv' c ON o.customer_id = c.id"

    assert codes(shop_box, f"SELECT c.city, sum(o.amount) AS total {joined} GROUP BY c.city", dialect) == []
    assert "sql.duplicates_by_join" in codes(shop_box, f"SELECT o.customer_id, sum(c.id) {joined} GROUP BY 1", dialect)


def test_a_column_that_is_unique_by_chance_is_nothing_that_was_grouped_by_in_error(shop_box):
    one_each = "SELECT c.name, sum(o.amount) AS total FROM 'data/Orders.csv' o JOIN 'customers.csv' c ON o.id = c.id"

    assert codes(shop_box, f"{one_each} GROUP BY c.name, c.id, o.id") == []


def test_files_join_a_table_with_keys_without_a_foreign_key():
    with gb.Sandbox() as box:
        assert box.run(TABLES, language="sql").ok
        box.files.write("stars.csv", "customer,stars\n1,5\n2,3\n")

        assert codes(box, "SELECT s.stars, c.name FROM 'stars.csv' s JOIN customer c ON s.customer = c.id") == []


def test_a_table_made_from_a_file_has_the_keys_of_its_data(shop_box):
    made = "CREATE OR REPLACE TABLE customers AS SELECT * FROM 'customers.csv'"
    assert shop_box.run(made, language="sql").ok

    joined = "FROM 'data/Orders.csv' o JOIN customers c ON o.customer_id = c.id"
    assert codes(shop_box, f"SELECT c.city, sum(o.amount) AS total {joined} GROUP BY ALL") == []


def test_a_file_that_is_not_there_is_no_table(shop_box):
    assert codes(shop_box, "SELECT a FROM 'nothing.csv'") == ["sql.does_not_run"]


def test_files_of_two_spellings_are_two(shop_box):
    shop_box.files.write("Pair.csv", "name\nAda\n")
    shop_box.files.write("other/pair.csv", "name\nBob\n")

    assert codes(shop_box, "SELECT name FROM 'Pair.csv' WHERE name = 'ada'")[0] == "sql.value_absent"
    assert codes(shop_box, "SELECT name FROM 'other/pair.csv' WHERE name = 'Bob'") == []
