"""An environment for trainers that let a model call tools, such as TRL's `environment_factory`: a Python session.

One object serves one rollout after the other. Public methods other than `reset` and `get_reward` are what the model
may call; the trainer shows it their docstrings.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Final

from groundbox.errors import GroundboxError, InvalidArgument
from groundbox.execution import Execution
from groundbox.learn.rewards.rewarding import LIMITS, Rewards
from groundbox.learn.rewards.scoring import Reward
from groundbox.limits import Limits
from groundbox.sandbox.portal import Sandbox

_MOST_SHOWN: Final = 4000
_MOST_PROGRAM_CHARS: Final = 200_000


class CodingEnvironment:
    """A session in a sandbox of its own, and a program that is judged by hidden tests.

    A row of the data set has `entry_point`, and `tests` or `cases` as `Rewards` takes them.
    To give limits or options, hand the trainer `functools.partial(CodingEnvironment, limits=…)`.
    """

    def __init__(self, *, limits: Limits = LIMITS, options: Mapping[str, Any] | None = None) -> None:
        """Args:
        limits: Of each run of the session, of each call of the program, and of the tests.
        options: Of the sandboxes.
        """
        self._limits, self._options = limits, {"inspect": False, **(options or {})}
        self._rewards = Rewards(limits=limits, options=options)
        self._box: Sandbox | None = None
        self._row: Mapping[str, Any] = {}
        self._program: str | None = None
        self._has_failed = False

    def reset(self, **row: Any) -> None:
        """Begin a rollout: a new session, and nothing handed in.

        Args:
            row: Columns of the data set; other ones than are needed are left alone.

        Raises:
            InvalidArgument: It has no tests.
        """
        self._end()
        if not row.get("entry_point") or not (row.get("tests") or row.get("cases")):
            raise InvalidArgument("row", "needs entry_point, and tests or cases, to give a reward")
        self._row, self._program, self._has_failed = row, None, False

    def run_python(self, code: str) -> str:
        """Run Python code in a session that keeps variables and files, and return what it printed and its value.

        Args:
            code: The code to run; the value of its last expression is shown.

        Returns:
            Output, value and error of the run.
        """
        try:
            if self._box is None:
                self._box = Sandbox(limits=self._limits, restart="auto", **self._options)
            return _shown(self._box.run(str(code)[:_MOST_PROGRAM_CHARS]))
        except InvalidArgument as error:
            return f"not run: {error.problem}"
        except GroundboxError:
            self._has_failed = True
            raise

    def submit(self, program: str) -> str:
        """Hand in the whole program with the function that was asked for. The last one that is handed in counts.

        Args:
            program: The source of the program.

        Returns:
            A confirmation.
        """
        self._program = str(program)[:_MOST_PROGRAM_CHARS]
        return "handed in"

    def get_reward(self) -> Reward:
        """1 if the program that was handed in is right, 0 if not, or if there is none; None where a sandbox failed."""
        self._end()
        if self._has_failed:
            return None
        if self._program is None:
            return 0.0
        return self._rewards.program(self._program, self._row)

    def _end(self) -> None:
        box, self._box = self._box, None
        if box is not None:
            with contextlib.suppress(GroundboxError):
                box.close()


def _shown(execution: Execution) -> str:
    """A run as text for a model: a bounded part of what it printed, its value, and how it failed."""
    parts = [_cut(execution.stdout), _cut(execution.stderr)]
    if execution.value is not None:
        parts.append(_cut(str(execution.value.get("text/plain", ""))))
    if execution.error is not None:
        told = execution.error.traceback or f"{execution.error.type}: {execution.error.message}"
        parts.append(_cut(told))
    return "\n".join(part for part in parts if part) or "(no output)"


def _cut(text: str) -> str:
    text = text.strip("\n")
    if len(text) <= _MOST_SHOWN:
        return text
    half = _MOST_SHOWN // 2
    return f"{text[:half]}\n… {len(text) - _MOST_SHOWN} characters left out …\n{text[-half:]}"
