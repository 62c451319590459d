"""An OpenAI-compatible chat endpoint: many requests at once, each answered once, also after a restart.

Answers are kept under a digest of the whole request (`groundbox.dataset.translation.cache`). The URL is no part of
it: a server that comes back elsewhere serves the same model.
What is tried again: refused connections, time-outs, status 408, 409, 429 and 5xx, with a growing pause, or the
one that `Retry-After` names. A request that is refused for what it asks, such as one that is too long, is the fault
of that request alone, if the endpoint answers others. Everything else is an error of the caller's and raised at once.
No more than `groundbox.dataset.translation.answer.MOST_BYTES` is read of any response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from groundbox.dataset.extra import ExtraMissing
from groundbox.dataset.translation.answer import ENCODING, Body, NoCompletion, receive, reply_of, sendable
from groundbox.dataset.translation.cache import Cache, Reply, digest
from groundbox.errors import GroundboxError, InvalidArgument

_AGAIN: Final = frozenset({408, 409, 429, *range(500, 600)})
_REFUSED: Final = frozenset({400, 413, 422})
_LONGEST_PAUSE_S: Final = 60.0
_MOST_SHOWN: Final = 500
_FIRST_ATTEMPTS: Final = 3
"""Of a server that has never answered; it may not be there at all."""
_GREETING: Final = ({"role": "user", "content": "Say yes."},)
_ADVICE: Final = {
    401: "the key is wrong or missing; name the variable that holds it with --api-key-env",
    403: "the key is wrong or missing; name the variable that holds it with --api-key-env",
    404: "either there is no such model, or the URL is not that of the API, which mostly ends in /v1",
}


class EndpointFailed(GroundboxError):
    """The endpoint gave no answer. What was answered before is kept, and the same call goes on from there."""


class RequestRefused(EndpointFailed):
    """The endpoint refuses this request and answers others: it is too long, or not allowed."""


class Model(Protocol):
    """Anything that answers a conversation."""

    async def answer(self, messages: Sequence[Mapping[str, str]]) -> Reply:
        """The answer to `messages` (`role` and `content` each).

        Raises:
            RequestRefused: There is none to this conversation.
            EndpointFailed: There is none.
        """


class Endpoint:
    """A model behind `POST {base_url}/chat/completions`. Use as an async context manager.

    Args:
        base_url: Such as `http://localhost:8000/v1`.
        api_key: Sent as a bearer token; None for none.
        options: Further keys of every request: `temperature`, `top_p`, `max_tokens`, `seed`, …
        at_once: Requests that wait for an answer at the same time.
        attempts: Of one request.
        timeout_s: Of one attempt, from connecting to the last byte.
        cache: File of the answers; None keeps none.

    Raises:
        InvalidArgument: The URL cannot be that of an endpoint.
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
    ) -> None:
        self._http = _httpx()
        self._url = _checked(base_url).rstrip("/") + "/chat/completions"
        self._body = {"model": model, **(options or {})}
        self._key = api_key
        self._headers = {**ENCODING, **({"Authorization": f"Bearer {api_key}"} if api_key else {})}
        self._slots = asyncio.Semaphore(at_once)
        self._at_once, self._attempts, self._timeout_s, self._pause_s = at_once, attempts, timeout_s, pause_s
        self._cache_path = cache
        self._cache: Cache | None = None
        self._client: Any = None
        self._has_answered = False

    async def __aenter__(self) -> Endpoint:
        if self._cache_path is not None:
            self._cache = Cache(self._cache_path)
        limits = self._http.Limits(max_connections=self._at_once)
        self._client = self._http.AsyncClient(headers=self._headers, timeout=self._timeout_s, limits=limits)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()
        if self._cache is not None:
            self._cache.close()

    async def answer(self, messages: Sequence[Mapping[str, str]]) -> Reply:
        """See Model.answer."""
        body = self._request(messages)
        key = digest(body)
        known = self._cache.get(key) if self._cache is not None else None
        if known is not None:
            return known
        async with self._slots:
            reply = await self._ask(body)
        if self._cache is not None:
            self._cache.put(key, reply)
        return reply

    def _request(self, messages: Sequence[Mapping[str, str]]) -> dict[str, Any]:
        return {**self._body, "messages": [{name: sendable(each[name]) for name in each} for each in messages]}

    async def _ask(self, body: Mapping[str, Any]) -> Reply:
        problem, attempt = "", 0
        while attempt < self._attempts:
            attempt += 1
            try:
                response = await self._post(body)
            except self._http.RequestError as error:
                problem, wait_s = self._without_key(f"{type(error).__name__}: {error}"), None
                if attempt >= _FIRST_ATTEMPTS and not self._has_answered:
                    problem += "; does the server run, and is the URL right?"
                    break
            else:
                if response.status == 200:
                    return self._reply(response)
                problem, wait_s = self._complaint(response), _retry_after(response)
                if response.status not in _AGAIN:
                    raise await self._refusal(response.status, problem)
            if attempt < self._attempts:
                pause_s = self._pause_s * 2 ** (attempt - 1) if wait_s is None else wait_s
                await asyncio.sleep(min(_LONGEST_PAUSE_S, pause_s))
        raise EndpointFailed(f"{self._url}: no answer in {attempt} attempts, the last time: {problem}")

    async def _post(self, body: Mapping[str, Any]) -> Body:
        async with self._client.stream("POST", self._url, json=body) as response:
            return await receive(response)

    def _reply(self, response: Body) -> Reply:
        try:
            reply = reply_of(response)
        except NoCompletion:
            raise EndpointFailed(
                f"{self._url}: this is no chat completion: {self._shown(response)}; "
                "the URL has to be that of an OpenAI-compatible API, such as http://localhost:8000/v1"
            ) from None
        self._has_answered = self._has_answered or response.whole
        return reply

    def _complaint(self, response: Body) -> str:
        return f"status {response.status}: {self._shown(response)}"

    def _shown(self, response: Body) -> str:
        return self._without_key(response.text)[:_MOST_SHOWN]

    def _without_key(self, text: str) -> str:
        """Some endpoints repeat the key, and messages are kept."""
        return text.replace(self._key, "…") if self._key else text

    async def _refusal(self, status: int, problem: str) -> EndpointFailed:
        advice = f"; {_ADVICE[status]}" if status in _ADVICE else ""
        message = f"{self._url}: {problem}{advice}"
        if status in _REFUSED and (self._has_answered or await self._greeted()):
            return RequestRefused(message)
        return EndpointFailed(message)

    async def _greeted(self) -> bool:
        """Whether it answers at all, with the same model and options: then a refusal is about what was asked."""
        try:
            response = await self._post(self._request(_GREETING))
        except self._http.RequestError:
            return False
        return response.status == 200


def _httpx() -> Any:
    try:
        import httpx
    except ImportError:
        raise ExtraMissing("httpx", "to call language models") from None
    return httpx


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_place = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_place = False
    if not is_place:
        raise InvalidArgument("endpoint", f"{url!r} is no URL of an API, such as http://localhost:8000/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise InvalidArgument("endpoint", "the URL may only name a place; a key is given by --api-key-env")
    return url


def _retry_after(response: Body) -> float | None:
    try:
        return max(0.0, float(response.headers["retry-after"]))
    except (KeyError, ValueError):
        return None
