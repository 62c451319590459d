"""A tool of the OpenAI Agents SDK that runs programs: `Agent(tools=[GroundboxCode().tool])`."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Annotated, Any, Literal

from agents import FunctionTool, ToolOutputImage, ToolOutputText
from agents.strict_schema import ensure_strict_json_schema
from agents.tool_context import ToolContext
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from groundbox.agent.adapters.interpreter import ABOUT, Interpreter
from groundbox.agent.adapters.telling import MOST_PICTURES, told
from groundbox.errors import InvalidArgument, LanguageUnavailable
from groundbox.execution import Execution
from groundbox.sandbox.languages import named
from groundbox.sandbox.portal import PORTAL, Sandbox


class Arguments(BaseModel):
    """What the model fills in."""

    model_config = ConfigDict(extra="forbid")

    code: str = Field(description="The program.")
    language: Annotated[Literal["python", "sql", "shell", "javascript", "dot"], BeforeValidator(named)] = Field(
        "python", description="Of the program."
    )


class GroundboxCode:
    """One sandbox, and the tool that runs programs in it.

    Attributes:
        tool: For an agent.
    """

    def __init__(
        self,
        *,
        sandbox: Sandbox | None = None,
        name: str = "run_code",
        on_execution: Callable[[Execution], object] | None = None,
        **options: Any,
    ) -> None:
        """Args:
        sandbox: One to work in, which its owner closes.
        name: Of the tool.
        on_execution: Called with each result, which has more than the model is told.
        options: Of the sandbox to be made, as `groundbox.Sandbox` takes them.
        """
        self._interpreter = Interpreter(sandbox, **options)
        self._on_execution = on_execution
        self.tool = FunctionTool(
            name=name,
            description=ABOUT,
            params_json_schema=ensure_strict_json_schema(Arguments.model_json_schema()),
            on_invoke_tool=self._invoke,
        )

    def close(self) -> None:
        """End the sandbox, unless it was given."""
        PORTAL.call(self._interpreter.close())

    async def _invoke(self, context: ToolContext[Any], arguments: str) -> str | list[ToolOutputText | ToolOutputImage]:
        """What cannot be meant is told to the model; what groundbox cannot do ends the agent's run."""
        try:
            given = Arguments.model_validate_json(arguments)
            execution = await PORTAL.wait_for(self._interpreter.run(given.code, given.language))
        except (ValidationError, InvalidArgument, LanguageUnavailable) as error:
            return f"Error: {error}"
        if self._on_execution is not None:
            self._on_execution(execution)
        observation = told(execution, max_pictures=MOST_PICTURES)
        shown = [(each.media_type, base64.b64encode(each.data).decode("ascii")) for each in observation.pictures]
        images = [ToolOutputImage(image_url=f"data:{media_type};base64,{data}") for media_type, data in shown]
        return [ToolOutputText(text=observation.text), *images]
