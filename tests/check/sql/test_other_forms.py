"""Other forms of a query, shadows of its tables and results that are worked out again, on each engine."""

import pytest

from groundbox.check import check_sql
from groundbox.check.sql.budget import Budget
from groundbox.check.sql.checking import look
from groundbox.check.sql.source import QueryFailed

pytest.importorskip("sqlglot", reason="sqlglot is not installed: pip install 'groundbox[check]'")
SCRIPT = """
CREATE TABLE band (band_id INTEGER PRIMARY KEY, name TEXT, city TEXT, founded INTEGER, members INTEGER);
CREATE TABLE concert (concert_id INTEGER PRIMARY KEY, band_id INTEGER, place TEXT, held TEXT, seats TEXT, sold INTEGER,
                      FOREIGN KEY (band_id) REFERENCES band (band_id));
CREATE TABLE "order" (id INTEGER PRIMARY KEY, "group" INTEGER, "Two Words" TEXT);
CREATE TABLE loose (band_id INTEGER, score INTEGER);
CREATE VIEW active AS SELECT band_id, sold FROM concert WHERE sold > 0;
INSERT INTO band VALUES (1, 'Ash', 'Oslo', 1990, 4), (2, 'Birch', 'Rome', 2001, 3), (3, 'Cedar', NULL, 2005, 5),
                        (4, 'Ash', 'Rome', 2010, 2), (5, 'Elm', 'Rome', 1970, 3);
INSERT INTO concert VALUES (1, 1, 'Hall', '1/15/2024', '90', 60), (2, 1, 'Barn', '12/20/2023', '1,200', 900),
                           (3, 2, 'Hall', '2/3/2024', '100', 75), (4, 2, 'Park', '11/30/2023', 'N/A', 25);
INSERT INTO "order" VALUES (1, 2, 'a'), (2, 2, NULL), (3, 5, 'b');
INSERT INTO loose VALUES (1, 5), (1, 5), (2, 3), (5, 1);
"""
JOINED = "FROM band b JOIN concert c ON b.band_id = c.band_id"
OUTER = "FROM band b LEFT JOIN concert c ON b.band_id = c.band_id"
PAIRS = [
    # code, query with it, queries without it
    (
        "duplicates_by_join",
        f"SELECT b.band_id, b.name {JOINED} WHERE c.sold > 20",
        f"SELECT b.band_id, c.place {JOINED} WHERE c.sold > 20",
        f"SELECT DISTINCT b.band_id, b.name {JOINED} WHERE c.sold > 20",
        f"SELECT c.place {JOINED} WHERE b.founded > 1900",
        f"SELECT b.band_id, b.name {JOINED} WHERE c.sold > 500",
        "SELECT band_id, name FROM band WHERE band_id IN (SELECT band_id FROM concert WHERE sold > 20)",
    ),
    (
        "filter_repeats_sums",
        f"SELECT SUM(b.members) {JOINED} WHERE c.sold > 20",
        f"SELECT SUM(c.sold) {JOINED} WHERE b.founded > 1900",
        f"SELECT COUNT(*) {JOINED} WHERE c.sold > 20",
        f"SELECT COUNT(DISTINCT b.band_id) {JOINED} WHERE c.sold > 20",
        f"SELECT b.band_id, COUNT(b.band_id) {JOINED} GROUP BY b.band_id",
        f"SELECT MAX(b.members) {JOINED} WHERE c.sold > 20",
        "SELECT SUM(members) FROM band b WHERE EXISTS (SELECT 1 FROM concert c WHERE c.band_id = b.band_id)",
    ),
    (
        "filter_repeats_sums",
        "SELECT SUM(b.members) FROM band b JOIN loose l ON b.band_id = l.band_id",
        "SELECT SUM(l.score) FROM band b JOIN loose l ON b.band_id = l.band_id",
    ),
    (
        "outer_join_undone",
        f"SELECT b.band_id, c.place {OUTER} WHERE c.sold > 70",
        f"SELECT b.band_id, c.place {OUTER} AND c.sold > 70",
        f"SELECT b.band_id {OUTER} WHERE c.band_id IS NULL",
        f"SELECT b.band_id, c.place {OUTER} WHERE b.founded > 2000",
    ),
    (
        "negation_drops_null",
        "SELECT band_id FROM band WHERE city <> 'Rome'",
        "SELECT band_id FROM band WHERE city <> 'Rome' OR city IS NULL",
        "SELECT band_id FROM band WHERE city <> 'Rome' AND founded > 2005",
        "SELECT band_id FROM band WHERE city = 'Rome'",
        "SELECT band_id FROM band WHERE band_id <> 3",
    ),
    ("negation_drops_null", "SELECT band_id FROM band WHERE city NOT IN ('Rome', 'Bonn')"),
    ("negation_drops_null", "SELECT band_id FROM band WHERE NOT city LIKE 'R%'"),
    (
        "negation_drops_null",
        "SELECT band_id FROM band WHERE city NOT IN (SELECT place FROM concert)",
        "SELECT band_id FROM band WHERE members NOT IN (SELECT sold FROM concert)",
    ),
    (
        "union_drops_rows",
        "SELECT SUM(n) FROM (SELECT members AS n FROM band UNION SELECT sold FROM concert) AS counted",
        "SELECT SUM(n) FROM (SELECT members AS n FROM band UNION ALL SELECT sold FROM concert) AS counted",
        "SELECT MAX(n) FROM (SELECT members AS n FROM band UNION SELECT sold FROM concert) AS counted",
        "SELECT COUNT(*) FROM (SELECT members AS n FROM band UNION SELECT sold FROM concert) AS counted",
        "SELECT members FROM band UNION SELECT sold FROM concert",
    ),
    (
        "union_drops_rows",
        "WITH counted AS (SELECT members AS n FROM band UNION SELECT sold FROM concert) SELECT SUM(n) FROM counted",
    ),
    (
        "set_by_label",
        "SELECT name FROM band WHERE founded < 2000 INTERSECT SELECT name FROM band WHERE founded > 2005",
        "SELECT band_id FROM band WHERE founded < 2000 INTERSECT SELECT band_id FROM band WHERE founded > 2005",
        "SELECT city FROM band WHERE founded < 2000 INTERSECT SELECT city FROM band WHERE founded > 2005",
        "SELECT name FROM band WHERE founded > 2000 EXCEPT SELECT name FROM band WHERE founded > 2008",
    ),
    ("set_by_label", "SELECT name FROM band EXCEPT SELECT name FROM band WHERE founded > 2008"),
    (
        "set_by_label",
        "SELECT band_id FROM band WHERE name NOT IN (SELECT name FROM band WHERE founded > 2008)",
        "SELECT band_id FROM band WHERE name NOT IN (SELECT name FROM band WHERE founded = 2001)",
        "SELECT band_id FROM band WHERE city IN (SELECT city FROM band WHERE founded > 2008)",
    ),
    (
        "extreme_of_others",
        "SELECT name FROM band WHERE city = 'Rome' AND members = (SELECT MAX(members) FROM band)",
        "SELECT name FROM band WHERE city = 'Rome' AND members = (SELECT MAX(members) FROM band WHERE city = 'Rome')",
        "SELECT name FROM band WHERE city = 'Rome' AND founded = (SELECT MIN(founded) FROM band)",
        "SELECT name FROM band WHERE city = 'Rome' AND members < (SELECT MAX(members) FROM band)",
        "SELECT b.name FROM band b LEFT JOIN concert c ON c.band_id = b.band_id AND b.city = 'Rome' "
        "WHERE b.members = (SELECT MAX(members) FROM band)",
    ),
    (
        "extreme_of_others",
        "SELECT name FROM band WHERE members = (SELECT MIN(members) FROM band WHERE founded < 1980 AND city = 'Rome')",
        "SELECT name FROM band WHERE members = (SELECT MAX(members) FROM band WHERE founded = 2005)",
    ),
    (
        "recomputed_differs",
        "SELECT MAX(seats) FROM concert",
        "SELECT MAX(sold) FROM concert",
        "SELECT MIN(name) FROM band",
        "SELECT COUNT(seats) FROM concert",
        "SELECT place, SUM(sold) FROM concert GROUP BY place HAVING SUM(sold) > 30 ORDER BY SUM(sold) DESC",
    ),
    ("recomputed_differs", "SELECT place, MAX(seats) FROM concert GROUP BY place", "SELECT place FROM concert"),
    (
        "recomputed_differs",
        "SELECT COUNT(*) FROM concert WHERE held > '1/1/2024'",
        "SELECT COUNT(*) FROM concert WHERE held = '1/15/2024'",
    ),
]


