"""Sheets of XLSX files as tables, in a real sandbox, for both engines."""

import pytest

import groundbox as gb

TABLE = "application/vnd.dataresource+json"
DIALECTS = ("duckdb", "sqlite")
QUOTED = 'O\'Neil "x" #1'
MAKE = """
import openpyxl

def book(path, **sheets):
    made = openpyxl.Workbook()
    made.remove(made.active)
    for title, rows in sheets.items():
        sheet = made.create_sheet(title)
        for row in rows:
            sheet.append(row)
    made.save(path)
"""


@pytest.fixture
def box():
    with gb.Sandbox() as opened:
        opened.run(MAKE)
        sheets = {"Plain": [["a"], [1]], "Sheet 2": [["b", "c"], [2, "x"], [3, "y"]], QUOTED: [["d"], [4]], "Empty": []}
        assert opened.run(f"book('book.xlsx', **{sheets!r})").ok
        yield opened


@pytest.fixture
def rows(box):
    """The rows of a query, as texts."""

    def run(source, dialect="duckdb"):
        execution = box.run(source, language="sql", dialect=dialect)
        assert execution.ok, execution.error
        return [list(row.values()) for row in execution.value[TABLE]["data"]]

    return run


@pytest.fixture
def hints(box):
    """The hints of a query that fails."""

    def run(source, dialect="duckdb"):
        execution = box.run(source, language="sql", dialect=dialect)
        assert execution.outcome is gb.Outcome.ERROR
        return list(execution.error.hints)

    return run


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("'book.xlsx'", [[1]]),
        ("'book.xlsx#Plain'", [[1]]),
        ("'book.xlsx#Sheet 2'", [[2, "x"], [3, "y"]]),
        ("'book.xlsx#SHEET 2' AS t WHERE t.b = 3", [[3, "y"]]),
        ('"book.xlsx#Sheet 2"', [[2, "x"], [3, "y"]]),
        ("'book.xlsx#O''Neil \"x\" #1'", [[4]]),
        ("'book.xlsx', 'book.xlsx#O''Neil \"x\" #1'", [[1, 4]]),
    ],
)
def test_a_sheet_is_a_table_by_its_name(rows, dialect, written, expected):
    assert rows(f"SELECT * FROM {written}", dialect) == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("read_xlsx('book.xlsx')", [[1]]),
        ("read_xlsx('book.xlsx', sheet = 'Sheet 2')", [[2, "x"], [3, "y"]]),
        ("READ_XLSX('book.xlsx',sheet='Sheet 2') AS t WHERE t.c = 'y'", [[3, "y"]]),
        ("read_xlsx('book.xlsx', sheet := 'O''Neil \"x\" #1')", [[4]]),
        ("read_xlsx('book.xlsx', sheet /* which */ = 'Sheet 2') WHERE (b = 2)", [[2, "x"]]),
    ],
)
def test_duckdbs_own_function_reads_sheets_without_its_extension(rows, call, expected):
    assert rows(f"SELECT * FROM {call}") == expected


def test_a_comparison_elsewhere_stays_one(rows):
    counted = "SELECT count(*) FROM read_xlsx('book.xlsx', sheet = 'Sheet 2') WHERE b = 2"

    assert rows(f"SELECT a = 1 AS same, ({counted}) AS n FROM 'book.xlsx'") == [[True, 1]]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_unknown_sheet_names_those_that_are_there(hints, dialect):
    names = "'Plain', 'Sheet 2', 'O\\'Neil \"x\" #1', 'Empty'"

    assert hints("SELECT * FROM 'book.xlsx#Shet 2'", dialect) == [
        "Did you mean `'book.xlsx#Sheet 2'`?",
        f"The sheets of book.xlsx are: {names}; 'book.xlsx#Name' is one of them.",
    ]


def test_an_unknown_sheet_in_a_call_names_those_that_are_there(hints):
    assert hints("SELECT * FROM read_xlsx('book.xlsx', sheet = 'Shet 2')")[0] == "Did you mean `'book.xlsx#Sheet 2'`?"


def test_what_a_call_cannot_take_is_told(hints):
    assert hints("SELECT * FROM read_xlsx('book.xlsx', header = false)")[0].startswith(
        "read_xlsx takes the path and sheet"
    )


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_empty_sheet_is_told(hints, dialect):
    assert hints("SELECT * FROM 'book.xlsx#Empty'", dialect)[0] == "The sheet 'Empty' of book.xlsx is empty."


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_unknown_file_names_those_that_are_there(hints, dialect):
    assert hints("SELECT * FROM 'bok.xlsx#Plain'", dialect)[0] == "Did you mean `'book.xlsx'`?"


