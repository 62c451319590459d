"""A sandbox that is not asked for what needs none: straight arithmetic is worked out on the host, by `agent.routing`.

A program that was worked out so leaves its variables nowhere; before the next one that is run in the sandbox, those
that assign something are run there too, so that what comes later finds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from groundbox.agent.calc.straight import NotArithmetic
from groundbox.agent.events import Box, BranchingBox
from groundbox.agent.routing import route, run_arithmetic
from groundbox.execution import Execution


class RoutedBox:
    """Takes the place of a box; of one that can be copied, too."""

    def __init__(self, box: Box, owed: Sequence[str] = ()) -> None:
        self._box = box
        self._owed = list(owed)

    async def run(self, source: str, *, language: str = "python", **options: Any) -> Execution:
        """Run one program, here or there."""
        worked_out = self._worked_out(source, language)
        if worked_out is not None:
            return worked_out
        if self._owed:
            owed, self._owed = "\n".join(self._owed), []
            await self._box.run(owed, wall_s=options.get("wall_s"))
        return await self._box.run(source, language=language, **options)

    async def restart(self) -> list[str]:
        """A fresh process; variables that were owed to the old one are gone with it."""
        self._owed.clear()
        return await self._box.restart()

    async def fork(self, n: int) -> list[RoutedBox]:
        """Copies, to which the same variables are owed."""
        return [RoutedBox(each, self._owed) for each in await cast("BranchingBox", self._box).fork(n)]

    async def close(self) -> None:
        """End the sandbox."""
        await cast("BranchingBox", self._box).close()

    def _worked_out(self, source: str, language: str) -> Execution | None:
        taken = route(source, language)
        if taken.tier != "calc":
            return None
        try:
            execution = run_arithmetic(source)
        except NotArithmetic:
            return None
        if taken.assigns:
            self._owed.append(source)
        return execution
