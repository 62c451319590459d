"""A narration as values: sentences, and the claims that each of them makes about the trace."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from groundbox.trace.narrate.explanation import Reason
from groundbox.trace.narrate.phrases import Phrase
from groundbox.trace.narrate.reasons import ValueReason


class ClaimKind(StrEnum):
    """Sorts of things that claims say."""

    VALUE = "value"  # a name has, or takes, a value
    CONDITION = "condition"  # a condition was true or false
    CALL = "call"  # a function was called with arguments
    RETURN = "return"  # a call returned a value
    COUNT = "count"  # so many iterations of a loop ran, or so many calls
    MUTATION = "mutation"  # an object was changed
    ORDER = "order"  # control went there: an iteration began, a loop was left, a handler took over
    OUTPUT = "output"  # text was written
    EXCEPTION = "exception"  # an exception was raised, or handled
    ANSWER = "answer"  # what the whole run gave


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Checkable statement.

    Attributes:
        refs: Indexes into the trace's records, in ascending order: the evidence.
        frame: The frame that the claim speaks of; 0 where it speaks of the run as a whole.
        subject: What it is about, as the text has it: a name, a condition, a call, a loop's line.
        value: What is said of it, as the text has it.
        why: How the value came about, or what decided the condition, as far as that is known.
    """

    kind: ClaimKind
    refs: tuple[int, ...]
    frame: int
    subject: str
    value: str
    why: ValueReason | Reason | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """Sentence with its full stop.

    Attributes:
        said: Its words with what they claim; they may stand without the capital and the full stop.
    """

    text: str
    said: Phrase = field(default=Phrase(), repr=False, compare=False)

    @property
    def claims(self) -> tuple[Claim, ...]:
        return tuple(each.claim for each in self.said.spoken())


@dataclass(frozen=True, kw_only=True)
class Narration:
    """The text, and what it is made of.

    Attributes:
        text: The sentences, with the spaces, line breaks and numbers that stand between them.
        sentences: In the order of the text.
        answer: The last sentence: what the run returned, raised or printed.
        detail: How much is told: the detail asked for, or the lower one that `max_chars` led to.
        whole: Whether all that was recorded is told, and all was recorded: nothing that a later value depends on is
            passed over by the policy. `groundbox.trace.claims.derivable` judges value by value.
        witness: Backward style only: keyword and positional arguments, as the trace's header has them, that lead to
            the answer. The caller can run them.
    """

    text: str
    sentences: tuple[Sentence, ...]
    answer: str
    detail: str
    whole: bool = False
    witness: Witness | None = None

    @property
    def claims(self) -> tuple[Claim, ...]:
        return tuple(claim for sentence in self.sentences for claim in sentence.claims)


@dataclass(frozen=True, kw_only=True)
class Witness:
    """An input, as JSON values, that is said to lead to the told answer."""

    call: str
    args: list[object] = field(default_factory=list)
    kwargs: dict[str, object] = field(default_factory=dict)
