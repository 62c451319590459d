"""Results of few rows: told from Python's values, and the DataFrame that a cell finds is the one DuckDB makes."""

import pytest

import groundbox as gb
from groundbox.guest.sql import few

TABLE = "application/vnd.dataresource+json"
INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "HUGEINT")
KINDS = (*INTEGERS, "FLOAT", "DOUBLE", "DECIMAL(18,3)", "BOOLEAN", "VARCHAR", "DATE", "TIMESTAMP")
ONE = {"BOOLEAN": "true", "VARCHAR": "'x'", "DATE": "'2024-01-02'", "TIMESTAMP": "'2024-01-02 03:04:05.678'"}
COLUMNS = ", ".join(f"{ONE.get(kind, '7')}::{kind} AS c{n}" for n, kind in enumerate(KINDS))
NULLS = ", ".join(f"NULL::{kind} AS c{n}" for n, kind in enumerate(KINDS))
QUERIES = {
    "each kind": f"SELECT {COLUMNS}",
    "some NULL": f"SELECT {COLUMNS} UNION ALL SELECT {NULLS}",
    "all NULL": f"SELECT {NULLS}",
    "no rows": f"SELECT * FROM (SELECT {COLUMNS}) WHERE false",
    "numbers that are none": "SELECT 'nan'::DOUBLE AS a, 'inf'::DOUBLE AS b, '-inf'::FLOAT AS c, NULL::DOUBLE AS d",
    "ends of integers": "SELECT 9223372036854775807 AS a, 18446744073709551615::UBIGINT AS b, (-128)::TINYINT AS c",
    "one name twice": "SELECT 1 AS a, 2 AS a, 'x' AS b",
    "texts": "SELECT * FROM (VALUES (E'a\\tb\\n<i>&'), (''), (chr(0) || 'z'), ('é' || repeat('y', 2000))) t(s)",
    **{f"{rows} rows": f"SELECT range AS n, 't' || range AS s, DATE '2024-01-01' AS d FROM range({rows})"
       for rows in (1000, 1001, 1500, 2048, 2049, 80000)},
    "NULL from the 1,500th row on": "SELECT CASE WHEN range < 1500 THEN range END AS n FROM range(5000)",
}  # fmt: skip
SAME = """
import duckdb, pandas
own = duckdb.connect().execute(QUERY).df()
for name in own.columns[own.dtypes == "float64"]:  # of HUGEINT where no digit is lost
    if str(result.dtypes[name]) == "int64":
        own[name] = own[name].astype("int64")
pandas.testing.assert_frame_equal(result, own, check_exact=True)
assert result is _sql
"""


@pytest.fixture(scope="module")
def box():
    with gb.Sandbox(limits=gb.Limits(wall_s=60.0)) as opened:
        yield opened


@pytest.fixture
def sql(box):
    """Runs SQL and hands over what came of it."""

    def run(source, **options):
        return box.run(source, language="sql", **options)

    box.run("for name in ('result', '_sql'): globals().pop(name, None)")
    return run


def cell(box, source):
    execution = box.run(source)
    assert execution.ok, execution.error
    return execution


@pytest.mark.parametrize("name", QUERIES)
def test_the_frame_is_that_of_duckdb_and_its_types_are_told(box, sql, name):
    told = sql(QUERIES[name]).value[TABLE]

    cell(box, f"QUERY = {QUERIES[name]!r}\n{SAME}")
    found = cell(box, "print(*result.dtypes)").stdout
    assert [field["dtype"] for field in told["schema"]["fields"]] == found.split()


