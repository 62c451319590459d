"""How much of a text fits into a number of tokens, without any tokenizer.

A token is taken to be BYTES_PER_TOKEN bytes of UTF-8. English prose has about four, code and tables of numbers two
to three, and most other scripts about three; so the estimate is near the truth for what programs print and above it
for prose. It bounds what is shown and is no bill: what a model counts is in its own usage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

BYTES_PER_TOKEN: Final = 3
_HEAD_SHARE: Final = 0.6
_LONGEST_COUNT: Final = 64
_SMALLER: Final = 0.8


def tokens_of(text: str) -> int:
    """The estimate for a text."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def shares(needs: Mapping[str, int], weights: Mapping[str, float], total: int) -> dict[str, int]:
    """Divide `total` by weight; what one does not need goes to the others by their weights."""
    given = dict.fromkeys(needs, 0)
    hungry = {name for name, need in needs.items() if need > 0}
    left = total
    while hungry and left > 0:
        whole = sum(weights[name] for name in hungry)
        satisfied = {name for name in hungry if needs[name] <= left * weights[name] / whole}
        if not satisfied:
            return given | {name: int(left * weights[name] / whole) for name in hungry}
        for name in satisfied:
            given[name] = needs[name]
        left -= sum(needs[name] for name in satisfied)
        hungry -= satisfied
    return given


class Cut(NamedTuple):
    """A text within its share; `dropped_bytes` were left out of its middle."""

    text: str
    dropped_bytes: int


def cut(
    text: str,
    max_tokens: int,
    *,
    more: str = "",
    gone_bytes: int = 0,
    show: Callable[[str], str] = str,
) -> Cut:
    """Head and tail of a text, whole lines where they fit, with a line between them that counts what is missing.

    Args:
        more: How to get at the rest, for that line.
        gone_bytes: What was left out of the middle of `text` before.
        show: Makes a piece fit to be shown, which may make it longer; what is counted is what the program wrote.
    """
    data = text.encode("utf-8", "replace")
    most_bytes = max_tokens * BYTES_PER_TOKEN
    if not gone_bytes and len(data) <= most_bytes and _size(whole := show(text)) <= most_bytes:
        return Cut(whole, 0)
    allowed = most_bytes - _LONGEST_COUNT - len(more.encode())
    room = max(0, min(allowed, len(data)))
    share = 0.5 if gone_bytes else _HEAD_SHARE
    while True:
        head = _head(data, int(room * share))
        tail = _tail(data, room - len(head))
        shown_head, shown_tail = (show(piece.decode("utf-8", "replace")).strip("\n") for piece in (head, tail))
        if not room or _size(shown_head) + _size(shown_tail) <= allowed:
            break
        room = int(room * _SMALLER)
    dropped = data[len(head) : len(data) - len(tail)]
    if not dropped and not gone_bytes:
        return Cut("\n".join((shown_head, shown_tail)), 0)
    lines = 0 if gone_bytes else dropped.count(b"\n")
    counted = f"{len(dropped) + gone_bytes} bytes" + (f" in {lines} lines" if lines > 1 else "")
    note = f"… {counted} left out{more} …"
    return Cut("\n".join(part for part in (shown_head, note, shown_tail) if part), len(dropped) + gone_bytes)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _head(data: bytes, room: int) -> bytes:
    end = data.rfind(b"\n", room // 2, room) + 1
    if end:
        return data[:end]
    while 0 < room < len(data) and data[room] & 0xC0 == 0x80:
        room -= 1
    return data[:room]


def _tail(data: bytes, room: int) -> bytes:
    start = len(data) - room
    line = data.find(b"\n", start, start + room // 2) + 1
    if line:
        return data[line:]
    while start < len(data) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]
