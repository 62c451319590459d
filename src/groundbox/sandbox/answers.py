"""The answers of many calls (`mode="calls"`), as the guest told them."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from groundbox.execution import Execution, Outcome
from groundbox.sandbox.report import Report

MIME: Final = "application/vnd.groundbox.answers+json"
_ENDS: Final = {Outcome.TIMEOUT: "timeout", Outcome.MEMORY: "memory", Outcome.SIGNAL: "signal"}
_LOST: Final = frozenset(["ended", "too-large", *_ENDS.values()])


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """Result of one call.

    Attributes:
        told: The value, as nested JSON in the words that traces use (docs/trace.md).
        raised: Name of the exception that it raised instead, with its `message`.
        lost: Why it did not come back: `ended` (it left its process), `timeout`, `memory`, `too-large` (its value)
            or `signal`. Later calls were not made.
        wall_s: How long it took, by the host's clock.
    """

    told: Any = None
    raised: str = ""
    message: str = ""
    lost: str = ""
    wall_s: float = 0.0


def read(execution: Execution) -> list[Answer]:
    """Answers of a run with `mode="calls"`, in the order of the calls; fewer where not all were made.

    How many there are, how long they took and how a call was lost that reached a limit or ended the process are facts
    of the host; the rest is the program's claim.
    """
    rows = (execution.value or {}).get(MIME)
    return [_answer(row) for row in rows] if isinstance(rows, list) else []


def told(report: Report, outcome: Outcome) -> dict[str, Any] | None:
    """The value of a run with many calls; None where the program could not be compiled."""
    assert report.calls is not None
    rows, count = list(report.answers), len(report.calls.cases)
    is_lost = bool(rows) and "lost" in rows[-1]
    if is_lost and outcome in _ENDS:
        rows[-1] = {**rows[-1], "lost": _ENDS[outcome]}
    elif len(rows) < count and not is_lost:
        if not rows and report.done is not None and report.done.error is not None and outcome is Outcome.ERROR:
            return None
        rows.append({"lost": _ENDS.get(outcome, "ended"), "wall_s": round(report.wall_s, 6) if not rows else 0.0})
    return {"text/plain": f"{len(rows)} of {count} calls", MIME: rows}


def _answer(row: Any) -> Answer:
    if not isinstance(row, dict):
        return Answer(lost="ended")
    wall_s = row.get("wall_s")
    took = float(wall_s) if isinstance(wall_s, int | float) else 0.0
    if "value" in row:
        return Answer(told=row["value"], wall_s=took)
    raised, message, lost = row.get("raised"), row.get("message"), row.get("lost")
    if isinstance(raised, str) and isinstance(message, str):
        return Answer(raised=raised, message=message, wall_s=took)
    return Answer(lost=lost if lost in _LOST else "ended", wall_s=took)
