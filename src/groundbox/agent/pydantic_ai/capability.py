"""The capability that makes an agent of pydantic-ai a grounded one: tools, instructions, and a look at its answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ModelRetry

from groundbox.agent.checks import Checks, Receipts, UsualChecks
from groundbox.agent.defusing import one_line
from groundbox.agent.grounded import Content
from groundbox.agent.instructions import INSTRUCTIONS, mend_text, question_text
from groundbox.agent.pydantic_ai.toolset import SandboxToolset
from groundbox.agent.turn import Bounds


class _OwnToolset(SandboxToolset):
    """Of a capability, which is copied for each run itself, and looks into its session."""

    async def for_run(self, ctx: RunContext[Any]) -> SandboxToolset:
        return self


@dataclasses.dataclass
class Grounding(AbstractCapability[Any]):  # type: ignore[misc]
    """Runs programs for an agent and looks for a receipt of each claim in its answers of text.

        agent = Agent("openai:gpt-5", capabilities=[Grounding(files={"sales.csv": data})])

    A claim that no run bears out is sent back once, as a retry of the output; what is then still not borne out is
    named below the answer. An output that is no text is not looked at.

    Attributes:
        sandbox: Further arguments of AsyncSandbox, such as `limits`.
        tell: Whether the claims are named below the answer.
        on_receipts: Called with what was found out about the answer that is given.
    """

    bounds: Bounds = dataclasses.field(default_factory=Bounds)
    checks: Checks | None = None
    databases: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    files: Mapping[str, Content] = dataclasses.field(default_factory=dict)
    sandbox: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    tell: bool = True
    on_receipts: Callable[[Receipts], None] | None = None

    def __post_init__(self) -> None:
        self._checks = self.checks or UsualChecks(databases=self.databases)
        self._toolset = _OwnToolset(
            bounds=self.bounds, checks=self._checks, databases=self.databases, files=self.files, **self.sandbox
        )
        self._mends = 0

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """None: files and checks are not written into a specification of an agent."""
        return None

    async def for_run(self, ctx: RunContext[Any]) -> Grounding:
        """A copy with a sandbox of its own."""
        return dataclasses.replace(self)

    def get_instructions(self) -> str:
        """What a model is told besides the tools."""
        return INSTRUCTIONS

    def get_toolset(self) -> SandboxToolset:
        """The tools of this run of an agent."""
        return self._toolset

    async def after_output_process(self, ctx: RunContext[Any], *, output_context: Any, output: Any) -> Any:
        """Look for the receipts of an answer.

        Raises:
            ModelRetry: Something is not borne out, for the first time.
        """
        session = self._toolset.session
        if not isinstance(output, str) or ctx.partial_output or session is None:
            return output
        asked = ctx.prompt if isinstance(ctx.prompt, str) else ""
        question = question_text(asked, dict.fromkeys(self.files, 0))
        receipts = await self._checks.of_answer(output, session.runs, question)
        if receipts.unsupported and self._mends < self.bounds.max_mends and ctx.retry < ctx.max_retries:
            self._mends += 1
            raise ModelRetry(mend_text(receipts.unsupported))
        if self.on_receipts is not None:
            self.on_receipts(receipts)
        if not (self.tell and receipts.unsupported):
            return output
        claims = "\n".join(f"- {one_line(warning.message)}" for warning in receipts.unsupported)
        return f"{output}\n\nNot borne out by any run:\n{claims}"
