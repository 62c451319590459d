"""Findings that depend on what the data hold, on the words around a value, or on which side of a join a row is."""

import sqlite3

import pytest

from groundbox.check import check_sql
from groundbox.check.sql.files import FileDatabase

JOINED = "FROM customer c JOIN orders o ON c.customer_id = o.customer_id"
OUTER = "FROM customer c LEFT JOIN orders o ON c.customer_id = o.customer_id"
FIRES = [
    ("contradiction", None, f"SELECT c.name {OUTER} WHERE o.status = 'paid' AND o.customer_id IS NULL"),
    (
        "both_or_either",
        "In which cities live customers above 40 and customers below 37?",
        "SELECT DISTINCT city FROM customer WHERE age > 40 OR age < 37",
    ),
    (
        "pattern_too_wide",
        "What do products cost that have a lamp as their title?",
        "SELECT price FROM product WHERE title LIKE '%Lamp%'",
    ),
    ("sort_key_shown", "Sort customer names by age.", "SELECT name, age FROM customer ORDER BY age"),
    (
        "sort_key_shown",
        "What are the names of customers from Paris, sorted by age?",
        "SELECT name, age FROM customer WHERE city = 'Paris' ORDER BY age",
    ),
    (
        "sort_key_shown",
        "Find the names of the members, and order the results by age from old to young.",
        "SELECT name, age FROM customer WHERE is_member = 'T' ORDER BY age DESC",
    ),
    ("empty_by_numbers", None, "SELECT name FROM customer WHERE city = 'Paris' AND age = 99"),
    ("empty_result", None, "SELECT name FROM customer WHERE city = 'Delft' AND is_member = 'T' AND age > 1"),
    ("text_order", None, "SELECT title FROM product WHERE stock > 9"),
    (
        "superlative_direction",
        "Which product has the lowest price?",
        "SELECT title FROM product ORDER BY price DESC LIMIT 1",
    ),
    ("duplicates_by_join", None, f"SELECT c.city {JOINED}"),
    (
        "column_not_used",
        "What is the population of the largest town?",
        "SELECT country FROM town ORDER BY town LIMIT 1",
    ),
    ("count_not_asked", "Which cities are there?", "SELECT city FROM customer GROUP BY city ORDER BY COUNT(*)"),
    ("bare_column", None, "SELECT name, MAX(age), MIN(age) FROM customer GROUP BY city"),
    (
        "fan_out_count",
        None,
        "SELECT o.status, COUNT(o.order_id) FROM orders o JOIN item i ON o.order_id = i.order_id GROUP BY o.status",
    ),
]
NEAR_MISSES = [
    ("contradiction", None, f"SELECT c.name {OUTER} AND o.status = 'paid' WHERE o.customer_id IS NULL"),
    ("contradiction", None, f"SELECT c.name {OUTER} WHERE c.city = 'Paris' AND o.customer_id IS NULL"),
    ("contradiction", None, f"SELECT c.name {OUTER} WHERE o.total = 20 AND o.placed IS NULL"),
    (
        "both_or_either",
        "What are the names of customers above 40 and below 31?",
        "SELECT customer_id, name FROM customer WHERE age > 40 OR age < 31",
    ),
    (
        "pattern_too_wide",
        "What do products cost that have the word lamp in their title?",
        "SELECT price FROM product WHERE title LIKE '%Lamp%'",
    ),
    (
        "columns_not_asked",
        "Sort all customers by age, and return the name and city of each.",
        "SELECT name, city FROM customer ORDER BY age",
    ),
    (
        "sort_key_shown",
        "What are the names of customers, sorted by age, and their ages?",
        "SELECT name, age FROM customer ORDER BY age",
    ),
    ("text_order", None, "SELECT name FROM customer WHERE is_member > 'F'"),
    (
        "superlative_direction",
        "Which product has the lowest price?",
        "SELECT title FROM product ORDER BY price LIMIT 1",
    ),
    (
        "superlative_direction",
        "List the prices from least to most.",
        "SELECT price FROM product ORDER BY price DESC LIMIT 1",
    ),
    ("duplicates_by_join", None, f"SELECT o.status {JOINED}"),
    ("key_repeated", None, "SELECT customer_id, status FROM orders WHERE status = 'paid'"),
    ("count_of_joined_rows", "How many orders have a customer?", f"SELECT COUNT(*) {JOINED}"),
    (
        "count_of_joined_rows",
        "How many customers have placed an order of over 100?",
        f"SELECT COUNT(*) {JOINED} WHERE o.total > 100",
    ),
    (
        "count_of_nothing",
        None,
        "SELECT o.order_id, COUNT(*) FROM orders o LEFT JOIN item i ON o.order_id = i.order_id GROUP BY o.order_id",
    ),
    ("null_first", None, "SELECT order_id FROM orders WHERE customer_id IS NOT NULL ORDER BY customer_id LIMIT 1"),
    (
        "column_from_outside",
        None,
        "SELECT name FROM customer c WHERE EXISTS (SELECT c.customer_id FROM product WHERE price > 10)",
    ),
    (
        "count_not_asked",
        "Which cities have two or more customers?",
        "SELECT city FROM customer GROUP BY city HAVING COUNT(*) >= 2",
    ),
    ("total_missing", "What is the highest price in all orders?", "SELECT MAX(price) FROM product"),
    ("bare_column", None, "SELECT name, MAX(age) FROM customer GROUP BY city"),
    (
        "fan_out_count",
        None,
        "SELECT o.order_id, COUNT(o.order_id) FROM orders o JOIN item i ON o.order_id = i.order_id GROUP BY o.order_id",
    ),
    (
        "group_by_label",
        None,
        "SELECT o.customer_id, COUNT(*) FROM orders o JOIN item i ON o.order_id = i.order_id GROUP BY o.customer_id",
    ),
    ("other_column_shown", "What are the name and nation of customers?", "SELECT name, city FROM customer"),
]


