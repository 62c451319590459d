"""An agent that answers questions over files and databases, and says which claims of its answer no run bears out.

It is the loop of `loop` with a sandbox of its own for each question, and the usual checks. An answer is read claim by
claim against what the runs showed; where something is not borne out the model is asked once to mend it, and what is
still not borne out is named in `Ended.unsupported`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

from groundbox.agent.checks import Checks, UsualChecks
from groundbox.agent.events import Ended, Event
from groundbox.agent.loop import converse
from groundbox.agent.messages import Model
from groundbox.agent.reply import MOST_BRANCHES
from groundbox.agent.routed import RoutedBox
from groundbox.agent.turn import Bounds
from groundbox.errors import InvalidArgument
from groundbox.sandbox.options import Rollback
from groundbox.sandbox.sandbox import AsyncSandbox

Content = bytes | str | os.PathLike[str]


class GroundedAgent:
    """Answers one question after another; nothing is kept between two."""

    def __init__(
        self,
        model: Model,
        *,
        bounds: Bounds | None = None,
        checks: Checks | None = None,
        databases: Mapping[str, Any] | None = None,
        branches: int = 1,
        rollback: Rollback | None = None,
        make_sandbox: Callable[..., AsyncSandbox] = AsyncSandbox,
        **sandbox: Any,
    ) -> None:
        """Args:
        checks: By default those of `groundbox.check`.
        databases: As AsyncSandbox takes them, by the names that the model uses.
        branches: How many programs the model may try side by side, each on a copy of variables and files, to go on
            from one of them; at most 8. With 1 it is not offered.
        rollback: `on_error` for a sandbox that goes back to the state before a run that has failed.
        make_sandbox: Makes the sandbox of a question of all further arguments; `groundbox.connect(url).AsyncSandbox`
            makes it on a server.
        sandbox: Further arguments of AsyncSandbox, such as `limits`.

        Raises:
            InvalidArgument: `branches` or `rollback` is none of those.
        """
        if type(branches) is not int or not 1 <= branches <= MOST_BRANCHES:
            raise InvalidArgument("branches", f"must be a whole number from 1 to {MOST_BRANCHES}, not {branches!r}")
        self._model, self._bounds, self._branches = model, bounds or Bounds(), branches
        copies = {"branching": True} if branches > 1 else {}
        self._sandbox = {**sandbox, **copies, **({} if rollback is None else {"rollback": rollback})}
        self._make_sandbox = make_sandbox
        self._databases = dict(databases or {})
        self._checks = checks or UsualChecks(databases=self._databases)

    async def ask(self, question: str, *, files: Mapping[str, Content] | None = None) -> Ended:
        """Answer a question.

        Args:
            files: Path in the workdir to content; a path object is a file or folder of the host, which is copied.

        Raises:
            InvalidArgument, GuestFileError, SandboxUnavailable: Nothing was asked.
        """
        last: Event | None = None
        async with contextlib.aclosing(self.stream(question, files=files)) as events:
            async for event in events:
                last = event
        assert isinstance(last, Ended)
        return last

    async def stream(self, question: str, *, files: Mapping[str, Content] | None = None) -> AsyncGenerator[Event, None]:
        """The same, event by event as it happens. Leaving early ends the sandbox."""
        reached = {"databases": self._databases} if self._databases else {}
        async with self._make_sandbox(**reached, **self._sandbox) as box:
            await put(box, files or {})
            events = converse(
                question,
                model=self._model,
                box=RoutedBox(box),
                files=await box.files.list() if files else {},
                databases=self._databases,
                checks=self._checks,
                bounds=self._bounds,
                branches=self._branches,
            )
            async with contextlib.aclosing(events):
                async for event in events:
                    yield event


async def put(box: AsyncSandbox, files: Mapping[str, Content]) -> None:
    """Put files into a sandbox, before its first program."""
    for path, content in files.items():
        if isinstance(content, os.PathLike):
            await box.files.put(content, path)
        else:
            await box.files.write(path, content)
