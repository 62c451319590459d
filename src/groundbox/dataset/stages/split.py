"""Split: which part of the dataset a problem belongs to. It depends on the problem alone, never on its neighbours."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Final

from groundbox.dataset import tokens
from groundbox.dataset.problem import Problem

STAGE: Final = "split"
TRAIN: Final = "train"
SPLITS: Final = (TRAIN, "validation", "test")
_BITS: Final = 53


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shares:
    """Shares of the problems that are kept apart from training."""

    validation: float = 0.05
    test: float = 0.05


def split(problem: Problem, shares: Shares) -> str:
    """The split of a problem: `train`, `validation` or `test`.

    Problems with one and the same statement go together, however their programs differ.
    """
    said = " ".join(tokens.words(problem.statement)) or tokens.digest(tokens.normalised(problem.source))
    place = int.from_bytes(hashlib.sha256(said.encode()).digest()[:8], "big") >> (64 - _BITS)
    share = place / 2**_BITS
    if share < shares.test:
        return "test"
    return "validation" if share < shares.test + shares.validation else TRAIN
