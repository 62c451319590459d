"""Recorded queries of models, where they are at hand (GROUNDBOX_DATA names their folder)."""

import json
import os
from pathlib import Path

import pytest

from groundbox.check import check_sql
from groundbox.check.sql.files import FileDatabase

FOLDER = os.environ.get("GROUNDBOX_DATA", "")
RECORDED = Path(FOLDER) / "sql-predictions"
ONE_OF = 7


@pytest.mark.skipif(
    not FOLDER or not (RECORDED / "predictions.jsonl").exists(),
    reason="GROUNDBOX_DATA names no folder with sql-predictions/predictions.jsonl",
)
def test_errors_are_wrong_and_right_queries_are_left_alone():
    records = [json.loads(line) for line in (RECORDED / "predictions.jsonl").read_text(encoding="utf-8").splitlines()]
    records = [record for record in records[::ONE_OF] if record["result"] != "error"]
    tiers = {True: [], False: []}

    for name in sorted({record["db"] for record in records}):
        with FileDatabase(RECORDED / "db" / f"{name}.sqlite", "sqlite") as database:
            for record in records:
                if record["db"] == name:
                    told = check_sql(record["predicted"], database=database, question=record["question"])
                    assert not {"sql.rule_failed", "sql.does_not_run"} & {warning.code for warning in told}, record
                    tiers[record["result"] == "wrong"].append({warning.tier for warning in told})

    wrong, right = tiers[True], tiers[False]
    errors = sum("error" in each for each in wrong), sum("error" in each for each in right)
    assert len(wrong) > 40
    assert errors[0] >= 0.85 * sum(errors)
    assert errors[0] >= 0.25 * len(wrong)
    assert errors[1] <= 0.03 * len(right)
    assert sum(bool(each & {"error", "warn"}) for each in wrong) >= 0.4 * len(wrong)