def _pairs():
    for code, wrong, *right in PAIRS:
        yield pytest.param(code, wrong, right, id=f"{code}-{wrong[7:40]}")


class Watched:
    """A database that keeps what it was asked, and which queries failed."""

    def __init__(self, source):
        self._source, self.dialect = source, source.dialect
        self.asked, self.failed = [], []

    def schema(self):
        return self._source.schema()

    def query(self, sql, *, max_rows, timeout_s):
        self.asked.append(sql)
        try:
            return self._source.query(sql, max_rows=max_rows, timeout_s=timeout_s)
        except QueryFailed as failure:
            self.failed.append(f"{failure}: {sql}")
            raise


@pytest.fixture(scope="session", params=["sqlite", "duckdb", "postgres", "mysql"])
def music(request, database_of):
    return database_of(request.param, SCRIPT, "music")


def found(source, sql, **options):
    watched = Watched(source)
    warnings = {warning.code: warning for warning in check_sql(sql, database=watched, **options)}
    assert not {"sql.rule_failed", "sql.does_not_run", "sql.not_looked_at"} & set(warnings)
    assert watched.failed == []
    assert len(watched.asked) <= 20
    return warnings


@pytest.mark.parametrize(("code", "wrong", "right"), list(_pairs()))
def test_a_relation_tells_a_query_from_its_sibling(music, code, wrong, right):
    told = found(music, wrong)

    assert f"sql.{code}" in told, sorted(told)
    assert told[f"sql.{code}"].message
    assert told[f"sql.{code}"].hint
    for sibling in right:
        assert f"sql.{code}" not in found(music, sibling), sibling


