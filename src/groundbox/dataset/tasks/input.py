"""Input prediction: the result is given, an input that leads to it is asked; running an answer judges it.

The reply is a search: arguments are tried with a reason, their run is told as it went, what it gave is compared with
what is wanted, and that leads to the next ones (`groundbox.dataset.seeking`). Every run in it was recorded and is
proven. The input that the result was recorded with plays no part.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from groundbox.dataset import literals, seeking
from groundbox.dataset.narrating import Told
from groundbox.dataset.tasks.draft import Draft, View

NAME: Final = "input"
_LEADS: Final = (
    ("First comes {call}.", "We begin with {call}.", "The first try is {call}."),
    ("Next comes {call}.", "So {call} is tried.", "The next try is {call}."),
)


def make(view: View) -> Iterator[Draft]:
    """One question for a function that returned, where arguments were found."""
    answer, entry, tried = view.item.answer, view.problem.entry, view.item.tried
    if answer is None or entry is None or not tried or len(view.guesses) != len(tried):
        return
    wanted, rng = literals.parse(answer.text), view.rng(NAME)
    parts: list[str] = []
    tellings: list[Told] = []
    for number, each in enumerate(tried):
        told = view.told_guess(number)
        if told is None:
            return
        lead = rng.choice(_LEADS[number > 0]).format(call=f"`{entry}({each.case.text()})`")
        tellings.append(told)
        parts += [f"{each.why} {lead}", told.text, seeking.compared(each.answer, wanted)]
    reasoning = "\n\n".join(parts)
    if len(reasoning) > view.max_chars:
        return
    yield Draft(
        task=NAME,
        question=f"Find arguments for which `{entry}` returns `{answer.text}`. "
        "Any arguments that lead to this result are right. Answer with the whole call, its arguments as literals.",
        answer=f"{entry}({tried[-1].case.text()})",
        check={"kind": "call", "value": answer.text},
        reasoning=reasoning,
        shows_input=False,
        case=tried[-1].case,
        tellings=tellings,
    )
