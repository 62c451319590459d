"""Each line once, in the order in which lines first ran, with the states it left: the first two and the last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groundbox.trace.run.folding import ALL, Done, Enter, Leave, Skip
from groundbox.trace.show.telling import Telling, shown

if TYPE_CHECKING:
    from groundbox.trace.record.reading import Trace


def concise(trace: Trace, *, max_chars: int = 60) -> str:
    """Lines with their effects:

    ```text
    1 def square_sum(n): n=3
    2 total = 0: total = 0
    4 total += x: total = 0 | total = 1 | … 7 more … | total = 45
    ```
    """
    telling = Telling(trace, ALL, max_chars)
    said: dict[int, list[str]] = {}
    for moment in telling.moments():
        if isinstance(moment, Enter) and moment.activation.args:
            said.setdefault(moment.activation.line, []).append(telling.arguments(moment.activation))
        elif isinstance(moment, Done):
            said.setdefault(moment.step.line, []).append(shown(telling.effects(moment.step)) or "-")
        elif isinstance(moment, Skip):
            left_out = shown([moment.gap.text, *telling.differences(moment.gap)])
            said.setdefault(moment.gap.line, []).append(left_out)
        elif isinstance(moment, Leave) and moment.activation.outcome == "return" and moment.activation.parent:
            line = getattr(trace.records[moment.t], "n", moment.activation.line)
            states = said.setdefault(line, [])
            if states and states[-1] == "-":
                states.pop()
            states.append(f"returns {telling.value(moment.activation.value)}")
    return "".join(f"{line} {telling.source(line)}: {_states(states)}\n" for line, states in said.items())


def _states(states: list[str]) -> str:
    if all(state == "-" for state in states):
        return "ran" if len(states) == 1 else f"ran {len(states)} times"
    if len(states) > 3:
        states = [*states[:2], f"… {len(states) - 3} more …", states[-1]]
    return " | ".join(states)
