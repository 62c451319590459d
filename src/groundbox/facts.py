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
            return _parts(facts[name], one)
    return _counts(facts)


def _counts(facts: Mapping[str, Any]) -> str:
    names = [name for name in ("rows", "columns", "items", "keys") if name in facts]
    return " × ".join(_count(facts[name], name.removesuffix("s")) for name in names)


def _parts(parts: Sequence[Any], one: str) -> str:
    named = [part for part in parts if isinstance(part, Mapping)]
    told = [
        f"{part.get('name')} ({_counts(part)})" if "rows" in part else str(part.get("name"))
        for part in named[:_MOST_PARTS]
    ]
    more = [f"{len(named) - _MOST_PARTS} more"] if len(named) > _MOST_PARTS else []
    return f"{_count(len(named), one)}{': ' if told else ''}{', '.join([*told, *more])}"


def _count(number: Any, one: str) -> str:
    return f"{number} {one}" if number == 1 else f"{number} {one}s"
