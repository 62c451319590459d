"""An OpenAI-compatible chat endpoint: many requests at once, each answered once, also after a restart.

Answers are kept in a file of JSON Lines under a digest of the whole request, so that a build that was killed pays
for no answer twice. A line that was cut short by the kill is not read, and its request is sent again.
What is tried again: refused connections, time-outs, status 408, 409, 429 and 5xx, with a growing pause, or the
one that `Retry-After` names. Everything else is an error of the caller's and raised at once.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Protocol

from groundbox.dataset.extra import ExtraMissing
from groundbox.errors import GroundboxError

_AGAIN: Final = frozenset({408, 409, 429, *range(500, 600)})
_LONGEST_PAUSE_S: Final = 60.0
_MOST_SHOWN: Final = 500


class EndpointFailed(GroundboxError):
    """The endpoint gave no answer. What was answered before is kept, and the same call goes on from there."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reply:
    """One answer.

    Attributes:
        finish: Why it ended, as the endpoint says: `stop`, or `length` when it was cut at `max_tokens`.
        cached: Whether it had been given to an earlier call.
    """

    text: str
    finish: str
    prompt_tokens: int
    completion_tokens: int
    cached: bool = False


class Model(Protocol):
    """Anything that answers a conversation."""

    async def answer(self, messages: Sequence[Mapping[str, str]]) -> Reply:
        """The answer to `messages` (`role` and `content` each).

        Raises:
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
        self._url = base_url.rstrip("/") + "/chat/completions"
        self._body = {"model": model, **(options or {})}
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._slots = asyncio.Semaphore(at_once)
        self._at_once, self._attempts, self._timeout_s, self._pause_s = at_once, attempts, timeout_s, pause_s
        self._cache_path = cache
        self._known: dict[str, Reply] = {}
        self._client: Any = None
        self._file: IO[bytes] | None = None

    async def __aenter__(self) -> Endpoint:
        limits = self._http.Limits(max_connections=self._at_once)
        self._client = self._http.AsyncClient(headers=self._headers, timeout=self._timeout_s, limits=limits)
        if self._cache_path is not None:
            self._known = read_cache(self._cache_path)
            self._file = self._cache_path.open("ab")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()
        if self._file is not None:
            self._file.close()

    async def answer(self, messages: Sequence[Mapping[str, str]]) -> Reply:
        """See Model.answer."""
        body = {**self._body, "messages": [dict(message) for message in messages]}
        key = digest({"url": self._url, **body})
        if key in self._known:
            return dataclasses.replace(self._known[key], cached=True)
        async with self._slots:
            reply = await self._ask(body)
        self._known[key] = reply
        self._keep(key, reply)
        return reply

    async def _ask(self, body: Mapping[str, Any]) -> Reply:
        problem = ""
        for attempt in range(self._attempts):
            try:
                response = await self._client.post(self._url, json=body)
            except self._http.TransportError as error:
                problem, wait_s = f"{type(error).__name__}: {error}", None
            else:
                if response.status_code == 200:
                    return _reply(response)
                problem, wait_s = _complaint(response), _retry_after(response)
                if response.status_code not in _AGAIN:
                    raise EndpointFailed(f"{self._url}: {problem}")
            if attempt + 1 < self._attempts:
                await asyncio.sleep(min(_LONGEST_PAUSE_S, wait_s or self._pause_s * 2**attempt))
        raise EndpointFailed(f"{self._url}: no answer in {self._attempts} attempts, the last time: {problem}")

    def _keep(self, key: str, reply: Reply) -> None:
        if self._file is None:
            return
        line = {"key": key, **{f.name: getattr(reply, f.name) for f in dataclasses.fields(reply)}}
        self._file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def _httpx() -> Any:
    try:
        import httpx
    except ImportError:
        raise ExtraMissing("httpx", "calls language models") from None
    return httpx


def digest(request: Mapping[str, Any]) -> str:
    """Of a whole request: the same question with other options is another one."""
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


def read_cache(path: Path) -> dict[str, Reply]:
    """The answers of earlier calls; a last line without its end is cut off, as it was never whole."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return {}
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.truncate(path, whole)
    lines = [json.loads(line) for line in data[:whole].splitlines()]
    return {line.pop("key"): Reply(**line) for line in lines}


def _reply(response: Any) -> Reply:
    try:
        told = response.json()
        choice, usage = told["choices"][0], told.get("usage") or {}
        text = choice["message"]["content"] or ""
    except (ValueError, LookupError, TypeError):
        raise EndpointFailed(f"this is no chat completion: {response.text[:_MOST_SHOWN]}") from None
    return Reply(
        text=str(text),
        finish=str(choice.get("finish_reason") or "stop"),
        prompt_tokens=int(usage.get("prompt_tokens") or 0),
        completion_tokens=int(usage.get("completion_tokens") or 0),
    )


def _complaint(response: Any) -> str:
    return f"status {response.status_code}: {response.text[:_MOST_SHOWN]}"


def _retry_after(response: Any) -> float | None:
    try:
        return max(0.0, float(response.headers["retry-after"]))
    except (KeyError, ValueError):
        return None