@pytest.mark.parametrize("name", [name for name in QUERIES if name not in ("80000 rows", "one name twice")])
def test_the_same_is_told_of_many_rows_as_of_few(sql, name):
    """A column of a kind that few rows are not held as makes them go the way of many."""
    few = sql(QUERIES[name]).value[TABLE]
    many = sql(f"SELECT *, TIME '01:02:03' AS other FROM ({QUERIES[name]})").value[TABLE]

    assert [{k: v for k, v in row.items() if k != "other"} for row in many["data"]] == few["data"]
    assert [field["sql_type"] for field in many["schema"]["fields"][:-1]] == [
        field["sql_type"] for field in few["schema"]["fields"]
    ]
    assert [field["type"] for field in many["schema"]["fields"][:-1]] == [
        field["type"] for field in few["schema"]["fields"]
    ]


def test_large_integers_are_told_to_the_last_digit(sql):
    told = sql("SELECT sum(n) AS n FROM (VALUES (9223372036854775807), (9223372036854775807)) t(n)").value

    assert told[TABLE]["data"] == [{"n": 18446744073709551614}]
    assert sql(f"SELECT {2**128 - 1}::UHUGEINT AS n").value[TABLE]["data"] == [{"n": 2**128 - 1}]


def test_a_date_without_end_is_not_taken_for_the_last_day(sql):
    assert sql("SELECT DATE '9999-12-31' AS d").value[TABLE]["data"] == [{"d": "9999-12-31"}]
    refused = sql("SELECT 'infinity'::DATE AS d")

    assert not refused.ok
    assert "infinity" in refused.error.message


def test_a_query_reads_the_result_of_the_one_before(box, sql):
    sql("SELECT 1 AS a")
    assert sql("SELECT a + 1 AS a FROM result").value[TABLE]["data"] == [{"a": 2}]
    assert sql("SELECT a + 1 AS a FROM result").value[TABLE]["data"] == [{"a": 3}]
    assert sql("SELECT a FROM _sql").value[TABLE]["data"] == [{"a": 3}]
    assert cell(box, "int(result.a[0])").value["text/plain"] == "3"


def test_a_view_over_results_reads_the_newest(sql):
    sql("SELECT 1 AS a")
    sql("CREATE OR REPLACE VIEW newest AS SELECT a FROM result")
    sql("SELECT 5 AS a")

    assert sql("FROM newest").value[TABLE]["data"] == [{"a": 5}]
    sql("DROP VIEW newest")


def test_a_variable_of_the_programs_own_stays_beside_what_is_not_made_yet(box, sql):
    cell(box, "result = 'mine'")
    told = [sql(f"SELECT {n} AS a") for n in (1, 2)]

    assert cell(box, "(result, int(_sql.a[0]))").value["text/plain"] == "('mine', 2)"
    assert all("result" not in each.text for each in told)


def test_a_card_shows_what_is_not_made_yet(sql):
    sql("SELECT 1 AS only_here")

    assert "only_here" in sql("DESCRIBE ALL").text


def test_a_program_that_breaks_pandas_keeps_its_session(box, sql):
    cell(box, "import pandas\nkept, pandas.DataFrame.__init__ = pandas.DataFrame.__init__, None")
    assert sql("SELECT 1 AS a").ok
    missing = box.run("result")
    cell(box, "pandas.DataFrame.__init__ = kept")

    assert missing.error.type == "NameError"
    assert "result: the last SQL result could not be made a DataFrame: TypeError" in missing.stderr
    sql("SELECT 2 AS a")
    assert cell(box, "int(result.a[0])").value["text/plain"] == "2"


def test_texts_that_take_much_memory_are_made_a_frame_at_once(box, sql):
    sizes = [few.MOST_CHARS // 2, few.MOST_CHARS // 2 + 1]
    held = [few.FewRows(["n", "s"], ["INTEGER", "VARCHAR"], [(1, "x" * size), (2, "x" * size)]) for size in sizes]

    assert [each.is_small for each in held] == [True, False]
    sql(f"SELECT repeat('x', {few.MOST_CHARS + 1}) AS s")
    assert cell(box, "len(result.s[0])").value["text/plain"] == str(few.MOST_CHARS + 1)
