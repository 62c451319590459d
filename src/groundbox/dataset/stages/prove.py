"""Prove: every statement of a telling against the trace. A telling with one false statement is dropped whole."""

from __future__ import annotations

from typing import Final

from groundbox.dataset.item import Item
from groundbox.dataset.narrating import Proved, Prover, Told
from groundbox.trace.reading import Trace

STAGE: Final = "prove"


def prove(item: Item, told: Told, trace: Trace, prover: Prover) -> tuple[Item, Proved | None]:
    """The item with its proof; dropped when a statement failed, and when there is no proof."""
    try:
        proved = prover(told.text, trace)
    except Exception as error:
        # As in `narrate`: counted and shown, and the build goes on.
        return item.dropped(STAGE, "prover-failed", f"{type(error).__name__}: {error}"[:500]), None
    if not proved.faithful:
        failed = list(proved.failed[:5])
        counts = f"{proved.proven} of {proved.total} claims are proven"
        item = item.dropped(STAGE, "unproven-claims", counts, style=told.style, failed=failed)
    return item, proved
