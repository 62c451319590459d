"""Output prediction: the program and its input are given, the result is asked, and the narration leads there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from groundbox.dataset.tasks.draft import Draft, View

NAME: Final = "output"


def make(view: View) -> Iterator[Draft]:
    """One question for a run that came to an end by itself: what it returned, or, of a script, what it printed."""
    answer = view.item.answer
    if answer is None or answer.fault is not None:
        return
    if answer.text and view.problem.entry is not None:
        yield Draft(
            task=NAME,
            question="What does the call return? Work through the program step by step.",
            answer=answer.text,
            check={"kind": "value", "value": answer.text},
            reasoning=view.told.text,
        )
    elif answer.stdout:
        printed = repr(answer.stdout)
        yield Draft(
            task=NAME,
            question="What does the program print? Work through it step by step, "
            "and give all of the output as one Python string.",
            answer=printed,
            check={"kind": "value", "value": printed},
            reasoning=view.told.text,
        )
