"""Queries that would keep a parser busy for long are not looked at; the work is counted, not timed."""

import subprocess
import sys

import pytest

pytest.importorskip("sqlglot", reason="sqlglot is not installed: the extra `check` of groundbox brings it")

from groundbox.check.sql.query import MOST_TOKENS, NotTakenApart, Query
from groundbox.check.sql.source import Column, Schema, Table

SHOP = Schema([Table(name="t", columns=[Column(name="a"), Column(name="b")])])
ALIASES = ", ".join(f"a{n - 1} + a{n - 1} AS a{n}" for n in range(1, 29))
BESIDE = "".join(f" NATURAL JOIN t AS t{n}" for n in range(180))


def test_aliases_of_aliases_are_refused_before_they_are_written_out():
    """In a process of its own, because 28 of them once became 2 ** 28 columns."""
    program = (
        "from groundbox.check.sql.query import Query; from groundbox.check.sql.source import Column, Schema, Table\n"
        "shop = Schema([Table(name='t', columns=[Column(name='a')])])\n"
        f"Query('SELECT a AS a0, {ALIASES} FROM t', 'sqlite', shop)"
    )

    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)

    assert "its aliases, numbered groups or shared columns stand for too much" in ended.stderr


def test_a_few_aliases_of_aliases_are_looked_at():
    query = Query("SELECT a AS c, c + c AS d, d * 2 AS e FROM t WHERE e > 1 GROUP BY 1, 2", "sqlite", SHOP)

    assert len(query.selects) == 1


@pytest.mark.parametrize("repeated", ["a || ", "x -> ", "1 + ", "NOT "])
def test_a_chain_has_as_many_words_and_signs_as_the_limit_says(repeated):
    words = len(repeated.split())

    with pytest.raises(NotTakenApart, match=f"words and signs, over {MOST_TOKENS}"):
        Query("SELECT " + repeated * (MOST_TOKENS // words) + "a FROM t", "duckdb", SHOP)


def test_the_limit_of_words_and_signs_is_a_limit():
    listed = ", ".join(["a"] * ((MOST_TOKENS - 2) // 2))

    assert len(Query(f"SELECT {listed} FROM t", "sqlite", SHOP).selects[0].projections) == (MOST_TOKENS - 2) // 2
    with pytest.raises(NotTakenApart, match="words and signs"):
        Query(f"SELECT {listed} FROM t x", "sqlite", SHOP)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT a" + "[1]" * 400 + " FROM t", "square brackets"),
        ("SELECT " + "a || " * 500 + "a FROM t GROUP BY " + ", ".join(["1"] * 400), "numbered groups"),
        ("SELECT " + ", ".join(["a"] * 450) + " FROM t" + BESIDE, "shared columns"),
        ("SELECT * FROM (" * 18 + "SELECT * FROM t" + ") x, t y" * 18, "stars"),
        (
            "WITH x0 AS (SELECT * FROM t), "
            + ", ".join(f"x{n} AS (SELECT p.*, q.* FROM x{n - 1} p, x{n - 1} q)" for n in range(1, 25))
            + " SELECT * FROM x24",
            "stars",
        ),
    ],
    ids=["brackets", "groups", "natural joins", "nested stars", "stars of stars"],
)
def test_what_would_grow_is_refused_before_it_does(text, reason):
    with pytest.raises(NotTakenApart, match=reason):
        Query(text, "postgres", SHOP)


def test_a_wide_table_is_not_written_out_many_times():
    wide = Schema([Table(name="t", columns=[Column(name=f"c{n}") for n in range(3_000)])])

    assert len(Query("SELECT * FROM t", "sqlite", wide).selects[0].projections) == 3_000
    with pytest.raises(NotTakenApart, match="stars"):
        Query("SELECT * FROM t, t AS u", "sqlite", wide)