def test_the_place_of_an_error_is_that_of_the_source(box):
    error = box.run("SELECT nothing\nFROM read_xlsx('book.xlsx', sheet = 'Sheet 2')", language="sql").error

    assert error.traceback.startswith("line 1, column 8\n    SELECT nothing\n           ^\n")
    assert error.hints == ("The columns of 'book.xlsx#Sheet 2' are: 'b', 'c'.",)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_text_that_looks_like_a_sheet_is_a_text(rows, dialect):
    assert rows("SELECT 'book.xlsx#nope' AS t", dialect) == [["book.xlsx#nope"]]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", ["broken.xlsx", "broken.xlsx#Plain"])
@pytest.mark.parametrize("cut", [0, 9, 3000])
def test_a_broken_file_is_a_failure_and_the_session_goes_on(box, rows, dialect, name, cut):
    box.run(f"open('broken.xlsx', 'wb').write(open('book.xlsx', 'rb').read()[:{cut}])")

    error = box.run(f"SELECT * FROM '{name}'", language="sql", dialect=dialect).error

    assert (error.type, error.message) == ("SpreadsheetError", "broken.xlsx: File is not a zip file")
    assert rows("SELECT * FROM 'book.xlsx'", dialect) == [[1]]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_sheet_that_changed_or_is_gone_is_so_in_the_next_query(box, rows, hints, dialect):
    assert rows("SELECT * FROM 'book.xlsx#Sheet 2'", dialect) == [[2, "x"], [3, "y"]]

    box.run("book('book.xlsx', Plain=[['a'], [7]], **{'Sheet 2': [['n'], [8]]})")
    assert rows("SELECT * FROM 'book.xlsx#Sheet 2'", dialect) == [[8]]

    box.run("book('book.xlsx', Plain=[['a'], [9]])")
    assert hints("SELECT * FROM 'book.xlsx#Sheet 2'", dialect) == [
        "The sheets of book.xlsx are: 'Plain'; 'book.xlsx#Name' is one of them."
    ]
    assert rows("SELECT * FROM 'book.xlsx'", dialect) == [[9]]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_file_whose_own_name_looks_like_a_sheet_is_read(box, rows, dialect):
    box.run("book('a.xlsx#b.xlsx', Plain=[['z'], [5]])")

    assert rows("SELECT * FROM 'a.xlsx#b.xlsx'", dialect) == [[5]]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_card_lists_every_sheet_as_it_is_written(box, dialect):
    box.files.write("broken.xlsx", b"PK no zip")
    types = (" BIGINT", " BIGINT", " VARCHAR", " BIGINT") if dialect == "duckdb" else ("",) * 4

    card = box.run("DESCRIBE ALL", language="sql", dialect=dialect).text

    assert card.splitlines() == [
        "'book.xlsx' (sheet Plain, 1 rows)",
        f"  a{types[0]}: 1",
        "'book.xlsx#Sheet 2' (sheet, 2 rows)",
        f"  b{types[1]}: 2, 3",
        f"  c{types[2]}: x, y",
        "'book.xlsx#O''Neil \"x\" #1' (sheet, 1 rows)",
        f"  d{types[3]}: 4",
        "'book.xlsx#Empty' (sheet, empty)",
        "'broken.xlsx' (file, 9 bytes, cannot be read: broken.xlsx: File is not a zip file)",
    ]


def test_a_result_replaces_a_spreadsheet_that_cannot_be_read(box, rows):
    box.files.write("broken.xlsx", b"PK no zip")

    assert box.run("COPY (SELECT 1 AS a) TO 'broken.xlsx'", language="sql").ok
    assert rows("SELECT * FROM 'broken.xlsx'") == [[1]]


def test_a_result_is_not_written_to_a_file_that_is_called_like_a_sheet(box):
    execution = box.run("COPY (SELECT 1 AS a) TO 'new.xlsx#Two'", language="sql")

    assert execution.error.message == "COPY writes a whole file, not a sheet of one: TO 'new.xlsx'"
    assert not execution.artifacts


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_sheet_outside_of_the_workdir_is_refused(box, dialect):
    error = box.run("SELECT * FROM '/etc/x.xlsx#a'", language="sql", dialect=dialect).error

    assert (error.type, error.message) == ("PermissionError", "'/etc/x.xlsx' is outside of the working directory")
