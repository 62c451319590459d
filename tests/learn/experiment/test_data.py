"""Plans in folders, programs of splits, and what refuses in words."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path

import pytest

from groundbox.errors import InvalidArgument
from groundbox.learn.experiment import arms, data
from groundbox.learn.experiment.arms import Example
from groundbox.learn.experiment.plan import LONG, QUICK, USUAL
from groundbox.trace.record.reading import Trace


def test_a_folder_is_held_to_its_plan_and_to_its_real_programs(tmp_path: Path) -> None:
    real = tmp_path / "real.jsonl"
    real.write_text("{}")
    folder = tmp_path / "out"
    data.keep_plan(folder, LONG, real)
    data.keep_plan(folder, LONG, real)
    assert data.read_plan(folder) == LONG

    real.write_text("{ }")
    for plan, other in ((LONG, real), (LONG, None), (QUICK, real), (dataclasses.replace(LONG, tokens=1), real)):
        with pytest.raises(InvalidArgument, match="other settings"):
            data.keep_plan(folder, plan, other)


def test_programs_of_the_training_have_no_held_out_combination() -> None:
    usual = [json.loads(line)["source"] for line in data._programs(40, USUAL, combined=False, seed=5)]
    held_out = [json.loads(line)["source"] for line in data._programs(5, USUAL, combined=True, seed=5)]
    assert not any(map(data._combined, usual))
    assert all(map(data._combined, held_out))
    assert any("//" in source for source in usual)


def test_too_few_programs_are_refused() -> None:
    without = dataclasses.replace(USUAL, constructs=frozenset({"branch"}))
    with pytest.raises(InvalidArgument, match="only 0 fit, and 3 are wanted"):
        list(data._programs(3, without, combined=True, seed=0))


def test_an_unrelated_narration_is_never_ones_own() -> None:
    some = [
        Example(id=name, source="", call="f()", answer="1", narration=name, trace=Trace.__new__(Trace))
        for name in ("one", "two")
    ]
    told = {arms.reply("unrelated", some[0], some, random.Random(seed)) for seed in range(20)}
    assert told == {"two\nAnswer: 1"}
