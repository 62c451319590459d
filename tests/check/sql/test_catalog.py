"""The list of codes is that of the rules, and the tests and the docs have each of them."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from groundbox.check.sql import calibration
from groundbox.check.sql.calibration import FACTS, SAYS
from groundbox.check.sql.rules import all_codes
from groundbox.check.tiers import TIERS

HERE = Path(__file__).parent
NOTES = {  # what could not be looked at
    *("sql.not_checked", "sql.no_schema", "sql.not_looked_at", "sql.does_not_run", "sql.budget_ended"),
    "sql.rule_failed",
}
PACKAGE = Path(calibration.__file__).parent
PAGE = Path(__file__).parents[3] / "docs" / "checks.md"


def test_each_code_of_a_rule_is_in_the_catalog():
    files = [*(PACKAGE / "rules").glob("*.py"), PACKAGE / "checking.py"]
    written = {code for file in files for code in re.findall(r'"(sql\.[a-z_]+)"', file.read_text())}

    assert written - NOTES == set(all_codes())


def test_each_code_has_a_query_that_fires_it():
    spec = importlib.util.spec_from_file_location("rules_tested", HERE / "test_rules.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    tested = {f"sql.{code}" for code in ({row[0] for row in module.FIRES} | set(module.TESTED_ELSEWHERE))}
    assert tested == set(SAYS)


def test_a_fact_is_no_error_however_often_the_query_was_wrong():
    counts = calibration.Counts(precision=1.0, lower=0.95, questions=60, databases=9)

    assert set(SAYS) >= FACTS
    assert {counts.tier_of(code) for code in FACTS} == {"warn"}
    assert counts.tier_of("sql.value_absent") == "error"


@pytest.mark.parametrize("situation", calibration.SITUATIONS)
def test_the_table_that_is_shipped_knows_only_listed_codes(situation):
    table = calibration.table(situation)

    assert set(table) <= set(SAYS)
    assert all(0 <= counts.lower <= counts.precision <= 1 for counts in table.values())


def test_the_page_has_each_code_as_it_was_counted():
    page = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(sql\.\w+)` \| (.*?) \| (\w+) \| ([\d.]+) \| ([\d.]+) \| (.*?) \|", page, re.MULTILINE)
    table = calibration.table()

    assert {row[0] for row in rows} == set(table) == set(SAYS) - {"sql.candidates_disagree"}
    for code, says, tier, precision, lower, questions in rows:
        counts = table[code]
        assert (says, tier) == (SAYS[code], counts.tier_of(code))
        assert (precision, lower, questions) == (
            f"{counts.precision:.2f}",
            f"{counts.lower:.2f}",
            str(counts.questions),
        )


def test_the_page_tells_what_the_counts_are_of():
    about = json.loads((PACKAGE / "calibration.json").read_text(encoding="utf-8"))["about"]
    page = PAGE.read_text(encoding="utf-8")

    assert f"{about['queries']:,} queries that run" in page
    assert f"{about['questions']:,} questions over {about['databases']} " in page
    assert f"{about['wrong']} of them are wrong" in page
    assert TIERS == ("error", "warn", "note")
