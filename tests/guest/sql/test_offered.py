"""What a name in SQL reads: the variable or file that is spelled so, as it is now, also through a view."""

import pytest

import groundbox as gb

TABLE = "application/vnd.dataresource+json"
DIALECTS = ("duckdb", "sqlite")
MAKE = """
import os
import pandas as pd

def book(path, value):
    pd.DataFrame({'v': [value]}).to_excel(path, index=False)
"""


@pytest.fixture
def box():
    with gb.Sandbox() as opened:
        assert opened.run(MAKE).ok
        yield opened


@pytest.fixture
def ask(box):
    """The values of the column `v`, or the message of the failure."""

    def run(source, dialect="duckdb"):
        execution = box.run(source, language="sql", dialect=dialect)
        if not execution.ok:
            return execution.error.message
        return (
            [row["v"] for row in execution.value[TABLE]["data"]] if execution.value and TABLE in execution.value else []
        )

    return run


KINDS = [
    ("duckdb", "book('sales.xlsx', 1); book('Sales.xlsx', 2)", "'sales.xlsx'", "'Sales.xlsx'", "'SALES.xlsx'"),
    ("sqlite", "book('sales.xlsx', 1); book('Sales.xlsx', 2)", "'sales.xlsx'", "'Sales.xlsx'", "'SALES.xlsx'"),
    ("duckdb", "sales = pd.DataFrame({'v': [1]}); Sales = sales + 1", "sales", "Sales", "SALES"),
    ("sqlite", "sales = pd.DataFrame({'v': [1]}); Sales = sales + 1", "sales", "Sales", "SALES"),
    (
        "sqlite",
        "open('a.csv', 'w').write('v\\n1\\n'); open('A.csv', 'w').write('v\\n2\\n')",
        "'a.csv'",
        "'A.csv'",
        "'A.CSV'",
    ),
]


@pytest.mark.parametrize(("dialect", "make", "lower", "upper", "missing"), KINDS)
def test_a_name_reads_what_is_spelled_so(box, ask, dialect, make, lower, upper, missing):
    box.run(make)

    assert [ask(f"SELECT * FROM {name}", dialect) for name in (lower, upper, lower)] == [[1], [2], [1]]
    assert missing.strip("'") in ask(f"SELECT * FROM {missing}", dialect)
    both = ask(f"SELECT * FROM {lower} UNION ALL SELECT * FROM {upper}", dialect)
    assert "are one name in SQL, where upper and lower case are the same: a statement cannot read both" in both


def test_files_that_duckdb_reads_itself_are_two(box, ask):
    box.run("open('a.csv', 'w').write('v\\n1\\n'); open('A.csv', 'w').write('v\\n2\\n')")

    assert sorted(ask("SELECT * FROM 'a.csv' UNION ALL SELECT * FROM 'A.csv'")) == [1, 2]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_view_does_not_read_another_spelling_than_it_was_made_with(box, ask, dialect):
    box.run("book('sales.xlsx', 1); book('Sales.xlsx', 2)")
    ask("CREATE TEMP VIEW vw AS SELECT * FROM 'Sales.xlsx'", dialect)

    refused = ask("SELECT * FROM 'sales.xlsx'", dialect)

    assert "a view or the like reads 'Sales.xlsx'" in refused
    assert ask("SELECT * FROM vw", dialect) == [2]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_column_may_be_called_like_a_dataframe_in_another_case(box, ask, dialect):
    box.run("sales = pd.DataFrame({'Sales': [1]})")
    ask("CREATE TEMP VIEW vw AS SELECT Sales AS v FROM sales", dialect)

    assert ask("SELECT s.Sales AS v FROM sales AS s", dialect) == [1]
    assert ask("SELECT v, v AS Sales FROM vw", dialect) == [1]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_same_sheet_in_two_spellings_is_one(box, ask, dialect):
    box.run("book('b.xlsx', 1)")

    assert ask("SELECT * FROM 'b.xlsx#Sheet1' UNION ALL SELECT * FROM 'b.xlsx#SHEET1'", dialect) == [1, 1]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_letters_that_engines_do_not_fold_make_two_names(box, ask, dialect):
    box.run("book('é.xlsx', 1); book('É.xlsx', 2); book('straße.xlsx', 3); book('STRASSE.xlsx', 4)")

    names = ("é", "É", "straße", "STRASSE")
    assert ask(" UNION ALL ".join(f"SELECT * FROM '{name}.xlsx'" for name in names), dialect) == [1, 2, 3, 4]


