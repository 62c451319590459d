"""Wrong programs and their mended forms, and how sure the rules are by them."""

import collections
from pathlib import Path

import pytest
from python_pairs_after import PAIRS as AFTER
from python_pairs_before import PAIRS as BEFORE
from python_pairs_late import PAIRS as LATE

import groundbox as gb
from groundbox.check import check_python
from groundbox.check.python.check import EVIDENCE, Counts, tier_of
from groundbox.sandbox import observations

ON_PURPOSE = {
    "complete cases": "pandas.rows_dropped",
    "blanks that are looked at": "pandas.values_lost",
    "only the known regions": "pandas.groups_dropped",
    "whole years": "pandas.astype_lossy",
    "dice and shuffles": "python.unseeded_random",
    "a comparison of two lists": "pandas.merge_empty",
}
"""Right programs that do on purpose what a rule looks for: they are told, too."""

ALL = [*BEFORE, *AFTER, *LATE]


def found(source, files):
    execution = gb.run(source, files=dict(files), checks=True)
    assert execution.ok, execution.error
    return {warning.code for warning in (*execution.warnings, *check_python(source, execution))}


@pytest.mark.parametrize("pair", ALL, ids=[pair.name for pair in ALL])
def test_the_wrong_program_is_told_and_the_right_one_is_not(pair):
    wrong, right = found(pair.wrong, pair.files), found(pair.right, pair.files)

    assert pair.expects in wrong
    assert {code for code in right if code in EVIDENCE} == (
        {ON_PURPOSE[pair.name]} if pair.name in ON_PURPOSE else set()
    )


WITHOUT_CHANCE = [pair for pair in ALL if pair.expects.startswith("pandas.")]


@pytest.mark.parametrize("pair", WITHOUT_CHANCE, ids=[pair.name for pair in WITHOUT_CHANCE])
def test_a_watched_program_does_what_it_does_unwatched(pair):
    for source in (pair.wrong, pair.right):
        plain, watched = (
            gb.run(source, files=dict(pair.files), checks=checks, mode="script") for checks in (False, True)
        )

        assert (watched.outcome, watched.stdout, watched.stderr) == (plain.outcome, plain.stdout, plain.stderr)


def test_every_pair_that_was_held_out_is_in_the_evidence():
    written = collections.Counter(pair.expects for pair in (*AFTER, *LATE))

    assert {code: counts.pairs for code, counts in EVIDENCE.items() if counts.pairs} == written


def test_the_evidence_is_in_the_documentation():
    page = (Path(__file__).parents[3] / "docs" / "checks.md").read_text(encoding="utf-8")

    for code, n in EVIDENCE.items():
        assert f"| `{code}` | {n.told} | {n.pairs} | {n.alarms} | {n.recorded} |" in page


def test_the_tiers_of_observers_are_those_of_the_evidence():
    for kind in observations.KINDS.values():
        assert (kind.code, kind.tier) == (kind.code, tier_of(kind.code))


def test_what_was_told_of_few_programs_is_a_note_however_often_it_was_right():
    assert {code for code, counts in EVIDENCE.items() if tier_of(code) != "note"} == set()
    assert Counts(3, 3, 0, 0).measured.precision == 1.0
    assert Counts(90, 90, 0, 0).measured.tier() == "note"  # one source of programs


def test_true_alarms_on_recorded_programs_count_there():
    told = Counts(5, 3, 1, 3).measured  # two of the five were recorded ones

    assert (told.questions, told.databases) == (9, 2)
    assert told.precision == pytest.approx((3 / 4 + 2 / 5) / 2)
