"""A model behind an OpenAI-compatible endpoint: Ollama, llama.cpp, vLLM, LM Studio, or a service; without a framework.

Theory of operation. The first request offers the tools, as OpenAI's API has them. Many small models and some servers
know none, and refuse the request; then the model is told in words to write its programs in fenced blocks, which the
loop runs as well, and nothing is lost. The same holds for pictures. What was refused once is not tried again.
"""

from __future__ import annotations

import base64
import functools
import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from groundbox.agent.messages import Call, Cost, Message, ModelFailed, Reply, Tool
from groundbox.endpoint.answer import Completion, sendable, without_thinking
from groundbox.endpoint.chat import ChatApi, EndpointFailed, RequestRefused

FENCES: Final = """\
You have no tools here. To run a program, write it in a fenced block that begins with ```python (or ```sql, ```shell) \
and end your message there; what it shows comes back in the next message. Write one block at a time. \
When you know the answer, write it without a block, in a line that begins with `Answer:`."""
_ABOUT_TOOLS: Final = re.compile(r"\btools?\b|tool_choice|function.call|--jinja", re.IGNORECASE)
_ABOUT_PICTURES: Final = re.compile(r"image|picture|vision|multi.?modal|mmproj|content.*string", re.IGNORECASE)
_FENCE_OF: Final = {"sql": "sql", "shell": "shell", "javascript": "javascript", "dot": "dot"}


class ServedModel:
    """Asks one model at one endpoint."""

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        timeout_s: float = 600.0,
        pause_s: float = 1.0,
        told: Callable[[str], None] | None = None,
    ) -> None:
        """Args:
        model: As the endpoint knows it.
        timeout_s, pause_s, told: As `groundbox.endpoint.chat.ChatApi` takes them.

        Raises:
            InvalidArgument: The URL cannot be that of an endpoint.
            ExtraMissing: httpx is not installed.
        """
        self._model, self._place = model, urlsplit(base_url).netloc
        self._open: Callable[[], ChatApi] = functools.partial(
            ChatApi, base_url, api_key=api_key, timeout_s=timeout_s, pause_s=pause_s, told=told, at_once=1
        )
        self._open()  # complains now of what no conversation could begin with
        self._takes_tools, self._takes_pictures = True, True
        self._numbers = itertools.count(1)

    @property
    def name(self) -> str:
        """Such as `qwen3 at localhost:11434`."""
        return f"{self._model} at {self._place}"

    async def complete(self, messages: Sequence[Message], *, tools: Sequence[Tool]) -> Reply:
        """The next turn.

        Raises:
            ModelFailed: It is not reached, or refuses.
        """
        async with self._open() as api:
            while True:
                try:
                    return self._reply(await api.complete(self._body(messages, tools)))
                except RequestRefused as error:
                    if not self._gives_way(str(error), messages):
                        raise ModelFailed(self.name, str(error)) from error
                except EndpointFailed as error:
                    raise ModelFailed(self.name, str(error)) from error

    def _gives_way(self, problem: str, messages: Sequence[Message]) -> bool:
        """Whether there is something to leave out that the endpoint complains of."""
        if self._takes_pictures and any(m.pictures for m in messages) and _ABOUT_PICTURES.search(problem):
            self._takes_pictures = False
        elif self._takes_tools and _ABOUT_TOOLS.search(problem):
            self._takes_tools = False
        else:
            return False
        return True

    def _body(self, messages: Sequence[Message], tools: Sequence[Tool]) -> dict[str, Any]:
        if not self._takes_tools:
            return {"model": self._model, "messages": _in_turns([self._plain(message) for message in messages])}
        return {"model": self._model, "messages": list(self._told(messages)), "tools": [_tool(tool) for tool in tools]}

    def _told(self, messages: Sequence[Message]) -> Iterator[dict[str, Any]]:
        """The messages of a conversation with tools; the pictures of a result follow it, because none can be in it."""
        shown: list[dict[str, Any]] = []
        for message in messages:
            if message.role == "tool":
                yield {"role": "tool", "tool_call_id": message.call_id, "content": sendable(message.text)}
                shown += self._pictures(message)
                continue
            if shown:
                yield {"role": "user", "content": shown}
                shown = []
            if message.role == "assistant":
                calls = [_call(call) for call in message.calls]
                told = {"role": "assistant", "content": sendable(message.text)}
                yield {**told, "tool_calls": calls} if calls else told
            else:
                yield {"role": message.role, "content": self._content(message)}
        if shown:
            yield {"role": "user", "content": shown}

    def _plain(self, message: Message) -> dict[str, Any]:
        """The message of a conversation without tools."""
        if message.role == "assistant":
            programs = [_fenced(call) for call in message.calls]
            return {"role": "assistant", "content": sendable("\n\n".join(filter(None, [message.text, *programs])))}
        if message.role == "system":
            return {"role": "system", "content": f"{message.text}\n\n{FENCES}"}
        return {"role": "user", "content": self._content(message)}

    def _content(self, message: Message) -> str | list[dict[str, Any]]:
        text, pictures = sendable(message.text), self._pictures(message)
        return [{"type": "text", "text": text}, *pictures] if pictures else text

    def _pictures(self, message: Message) -> list[dict[str, Any]]:
        """Each after its name."""
        parts: list[dict[str, Any]] = []
        for picture in message.pictures if self._takes_pictures else ():
            address = f"data:{picture.media_type};base64,{base64.b64encode(picture.data).decode()}"
            parts += [
                {"type": "text", "text": f"{picture.name}:"},
                {"type": "image_url", "image_url": {"url": address}},
            ]
        return parts

    def _reply(self, found: Completion) -> Reply:
        # Some servers give their calls no id, and a result needs one to go back under.
        calls = [
            Call(name=each.name, arguments=each.arguments, call_id=each.call_id or f"call-{next(self._numbers)}")
            for each in found.calls
        ]
        cost = Cost(input_tokens=found.prompt_tokens or None, output_tokens=found.completion_tokens or None)
        return Reply(text=without_thinking(found.text) or "", calls=calls, cost=cost)


def _in_turns(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Templates of many models want user and assistant by turns; neighbours of one role become one message."""
    told: list[dict[str, Any]] = []
    for message in messages:
        if told and told[-1]["role"] == message["role"]:
            told[-1] = {"role": message["role"], "content": _joined(told[-1]["content"], message["content"])}
        else:
            told.append(message)
    return told


def _joined(one: str | list[Any], other: str | list[Any]) -> str | list[Any]:
    if isinstance(one, str) and isinstance(other, str):
        return f"{one}\n\n{other}"
    return [*_listed(one), *_listed(other)]


def _listed(content: str | list[Any]) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _tool(tool: Tool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function}


def _call(call: Call) -> dict[str, Any]:
    return {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": _text(call)}}


def _text(call: Call) -> str:
    return call.arguments if isinstance(call.arguments, str) else json.dumps(dict(call.arguments))


def _fenced(call: Call) -> str:
    """The program of a call, as a model without tools writes it."""
    try:
        arguments = json.loads(_text(call))
        code, language = arguments["code"], arguments.get("language", "python")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return ""
    return f"```{_FENCE_OF.get(str(language), 'python')}\n{code}\n```"
