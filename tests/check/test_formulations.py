"""Several programs for one question."""

import types
from typing import Any

import pytest

from groundbox.check import Candidate, compare_candidates, formulations
from groundbox.errors import InvalidArgument

SALES = {"sales.csv": "region,amount\nnorth,120\nsouth,80\nnorth,30\n"}
PANDAS = "import pandas as pd\npd.read_csv('sales.csv').groupby('region', as_index=False)['amount'].sum()"
SQL = Candidate(
    source="SELECT sum(amount) AS total, region FROM 'sales.csv' GROUP BY 2 ORDER BY 2 DESC", language="sql"
)
PLAIN = """
import csv
totals = {}
for row in csv.DictReader(open("sales.csv")):
    totals[row["region"]] = totals.get(row["region"], 0) + int(row["amount"])
"""
WRONG = "import pandas as pd\npd.read_csv('sales.csv').groupby('region', as_index=False)['amount'].max()"


def test_programs_in_different_languages_agree_about_a_table():
    agreement = compare_candidates([PANDAS, SQL], files=SALES)

    assert (agreement.groups, agreement.winner, agreement.warnings) == ([[0, 1]], 0, ())


def test_the_most_win_and_the_smallest_difference_is_shown():
    agreement = compare_candidates([WRONG, PANDAS, SQL], files=SALES)

    assert (agreement.groups, agreement.winner) == ([[1, 2], [0]], 1)
    (warning,) = agreement.warnings
    assert warning.code == "formulation.disagree"
    assert warning.evidence == {"groups": [[1, 2], [0]], "pair": [1, 0], "differing": 1}
    assert warning.message == (
        "2 different answers (candidates with each: 2, 1); candidates 1 and 0 differ least: a row: 150 and 120"
    )


def test_two_that_disagree_have_no_winner():
    agreement = compare_candidates(["1 + 1", "3"])

    assert (agreement.groups, agreement.winner) == ([[0], [1]], None)
    assert agreement.warnings[0].message.endswith("line 1: '2' and '3'")


@pytest.mark.parametrize(
    ("printed", "winner"),
    [("aab", 0), ("baa", 1), ("ab", None), ("aabb", None), ("abbacc", None), ("abccb", None), ("a", 0), ("", None)],
)
def test_only_a_group_larger_than_all_others_wins(printed, winner):
    runs: list[Any] = [types.SimpleNamespace(ok=True, value=None, text=None, stdout=each) for each in printed]

    assert formulations.agreement(runs).winner == winner


def test_numbers_agree_within_their_tolerance():
    agreement = compare_candidates(["0.1 + 0.2", "0.3", "print(0.3)", "(1, 2)[0] * 0.3000001"])

    assert agreement.groups == [[0, 1, 2], [3]]


def test_printed_lines_agree_in_any_order_unless_it_counts():
    programs = ["print('a 1')\nprint('b 2')", "print('b 2.0')\nprint('a 1')"]

    assert compare_candidates(programs).groups == [[0, 1]]
    assert compare_candidates(programs, ordered=True).groups == [[0], [1]]


def test_those_that_fail_have_no_vote():
    agreement = compare_candidates(["1 / 0", "2", "1 / 0"])

    assert (agreement.groups, agreement.winner, agreement.failed) == ([[1]], 1, [0, 2])


def test_a_candidate_leaves_no_file_for_the_next():
    agreement = compare_candidates(["open('x', 'w').write('1'); 0", "import os\nint(os.path.exists('x'))"])

    assert agreement.groups == [[0, 1]]


@pytest.mark.parametrize("candidates", [[], ["1"], ["1"] * 21])
def test_two_to_twenty_are_compared(candidates):
    with pytest.raises(InvalidArgument, match="candidates: must be 2 to 20 programs"):
        compare_candidates(candidates)
