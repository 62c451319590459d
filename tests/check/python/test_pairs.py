"""Wrong programs and their mended forms."""

import pytest
from python_pairs_before import PAIRS as BEFORE

import groundbox as gb
from groundbox.check import check_python


def found(source, files):
    execution = gb.run(source, files=dict(files), checks=True)
    assert execution.ok, execution.error
    return [*execution.warnings, *check_python(source, execution)]


@pytest.mark.parametrize("pair", BEFORE, ids=[pair.name for pair in BEFORE])
def test_the_wrong_program_is_told_and_the_right_one_is_not(pair):
    wrong, right = found(pair.wrong, pair.files), found(pair.right, pair.files)

    assert pair.expects in [warning.code for warning in wrong]
    assert [warning for warning in right if warning.tier != "note"] == []
