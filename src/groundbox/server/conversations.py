"""Conversations of the agent, held by the server and followed while they go on: `/v1/conversations`.

A question is answered in a sandbox of whoever asks, by programs that go the way of all others: through the queue, the
quotas, the audit log and the kept executions. What happens is kept as events, so that followers may come late, go, and
come back; a conversation goes on without any. It needs a model, which whoever starts the server names.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import logging
import time
from collections.abc import AsyncGenerator
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from groundbox.agent import transcript
from groundbox.agent.checks import UsualChecks
from groundbox.agent.events import Ended, Ending
from groundbox.agent.events import Event as Told
from groundbox.agent.loop import converse
from groundbox.agent.messages import Model
from groundbox.agent.routed import RoutedBox
from groundbox.agent.turn import Bounds
from groundbox.errors import GroundboxError
from groundbox.execution import Execution
from groundbox.server import schemas
from groundbox.server.keeping import size_of
from groundbox.server.keys import Key
from groundbox.server.refusals import Refused, not_found, refusal_of
from groundbox.server.replies import SSE, Streamed, event, json_reply
from groundbox.server.sandboxes import Held
from groundbox.server.service import Service

logger = logging.getLogger(__name__)

LABEL: Final = "conversation"
"""Of a sandbox that was made for one: the conversation's id."""
_WIRE: Final = "conversation"
_MOST_KEPT: Final = 100
_MOST_KEPT_BYTES: Final = 64 * 1024 * 1024
_MOST_AT_ONCE: Final = 8
"""All three of one key, so that none drives out or keeps waiting what is another's."""


