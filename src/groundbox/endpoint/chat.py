"""An OpenAI-compatible chat endpoint: many requests at once, asked again where that can help, refused in plain words.

What is tried again: refused connections, time-outs, status 408, 409, 429 and 5xx, with a growing pause, or the one
that `Retry-After` names. A request that is refused for what it asks, such as one that is too long, is the fault of
that request alone, if the endpoint answers others; where the request asks for JSON of a schema, it is found out by
greetings whether that is what is refused. Everything else is an error of the caller's and raised at once.
No more than `groundbox.endpoint.answer.MOST_BYTES` is read of any response, and no attempt takes longer than
`timeout_s`, also where bytes drip in.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Collection, Mapping
from types import TracebackType
from typing import Any, Final
from urllib.parse import urlsplit

from groundbox.endpoint.answer import ENCODING, Body, Completion, NoCompletion, completion_of, receive
from groundbox.errors import ExtraMissing, GroundboxError, InvalidArgument

_AGAIN: Final = frozenset({408, 409, 429, *range(500, 600)})
_REFUSED: Final = frozenset({400, 413, 422})
_CANNOT: Final = re.compile(r"--jinja|(?:not|n't) support|unsupported|--mmproj", re.IGNORECASE)
"""How servers say, with a status of their own fault, that they lack something: asking again does not help."""
_LONGEST_PAUSE_S: Final = 60.0
_MOST_SHOWN: Final = 500
_FIRST_ATTEMPTS: Final = 3
"""Of a server that has never answered; it may not be there at all."""
_FORMAT: Final = "response_format"
"""Key of a request that asks for JSON of a schema. Many endpoints do not know it."""
_GREETING: Final = ({"role": "user", "content": "Say yes."},)
_KEY_ADVICE: Final = "the key is wrong or missing; name the variable that holds it with --api-key-env"
_SUCH_AS: Final = "such as http://localhost:11434/v1"


class EndpointFailed(GroundboxError):
    """The endpoint gave no answer. What was answered before is kept, and the same call goes on from there."""


class RequestRefused(EndpointFailed):
    """The endpoint refuses this request and answers others: it is too long, or not allowed."""


class FormatRefused(RequestRefused):
    """The endpoint refuses every request with this `response_format`, and answers them without it."""


class ChatApi:
    """`POST {base_url}/chat/completions`. Use as an async context manager.

    Args:
        base_url: Such as `http://localhost:11434/v1`.
        api_key: Sent as a bearer token; None for none.
        at_once: Requests that wait for an answer at the same time.
        attempts: Of one request.
        timeout_s: Of one attempt, from connecting to the last byte.
        pause_s: Before the second attempt; doubled before each further one, up to a minute.
        told: Called with a sentence before each pause, so that somebody who waits knows why.

    Raises:
        InvalidArgument: The URL cannot be that of an endpoint.
        ExtraMissing: httpx is not installed.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        at_once: int = 16,
        attempts: int = 6,
        timeout_s: float = 600.0,
        pause_s: float = 1.0,
        told: Callable[[str], None] | None = None,
    ) -> None:
        self._http = _httpx()
        self._base = _checked(base_url).rstrip("/")
        self._url = self._base + "/chat/completions"
        self._key = api_key
        self._headers = {**ENCODING, **({"Authorization": f"Bearer {api_key}"} if api_key else {})}
        self._slots = asyncio.Semaphore(at_once)
        self._at_once, self._attempts, self._timeout_s, self._pause_s = at_once, attempts, timeout_s, pause_s
        self._told = told
        self._client: Any = None
        self._has_answered = self._has_formatted = False

    async def __aenter__(self) -> ChatApi:
        limits = self._http.Limits(max_connections=self._at_once)
        self._client = self._http.AsyncClient(headers=self._headers, timeout=self._timeout_s, limits=limits)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def complete(self, body: Mapping[str, Any]) -> Completion:
        """The answer to a request with `model`, `messages`, and whatever else the endpoint takes.

        Raises:
            FormatRefused: There is none to any request with this `response_format`.
            RequestRefused: There is none to this request.
            EndpointFailed: There is none.
        """
        async with self._slots:
            return await self._ask(body)

    async def _ask(self, body: Mapping[str, Any]) -> Completion:
        problem, attempt = "", 0
        while attempt < self._attempts:
            attempt += 1
            try:
                response = await self._post(body)
            except (self._http.RequestError, TimeoutError) as error:
                problem, wait_s = self._without_key(self._trouble(error)), None
                if attempt >= _FIRST_ATTEMPTS and not self._has_answered:
                    problem += "; does the server run, and is the URL right?"
                    break
            else:
                if response.status == 200:
                    found = self._completion(response)
                    self._has_formatted = self._has_formatted or (_FORMAT in body and response.whole)
                    return found
                problem, wait_s = self._complaint(response), _retry_after(response)
                if response.status not in _AGAIN or _CANNOT.search(response.text):
                    raise await self._refusal(response, problem, body)
            if attempt < self._attempts:
                pause_s = self._pause_s * 2 ** (attempt - 1) if wait_s is None else wait_s
                await self._pause(min(_LONGEST_PAUSE_S, pause_s), problem)
        raise EndpointFailed(f"{self._url}: no answer in {attempt} attempts, the last time: {problem}")

    async def _pause(self, pause_s: float, problem: str) -> None:
        if self._told is not None:
            self._told(f"{self._url}: {problem}; asking again in {pause_s:.0f} s")
        await asyncio.sleep(pause_s)

    async def _post(self, body: Mapping[str, Any]) -> Body:
        async with asyncio.timeout(self._timeout_s):
            async with self._client.stream("POST", self._url, json=body) as response:
                return await receive(response)

    def _trouble(self, error: Exception) -> str:
        if isinstance(error, TimeoutError | self._http.TimeoutException):
            return f"no whole answer within {self._timeout_s:g} s"
        return f"{type(error).__name__}: {error}"

    def _completion(self, response: Body) -> Completion:
        try:
            found = completion_of(response)
        except NoCompletion:
            if response.is_stream:
                raise EndpointFailed(f"{self._url}: the endpoint sent {self._shown(response)}") from None
            raise EndpointFailed(
                f"{self._url}: this is no chat completion: {self._shown(response)}; "
                f"the URL has to be that of an OpenAI-compatible API, {self._guess()}"
            ) from None
        self._has_answered = self._has_answered or response.whole
        return found

    def _complaint(self, response: Body) -> str:
        return f"status {response.status}: {self._shown(response)}"

    def _shown(self, response: Body) -> str:
        return self._without_key(response.text)[:_MOST_SHOWN]

    def _without_key(self, text: str) -> str:
        """Some endpoints repeat the key, and messages are kept."""
        return text.replace(self._key, "…") if self._key else text

    def _guess(self) -> str:
        """An address that is more likely that of the API."""
        return _SUCH_AS if urlsplit(self._base).path else f"perhaps {self._base}/v1"

    def _advice(self, response: Body) -> str:
        if response.status in (401, 403):
            return f"; {_KEY_ADVICE}"
        if response.status in (404, 405):
            return f"; either there is no such model, or the URL is not that of the API, {self._guess()}"
        if 300 <= response.status < 400:
            return f"; it points to {self._without_key(response.headers.get('location', 'nowhere'))[:_MOST_SHOWN]}"
        return ""

    async def _refusal(self, response: Body, problem: str, body: Mapping[str, Any]) -> EndpointFailed:
        message = f"{self._url}: {problem}{self._advice(response)}"
        if response.status not in _REFUSED and response.status not in _AGAIN:
            return EndpointFailed(message)
        if _FORMAT in body and not self._has_formatted:
            if await self._greeted(body, without=("tools",)):
                return RequestRefused(message)
            return FormatRefused(message) if await self._answers(body) else EndpointFailed(message)
        return RequestRefused(message) if await self._answers(body) else EndpointFailed(message)

    async def _answers(self, body: Mapping[str, Any]) -> bool:
        """Whether it answers at all, with the same model and options: then a refusal is about what was asked."""
        return self._has_answered or await self._greeted(body, without=("tools", _FORMAT))

    async def _greeted(self, body: Mapping[str, Any], *, without: Collection[str]) -> bool:
        """Whether it answers a greeting with these options."""
        plain = {name: value for name, value in body.items() if name not in without}
        try:
            response = await self._post({**plain, "messages": list(_GREETING)})
        except (self._http.RequestError, TimeoutError):
            return False
        return response.status == 200


def key_in(variable: str | None) -> str | None:
    """The key in an environment variable; None without one.

    Raises:
        InvalidArgument: It holds none.
    """
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key or not key.isascii():
        raise InvalidArgument("--api-key-env", f"the environment variable {variable} holds no key")
    return key


def _httpx() -> Any:
    try:
        import httpx
    except ImportError:
        raise ExtraMissing("httpx", "to call language models", "httpx") from None
    return httpx


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_place = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_place = False
    if not is_place:
        raise InvalidArgument("endpoint", f"{url!r} is no URL of an API, {_SUCH_AS}")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise InvalidArgument("endpoint", "the URL may only name a place; a key is given by --api-key-env")
    return url


def _retry_after(response: Body) -> float | None:
    try:
        return max(0.0, float(response.headers["retry-after"]))
    except (KeyError, ValueError):
        return None
