"""Queries as people report them: they run, and what they give is not what was asked for. A warning has to say why."""

import sqlite3

import pytest

import groundbox as gb
from groundbox.check import check_sql
from groundbox.check.sql.files import FileDatabase

SCRIPT = """
CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT, age INTEGER, referred_by INTEGER);
INSERT INTO customer VALUES (1, 'Ada', 'Paris', 36, NULL), (2, 'Grace', 'Rome', 45, 1), (3, 'Alan', 'Paris', 9, 1),
                            (4, 'Edsger', 'Delft', 45, NULL);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customer (id), placed_at TEXT,
                     status TEXT NOT NULL, discount REAL, amount INTEGER NOT NULL);
INSERT INTO orders VALUES (1, 1, '2024-01-30 10:00:00', 'paid', 0.1, 10),
                          (2, 1, '2024-01-31 15:30:00', 'paid', NULL, 20),
                          (3, 2, '2024-01-31 08:00:00', 'open', 0.2, 30),
                          (4, 3, '2024-02-01 09:00:00', 'paid', NULL, 5),
                          (5, NULL, '2023-12-31 23:00:00', 'open', NULL, 7);
CREATE TABLE shipment (id INTEGER PRIMARY KEY, order_id INTEGER REFERENCES orders (id), carrier TEXT NOT NULL);
INSERT INTO shipment VALUES (1, 1, 'a'), (2, 1, 'b'), (3, 2, 'a'), (4, 4, 'a');
CREATE TABLE product (code INTEGER PRIMARY KEY, label TEXT NOT NULL, maker TEXT, price TEXT NOT NULL,
                      cost INTEGER NOT NULL, fee INTEGER, made TEXT NOT NULL, street TEXT NOT NULL);
INSERT INTO product VALUES (1, 'nut', 'Acme', '1,200', 5, NULL, '2024-01-05', '12 Elm St'),
                           (2, 'bolt', NULL, '950', 5, 1, '2024-02-09', '9 Oak Rd'),
                           (3, 'pin', 'Bo', '2,050', 7, 2, '2024-02-29', 'Hill 3');
"""
SHIPPED = "FROM orders o JOIN shipment s ON s.order_id = o.id"
PAID = "FROM customer c LEFT JOIN orders o ON o.customer_id = c.id"


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    pytest.importorskip("sqlglot", reason="sqlglot is not installed: the extra `check` of groundbox brings it")
    path = tmp_path_factory.mktemp("reports") / "shop.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(SCRIPT)
    with FileDatabase(path, "sqlite") as database:
        yield database