@dataclasses.dataclass(eq=False, kw_only=True, slots=True)
class Conversation:
    """One question and what has come of it so far.

    Attributes:
        key_id: Whose it is; no other key sees it.
        events: As `groundbox ask --json` prints them. The last one of an ended conversation is `ended`.
        changed: Set, and replaced by another, when an event is added.
    """

    id: str
    key_id: str
    question: str
    sandbox_id: str
    model: str
    begun: float
    events: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    changed: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)
    work: asyncio.Task[None] | None = None
    size_bytes: int = 0

    @property
    def is_over(self) -> bool:
        """Whether no further event comes."""
        return bool(self.events) and self.events[-1]["event"] == "ended"

    def add(self, told: Told) -> None:
        """Keep an event and wake who follows."""
        line = transcript.line(told)
        self.events.append(line)
        self.size_bytes += size_of(line)
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, without its events."""
        return {
            "conversation_id": self.id,
            "question": self.question,
            "sandbox_id": self.sandbox_id,
            "model": self.model,
            "begun": self.begun,
            "over": self.is_over,
            "answer": self.events[-1].get("answer") if self.is_over else None,
        }


class Conversations:
    """The routes of `/v1/conversations` over one service, and the conversations behind them."""

    def __init__(self, service: Service, model: Model | None, *, bounds: Bounds | None = None) -> None:
        """Args:
        model: Who answers; None for nobody, so that questions are refused.
        """
        self._service, self._model, self._bounds = service, model, bounds or Bounds()
        self._kept: dict[str, Conversation] = {}

    def routes(self) -> list[Route]:
        """All of them; `openapi.py` describes each."""
        one = "/v1/conversations/{conversation_id}"
        return [
            Route("/v1/conversations", self.ask, methods=["POST"]),
            Route("/v1/conversations", self.listed, methods=["GET"]),
            Route(one, self.show, methods=["GET"]),
            Route(f"{one}/events", self.follow, methods=["GET"]),
            Route(f"{one}/cancel", self.cancel, methods=["POST"]),
        ]

    async def ask(self, request: Request) -> Response:
        """`POST /v1/conversations`"""
        key = _key(request)
        key.require("ask")
        asked = await schemas.read(request, schemas.QuestionAsked)
        if self._model is None:
            raise Refused(409, "no_model", "this server has no model; start it with --model, or --endpoint and --model")
        if sum(not each.is_over for each in self._own(key.id)) >= _MOST_AT_ONCE:
            told = f"{_MOST_AT_ONCE} conversations of this key go on; ask again later"
            raise Refused(429, "busy", told, retry_after_s=5)
        conversation_id = self._service.sandboxes.new_id()
        with self._service.errors():
            files = schemas.files_of(asked.files)
        if asked.sandbox_id is not None:
            held = self._service.sandboxes.get(key, asked.sandbox_id)
        else:
            held = self._service.create(key, wire=_WIRE, labels={**asked.labels, LABEL: conversation_id})
        try:
            with self._service.errors(), held.in_use() as box:
                await box.files.write_all(files)
        except BaseException:
            if asked.sandbox_id is None:  # nobody has been told of it
                await self._service.sandboxes.close(held)
            raise
        conversation = Conversation(
            id=conversation_id,
            key_id=key.id,
            question=asked.question,
            sandbox_id=held.id,
            model=self._model.name,
            begun=time.time(),
        )
        self._keep(conversation)
        work = asyncio.create_task(self._carry_out(key, held, conversation, self._model))
        work.add_done_callback(functools.partial(_called_off, conversation))
        held.on_close.append(lambda: _cancel(work))
        conversation.work = work
        return json_reply(conversation.to_dict(), 201)

    async def listed(self, request: Request) -> Response:
        """`GET /v1/conversations?sandbox=ID`: the key's own, the oldest first."""
        key, sandbox_id = _key(request), request.query_params.get("sandbox")
        own = [each.to_dict() for each in self._own(key.id) if sandbox_id in (None, each.sandbox_id)]
        return json_reply({"model": None if self._model is None else self._model.name, "conversations": own})

    async def show(self, request: Request) -> Response:
        """`GET /v1/conversations/ID`"""
        found = self._found(request)
        return json_reply({**found.to_dict(), "events": found.events})

    async def follow(self, request: Request) -> Response:
        """`GET /v1/conversations/ID/events`: its events from the first one on, as they come, until it is over."""
        found = self._found(request)

        async def parts() -> AsyncGenerator[bytes, None]:
            number = 0
            while True:
                changed, is_over = found.changed, found.is_over
                lines = found.events[number:]  # more may come while these are sent
                for line in lines:
                    yield event(line["event"], line)
                number += len(lines)
                if is_over:
                    return
                await changed.wait()

        return Streamed(
            parts(),
            media_type=SSE,
            heartbeat=b": still going on\n\n",
            heartbeat_s=self._service.settings.heartbeat_s,
            refused=lambda refused: event("failed", refused.to_dict()),
        )

    async def cancel(self, request: Request) -> Response:
        """`POST /v1/conversations/ID/cancel`"""
        found = self._found(request)
        goes_on = not found.is_over
        if found.work is not None and goes_on:
            found.work.cancel()
        return json_reply({"cancelled": goes_on})

    def _found(self, request: Request) -> Conversation:
        key = _key(request)
        found = self._kept.get(request.path_params["conversation_id"])
        if found is None or found.key_id != key.id:
            raise not_found("conversation")
        return found

    def _keep(self, conversation: Conversation) -> None:
        """Keep it, and forget the oldest ended ones of its key that are too many or too large together."""
        self._kept[conversation.id] = conversation
        own = self._own(conversation.key_id)
        count, size_bytes = len(own), sum(each.size_bytes for each in own)
        for each in own:
            if count <= _MOST_KEPT and size_bytes <= _MOST_KEPT_BYTES:
                return
            if each.is_over:
                del self._kept[each.id]
                count, size_bytes = count - 1, size_bytes - each.size_bytes

    def _own(self, key_id: str) -> list[Conversation]:
        """Those of a key, the oldest first."""
        return [each for each in self._kept.values() if each.key_id == key_id]

    async def _carry_out(self, key: Key, held: Held, conversation: Conversation, model: Model) -> None:
        """Hold one conversation; however it ends, its last event says so."""
        try:
            with held.in_use() as box:
                files = await box.files.list()
                events = converse(
                    conversation.question,
                    model=model,
                    box=RoutedBox(_Box(self._service, key, held)),
                    files=files,
                    checks=UsualChecks(),
                    bounds=self._bounds,
                )
                async with contextlib.aclosing(events):
                    async for told in events:
                        conversation.add(told)
        except Exception as error:
            refused = refusal_of(error)
            if refused.status == 500:
                logger.exception("a conversation failed by a fault of groundbox")
            conversation.add(Ended(ending=Ending.SANDBOX, why=refused.message))


def _cancel(work: asyncio.Task[None]) -> None:
    work.cancel()


def _called_off(conversation: Conversation, work: asyncio.Task[None]) -> None:
    """The last event of a conversation that was cancelled, by its asker or with its sandbox."""
    if not conversation.is_over:
        conversation.add(Ended(ending=Ending.BOUND, why="it was called off"))


class _Box:
    """The sandbox of a conversation, whose runs are those of its key."""

    def __init__(self, service: Service, key: Key, held: Held) -> None:
        self._service, self._key, self._held = service, key, held

    async def run(self, source: str, **options: Any) -> Execution:
        """Run one program.

        Raises:
            GroundboxError: As a sandbox raises it; where the server refused the run, with its words.
        """
        try:
            ran = await self._service.run_in(self._key, self._held, source, wire=_WIRE, **options)
        except Refused as refused:
            if isinstance(refused.__cause__, GroundboxError):
                raise refused.__cause__ from None
            raise GroundboxError(refused.message) from None
        return ran.execution

    async def restart(self) -> list[str]:
        """A fresh process with the same files; those that could not be kept."""
        with self._held.in_use() as box:
            return await box.restart()


def _key(request: Request) -> Key:
    key: Key = request.scope["groundbox.key"]
    key.require("run")
    return key
