"""The model of a translation: each request is answered once, also after a restart.

Answers are kept under a digest of the whole request (`groundbox.dataset.translation.answer_cache`). The URL is no
part of it: a server that comes back elsewhere serves the same model.

Where JSON of a schema is wanted, the server is asked to enforce it (`response_format`, as vLLM, llama.cpp's server and
OpenAI take it). An endpoint that refuses this is told once, and not asked so again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from groundbox.dataset.translation.answer_cache import Cache, Reply, digest
from groundbox.endpoint.answer import Completion, sendable
from groundbox.endpoint.chat import ChatApi, FormatRefused


class Model(Protocol):
    """Anything that answers a conversation."""

    async def answer(self, messages: Sequence[Mapping[str, str]], *, schema: Mapping[str, Any] | None = None) -> Reply:
        """The answer to `messages` (`role` and `content` each).

        Args:
            schema: JSON Schema of the answer; None for one in words.

        Raises:
            FormatRefused: The endpoint cannot be asked for JSON of a schema.
            RequestRefused: There is none to this conversation.
            EndpointFailed: There is none.
        """


class Endpoint(ChatApi):
    """A model behind `POST {base_url}/chat/completions`. Use as an async context manager.

    Args:
        options: Further keys of every request: `temperature`, `top_p`, `max_tokens`, `seed`, …
        cache: File of the answers; None keeps none.
        connection: The other arguments of `groundbox.endpoint.chat.ChatApi`.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        options: Mapping[str, Any] | None = None,
        cache: Path | None = None,
        **connection: Any,
    ) -> None:
        super().__init__(base_url, **connection)
        self._body = {"model": model, **(options or {})}
        self._cache_path = cache
        self._cache: Cache | None = None
        self._no_schemas = ""

    async def __aenter__(self) -> Endpoint:
        if self._cache_path is not None:
            self._cache = Cache(self._cache_path)
        await super().__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await super().__aexit__(kind, error, trace)
        if self._cache is not None:
            self._cache.close()

    async def answer(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        schema: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Reply:
        """See Model.answer.

        Args:
            options: Keys of this request, in place of those of every request.
        """
        body = {
            **self._body,
            **(options or {}),
            "messages": [{name: sendable(each[name]) for name in each} for each in messages],
        }
        # Part of the key: the same question without a schema may have another answer.
        if schema is not None:
            body["response_format"] = response_format(schema)
        key = digest(body)
        known = self._cache.get(key) if self._cache is not None else None
        if known is not None:
            return known
        text, finish, prompt_tokens, completion_tokens, _ = await self.complete(body)
        reply = Reply(text=text, finish=finish, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens)
        if self._cache is not None:
            self._cache.put(key, reply)
        return reply

    async def complete(self, body: Mapping[str, Any]) -> Completion:
        """See ChatApi.complete. Once a schema was refused, no request with one is sent."""
        if "response_format" in body and self._no_schemas:
            raise FormatRefused(self._no_schemas)
        try:
            return await super().complete(body)
        except FormatRefused as error:
            if self._told is not None and not self._no_schemas:
                self._told(f"{error}; it refuses JSON of a schema (response_format), so prose is asked for")
            # Remembered, so that an endpoint is asked once and not once for each item.
            self._no_schemas = str(error)
            raise


def response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The key of a request that has JSON of this schema enforced."""
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}
