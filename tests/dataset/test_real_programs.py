"""A dataset of programs that people wrote, where they are at hand (GROUNDBOX_DATA names their folder)."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

FOLDER = os.environ.get("GROUNDBOX_DATA", "")
FILE = Path(FOLDER) / "pyedu-514.jsonl"
PROGRAMS = 24
OURS = {"incomplete-trace", "traced-run-differs", "unproven-claims", "proof-too-long", "narrator-failed"}


@pytest.mark.skipif(not FOLDER or not FILE.exists(), reason="GROUNDBOX_DATA names no folder with pyedu-514.jsonl")
def test_real_programs_become_a_dataset_whose_every_claim_is_proven(tmp_path):
    with FILE.open() as lines:
        (tmp_path / "some.jsonl").write_text("".join(itertools.islice(lines, PROGRAMS)))

    command = [sys.executable, "-m", "groundbox", "dataset", "build", "--cases", "2", "--json"]
    places = ["--problems", str(tmp_path / "some.jsonl"), "--out", str(tmp_path / "out")]
    ran = subprocess.run([*command, *places], capture_output=True, text=True, check=True)

    report = json.loads(ran.stdout)
    assert report["traced"] == report["runnable"] > PROGRAMS
    assert OURS.isdisjoint(report["dropped"])
    assert report["claims"]["proven"] == report["claims"]["total"] > 1000
