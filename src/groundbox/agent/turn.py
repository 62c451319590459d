"""One turn, decided: whether a run is taken as it is, tried again, or the conversation ends, and why.

Pure functions over values, so that recorded runs are all that a test needs.

    run → observation → findings → accept | retry (with hints) | escalate

A run is tried again when it failed, or when a finding of the tier `error` says that its success is wrong. Most of what
a second attempt mends is mended by the first two (arXiv 2304.05128, 2306.09896), so the number in a row is small.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Sequence
from typing import Final

from groundbox.agent.observation import Shape
from groundbox.agent.repeats import Seen, advice
from groundbox.errors import InvalidArgument
from groundbox.execution import Execution, Warning

_NEARLY: Final = 2


class Verdict(enum.StrEnum):
    """What becomes of a turn."""

    ACCEPT = "accept"
    RETRY = "retry"
    ESCALATE = "escalate"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """A verdict with its reason, and what the model is told besides the observation."""

    verdict: Verdict
    why: str = ""
    hints: Sequence[str] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """What one conversation may use. Reached: it ends, and says which one.

    Attributes:
        max_turns: Replies of the model.
        max_runs: Programs that are run.
        max_retries: Runs in a row that had to be tried again.
        max_same_failure: How often one failure may be seen, whatever is between.
        max_malformed: Replies in a row that nothing could be done with.
        max_restarts: Times that a sandbox whose process is gone is started afresh.
        max_mends: Times that an answer is sent back because claims in it have no receipt.
        wall_s: Seconds from the question on, on the host's monotonic clock; None for no limit.
        max_tokens: Of all requests and replies together, as the model's host counts them, or estimated; None for none.
        shape: Of every observation.
    """

    max_turns: int = 16
    max_runs: int = 24
    max_retries: int = 4
    max_same_failure: int = 4
    max_malformed: int = 3
    max_restarts: int = 2
    max_mends: int = 1
    wall_s: float | None = 600.0
    max_tokens: int | None = 400_000
    shape: Shape = dataclasses.field(default_factory=Shape)

    def __post_init__(self) -> None:
        for name in ("max_turns", "max_runs", "max_retries", "max_same_failure", "max_malformed"):
            _check_count(name, getattr(self, name), 1)
        for name in ("max_restarts", "max_mends"):
            _check_count(name, getattr(self, name), 0)
        if self.max_tokens is not None:
            _check_count("max_tokens", self.max_tokens, 1)
        if self.wall_s is not None and not (math.isfinite(self.wall_s) and self.wall_s > 0):
            raise InvalidArgument("wall_s", f"must be a number above 0, or None for no limit, not {self.wall_s!r}")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Spent:
    """What a conversation has used so far."""

    turns: int = 0
    runs: int = 0
    retries: int = 0
    malformed: int = 0
    restarts: int = 0
    mends: int = 0
    wall_s: float = 0.0
    tokens: int = 0


def judge_run(execution: Execution, findings: Sequence[Warning], seen: Seen, source: str) -> Decision:
    """What is to be done about one run.

    Args:
        findings: All warnings, the execution's own included.
        seen: The failures of the conversation, this one included.
    """
    certain = [finding for finding in findings if finding.tier == "error"]
    if not execution.ok:
        count = seen.count(execution, source)
        again = advice(count, same_program=seen.program_count(source, execution.language) > 1)
        return Decision(
            verdict=Verdict.RETRY, why=f"the run ended with {execution.outcome}", hints=[again] if again else []
        )
    if certain:
        codes = ", ".join(sorted({finding.code for finding in certain}))
        hint = "It ran, and a finding says that its result is wrong. Mend the program before you use the result."
        return Decision(verdict=Verdict.RETRY, why=f"it ran, and {codes} says that its result is wrong", hints=[hint])
    if any(finding.tier == "warn" for finding in findings):
        hint = "It ran; check the findings by another way to the same result before you use it."
        return Decision(verdict=Verdict.ACCEPT, hints=[hint])
    return Decision(verdict=Verdict.ACCEPT)


def after_run(spent: Spent, decision: Decision) -> Spent:
    """What is spent when a run has been judged."""
    retries = spent.retries + 1 if decision.verdict is Verdict.RETRY else 0
    return dataclasses.replace(spent, runs=spent.runs + 1, retries=retries, malformed=0)


def after_tries(spent: Spent, decisions: Sequence[Decision]) -> Spent:
    """What is spent when runs side by side have been judged: one attempt, which fails when all of them do."""
    for decision in decisions:
        spent = after_run(spent, decision)
    failed = all(decision.verdict is Verdict.RETRY for decision in decisions)
    before = spent.retries - len(decisions) if failed else 0
    return dataclasses.replace(spent, retries=before + 1 if failed else 0)


def exhausted(spent: Spent, bounds: Bounds, *, same_failure: int = 0) -> str:
    """Which bound is reached, in words, or "". Checked after each run and before each reply."""
    if same_failure >= bounds.max_same_failure:
        return f"the same failure was seen {same_failure} times (max_same_failure={bounds.max_same_failure})"
    if spent.retries >= bounds.max_retries:
        return f"{spent.retries} runs in a row had to be tried again (max_retries={bounds.max_retries})"
    if spent.runs >= bounds.max_runs and spent.malformed > 1:
        return f"{spent.runs} programs were run, and more were asked for (max_runs={bounds.max_runs})"
    if spent.malformed >= bounds.max_malformed:
        return f"{spent.malformed} replies in a row could not be used (max_malformed={bounds.max_malformed})"
    if spent.restarts > bounds.max_restarts:
        return f"the sandbox's process ended {spent.restarts} times (max_restarts={bounds.max_restarts})"
    if bounds.wall_s is not None and spent.wall_s >= bounds.wall_s:
        return f"time is used up (wall_s={bounds.wall_s:g})"
    if bounds.max_tokens is not None and spent.tokens >= bounds.max_tokens:
        return f"{spent.tokens} tokens are used up (max_tokens={bounds.max_tokens})"
    if spent.turns >= bounds.max_turns:
        return f"{spent.turns} turns are used up (max_turns={bounds.max_turns})"
    return ""


def what_is_left(spent: Spent, bounds: Bounds, *, turns_counted: bool = True) -> str:
    """The line of an observation that says what may still be used, or ""; all but turns when they become few.

    Args:
        turns_counted: Whether turns and tokens are counted here, and not by another framework's loop.
    """
    turns = bounds.max_turns - spent.turns
    runs = bounds.max_runs - spent.runs
    told = [_count(turns, "turn")] if turns_counted else []
    if runs <= _NEARLY:
        told.append(_count(runs, "run"))
    if spent.retries:
        told.append(_count(bounds.max_retries - spent.retries, "failed attempt"))
    if bounds.wall_s is not None and spent.wall_s > bounds.wall_s / 2:
        told.append(f"{max(0.0, bounds.wall_s - spent.wall_s):.0f} s")
    if turns_counted and bounds.max_tokens is not None and spent.tokens > bounds.max_tokens / 2:
        told.append(f"{max(0, bounds.max_tokens - spent.tokens)} tokens")
    last = (turns_counted and turns <= 1) or runs <= 0
    now = " Answer now, with what was shown, and say what is missing." if last else ""
    return f"left: {', '.join(told)}.{now}" if told else ""


def _count(number: int, one: str) -> str:
    return f"{number} {one}" if number == 1 else f"{number} {one}s"


def _check_count(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidArgument(name, f"must be a whole number from {least}, not {value!r}")
