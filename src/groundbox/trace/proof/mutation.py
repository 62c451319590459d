"""Narrations made false on purpose, to measure what the prover catches.

Each mutation changes one thing in a text all of whose claims hold, and is only made where the result is known to be
false from the trace alone, whatever the prover says:

- value, change, argument, return: the new value is one that this name, parameter or function never has in the run;
- arithmetic: the two sides are no longer equal;
- truth: `is true` becomes `is false`, of a test that gives the same result whenever it is evaluated, or that is
  evaluated once;
- name: the other name never has this value;
- count, iteration: no loop of the run has so many iterations;
- line: nothing of what the sentence tells happens in that line;
- order: two sentences that tell a change of the same name change places, and the run has no such changes in that order;
- drop: a sentence with an update is left out whose neighbours, the updates of the same name before and after it in the
  same call, are both told as changes;
- duplicate: a sentence is told twice whose change happens once in the run.

What could be true in some reading is not made: equal values, independent facts, updates at the edge of what is told.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from groundbox.trace.proof.alignment import align
from groundbox.trace.proof.falsehoods.counts import other_counts, other_lines
from groundbox.trace.proof.falsehoods.facts import (
    other_arguments,
    other_changes,
    other_names,
    other_results,
    other_returns,
    other_truths,
    other_values,
)
from groundbox.trace.proof.falsehoods.order import drops, duplicates, other_orders
from groundbox.trace.proof.falsehoods.subject import Mutation, Subject
from groundbox.trace.proof.grammar import claims_of
from groundbox.trace.proof.moments.finder import Finder
from groundbox.trace.proof.records.ledger import Ledger
from groundbox.trace.reading import Trace


def mutations(text: str, trace: Trace, *, seed: int = 0, most: int = 3) -> list[Mutation]:
    """False texts made of a true one, at most `most` of each kind; the same for the same seed."""
    ledger = Ledger(trace)
    reading = claims_of(text, ledger.names, ledger.functions)
    placed = align(reading.claims, Finder(ledger))
    subject = Subject(text, reading, placed, ledger, random.Random(f"mutation {seed}"))
    found: list[Mutation] = []
    for make in _MAKERS:
        made = list(make(subject))
        subject.random.shuffle(made)
        found.extend(made[:most])
    return found


_MAKERS: Final[Sequence[Callable[[Subject], Iterator[Mutation]]]] = (
    other_values, other_changes, other_arguments, other_returns, other_results, other_truths, other_names,
    other_counts, other_lines, other_orders, drops, duplicates,
)  # fmt: skip
