"""The model of a translation: each request is answered once, also after a restart.

Answers are kept under a digest of the whole request (`groundbox.dataset.translation.answer_cache`). The URL is no
part of it: a server that comes back elsewhere serves the same model.

Where JSON of a schema is wanted, the server is asked to enforce it (`response_format`, as vLLM, llama.cpp's server and
OpenAI take it). An endpoint that refuses this is told once, and not asked so again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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


class Endpoint:
    """A model behind `POST {base_url}/chat/completions`. Use as an async context manager.

    Args:
        options: Further keys of every request: `temperature`, `top_p`, `max_tokens`, `seed`, …
        cache: File of the answers; None keeps none.

    The others are those of `groundbox.endpoint.chat.ChatApi`.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        options: Mapping[str, Any] | None = None,
        at_once: int = 16,
        attempts: int = 6,
        timeout_s: float = 600.0,
        pause_s: float = 1.0,
        cache: Path | None = None,
        told: Callable[[str], None] | None = None,
    ) -> None:
        self._api = ChatApi(
            base_url,
            api_key=api_key,
            at_once=at_once,
            attempts=attempts,
            timeout_s=timeout_s,
            pause_s=pause_s,
            told=told,
        )
        self._body = {"model": model, **(options or {})}
        self._cache_path = cache
        self._cache: Cache | None = None
        self._told = told
        self._no_schemas = ""

    async def __aenter__(self) -> Endpoint:
        if self._cache_path is not None:
            self._cache = Cache(self._cache_path)
        await self._api.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._api.__aexit__(kind, error, trace)
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
        text, finish, prompt_tokens, completion_tokens, _ = await self._ask(body)
        reply = Reply(text=text, finish=finish, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens)
        if self._cache is not None:
            self._cache.put(key, reply)
        return reply

    async def _ask(self, body: Mapping[str, Any]) -> Completion:
        if "response_format" in body and self._no_schemas:
            raise FormatRefused(self._no_schemas)
        try:
            return await self._api.complete(body)
        except FormatRefused as error:
            if self._told is not None and not self._no_schemas:
                self._told(f"{error}; it refuses JSON of a schema (response_format), so prose is asked for")
            # Remembered, so that an endpoint is asked once and not once for each item.
            self._no_schemas = str(error)
            raise


def response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The key of a request that has JSON of this schema enforced."""
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}
