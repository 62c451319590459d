"""Prove: every statement of a telling against the trace. One with false statements is mended, or dropped whole."""

from __future__ import annotations

from typing import Final

from groundbox.dataset.item import Item
from groundbox.dataset.mending import Mended, mended
from groundbox.dataset.narrating import Prover, Told
from groundbox.trace.record.reading import Trace

STAGE: Final = "prove"


def prove(item: Item, told: Told, trace: Trace, prover: Prover) -> tuple[Item, Mended | None]:
    """The item with its telling and the proof of that; dropped when a statement failed, and when there is no proof."""
    try:
        found = mended(told, trace, prover)
    except Exception as error:
        # As in `narrate`: counted and shown, and the build goes on.
        return item.dropped(STAGE, "prover-failed", f"{type(error).__name__}: {error}"[:500]), None
    proved = found.proved
    if not proved.faithful:
        failed = list(proved.failed[:5])
        counts = f"{proved.proven} of {proved.total} claims are proven"
        item = item.dropped(STAGE, "unproven-claims", counts, style=told.style, failed=failed)
    return item, found
