"""A run told to a model of another framework: the observation of the project's own loop, without what only that has.

There is no `read_output` here, so that what is left out is counted and not handed out by name; programs can print it
again, because variables and files are kept. Where a framework wants bare text, its adapter says so.
"""

from __future__ import annotations

from typing import Final

from groundbox.agent.budget import cut
from groundbox.agent.defusing import fenced, mark_for, shown
from groundbox.agent.folding import folded
from groundbox.agent.observation import Observation, Shape, observe
from groundbox.execution import Execution

MOST_TOKENS: Final = 6000
MOST_PICTURES: Final = 4


def told(execution: Execution, *, max_pictures: int = 0, max_tokens: int = MOST_TOKENS) -> Observation:
    """What a model has to know of a run; its pictures, where the framework sends any."""
    return observe(execution, run=None, shape=Shape(max_tokens=max_tokens, max_pictures=max_pictures))


def told_part(name: str, text: str) -> str:
    """One text of a run alone, between marks; "" for nothing."""
    if not text.strip():
        return ""
    fitting = cut(folded(text), MOST_TOKENS, show=shown).text
    return fenced(name, fitting, mark_for([fitting]))
