"""Parts of a completion: its text, the program in it, its answer. Models write anything, so all of it is bounded."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from groundbox.dataset.tasks import checking

MOST_CHARS: Final = 200_000
"""Of a completion; of a longer one the end is read, where answers stand."""
MOST_ANSWER_CHARS: Final = 10_000
_FENCE: Final = re.compile(r"[ ]{0,3}(`{3,}|~{3,})[ ]*([\w+.-]*)[^`]*")
_PYTHON: Final = frozenset(["python", "py", "python3", "py3", "ipython"])


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


def program_of(text: str) -> str:
    """The last fenced block of Python; else the last one without a language; else all of it, where nothing is fenced.

    A block that is not closed, as of a reply that was cut, goes on to the end.
    """
    named, unnamed, is_fenced = "", "", False
    lines = text[-MOST_CHARS:].splitlines(keepends=True)
    at = 0
    while at < len(lines):
        opened = _FENCE.fullmatch(lines[at].rstrip("\r\n")[:200])
        at += 1
        if opened is None:
            continue
        is_fenced = True
        mark, language = opened[1], opened[2].lower()
        begin = at
        while at < len(lines) and not _closes(lines[at], mark):
            at += 1
        block = "".join(lines[begin:at])
        at += 1
        if language in _PYTHON:
            named = block
        elif not language:
            unnamed = block
    return named or unnamed or ("" if is_fenced else text)


def answer_of(text: str) -> str:
    """Return the text after the last `Answer:` line, as `dataset.tasks.checking` reads it; "" where it is too long."""
    answer = checking.answer_of(text[-MOST_CHARS:])
    return answer if len(answer) <= MOST_ANSWER_CHARS else ""


def _content(content: Any) -> str:
    if isinstance(content, str):
        return content[-MOST_CHARS:]
    if not isinstance(content, Sequence) or isinstance(content, bytes):
        return ""
    parts = [part.get("text") for part in content[-1000:] if isinstance(part, Mapping)]
    return "".join(part for part in parts if isinstance(part, str))[-MOST_CHARS:]


def _closes(line: str, mark: str) -> bool:
    bare = line[:200].strip()
    return len(bare) >= len(mark) and bare == mark[0] * len(bare) and len(line) - len(line.lstrip(" ")) <= 3
