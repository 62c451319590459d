"""Sheets of XLSX files as tables, in a real sandbox, for both engines."""

import io
import zipfile

import pytest

import groundbox as gb

pytestmark = pytest.mark.slow

TABLE = "application/vnd.dataresource+json"
DIALECTS = ("duckdb", "sqlite")
QUOTED = 'O\'Neil "x" #1'
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(1000)
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


def _opened():
    """A zip that begins with its media type, as LibreOffice writes it."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as book:
        book.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        book.writestr("content.xml", "<content/>")
    return file.getvalue()


ODS = _opened()


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


@pytest.mark.parametrize(
    ("cells", "kind", "expected"),
    [
        ("1, None, 3", "BIGINT", [1, None, 3]),
        ("1, None, 2.5", "DOUBLE", [1.0, None, 2.5]),
        ("1, None, 2**60", "BIGINT", [1, None, 2**60]),
        ("1, None, 10**20", "DOUBLE", [1.0, None, 1e20]),
        ("None, None", "DOUBLE", [None, None]),
        ("True, False", "BOOLEAN", [True, False]),
        ("True, None, False", "BOOLEAN", [True, None, False]),
        ("'NA', None, 'null'", "VARCHAR", ["NA", None, "null"]),
        ("1, 'N/A', None", "VARCHAR", ["1", "N/A", None]),
        ("day, None, 7", "VARCHAR", ["2024-01-02 00:00:00", None, "7"]),
        ("2.5, None, day", "VARCHAR", ["2.5", None, "2024-01-02 00:00:00"]),
        ("clock, None, day", "VARCHAR", ["03:04:00", None, "2024-01-02 00:00:00"]),
        ("True, clock", "VARCHAR", ["True", "03:04:00"]),
        ("datetime.timedelta(hours=30), 1", "VARCHAR", ["1 day, 6:00:00", "1"]),
        ("clock, None, clock", "TIME", ["03:04:00", None, "03:04:00"]),
        ("day, None", "TIMESTAMP", ["2024-01-02T00:00:00", None]),
    ],
)
def test_a_column_is_what_its_cells_have_in_common(box, cells, kind, expected):
    times = "import datetime; day, clock = datetime.datetime(2024, 1, 2), datetime.time(3, 4)"
    assert box.run(f"{times}\nbook('kinds.xlsx', A=[['v', 'n'], *([each, 1] for each in [{cells}])])").ok

    execution = box.run("SELECT v FROM 'kinds.xlsx'", language="sql")

    assert execution.ok, execution.error
    assert [field["sql_type"] for field in execution.value[TABLE]["schema"]["fields"]] == [kind]
    assert [row["v"] for row in execution.value[TABLE]["data"]] == expected


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_text_that_says_that_there_is_nothing_is_a_text_in_sheets_and_csv(box, rows, dialect):
    box.files.write("codes.csv", "code,n\nNA,1\n,2\n")
    box.run("book('codes.xlsx', A=[['code', 'n'], ['NA', 1], [None, 2]])")

    assert rows("SELECT * FROM 'codes.csv'", dialect) == [["NA", 1], [None, 2]]
    assert rows("SELECT * FROM 'codes.xlsx'", dialect) == [["NA", 1], [None, 2]]


FAR = """
made = openpyxl.Workbook()
made.active.append(['a'])
made.active.append([1])
made.create_sheet('Far')['SZ1000000'] = 'end'
made.save('far.xlsx')
"""
REACH = "far.xlsx: the cells of the sheet 'Far' reach to row 1000000 and column 520"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_cell_that_stands_far_off_is_no_end_of_the_session(box, rows, dialect):
    box.run(FAR)

    error = box.run("SELECT * FROM 'far.xlsx#Far'", language="sql", dialect=dialect).error
    card = box.run("DESCRIBE ALL", language="sql", dialect=dialect).text

    assert (error.type, error.message.partition(",")[0]) == ("SpreadsheetError", REACH)
    assert f"'far.xlsx#Far' (sheet, cannot be read: {REACH}" in card
    assert rows("SELECT * FROM 'far.xlsx'", dialect) == [[1]]


@pytest.mark.parametrize(
    "claimed", ['<dimension ref="A1:XFD1048576"/>', '<dimension ref="A1"/>', "", '<dimension ref="B2:B2"/>']
)
def test_the_size_that_a_sheet_claims_is_not_believed(box, rows, claimed):
    box.run(f"""
import zipfile
book('plain.xlsx', A=[['a', 'b'], [1, None], [None, 'end']])
with zipfile.ZipFile('plain.xlsx') as old, zipfile.ZipFile('claimed.xlsx', 'w') as new:
    for name in old.namelist():
        new.writestr(name, old.read(name).replace(b'<dimension ref="A1:B3" />', {claimed.encode()!r}))
    assert name and b'<dimension ref="A1:B3" />' in old.read('xl/worksheets/sheet1.xml')
""")

    assert rows("SELECT * FROM 'claimed.xlsx'") == [[1, None], [None, "end"]]


def test_a_workbook_that_is_large_unpacked_is_listed_and_not_read(box):
    box.run("""
import zipfile
book('plain.xlsx', A=[['a'], [1]], B=[])
with zipfile.ZipFile('plain.xlsx') as old, zipfile.ZipFile('book.xlsx', 'w', zipfile.ZIP_DEFLATED) as new:
    for name in old.namelist():
        blanks = b' ' * (65 << 20) if name == 'xl/theme/theme1.xml' else b''
        new.writestr(name, old.read(name) + blanks)
import os
os.remove('plain.xlsx')
""")

    card = box.run("DESCRIBE ALL", language="sql").text

    assert card.splitlines() == ["'book.xlsx' (sheet A, not read)", "'book.xlsx#B' (sheet, not read)"]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("content", "told"),
    [
        (OLE, "it is a workbook of the older kind, XLS; save it as XLSX"),
        (OLE + "EncryptedPackage".encode("utf-16-le"), "it is encrypted; save it without a password"),
        (ODS, "it is an OpenDocument; save it as XLSX"),
        (b"a,b\n1,2\n", "File is not a zip file"),
    ],
)
def test_what_another_file_is_that_is_called_xlsx_is_told(box, dialect, content, told):
    box.files.write("other.xlsx", content)

    error = box.run("SELECT * FROM 'other.xlsx'", language="sql", dialect=dialect).error
    named = box.run("SELECT * FROM 'other.xlsx#A'", language="sql", dialect=dialect).error
    card = box.run("DESCRIBE ALL", language="sql", dialect=dialect).text

    assert (error.type, error.message) == (named.type, named.message) == ("SpreadsheetError", f"other.xlsx: {told}")
    assert f"'other.xlsx' (file, {len(content)} bytes, cannot be read: other.xlsx: {told})" in card


def test_a_sheet_that_holds_a_chart_is_no_table(box, rows):
    box.run("""
import openpyxl.chart
made = openpyxl.Workbook()
made.active.append(['a'])
made.active.append([1])
chart = openpyxl.chart.BarChart()
chart.add_data(openpyxl.chart.Reference(made.active, 1, 1, 1, 2))
made.create_chartsheet('Chart', 0).add_chart(chart)
made.save('chart.xlsx')
""")

    assert rows("SELECT * FROM 'chart.xlsx'") == rows("SELECT * FROM 'chart.xlsx#Sheet'") == [[1]]
    assert "Chart" not in box.run("DESCRIBE ALL", language="sql").text
