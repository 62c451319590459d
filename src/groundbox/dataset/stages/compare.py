"""Compare: what the program gave with what the source recorded. Who differs is dropped, with both values."""

from __future__ import annotations

from typing import Final

from groundbox.dataset import literals
from groundbox.dataset.answers import literal_of
from groundbox.dataset.item import Item
from groundbox.dataset.problem import ABSENT

STAGE: Final = "compare"
_MOST_TEXT: Final = 2000


def compare(item: Item) -> Item:
    """The item, dropped if it has an answer other than the recorded one."""
    expected = item.case.expected
    if item.drop is not None or item.answer is None or expected is ABSENT:
        return item
    recorded = literals.text(expected)[:_MOST_TEXT]
    if item.answer.fault is not None:
        fault = item.answer.fault
        found = f"{fault.type}: {fault.message}"[:_MOST_TEXT]
        return item.dropped(STAGE, "raised-instead-of-recorded-output", recorded=recorded, found=found)
    try:
        agrees = literals.close(literal_of(item.answer.value), expected)
    except literals.NotALiteral:
        return item.dropped(STAGE, "output-not-a-literal", recorded=recorded, found=item.answer.text[:_MOST_TEXT])
    if agrees:
        return item
    return item.dropped(STAGE, "recorded-output-mismatch", recorded=recorded, found=item.answer.text[:_MOST_TEXT])
