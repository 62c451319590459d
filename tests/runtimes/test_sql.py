"""SQL in a real sandbox: both engines over files and DataFrames, results, failures, deadlines."""

import io
import threading
import zipfile

import pytest

import groundbox as gb
from groundbox.errors import InvalidArgument
from groundbox.guest.sql.card import token_count

SALES = "region,revenue,day\nnorth,120,2024-01-01\nsouth,80.5,2024-02-01\nnorth,30,\n"
TABLE = "application/vnd.dataresource+json"
ENDLESS = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t"
DIALECTS = ("duckdb", "sqlite")


@pytest.fixture
def box():
    with gb.Sandbox() as opened:
        opened.files.write("sales.csv", SALES)
        yield opened


@pytest.fixture
def sql(box):
    """Runs SQL and hands over what came of it."""

    def run(source, **options):
        return box.run(source, language="sql", **options)

    return run


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_file_is_a_table_and_the_result_is_data(sql, dialect):
    execution = sql("SELECT region, sum(revenue) AS total FROM 'sales.csv' GROUP BY 1 ORDER BY 1", dialect=dialect)

    table = execution.value[TABLE]
    assert execution.ok, execution.error
    assert table["data"] == [{"region": "north", "total": 150.0}, {"region": "south", "total": 80.5}]
    assert (table["row_count"], table["column_count"], table["truncated"]) == (2, 2, False)
    assert [field["name"] for field in table["schema"]["fields"]] == ["region", "total"]
    assert "<td>north</td><td>150.0</td>" in execution.value["text/html"]
    assert execution.text.endswith("(2 rows × 2 columns)")


def test_column_types_are_those_of_the_engine(sql):
    execution = sql("SELECT region, revenue, day, 1.50::DECIMAL(9,2) AS price, sum(7) OVER () AS n FROM 'sales.csv'")

    fields = execution.value[TABLE]["schema"]["fields"]
    assert [field["sql_type"] for field in fields] == ["VARCHAR", "DOUBLE", "DATE", "DECIMAL(9,2)", "HUGEINT"]
    assert execution.value[TABLE]["data"][0] == {
        "region": "north",
        "revenue": 120.0,
        "day": "2024-01-01",
        "price": 1.5,
        "n": 21,
    }
    assert execution.value[TABLE]["data"][2]["day"] is None


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_result_is_a_dataframe_for_the_next_cell_and_back(box, sql, dialect):
    sql("SELECT region, revenue FROM 'sales.csv'", dialect=dialect)

    seen = box.run("doubled = result.assign(revenue=result.revenue * 2); _sql is result")
    back = sql("SELECT max(revenue) AS most FROM doubled", dialect=dialect)

    assert seen.text == "True"
    assert back.value[TABLE]["data"] == [{"most": 240.0}]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("datetime.datetime(2024, 1, 2, 3, 4)", "2024-01-02 03:04:00"),
        ("datetime.date(2024, 1, 2)", "2024-01-02"),
        ("datetime.time(3, 4)", "03:04:00"),
        ("datetime.timedelta(hours=30, microseconds=5)", "1 day, 6:00:00.000005"),
        ("-(2**53)", -(2**53)),
        ("2**63", 2.0**63),
    ],
)
@pytest.mark.parametrize("more", ["", ", 'x'", ", None"])
def test_sqlite_holds_times_as_texts_and_large_numbers_as_floating_ones(box, sql, value, told, more):
    box.run(f"import datetime, pandas; made = pandas.DataFrame({{'v': pandas.Series([{value}{more}], dtype=object)}})")
    plain = box.run(f"plain = pandas.DataFrame({{'v': [{value}]}})")

    rows = sql("SELECT v FROM made", dialect="sqlite").value[TABLE]["data"]

    assert rows[0] == {"v": told}
    assert plain.ok
    assert sql("SELECT v FROM plain", dialect="sqlite").value[TABLE]["data"] == [{"v": told}]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_columns_whose_names_are_one_in_sql_are_told_apart(box, sql, dialect):
    box.run("import pandas; wide = pandas.DataFrame([[1, 2, 3, 4, 5]], columns=['a', 'A', 'b', 'A_1', 'a'])")

    execution = sql("SELECT * FROM wide", dialect=dialect)

    assert execution.ok, execution.error
    names = [field["name"] for field in execution.value[TABLE]["schema"]["fields"]]
    assert len({name.casefold() for name in names}) == 5
    assert names[:3] == ["a", "A_1", "b"]
    assert list(execution.value[TABLE]["data"][0].values()) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_dataframe_that_is_changed_or_gone_is_so_in_the_next_query(box, sql, dialect):
    box.run("import pandas as pd; df = pd.DataFrame({'a': [1]})")
    before = sql("SELECT a FROM df", dialect=dialect)

    box.run("df = pd.DataFrame({'a': [2], 'b': ['x']})")
    after = sql("SELECT a, b FROM df", dialect=dialect)

    assert before.value[TABLE]["data"] == [{"a": 1}]
    assert after.value[TABLE]["data"] == [{"a": 2, "b": "x"}]


