"""check_sql as a whole: what it asks, what it never does, and what it makes of texts and databases of any kind."""

import itertools
import sqlite3
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from groundbox.check import check_sql
from groundbox.check.sql.files import FileDatabase, rows_of
from groundbox.check.sql.source import Column, QueryFailed, Rows, Schema, Table, schema_of
from groundbox.databases.database import Database
from groundbox.errors import InvalidArgument

pytest.importorskip("sqlglot", reason="sqlglot is not installed: the extra `check` of groundbox brings it")

WRITES = (
    "DELETE FROM customer",
    "DROP TABLE customer",
    "UPDATE customer SET age = 1",
    "INSERT INTO customer (name) VALUES ('Eve')",
    "SELECT 1; DELETE FROM customer",
    "PRAGMA writable_schema = 1",
    "ATTACH 'other.db' AS other",
    "VACUUM INTO 'other.db'",
    "CREATE TABLE more AS SELECT * FROM customer",
    "WITH gone AS (SELECT 1) DELETE FROM customer",
)


class Asked:
    """A database that keeps what it is asked."""

    dialect = "sqlite"

    def __init__(self, answer=None):
        self.asked = []
        self._answer = answer or Rows(["name"], [("Ada",)])

    def schema(self):
        columns = [Column(name="name", type="TEXT"), Column(name="age", type="INTEGER")]
        return Schema([Table(name="customer", columns=columns)])

    def query(self, sql, *, max_rows, timeout_s):
        self.asked.append(sql)
        return self._answer


def codes(warnings):
    return {warning.code for warning in warnings}


def test_a_server_that_sqlalchemy_asks_is_not_checked():
    database = Database(url="oracle+oracledb://reader:hidden@h/shop", allow_powerful=True)

    (note,) = check_sql("SELECT 1", database=database)

    assert (note.code, note.tier) == ("sql.not_checked", "note")
    assert note.message.endswith("checks ask PostgreSQL, MySQL and MariaDB, and no server by SQLAlchemy")


def test_a_file_is_named_by_its_url(shop_file):
    sql = "SELECT name FROM customer WHERE city = 'paris'"

    absolute = check_sql(sql, database=f"sqlite:///{shop_file}")
    bare = check_sql(sql, database=f"sqlite://{shop_file}")

    assert [w.code for w in absolute] == [w.code for w in bare]
    assert absolute[0].code == "sql.value_absent"
    assert absolute[0].evidence["held"] == ["Paris"]
    assert absolute[0].evidence["measured"]["queries"] > 0


def test_the_strongest_finding_comes_first(shop):
    warnings = check_sql("SELECT * FROM customer WHERE city = 'paris' AND city = 'Rome' LIMIT 1", database=shop)

    ranks = [("error", "warn", "note").index(warning.tier) for warning in warnings]
    assert ranks == sorted(ranks)
    assert ranks[0] == 0


def test_a_sound_query_has_no_finding(shop):
    sql = "SELECT c.name FROM customer c JOIN orders o ON c.customer_id = o.customer_id WHERE o.total > 100"

    assert check_sql(sql, database=shop, question="Which customers have an order of more than 100 in total?") == []


@pytest.mark.parametrize("sql", WRITES)
def test_what_would_write_is_not_asked(sql):
    database = Asked()

    warnings = check_sql(sql, database=database)

    assert codes(warnings) == {"sql.not_looked_at"}
    assert database.asked == []


def test_a_candidate_that_would_write_is_not_asked():
    database = Asked()

    check_sql("SELECT name FROM customer", database=database, candidates=WRITES)

    assert [sql for sql in database.asked if not sql.startswith("SELECT")] == []


def test_a_file_cannot_be_written_even_by_its_own_reader(shop, shop_file):
    before = shop_file.read_bytes()

    for sql in WRITES:
        with pytest.raises(QueryFailed):
            shop.query(sql, max_rows=1, timeout_s=1)

    assert shop.query("SELECT COUNT(*) FROM customer", max_rows=1, timeout_s=1).rows == [(6,)]
    assert shop_file.read_bytes() == before