WRONG = [
    # A join repeats what is counted.
    ("duplicates_by_join", f"SELECT COUNT(o.id) {SHIPPED}", "4 instead of 3", "How many orders were shipped?"),
    ("duplicates_by_join", f"SELECT COUNT(*) {SHIPPED}", "4 instead of 3", "How many orders were shipped?"),
    ("duplicates_by_join", f"SELECT COUNT(o.status) {SHIPPED}", "4 instead of 3", "How many orders were shipped?"),
    ("duplicates_by_join", f"SELECT COUNT(o.id) {SHIPPED}", "4 instead of 3", None),
    ("duplicates_by_join", f"SELECT COUNT(*) {SHIPPED}", "4 instead of 3", "Count the orders that were shipped."),
    ("duplicates_by_join", "SELECT COUNT(o.id) FROM orders o, shipment s WHERE s.order_id = o.id", "4 instead", None),
    ("duplicates_by_join", f"SELECT SUM(CASE WHEN o.status = 'paid' THEN 1 ELSE 0 END) {SHIPPED}", "4 instead", None),
    ("duplicates_by_join", f"SELECT COUNT(CASE WHEN o.status = 'paid' THEN o.id END) {SHIPPED}", "4 instead", None),
    ("duplicates_by_join", f"SELECT o.status, COUNT(o.id) {SHIPPED} GROUP BY o.status", "rows of orders", None),
    ("duplicates_by_join", f"SELECT COUNT(*) FROM (SELECT o.id {SHIPPED})", "4 instead of 3", None),
    ("duplicates_by_join", f"WITH x AS (SELECT o.id, s.carrier {SHIPPED}) SELECT COUNT(id) FROM x", "4 instead", None),
    ("duplicates_by_join", "SELECT SUM(DISTINCT cost) FROM product", "values of different rows", None),
    # A computation with NULL is NULL.
    ("null_left_out", "SELECT SUM(cost * (1 - fee)) FROM product", "is NULL for rows in which product.fee", None),
    ("null_left_out", "SELECT label || ' (' || maker || ')' FROM product", "write COALESCE(maker, '')", None),
    ("null_left_out", "SELECT SUM(cost + fee) FROM product", "COALESCE(fee, 0)", "What is the total?"),
    # NULL in a list, and other comparisons with it.
    ("and_or_not", "SELECT id FROM orders WHERE customer_id NOT IN (1, NULL)", "never true", None),
    ("and_or_not", "SELECT id FROM orders WHERE NOT (customer_id IN (1, NULL))", "never true", None),
    ("and_or_not", "SELECT id FROM orders WHERE customer_id NOT IN (SELECT 1 UNION SELECT NULL)", "never true", None),
    ("and_or_not", "SELECT id FROM orders WHERE customer_id < NULL", "never true", None),
    ("and_or_not", "SELECT id FROM orders WHERE status LIKE NULL", "never true", None),
    ("and_or_not", "SELECT CASE customer_id WHEN NULL THEN 'none' ELSE 'some' END FROM orders", "never taken", None),
    # Rows with NULL are not among "all others".
    ("null_left_out", "SELECT COUNT(*) FROM orders WHERE customer_id NOT IN (1, 2)", "is 1, and with them 2", None),
    ("null_left_out", "SELECT COUNT(*) FROM orders WHERE discount <> 0.1", "is 1, and with them 4", None),
    ("null_left_out", "SELECT COUNT(*) FROM orders WHERE NOT (discount = 0.1)", "is 1, and with them 4", None),
    ("null_left_out", "SELECT COUNT(*) FROM orders WHERE 0.1 != discount", "is 1, and with them 4", None),
    ("null_left_out", "SELECT COUNT(*) FROM orders WHERE discount NOT BETWEEN 0 AND 0.1", "and with them 4", None),
    (
        "null_left_out",
        "SELECT COUNT(*) FROM orders WHERE NOT (discount = 0.1 AND status = 'paid')",
        "with them 4",
        None,
    ),
    ("null_left_out", "SELECT SUM(CASE WHEN discount <> 0.1 THEN 1 ELSE 0 END) FROM orders", "and with them 4", None),
    (
        "null_left_out",
        "SELECT COUNT(*) FROM orders WHERE customer_id NOT IN (SELECT id FROM customer WHERE city = 'Paris')",
        "and with them 2",
        None,
    ),
    ("null_left_out", "SELECT id FROM orders WHERE discount NOT LIKE '0.1%'", "discount is NULL", None),
    ("null_left_out", "SELECT id FROM orders WHERE NOT (discount GLOB '0.1*')", "discount is NULL", None),
    ("null_left_out", "SELECT name FROM customer WHERE referred_by <> 1 OR age < 10", "referred_by is NULL", None),
    ("null_left_out", "SELECT COUNT(discount) FROM orders", "is 2, and with them 5", "How many orders are there?"),
    ("null_left_out", "SELECT status, COUNT(customer_id) FROM orders GROUP BY status", "customer_id is NULL", None),
    # A day is the first moment of the day.
    ("day_cut", "SELECT COUNT(*) FROM orders WHERE placed_at > '2024-01-31'", "2 rows", None),
    ("day_cut", "SELECT COUNT(*) FROM orders WHERE '2024-01-31' < placed_at", "2 rows", None),
    ("day_cut", "SELECT COUNT(*) FROM orders WHERE placed_at > date('2024-01-31')", "2 rows", None),
    ("day_cut", "SELECT COUNT(*) FROM orders WHERE placed_at != '2024-01-31'", "2 rows", None),
    ("day_cut", "SELECT COUNT(*) FROM orders WHERE placed_at NOT IN ('2024-01-31', '2024-02-02')", "2 rows", None),
    ("day_cut", "SELECT id FROM orders WHERE placed_at NOT BETWEEN '2024-01-01' AND '2024-01-31'", "2 rows", None),
    ("day_cut", "SELECT id FROM orders WHERE NOT (placed_at = '2024-01-31')", "2 rows", None),
    ("value_absent", "SELECT COUNT(*) FROM orders WHERE placed_at = '2024-01-31'", "holds moments; 2 rows", None),
    ("value_absent", "SELECT COUNT(*) FROM orders WHERE placed_at IN ('2024-01-31')", "holds moments; 2 rows", None),
    ("value_absent", "SELECT COUNT(*) FROM orders WHERE placed_at LIKE '2024-01-31'", "holds moments; 2 rows", None),
    # A text is never equal to a number in SQLite, and greater than all of them.
    ("type_mismatch", "SELECT COUNT(*) FROM orders WHERE strftime('%Y', placed_at) >= 2024", "gives a text", None),
    ("type_mismatch", "SELECT COUNT(*) FROM orders WHERE strftime('%Y', placed_at) = 2024", "gives a text", None),
    ("type_mismatch", "SELECT COUNT(*) FROM orders WHERE 2024 <> substr(placed_at, 1, 4)", "gives a text", None),
    (
        "type_mismatch",
        "SELECT COUNT(*) FROM orders WHERE substr(placed_at, 1, 4) IN (2023, 2024)",
        "gives a text",
        None,
    ),
    (
        "type_mismatch",
        "SELECT id FROM orders WHERE substr(placed_at, 1, 4) BETWEEN 2023 AND 2024",
        "gives a text",
        None,
    ),
    (
        "type_mismatch",
        "WITH t AS (SELECT strftime('%Y', placed_at) AS y FROM orders) SELECT COUNT(*) FROM t WHERE y > 2023",
        "gives a text",
        None,
    ),
    (
        "type_mismatch",
        "SELECT id FROM orders WHERE strftime('%Y', placed_at) = strftime('%Y', '2025-01-01') - 1",
        "gives a text",
        None,
    ),
    ("type_mismatch", "SELECT COUNT(*) FROM customer WHERE CAST(age AS TEXT) > 10", "'9' comes after '10'", None),
    ("type_mismatch", "SELECT city FROM customer GROUP BY city HAVING COUNT(*) > '1'", "gives a number", None),
    ("type_mismatch", "SELECT name FROM customer WHERE length(name) = '3'", "gives a number", None),
    (
        "type_mismatch",
        "SELECT id FROM orders WHERE CASE WHEN status = 'paid' THEN '1' ELSE '0' END = 1",
        "gives a text",
        None,
    ),
    # A division of whole numbers drops what is behind the point.
    ("type_mismatch", "SELECT SUM(CASE WHEN status = 'paid' THEN 1 ELSE 0 END) / COUNT(*) FROM orders", "whole", None),
    ("type_mismatch", "SELECT SUM(status = 'paid') / COUNT(*) FROM orders", "whole numbers", None),
    ("type_mismatch", "SELECT COUNT(*) FILTER (WHERE status = 'paid') / COUNT(*) FROM orders", "whole numbers", None),
    ("type_mismatch", "SELECT COUNT(CASE WHEN status = 'paid' THEN 1 END) * 100 / COUNT(*) FROM orders", "whole", None),
    (
        "type_mismatch",
        "SELECT (SELECT COUNT(*) FROM orders WHERE status = 'paid') / (SELECT COUNT(*) FROM orders)",
        "whole numbers",
        None,
    ),
    ("type_mismatch", "SELECT p / n FROM (SELECT COUNT(*) AS n, SUM(amount) AS p FROM orders)", "whole numbers", None),
    # Names that are no columns are texts in SQLite, and so is what stands in single quotes.
    ("quoted_text", 'SELECT COUNT(*) FROM customer WHERE "refered_by" IS NOT NULL', "Write referred_by", None),
    ("quoted_text", 'SELECT SUM("amout") FROM orders', "Write amount", None),
    ("quoted_text", 'SELECT name FROM customer ORDER BY "agee"', "Write age", None),
    ("quoted_text", 'SELECT COUNT(DISTINCT "citty") FROM customer', "Write city", None),
    ("quoted_text", 'SELECT "nmae" FROM customer', "Write name", None),
    ("quoted_text", 'SELECT "colour" FROM customer', "a column of these tables", None),
    ("quoted_text", 'SELECT "nmae" AS who, age FROM customer', "Write name", None),
    ("quoted_text", 'SELECT name FROM customer WHERE "agee" > 40', "Write age", None),
    ("quoted_text", "SELECT name FROM customer WHERE \"citty\" IN ('Paris', 'Rome')", "Write city", None),
    ("quoted_text", "SELECT name FROM customer ORDER BY 'age' DESC", "Write age", None),
    ("quoted_text", "SELECT city, COUNT(*) FROM customer GROUP BY 'city'", "Write city", None),
    ("quoted_text", "SELECT name FROM customer WHERE 'age' > 40", "Write age", None),
    ("quoted_text", "SELECT AVG('age') FROM customer", "Write age", None),
    # Texts that are read as numbers.
    ("type_mismatch", "SELECT SUM(price) FROM product", "'1,200', of which 1 is read", None),
    ("type_mismatch", "SELECT MAX(CAST(price AS INTEGER)) FROM product", "of which 1 is read", None),
    ("type_mismatch", "SELECT label, date('2024-03-01') - date(made) FROM product", "JULIANDAY", None),
    ("type_mismatch", "SELECT MAX(made) - MIN(made) FROM product", "JULIANDAY", None),
    ("type_mismatch", "SELECT COUNT(*) FROM orders WHERE strftime('%m', placed_at) = '1'", "Write '01'", None),
    ("type_mismatch", "SELECT COUNT(*) FROM orders WHERE strftime('%d', placed_at) IN ('1', '30')", "Write '01'", None),
    # WHERE, or a join that follows, undoes an outer join.
    ("outer_join_undone", f"SELECT c.name, COUNT(o.id) {PAID} WHERE o.status = 'paid' GROUP BY c.id", "into ON", None),
    ("outer_join_undone", f"SELECT c.name, o.id {PAID} WHERE c.age > 1 AND o.amount * 2 > 10", "into ON", None),
    ("outer_join_undone", f"SELECT c.name, o.id {PAID} WHERE NOT (o.status = 'open')", "into ON", None),
    ("outer_join_undone", f"SELECT c.name, o.id {PAID} WHERE o.id IS NOT NULL", "into ON", None),
    ("outer_join_undone", f"SELECT c.name, o.id {PAID} WHERE o.status = 'paid' OR o.amount > 25", "into ON", None),
    (
        "outer_join_undone",
        f"SELECT c.name, COUNT(s.id) {PAID} JOIN shipment s ON s.order_id = o.id GROUP BY c.id",
        "a LEFT JOIN, too",
        None,
    ),
    (
        "outer_join_undone",
        "SELECT c.name FROM orders o RIGHT JOIN customer c ON o.customer_id = c.id WHERE o.status = 'paid'",
        "into ON",
        None,
    ),
]


