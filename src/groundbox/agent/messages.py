"""What goes between the loop and a model, whoever offers it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from groundbox.agent.pictures import Picture
from groundbox.errors import GroundboxError


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One tool call of a model, as it was written.

    Attributes:
        arguments: The JSON text, or what a client has made of it.
        call_id: What its result is sent back under.
    """

    name: str
    arguments: str | Mapping[str, Any]
    call_id: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """What one reply cost, as the model's host counts it.

    Attributes:
        input_tokens, output_tokens: None where the host does not say; the loop then estimates.
        dollars: None where no price is known.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    dollars: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """One turn of a model.

    Attributes:
        native: The client's own form of it, which is handed back to the client unchanged.
    """

    text: str = ""
    calls: Sequence[Call] = ()
    cost: Cost = Cost()
    native: Any = dataclasses.field(default=None, repr=False, compare=False)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One message of a conversation.

    Attributes:
        role: `system`, `user`, `assistant` or `tool`.
        calls: Of an assistant.
        call_id: Of a tool: which call this is the result of.
        native: Of an assistant: the `native` of its reply.
    """

    role: str
    text: str = ""
    pictures: Sequence[Picture] = ()
    calls: Sequence[Call] = ()
    call_id: str = ""
    native: Any = dataclasses.field(default=None, repr=False, compare=False)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """What a model may call; `parameters` is a JSON Schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


class Model(Protocol):
    """Whoever answers."""

    @property
    def name(self) -> str:
        """For transcripts, such as `openai:gpt-5`."""

    async def complete(self, messages: Sequence[Message], *, tools: Sequence[Tool]) -> Reply:
        """The next turn.

        Raises:
            ModelFailed: No answer can be had.
        """


class ModelFailed(GroundboxError):
    """A model gave no reply: it is not reached, refuses, or has no more to say."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"the model {name} gave no reply: {why}")
        self.name, self.why = name, why


RUN: Final = "run_code"
READ: Final = "read_output"
TRY: Final = "try_programs"
KEEP: Final = "keep_run"