def test_two_candidates_that_agree_outvote_the_query(shop):
    right = "SELECT name FROM customer WHERE age > 40"
    other = "SELECT c.name FROM customer AS c WHERE NOT c.age <= 40"

    outvoted = check_sql("SELECT name FROM customer WHERE age < 30", database=shop, candidates=[right, other])
    alone = check_sql("SELECT name FROM customer WHERE age < 30", database=shop, candidates=[right])
    agreed = check_sql(right, database=shop, candidates=[other])

    assert codes(outvoted) == {"sql.candidates_disagree"}
    assert codes(alone) == {"sql.candidates_disagree"}
    assert alone[0].evidence["disagreeing"] == [right]
    assert agreed == []


def test_the_order_of_columns_and_of_rows_that_nobody_ordered_makes_no_difference(shop):
    one = "SELECT name, age FROM customer"
    other = "SELECT age, name FROM customer ORDER BY age"

    assert "sql.candidates_disagree" not in codes(check_sql(one, database=shop, candidates=[other]))


def test_rows_in_another_order_differ_where_both_are_ordered(shop):
    one = "SELECT name FROM customer ORDER BY customer_id"
    other = "SELECT name FROM customer ORDER BY customer_id DESC"

    assert "sql.candidates_disagree" in codes(check_sql(one, database=shop, candidates=[other]))


def test_a_candidate_that_fails_says_nothing(shop):
    warnings = check_sql(
        "SELECT name FROM customer", database=shop, candidates=["SELECT nothing FROM nowhere", "what?"]
    )

    assert not codes(warnings) & {"sql.candidates_disagree"}


def test_no_more_is_asked_than_the_budget_has_and_the_rest_is_told():
    database = Asked()

    warnings = check_sql("SELECT name FROM customer WHERE name = 'Eve'", database=database, max_queries=1)

    assert len(database.asked) == 1
    note = next(warning for warning in warnings if warning.code == "sql.budget_ended")
    assert note.tier == "note"
    assert "values of customer.name" in note.message


def test_the_time_is_that_of_all_queries_together(shop):
    numbers = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t)"
    endless = f"{numbers} SELECT COUNT(*) FROM t, customer WHERE name = 'X'"
    begun = time.monotonic()

    warnings = check_sql(endless, database=shop, wall_s=0.5)

    assert {"sql.does_not_run", "sql.budget_ended"} <= codes(warnings)
    assert time.monotonic() - begun < 20  # endless without the bound
    assert shop.query("SELECT 1", max_rows=1, timeout_s=1).rows == [(1,)]


def test_no_more_rows_are_taken_than_asked_for(shop):
    warnings = check_sql("SELECT city FROM customer", database=shop, max_rows=2)

    assert "sql.does_not_run" not in codes(warnings)


def test_a_query_that_fails_and_one_that_does_not_parse_are_notes(shop):
    assert codes(check_sql("SELECT nme FROM customer", database=shop)) == {"sql.does_not_run"}
    assert codes(check_sql("SELECT FROM WHERE ((", database=shop)) == {"sql.not_looked_at"}
    assert codes(check_sql("", database=shop)) == {"sql.not_looked_at"}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT " + ", ".join(f"name AS n{i}" for i in range(5000)) + " FROM customer",
        "SELECT " + "(" * 500 + "1" + ")" * 500,
        "SELECT name FROM customer WHERE " + " AND ".join(f"age > {i}" for i in range(900)),
        "SELECT name FROM customer WHERE " + " OR ".join(["age = 1"] * 1500),
        "SELECT 1" + " + 1" * 4000,
        " UNION ALL ".join(["SELECT 1"] * 700),
    ],
    ids=["long", "deep", "many conditions", "many alternatives", "a long sum", "many unions"],
)
def test_an_enormous_query_is_no_exception(shop, sql):
    check_sql(sql, database=shop)


