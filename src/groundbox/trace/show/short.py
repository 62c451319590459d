"""The notation of tests: `1:a=1 2: 4:b=4`. A step is its line and what took a value in it.

Calls stand in braces in the step that made them, `3:f(n=2){5:m=3}=3,x=3`; `!KeyError` says what was raised,
`^4` what was yielded, `'text'` what was printed. Nothing is folded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from groundbox.trace.run.folding import ALL, Begin, Done, Enter, Leave, Skip
from groundbox.trace.show.telling import Telling

if TYPE_CHECKING:
    from groundbox.trace.record.reading import Trace
    from groundbox.trace.run.structure import Step


def short(trace: Trace) -> str:
    """A whole run in one line."""
    telling = Telling(trace, ALL, 1000)
    pieces: list[str] = []
    begun: set[int] = set()
    for moment in telling.moments():
        if isinstance(moment, Enter) and moment.activation.parent:
            pieces.append(f"{moment.activation.short_name}({telling.arguments(moment.activation)}){{")
        elif isinstance(moment, Begin):
            begun.add(moment.step.step)
            pieces.append(_opened(pieces, f" {moment.step.line}:"))
        elif isinstance(moment, Done):
            head = "" if moment.step.step in begun else f" {moment.step.line}:"
            pieces.append(_opened(pieces, head) + ",".join(_effects(telling, moment.step)))
        elif isinstance(moment, Skip):
            pieces.append(f" {moment.gap.text}")
        elif isinstance(moment, Leave) and moment.activation.parent:
            left = moment.activation.outcome == "return"
            pieces[-1] = pieces[-1].removesuffix(",")
            pieces.append(f"}}={telling.value(moment.activation.value)}," if left else "}!,")
    return "".join(pieces).strip().removesuffix(",")


def _opened(pieces: list[str], head: str) -> str:
    """Right after a brace there is no space."""
    return head.lstrip() if pieces and pieces[-1].endswith("{") else head


def _effects(telling: Telling, step: Step) -> list[str]:
    said = [f"{name}={value}" if value is not None else f"del {name}" for name, value in telling.changes(step)]
    if output := telling.output(step):
        said.append(repr(output))
    said.extend(f"^{telling.value(getattr(telling.trace.records[t], 'v', None))}" for t in step.yields)
    if exception := telling.exception(step):
        said.append(f"!{exception}")
    return said
