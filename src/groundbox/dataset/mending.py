"""Mending: what a proof does not bear out is left out of a telling, if it is little, and the rest is proven anew."""

from __future__ import annotations

import dataclasses
from typing import Final

from groundbox.dataset.narrating import Proved, Prover, Told
from groundbox.trace.record.reading import Trace

_LEAST_FOR_ONE: Final = 5
"""Sentences of a telling for each one that may be left out."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mended:
    """A telling with its proof.

    Attributes:
        first: The proof of the telling as it was.
        left_out: The sentences that are no longer told.
    """

    told: Told
    proved: Proved
    first: Proved
    left_out: tuple[str, ...] = ()


def mended(told: Told, trace: Trace, prover: Prover) -> Mended:
    """The telling without the sentences that hold an unproven claim; the telling as it is, where that does not help.

    The last sentence, which is the answer, always stays.
    """
    first = proved = prover(told, trace)
    left_out: set[int] = set()
    current = told
    while not proved.whole:
        more = current.places(proved.unproven) - left_out
        left_out |= more
        last = len(told.sentences) - 1
        if not more or last in left_out or len(left_out) * _LEAST_FOR_ONE > len(told.sentences):
            return Mended(told=told, proved=first, first=first)
        current = told.without(left_out)
        proved = prover(current, trace)
    gone = tuple(told.sentences[place].text for place in sorted(left_out))
    return Mended(told=current, proved=proved, first=first, left_out=gone)
