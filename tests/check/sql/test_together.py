"""Findings of one query add up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundbox.check import check_sql
from groundbox.check.sql import calibration
from groundbox.check.sql.catalog import FAMILY_OF

CODES = sorted(FAMILY_OF)


def counts(queries, wrong, questions=20):
    return calibration.Counts(queries=queries, wrong=wrong, questions=questions)


def both(queries, wrong, questions=20):
    return {"one": counts(queries, wrong, questions), "two": counts(queries, wrong, questions)}


def test_two_warnings_of_the_same_query_make_an_error():
    table = calibration.Table({"sql.zero": both(30, 20), "sql.cartesian": both(30, 20)}, 0.15)

    assert [table.tier(code) for code in ("sql.zero", "sql.cartesian")] == ["warn", "warn"]
    assert table.tier_together(["sql.zero", "sql.cartesian"]) == "error"
    assert table.tier_together(["sql.zero"]) == "warn"
    assert table.tier_together([]) == ""


def test_the_same_finding_twice_is_one():
    table = calibration.Table({"sql.zero": both(30, 20)}, 0.15)

    assert table.tier_together(["sql.zero", "sql.zero"]) == "warn"


def test_a_code_that_right_queries_have_adds_nothing():
    table = calibration.Table({"sql.zero": both(30, 20), "sql.tie_at_limit": both(300, 3, 90)}, 0.5)

    assert table.weight("sql.tie_at_limit") == 0
    assert table.together(["sql.zero", "sql.tie_at_limit"]) == table.together(["sql.zero"])


def test_what_one_database_alone_speaks_for_is_no_error_but_adds_to_one():
    table = calibration.Table({"sql.zero": {"one": counts(60, 60)}, "sql.cartesian": both(30, 20)}, 0.15)

    assert table.expected("sql.zero") > calibration.ERROR_FROM
    assert table.together(["sql.zero"]) == pytest.approx(calibration.UNPROVEN_AT_MOST)
    assert table.tier_together(["sql.zero", "sql.cartesian"]) == "error"


@given(st.sets(st.sampled_from(CODES), max_size=8), st.sampled_from(CODES), st.sampled_from(calibration.SITUATIONS))
def test_one_more_finding_never_speaks_for_a_query(codes, more, situation):
    table = calibration.table(situation)
    ranks = (*calibration.TIERS, "")

    assert table.together({*codes, more}) >= table.together(codes)
    assert ranks.index(table.tier_together({*codes, more})) <= ranks.index(table.tier_together(codes))


def test_the_strongest_finding_becomes_the_error_and_names_the_others(shop):
    question = "What is the highest price, and of which brand?"
    sql = "SELECT brand, MAX(price), COUNT(*) FROM product GROUP BY brand"

    first, second = check_sql(sql, database=shop, question=question)

    codes = [first.code, second.code]
    table = calibration.table()
    assert sorted(codes) == ["sql.columns_not_asked", "sql.most_of_each_group"]
    assert [table.tier(code) for code in codes] == ["warn", "warn"]
    assert (first.tier, second.tier) == ("error", "warn")
    assert first.evidence["together"] == {
        "findings": codes,
        "expected": round(table.together(codes), 2),
        "alone": "warn",
    }
    assert "together" not in second.evidence


def test_an_error_needs_no_others(shop):
    warnings = check_sql("SELECT name FROM customer WHERE city = 'paris' AND city = 'Rome'", database=shop)

    assert len(warnings) > 1
    assert warnings[0].tier == "error"
    assert not any("together" in warning.evidence for warning in warnings)
