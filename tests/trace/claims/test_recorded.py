"""Texts of models that are labelled by running, where they are at hand (GROUNDBOX_DATA names their folder)."""

import collections
import importlib.util
import json
import os
import random
from pathlib import Path

import pytest

FILE = Path(os.environ.get("GROUNDBOX_DATA", "")) / "narrations" / "narrations.jsonl"
SCRIPT = Path(__file__).parents[3] / "scripts" / "measure_claims.py"


@pytest.mark.slow
@pytest.mark.skipif(not FILE.is_file(), reason="GROUNDBOX_DATA names no folder with narrations/narrations.jsonl")
def test_right_texts_pass_and_wrong_ones_do_not():
    spec = importlib.util.spec_from_file_location("measure_claims", SCRIPT)
    measure = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(measure)
    counts = {True: collections.Counter(), False: collections.Counter()}
    rows = [row for row in map(json.loads, FILE.read_text().splitlines()) if row["right"] is not None]
    sample = random.Random(0).sample(rows, 120)

    for row in sample:
        trace = measure.recorded(row["program"], row["call"])
        measure.count_one(counts[row["right"]], row["text"], trace, random.Random(0))

    assert counts[True]["pass"] >= 0.3 * counts[True]["texts"]
    assert counts[False]["pass"] <= 1
    assert counts[True]["refuted"] == 0
    assert counts[True]["noticed"] >= 0.85 * counts[True]["changed"]
