"""A model for our loop, from any provider that pydantic-ai knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_ai import exceptions, messages, models
from pydantic_ai.direct import model_request
from pydantic_ai.tools import ToolDefinition

from groundbox.agent.messages import Call, Cost, Message, ModelFailed, Reply, Tool
from groundbox.errors import InvalidArgument


class PydanticModel:
    """Asks one model, request by request; pydantic-ai's own loop is not used.

    What a provider wants back unchanged, such as signed reasoning, goes back with `Message.native`.
    """

    def __init__(self, model: models.Model | str, *, settings: Any = None) -> None:
        """Args:
        model: `PROVIDER:NAME`, or a model of pydantic-ai.
        settings: Its ModelSettings, such as `temperature` and `timeout`.

        Raises:
            InvalidArgument: There is no such model, its package is not installed, or its key is not set.
        """
        try:
            self._model = models.infer_model(model)
        except (exceptions.UserError, ImportError, ValueError) as error:
            raise InvalidArgument("model", str(error)) from None
        self._settings = settings

    @property
    def name(self) -> str:
        """Such as `openai:gpt-5`."""
        return f"{self._model.system}:{self._model.model_name}"

    async def complete(self, messages: Sequence[Message], *, tools: Sequence[Tool]) -> Reply:
        """The next turn.

        Raises:
            ModelFailed: It is not reached, or refuses.
        """
        try:
            response = await model_request(
                self._model,
                history(messages),
                model_settings=self._settings,
                model_request_parameters=models.ModelRequestParameters(function_tools=definitions(tools)),
            )
        except (exceptions.AgentRunError, exceptions.UserError, TimeoutError, OSError) as error:
            raise ModelFailed(self.name, f"{type(error).__name__}: {error}") from error
        return reply_of(response)


def history(told: Sequence[Message]) -> list[messages.ModelMessage]:
    """The messages as pydantic-ai has them; results of one reply's calls go back in one request."""
    result: list[messages.ModelMessage] = []
    names: dict[str, str] = {}
    for message in told:
        if message.role == "assistant":
            names |= {call.call_id: call.name for call in message.calls}
            result.append(message.native or _response(message))
            continue
        parts = list(_parts(message, names))
        if result and isinstance(result[-1], messages.ModelRequest):
            result[-1] = messages.ModelRequest(parts=[*result[-1].parts, *parts])
        else:
            result.append(messages.ModelRequest(parts=parts))
    return result


def definitions(tools: Sequence[Tool]) -> list[ToolDefinition]:
    """The tools as pydantic-ai has them."""
    return [
        ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=dict(tool.parameters))
        for tool in tools
    ]


def reply_of(response: messages.ModelResponse) -> Reply:
    """A response as our loop has it."""
    calls = [
        Call(name=part.tool_name, arguments=part.args or "{}", call_id=part.tool_call_id)
        for part in response.parts
        if isinstance(part, messages.ToolCallPart)
    ]
    text = "\n".join(part.content for part in response.parts if isinstance(part, messages.TextPart))
    return Reply(text=text, calls=calls, cost=_cost(response), native=response)


def pictures_of(message: Message) -> list[str | messages.BinaryContent]:
    """The pictures, each after its name."""
    told: list[str | messages.BinaryContent] = []
    for picture in message.pictures:
        told += [f"{picture.name}:", messages.BinaryContent(data=picture.data, media_type=picture.media_type)]
    return told


def _parts(message: Message, names: dict[str, str]) -> list[Any]:
    if message.role == "system":
        return [messages.SystemPromptPart(content=message.text)]
    if message.role != "tool":
        return [messages.UserPromptPart(content=[message.text, *pictures_of(message)])]
    name = names.get(message.call_id, "")
    result = messages.ToolReturnPart(tool_name=name, content=message.text, tool_call_id=message.call_id)
    shown = [messages.UserPromptPart(content=pictures_of(message))] if message.pictures else []
    return [result, *shown]


def _response(message: Message) -> messages.ModelResponse:
    calls = [
        messages.ToolCallPart(
            tool_name=call.name,
            args=call.arguments if isinstance(call.arguments, str) else dict(call.arguments),
            tool_call_id=call.call_id,
        )
        for call in message.calls
    ]
    text = [messages.TextPart(content=message.text)] if message.text or not calls else []
    return messages.ModelResponse(parts=[*text, *calls])


def _cost(response: messages.ModelResponse) -> Cost:
    usage = response.usage
    if not (usage.input_tokens or usage.output_tokens):
        return Cost()
    try:
        dollars = float(response.cost().total_price)
    except (LookupError, ValueError, AssertionError):
        dollars = None
    return Cost(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, dollars=dollars)
