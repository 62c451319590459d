"""The tools `run_code` and `read_output` for agents of pydantic-ai.

Each run of an agent has a session and a sandbox of its own, begun at the first call and ended with the run.
What goes where:

| what happened | what the agent gets |
|---|---|
| the program ended well | `ToolReturn`: the observation, pictures as content, the execution as metadata for the host |
| it failed, a finding says it is wrong, or the call cannot be meant | `ModelRetry`: counts against its retries |
| the sandbox cannot be had, or a bound is reached | `ToolFailed`: the model is told, and nothing is to be tried again |
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any, Final

from pydantic_ai import RunContext
from pydantic_ai.exceptions import ModelRetry, ToolFailed
from pydantic_ai.messages import ToolReturn
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from groundbox.agent.checks import Checks, UsualChecks
from groundbox.agent.events import Noticed, Observed
from groundbox.agent.grounded import Content, put
from groundbox.agent.instructions import READING, tools
from groundbox.agent.loop import LANGUAGES
from groundbox.agent.messages import Call, Message, Reply
from groundbox.agent.pydantic_ai.model import definitions, pictures_of
from groundbox.agent.reply import Read, Run, steps_of
from groundbox.agent.routed import RoutedBox
from groundbox.agent.session import Over, Session
from groundbox.agent.turn import Bounds, Verdict
from groundbox.errors import GroundboxError
from groundbox.sandbox.sandbox import AsyncSandbox

_ANYTHING: Final = SchemaValidator(core_schema.dict_schema())


class SandboxToolset(AbstractToolset[Any]):  # type: ignore[misc]
    """Runs programs for an agent. One object serves many runs of agents at once; each gets a copy.

    `bounds` counts runs, retries, failures and time; turns and tokens are the agent's own (`UsageLimits`).
    """

    def __init__(
        self,
        *,
        bounds: Bounds | None = None,
        checks: Checks | None = None,
        databases: Mapping[str, Any] | None = None,
        files: Mapping[str, Content] | None = None,
        id: str | None = "groundbox",
        **sandbox: Any,
    ) -> None:
        """Args:
        files: Path in the workdir to content, put there before the first program.
        sandbox: Further arguments of AsyncSandbox, such as `limits`.
        """
        self._databases, self._files, self._id = dict(databases or {}), dict(files or {}), id
        self._bounds, self._checks = bounds or Bounds(), checks or UsualChecks(databases=self._databases)
        self._options = sandbox
        self._lock = asyncio.Lock()
        self._open = contextlib.AsyncExitStack()
        self._session: Session | None = None

    @property
    def id(self) -> str | None:
        """Names it among the toolsets of an agent."""
        return self._id

    @property
    def session(self) -> Session | None:
        """The session of this run of an agent, once there was a call."""
        return self._session

    def copy(self) -> SandboxToolset:
        """The same without a session."""
        return SandboxToolset(
            bounds=self._bounds,
            checks=self._checks,
            databases=self._databases,
            files=self._files,
            id=self._id,
            **self._options,
        )

    async def for_run(self, ctx: RunContext[Any]) -> SandboxToolset:
        """A copy for one run of an agent."""
        return self.copy()

    async def __aexit__(self, *_: Any) -> None:
        """End the sandbox."""
        self._session = None
        await self._open.aclose()

    async def get_instructions(self, ctx: RunContext[Any]) -> str:
        """How to read an observation."""
        return READING

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """The two tools; calls of one reply are carried out one after another."""
        found = {}
        for definition in definitions(tools(LANGUAGES, self._databases)):
            definition.sequential = True
            found[definition.name] = ToolsetTool(
                toolset=self,
                tool_def=definition,
                max_retries=self._bounds.max_retries - 1,
                args_validator=_ANYTHING,
            )
        return found

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Run a program, or read on in an output.

        Raises:
            ModelRetry: The program or the call is to be mended.
            ToolFailed: There is nothing to be tried again.
        """
        call = Call(name=name, arguments=tool_args, call_id=ctx.tool_call_id or "")
        (step,) = steps_of(Reply(calls=[call]), LANGUAGES)
        async with self._lock:
            try:
                session = await self._begun(ctx)
                if isinstance(step, Read):
                    return await session.read(step)
                if isinstance(step, Run):
                    return _returned(await session.run(step), session)
            except (Over, GroundboxError) as error:
                raise ToolFailed(str(error)) from error
        raise ModelRetry(getattr(step, "problem", "This call cannot be carried out."))

    async def _begun(self, ctx: RunContext[Any]) -> Session:
        if self._session is None:
            box = await self._open.enter_async_context(AsyncSandbox(databases=self._databases, **self._options))
            await put(box, self._files)
            question = ctx.prompt if isinstance(ctx.prompt, str) else ""
            self._session = Session(
                RoutedBox(box), checks=self._checks, bounds=self._bounds, question=question, turns_counted=False
            )
        elif why := self._session.exhausted():
            raise ToolFailed(f"Not run: {why}. Answer with what was shown, and say what is missing.")
        return self._session


def _returned(event: Observed | Noticed, session: Session) -> ToolReturn[Any]:
    if isinstance(event, Noticed):
        raise ModelRetry(event.text)
    observation = event.observation
    if event.decision.verdict is Verdict.RETRY:
        if why := session.exhausted():
            raise ToolFailed(f"{observation.text}\nNothing more is run: {why}. Answer with what was shown.")
        raise ModelRetry(observation.text)
    shown = pictures_of(Message(role="tool", pictures=observation.pictures))
    return ToolReturn(
        return_value=observation.text,
        content=shown or None,
        metadata={"run": event.run, "execution": event.execution, "findings": event.findings},
    )
