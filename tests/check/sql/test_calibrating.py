"""The script that counts: what it makes of queries that were seen, and where it writes the tables."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "calibrate_sql_checks.py"


@pytest.fixture(scope="module")
def script():
    pytest.importorskip("sqlglot", reason="sqlglot is not installed: the extra `check` of groundbox brings it")
    spec = importlib.util.spec_from_file_location("calibrate_sql_checks", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def queries(script, db, questions, *, wrong, code, copies=1):
    """Queries with a finding, several for each question."""
    return [
        script.Seen(db, question, f"system {n}", "", wrong, "alone", frozenset({code}))
        for question in range(questions)
        for n in range(copies)
    ]


def test_a_question_counts_once_however_many_queries_it_has(script):
    seen = queries(script, "one", 1, wrong=True, code="sql.value_absent", copies=30)
    seen += queries(script, "two", 3, wrong=False, code="sql.value_absent")

    told = script.counted(seen)["sql.value_absent"]

    assert (told.queries, told.wrong, told.questions, told.databases, told.precision) == (33, 30, 4, 2, 0.5)


def test_what_speaks_on_the_database_alone_has_no_part_in_its_tiers(script):
    seen = [each for db in ("a", "b", "c", "d") for each in queries(script, db, 6, wrong=True, code="sql.group_of_one")]
    without_a = script.counted_by_situation([each for each in seen if each.db != "a"])

    assert script.tier(seen[0], script.counted_by_situation(seen)) == "error"
    assert script.tier(seen[0], without_a) == "note"  # three databases are too few


def test_databases_without_a_finding_are_skipped_for_the_precision_and_not_for_the_recall(script):
    caught = queries(script, "one", 4, wrong=True, code="sql.value_absent")
    missed = queries(script, "two", 4, wrong=True, code="sql.tie")
    alarm = queries(script, "three", 2, wrong=False, code="sql.value_absent")

    found = script.Summary.of([(each, each.codes == {"sql.value_absent"}) for each in (*caught, *missed, *alarm)])

    assert found.mean.precision == 0.5  # of the first and the third
    assert found.mean.recall == pytest.approx(1 / 3)
    assert found.pooled == script.Figures(4 / 6, 4 / 8, 1.0)
    assert found.most_of_right == 1.0


def test_tables_are_written_between_their_marks_and_nowhere_else(script):
    page = "a\n<!-- rules -->\nold\n<!-- end of rules -->\nb\n<!-- bars -->\n<!-- end of bars -->\nc\n"

    written = script.with_tables(page, {"rules": ["| x |", "| y |"], "bars": ["| z |"]})

    assert written == (
        "a\n<!-- rules -->\n| x |\n| y |\n<!-- end of rules -->\nb\n<!-- bars -->\n| z |\n<!-- end of bars -->\nc\n"
    )
    assert script.with_tables(written, {"rules": ["| x |", "| y |"], "bars": ["| z |"]}) == written


def test_the_page_has_a_mark_for_each_table(script):
    page = script.PAGE.read_text(encoding="utf-8")

    for name in ("tiers", "databases", "bars", "rules", "candidates"):
        before, _, rest = page.partition(f"<!-- {name} -->\n")
        assert before
        assert rest.partition(f"<!-- end of {name} -->")[0].startswith("| ")