def test_a_deleted_dataframe_is_no_table_any_more(box, sql):
    box.run("import pandas as pd; df = pd.DataFrame({'a': [1]})")
    assert sql("SELECT a FROM df").ok

    box.run("del df")

    assert sql("SELECT a FROM df").error.type == "CatalogException"


def test_a_variable_called_result_is_left_alone(box, sql):
    box.run("result = 'mine'")

    execution = sql("SELECT * FROM range(200)")

    assert box.run("result, len(_sql)").text == "('mine', 200)"
    assert "`_sql`" in execution.text


@pytest.mark.parametrize("dialect", DIALECTS)
def test_tables_live_between_runs_and_statements_follow_each_other(sql, dialect):
    made = sql("CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1), (2);", dialect=dialect)
    asked = sql("INSERT INTO t VALUES (3); SELECT count(*) AS n FROM t; UPDATE t SET a = 0", dialect=dialect)

    assert made.text.splitlines()[-1] == "INSERT: 2 rows"
    assert asked.value[TABLE]["data"] == [{"n": 3}]


def test_a_table_goes_before_a_dataframe_of_its_name(box, sql):
    box.run("import pandas as pd; df = pd.DataFrame({'a': [1]})")
    sql("CREATE TABLE df AS SELECT a + 1 AS a FROM df")

    assert sql("SELECT a FROM df").value[TABLE]["data"] == [{"a": 2}]


def test_what_travels_is_bounded_and_says_so(box, sql):
    execution = sql("SELECT range AS n FROM range(5000)")

    table = execution.value[TABLE]
    assert (len(table["data"]), table["row_count"], table["truncated"]) == (100, 5000, True)
    assert table["rest"] == "all are in the DataFrame `result`: result.iloc[100:]"
    assert execution.text.endswith(
        "(5000 rows × 1 column; shown: the first 20 rows; all are in the DataFrame `result`: result.iloc[20:])"
    )
    assert box.run("int(result.n.sum())").text == "12497500"


@pytest.mark.parametrize(
    ("dialect", "rows"),
    [
        ("duckdb", "SELECT range AS n FROM range(10000000)"),
        ("sqlite", "WITH RECURSIVE t(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM t LIMIT 10000000) SELECT n FROM t"),
    ],
)
def test_ten_million_rows_end_as_the_first_million(box, sql, dialect, rows):
    execution = sql(rows, dialect=dialect)

    assert execution.ok, execution.error
    assert execution.value[TABLE]["row_count_exact"] is False
    assert "more than 1000000 rows" in execution.text
    assert box.run("len(result)").text == "1000000"
    assert sql("SELECT 1 AS one", dialect=dialect).ok


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_query_without_end_is_stopped_and_the_tables_stay(sql, dialect):
    sql("CREATE TABLE kept (a INTEGER)", dialect=dialect)

    execution = sql(ENDLESS, dialect=dialect, wall_s=0.5)

    assert execution.outcome is gb.Outcome.TIMEOUT
    assert execution.state == "kept"
    assert sql("SELECT count(*) AS n FROM kept", dialect=dialect).value[TABLE]["data"] == [{"n": 0}]
    ends = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 3000) SELECT count(*) AS n FROM t"
    assert sql(ends, dialect=dialect).value[TABLE]["data"] == [{"n": 3000}]


