"""One trace into prose by a model, proven, and repaired once."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

from groundbox.dataset.translation import prompts
from groundbox.dataset.translation.cache import Reply
from groundbox.dataset.translation.endpoint import Model
from groundbox.dataset.translation.prompts import Shown
from groundbox.endpoint.answer import TOO_LARGE, without_thinking
from groundbox.endpoint.chat import RequestRefused

MOST_FAILED: Final = 12
"""A repair quotes so many failed claims; a text with more is beyond it and told the first ones."""
MOST_REPAIRED_CHARS: Final = 100_000
"""A longer narration is not sent back to be repaired: the trace that it tells may have 60,000 by default."""
UNPROVEN: Final = "unproven-claims"
_FENCE: Final = re.compile(r"\A```[a-z]*\n(.*)\n```\Z", re.DOTALL)


class Verdict(Protocol):
    """What the prover says of a narration."""

    @property
    def faithful(self) -> bool:
        """Whether every claim was proven and the answer is right."""

    @property
    def failed(self) -> Sequence[object]:
        """The claims that were not; as text each is a message that a model understands."""


Prove: TypeAlias = Callable[[str], Awaitable[Verdict]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Translation:
    """What came of one trace.

    Attributes:
        text: The last narration without the model's thinking; empty if there was none.
        verdict: Of `text`, or None without one.
        first: Of the first attempt, which `text` is where nothing was repaired.
        reason: Why it cannot be used; empty when it can: `cut-short`, `empty`, `unfinished-thinking`,
            `unproven-claims`, `request-refused`, `answer-too-large`.
        detail: What the endpoint says of a request that it refuses.
        repaired: Whether `text` is the second attempt.
    """

    text: str = ""
    verdict: Verdict | None = None
    first: Verdict | None = None
    reason: str = ""
    detail: str = ""
    repaired: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def ok(self) -> bool:
        """Whether it is proven."""
        return not self.reason


async def translate(model: Model, shown: Shown, prove: Prove, *, style: str) -> Translation:
    """Ask for a narration, prove it, and ask once more with the failed claims quoted if it is not faithful.

    One of over `MOST_REPAIRED_CHARS` is not asked for again.

    Raises:
        EndpointFailed: The model gave no answer.
    """
    messages = [{"role": "user", "content": prompts.request(shown, style)}]
    first = await _attempt(model, messages, prove)
    if first.reason != UNPROVEN or first.verdict is None or len(first.text) > MOST_REPAIRED_CHARS:
        return dataclasses.replace(first, first=first.verdict)
    failed = [str(claim) for claim in first.verdict.failed][:MOST_FAILED]
    messages += [
        {"role": "assistant", "content": first.text},
        {"role": "user", "content": prompts.repair(failed)},
    ]
    second = await _attempt(model, messages, prove)
    return dataclasses.replace(
        second,
        first=first.verdict,
        repaired=True,
        prompt_tokens=first.prompt_tokens + second.prompt_tokens,
        completion_tokens=first.completion_tokens + second.completion_tokens,
    )


async def _attempt(model: Model, messages: Sequence[Mapping[str, str]], prove: Prove) -> Translation:
    try:
        reply = await model.answer(messages)
    except RequestRefused as error:
        return Translation(reason="request-refused", detail=str(error))
    text = _unfenced(without_thinking(reply.text))
    verdict, reason = None, _defect(text, reply)
    if text and not reason:
        verdict = await prove(text)
        reason = "" if verdict.faithful else UNPROVEN
    return Translation(
        text=text or "",
        verdict=verdict,
        reason=reason,
        prompt_tokens=reply.prompt_tokens,
        completion_tokens=reply.completion_tokens,
    )


def _unfenced(text: str | None) -> str | None:
    """A narration that was put into a fence as a whole."""
    fenced = _FENCE.match(text or "")
    return fenced[1].strip() if fenced else text


def _defect(text: str | None, reply: Reply) -> str:
    if reply.finish == TOO_LARGE:
        return "answer-too-large"
    if text is None:
        return "unfinished-thinking"
    if reply.finish == "length":
        return "cut-short"
    return "" if text else "empty"
