"""The list of codes is that of the rules, and the tests have each of them."""

import importlib.util
import re
from pathlib import Path

from groundbox.check.sql import calibration, catalog

HERE = Path(__file__).parent
RULES = Path(calibration.__file__).parent / "rules"


def test_each_code_of_a_rule_is_in_the_catalog():
    written = {code for file in RULES.glob("*.py") for code in re.findall(r'"sql\.([a-z_{}]+)"', file.read_text())}
    written = (written - {"bare_{clause}"}) | {"bare_having", "bare_order"}

    listed = {code for family, codes in catalog.FAMILIES.items() if family != "candidates" for code in codes}
    assert written == listed


def test_each_code_has_a_query_that_fires_it():
    spec = importlib.util.spec_from_file_location("rules_tested", HERE / "test_rules.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    tested = {row[0] for row in module.FIRES} | set(module.TESTED_ELSEWHERE)
    assert tested == {code.removeprefix("sql.") for code in catalog.FAMILY_OF}


def test_a_code_that_was_never_seen_is_no_error():
    seen = calibration.Counts(queries=90, wrong=90, questions=90)
    table = calibration.Table({"sql.value_case": {"one": seen, "two": seen}})

    assert table.tier("sql.value_case") == "error"
    assert table.expected("sql.value_blanks") > calibration.ERROR_FROM
    assert table.tier("sql.value_blanks") == "warn"


def test_few_questions_weigh_little_however_many_queries_they_have():
    few = calibration.Counts(queries=60, wrong=60, questions=1)
    many = calibration.Counts(queries=60, wrong=60, questions=30)

    assert calibration.Table({"sql.zero": {"one": few}}).tier("sql.zero") == "warn"
    assert calibration.Table({"sql.zero": {"one": many, "two": many}}).tier("sql.zero") == "error"


def test_what_holds_on_one_database_alone_is_no_error():
    holds = calibration.Counts(queries=60, wrong=60, questions=30)
    fails = calibration.Counts(queries=6, wrong=1, questions=6)

    table = calibration.Table({"sql.zero": {"one": holds, "two": fails}})

    assert table.expected("sql.zero") > calibration.ERROR_FROM
    assert table.tier("sql.zero") == "warn"


def test_the_table_that_is_shipped_knows_only_listed_codes():
    for situation in calibration.SITUATIONS:
        assert set(calibration.table(situation).codes) <= set(catalog.FAMILY_OF)