def test_a_query_can_be_interrupted(box, sql):
    sql("SELECT 1")
    threading.Timer(0.7, box.interrupt).start()

    execution = sql(ENDLESS)

    assert execution.outcome is gb.Outcome.CANCELLED
    assert sql("SELECT 1 AS a").ok


def test_memory_ends_a_query_and_not_the_session(sql):
    sql("CREATE TABLE kept AS SELECT 1 AS a")

    execution = sql("SELECT list(range) FROM range(1000000000)")

    assert execution.outcome is gb.Outcome.MEMORY
    assert sql("SELECT a FROM kept").ok


def test_results_are_exported_as_csv_parquet_and_xlsx(box, sql):
    execution = sql(
        "COPY (SELECT * FROM 'sales.csv') TO 'a.csv'; COPY (SELECT * FROM 'sales.csv') TO 'a.parquet';"
        "COPY (SELECT region, revenue FROM 'sales.csv' WHERE revenue > 50) TO 'a.xlsx' (FORMAT xlsx)"
    )

    assert execution.text.splitlines() == ["COPY: 3 rows"] * 2 + ["COPY: 2 rows"]
    assert execution.artifacts["a.csv"].read().startswith(b"region,revenue")
    assert execution.artifacts["a.parquet"].read().startswith(b"PAR1")
    assert "xl/workbook.xml" in zipfile.ZipFile(io.BytesIO(execution.artifacts["a.xlsx"].read())).namelist()
    back = sql("SELECT region, revenue FROM 'a.xlsx' UNION ALL SELECT region, revenue FROM 'a.parquet'")
    assert back.value[TABLE]["row_count"] == 5


def test_json_and_a_database_file_are_read(box, sql):
    box.files.write("rows.json", '[{"a": 1, "b": ["x"]}, {"a": 2, "b": []}]')

    read = sql("SELECT a, len(b) AS n FROM 'rows.json' ORDER BY a")
    sql("ATTACH 'shop.db' AS shop; CREATE TABLE shop.orders AS SELECT 1 AS id; DETACH shop")

    assert read.value[TABLE]["data"] == [{"a": 1, "n": 1}, {"a": 2, "n": 0}]
    assert sql("ATTACH 'shop.db' AS again; SELECT id FROM again.orders").value[TABLE]["data"] == [{"id": 1}]


def test_sqlite_keeps_a_database_file(box, sql):
    made = sql("ATTACH 'shop.db' AS shop; CREATE TABLE shop.orders AS SELECT 7 AS id", dialect="sqlite")

    assert made.artifacts["shop.db"].read().startswith(b"SQLite format 3")
    assert sql("SELECT id FROM orders", dialect="sqlite").value[TABLE]["data"] == [{"id": 7}]


def _failure(execution):
    assert execution.outcome is gb.Outcome.ERROR, execution
    return execution.error


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_unknown_column_names_the_nearest_and_its_place(sql, dialect):
    error = _failure(sql("SELECT 1;\n\nSELECT region,\n       revenu\nFROM 'sales.csv'", dialect=dialect))

    assert error.line == 4
    assert "line 4, column 8\n           revenu\n           ^\n" in error.traceback
    assert error.hints == (
        "Did you mean `revenue of 'sales.csv'`?",
        "The columns of 'sales.csv' are: 'region', 'revenue', 'day'.",
    )


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_unknown_table_names_files_variables_and_tables(box, sql, dialect):
    box.run("import pandas as pd; orders = pd.DataFrame({'a': [1]})")
    sql("CREATE TABLE customers (id INTEGER)", dialect=dialect)

    of_file = _failure(sql("SELECT *\nFROM sales", dialect=dialect))
    of_frame = _failure(sql("SELECT * FROM order_s", dialect=dialect))
    of_table = _failure(sql("SELECT * FROM customer", dialect=dialect))

    assert of_file.line == 2
    assert of_file.hints == (
        "Did you mean `'sales.csv'`?",
        "There are: tables 'customers'; DataFrames 'orders'; files 'sales.csv'.",
    )
    assert of_frame.hints[0] == "Did you mean `orders`?"
    assert of_table.hints[0] == "Did you mean `customers`?"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_ambiguous_column_names_its_tables(sql, dialect):
    sql("CREATE TABLE a (id INTEGER, x INTEGER); CREATE TABLE b (id INTEGER)", dialect=dialect)

    error = _failure(sql("SELECT id FROM a, b", dialect=dialect))

    assert error.hints == ("`id` is a column of a and of b: write it with the table or its alias before it.",)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_syntax_error_names_its_line(sql, dialect):
    error = _failure(sql("SELECT 1;\nSELECT 1 frm x y z", dialect=dialect))

    assert "syntax error" in error.message
    assert dialect == "duckdb" or error.line == 2


