import sqlite3

import pytest

from groundbox.check import check_sql

SCRIPT = """
CREATE TABLE sale (id INTEGER PRIMARY KEY, placed TIMESTAMP, shipped TEXT);
INSERT INTO sale VALUES (1, '2024-03-30 09:00:00', '2024-03-31'), (2, '2024-03-31 00:00:00', '2024-03-31'),
                        (3, '2024-03-31 17:45:00', '2024-04-01'), (4, '2024-04-01 00:00:00', '2024-04-02');
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    path = tmp_path_factory.mktemp("days") / "shop.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(SCRIPT)
    return f"sqlite:///{path}"


def codes(where, url):
    return [each.code for each in check_sql(f"SELECT id FROM sale WHERE {where}", database=url)]


@pytest.mark.parametrize("where", ["placed <= '2024-03-31'", "placed BETWEEN '2024-03-01' AND '2024-03-31'"])
def test_the_rest_of_the_last_day_is_missed(url, where):
    (found,) = check_sql(f"SELECT id FROM sale WHERE {where}", database=url)

    assert (found.code, found.tier) == ("sql.day_cut", "note")
    assert found.evidence["rows"] >= 1
    assert found.hint == "Write placed < '2024-04-01', if the whole day is meant."


@pytest.mark.parametrize(
    "where",
    [
        "placed < '2024-04-01'",
        "DATE(placed) <= '2024-03-31'",
        "placed <= '2024-03-29'",
        "shipped <= '2024-03-31'",
        "placed <= '2024-02-31' OR id > 0",
        "placed <= '9999-12-31'",
    ],
)
def test_a_bound_that_misses_nothing_is_left_alone(url, where):
    assert "sql.day_cut" not in codes(where, url)