@pytest.mark.parametrize(("code", "query", "words", "question"), WRONG)
def test_a_query_that_runs_and_is_wrong_gets_a_warning_that_says_why(shop, code, query, words, question):
    warnings = check_sql(query, database=shop, question=question)

    told = [f"{each.message}. {each.hint}" for each in warnings if each.code == f"sql.{code}"]
    assert any(words in each for each in told), warnings


RIGHT = [
    ("duplicates_by_join", f"SELECT COUNT(DISTINCT o.id) {SHIPPED}", "How many orders were shipped?"),
    ("duplicates_by_join", f"SELECT COUNT(*) {SHIPPED}", "How many shipments are there?"),
    ("duplicates_by_join", f"SELECT COUNT(*) {SHIPPED}", None),
    ("duplicates_by_join", f"SELECT COUNT(s.id) {SHIPPED}", "How many shipments are there?"),
    ("duplicates_by_join", f"SELECT o.id, COUNT(o.id) {SHIPPED} GROUP BY o.id", "How many shipments has each order?"),
    ("duplicates_by_join", f"SELECT COUNT(o.id) {SHIPPED} WHERE s.carrier = 'b'", "How many orders were shipped by b?"),
    ("duplicates_by_join", f"SELECT COUNT(*) FROM (SELECT DISTINCT o.id {SHIPPED})", "How many orders were shipped?"),
    ("duplicates_by_join", "SELECT SUM(DISTINCT cost) FROM product", "What is the sum of the different costs?"),
    ("duplicates_by_join", "SELECT SUM(DISTINCT code) FROM product", None),
    ("null_left_out", "SELECT SUM(cost * (1 - COALESCE(fee, 0))) FROM product", None),
    ("null_left_out", "SELECT SUM(cost + fee) FROM product WHERE fee IS NOT NULL", None),
    ("null_left_out", "SELECT SUM(cost + code) FROM product", None),
    ("null_left_out", "SELECT SUM(fee * 2) FROM product", None),
    ("null_left_out", "SELECT label FROM product WHERE cost + fee > 3", None),
    ("type_mismatch", "SELECT SUM(REPLACE(price, ',', '')) FROM product", None),
    ("type_mismatch", "SELECT MAX(CAST(street AS INTEGER)) FROM product", None),
    ("type_mismatch", "SELECT julianday('2024-03-01') - julianday(made) FROM product", None),
    ("type_mismatch", "SELECT strftime('%Y', made) - strftime('%Y', '2020-01-01') FROM product", None),
    ("type_mismatch", "SELECT COUNT(*) FROM orders WHERE strftime('%m', placed_at) = '12'", None),
    ("and_or_not", "SELECT id FROM orders WHERE customer_id IN (1, NULL)", None),
    ("and_or_not", "SELECT id FROM orders WHERE customer_id IS NOT NULL AND customer_id NOT IN (1, 2)", None),
    ("null_left_out", "SELECT COUNT(*) FROM orders WHERE status <> 'paid'", None),
    ("null_left_out", "SELECT COUNT(*) FROM orders WHERE discount <> 0.1 OR discount IS NULL", None),
    ("null_left_out", "SELECT COUNT(*) FROM orders WHERE COALESCE(discount, 0) <> 0.1", None),
    ("null_left_out", "SELECT COUNT(*) FROM orders WHERE NOT (discount <> 0.1)", None),
    ("null_left_out", "SELECT COUNT(*) FROM orders WHERE customer_id <> 1 AND status = 'paid'", None),
    ("null_left_out", "SELECT COUNT(discount) FROM orders", "How many orders have a discount?"),
    ("null_left_out", "SELECT COUNT(*) - COUNT(discount) FROM orders", "How many orders have none?"),
    ("day_cut", "SELECT COUNT(*) FROM orders WHERE placed_at LIKE '2024-01-31%'", None),
    ("null_left_out", "SELECT COUNT(status) FROM orders", "How many orders are there?"),
    ("null_left_out", f"SELECT c.name, COUNT(o.id) {PAID} GROUP BY c.id", None),
    ("day_cut", "SELECT COUNT(*) FROM orders WHERE placed_at >= '2024-02-01'", None),
    ("day_cut", "SELECT COUNT(*) FROM orders WHERE placed_at < '2024-01-31'", None),
    ("day_cut", "SELECT COUNT(*) FROM orders WHERE date(placed_at) = '2024-01-31'", None),
    ("day_cut", "SELECT COUNT(*) FROM orders WHERE placed_at <> '2024-01-29'", None),
    ("value_absent", "SELECT COUNT(*) FROM orders WHERE date(placed_at) <> '2024-01-31'", None),
    ("type_mismatch", "SELECT COUNT(*) FROM orders WHERE strftime('%Y', placed_at) >= '2024'", None),
    ("type_mismatch", "SELECT COUNT(*) FROM orders WHERE CAST(strftime('%Y', placed_at) AS INTEGER) = 2024", None),
    ("type_mismatch", "SELECT COUNT(*) FROM orders WHERE CAST(strftime('%Y', placed_at) AS TEXT) = 2024", None),
    ("type_mismatch", "SELECT COUNT(*) FROM customer WHERE age = '45'", None),
    ("type_mismatch", "SELECT 100.0 * SUM(CASE WHEN status = 'paid' THEN 1 END) / COUNT(*) FROM orders", None),
    ("type_mismatch", "SELECT SUM(discount) / COUNT(*) FROM orders", None),
    ("quoted_text", 'SELECT name FROM customer WHERE city = "Paris"', None),
    ("quoted_text", 'SELECT "name" FROM customer ORDER BY "age"', None),
    ("quoted_text", "SELECT 'total' AS kind, COUNT(*) FROM customer", None),
    ("quoted_text", 'SELECT name || ", " || city FROM customer', None),
    ("quoted_text", 'SELECT COUNT(*) AS "number of names" FROM customer ORDER BY "number of names"', None),
    ("quoted_text", 'SELECT COALESCE(city, "none") FROM customer', None),
    ("outer_join_undone", f"SELECT c.name {PAID} WHERE o.id IS NULL", None),
    ("outer_join_undone", f"SELECT c.name, COUNT(o.id) {PAID} AND o.status = 'paid' GROUP BY c.id", None),
    ("outer_join_undone", f"SELECT c.name, o.id {PAID} WHERE o.status = 'paid' OR o.id IS NULL", None),
    ("outer_join_undone", f"SELECT c.name, o.id {PAID} WHERE COALESCE(o.status, 'paid') = 'paid'", None),
    ("outer_join_undone", f"SELECT c.name, o.id {PAID} WHERE c.age > 1", None),
    ("outer_join_undone", f"SELECT c.name, s.id {PAID} LEFT JOIN shipment s ON s.order_id = o.id", None),
]


