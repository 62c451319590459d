"""Claims whose writer does not know the numbers of records, given the record that shows them.

Values, conditions, results and inputs are looked for by `proving.py` as it goes. Changes, calls, iterations, counts,
output, exceptions and ends of loops are held against a record each: here they are tried at every one, and get the first
that bears them out after the record of the claim before, or else the first at all. One that no record bears out stays
without, and is not found. So a writer is believed in nothing: what it says has to be so somewhere, as for values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from groundbox.trace.claims.data import ClaimsData
from groundbox.trace.claims.model import PUBLISHED, Kind, Status, not_found
from groundbox.trace.claims.run import Run
from groundbox.trace.claims.verifying import verify
from groundbox.trace.record.reading import Trace

MOST_TRIED: Final = 40_000
"""Records at which claims of a text are tried, of all claims together."""
LOCATED: Final = PUBLISHED - {Kind.VALUE, Kind.TEST, Kind.RETURN, Kind.INPUT, Kind.ANSWER}
"""Kinds of claims that are held against one record."""


def located(document: ClaimsData, trace: Trace) -> ClaimsData:
    """The document with a record for each claim that needs one, as far as there is one and `MOST_TRIED` allows."""
    records = len(trace.records)
    most = MOST_TRIED // max(1, records)
    wanted = [
        claim
        for sentence in document.sentences
        for claim in sentence.claims
        if claim.kind in LOCATED and claim.step is None
    ][:most]
    if not wanted:
        return document
    # All in one walk over the run, since each walk costs as much as the run is long. None of them lacks a record.
    tries = [msgspec.structs.replace(claim, step=step) for claim in wanted for step in range(records)]
    judged = verify(tries, trace, Run(trace), lambda number: not_found(""))
    shown: dict[int, list[int]] = {}
    for place, claim in enumerate(wanted):
        found = judged[place * records : (place + 1) * records]
        # By identity: the same claim may stand in two sentences, of two records.
        shown[id(claim)] = [step for step, each in enumerate(found) if each.status is Status.SUPPORTED]
    return _with_steps(document, shown)


def _with_steps(document: ClaimsData, shown: dict[int, list[int]]) -> ClaimsData:
    sentences, after = [], -1
    for sentence in document.sentences:
        claims = []
        for claim in sentence.claims:
            step = _first(shown.get(id(claim), ()), after)
            claims.append(claim if step is None else msgspec.structs.replace(claim, step=step))
            after = claims[-1].step if claims[-1].step is not None else after
        sentences.append(msgspec.structs.replace(sentence, claims=claims))
    return msgspec.structs.replace(document, sentences=sentences)


def _first(steps: Sequence[int], after: int) -> int | None:
    later = [step for step in steps if step >= after]
    return next(iter(later or steps), None)
