"""The provider of models by which Inspect's tasks ask through `eval model`; imported where Inspect is used."""

from __future__ import annotations

from typing import Any

from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessage,
    ChatMessageAssistant,
    GenerateConfig,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    modelapi,
)
from inspect_ai.tool import ToolChoice, ToolInfo

from groundbox.learn.evaluation.inspect_tasks import PROVIDER, said


@modelapi(name=PROVIDER)
class AskingAPI(ModelAPI):
    """Hands each request on to `asking`."""

    def __init__(
        self,
        model_name: str,
        base_url: str | None = None,
        api_key: str | None = None,
        config: GenerateConfig | None = None,
        *,
        asking: Any,
    ) -> None:
        super().__init__(model_name, base_url, api_key, [], config or GenerateConfig())
        self._asking = asking

    async def generate(
        self, input: list[ChatMessage], tools: list[ToolInfo], tool_choice: ToolChoice, config: GenerateConfig
    ) -> ModelOutput:
        """The reply to a conversation; see ModelAPI.generate."""
        reply = await self._asking.answer(input, tools, config)
        text, ended = said(reply)
        message = ChatMessageAssistant(content=text, model=self.model_name, source="generate")
        return ModelOutput(
            model=self.model_name,
            choices=[ChatCompletionChoice(message=message, stop_reason=ended)],
            usage=ModelUsage(
                input_tokens=reply.prompt_tokens,
                output_tokens=reply.completion_tokens,
                total_tokens=reply.prompt_tokens + reply.completion_tokens,
            ),
        )