WORDS = [
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP",
    "BY",
    "ORDER",
    "LIMIT",
    "JOIN",
    "ON",
    "AND",
    "OR",
    "NOT",
    "IN",
    "EXISTS",
    "(",
    ")",
    ",",
    "*",
    "=",
    "<>",
    "<",
    "1",
    "'x'",
    '"',
    "customer",
    "orders",
    "item",
    "name",
    "age",
    "total",
    "c",
    "o",
    "c.name",
    "o.total",
    "COUNT(",
    "SUM(",
    "DISTINCT",
    "UNION",
    "EXCEPT",
    "WITH",
    "AS",
    "LIKE",
    "'%a%'",
    "NULL",
    "IS",
    "CASE",
    "WHEN",
    "END",
    "OVER",
    "PARTITION",
    "BETWEEN",
    ";",
    "--",
    "/*",
    "||",
    "::",
    "[",
    "]",
    "{",
    "}",
    "@",
    "?",
    "$1",
    "LATERAL",
    "VALUES",
    "HAVING",
    "USING(name)",
    "NATURAL",
    "LEFT",
]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sql=st.one_of(st.text(max_size=60), st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join)),
    question=st.one_of(st.none(), st.text(max_size=60)),
    dialect=st.sampled_from(["sqlite", "duckdb", "postgres", "mysql"]),
)
def test_no_text_raises(sql, question, dialect):
    database = Asked(Rows(["a", "b"], [(1, None), ("x", 2.5)]))
    database.dialect = dialect

    warnings = check_sql(sql, database=database, question=question, candidates=[sql, "SELECT 1"])

    assert "sql.rule_failed" not in codes(warnings), (sql, [w.message for w in warnings])


SELECTS = st.builds(
    "SELECT {} FROM {} WHERE {} {}".format,
    st.sampled_from(["c.name", "*", "COUNT(*)", "c.city, MAX(o.total)", "DISTINCT o.status", "AVG(c.age) AS a"]),
    st.sampled_from(
        [
            "customer c JOIN orders o ON c.customer_id = o.customer_id",
            "customer c, orders o",
            "customer c LEFT JOIN orders o USING (customer_id)",
            "customer c NATURAL JOIN orders o",
            "(SELECT * FROM customer) c JOIN orders o ON o.customer_id = c.customer_id",
        ]
    ),
    st.sampled_from(
        [
            "c.city = 'paris'",
            "c.age > 30 AND (c.city <> 'Rome' OR o.total BETWEEN 1 AND 20)",
            "c.customer_id NOT IN (SELECT customer_id FROM review WHERE stars > 3)",
            "o.total = (SELECT MAX(total) FROM orders)",
            "EXISTS (SELECT 1 FROM item i WHERE i.order_id = o.order_id AND i.colour LIKE '%re%')",
            "1 = 1",
        ]
    ),
    st.sampled_from(["", "GROUP BY c.city", "GROUP BY c.customer_id HAVING COUNT(*) > 1", "ORDER BY c.age LIMIT 2"]),
)


@settings(max_examples=60, deadline=None)
@given(sql=SELECTS, question=st.sampled_from([None, "How many customers in Paris are not older than 30?", "Who?"]))
def test_every_combination_of_clauses_is_looked_at(shop, sql, question):
    warnings = check_sql(sql, database=shop, question=question)

    assert not codes(warnings) & {"sql.rule_failed", "sql.not_looked_at", "sql.budget_ended"}, (sql, warnings)


@pytest.mark.parametrize(
    "content",
    [b"", b"not a database" * 100, b"SQLite format 3\0" + bytes(range(256)) * 40],
    ids=["empty", "text", "a broken head"],
)
def test_a_file_that_is_no_database_is_a_note(tmp_path, content):
    path = tmp_path / "broken.db"
    path.write_bytes(content)

    warnings = check_sql("SELECT name FROM customer", database=f"sqlite:///{path}")

    assert {"sql.no_schema", "sql.does_not_run"} <= codes(warnings)
    assert {warning.tier for warning in warnings} == {"note"}


def test_a_file_with_damaged_pages_is_no_exception(tmp_path, shop_file):
    content = bytearray(shop_file.read_bytes())
    content[4096:] = bytes(byte ^ 0xA5 for byte in content[4096:])
    path = tmp_path / "damaged.db"
    path.write_bytes(content)

    check_sql("SELECT c.name FROM customer c, orders o WHERE city = 'Paris'", database=f"sqlite:///{path}")


