"""Input prediction: the result is given, an input that leads to it is asked; running an answer judges it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from groundbox.dataset.tasks.draft import Draft, View

NAME: Final = "input"


def make(view: View) -> Iterator[Draft]:
    """One question for a function that returned."""
    answer, entry = view.item.answer, view.problem.entry
    if answer is None or answer.fault is not None or entry is None or not answer.text:
        return
    if not view.item.case.args and not view.item.case.kwargs:
        return
    call = f"{entry}({view.item.case.text()})"
    backward = view.told_backward()
    yield Draft(
        task=NAME,
        question=f"Find arguments for which `{entry}` returns `{answer.text}`. "
        "Any arguments that lead to this result are right. Answer with the whole call, its arguments as literals.",
        answer=call,
        check={"kind": "call", "value": answer.text},
        reasoning=backward.text if backward else f"Try `{call}`.\n\n{view.told.text}",
        shows_input=False,
    )
