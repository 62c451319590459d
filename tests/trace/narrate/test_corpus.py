"""Programs that people wrote, where they are at hand (GROUNDBOX_DATA names their folder)."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from groundbox.trace.narrate.narrator import narrate

FOLDER = os.environ.get("GROUNDBOX_DATA", "")
FILE = Path(FOLDER) / "pyedu-514.jsonl"
NUMBERS = (2, 4, 10, 17, 31, 44, 48, 60)


@pytest.mark.skipif(not FOLDER or not FILE.exists(), reason="GROUNDBOX_DATA names no folder with pyedu-514.jsonl")
@pytest.mark.parametrize("number", NUMBERS)
def test_a_real_program_is_told_up_to_its_recorded_answer(recorded, number):
    row = json.loads(FILE.read_text().splitlines()[number])
    first = row["ios"][0]
    trace = recorded(row["refcode"], row["funcname"], *first["input"].values())

    told = narrate(trace, max_chars=8000)

    assert told.text.endswith(told.answer)
    assert told.answer == f"So {row['funcname']} returns {first['output']!r}."
    assert len(told.text) <= 8000
