"""The source with values as comments: `total += x  # (4) total = 1; (6) total = 3; …; (22) total = 55`.

The number in front counts steps of the run. Of a line that ran more than three times the first two times and the
last are shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from groundbox.trace.run.folding import ALL, Done, Enter, Leave, Skip
from groundbox.trace.show.telling import Telling, shown

if TYPE_CHECKING:
    from groundbox.trace.record.reading import Trace


def annotated(trace: Trace, *, max_chars: int = 60) -> str:
    """The source, with what each line did.

    Args:
        max_chars: Of one value.
    """
    telling = Telling(trace, ALL, max_chars)
    notes: dict[int, list[str]] = {}
    number = 0
    for moment in telling.moments():
        if isinstance(moment, Enter) and moment.activation.args:
            notes.setdefault(moment.activation.line, []).append(f"({number}) {telling.arguments(moment.activation)}")
        elif isinstance(moment, Done):
            number += 1
            said = shown(telling.effects(moment.step))
            notes.setdefault(moment.step.line, []).append(f"({number}) {said}" if said else "")
        elif isinstance(moment, Skip):
            said = shown([moment.gap.text.strip("… "), *telling.differences(moment.gap)])
            notes.setdefault(moment.gap.line, []).append(f"({number}) {said}")
        elif isinstance(moment, Leave) and moment.activation.outcome == "return" and moment.activation.parent:
            line = getattr(trace.records[moment.t], "n", moment.activation.line)
            notes.setdefault(line, []).append(f"({number}) returns {telling.value(moment.activation.value)}")
    lines = telling.structure.syntax.lines
    return "".join(_line(text, notes.get(number, [])) for number, text in enumerate(lines, 1))


def _line(text: str, notes: Sequence[str]) -> str:
    said = [note for note in notes if note]
    if len(said) > 3:
        said = [*said[:2], "…", said[-1]]
    return f"{text}  # {'; '.join(said)}\n" if said else f"{text}\n"
