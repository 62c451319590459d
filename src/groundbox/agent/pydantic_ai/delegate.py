"""A grounded agent as a tool of another agent: a question goes in, an answer with its receipts comes out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_ai import RunContext, Tool
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import ToolReturn

from groundbox.agent.defusing import fenced, mark_for, shown
from groundbox.agent.events import Ended, Ending
from groundbox.agent.grounded import Content, GroundedAgent
from groundbox.agent.observation import finding_lines
from groundbox.errors import GroundboxError

_DESCRIPTION = "Answer a question about the data by running programs on it. Ask one complete question."


def tool(
    agent: GroundedAgent,
    *,
    name: str = "ask_data",
    description: str = _DESCRIPTION,
    files: Mapping[str, Content] | None = None,
) -> Tool[Any]:
    """The tool. What it may spend are the bounds of `agent`; the caller's usage does not count it.

    The answer is another model's text, so it stands between marks, as what a program printed does.
    The host finds the whole `Ended` in the metadata.
    """

    async def ask(ctx: RunContext[Any], question: str) -> ToolReturn[Any]:
        try:
            ended = await agent.ask(question, files=files)
        except GroundboxError as error:
            raise ToolFailed(str(error)) from error
        if ended.ending is not Ending.ANSWERED:
            raise ToolFailed(f"There is no answer: {ended.why}")
        return ToolReturn(return_value=_told(ended), metadata=ended)

    return Tool(ask, takes_ctx=True, name=name, description=description)


def _told(ended: Ended) -> str:
    answer = shown(ended.answer or "")
    claims = shown("\n".join(finding_lines(ended.unsupported)))
    mark = mark_for([answer, claims])
    parts = [fenced("answer", answer, mark)]
    if claims:
        parts.append(fenced("not_borne_out", claims, mark))
    return "\n".join(parts)
