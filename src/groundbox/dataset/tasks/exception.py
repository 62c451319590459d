"""Exceptions: whether a run ends with one, which, and where. Failures are data, too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from groundbox.dataset.tasks.draft import Draft, View
from groundbox.trace.record import schema

NAME: Final = "exception"
_NONE: Final = "no exception"


def make(view: View) -> Iterator[Draft]:
    """One question for a run that failed, or in which an exception was raised and handled."""
    answer = view.item.answer
    if answer is None:
        return
    fault = answer.fault
    raised = any(isinstance(record, schema.Raise) for record in view.trace.records)
    if fault is None and not raised:
        return
    told = _NONE if fault is None else fault.type if fault.line is None else f"{fault.type} at line {fault.line}"
    yield Draft(
        task=NAME,
        question="Does the run end with an exception? Explain what happens. Answer with its type and the line "
        f"of this program in which it came up, such as `KeyError at line 3`, or with `{_NONE}`.",
        answer=told,
        check={"kind": "text", "value": told},
        reasoning=view.told.text,
    )
