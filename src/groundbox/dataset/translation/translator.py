"""One trace into prose by a model, proven, and repaired once."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from groundbox.dataset.translation import prompts
from groundbox.dataset.translation.endpoint import Model, Reply
from groundbox.dataset.translation.prompts import Shown

MOST_FAILED: Final = 12
"""A repair quotes so many failed claims; a text with more is beyond it and told the first ones."""

_THINKING: Final = re.compile(r"<(think|thinking|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_FENCE: Final = re.compile(r"\A```[a-z]*\n(.*)\n```\Z", re.DOTALL)


class Verdict(Protocol):
    """What the prover says of a narration."""

    @property
    def faithful(self) -> bool:
        """Whether every claim was proven and the answer is right."""

    @property
    def failed(self) -> Sequence[object]:
        """The claims that were not; as text each is a message that a model understands."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Translation:
    """What came of one trace.

    Attributes:
        text: The last narration without the model's thinking; empty if there was none.
        verdict: Of `text`, or None without one.
        reason: Why it cannot be used; empty when it can: `cut short`, `empty`, `unfinished thinking`, `not proven`.
        repaired: Whether `text` is the second attempt.
    """

    text: str
    verdict: Verdict | None
    reason: str
    repaired: bool
    prompt_tokens: int
    completion_tokens: int

    @property
    def ok(self) -> bool:
        """Whether it is proven."""
        return not self.reason


async def translate(model: Model, shown: Shown, prove: Callable[[str], Verdict], *, style: str) -> Translation:
    """Ask for a narration, prove it, and ask once more with the failed claims quoted if it is not faithful.

    Raises:
        EndpointFailed: The model gave no answer.
    """
    messages = [{"role": "user", "content": prompts.request(shown, style)}]
    reply = await model.answer(messages)
    first = _judged(reply, prove, repaired=False)
    if first.reason != "not proven" or first.verdict is None:
        return first
    failed = [str(claim) for claim in first.verdict.failed][:MOST_FAILED]
    messages += [
        {"role": "assistant", "content": first.text},
        {"role": "user", "content": prompts.repair(failed)},
    ]
    second = _judged(await model.answer(messages), prove, repaired=True)
    return dataclasses.replace(
        second,
        prompt_tokens=first.prompt_tokens + second.prompt_tokens,
        completion_tokens=first.completion_tokens + second.completion_tokens,
    )


def without_thinking(text: str) -> str | None:
    """The answer alone; None when the thinking was not ended, so that there is no answer.

    Some servers put the opening tag into the prompt, so that only the closing one comes back.
    """
    text = _THINKING.sub("", text)
    for tag in ("think", "thinking", "reasoning"):
        before, closing, after = text.rpartition(f"</{tag}>")
        text = after if closing else before + after
        if f"<{tag}>" in text:
            return None
    text = text.strip()
    fenced = _FENCE.match(text)
    return fenced[1].strip() if fenced else text


def _judged(reply: Reply, prove: Callable[[str], Verdict], *, repaired: bool) -> Translation:
    text = without_thinking(reply.text)
    verdict = None
    if text is None:
        reason = "unfinished thinking"
    elif reply.finish == "length":
        reason = "cut short"
    elif not text:
        reason = "empty"
    else:
        verdict = prove(text)
        reason = "" if verdict.faithful else "not proven"
    return Translation(
        text=text or "",
        verdict=verdict,
        reason=reason,
        repaired=repaired,
        prompt_tokens=reply.prompt_tokens,
        completion_tokens=reply.completion_tokens,
    )
