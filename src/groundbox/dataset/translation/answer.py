"""What an endpoint sends back, which may be anything: read up to `MOST_BYTES`, made text and counts that can be kept.

What is covered: bodies without end, compressed ones, halves of surrogate pairs, and counts that are none.
Compression is not asked for and not undone: a few bytes of it can become gigabytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from groundbox.dataset.translation.cache import TOO_LARGE, Reply
from groundbox.limits import MiB

MOST_BYTES: Final = 4 * MiB
"""Of a body; what comes after them is not read."""
ENCODING: Final = {"Accept-Encoding": "identity"}
"""Headers of every request."""
_MOST_FINISH_CHARS: Final = 100
_MOST_TOKENS: Final = 2**53
"""What every reader of JSON gives back as it was written."""


class NoCompletion(Exception):
    """A body is not that of a chat completion."""


class Body(NamedTuple):
    """What was read of a response.

    Attributes:
        data: As it was sent, `MOST_BYTES` at most.
        whole: Whether that is all.
    """

    status: int
    headers: Mapping[str, str]
    data: bytes
    whole: bool

    @property
    def text(self) -> str:
        """For messages."""
        if compression := self.headers.get("content-encoding"):
            return f"{compression} data, which were not asked for"
        return self.data.decode("utf-8", "replace")


async def receive(response: Any) -> Body:
    """The body of a response that is being streamed."""
    data = bytearray()
    async for chunk in response.aiter_raw():
        data += chunk
        if len(data) > MOST_BYTES:
            return Body(response.status_code, response.headers, bytes(data[:MOST_BYTES]), whole=False)
    return Body(response.status_code, response.headers, bytes(data), whole=True)


def reply_of(body: Body) -> Reply:
    """The answer, which is `TOO_LARGE` and empty where the body has more than `MOST_BYTES`.

    Raises:
        NoCompletion: There is none in it.
    """
    if not body.whole:
        return Reply(text="", finish=TOO_LARGE, prompt_tokens=0, completion_tokens=0)
    try:
        return _read(json.loads(body.data))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise NoCompletion from None


def sendable(text: str) -> str:
    """A text may hold halves of surrogate pairs, which no request and no file can."""
    return text.encode("utf-8", "backslashreplace").decode()


def _read(told: Any) -> Reply:
    choice, usage = told["choices"][0], told.get("usage") or {}
    return Reply(
        text=sendable(str(choice["message"]["content"] or "")),
        finish=sendable(str(choice.get("finish_reason") or "stop"))[:_MOST_FINISH_CHARS],
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
    )


def _count(told: Any) -> int:
    """A number of tokens; 0 for what cannot be one."""
    return int(told) if isinstance(told, int | float) and 0 <= told <= _MOST_TOKENS else 0
