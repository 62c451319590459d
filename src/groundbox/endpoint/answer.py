"""What an endpoint sends back, which may be anything: read up to `MOST_BYTES`, made text, calls and counts to be kept.

What is covered: bodies without end, compressed ones, web pages, halves of surrogate pairs, and counts that are none.
Compression is not asked for and not undone: a few bytes of it can become gigabytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from groundbox.limits import MiB

MOST_BYTES: Final = 4 * MiB
"""Of a body; what comes after them is not read."""
ENCODING: Final = {"Accept-Encoding": "identity"}
"""Headers of every request."""
TOO_LARGE: Final = "too-large"
"""How an answer ended that nobody read to its end."""
_MOST_FINISH_CHARS: Final = 100
_MOST_TOKENS: Final = 2**53
"""What every reader of JSON gives back as it was written."""
_TITLE: Final = re.compile(r"<title[^>]*>([^<]{1,200})", re.IGNORECASE)
_TAG: Final = re.compile(r"<(/?)(think|thinking|reasoning)>", re.ASCII | re.IGNORECASE)


class NoCompletion(Exception):
    """A body is not that of a chat completion."""


class ToolCall(NamedTuple):
    """One call of a tool; `arguments` is the text that the model wrote, which should be JSON."""

    name: str
    arguments: str
    call_id: str


class Completion(NamedTuple):
    """What a model said.

    Attributes:
        finish: Why it ended, as the endpoint says: `stop`, `tool_calls`, or `length` when it was cut at `max_tokens`;
            or `TOO_LARGE`, and then the text is empty.
        prompt_tokens, completion_tokens: 0 where the endpoint does not say.
    """

    text: str
    finish: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    calls: Sequence[ToolCall] = ()


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
        """For messages: the endpoint's own message, where it is where OpenAI puts it; the title of a web page."""
        if compression := self.headers.get("content-encoding"):
            return f"{compression} data, which were not asked for"
        text = self.data.decode("utf-8", "replace")
        if self.is_web_page:
            title = _TITLE.search(text[:20_000])
            return f"a web page, {' '.join(title[1].split())!r}" if title else "a web page"
        if self.is_stream:
            events = (line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:"))
            told = next((message for event in events if (message := _message(event))), "")
            return f"a stream of events without a whole answer{': ' if told else ''}{told}"
        return _message(text) or text

    @property
    def is_web_page(self) -> bool:
        """Whether it is HTML, which no API answers with."""
        return self.data[:200].lstrip().lower().startswith((b"<!doctype html", b"<html"))

    @property
    def is_stream(self) -> bool:
        """Whether it is a stream of events, which some endpoints send to every request."""
        return self.data[:200].lstrip().startswith((b"data:", b"event:", b":"))


async def receive(response: Any) -> Body:
    """The body of a response that is being streamed."""
    data = bytearray()
    async for chunk in response.aiter_raw():
        data += chunk
        if len(data) > MOST_BYTES:
            return Body(response.status_code, response.headers, bytes(data[:MOST_BYTES]), whole=False)
    return Body(response.status_code, response.headers, bytes(data), whole=True)


def completion_of(body: Body) -> Completion:
    """The answer, which is `TOO_LARGE` and empty where the body has more than `MOST_BYTES`.

    Raises:
        NoCompletion: There is none in it.
    """
    if not body.whole:
        return Completion(text="", finish=TOO_LARGE)
    try:
        return _read(_joined(body.data) if body.is_stream else json.loads(body.data))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise NoCompletion from None


def sendable(text: str) -> str:
    """A text may hold halves of surrogate pairs, which no request and no file can."""
    return text.encode("utf-8", "backslashreplace").decode()


def without_thinking(text: str) -> str | None:
    """The answer alone; None when the thinking was not ended, so that there is no answer.

    Some servers put the opening tag into the prompt, so that only the closing one comes back.
    """
    text = "".join(_outside(text))
    for tag in ("think", "thinking", "reasoning"):
        before, closing, after = text.rpartition(f"</{tag}>")
        text = after if closing else before + after
        if f"<{tag}>" in text:
            return None
    return text.strip()


def _outside(text: str) -> Iterator[str]:
    """The pieces around thinking, which goes from a tag to the first that ends it; a tag that nothing ends stays.

    A search for the end from each tag would take the square of their number where nothing ends them.
    """
    last_end = {tag[2].lower(): tag.start() for tag in _TAG.finditer(text) if tag[1]}
    thinking, place = "", 0
    for tag in _TAG.finditer(text):
        name = tag[2].lower()
        if tag[1] and name == thinking:
            thinking, place = "", tag.end()
        elif not (tag[1] or thinking) and last_end.get(name, -1) > tag.start():
            yield text[place : tag.start()]
            thinking = name
    yield text[place:]


def _read(told: Any) -> Completion:
    choice, usage = told["choices"][0], told.get("usage") or {}
    message = choice["message"]
    return Completion(
        text=sendable(str(message.get("content") or "")),
        finish=sendable(str(choice.get("finish_reason") or "stop"))[:_MOST_FINISH_CHARS],
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
        calls=tuple(map(_call, message.get("tool_calls") or ())),
    )


def _joined(data: bytes) -> dict[str, Any]:
    """Join the chunks of a streamed completion into what the endpoint sends without streaming."""
    said: list[str] = []
    calls: dict[Any, dict[str, Any]] = {}
    finish, usage, has_ended = None, None, False
    for line in data.splitlines():
        payload = line.removeprefix(b"data:").strip()
        if not line.startswith(b"data:"):
            continue
        if payload == b"[DONE]":
            has_ended = True
            continue
        chunk = json.loads(payload)
        if chunk.get("error"):
            raise NoCompletion
        usage = chunk.get("usage") or usage
        for choice in chunk.get("choices") or ():
            if choice.get("index", 0) != 0:
                continue
            finish = choice.get("finish_reason") or finish
            delta = choice.get("delta") or {}
            said.append(delta.get("content") or "")
            for part in delta.get("tool_calls") or ():
                _add_call(calls.setdefault(part.get("index", len(calls)), {"name": [], "arguments": []}), part)
    if not (said and (finish or has_ended)):  # cut off, or no completion
        raise NoCompletion
    joined = [
        {"id": each.get("id"), "function": {name: "".join(each[name]) for name in ("name", "arguments")}}
        for each in calls.values()
    ]
    message = {"content": "".join(said), "tool_calls": joined}
    return {"choices": [{"message": message, "finish_reason": finish}], "usage": usage}


def _add_call(call: dict[str, Any], part: Mapping[str, Any]) -> None:
    """Add one piece of a streamed call to what came before."""
    call["id"] = part.get("id") or call.get("id")
    function = part.get("function") or {}
    for name in ("name", "arguments"):
        call[name].append(function.get(name) or "")


def _call(told: Any) -> ToolCall:
    function = told["function"]
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return ToolCall(sendable(str(function["name"])), sendable(text), sendable(str(told.get("id") or "")))


def _message(text: str) -> str:
    """Of a body such as `{"error": {"message": "…"}}`; "" where there is none."""
    try:
        told = json.loads(text)
        error = told.get("error") or told.get("detail") or told.get("message")
        found = error.get("message") if isinstance(error, dict) else error
    except (ValueError, AttributeError, RecursionError):
        return ""
    return found if isinstance(found, str) else ""


def _count(told: Any) -> int:
    """A number of tokens; 0 for what cannot be one."""
    return int(told) if isinstance(told, int | float) and 0 <= told <= _MOST_TOKENS else 0