def test_nothing_runs_when_a_later_statement_cannot_be_parsed(sql):
    _failure(sql("CREATE TABLE t (a INTEGER); SELEC 1"))

    assert _failure(sql("SELECT * FROM t")).type == "CatalogException"


@pytest.mark.parametrize(
    ("name", "data", "word"),
    [
        ("latin.csv", "name,n\nMüller,1\n".encode("latin-1"), "latin-1"),
        ("broken.parquet", b"not parquet", "Parquet"),
        ("broken.json", b'{"a": 1}\n{"a":', "JSON"),
        ("broken.xlsx", b"PK no zip", "xlsx"),
        ("empty.parquet", b"", "Parquet"),
    ],
)
def test_a_broken_file_is_a_failure_and_the_session_goes_on(box, sql, name, data, word):
    box.files.write(name, data)

    error = _failure(sql(f"SELECT * FROM '{name}'"))

    assert word in error.message + " ".join(error.hints)
    assert sql("SELECT 1 AS a").ok


def test_an_empty_csv_gives_no_rows(box, sql):
    box.files.write("empty.csv", "")

    assert sql("SELECT * FROM 'empty.csv'").value[TABLE]["row_count"] == 0


def test_a_file_in_another_encoding_can_be_read(box, sql):
    box.files.write("latin.csv", "name,n\nMüller,1\n".encode("latin-1"))

    execution = sql("SELECT name FROM read_csv('latin.csv', encoding = 'latin-1')")

    assert execution.value[TABLE]["data"] == [{"name": "Müller"}]


def test_a_file_of_windows_is_for_python(box, sql):
    box.files.write("windows.csv", "price\n3 €\n".encode("cp1252"))

    failure = sql("SELECT * FROM read_csv('windows.csv', encoding = 'latin-1')").error

    assert failure.hints == (
        "Files of Windows are in cp1252, which DuckDB does not read. "
        "A Python cell can read it into a DataFrame, which SQL can query by its name: "
        "pandas.read_csv('file.csv', encoding='cp1252'), or 'utf-16'.",
    )


def test_a_file_in_another_encoding_is_for_python_where_sqlite_is_the_engine(box, sql):
    box.files.write("latin.csv", "name\nZoë\n".encode("latin-1"))

    failure = sql("SELECT name FROM 'latin.csv'", dialect="sqlite").error

    assert failure.hints == (
        "The file is not UTF-8. A Python cell can read it into a DataFrame, which SQL can query by its name: "
        "pandas.read_csv('latin.csv', encoding='cp1252'), or 'cp1251', 'shift_jis', 'gb18030'.",
    )


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", ["old.xls", "Open.ods", "macros.XLSM"])
def test_a_file_that_only_python_can_read_is_said_to_be_one(box, sql, dialect, name):
    box.files.write(name, b"PK")

    there = sql(f"SELECT * FROM '{name}'", dialect=dialect).error.hints
    missing = sql(f"SELECT * FROM 'not{name}'", dialect=dialect).error.hints

    assert there[0] == (
        f"{name} is there, and no file that SQL reads: those are CSV, TSV, JSON, Parquet and XLSX. "
        "A Python cell can read it into a DataFrame, which SQL can query by its name."
    )
    assert "is there" not in " ".join(missing)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_ending_in_capitals_is_that_of_a_file_of_data(box, sql, dialect):
    box.run("import pandas; pandas.DataFrame({'n': [1]}).to_excel('made.xlsx', index=False)")
    box.files.write("CODES.CSV", "code\nx\n")
    box.run("import os; os.rename('made.xlsx', 'BOOK.XLSX')")

    card = sql("DESCRIBE ALL", dialect=dialect).text

    assert [line.partition(" (")[0] for line in card.splitlines() if "(" in line] == [
        "'BOOK.XLSX'",
        "'CODES.CSV'",
        "'sales.csv'",
    ]
    assert "cannot be read" not in card


