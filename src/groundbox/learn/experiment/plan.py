"""Settings of the experiment: programs, held-out splits, sizes. docs/experiment.md says how they were found."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from groundbox.dataset.grammar import Grammar
from groundbox.learn.experiment.arms import ARMS

_PARTS: Final = frozenset({"branch", "for", "while", "helper"})
USUAL: Final = Grammar(statements=(1, 3), depth=1, rounds=3, bound=50, constructs=_PARTS)
"""Programs of the training: numbers of two digits, loops of up to three rounds, no block within another."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Split:
    """Held-out programs.

    Attributes:
        combined: Only programs with one of the combinations that no program of the training has: a helper called in a
            loop, and `//` in a loop.
    """

    grammar: Grammar
    combined: bool = False


SPLITS: Final[Mapping[str, Split]] = {
    "longer": Split(grammar=dataclasses.replace(USUAL, statements=(4, 6))),
    "deeper": Split(grammar=dataclasses.replace(USUAL, statements=(1, 2), depth=2)),
    "combined": Split(grammar=USUAL, combined=True),
}
"""Besides `same`, the test split of what is learnt from, and `real`, short programs that people wrote."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """How much of everything.

    Attributes:
        programs: Of the training and its test split, with three inputs each.
        same, others: Most runs of the split `same`, and of each of the others.
        tokens: That each model sees, prompts and replies; equal in all arms.
        layers, width: Of the model.
        batch: Tokens of a step.
        compiled: Whether torch compiles the model, which takes a minute first and is about twice as fast then. A GPU
            does without.
        drawn: Whether `same` is asked once more, with each token drawn by chance.
        room: Tokens of program, reasoning and answer together. What is longer is not learnt from.
    """

    arms: tuple[str, ...] = ("direct", "raw", "proven")
    seeds: tuple[int, ...] = (0,)
    programs: int = 4_000
    same: int = 600
    others: int = 300
    tokens: int = 3_000_000
    layers: int = 4
    width: int = 192
    heads: int = 6
    batch: int = 2048
    room: int = 768
    compiled: bool = True
    drawn: bool = False

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Plan:
        """Read what `dataclasses.asdict` and JSON made of a plan."""
        return cls(**{**kept, "arms": tuple(kept["arms"]), "seeds": tuple(kept["seeds"])})


SHORT: Final = Plan()
LONG: Final = dataclasses.replace(SHORT, arms=ARMS, seeds=(0, 1, 2), drawn=True)
QUICK: Final = Plan(
    programs=300, same=60, others=20, tokens=60_000, layers=2, width=64, heads=2, room=384, compiled=False
)
"""Shows that all of it works, in two minutes; its figures mean nothing."""
