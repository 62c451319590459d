"""Figures, hypotheses and the page, from scores that are made up."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from groundbox.learn.experiment import report
from groundbox.learn.experiment.data import DRAWN, REAL, SAME
from groundbox.learn.experiment.hypotheses import HYPOTHESES
from groundbox.learn.experiment.plan import LONG
from groundbox.learn.experiment.report import Arm
from groundbox.learn.experiment.scoring import Scored


def scored(number: int, *, right: bool, borne_out: int = 0, told: int = 0, tokens: int = 100, **more: object) -> Scored:
    base = Scored(
        id=str(number), split=SAME, steps=5, right=right, tokens=tokens, finished=True, told=told, borne_out=borne_out,
        refuted=told - borne_out, unread=False, repeated=0.0, reply="1. <b>so</b>",
    )  # fmt: skip
    return dataclasses.replace(base, **more)  # type: ignore[arg-type]


def arm(
    name: str, right: int, *, borne_out: int = 0, told: int = 0, tokens: int = 100, texts: int | None = None
) -> Arm:
    scores = [scored(n, right=n < right, borne_out=borne_out, told=told, tokens=tokens) for n in range(100)]
    run = {"tokens_a_text": 90.0, "too_long": 0, "losses": [[1, 0.5]], "training_s": 60.0, "plan": {"tokens": 10}}
    told_texts = [scored(0, right=True, told=10, borne_out=10 if texts is None else texts)]
    return Arm(
        name=name, runs=[run, run], scores={0: scores, 1: scores}, texts=told_texts if told else [scored(0, right=True)]
    )


@pytest.fixture
def arms() -> list[Arm]:
    return [
        arm("direct", 40, tokens=2),
        arm("raw", 85, told=10, borne_out=9, tokens=200),
        arm("proven", 90, told=10, borne_out=10, tokens=100),
        arm("mutated", 60, told=10, borne_out=8, tokens=100, texts=6),
    ]


def test_figures_of_an_arm(arms: list[Arm]) -> None:
    found = report.figures(arms)["arms"]
    assert found["proven"]["accuracy"] == 0.9
    assert found["proven"]["interval"].low == pytest.approx(0.851, abs=0.001)
    assert (found["direct"]["step_truth"], found["raw"]["step_truth"]) == (None, 0.9)
    assert found["proven"]["seeds"] == {0: 0.9, 1: 0.9}


def test_hypotheses_hold_by_their_own_bounds(arms: list[Arm]) -> None:
    held = report.figures(arms)["hypotheses"]
    assert {name: each["holds"] for name, each in held.items()} == {
        "H1": True, "H2": False, "H3": True, "H4": True, "H5": False, "H6": None, "H7": None, "H8": None, "H9": None,
        "H10": None, "H11": None, "H12": None, "H13": None,
    }  # fmt: skip
    assert held["H4"]["bound"] == pytest.approx(0.2)
    assert held["H6"]["missing"] == ["unrelated"]
    low, high = held["H1"]["interval"]
    assert held["H1"]["value"] == pytest.approx(0.5)
    assert low < 0.5 < high


def test_a_hypothesis_about_drawn_replies_reads_them_alone(arms: list[Arm]) -> None:
    drawn = [
        dataclasses.replace(
            each,
            scores={
                0: [*each.scores[0], *(dataclasses.replace(s, split=DRAWN, borne_out=took) for s in each.scores[0])]
            },
        )
        for each, took in zip(arms[2:], (9, 5), strict=True)
    ]

    held = report.figures(drawn)["hypotheses"]["H12"]

    assert held["value"] == pytest.approx(0.4)
    assert held["holds"] is True


def test_one_arm_alone_is_told_and_compared_with_nothing(arms: list[Arm]) -> None:
    found = report.figures(arms[:1])
    assert all(each["holds"] is None for each in found["hypotheses"].values())
    assert "not tried, without proven" in report.table(found)


def test_programs_of_few_steps_and_other_splits_are_not_in_the_figure() -> None:
    some = [scored(0, right=True), scored(1, right=False, steps=2), scored(2, right=False, split=REAL)]
    run = {"tokens_a_text": 9.0, "too_long": 0, "losses": [[1, 0.5]], "training_s": 1.0, "plan": {"tokens": 1}}
    one = Arm(name="direct", runs=[run], scores={0: some}, texts=[scored(0, right=True)])
    found = report.figures([one])["arms"]["direct"]
    assert found["accuracy"] == 1.0
    assert found["splits"][REAL] == {"accuracy": 0.0, "n": 1, "step_truth": None}


def test_the_page_shows_texts_as_texts_and_the_json_is_one_line(arms: list[Arm], tmp_path: Path) -> None:
    found = report.figures(arms)
    page = report.page(found, arms)
    assert "<b>so</b>" not in page
    assert "&lt;b&gt;so&lt;/b&gt;" in page
    assert "\n" not in json.dumps(found)


def test_hypotheses_are_about_arms_of_the_long_form() -> None:
    assert {name for each in HYPOTHESES for name in each.arms} <= set(LONG.arms)
