"""A tool of LangChain that runs programs: `GroundboxTool()` among an agent's tools."""

from __future__ import annotations

import base64
from typing import Annotated, Any, Final, Literal

from langchain_core.messages.content import ContentBlock, create_image_block, create_text_block
from langchain_core.tools import BaseTool, ToolException
from pydantic import BaseModel, BeforeValidator, Field, PrivateAttr

from groundbox.agent.adapters.interpreter import ABOUT, Interpreter
from groundbox.agent.adapters.telling import MOST_PICTURES, told
from groundbox.errors import InvalidArgument, LanguageUnavailable
from groundbox.execution import Execution
from groundbox.sandbox.languages import named
from groundbox.sandbox.portal import PORTAL, Sandbox

_REFUSED: Final = (InvalidArgument, LanguageUnavailable)
"""What the model asked for cannot be meant; it is told so."""


class Arguments(BaseModel):
    """What the model fills in."""

    code: str = Field(description="The program.")
    language: Annotated[Literal["python", "sql", "shell", "javascript", "dot"], BeforeValidator(named)] = Field(
        "python", description="Of the program."
    )


class GroundboxTool(BaseTool):
    """Runs programs in one sandbox. The model gets a text and pictures, the artifact is the whole `Execution`.

    What a program does wrong is told to the model as any other result. What groundbox cannot do is raised.
    """

    name: str = "run_code"
    description: str = ABOUT
    args_schema: type[BaseModel] = Arguments
    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    handle_tool_error: Any = True
    _interpreter: Interpreter = PrivateAttr()

    def __init__(self, *, sandbox: Sandbox | None = None, options: dict[str, Any] | None = None, **fields: Any) -> None:
        """Args:
        sandbox: One to work in, which its owner closes.
        options: Of the sandbox to be made, as `groundbox.Sandbox` takes them.
        fields: Those of every tool, such as `name`.
        """
        super().__init__(**fields)
        self._interpreter = Interpreter(sandbox, **(options or {}))

    def close(self) -> None:
        """End the sandbox, unless it was given."""
        PORTAL.call(self._interpreter.close())

    def _run(self, code: str, language: str = "python", **_: Any) -> tuple[list[ContentBlock], Execution]:
        try:
            return _answer(PORTAL.call(self._interpreter.run(code, language)))
        except _REFUSED as error:
            raise ToolException(str(error)) from error

    async def _arun(self, code: str, language: str = "python", **_: Any) -> tuple[list[ContentBlock], Execution]:
        try:
            return _answer(await PORTAL.wait_for(self._interpreter.run(code, language)))
        except _REFUSED as error:
            raise ToolException(str(error)) from error


def _answer(execution: Execution) -> tuple[list[ContentBlock], Execution]:
    observation = told(execution, max_pictures=MOST_PICTURES)
    blocks: list[ContentBlock] = [create_text_block(observation.text)]
    for each in observation.pictures:
        data = base64.b64encode(each.data).decode("ascii")
        blocks.append(create_image_block(base64=data, mime_type=each.media_type))
    return blocks, execution