def made(path, script):
    with sqlite3.connect(path) as connection:
        connection.executescript(script)
    connection.close()


def ids(rows):
    return [f"{row[0]}-{n}" for n, row in enumerate(rows)]


def found(shop, sql, question):
    codes = {warning.code for warning in check_sql(sql, database=shop, question=question)}
    assert not codes & {"sql.not_looked_at", "sql.does_not_run", "sql.rule_failed"}
    return codes


@pytest.mark.parametrize(("code", "question", "sql"), FIRES, ids=ids(FIRES))
def test_a_finding_is_there(shop, code, question, sql):
    assert f"sql.{code}" in found(shop, sql, question)


@pytest.mark.parametrize(("code", "question", "sql"), NEAR_MISSES, ids=ids(NEAR_MISSES))
def test_a_near_miss_is_left_alone(shop, code, question, sql):
    assert f"sql.{code}" not in found(shop, sql, question)


def test_years_as_texts_are_compared_with_a_number_as_they_should_be(tmp_path):
    path = tmp_path / "years.db"
    made(path, "CREATE TABLE t (y TEXT, z TEXT); INSERT INTO t VALUES ('1999', '9'), ('2014', '10');")

    with FileDatabase(path, "sqlite") as database:
        years, numbers = (check_sql(f"SELECT z FROM t WHERE {c}", database=database) for c in ("y >= 2014", "z >= 10"))

    assert years == []
    assert [warning.code for warning in numbers] == ["sql.text_order"]


def test_a_word_that_describes_another_is_no_column(tmp_path):
    path = tmp_path / "stadium.db"
    made(
        path,
        "CREATE TABLE s (name TEXT, capacity INTEGER, highest INTEGER, average INTEGER);"
        "INSERT INTO s VALUES ('a', 1, 2, 3), ('b', 2, 3, 4);",
    )
    described = "Which name has the highest capacity?"
    itself = "What is the average of each name?"

    with FileDatabase(path, "sqlite") as database:
        first = check_sql("SELECT name FROM s ORDER BY capacity DESC LIMIT 1", database=database, question=described)
        second = check_sql("SELECT name, capacity FROM s", database=database, question=itself)

    assert "sql.column_not_used" not in {warning.code for warning in first}
    assert "sql.column_not_used" in {warning.code for warning in second}
