"""Output with what says nothing new folded: lines that repeat, and what a progress bar wrote over itself."""

from __future__ import annotations

from typing import Final

MOST_BYTES: Final = 64 * 1024
"""A longer output is cut before it is folded, and not folded."""
_LONGEST_PERIOD: Final = 3
_FEWEST_REPEATS: Final = 3


def folded(text: str) -> str:
    """The text with its repeats counted; unchanged when it is longer than MOST_BYTES characters."""
    if len(text) > MOST_BYTES:
        return text
    lines = [_last_written(line) if "\r" in line else line for line in text.replace("\r\n", "\n").split("\n")]
    result: list[str] = []
    at = 0
    while at < len(lines):
        period, count = _repeats(lines, at)
        result += lines[at : at + period]
        if count > 1:
            what = "the line above" if period == 1 else f"the {period} lines above"
            result.append(f"… {what} {count - 1} times more …")
        at += period * count
    return "\n".join(result)


def _last_written(line: str) -> str:
    parts = [part for part in line.split("\r") if part.strip()]
    if len(parts) < 2:
        return "".join(parts)
    return f"{parts[-1]}  … written over {len(parts) - 1} earlier states …"


def _repeats(lines: list[str], at: int) -> tuple[int, int]:
    """How many lines repeat from here, and how often they stand there; 1 and 1 where nothing does."""
    for period in range(1, _LONGEST_PERIOD + 1):
        block, count = lines[at : at + period], 1
        while lines[at + period * count : at + period * (count + 1)] == block:
            count += 1
        if count >= _FEWEST_REPEATS and any(block):
            return period, count
    return 1, 1
