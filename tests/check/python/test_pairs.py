"""Wrong programs and their mended forms."""

import pytest
from python_pairs_before import PAIRS as BEFORE

import groundbox as gb

NAMES = [pair.name for pair in BEFORE]


@pytest.mark.parametrize("pair", BEFORE, ids=NAMES)
def test_both_programs_of_a_pair_run_without_an_error(pair):
    files = dict(pair.files)

    ended = [gb.run(source, files=files).outcome for source in (pair.wrong, pair.right)]

    assert ended == ["ok", "ok"]
