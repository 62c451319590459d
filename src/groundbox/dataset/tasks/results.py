"""Questions about how a run ends: what it gives, which arguments lead to a result, and the exception that ends it.

The reply to a question for arguments is a search: some are tried with a reason, their run is told as it went, what it
gave is compared with what is wanted, and that leads to the next ones (`groundbox.dataset.argument_search`). Every run
in it was recorded and is proven. The input that the result was recorded with plays no part.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from groundbox.dataset import argument_search
from groundbox.dataset.narration import Told
from groundbox.dataset.tasks.task import Draft, View, task
from groundbox.trace.record import schema
from groundbox.values import literals

_LEADS: Final = (
    ("First comes {call}.", "We begin with {call}.", "The first try is {call}."),
    ("Next comes {call}.", "So {call} is tried.", "The next try is {call}."),
)
_NO_EXCEPTION: Final = "no exception"


@task("output", about="predict what a call returns, or what a script prints", place=10, always=True)
def output(view: View) -> Iterator[Draft]:
    """Ask of a run that came to an end by itself what it returned, or, of a script, what it printed."""
    answer = view.item.answer
    if answer is None or answer.fault is not None:
        return
    if answer.text and view.problem.entry is not None:
        yield Draft(
            task="output",
            question="What does the call return? Work through the program step by step.",
            answer=answer.text,
            check={"kind": "value", "value": answer.text},
            reasoning=view.told.text,
        )
    elif answer.stdout:
        printed = repr(answer.stdout)
        yield Draft(
            task="output",
            question="What does the program print? Work through it step by step, "
            "and give all of the output as one Python string.",
            answer=printed,
            check={"kind": "value", "value": printed},
            reasoning=view.told.text,
        )


@task("input", about="find arguments that lead to a given result; judged by running them", place=20)
def arguments(view: View) -> Iterator[Draft]:
    """Yield one question for a function that returned, where arguments were found."""
    answer, entry, tried = view.item.answer, view.problem.entry, view.item.tried
    if answer is None or entry is None or not tried or len(view.guesses) != len(tried):
        return
    wanted, rng = literals.parse(answer.text), view.rng("input")
    parts: list[str] = []
    tellings: list[Told] = []
    for number, each in enumerate(tried):
        # One run that cannot be told whole spoils the search.
        told = view.told_guess(number)
        if told is None:
            return
        lead = rng.choice(_LEADS[number > 0]).format(call=f"`{entry}({each.case.text()})`")
        tellings.append(told)
        parts += [f"{each.why} {lead}", told.text, argument_search.compared(each.answer, wanted)]
    reasoning = "\n\n".join(parts)
    if len(reasoning) > view.max_chars:
        return
    yield Draft(
        task="input",
        question=f"Find arguments for which `{entry}` returns `{answer.text}`. "
        "Any arguments that lead to this result are right. Answer with the whole call, its arguments as literals.",
        answer=f"{entry}({tried[-1].case.text()})",
        check={"kind": "call", "value": answer.text},
        reasoning=reasoning,
        shows_input=False,
        case=tried[-1].case,
        tellings=tellings,
    )


@task("exception", about="whether a run fails, how and where", place=80, numbered=True, always=True)
def exception(view: View) -> Iterator[Draft]:
    """Yield one question for a run that failed, or in which an exception was raised and handled."""
    answer = view.item.answer
    if answer is None:
        return
    fault = answer.fault
    raised = any(isinstance(record, schema.Raise) for record in view.trace.records)
    if fault is None and not raised:
        return
    told = (
        _NO_EXCEPTION if fault is None else fault.type if fault.line is None else f"{fault.type} at line {fault.line}"
    )
    yield Draft(
        task="exception",
        question="Does the run end with an exception? Explain what happens. Answer with its type and the line "
        f"of this program in which it came up, such as `KeyError at line 3`, or with `{_NO_EXCEPTION}`.",
        answer=told,
        check={"kind": "text", "value": told},
        reasoning=view.told.text,
    )
