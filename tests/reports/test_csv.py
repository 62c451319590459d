"""Files of data as people have them, read by SQL: no value is changed in silence, and a hint is one that helps."""

import pytest

import groundbox as gb

TABLE = "application/vnd.dataresource+json"
LINES = 25_000
"""More than DuckDB looks at to guess types."""


@pytest.fixture(scope="module")
def box():
    with gb.Sandbox() as opened:
        yield opened


@pytest.fixture
def read(box):
    """Runs a query, and gives its rows."""

    def run(query, **options):
        execution = box.run(query, language="sql", **options)
        assert execution.ok, execution.error
        return [tuple(row.values()) for row in execution.value[TABLE]["data"]]

    return run


def write(box, name, first, *later, header="id,v", delimiter=","):
    lines = [header, *(f"{n},{first}" for n in range(LINES)), *(f"{LINES + n},{v}" for n, v in enumerate(later))]
    box.files.write(name, "\n".join(lines).replace(",", delimiter) + "\n")


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ("10000", "01234"),
        ("10", "1.5"),
        ("10", "+5"),
        ("10", "n/a"),
        ("1.5", "007.5"),
        ("true", "1"),
        ("2024-01-01", "5/1/2024"),
        ("10:00:00", "25:30:00"),
    ],
)
def test_a_value_behind_the_first_lines_is_as_it_is_written(box, read, first, later):
    write(box, "v.csv", first, later)

    ((value,),) = read(f"SELECT v FROM 'v.csv' WHERE id = {LINES}")

    assert str(value) == later


@pytest.mark.parametrize("first", ["a", "7"])
def test_quotes_behind_the_first_lines_are_no_part_of_the_text(box, read, first):
    write(box, "q.csv", first, '"x,y"', '"z"')

    rows = read(f"SELECT v FROM 'q.csv' WHERE id >= {LINES} ORDER BY id")

    assert rows == [("x,y",), ("z",)]
    execution = box.run("SELECT count(*) FROM read_csv('q.csv')", language="sql")
    assert any("quotes" in note.message for note in execution.warnings)


def test_quotes_that_a_program_names_are_left_alone(box, read):
    write(box, "q.csv", "a", '"z"')

    assert read(f"SELECT v FROM read_csv('q.csv', quote = '') WHERE id = {LINES}") == [('"z"',)]


def test_a_sum_of_texts_has_a_hint_that_helps(box):
    box.files.write("f.csv", "id;amount\n1;1.234,50\n2;2,75\n")

    hints = box.run("SELECT sum(amount) FROM 'f.csv'", language="sql").error.hints
    call = hints[-1].partition(": ")[2].rstrip(".").replace("file.csv", "f.csv")

    assert box.run(f"SELECT sum(amount) AS s FROM {call}", language="sql").value[TABLE]["data"] == [{"s": 1237.25}]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT v FROM 'z.csv' WHERE id = {n}",
        'SELECT v FROM "z.csv" WHERE id = {n}',
        "FROM 'z.csv' SELECT v WHERE id = {n}",
        "SELECT z.v FROM 'z.csv' WHERE z.id = {n}",
        "SELECT t.v FROM 'z.csv' t WHERE t.id = {n}",
        "SELECT t.v FROM 'z.csv' AS t WHERE t.id = {n}",
        "SELECT v FROM read_csv('z.csv') WHERE id = {n}",
        "SELECT v FROM read_csv_auto('z.csv', header = true) AS r WHERE id = {n}",
        "SELECT b.v FROM range({n}, {n} + 1) AS r(id), 'z.csv' AS b WHERE b.id = r.id",
        "SELECT z.v FROM range({n}, {n} + 1) AS r(id) JOIN 'z.csv' USING (id)",
        "WITH t AS (SELECT * FROM 'z.csv') SELECT v FROM t WHERE id = {n}",
        "CREATE OR REPLACE TABLE copied AS FROM 'z.csv'; SELECT v FROM copied WHERE id = {n}",
        "CREATE OR REPLACE VIEW seen AS FROM 'z.csv'; SELECT v FROM seen WHERE id = {n}",
        "COPY (FROM 'z.csv') TO 'other.parquet'; SELECT v FROM 'other.parquet' WHERE id = {n}",
    ],
)
def test_it_is_so_however_a_query_names_the_file(box, read, query):
    write(box, "z.csv", "10000", "01234")

    assert read(query.format(n=LINES)) == [("01234",)]


def test_it_is_so_with_options_of_the_program(box, read):
    write(box, "semicolons.txt", "10000", "01234", delimiter=";")

    rows = read(f"SELECT v FROM read_csv('semicolons.txt', delim = ';') WHERE id = {LINES}")

    assert rows == [("01234",)]


def test_a_note_names_the_column_and_the_type(box):
    write(box, "z.csv", "10000", "01234")

    execution = box.run("SELECT count(*) FROM 'z.csv'", language="sql")

    (note,) = execution.warnings
    assert (note.code, note.tier) == ("sql.csv_types", "note")
    assert note.evidence == {"file": "z.csv", "column": "v", "guessed": "BIGINT", "type": "VARCHAR"}


def test_types_that_a_program_names_are_left_alone(box, read):
    write(box, "z.csv", "10000", "01234")

    execution = box.run(
        f"SELECT v FROM read_csv('z.csv', types = {{'v': 'BIGINT'}}) WHERE id = {LINES}", language="sql"
    )

    assert [list(row.values()) for row in execution.value[TABLE]["data"]] == [[1234]]
    assert list(execution.warnings) == []


