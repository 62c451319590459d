"""All rules over PostgreSQL and MariaDB: what they ask there is understood, and they find what they find in SQLite."""

import importlib.util
from pathlib import Path

import pytest

from groundbox.check import check_sql
from groundbox.check.sql.source import ForeignKey, QueryFailed

pytest.importorskip("sqlglot", reason="sqlglot is not installed: the extra `check` of groundbox brings it")
KEYS = (
    "CREATE TABLE kind (id INTEGER PRIMARY KEY, code INTEGER UNIQUE);\n"
    "CREATE TABLE piece (id INTEGER, kind_id INTEGER, PRIMARY KEY (id, kind_id), "
    "FOREIGN KEY (kind_id) REFERENCES kind (id))"
)


def beside(name):
    spec = importlib.util.spec_from_file_location(f"{name}_beside", Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FIRES, SCRIPT = beside("test_rules").FIRES, beside("conftest").SCRIPT


@pytest.mark.parametrize("dialect", ["postgres", "mysql"])
def test_keys_are_seen_by_a_role_that_only_reads(database_of, dialect):
    schema = database_of(dialect, KEYS, "with_keys").schema()

    kind, piece = schema.table("kind"), schema.table("piece")
    assert kind.primary == ("id",)
    assert set(kind.unique) == {frozenset({"id"}), frozenset({"code"})}
    assert piece.primary == ("id", "kind_id")
    assert list(piece.foreign) == [ForeignKey(columns=("kind_id",), table="kind", other_columns=("id",))]


@pytest.fixture(scope="session", params=["postgres", "mysql"])
def shop_on_server(request, database_of):
    return database_of(request.param, SCRIPT.replace("; ", ";\n"), "shop_again")


OF_OTHER_ENGINES = {
    # what does not hold there, since the engine takes the query otherwise
    "postgres": {
        "SELECT 1 FROM product WHERE title LIKE '%table%'",
        "SELECT total FROM orders ORDER BY customer_id LIMIT 1",
        "SELECT total FROM orders ORDER BY customer_id DESC LIMIT 1",
    },
    "mysql": {"SELECT name FROM customer WHERE city = 'paris'", "SELECT age / 10 FROM customer"},
}
NOT_RUN = {
    # queries that the engine refuses, because of types, groups, or what it does not know
    "postgres": {
        *("SELECT 1 FROM product WHERE price = 'Qzqz'", "SELECT name FROM customer WHERE age = 'old'"),
        *("SELECT title FROM product WHERE stock > 9", "SELECT title FROM product WHERE stock = 11"),
        *("SELECT title FROM product WHERE stock = 9", "SELECT city FROM customer GROUP BY city HAVING age > 30"),
        *("SELECT name, AVG(age) FROM customer GROUP BY city", "SELECT city FROM customer GROUP BY city ORDER BY age"),
        "SELECT p.title FROM product p JOIN item i ON p.stock = i.amount",
        "SELECT name FROM customer WHERE customer_id = (SELECT customer_id FROM orders WHERE status = 'paid')",
    },
    "mysql": {
        "SELECT city FROM customer GROUP BY city HAVING age > 30",
        "SELECT name FROM customer WHERE customer_id IN (SELECT customer_id FROM orders ORDER BY total LIMIT 1)",
        "SELECT name FROM customer WHERE customer_id = (SELECT customer_id FROM orders WHERE status = 'paid')",
    },
}


class Watched:
    """A database that keeps the queries that failed."""

    def __init__(self, source):
        self._source, self.dialect, self.failed = source, source.dialect, {}

    def schema(self):
        return self._source.schema()

    def query(self, sql, *, max_rows, timeout_s):
        try:
            return self._source.query(sql, max_rows=max_rows, timeout_s=timeout_s)
        except QueryFailed as failure:
            self.failed[sql] = str(failure)
            raise


@pytest.mark.parametrize(
    ("code", "question", "wrong", "right"), FIRES, ids=[f"{row[0]}-{n}" for n, row in enumerate(FIRES)]
)
def test_a_finding_is_there_on_a_server_and_its_near_miss_is_not(shop_on_server, code, question, wrong, right):
    dialect = shop_on_server.dialect
    for sort, sql in (("wrong", wrong), ("right", right)):
        watched = Watched(shop_on_server)
        found = {warning.code for warning in check_sql(sql, database=watched, question=question, wall_s=30)}

        assert "sql.rule_failed" not in found
        assert set(watched.failed) == ({sql} & NOT_RUN[dialect])
        if sql not in NOT_RUN[dialect]:
            holds = sql not in OF_OTHER_ENGINES[dialect]
            assert (f"sql.{code}" in found) == ((sort == "wrong") == holds), sorted(found)
