"""Every step with the state after it: the line that ran, and the names of its frame with their values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groundbox.trace.run.folding import Done, Enter, Folding, Leave, Skip
from groundbox.trace.show.telling import Telling

if TYPE_CHECKING:
    from groundbox.trace.record.reading import Trace


def scratchpad(trace: Trace, *, folding: Folding | None = None, max_chars: int = 120) -> str:
    """Steps and states:

    ```text
    call square_sum(n=2)
    line 2: total = 0
    state: n = 2, total = 0
    …
    return 5
    ```
    """
    telling = Telling(trace, folding, max_chars)
    lines: list[str] = []
    for moment in telling.moments():
        if isinstance(moment, Enter):
            lines.append(f"call {moment.activation.short_name}({telling.arguments(moment.activation)})")
        elif isinstance(moment, Done):
            step = moment.step
            lines.append(f"line {step.line}: {telling.source(step.line)}")
            lines.append(_state(telling, step.frame))
            if output := telling.output(step):
                lines.append(f"output: {telling.value(output)}")
            if exception := telling.exception(step):
                lines.append(f"exception: {exception}")
        elif isinstance(moment, Skip):
            lines.append(moment.gap.text)
            if moment.gap.effects:
                lines.append(_state(telling, moment.gap.frame))
        elif isinstance(moment, Leave):
            left = moment.activation.outcome == "return"
            name = moment.activation.short_name
            lines.append(f"return {telling.value(moment.activation.value)}" if left else f"exception leaves {name}")
    return "".join(f"{line}\n" for line in lines)


def _state(telling: Telling, frame: int) -> str:
    state = ", ".join(f"{name} = {value}" for name, value in telling.names(frame).items())
    return f"state: {state}" if state else "state: no names"
