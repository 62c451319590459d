"""Findings that depend on what the data hold, on the words around a value, or on which side of a join a row is."""

import sqlite3

import pytest

from groundbox.check import check_sql
from groundbox.check.sql.files import FileDatabase

JOINED = "FROM customer c JOIN orders o ON c.customer_id = o.customer_id"
OUTER = "FROM customer c LEFT JOIN orders o ON c.customer_id = o.customer_id"
FIRES = [
    ("and_or_not", None, f"SELECT c.name {OUTER} WHERE o.status = 'paid' AND o.customer_id IS NULL"),
    (
        "and_or_not",
        "In which cities live customers above 40 and customers below 37?",
        "SELECT DISTINCT city FROM customer WHERE age > 40 OR age < 37",
    ),
    (
        "pattern_too_wide",
        "What do products cost that have a lamp as their title?",
        "SELECT price FROM product WHERE title LIKE '%Lamp%'",
    ),
    ("columns_not_asked", "Sort customer names by age.", "SELECT name, age FROM customer ORDER BY age"),
    (
        "columns_not_asked",
        "What are the names of customers from Paris, sorted by age?",
        "SELECT name, age FROM customer WHERE city = 'Paris' ORDER BY age",
    ),
    (
        "columns_not_asked",
        "Find the names of the members, and order the results by age from old to young.",
        "SELECT name, age FROM customer WHERE is_member = 'T' ORDER BY age DESC",
    ),
    ("empty_result", None, "SELECT name FROM customer WHERE city = 'Paris' AND age = 99"),
    ("empty_result", None, "SELECT name FROM customer WHERE city = 'Delft' AND is_member = 'T' AND age > 1"),
    ("type_mismatch", None, "SELECT title FROM product WHERE stock > 9"),
    (
        "wording_differs",
        "Which product has the lowest price?",
        "SELECT title FROM product ORDER BY price DESC LIMIT 1",
    ),
    ("duplicates_by_join", None, f"SELECT c.city {JOINED}"),
    ("arbitrary_row", None, "SELECT name, MAX(age), MIN(age) FROM customer GROUP BY city"),
]
NEAR_MISSES = [
    ("and_or_not", None, f"SELECT c.name {OUTER} AND o.status = 'paid' WHERE o.customer_id IS NULL"),
    ("and_or_not", None, f"SELECT c.name {OUTER} WHERE c.city = 'Paris' AND o.customer_id IS NULL"),
    ("and_or_not", None, f"SELECT c.name {OUTER} WHERE o.total = 20 AND o.placed IS NULL"),
    (
        "and_or_not",
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
        "columns_not_asked",
        "What are the names of customers, sorted by age, and their ages?",
        "SELECT name, age FROM customer ORDER BY age",
    ),
    ("type_mismatch", None, "SELECT name FROM customer WHERE is_member > 'F'"),
    (
        "wording_differs",
        "Which product has the lowest price?",
        "SELECT title FROM product ORDER BY price LIMIT 1",
    ),
    (
        "wording_differs",
        "List the prices from least to most.",
        "SELECT price FROM product ORDER BY price DESC LIMIT 1",
    ),
    ("duplicates_by_join", None, f"SELECT o.status {JOINED}"),
    ("duplicates_by_join", None, "SELECT customer_id, status FROM orders WHERE status = 'paid'"),
    (
        "outer_join",
        None,
        "SELECT o.order_id, COUNT(*) FROM orders o LEFT JOIN item i ON o.order_id = i.order_id GROUP BY o.order_id",
    ),
    ("null_column", None, "SELECT order_id FROM orders WHERE customer_id IS NOT NULL ORDER BY customer_id LIMIT 1"),
    (
        "join_not_by_key",
        None,
        "SELECT name FROM customer c WHERE EXISTS (SELECT c.customer_id FROM product WHERE price > 10)",
    ),
    (
        "wording_differs",
        "Which cities have two or more customers?",
        "SELECT city FROM customer GROUP BY city HAVING COUNT(*) >= 2",
    ),
    ("wording_differs", "What is the highest price in all orders?", "SELECT MAX(price) FROM product"),
    ("arbitrary_row", None, "SELECT name, MAX(age) FROM customer GROUP BY city"),
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
    assert [warning.code for warning in numbers] == ["sql.type_mismatch"]


BLANKS = """
CREATE TABLE port (code TEXT PRIMARY KEY, town TEXT);
CREATE TABLE trip (number INTEGER PRIMARY KEY, start TEXT REFERENCES port (code));
INSERT INTO port VALUES ('AAA', 'Oslo '), ('BBB', 'Rome '), ('CCC', 'Paris ');
INSERT INTO trip VALUES (1, ' AAA'), (2, ' AAA'), (3, ' BBB');
"""


@pytest.fixture
def ports(tmp_path):
    made(tmp_path / "ports.db", BLANKS)
    with FileDatabase(tmp_path / "ports.db", "sqlite") as database:
        yield database


@pytest.mark.parametrize(
    ("sql", "question"),
    [
        ("SELECT code FROM port WHERE town = 'Oslo'", "What is the code of the port of Oslo?"),
        ("SELECT count(*) FROM port WHERE town = 'Delft'", "How many ports are in Delft?"),
        ("SELECT t.number, t.start FROM trip t JOIN port p ON t.start = p.code", "Which trips start in a port?"),
        (
            "SELECT p.town, count(*) FROM trip t JOIN port p ON t.start = p.code GROUP BY p.town",
            "Which is the most used?",
        ),
        ("SELECT max(number) FROM trip WHERE start = 'AAA' AND number = 'x'", "Which is the last trip from AAA?"),
    ],
)
def test_blanks_in_stored_values_are_told_as_that_and_as_nothing_else(ports, sql, question):
    (warning,) = check_sql(sql, database=ports, question=question)

    assert (warning.code, warning.tier) == ("sql.value_blanks", "note")
    assert "blanks" in warning.message
    assert "wrong" not in warning.message


def test_blanks_around_one_value_of_many_are_no_excuse_for_a_constant_that_is_nowhere(shop):
    assert "sql.value_absent" in found(shop, "SELECT 1 FROM town WHERE town = 'Qzqz'", None)


def test_what_the_question_names_and_nobody_could_find_is_told_by_the_empty_result_alone(shop):
    sql = "SELECT name FROM customer WHERE city = 'Madrid'"

    assert found(shop, sql, "Who lives in Madrid?") == {"sql.empty_result"}
    assert found(shop, sql, "Who lives in Spain's capital?") >= {"sql.empty_result", "sql.value_absent"}


def test_a_text_that_a_column_of_numbers_holds_is_there(tmp_path):
    made(
        tmp_path / "cars.db",
        "CREATE TABLE car (name TEXT, power INTEGER); INSERT INTO car VALUES ('a', 90), ('b', 'null');",
    )

    with FileDatabase(tmp_path / "cars.db", "sqlite") as database:
        held, absent = (
            [warning.code for warning in check_sql(f"SELECT name FROM car WHERE power = '{text}'", database=database)]
            for text in ("null", "none")
        )

    assert held == []
    assert absent == ["sql.value_absent", "sql.empty_result"]


@pytest.mark.parametrize(
    "question", ["What are the names and ages of customers?", "Which city has the most customers?", None]
)
def test_a_result_without_rows_shows_nothing_that_was_not_asked_for(shop, question):
    sql = (
        "SELECT city, name, COUNT(*) FROM customer WHERE age > 99 GROUP BY city, customer_id ORDER BY COUNT(*) LIMIT 1"
    )

    told = found(shop, sql, question)

    assert "sql.nothing_found" in told
    assert not told & {"sql.columns_not_asked", "sql.other_column", "sql.group_of_one"}


def test_an_empty_result_is_told_in_words_that_are_right_whether_or_not_the_query_is(shop):
    warnings = check_sql("SELECT name FROM customer WHERE age > 99", database=shop)

    assert [(warning.message, warning.tier == "error") for warning in warnings] == [("the result has no rows", False)]
    assert warnings[0].hint.startswith("That may be so.")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT c.city FROM customer c JOIN town t ON c.name = t.town",
        "SELECT name FROM customer WHERE name NOT IN (SELECT title FROM product)",
        "SELECT t.country FROM town t WHERE t.country IN (SELECT p.brand_country FROM product p)",
    ],
)
def test_what_rows_have_in_common_is_no_key_that_they_should_be_joined_by(shop, sql):
    told = found(shop, sql, None)

    assert ("sql.join_not_by_key" in told) == ("t.town" in sql)


@pytest.mark.parametrize(
    ("question", "sql"),
    [
        ("Which customers are at least 41 years old?", "SELECT name FROM customer WHERE age >= 41"),
        (
            "Which customers have fewer than 2 orders?",
            "SELECT name FROM customer WHERE customer_id NOT IN "
            "(SELECT customer_id FROM orders WHERE customer_id > 0 GROUP BY customer_id HAVING COUNT(*) >= 2)",
        ),
    ],
)
def test_a_bound_said_from_its_other_side_is_the_same_bound(shop, question, sql):
    assert "sql.wording_differs" not in found(shop, sql, question)
