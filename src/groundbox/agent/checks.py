"""What looks at a run or an answer for evidence that it is wrong, as the loop asks it.

The loop takes any object with these two methods. `UsualChecks` asks `groundbox.check`, whose parts are found when
they are first needed, and does without those that are not there.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from groundbox.execution import Execution, Warning

logger = logging.getLogger(__name__)


class Checks(Protocol):
    """Finds what is wrong with what succeeded."""

    async def of_run(
        self, source: str, language: str, execution: Execution, *, options: Mapping[str, Any], question: str
    ) -> Sequence[Warning]:
        """Findings about one run that ended well, besides the execution's own warnings."""

    async def of_answer(self, text: str, executions: Sequence[Execution]) -> Sequence[Warning]:
        """One finding for each claim of an answer that no run bears out."""


class NoChecks:
    """Finds nothing."""

    async def of_run(self, source: str, language: str, execution: Execution, **_: Any) -> Sequence[Warning]:
        """Nothing."""
        return ()

    async def of_answer(self, text: str, executions: Sequence[Execution]) -> Sequence[Warning]:
        """Nothing."""
        return ()
