"""Facts about a file as a few words, for a line of a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

_MOST_PARTS: Final = 3
_WRITTEN: Final = ("pages", "slides", "paragraphs", "words")


def words(facts: Mapping[str, Any]) -> str:
    """Such as `3 pages`, `2 sheets: Sales (10 rows × 4 columns), Notes (1 row × 1 column)` or `640 × 480 pixels`."""
    if facts.get("encrypted"):
        return "encrypted"
    if written := [_count(facts[name], name[:-1]) for name in _WRITTEN if name in facts]:
        return ", ".join(written)
    if "width" in facts and "height" in facts:
        return f"{facts['width']} × {facts['height']} pixels"
    for name, one in (("sheets", "sheet"), ("tables", "table")):
        if isinstance(facts.get(name), list):
            return _parts(facts[name], one, facts.get("left_out"))
    return _counts(facts)


def _counts(facts: Mapping[str, Any]) -> str:
    names = [name for name in ("rows", "columns", "items", "keys") if name in facts]
    return " × ".join(_count(facts[name], name.removesuffix("s")) for name in names)


def _parts(parts: Sequence[Any], one: str, left_out: Any) -> str:
    named = [part for part in parts if isinstance(part, Mapping)]
    told = [_part(part) for part in named[:_MOST_PARTS]]
    count = len(named) + (left_out if isinstance(left_out, int) else 0)
    more = [f"{count - len(told)} more"] if count > len(told) else []
    return f"{_count(count, one)}{': ' if told else ''}{', '.join([*told, *more])}"


def _part(part: Mapping[str, Any]) -> str:
    about = [*(["hidden"] if part.get("hidden") else []), *([_counts(part)] if "rows" in part else [])]
    return f"{part.get('name')} ({', '.join(about)})" if about else str(part.get("name"))


def _count(number: Any, one: str) -> str:
    return f"{number} {one}" if number == 1 else f"{number} {one}s"
