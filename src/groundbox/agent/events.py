"""What happens in a conversation, as it is told while it happens."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Unpack

from groundbox.agent.messages import Reply
from groundbox.agent.observation import Observation
from groundbox.agent.turn import Decision, Spent
from groundbox.execution import Execution, Warning
from groundbox.sandbox.options import RunOptions


class Box(Protocol):
    """What the loop asks of a sandbox."""

    async def run(self, source: str, **options: Unpack[RunOptions]) -> Execution:
        """Run one program."""

    async def restart(self) -> list[str]:
        """A fresh process with the same files; those that could not be kept."""


class BranchingBox(Box, Protocol):
    """A box of which copies can be made, to try programs side by side."""

    async def fork(self, n: int) -> Sequence[BranchingBox]:
        """So many copies of its state, each a box of its own.

        Raises:
            SandboxBusy: Something in there cannot be copied; it goes on.
        """

    async def close(self) -> None:
        """End it. Idempotent."""


class Ending(enum.StrEnum):
    """Why a conversation ended."""

    ANSWERED = "answered"
    BOUND = "bound"
    MODEL = "model"
    SANDBOX = "sandbox"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Replied:
    """The model has said something."""

    turn: int
    reply: Reply


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Started:
    """A program begins.

    Attributes:
        beside: Numbers of the runs that are tried side by side, this one among them, each on a copy of the state.
    """

    run: int
    source: str
    language: str
    options: Mapping[str, Any]
    beside: Sequence[int] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Observed:
    """It has ended, and this is what the model is shown.

    Attributes:
        beside: As in `Started`.
    """

    run: int
    source: str
    execution: Execution
    findings: Sequence[Warning]
    decision: Decision
    observation: Observation
    beside: Sequence[int] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Noticed:
    """The model is told something that is no observation of a run: what was wrong with its reply, lines it asked for.

    Attributes:
        kind: `malformed`, `read`, `restart`, `promise`, `mend`, `busy` or `kept`.
        run: Of `kept`: the run of which the state is gone on from.
    """

    kind: str
    text: str
    run: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """The conversation is over.

    Attributes:
        answer: The model's last answer, or None. With another ending than `answered` it has none.
        unsupported: One warning for each claim of the answer that has no receipt.
        receipts: Claim by claim where it comes from, as JSON; None when no check of answers was made.
        why: The bound that was reached, or what failed; "" when it was answered.
    """

    ending: Ending
    answer: str | None = None
    unsupported: Sequence[Warning] = ()
    receipts: Mapping[str, Any] | None = None
    why: str = ""
    spent: Spent = dataclasses.field(default_factory=Spent)
    dollars: float | None = None
    executions: Sequence[Execution] = dataclasses.field(default=(), repr=False)

    @property
    def is_supported(self) -> bool:
        """Return True if some run ended well, and every claim of the answer was compared and has a receipt."""
        compared = self.ending is Ending.ANSWERED and self.receipts is not None
        return compared and not self.unsupported and any(self.executions)


Event = Replied | Started | Observed | Noticed | Ended
