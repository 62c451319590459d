"""The stored traces of the programs that the prose is about, and the prose."""

import json
from functools import cache
from pathlib import Path

import pytest

from groundbox.trace.reading import Trace

HERE = Path(__file__).parents[1] / "claims"


@cache
def _stored(program):
    return Trace.loads((HERE / "traces" / f"{program}.jsonl").read_bytes())


@pytest.fixture(scope="session")
def stored():
    """The trace of one program of `programs/`, called as `programs/entries.json` says."""
    return _stored


@pytest.fixture(scope="session")
def prose():
    """Every narration of one part of the corpus: its program, its number, what is wrong with it (or None), its text."""

    def rows(*, held_out):
        for path in sorted((HERE / "prose").glob("*.json")):
            for number, row in enumerate(json.loads(path.read_text())):
                if row["held_out"] is held_out:
                    yield path.stem, number, row["wrong"], row["text"]

    return rows
