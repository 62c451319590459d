"""Parts of a completion: its text and its answer. Models write anything, so all of it is bounded.

The program in it is read as everywhere (endpoint/programs.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from groundbox.dataset.tasks import checking
from groundbox.endpoint.answer import without_thinking
from groundbox.endpoint.programs import MOST_CHARS

MOST_ANSWER_CHARS: Final = 10_000


def text_of(completion: Any) -> str:
    """The text of a completion: it itself, or what the last message of the assistant says.

    A message may have parts, `{"type": "text", "text": …}`; what is no text, such as a call of a tool, has none.
    """
    if isinstance(completion, str):
        return completion[-MOST_CHARS:]
    if isinstance(completion, Mapping):
        return _content(completion.get("content"))
    if not isinstance(completion, Sequence) or isinstance(completion, bytes):
        return ""
    for message in reversed(completion):
        if isinstance(message, Mapping) and message.get("role") == "assistant":
            return _content(message.get("content"))
    return _content(completion[-1].get("content")) if completion and isinstance(completion[-1], Mapping) else ""


def answer_of(text: str) -> str:
    """Return the text after the last `Answer:` line, as `dataset.tasks.checking` reads it.

    It is "" if it is too long, and if the thinking before it was not ended.
    """
    answer = checking.answer_of(without_thinking(text[-MOST_CHARS:]) or "")
    return answer if len(answer) <= MOST_ANSWER_CHARS else ""


def _content(content: Any) -> str:
    if isinstance(content, str):
        return content[-MOST_CHARS:]
    if not isinstance(content, Sequence) or isinstance(content, bytes):
        return ""
    parts = [part.get("text") for part in content[-1000:] if isinstance(part, Mapping)]
    return "".join(part for part in parts if isinstance(part, str))[-MOST_CHARS:]