def test_a_copy_of_a_file_that_is_gone_is_gone(box, ask):
    box.run("open('b.csv', 'w').write('v\\n1\\n')")
    assert ask("SELECT * FROM 'b.csv'", "sqlite") == [1]

    box.run("os.remove('b.csv')")

    assert ask("SELECT * FROM 'b.csv'", "sqlite") == "no such table: b.csv"


READS = [
    ("duckdb", "CREATE VIEW vw AS SELECT * FROM 'b.xlsx'", "SELECT * FROM vw"),
    ("duckdb", "CREATE VIEW vw AS SELECT * FROM 'b.xlsx#Sheet1'", "SELECT * FROM vw"),
    ("duckdb", "SELECT * FROM 'b.xlsx'", "SELECT * FROM read_xlsx('b.' || 'xlsx')"),
    ("duckdb", "PREPARE p AS SELECT * FROM 'b.xlsx'", "EXECUTE p"),
    ("duckdb", "CREATE VIEW vw AS SELECT * FROM 'b.xlsx'; PREPARE p AS SELECT * FROM vw", "EXECUTE p"),
    ("sqlite", "CREATE TEMP VIEW vw AS SELECT * FROM 'b.xlsx'", "SELECT * FROM vw"),
]


@pytest.mark.parametrize(("dialect", "before", "read"), READS)
def test_what_reads_a_sheet_without_naming_it_reads_it_as_it_is_now(box, ask, dialect, before, read):
    box.run("book('b.xlsx', 'old')")
    ask(before, dialect)
    assert ask(read, dialect) == ["old"]

    box.run("book('b.xlsx', 'new')")
    assert ask(read, dialect) == ["new"]

    box.run("os.remove('b.xlsx')")
    assert "b.xlsx" in ask(read, dialect) or ask(read, dialect) == 'Prepared statement "p" does not exist'


def test_a_view_on_a_copy_of_a_file_reads_it_as_it_is_now(box, ask):
    box.run("open('b.csv', 'w').write('v\\n1\\n')")
    ask("CREATE TEMP VIEW vw AS SELECT * FROM 'b.csv'", "sqlite")

    box.run("open('b.csv', 'w').write('v\\n22\\n')")

    assert ask("SELECT * FROM vw", "sqlite") == [22]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", ["b.xlsx", "b.csv"])
def test_a_file_that_broke_ends_no_statement_that_does_not_name_it(box, ask, dialect, name):
    box.run("book('b.xlsx', 1); open('b.csv', 'w').write('v\\n1\\n')")
    assert ask(f"SELECT * FROM '{name}'", dialect) == [1]

    box.run(f"open('{name}', 'wb').write(b'a\\nb,c,d\\n\\xff')")

    assert ask("SELECT 1 AS v", dialect) == [1]


def test_a_transaction_that_is_undone_brings_no_old_sheet_back(box, ask):
    box.run("book('b.xlsx', 'old')")
    ask("CREATE VIEW vw AS SELECT * FROM 'b.xlsx'; BEGIN")
    box.run("book('b.xlsx', 'new')")
    assert ask("SELECT * FROM vw") == ["new"]

    ask("ROLLBACK")

    assert ask("SELECT * FROM vw") == ["new"]
    assert ask("SELECT * FROM 'b.xlsx'") == ["new"]


def test_a_transaction_that_failed_can_be_ended_after_a_sheet_changed(box, ask):
    box.run("book('b.xlsx', 'old')")
    ask("SELECT * FROM 'b.xlsx'")
    ask("BEGIN; SELECT nothing")
    box.run("book('b.xlsx', 'new')")

    ask("ROLLBACK")

    assert ask("SELECT * FROM 'b.xlsx'") == ["new"]


def test_sqlite_copies_nothing_within_a_transaction(box, ask):
    box.run("sales = pd.DataFrame({'v': [1]})")

    assert ask("BEGIN; SELECT * FROM sales", "sqlite").startswith(
        "'sales' cannot be copied within a transaction: COMMIT"
    )
    ask("ROLLBACK", "sqlite")
    assert ask("SELECT * FROM sales", "sqlite") == [1]


def test_a_copy_that_fails_leaves_no_empty_table(box, ask):
    box.run("sales = pd.DataFrame({'v': [1, 10**400]})")

    failures = [ask("SELECT * FROM sales", "sqlite") for _ in range(2)]

    assert failures == ["int too large to convert to float"] * 2


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("table", ["sales", "Sales"])
def test_a_table_that_is_made_later_goes_before_a_dataframe(box, ask, dialect, table):
    box.run("sales = pd.DataFrame({'v': [1]})")
    assert ask("SELECT * FROM sales", dialect) == [1]

    ask(f"CREATE TABLE main.{table} (v INTEGER); INSERT INTO main.{table} VALUES (2)", dialect)

    assert ask("SELECT * FROM sales", dialect) == [2]