def test_ragged_lines_are_a_failure_that_says_how_to_read_them(box, sql):
    box.files.write("ragged.csv", "a,b\n" + "1,2\n" * 30000 + "1,2,3,4\n")

    error = _failure(sql("SELECT sum(a) FROM read_csv('ragged.csv', header = true, columns = {a: 'INT', b: 'INT'})"))

    assert any("ignore_errors" in hint for hint in error.hints)


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"dialect": "oracle"}, "dialect"),
        ({"mode": "script"}, "mode"),
        ({"stdin": "x"}, "stdin"),
        ({"colour": "red"}, "colour"),
        ({"trace": True}, "trace"),
    ],
)
def test_what_makes_no_sense_for_sql_is_refused(sql, options, argument):
    with pytest.raises(InvalidArgument) as refused:
        sql("SELECT 1", **options)

    assert refused.value.argument == argument


def test_python_takes_no_option_of_sql(box):
    with pytest.raises(InvalidArgument, match="dialect: is no argument of run"):
        box.run("1", dialect="sqlite")


def test_one_program_in_a_sandbox_of_its_own():
    execution = gb.run(
        "SELECT count(*) AS n FROM 'sales.csv'", language="sql", dialect="sqlite", files={"sales.csv": SALES}
    )

    assert execution.value[TABLE]["data"] == [{"n": 3}]


def test_few_processes_are_enough():
    with gb.Sandbox(limits=gb.Limits(process_count=1)) as box:
        execution = box.run("SELECT sum(range) AS s FROM range(1000000)", language="sql")

    assert execution.value[TABLE]["data"] == [{"s": 499999500000}]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_schema_card_tells_what_there_is(box, sql, dialect):
    box.run("import pandas as pd; df = pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})")
    sql(
        "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO customers VALUES (1, 'Ada');"
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customers (id))",
        dialect=dialect,
    )

    card = sql("DESCRIBE ALL", dialect=dialect).text

    lines = card.splitlines()
    text = "VARCHAR" if dialect == "duckdb" else "TEXT"
    assert lines[lines.index("customers (table, 1 rows)") + 1 :][:2] == [
        "  id INTEGER primary key: 1",
        f"  name {text}: Ada",
    ]
    assert "  customer_id INTEGER -> customers.id" in lines
    assert lines[lines.index("df (DataFrame, 2 rows)") + 1] == "  a int64: 1, 2"
    assert "'sales.csv' (file, 3 rows)" in lines


def test_a_schema_card_keeps_to_its_tokens(sql):
    columns = ", ".join(f"a_rather_long_name_{i} INTEGER" for i in range(40))
    sql(";".join(f"CREATE TABLE table_{i} ({columns})" for i in range(10)))

    cards = {budget: sql("describe all", max_tokens=budget).text for budget in (10000, 3000, 400, 40)}

    assert all(token_count(card) <= budget for budget, card in cards.items())
    assert "a_rather_long_name_39 INTEGER" in cards[10000]
    assert "INTEGER" not in cards[3000] or "(values left out)" in cards[3000]
    assert "… 32 more" in cards[400] or "columns left out" in cards[400]
    assert cards[40].startswith("11 tables, columns left out; ")


def test_a_broken_file_does_not_end_the_card(box, sql):
    box.files.write("broken.parquet", b"nothing")

    card = sql("DESCRIBE ALL").text

    assert "'broken.parquet' (file, 7 bytes, cannot be read: " in card
    assert "'sales.csv' (file, 3 rows)" in card
