"""A dataset with other texts between question and answer."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest

from groundbox.dataset.program_runner import Request, RunResult, SandboxRunner
from groundbox.dataset.sample_files import SAMPLES, read_samples
from groundbox.errors import InvalidArgument
from groundbox.learn.experiment.retold import retell
from groundbox.learn.training import chats

SOURCE = "def f(n):\n    total = 0\n    for i in range(n):\n        total = total + i\n    return total\n"


def groundbox(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "groundbox", "dataset", *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dataset")
    cases = [{"args": [n]} for n in (2, 3, 4)]
    (folder / "p.jsonl").write_text(json.dumps({"source": SOURCE, "entry": "f", "cases": cases}) + "\n")
    groundbox("build", folder / "p.jsonl", "--out", folder / "ds", "--task", "output", "--test", 0, "--validation", 0)
    return folder / "ds"


def retold(dataset: Path, arm: str, out: Path, runner: SandboxRunner | None = None) -> dict[str, int]:
    return dict(asyncio.run(retell(dataset, [arm], out, runner or SandboxRunner(at_once=1))))


@pytest.mark.parametrize(
    ("arm", "begins"),
    [("direct", "Answer: "), ("raw", ">>> Call to f\n...... n = "), ("concise", "f(n=")],
)
def test_an_arm_has_the_questions_and_answers_of_the_dataset(
    dataset: Path, tmp_path: Path, arm: str, begins: str
) -> None:
    counts = retold(dataset, arm, tmp_path / "out")

    before, after = list(read_samples(dataset / SAMPLES)), list(read_samples(tmp_path / "out" / arm / SAMPLES))
    assert counts == {"samples": len(before), "other-task": 0, "other-answer": 0, "further": 0, "too-long": 0}
    assert len(before) == 3
    assert [(each.id, each.prompt, each.answer) for each in after] == [(e.id, e.prompt, e.answer) for e in before]
    assert all(each.reply.startswith(begins) and each.reply.endswith(f"Answer: {each.answer}") for each in after)
    corpus = chats.corpus(tmp_path / "out" / arm)
    assert corpus.checked
    assert [chat[-1]["content"] for chat in corpus.chats["train"]] == [each.reply for each in after]


def test_arms_of_one_pass_have_the_same_questions_and_proven_keeps_its_narrations(
    dataset: Path, tmp_path: Path
) -> None:
    counts = asyncio.run(
        retell(dataset, ["direct", "proven"], tmp_path / "out", SandboxRunner(at_once=1), per_program=2)
    )

    before = list(read_samples(dataset / SAMPLES))[:2]
    direct, proven = (list(read_samples(tmp_path / "out" / arm / SAMPLES)) for arm in ("direct", "proven"))
    assert counts == {"samples": 2, "other-task": 0, "other-answer": 0, "further": 1, "too-long": 0}
    assert proven == before
    assert [each.id for each in direct] == [each.id for each in before]


def test_a_question_that_is_too_long_in_one_arm_is_left_out_of_all(dataset: Path, tmp_path: Path) -> None:
    whole = asyncio.run(retell(dataset, ["direct", "raw"], tmp_path / "whole", SandboxRunner(at_once=1)))
    raw = list(read_samples(tmp_path / "whole" / "raw" / SAMPLES))
    lengths = sorted(len(each.prompt) + len(each.reply) for each in raw)

    counts = asyncio.run(
        retell(dataset, ["direct", "raw"], tmp_path / "out", SandboxRunner(at_once=1), most_chars=lengths[1])
    )

    direct, raw = (list(read_samples(tmp_path / "out" / arm / SAMPLES)) for arm in ("direct", "raw"))
    assert (whole["samples"], counts["samples"], counts["too-long"]) == (3, 2, 1)
    assert [each.id for each in direct] == [each.id for each in raw]
    assert len(raw) == 2
    assert "2 samples" in (tmp_path / "out" / "direct" / "README.md").read_text()
    assert f"{lengths[1]:,} characters" in (tmp_path / "out" / "direct" / "README.md").read_text()


def test_a_run_that_gives_something_else_is_left_out(dataset: Path, tmp_path: Path) -> None:
    class Other(SandboxRunner):
        async def run(self, request: Request) -> RunResult:
            ran = await super().run(request)
            return dataclasses.replace(ran, answer=dataclasses.replace(ran.answer, text="-1"))

    counts = retold(dataset, "raw", tmp_path / "out", Other(at_once=1))

    assert (counts["samples"], counts["other-answer"]) == (0, len(list(read_samples(dataset / SAMPLES))))


def test_a_folder_that_holds_something_is_not_written_into(dataset: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").touch()

    with pytest.raises(InvalidArgument, match="is not empty"):
        retold(dataset, "direct", tmp_path)


def test_what_nobody_proved_says_so(dataset: Path, tmp_path: Path) -> None:
    retold(dataset, "raw", tmp_path / "out")

    verified = groundbox("verify", tmp_path / "out" / "raw")

    assert verified.returncode == 2
    assert "is no dataset that was built; where it tells another one otherwise, name that one" in verified.stderr
    assert chats.corpus(dataset).digest in (tmp_path / "out" / "raw" / "README.md").read_text()
