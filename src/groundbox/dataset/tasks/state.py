"""State: the value of a name at one moment of the run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from groundbox.check.english import ordinal
from groundbox.dataset import literals
from groundbox.dataset.tasks.draft import Draft, View, Visit
from groundbox.trace import schema
from groundbox.trace.errors import Unknown

NAME: Final = "state"
_MOST_CHARS: Final = 200
_TRIES: Final = 12


def make(view: View) -> Iterator[Draft]:
    """One question about a name that has had more than one value by then, if there is one."""
    rng = view.rng(NAME)
    visits = [each for each in view.visits if view.lines.function_at(each.line)]
    for visit in rng.sample(visits, min(_TRIES, len(visits))):
        values = _values(view, visit)
        if values:
            name = rng.choice(sorted(values))
            yield _draft(view, visit, name, values[name])
            return


def moment(view: View, visit: Visit) -> str:
    """Words for the moment right before a line runs."""
    return f"line {visit.line} (`{view.lines.text(visit.line)}`) is about to run for the {ordinal(visit.time)} time"


def _draft(view: View, visit: Visit, name: str, value: str) -> Draft:
    return Draft(
        task=NAME,
        question=f"When {moment(view, visit)}, what is the value of `{name}`?",
        answer=value,
        check={"kind": "value", "value": value},
        reasoning=view.told.upto(visit.step.step),
    )


def _values(view: View, visit: Visit) -> dict[str, str]:
    """Names of the frame that were assigned in it, with the texts of their values, as far as these are told by then.

    The telling up to the moment may end before the last lines that ran: a name that they changed is not asked for.
    """
    state = view.trace.state_at(visit.step.step)
    since = view.told.untold_since(visit.step.step)
    told = view.trace.state_at(since - 1)
    held = told.names(visit.step.frame)
    found: dict[str, str] = {}
    assigned = _assigned(view, visit)
    for name, value in state.names(visit.step.frame).items():
        if name in assigned and name in held:
            text = _text(state, value)
            if text and len(text) <= _MOST_CHARS and text == _text(told, held[name]):
                found[name] = text
    return found


def _assigned(view: View, visit: Visit) -> set[str]:
    before = view.trace.records[: visit.step.step]
    return {each.name for each in before if isinstance(each, schema.Set) and each.f == visit.step.frame}


def _text(state: Any, value: Any) -> str:
    try:
        plain = state.python_value(value)
        literals.encode(plain)
    except (Unknown, literals.NotALiteral):
        return ""
    return literals.text(plain)