@pytest.mark.parametrize(("code", "query", "question"), RIGHT)
def test_a_query_like_it_that_is_right_gets_none(shop, code, query, question):
    warnings = check_sql(query, database=shop, question=question)

    assert f"sql.{code}" not in [each.code for each in warnings]


def test_it_is_so_for_files_without_declared_keys():
    from groundbox.check.sql.live import SandboxDatabase

    with gb.Sandbox() as box:
        box.files.write("orders.csv", "id,status\n1,paid\n2,paid\n3,open\n")
        box.files.write("shipment.csv", "id,order_id\n1,1\n2,1\n3,2\n")
        query = "SELECT COUNT({}) FROM 'orders.csv' o JOIN 'shipment.csv' s ON s.order_id = o.id"
        question = "How many orders were shipped?"
        found = [
            check_sql(query.format(what), database=SandboxDatabase(box), question=question)[0] for what in ("o.id", "*")
        ]

    assert {each.code for each in found} == {"sql.duplicates_by_join"}
    assert all(each.message.endswith("3 instead of 2") for each in found)


def test_a_day_that_no_row_holds_is_never_replaced_by_the_moment_of_one_row(shop):
    warnings = check_sql("SELECT COUNT(*) FROM orders WHERE placed_at = '2024-01-31'", database=shop)

    assert "15:30" not in " ".join(f"{each.message} {each.hint}" for each in warnings)


def test_a_join_that_only_chooses_rows_is_not_to_be_left_out_without_a_condition(shop):
    warnings = check_sql(f"SELECT COUNT(o.id) {SHIPPED}", database=shop, question="How many orders were shipped?")

    hints = [each.hint for each in warnings if each.code == "sql.table_unused"]
    assert all(hint.startswith("If rows that have one there are meant, use EXISTS") for hint in hints)
