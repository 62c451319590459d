"""Narrate: a trace told in sentences, in a style that the item's seed chooses."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from groundbox.dataset.item import Item
from groundbox.dataset.narrating import Narrator, Told
from groundbox.trace.record.reading import Trace

STAGE: Final = "narrate"


def style_of(item: Item, styles: Sequence[str], seed: int) -> str:
    """The style of an item's telling."""
    return random.Random(f"{seed}/{item.id}/style").choice(list(styles))


def seed_of(item: str, seed: int) -> int:
    """The seed of an item's wordings, from that of the build."""
    return random.Random(f"{seed}/{item}/telling").randrange(1 << 31)


def narrate(
    item: Item, trace: Trace, narrator: Narrator, *, styles: Sequence[str], seed: int, max_chars: int
) -> tuple[Item, Told | None]:
    """The item with its telling; dropped when there is none, or when not all of the run is told within the limit."""
    style = style_of(item, styles, seed)
    try:
        told = narrator(trace, style=style, seed=seed_of(item.id, seed), max_chars=max_chars)
    except Exception as error:
        # A program that the narrator cannot tell must not end the build; it is counted and shown.
        return item.dropped(STAGE, "narrator-failed", f"{style}: {type(error).__name__}: {error}"[:500]), None
    if len(told.text) > max_chars:
        return item.dropped(STAGE, "long-narration", f"{len(told.text)} characters, {max_chars} are allowed"), None
    if not told.whole:
        is_whole = trace.complete and not trace.folded
        why = f"that takes over {max_chars} characters" if is_whole else "not all of it is recorded"
        return item.dropped(STAGE, "told-in-parts", f"the run is not told whole: {why}"), None
    return item, told
