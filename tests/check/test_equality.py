"""Comparing results."""

import math
import random
import time
import types
from typing import Any

import pytest

from groundbox.check.equality import (
    TABLE_MIME,
    Table,
    table_difference,
    table_of,
    text_difference,
    value_difference,
)


def table(*rows, columns=None, count=None):
    width = len(rows[0]) if rows else 0
    names = columns or [f"c{n}" for n in range(width)]
    return Table(columns=names, rows=rows, row_count=len(rows) if count is None else count)


def test_order_of_rows_counts_only_where_it_is_asked_for():
    one, other = table((1, "a"), (2, "b")), table(("b", 2), ("a", 1))

    assert table_difference(one, other) is None
    assert table_difference(one, other, ordered=True) is not None


def test_rows_count_as_often_as_they_stand():
    one, other = table((1,), (1,), (2,)), table((1,), (2,), (2,))

    assert table_difference(one, other).count == 1


def test_columns_that_hold_the_same_values_are_not_mixed_up_between_rows():
    one, other = table((1, 2), (2, 1)), table((1, 1), (2, 2))

    assert table_difference(one, other) is not None


def test_numbers_at_the_edge_of_rounding_are_the_same():
    one, other = table((0.1 + 0.2,), (1.000000005,)), table((0.3,), (1.000000005 + 1e-15,))

    assert table_difference(one, other) is None
    assert table_difference(one, other, rel_tol=0.0) is not None


def test_columns_in_another_order_are_found_by_values_that_are_nearly_the_same():
    rng = random.Random(1)
    cells = [None, True, 1, 1.0, 2, "a", [0.3], math.nan, 1e300, 10**400]
    rows = [(n % 7, rng.random(), rng.choice(cells), rng.choice("ab"), [rng.random()]) for n in range(60)]
    moved = [(row[4], row[1] * (1 + 1e-12), row[3], row[0], row[2]) for row in rows]
    rng.shuffle(moved)

    assert table_difference(table(*rows), table(*moved)) is None
    assert table_difference(table(*rows), table(*moved[:-1], (*moved[-1][:4], "other"))) is not None
    assert table_difference(table(*rows), table(*moved), ordered=True) is not None


def test_columns_of_wide_tables_are_compared_in_time():
    rng = random.Random(1)
    rows = [tuple(rng.random() for _ in range(40)) for _ in range(200)]
    moved = [(rng.random(), *row[:0:-1]) for row in rows]
    begun = time.thread_time()

    assert table_difference(table(*rows), table(*moved)) is not None

    assert time.thread_time() - begun < 3  # 19 seconds where each value was held against each


def test_whole_numbers_are_exact():
    one, other = table((10**12,), (10**12 + 1,)), table((10**12 + 1,), (10**12 + 2,))

    assert table_difference(one, other).count == 1
    assert text_difference(f"id {10**12}", f"id {10**12 + 1}") is not None


def test_blanks_are_blanks():
    assert table_difference(table((None, 1)), table((float("nan"), 1.0))) is None


def test_the_words_say_what_differs():
    assert table_difference(table((1,)), table((1,), (2,))).words == "1 row and 2"
    assert table_difference(table((1,)), table((1, 2))).words == "1 column and 2"
    assert table_difference(table((1, "x")), table((1, "y"))).words == "a row: 'x' and 'y'"
    assert table_difference(table((1,)), table((2,)), ordered=True).words == "row 1: 1 and 2"


def test_tables_of_which_not_all_was_told_are_not_called_equal():
    one = table((1,), count=1000)

    assert "not all were told" in table_difference(one, one).words
    assert table_difference(one, one, ordered=True) is None


def test_texts_compare_numbers_as_numbers():
    assert text_difference("total: 0.30000000000000004 eur", "total: 0.3 eur") is None
    assert text_difference("v1.2", "v1.3").words == "line 1: 'v1.2' and 'v1.3'"
    assert text_difference("a\nb", "a").words == "line 2: 'b' and no line"
    assert value_difference("[1, 2.0]", "[1.0, 2]") is None


@pytest.mark.parametrize("text", ["{{}: 1}", "{[1]}", "{{1}}", "9" * 5_000, "-" * 50_000 + "1", "a\0"])
def test_values_that_python_cannot_read_are_compared_as_texts(text):
    assert value_difference(text, text) is None
    assert value_difference(text, text + " and more") is not None


@pytest.mark.parametrize("shape", [lambda n: n, lambda n: [n], lambda n: {"n": n}], ids=["alone", "list", "object"])
def test_whole_numbers_of_thousands_of_digits_are_compared(shape):
    one, other = 10**5_000, 10**5_000 + 1

    assert table_difference(table((shape(one),)), table((shape(one),))) is None
    assert table_difference(table((shape(one),)), table((shape(other),))) is not None
    assert table_difference(table((shape(one),)), table((1.5,))) is not None


@pytest.mark.parametrize("key", [None, 3, "index", {}, ["index"], [{}]])
def test_a_table_with_any_primary_key_is_read(key):
    fields = [{"name": "index"}, {"name": "n"}]
    data = {"schema": {"fields": fields, "primaryKey": key}, "data": [{"index": 0, "n": 7}]}

    execution: Any = types.SimpleNamespace(value={TABLE_MIME: data})
    read = table_of(execution)

    assert read.columns == (["n"] if key in ("index", ["index"]) else ["index", "n"])
