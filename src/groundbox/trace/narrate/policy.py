"""Policies of how much is told, by detail.

The more often a reader has seen a piece of code run, the shorter it is told: the first runs of a loop body or a
function in full, some further ones in a line each, the rest as a count and what they led to.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class Level(IntEnum):
    """Lengths at which a piece of the run is told."""

    # Compared: whoever tells a part takes the lower one of what it may and what is asked.
    SILENT = 0  # not at all
    RESULT = 1  # only what came of it
    SHORT = 2  # in a line
    FULL = 3  # step by step


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Detail, in numbers; None is unlimited.

    Attributes:
        name: As callers say it.
        full_iterations: Of one run of a loop, the first so many are told in full.
        short_iterations: So many after them in a line each.
        last_iterations: The last so many of a run of a loop.
        full_runs: Of all runs of one loop in the source, so many are told in full; later ones in short.
        short_runs: And so many after them in short; later ones by their result.
        full_calls: The same for the activations of one function.
        short_calls: See `short_runs`.
        depth: Calls within calls that are told in full or short.
        calls_in_line: Calls and resumptions that one line makes, as through `map` or `sorted`.
        value_chars: Characters of a value.
        list_values: Values of a name that are listed where iterations are left out.
        least: How everything is told at least that another rule would tell in fewer words. With SHORT nothing is left
            out: each value that later ones depend on is told before them.
    """

    name: str
    full_iterations: int | None
    short_iterations: int = 0
    last_iterations: int = 0
    full_runs: int | None
    short_runs: int = 0
    full_calls: int | None
    short_calls: int = 0
    depth: int | None
    calls_in_line: int | None
    value_chars: int
    list_values: int = 0
    least: Level = Level.RESULT

    @property
    def is_whole(self) -> bool:
        """Return whether nothing is left out."""
        return self.least >= Level.SHORT


FULL: Final = Policy(
    name="full",
    full_iterations=None,
    full_runs=None,
    full_calls=None,
    depth=60,
    calls_in_line=None,
    value_chars=200,
    least=Level.FULL,
)
WHOLE: Final = Policy(
    name="normal",
    full_iterations=2,
    last_iterations=1,
    full_runs=1,
    full_calls=2,
    depth=60,
    calls_in_line=None,
    value_chars=120,
    least=Level.SHORT,
)
"""The default: step by step what is new to a reader, all else in a line each, and nothing left out."""
PARTS: Final = Policy(
    name="parts",
    full_iterations=2,
    short_iterations=4,
    last_iterations=1,
    full_runs=1,
    short_runs=2,
    full_calls=2,
    short_calls=6,
    depth=6,
    calls_in_line=6,
    value_chars=120,
    list_values=10,
)
LESS: Final = Policy(
    name="parts, shortened",
    full_iterations=1,
    short_iterations=2,
    last_iterations=1,
    full_runs=1,
    short_runs=1,
    full_calls=1,
    short_calls=3,
    depth=4,
    calls_in_line=4,
    value_chars=100,
    list_values=6,
)
BRIEF: Final = Policy(
    name="brief",
    full_iterations=0,
    short_iterations=1,
    last_iterations=1,
    full_runs=1,
    full_calls=1,
    short_calls=1,
    depth=3,
    calls_in_line=3,
    value_chars=80,
    list_values=6,
)
OUTLINE: Final = Policy(
    name="outline",
    full_iterations=0,
    full_runs=1,
    full_calls=1,
    depth=1,
    calls_in_line=2,
    value_chars=60,
    list_values=3,
)
LADDER: Final = (FULL, WHOLE, PARTS, LESS, BRIEF, OUTLINE)
"""From the most to the least; after the last, only the question and the answer are told."""
STARTS: Final = {"full": 0, "normal": 1, "parts": 2, "brief": 4}
"""Place of each detail on the ladder."""


def level_of(seen: int, full: int | None, short: int, least: Level) -> Level:
    """Return how to tell something that was told `seen` times before."""
    if full is None or seen < full:
        return Level.FULL
    return Level.SHORT if seen < full + short else least
