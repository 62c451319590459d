"""Each finding: a query that must have it, and near misses that must not."""

import pytest

from groundbox.check import check_sql

TESTED_ELSEWHERE = ("candidates_disagree", "candidates_outvote")
JOINED = "FROM customer c JOIN orders o ON c.customer_id = o.customer_id"
FIRES = [
    # code, question, query with it, queries without it
    (
        "value_case",
        None,
        "SELECT name FROM customer WHERE city = 'paris'",
        "SELECT name FROM customer WHERE city = 'Paris'",
    ),
    (
        "value_blanks",
        None,
        "SELECT name FROM customer WHERE city = 'Oslo'",
        "SELECT name FROM customer WHERE TRIM(city) = 'Rome'",
    ),
    (
        "value_elsewhere",
        None,
        "SELECT title FROM product WHERE title = 'Sedes'",
        "SELECT title FROM product WHERE brand = 'Sedes'",
    ),
    (
        "value_near",
        None,
        "SELECT 1 FROM product WHERE title = 'Blue Lamps'",
        "SELECT 1 FROM product WHERE title = 'Blue Lamp'",
    ),
    ("value_absent", None, "SELECT 1 FROM product WHERE brand = 'Qzqz'", "SELECT 1 FROM product WHERE price = 'Qzqz'"),
    (
        "value_absent_negated",
        None,
        "SELECT 1 FROM product WHERE brand <> 'Qzqz'",
        "SELECT 1 FROM product WHERE brand <> 'Lumen'",
    ),
    (
        "pattern_absent",
        None,
        "SELECT 1 FROM product WHERE title LIKE '%sofa%'",
        "SELECT 1 FROM product WHERE title LIKE '%table%'",
    ),
    (
        "pattern_too_wide",
        None,
        "SELECT price FROM product WHERE title LIKE '%Lamp%'",
        "SELECT price FROM product WHERE title LIKE '%Chair%'",
    ),
    (
        "condition_not_asked",
        "What are the names of customers from Paris?",
        "SELECT name FROM customer WHERE city = 'Paris' AND is_member = 'T'",
        "SELECT name FROM customer WHERE city = 'Paris'",
    ),
    (
        "number_not_used",
        "Which customers are older than 37?",
        "SELECT name FROM customer",
        "SELECT name FROM customer WHERE age > 37",
    ),
    (
        "value_not_used",
        "What does the product 'Oak Table' cost?",
        "SELECT price FROM product WHERE brand = 'Sedes'",
        "SELECT price FROM product WHERE title = 'Oak Table'",
    ),
    ("cartesian", None, "SELECT c.name FROM customer c, product p", f"SELECT c.name {JOINED}"),
    (
        "detour",
        None,
        "SELECT c.name, i.amount FROM customer c JOIN review r ON r.customer_id = c.customer_id "
        "JOIN orders o ON o.customer_id = r.customer_id JOIN item i ON i.order_id = o.order_id",
        f"SELECT c.name, o.total {JOINED}",
    ),
    (
        "join_not_the_key",
        None,
        "SELECT c.name FROM customer c JOIN orders o ON c.customer_id = o.order_id",
        f"SELECT c.name {JOINED}",
    ),
    (
        "join_not_by_key",
        None,
        "SELECT c.name FROM customer c JOIN product p ON c.customer_id = p.product_id",
        f"SELECT c.name {JOINED}",
    ),
    (
        "join_of_siblings",
        None,
        "SELECT o.total FROM orders o JOIN review r ON o.customer_id = r.customer_id WHERE r.stars = 5",
        f"SELECT o.total {JOINED}",
    ),
    (
        "join_types",
        None,
        "SELECT p.title FROM product p JOIN item i ON p.stock = i.amount",
        "SELECT p.title FROM product p JOIN item i ON p.product_id = i.product_id",
    ),
    (
        "column_from_outside",
        None,
        "SELECT name FROM customer WHERE customer_id IN (SELECT customer_id FROM product WHERE price > 10)",
        "SELECT name FROM customer WHERE customer_id IN (SELECT customer_id FROM orders WHERE total > 10)",
    ),
    ("table_unused", None, f"SELECT o.total {JOINED}", f"SELECT o.total, c.name {JOINED}"),
    (
        "always_true",
        None,
        "SELECT name FROM customer WHERE city <> 'Paris' OR city <> 'Rome'",
        "SELECT name FROM customer WHERE city <> 'Paris' AND city <> 'Rome'",
    ),
    (
        "and_within_or",
        None,
        "SELECT name FROM customer WHERE city = 'Paris' OR city = 'Rome' AND age > 40",
        "SELECT name FROM customer WHERE (city = 'Paris' OR city = 'Rome') AND age > 40",
    ),
    (
        "contradiction",
        None,
        "SELECT name FROM customer WHERE city = 'Paris' AND city = 'Rome'",
        "SELECT name FROM customer WHERE age > 30 AND age < 40",
    ),
    (
        "date_form",
        None,
        "SELECT 1 FROM review WHERE words > '2024-01-01'",
        "SELECT 1 FROM orders WHERE placed > '2024-01-01'",
    ),
    (
        "equals_null",
        None,
        "SELECT 1 FROM orders WHERE customer_id = NULL",
        "SELECT 1 FROM orders WHERE customer_id IS NULL",
    ),
    (
        "having_without_group",
        None,
        "SELECT COUNT(*) FROM orders HAVING COUNT(*) > 1",
        "SELECT customer_id, COUNT(*) FROM orders GROUP BY customer_id HAVING COUNT(*) > 1",
    ),
    ("integer_division", None, "SELECT age / 10 FROM customer", "SELECT age / 10.0 FROM customer"),
    (
        "limit_without_order",
        None,
        "SELECT name FROM customer LIMIT 1",
        "SELECT name FROM customer ORDER BY age LIMIT 1",
    ),
    (
        "negation_by_row",
        None,
        f"SELECT c.name {JOINED} WHERE o.status <> 'paid'",
        f"SELECT o.total {JOINED} WHERE c.city <> 'Rome'",
    ),
    (
        "not_in_with_null",
        None,
        "SELECT name FROM customer WHERE customer_id NOT IN (SELECT customer_id FROM orders)",
        "SELECT name FROM customer WHERE customer_id NOT IN (SELECT customer_id FROM review)",
    ),
    (
        "number_with_text",
        None,
        "SELECT name FROM customer WHERE age = 'old'",
        "SELECT name FROM customer WHERE age = '36'",
    ),
    (
        "numbers_as_texts",
        None,
        "SELECT title FROM product ORDER BY stock DESC LIMIT 1",
        "SELECT title FROM product ORDER BY brand DESC LIMIT 1",
    ),
    ("text_order", None, "SELECT title FROM product WHERE stock > 9", "SELECT title FROM product WHERE price > 9"),
    (
        "text_with_number",
        None,
        "SELECT title FROM product WHERE stock = 11",
        "SELECT title FROM product WHERE stock = 9",
    ),
    (
        "bare_column",
        None,
        "SELECT name, AVG(age) FROM customer GROUP BY city",
        "SELECT name, AVG(age) FROM customer GROUP BY customer_id",
    ),
    (
        "bare_having",
        None,
        "SELECT city FROM customer GROUP BY city HAVING age > 30",
        "SELECT city FROM customer GROUP BY city HAVING MAX(age) > 30",
    ),
    (
        "bare_order",
        None,
        "SELECT city FROM customer GROUP BY city ORDER BY age",
        "SELECT city FROM customer GROUP BY city ORDER BY MIN(age)",
    ),
    (
        "distinct_not_asked",
        "List the city of each customer.",
        "SELECT DISTINCT city FROM customer",
        "SELECT city FROM customer",
    ),
    (
        "count_of_joined_rows",
        "How many customers have placed an order?",
        f"SELECT COUNT(*) {JOINED}",
        f"SELECT COUNT(DISTINCT c.customer_id) {JOINED}",
    ),
    (
        "count_of_nothing",
        None,
        "SELECT c.name, COUNT(*) FROM customer c LEFT JOIN orders o ON c.customer_id = o.customer_id "
        "GROUP BY c.customer_id",
        "SELECT c.name, COUNT(o.order_id) FROM customer c LEFT JOIN orders o ON c.customer_id = o.customer_id "
        "GROUP BY c.customer_id",
    ),
    ("key_repeated", None, "SELECT customer_id FROM orders", "SELECT DISTINCT customer_id FROM orders"),
    ("duplicate_rows", None, "SELECT city FROM customer", "SELECT DISTINCT city FROM customer"),
    ("duplicates_by_join", None, f"SELECT c.name {JOINED}", f"SELECT DISTINCT c.name {JOINED}"),
    (
        "fan_out",
        None,
        "SELECT SUM(o.total) FROM orders o JOIN item i ON o.order_id = i.order_id",
        "SELECT SUM(i.amount) FROM orders o JOIN item i ON o.order_id = i.order_id",
    ),
    (
        "fan_out_count",
        None,
        "SELECT COUNT(o.status) FROM orders o JOIN item i ON o.order_id = i.order_id",
        "SELECT COUNT(DISTINCT o.status) FROM orders o JOIN item i ON o.order_id = i.order_id",
    ),
    (
        "group_by_label",
        None,
        f"SELECT c.name, COUNT(*) {JOINED} GROUP BY c.name",
        f"SELECT c.name, COUNT(*) {JOINED} GROUP BY c.customer_id",
    ),
    (
        "group_of_one",
        None,
        "SELECT city, COUNT(*) FROM customer GROUP BY customer_id",
        "SELECT city, COUNT(*) FROM customer GROUP BY city",
    ),
    (
        "order_without_effect",
        None,
        "SELECT name FROM customer WHERE customer_id IN (SELECT customer_id FROM orders ORDER BY total)",
        "SELECT name FROM customer WHERE customer_id IN (SELECT customer_id FROM orders ORDER BY total LIMIT 1)",
    ),
    ("empty_by_numbers", None, "SELECT name FROM customer WHERE age > 90", "SELECT name FROM customer WHERE age > 40"),
    (
        "empty_join",
        None,
        "SELECT c.name FROM customer c JOIN orders o ON c.customer_id = o.order_id",
        "SELECT c.name FROM customer c JOIN orders o ON c.customer_id = o.customer_id WHERE o.status = 'lost'",
    ),
    (
        "empty_result",
        None,
        "SELECT name FROM customer WHERE city = 'Delft' AND is_member = 'T'",
        "SELECT name FROM customer WHERE city = 'Rome' AND is_member = 'F'",
    ),
    ("how_many", "How many customers are there?", "SELECT name FROM customer", "SELECT COUNT(*) FROM customer"),
    (
        "most_of_each_group",
        "What is the highest price, and of which brand?",
        "SELECT brand, MAX(price) FROM product GROUP BY brand",
        "SELECT brand, price FROM product ORDER BY price DESC LIMIT 1",
    ),
    (
        "most_without_choice",
        "Who is the oldest customer?",
        "SELECT name FROM customer ORDER BY age DESC",
        "SELECT name FROM customer ORDER BY age DESC LIMIT 1",
    ),
    (
        "null_column",
        None,
        "SELECT o.order_id, c.name FROM orders o LEFT JOIN customer c ON o.total = c.customer_id",
        "SELECT o.order_id, c.name FROM orders o LEFT JOIN customer c ON o.customer_id = c.customer_id",
    ),
    (
        "one_of_many",
        None,
        "SELECT name FROM customer WHERE customer_id = (SELECT customer_id FROM orders WHERE status = 'paid')",
        "SELECT name FROM customer WHERE customer_id = (SELECT MAX(customer_id) FROM orders)",
    ),
    (
        "null_first",
        None,
        "SELECT total FROM orders ORDER BY customer_id LIMIT 1",
        "SELECT total FROM orders ORDER BY customer_id DESC LIMIT 1",
    ),
    ("only_null", None, "SELECT SUM(total) FROM orders WHERE total > 500", "SELECT SUM(total) FROM orders"),
    (
        "several_share_extreme",
        "Who is the oldest customer?",
        "SELECT name FROM customer WHERE age = (SELECT MAX(age) FROM customer)",
        "SELECT name FROM customer WHERE age = (SELECT MIN(age) FROM customer)",
    ),
    (
        "tie_at_limit",
        None,
        "SELECT name FROM customer ORDER BY age DESC LIMIT 1",
        "SELECT name FROM customer ORDER BY age LIMIT 1",
    ),
    (
        "top_n",
        "Show the names of the three oldest customers.",
        "SELECT name FROM customer ORDER BY age DESC LIMIT 2",
        "SELECT name FROM customer ORDER BY age DESC LIMIT 3",
    ),
    ("zero", None, "SELECT COUNT(*) FROM customer WHERE age > 90", "SELECT COUNT(*) FROM customer"),
    (
        "columns_missing",
        "What are the name and age of each customer?",
        "SELECT name FROM customer",
        "SELECT name, age FROM customer",
    ),
    (
        "columns_not_asked",
        "What are the names of customers?",
        "SELECT name, city FROM customer",
        "SELECT name FROM customer",
    ),
    (
        "count_shown",
        "Which city has the most customers?",
        "SELECT city, COUNT(*) FROM customer GROUP BY city ORDER BY COUNT(*) DESC LIMIT 1",
        "SELECT city FROM customer GROUP BY city ORDER BY COUNT(*) DESC LIMIT 1",
    ),
    (
        "closer_column",
        "What is the brand country of each product?",
        "SELECT brand FROM product",
        "SELECT brand_country FROM product",
    ),
    (
        "flag_not_used",
        "What are the names of customers who are a member?",
        "SELECT name FROM customer",
        "SELECT name FROM customer WHERE is_member = 'T'",
    ),
    (
        "other_column_shown",
        "What are the names of customers?",
        "SELECT city FROM customer",
        "SELECT name FROM customer",
    ),
    (
        "sort_key_shown",
        "What are the names of customers, ordered by age?",
        "SELECT name, age FROM customer ORDER BY age",
        "SELECT name FROM customer ORDER BY age",
    ),
    ("star", "What are the names of customers?", "SELECT * FROM customer", "SELECT name FROM customer"),
    (
        "star_for_details",
        "Show the details of customer 1.",
        "SELECT * FROM customer WHERE customer_id = 1",
        "SELECT city FROM customer WHERE customer_id = 1",
    ),
    (
        "table_not_used",
        "What are the names of customers who wrote a review?",
        "SELECT name FROM customer",
        "SELECT name FROM customer WHERE customer_id IN (SELECT customer_id FROM review)",
    ),
    (
        "column_not_used",
        "What are the names of products of the cheapest brand?",
        "SELECT title FROM product ORDER BY price LIMIT 1",
        "SELECT title FROM product WHERE brand = 'Lumen'",
    ),
    (
        "average_missing",
        "What is the average age of customers?",
        "SELECT age FROM customer",
        "SELECT AVG(age) FROM customer",
    ),
    ("average_not_asked", "What is the age of Alan?", "SELECT AVG(age) FROM customer", "SELECT age FROM customer"),
    (
        "both_or_either",
        "Which orders have an item in red and an item in blue?",
        "SELECT order_id FROM item WHERE colour = 'red' OR colour = 'blue'",
        "SELECT order_id FROM item WHERE colour = 'red' INTERSECT SELECT order_id FROM item WHERE colour = 'blue'",
    ),
    (
        "bound_differs",
        "Which customers are at least 41 years old?",
        "SELECT name FROM customer WHERE age > 41",
        "SELECT name FROM customer WHERE age >= 41",
    ),
    (
        "count_not_asked",
        "What is the name of each product?",
        "SELECT COUNT(title) FROM product",
        "SELECT title FROM product",
    ),
    (
        "descending_not_asked",
        "List the names of customers ordered by age.",
        "SELECT name FROM customer ORDER BY age DESC",
        "SELECT name FROM customer ORDER BY age",
    ),
    (
        "distinct_missing",
        "What are the different cities of customers?",
        "SELECT city FROM customer",
        "SELECT DISTINCT city FROM customer",
    ),
    (
        "extreme_missing",
        "What is the maximum age of a customer?",
        "SELECT age FROM customer",
        "SELECT MAX(age) FROM customer",
    ),
    (
        "negation_missing",
        "Which customers have not written a review?",
        "SELECT name FROM customer WHERE customer_id IN (SELECT customer_id FROM review)",
        "SELECT name FROM customer WHERE customer_id NOT IN (SELECT customer_id FROM review)",
    ),
    (
        "negation_not_asked",
        "Which customers have written a review?",
        "SELECT name FROM customer WHERE customer_id NOT IN (SELECT customer_id FROM review)",
        "SELECT name FROM customer WHERE customer_id IN (SELECT customer_id FROM review)",
    ),
    (
        "order_direction",
        "List the names of customers from old to young.",
        "SELECT name FROM customer ORDER BY age",
        "SELECT name FROM customer ORDER BY age DESC",
    ),
    (
        "order_missing",
        "List the names of customers sorted by age.",
        "SELECT name FROM customer",
        "SELECT name FROM customer ORDER BY age",
    ),
    (
        "order_not_asked",
        "List the names of customers.",
        "SELECT name FROM customer ORDER BY age",
        "SELECT name FROM customer",
    ),
    (
        "sum_missing",
        "How many people live in FR?",
        "SELECT population FROM town WHERE country = 'FR'",
        "SELECT SUM(population) FROM town WHERE country = 'FR'",
    ),
    (
        "superlative_direction",
        "Who is the youngest customer?",
        "SELECT name FROM customer ORDER BY age DESC LIMIT 1",
        "SELECT name FROM customer ORDER BY age LIMIT 1",
    ),
    (
        "than_any",
        "Which products cost more than any product of Lumen?",
        "SELECT title FROM product WHERE price > (SELECT MAX(price) FROM product WHERE brand = 'Lumen')",
        "SELECT title FROM product WHERE price > (SELECT MIN(price) FROM product WHERE brand = 'Lumen')",
    ),
    ("total_missing", "What is the total of all orders?", "SELECT placed FROM orders", "SELECT SUM(total) FROM orders"),
    (
        "inner_join_drops",
        "How many orders has each customer placed?",
        f"SELECT c.customer_id, COUNT(*) {JOINED} GROUP BY c.customer_id",
        "SELECT customer_id, COUNT(*) FROM orders GROUP BY customer_id",
    ),
    (
        "outer_join_matters",
        None,
        "SELECT c.name, o.total FROM customer c LEFT JOIN orders o ON c.customer_id = o.customer_id",
        "SELECT o.order_id, i.amount FROM orders o LEFT JOIN item i ON o.order_id = i.order_id",
    ),
    ("filter_repeats_sums", None, f"SELECT AVG(c.age) {JOINED}", f"SELECT AVG(o.total) {JOINED}"),
    (
        "outer_join_undone",
        None,
        "SELECT c.name, o.total FROM customer c LEFT JOIN orders o ON c.customer_id = o.customer_id "
        "WHERE o.status = 'paid'",
        "SELECT c.name, o.total FROM customer c LEFT JOIN orders o ON c.customer_id = o.customer_id "
        "AND o.status = 'paid'",
    ),
    (
        "negation_drops_null",
        None,
        "SELECT order_id FROM orders WHERE customer_id <> 1",
        "SELECT order_id FROM orders WHERE status <> 'open'",
    ),
    (
        "set_by_label",
        None,
        "SELECT name FROM customer WHERE age > 30 INTERSECT SELECT name FROM customer WHERE age < 30",
        "SELECT city FROM customer WHERE age > 30 INTERSECT SELECT city FROM customer WHERE age < 30",
    ),
    (
        "union_drops_rows",
        None,
        "SELECT SUM(n) FROM (SELECT age AS n FROM customer UNION SELECT amount FROM item) AS counted",
        "SELECT SUM(n) FROM (SELECT age AS n FROM customer UNION ALL SELECT amount FROM item) AS counted",
    ),
    (
        "extreme_of_others",
        None,
        "SELECT name FROM customer WHERE city = 'Paris' AND age = (SELECT MAX(age) FROM customer)",
        "SELECT name FROM customer WHERE city = 'Paris' AND age = (SELECT MAX(age) FROM customer WHERE city = 'Paris')",
    ),
    ("recomputed_differs", None, "SELECT MAX(stock) FROM product", "SELECT MAX(price) FROM product"),
]