@pytest.mark.parametrize("later", ["20000", "", "7"])
def test_a_file_that_the_guess_fits_has_no_note(box, later):
    write(box, "even.csv", "10000", later)

    execution = box.run("SELECT sum(v) FROM 'even.csv'", language="sql")

    assert execution.ok
    assert list(execution.warnings) == []


def test_a_text_that_is_the_name_of_a_file_stays_a_text(box, read):
    write(box, "z.csv", "10000", "01234")

    assert read("SELECT 'a', 'z.csv' AS f FROM 'z.csv' WHERE id = 0 AND 'z.csv' = 'z.csv'") == [("a", "z.csv")]


def test_a_file_that_changes_is_looked_at_again(box, read):
    write(box, "z.csv", "10000", "01234")
    read("SELECT count(*) FROM 'z.csv'")
    box.files.write("z.csv", "id,v\n1,5\n")

    assert read("SELECT v FROM 'z.csv'") == [(5,)]


def test_an_error_is_in_its_place_of_the_text_that_the_program_wrote(box):
    write(box, "z.csv", "10000", "01234")

    error = box.run("SELECT *\nFROM 'z.csv' WHERE nope = 1", language="sql").error

    assert error.line == 2
    assert "    FROM 'z.csv' WHERE nope = 1\n                       ^" in error.traceback


@pytest.mark.parametrize(
    ("days", "read_as"),
    [
        (["04/07/20", "05/07/20"], ["04/07/20", "05/07/20"]),
        (["14/07/20", "05/07/20"], ["14/07/20", "05/07/20"]),
        (["04.07.20"], ["04.07.20"]),
        (["04-07-20 10:00"], ["04-07-20 10:00"]),
        (["31/07/99", "05/07/99"], ["1999-07-31", "1999-07-05"]),
        (["07/31/99", "05/07/99"], ["1999-07-31", "1999-05-07"]),
        (["2024-07-04"], ["2024-07-04"]),
        (["2024-07-04 10:00:00"], ["2024-07-04T10:00:00"]),
    ],
)
def test_a_day_whose_year_has_two_digits_is_a_text_unless_only_one_order_fits(box, read, days, read_as):
    box.files.write("days.csv", "place;day\n" + "".join(f"Lima;{day}\n" for day in days))

    assert [day for (day,) in read("SELECT day FROM 'days.csv'")] == read_as


def test_an_order_that_the_program_names_is_taken(box, read):
    box.files.write("days.csv", "place;day\nLima;04/07/20\n")

    rows = read("SELECT day FROM read_csv('days.csv', delim = ';', dateformat = '%d/%m/%y')")

    assert rows == [("2020-07-04",)]


def test_a_code_with_zeros_before_it_is_a_text_in_sqlite_too(box, read):
    box.files.write("codes.csv", "id,zip,share\n1,01234,0.5\n2,99999,07.5\n")

    assert read("SELECT id, zip, share FROM 'codes.csv'", dialect="sqlite") == [
        (1, "01234", "0.5"),
        (2, "99999", "07.5"),
    ]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("\ufeffid,v\n7,1\n", "encoding='utf-8-sig'"),
        ("v;id\n1;7\n", "sep=';'"),
        ("v\tid\n1\t7\n", "sep='\\t'"),
    ],
)
def test_a_column_that_is_there_and_not_found_has_a_hint_that_reads_it(box, text, hint):
    box.files.write("c.csv", text)
    failed = box.run("import csv\nfor row in csv.DictReader(open('c.csv')):\n    print(row['id'])")
    assert hint.replace("sep", "delimiter") in failed.error.hints[0]

    frame = "import pandas as pd\ndf = pd.read_csv('c.csv', {})\nprint(df['id'].tolist())"
    if "sep" in hint:
        assert hint in box.run(frame.format("")).error.hints[0]
    assert box.run(frame.format(hint)).stdout == "[7]\n"


TEXT = "name,city\nÄda,Köln\n"


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        (TEXT.encode("utf-16"), "The file is UTF-16: read_csv('odd.csv', encoding = 'utf-16')."),
        (TEXT.encode("utf-16-le"), "The file is UTF-16: read_csv('odd.csv', encoding = 'utf-16')."),
        (b"\xfe\xff" + TEXT.encode("utf-16-be"), "pandas.read_csv('odd.csv', encoding='utf-16')."),
        (TEXT.encode("utf-16-be"), "pandas.read_csv('odd.csv', encoding='utf-16-be')."),
        (TEXT.encode("utf-32"), "pandas.read_csv('odd.csv', encoding='utf-32')."),
        (TEXT.encode("latin-1"), "read_csv('odd.csv', encoding = 'latin-1') may read it."),
    ],
)
def test_a_hint_names_the_encoding_that_reads_the_file(box, data, hint):
    box.files.write("odd.csv", data)

    error = box.run("SELECT * FROM 'odd.csv'", language="sql").error
    call = hint.partition(": ")[2].rstrip(".") or hint.partition(" may")[0].rstrip(".")
    language = "python" if call.startswith("pandas") else "sql"
    followed = box.run(f"import pandas; {call}" if language == "python" else f"SELECT * FROM {call}", language=language)

    assert error.hints[0].endswith(hint)
    assert not any("latin-1" in each for each in error.hints if "UTF-" in error.hints[0].replace("not UTF-8", ""))
    assert "Äda" in followed.text
    assert "Köln" in followed.text
