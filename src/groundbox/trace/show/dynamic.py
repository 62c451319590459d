"""One state at a time: each block is the whole state before a line, and takes the place of the block before.

A model that writes the next block needs to see only this one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from groundbox.trace.run.folding import Done, Folding, Leave, Skip
from groundbox.trace.show.telling import Telling

if TYPE_CHECKING:
    from groundbox.trace.record.reading import Trace
    from groundbox.trace.run.structure import Step


def dynamic(trace: Trace, *, folding: Folding | None = None, max_chars: int = 120) -> str:
    """The blocks of `blocks`, with an empty line between two."""
    return "\n".join(blocks(trace, folding=folding, max_chars=max_chars))


def blocks(trace: Trace, *, folding: Folding | None = None, max_chars: int = 120) -> Iterator[str]:
    """A block after each step: the frames that run, their names, and the line that did it.

    ```text
    did: line 4: total += x
    <module>
      n = 3
    square_sum
      total = 1
      x = 1
    ```
    """
    telling = Telling(trace, folding, max_chars)
    for moment in telling.moments():
        if isinstance(moment, Done):
            yield _block(telling, moment.step)
        elif isinstance(moment, Skip):
            yield _state([moment.gap.text], telling, moment.gap.frame)
        elif isinstance(moment, Leave) and moment.activation.outcome == "return":
            yield f"result of {moment.activation.short_name}: {telling.value(moment.activation.value)}\n"


def _block(telling: Telling, step: Step) -> str:
    lines = [f"did: line {step.line}: {telling.source(step.line)}"]
    if exception := telling.exception(step):
        lines.append(f"exception: {exception}")
    return _state(lines, telling, step.frame)


def _state(lines: list[str], telling: Telling, frame: int) -> str:
    for running in telling.state.running(telling.structure.activations[frame].thread):
        lines.append(telling.structure.activations[running].short_name)
        lines.extend(f"  {name} = {value}" for name, value in telling.names(running).items())
    return "".join(f"{line}\n" for line in lines)