HOSTILE = [
    # a table that is called like a keyword, columns with blanks, a view, and tables without keys
    ("filter_repeats_sums", 'SELECT SUM(b.members) FROM band b JOIN "order" o ON o."group" = b.band_id'),
    ("negation_drops_null", 'SELECT id FROM "order" WHERE "Two Words" <> \'a\''),
    ("filter_repeats_sums", "SELECT SUM(b.members) FROM band b JOIN active a ON a.band_id = b.band_id"),
    (
        "extreme_of_others",
        "SELECT sold FROM active WHERE band_id = 2 AND sold = (SELECT MAX(sold) FROM active)",
    ),
    # CTEs that are called like tables
    (
        "",
        "WITH concert AS (SELECT band_id FROM loose) SELECT SUM(b.members) FROM band b JOIN concert c USING (band_id)",
    ),
    ("", "WITH loose AS (SELECT * FROM band) SELECT name FROM loose WHERE members = (SELECT MAX(members) FROM loose)"),
    (
        "extreme_of_others",
        "WITH loose AS (SELECT name FROM band WHERE city = 'Rome' AND members = (SELECT MAX(members) FROM band)) "
        "SELECT name FROM loose",
    ),
    # nothing that a form says something of
    ("", "SELECT COUNT(*) FROM band b JOIN loose l ON b.band_id = l.band_id"),
    ("", "SELECT AVG(sold) / 0, MAX(seats) FROM concert WHERE 1 = 0"),
    ("", "SELECT MAX(seats) FROM concert WHERE seats LIKE '1%'"),
    ("", "SELECT members FROM band WHERE band_id NOT IN (SELECT band_id FROM band b WHERE b.members = band.members)"),
]
FORMS = {f"sql.{row[0]}" for row in PAIRS} - {"sql.duplicates_by_join"}


@pytest.mark.parametrize(("code", "sql"), HOSTILE)
def test_odd_names_and_queries_are_taken_for_what_they_are(music, code, sql):
    told = found(music, sql.replace('"', "`") if music.dialect == "mysql" else sql)

    assert FORMS & set(told) == ({f"sql.{code}"} if code else set())