def test_a_hostile_schema_is_only_read(tmp_path):
    path = tmp_path / "hostile.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(
            """
            CREATE TABLE "a""; DROP TABLE b; --" ("x'); DELETE FROM b; --" TEXT, "na" TEXT);
            CREATE TABLE b (n INTEGER);
            INSERT INTO b VALUES (1);
            INSERT INTO "a""; DROP TABLE b; --" VALUES ('one', 'two');
            CREATE VIEW endless AS WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT n FROM t;
            CREATE VIEW reaching AS SELECT load_extension('/tmp/x.so') AS n;
            """
        )
    connection.close()
    before = path.read_bytes()
    named = '"a""; DROP TABLE b; --"'

    with FileDatabase(path, "sqlite") as database:
        first = check_sql(f"SELECT na FROM {named} WHERE na = 'TWO'", database=database)
        second = check_sql("SELECT n FROM endless WHERE n < 0", database=database, wall_s=0.5)
        third = check_sql("SELECT n FROM reaching", database=database)

    assert "sql.value_absent" in codes(first)
    assert "sql.does_not_run" in codes(second)
    assert "sql.does_not_run" in codes(third)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "null", "{}", '{"columns": 1, "rows": []}', '{"columns": ["a"], "rows": [[1, 2]]}', "[" * 100_000),
        *('{"columns": ["a"], "rows": [[{"b": 1}]]}', '{"failure": ["x"]}'),
    ],
)
def test_what_the_sandbox_says_is_a_claim_that_is_checked(text):
    with pytest.raises(QueryFailed):
        rows_of(text, 10)


@pytest.mark.parametrize("filler", ["[],", "{},", "1,"])
def test_what_the_sandbox_says_is_not_read_when_it_is_too_large(filler, monkeypatch):
    """Two characters may stand for an object of many bytes."""
    monkeypatch.setattr("json.loads", lambda text: pytest.fail("it was read"))

    with pytest.raises(QueryFailed, match="too large"):
        rows_of('{"columns": [], "rows": [' + filler * 2_000_000 + "[]]}", 5_000)


def test_the_sandbox_gives_no_more_rows_than_it_was_asked_for():
    text = '{"columns": ["a"], "rows": [[1], [2], [3]], "complete": true}'

    assert rows_of(text, 3).rows == [(1,), (2,), (3,)]
    with pytest.raises(QueryFailed, match="has 3 rows, and 2 were asked for"):
        rows_of(text, 2)


@pytest.mark.parametrize("row", [("t", "table"), ("t", "table", "a", "INT", 0, "first"), (), tuple("abcdefgh")])
@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_a_database_that_answers_about_its_tables_with_anything_breaks_nothing(row, dialect):
    class Odd(Asked):
        def schema(self):
            return schema_of(self)

        def query(self, sql, *, max_rows, timeout_s):
            return Rows(["x"] * len(row), [row])

    odd = Odd()
    odd.dialect = dialect

    assert {warning.tier for warning in check_sql("SELECT a FROM t", database=odd)} <= {"note"}


@pytest.mark.parametrize("name", ["it's", 'a "shop"'])
def test_a_file_that_is_attached_under_any_name_is_seen(name):
    connection = sqlite3.connect(":memory:")
    connection.execute("ATTACH ':memory:' AS \"{}\"".format(name.replace('"', '""')))
    connection.execute(
        'CREATE TABLE "{}".kind (id INTEGER PRIMARY KEY, code TEXT UNIQUE)'.format(name.replace('"', '""'))
    )

    class Attached(Asked):
        def query(self, sql, *, max_rows, timeout_s):
            cursor = connection.execute(sql)
            return Rows([column[0] for column in cursor.description], cursor.fetchall())

    kind = schema_of(Attached()).table("kind")

    assert kind.primary == ("id",)
    assert set(kind.unique) == {frozenset({"id"}), frozenset({"code"})}