@pytest.mark.parametrize(("code", "question", "wrong", "right"), FIRES, ids=[row[0] for row in FIRES])
def test_a_finding_is_there_and_its_near_miss_is_not(shop, code, question, wrong, right):
    found = {warning.code: warning for warning in check_sql(wrong, database=shop, question=question)}
    missed = {warning.code for warning in check_sql(right, database=shop, question=question)}

    assert f"sql.{code}" in found, sorted(found)
    assert found[f"sql.{code}"].message
    assert found[f"sql.{code}"].hint
    assert f"sql.{code}" not in missed
    assert "sql.does_not_run" not in {*found, *missed}


NEAR_MISSES = [
    # what would be blamed if the rule were cruder: code, question, query
    (
        "both_or_either",
        "What are the stocks of Oak Table and Red Chair?",
        "SELECT stock FROM product WHERE title IN ('Oak Table', 'Red Chair')",
    ),
    (
        "both_or_either",
        "Which orders have an item in red or blue?",
        "SELECT order_id FROM item WHERE colour IN ('red', 'blue')",
    ),
    (
        "pattern_too_wide",
        "Which products contain 'Lamp' in their title?",
        "SELECT price FROM product WHERE title LIKE '%Lamp%'",
    ),
    (
        "condition_not_asked",
        "Which towns have over 2 million people?",
        "SELECT town FROM town WHERE population > 2000000",
    ),
    ("condition_not_asked", "Which towns are French?", "SELECT town FROM town WHERE country = 'France'"),
    (
        "condition_not_asked",
        "Which orders of the 2020s were sent?",
        "SELECT 1 FROM orders WHERE placed >= 2020 AND status = 'sent'",
    ),
    ("table_not_used", "How many items has each order?", "SELECT order_id, COUNT(*) FROM item GROUP BY order_id"),
    ("group_of_one", None, "SELECT name FROM customer GROUP BY customer_id"),
    ("join_not_by_key", None, "SELECT 1 FROM customer c JOIN town t ON c.city = t.town WHERE c.city <> ' Oslo'"),
    ("join_types", None, "SELECT o.total FROM orders o JOIN customer c ON o.customer_id = c.customer_id"),
    (
        "negation_by_row",
        "Which customers placed orders other than paid ones?",
        f"SELECT c.name {JOINED} WHERE o.status <> 'paid'",
    ),
    ("bare_column", None, f"SELECT c.name, COUNT(*) {JOINED} GROUP BY o.customer_id"),
    ("fan_out", None, f"SELECT SUM(o.total) {JOINED}"),
    ("contradiction", None, "SELECT name FROM customer WHERE city = 'Paris' OR city = 'Rome'"),
    ("cartesian", None, "SELECT name FROM customer, (SELECT MAX(age) AS most FROM customer) WHERE age = most"),
    (
        "sort_key_shown",
        "What are the name and age of customers, ordered by age?",
        "SELECT name, age FROM customer ORDER BY age",
    ),
    ("columns_not_asked", "How many customers are in each city?", "SELECT city, COUNT(*) FROM customer GROUP BY city"),
    (
        "most_without_choice",
        "What is the best price of each brand?",
        "SELECT brand, MIN(price) FROM product GROUP BY brand",
    ),
    ("value_case", None, "SELECT name FROM customer WHERE LOWER(city) = 'paris'"),
    ("value_case", None, "SELECT name FROM customer WHERE city = 'paris' COLLATE NOCASE"),
    ("value_blanks", None, "SELECT name FROM customer WHERE TRIM(city) = 'Oslo'"),
    ("text_order", None, "SELECT title FROM product WHERE CAST(stock AS INTEGER) > 9"),
    ("tie_at_limit", None, "SELECT city FROM customer GROUP BY city ORDER BY COUNT(*) DESC, city LIMIT 1"),
    ("tie_at_limit", None, "SELECT country, COUNT(*) FROM town GROUP BY country ORDER BY COUNT(*) DESC LIMIT 1"),
    ("empty_join", None, "SELECT 1 FROM customer WHERE customer_id NOT IN (SELECT order_id FROM orders) AND age > 99"),
    (
        "not_in_with_null",
        None,
        "SELECT 1 FROM customer WHERE customer_id NOT IN "
        "(SELECT customer_id FROM orders WHERE customer_id IS NOT NULL)",
    ),
]


@pytest.mark.parametrize(
    ("code", "question", "sql"), NEAR_MISSES, ids=[f"{row[0]}-{n}" for n, row in enumerate(NEAR_MISSES)]
)
def test_a_near_miss_is_left_alone(shop, code, question, sql):
    found = {warning.code for warning in check_sql(sql, database=shop, question=question)}

    assert f"sql.{code}" not in found
    assert not found & {"sql.not_looked_at", "sql.does_not_run", "sql.rule_failed"}