def test_rows_that_a_join_repeats_are_counted_without_it(music):
    told = found(music, f"SELECT b.band_id, b.name {JOINED} WHERE c.sold > 20")["sql.duplicates_by_join"]
    grouped = found(music, f"SELECT c.place {JOINED} WHERE b.founded > 1900")

    assert told.evidence["with_exists"] == 2
    assert "the join with concert only chooses rows, and repeats them; with EXISTS in its place" in told.message
    assert "with_exists" not in grouped["sql.duplicate_rows"].evidence


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT b.name FROM band b JOIN active a ON a.band_id = b.band_id WHERE a.sold > 20", 2),
        ("SELECT b.name FROM band b JOIN loose l ON b.band_id = l.band_id ORDER BY b.name LIMIT 3", None),
        (
            "SELECT b.name FROM band b JOIN loose l ON b.band_id = l.band_id "
            "WHERE NOT EXISTS (SELECT 1 FROM loose l WHERE l.score = 9)",
            None,
        ),
    ],
    ids=["a view", "rows that another plan may choose otherwise", "an alias that is used twice"],
)
def test_a_join_is_made_exists_where_that_is_safe(music, sql, rows):
    assert found(music, sql)["sql.duplicates_by_join"].evidence.get("with_exists") == rows


def test_a_set_that_keeps_repetitions_is_not_compared_by_key(music):
    if music.dialect == "sqlite":
        pytest.skip("SQLite has no EXCEPT ALL")

    told = found(music, "SELECT name FROM band EXCEPT ALL SELECT name FROM band WHERE founded = 2001")

    assert "sql.set_by_label" not in told


def test_both_results_are_told(music):
    told = found(music, f"SELECT SUM(b.members) {JOINED}")["sql.filter_repeats_sums"]

    assert {str(told.evidence["first"][0][0]), str(told.evidence["other_first"][0][0])} == {"14", "7"}
    assert "the result is 14, with EXISTS in its place 7" in told.message


def test_a_sum_of_texts_that_mean_numbers_is_worked_out(database_of):
    script = (
        "CREATE TABLE sale (id INTEGER PRIMARY KEY, amount TEXT, pieces INTEGER, day TEXT);\n"
        "INSERT INTO sale VALUES (1, '1,200', 3, '31.12.2023'), (2, '$300', 'n/a', '01.02.2024'), (3, NULL, 4, '')"
    )
    sales = database_of("sqlite", script, "sales")

    def recomputed(sql):
        warning = found(sales, sql).get("sql.recomputed_differs")
        return warning and (warning.evidence["value"], warning.evidence["recomputed"], warning.evidence["meant"])

    assert recomputed("SELECT SUM(amount) FROM sale") == (1, 1500, {"amount": "numbers"})
    assert recomputed("SELECT AVG(pieces) FROM sale")[1:] == (3.5, {"pieces": "numbers"})
    assert recomputed("SELECT MAX(day) FROM sale") == ("31.12.2023", "2024-02-01", {"day": "days"})
    assert recomputed("SELECT COUNT(*) FROM sale WHERE day < '15.01.2024'") == (2, 1, {"day": "days"})
    assert recomputed("SELECT SUM(pieces) / COUNT(pieces) FROM sale WHERE id <> 2") == (3, 3.5, {})
    assert recomputed("SELECT SUM(pieces) * 1.0 / COUNT(pieces) FROM sale WHERE id <> 2") is None
    assert recomputed("SELECT SUM(id) / COUNT(*) FROM sale") is None


def test_rows_of_a_table_that_is_too_large_are_not_worked_out(music):
    sql = "SELECT MAX(seats) FROM concert"

    assert "sql.recomputed_differs" in found(music, sql, max_rows=4)
    assert "sql.recomputed_differs" not in found(music, sql, max_rows=3)


def test_a_slow_query_is_asked_in_no_other_form(music):
    now = iter(range(10_000))
    sql = f"SELECT SUM(b.members) {JOINED}"

    watched = Watched(music)
    seen = look(sql, watched, Budget(watched, max_queries=60, wall_s=9, max_rows=50, clock=lambda: next(now)))

    assert not [asked for asked in watched.asked if "EXISTS" in asked]
    assert "sql.filter_repeats_sums" not in {each.code for each in seen.findings}
    assert "the result with EXISTS" in next(note for note in seen.notes if note.code == "sql.budget_ended").message


def test_a_query_that_gives_other_rows_each_time_differs_in_nothing(music):
    random = {"sqlite": "RANDOM()", "duckdb": "RANDOM()", "postgres": "RANDOM()", "mysql": "RAND()"}[music.dialect]

    told = found(music, f"SELECT {random}, b.name {JOINED}")

    assert not FORMS & set(told)