def test_a_duckdb_file_is_read_and_nothing_beside_it(tmp_path):
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed: the extra `data` of groundbox brings it")
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE customer (id INTEGER PRIMARY KEY, name VARCHAR, city VARCHAR)")
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customer (id))")
        connection.execute("INSERT INTO customer VALUES (1, 'Ada', 'Paris'), (2, 'Grace', 'Rome')")
        connection.execute("INSERT INTO orders VALUES (7, 1), (8, 1)")

    with FileDatabase(path, "duckdb") as database:
        case = check_sql("SELECT name FROM customer WHERE city = 'paris'", database=database)
        key = check_sql("SELECT name FROM customer JOIN orders ON customer.id = orders.id", database=database)
        refused = [
            is_refused(database, sql)
            for sql in (
                "DELETE FROM orders",
                "SELECT * FROM read_text('/etc/hostname')",
                "ATTACH 'x.db'",
                "SET threads = 1",
            )
        ]

    assert database.schema().table("orders").foreign[0].table == "customer"
    assert "sql.value_absent" in codes(case)
    assert "sql.join_not_by_key" in codes(key)
    assert all(refused)


def is_refused(database, sql):
    try:
        database.query(sql, max_rows=1, timeout_s=2)
    except QueryFailed:
        return True
    return False


SERVED = """
CREATE TABLE checked_customer (id INTEGER PRIMARY KEY, name VARCHAR(20) UNIQUE, city VARCHAR(20));
CREATE TABLE checked_orders (id INTEGER PRIMARY KEY, customer_id INTEGER, total INTEGER,
                             FOREIGN KEY (customer_id) REFERENCES checked_customer (id));
INSERT INTO checked_customer VALUES (1, 'Ada', 'Paris'), (2, 'Grace', 'Rome');
INSERT INTO checked_orders VALUES (7, 1, 10), (8, 1, 20);
"""


def is_checked_through(database):
    key = check_sql("SELECT name FROM checked_customer c JOIN checked_orders o ON c.id = o.id", database=database)
    absent = check_sql("SELECT name FROM checked_customer WHERE city = 'Pariss'", database=database)
    many = check_sql("SELECT SUM(o.total) / 2, c.name FROM checked_orders o, checked_customer c", database=database)

    assert "sql.join_not_by_key" in codes(key), key
    assert "sql.value_absent" in codes(absent), absent
    assert {"sql.join_not_by_key", "sql.arbitrary_row"} <= codes(many), many
    assert "sql.rule_failed" not in codes([*key, *absent, *many])


def test_a_postgres_server_is_asked_as_a_role_that_only_reads(postgres):
    for statement in SERVED.strip().split(";\n"):
        postgres.execute(statement)
    postgres.execute("GRANT SELECT ON checked_customer, checked_orders TO reader")
    try:
        is_checked_through(Database(url=postgres.url("reader")))
    finally:
        postgres.execute("DROP TABLE checked_orders, checked_customer")


def test_a_mariadb_server_is_asked_as_a_role_that_only_reads(mariadb):
    for statement in SERVED.strip().split(";\n"):
        mariadb.execute(statement)
    try:
        is_checked_through(Database(url=mariadb.url("reader")))
    finally:
        mariadb.execute("DROP TABLE checked_orders, checked_customer")


def test_an_address_that_nobody_answers_is_a_note():
    warnings = check_sql("SELECT 1", database="postgresql://nobody:secret@127.0.0.1:1/none")

    assert "sql.no_schema" in codes(warnings)
    assert not any("secret" in warning.message for warning in warnings)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("database", "shop.db"),
        ("database", "sqlite:///nowhere/shop.db"),
        ("database", "oracle://x"),
        ("database", 7),
        ("question", 7),
        ("candidates", "SELECT 1"),
        ("candidates", [1]),
        ("max_queries", 0),
        ("max_rows", True),
        ("wall_s", float("nan")),
        ("sql", b"SELECT 1"),
    ],
)
def test_an_argument_that_cannot_be_meant_is_refused(name, value):
    arguments = {"sql": "SELECT 1", "database": Asked(), name: value}

    with pytest.raises(InvalidArgument, match=name):
        check_sql(**arguments)


def test_importing_the_checks_loads_no_parser():
    import subprocess
    import sys

    program = "import sys, groundbox.check.sql.checking; print('sqlglot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "False\n"


def test_findings_are_the_same_each_time(shop):
    joined = "SELECT c.city, COUNT(*) FROM customer c, orders o WHERE c.city <> 'paris'"
    sql = f"{joined} GROUP BY c.name ORDER BY o.total LIMIT 1"

    runs = [check_sql(sql, database=shop, question="Which city has the most orders?") for _ in range(3)]

    assert all(one == other for one, other in itertools.pairwise(runs))
