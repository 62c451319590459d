"""A taskset for the library verifiers (0.4): rows of a file, each with a prompt and hidden tests. Needs verifiers.

verifiers finds a taskset by the name of a module without a package around it; `examples/verifiers` is such a module.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import verifiers.v1 as vf

from groundbox.endpoint.programs import program_of
from groundbox.errors import InvalidArgument
from groundbox.learn.rewards.rewarding import Rewards
from groundbox.sandbox.portal import PORTAL

_REWARDS = Rewards()


class CodingConfig(vf.TasksetConfig):
    """Settings.

    Attributes:
        path: Lines of JSON with `prompt`, `entry_point`, and `tests` or `cases` as `Rewards` takes them.
    """

    path: Path


class CodingData(vf.TaskData):
    """Row of the file; `row` is the JSON of what the judge needs."""

    row: str


class CodingTask(vf.Task[CodingData, vf.State, vf.TaskConfig]):
    """Asks for a program, which hidden tests judge."""

    @vf.reward
    async def passes(self, task: CodingData, trace: Any) -> float:
        """1 for a program that passes.

        Raises:
            SandboxError: There is no verdict. verifiers records the rollout as failed, which is no reward of 0.
        """
        row = json.loads(task.row)
        chosen = program_of(trace.last_reply, str(row.get("entry_point", "")))
        reward = await PORTAL.wait_for(_REWARDS.score_program(chosen.text, row))
        if reward is None:
            raise vf.SandboxError("no verdict: a sandbox failed, or the tests do not run")
        return reward


class CodingTaskset(vf.Taskset[CodingTask, CodingConfig]):
    """The rows of a file."""

    def load(self) -> Iterator[CodingTask]:
        """Yield a task for each line.

        Raises:
            InvalidArgument: A line lacks a key.
        """
        for number, line in enumerate(self.config.path.read_text(encoding="utf-8").splitlines(), 1):
            if not line.strip():
                continue
            row = json.loads(line)
            if not isinstance(row.get("prompt"), str) or not (row.get("tests") or row.get("cases")):
                raise InvalidArgument(
                    "path", f"{self.config.path}:{number} needs prompt, entry_point, and tests or cases"
                )
            judged = {name: row[name] for name in ("entry_point", "tests", "cases", "setup") if name in row}
            yield CodingTask(CodingData(prompt=row["prompt"], row=json.dumps(judged)), self.config.task)
