"""Words beside a number that say how it was worked out."""

from __future__ import annotations

import re
from typing import Final

from groundbox.check.answers.found import Found

_BEFORE: Final = 90
_AFTER: Final = 50
_MORE: Final = (
    r"differ\w*|more|less|fewer|higher|lower|increas\w*|decreas\w*|gr[eo]w\w*|growth|rose|rise\w*|fell|falls?|dropp?\w*"
    r"|declin\w*|gap|chang\w*|lost|remain\w*|left|gain\w*|than|up|down|free|mehr|weniger"
)
_TOGETHER: Final = r"total\w*|sum|together|combined|overall|altogether|in all|both|plus|insgesamt|gesamt\w*|come to"
_CUES: Final = {
    "sum": rf"{_TOGETHER}|of|made?|makes?",
    "pair": _TOGETHER,
    "mean": r"average\w*|mean|avg|median|typical\w*|per|each|durchschnitt\w*|mittel\w*",
    "difference": rf"{_MORE}|behind|ahead|remov\w*|missing|rang\w*|versus|vs|between|only|short|extra|absolute|spread"
    r"|lead\w*|differenz",
    "change": rf"{_MORE}|other|rest|without|jump\w*|shrank|points?|climb\w*|by|gestiegen|gefallen",
    "ratio": r"times|ratio|factor|per|each|every|average\w*|mean|density|rate|fold|x|to one|as many|as much|double\w*"
    r"|pro",
}
_PATTERNS: Final = {step: re.compile(rf"\b(?:{words})\b", re.IGNORECASE) for step, words in _CUES.items()}
_TIMES: Final = re.compile(r"\s?(?:[x×]|-fold|times)(?!\w)")
_ALWAYS: Final = frozenset(["alone", "share", "count"])
_OFTEN: Final = frozenset(["sum", "difference"])


def cued(text: str, found: Found, sentence: tuple[int, int]) -> frozenset[str]:
    """The steps that the sentence has a word for, near the number."""
    start, end = max(sentence[0], found.start - _BEFORE), min(sentence[1], found.end + _AFTER)
    near = f"{text[start : found.start]} # {text[found.end : end]}"
    steps = {step for step, pattern in _PATTERNS.items() if pattern.search(near)}
    if _TIMES.match(text, found.end):
        steps.add("ratio")
    return _ALWAYS | steps


def bound(steps: frozenset[str], step: str, clear: float) -> float:
    """How much chance a step may owe where the sentence has no word for it: little, or none for the rare ones."""
    if step in steps:
        return float("inf")
    return clear if step in _OFTEN else 0.0
