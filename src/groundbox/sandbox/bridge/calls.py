"""One tool call, from what the guest asked for to what it is told."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import dataclasses
import inspect
import itertools
import json
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from groundbox.sandbox.bridge import frames, values
from groundbox.sandbox.bridge.log import Written
from groundbox.sandbox.bridge.tool import Tool, ToolFailure
from groundbox.sandbox.bridge.tools import ToolRequest, settled
from groundbox.sandbox.bridge.values import Unfit

logger = logging.getLogger(__name__)

_MOST_MESSAGE: Final = 4000
_MOST_SHOWN: Final = 20
_DEEPEST_SHOWN: Final = 4
_SILENT: Final = "the tool failed, and its message stays on the host"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer:
    """What the guest is told of a call.

    Attributes:
        outcome: `ok`, or why there is no value.
        value: Tagged, when the outcome is `ok`.
        body: The same as JSON, where it was made beside the event loop.
        type: Of the error: the guest's `ToolError.type`.
    """

    outcome: str
    value: Any = None
    body: bytes | None = None
    type: str = ""
    message: str = ""
    retryable: bool = False

    def frame(self, identity: int) -> bytes:
        """The `result` for a call."""
        head = {"op": "result", "id": identity}
        if self.outcome != "ok":
            return frames.encode({**head, "ok": False, "error": self.recorded()})
        body = frames.dumped(self.value) if self.body is None else self.body
        return frames.framed(frames.dumped({**head, "ok": True})[:-1] + b',"value":' + body + b"}")

    def recorded(self) -> dict[str, Any]:
        """As a log has it, and as this class takes it beside the outcome."""
        if self.outcome == "ok" and self.body is not None:
            return Written.ready({"value": self.value}, b'{"value":' + self.body + b"}")
        if self.outcome == "ok":
            return {"value": self.value}
        return {"type": self.type, "message": self.message, "retryable": self.retryable}


def refused(outcome: str, kind: str, message: str, *, retryable: bool = False) -> Answer:
    """A call that was not carried out, or not to its end."""
    return Answer(outcome=outcome, type=kind, message=message, retryable=retryable)


class Slots:
    """How many calls of one sandbox are carried out at once, and that those of a sequential tool are not.

    A function in a thread keeps its place until it really returns, also when nobody waits for it any more.
    """

    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)
        self._alone: dict[str, asyncio.Lock] = {}

    async def invoke(self, tool: Tool, arguments: Mapping[str, Any]) -> Answer:
        """What the function returned. Cancelling gives a thread up; it cannot be ended."""
        release = await self._acquire(tool)
        if _is_coroutine_function(tool.function):
            try:
                return _answer(tool, await tool.function(**arguments))
            finally:
                release()

        def work() -> Any:
            result = tool.function(**arguments)
            return result if inspect.isawaitable(result) else _answer(tool, result)

        done = await in_thread(work, release)
        return done if isinstance(done, Answer) else _answer(tool, await done)

    async def _acquire(self, tool: Tool) -> Callable[[], None]:
        alone = self._alone.setdefault(tool.name, asyncio.Lock()) if tool.sequential else None
        if alone is not None:
            await alone.acquire()
        try:
            await self._free.acquire()
        except BaseException:
            if alone is not None:
                alone.release()
            raise

        def release() -> None:
            self._free.release()
            if alone is not None:
                alone.release()

        return release


def _is_coroutine_function(function: Any) -> bool:
    method = getattr(type(function), "__call__", None)  # noqa: B004  the method is wanted, not whether there is one
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(method)


def in_thread(function: Callable[[], Any], returned: Callable[[], None]) -> asyncio.Future[Any]:
    """The function in a daemon thread, so that a function without end does not hold up the end of the process."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(result: Any, error: BaseException | None) -> None:
        returned()
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(_Raised(error))

    def work() -> None:
        result, error = None, None
        try:
            result = context.run(function)
        except BaseException as raised:  # also SystemExit: it ends the call, not the host
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(deliver, result, error)

    try:
        threading.Thread(target=work, name="groundbox-tool", daemon=True).start()
    except RuntimeError:
        returned()
        raise
    return future


class _Raised(Exception):
    """What a function raised in its thread; a StopIteration cannot travel in a future, and a cancellation is none."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


async def carried_out(tool: Tool, arguments: Mapping[str, Any], slots: Slots) -> Answer:
    """Call the function, and make an answer of whatever comes of it."""
    try:
        return await slots.invoke(tool, arguments)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return _failed(tool, error)
    except _Raised as raised:
        return _failed(tool, raised.error)
    except (KeyboardInterrupt, GeneratorExit):  # the host's own, whoever runs at that moment
        raise
    except BaseException as error:
        return _failed(tool, error)


def _answer(tool: Tool, result: Any) -> Answer:
    try:
        plain = values.plain(result)
        tool.check_result(_as_json(plain))
        value = values.encode(plain)
        return Answer(outcome="ok", value=value, body=frames.dumped(value))
    except Unfit as problem:
        logger.warning("tool %s: its result is refused: %s", tool.name, problem)
        return refused("unfit", "InvalidResult", f"{tool.name} returned what its schema or the bridge does not allow")


def _as_json(plain: Any) -> Any:
    """Tuples as lists, and keys as texts, as they will arrive."""
    if isinstance(plain, dict):
        return {str(name): _as_json(item) for name, item in plain.items()}
    if isinstance(plain, list | tuple):
        return [_as_json(item) for item in plain]
    return plain


def _failed(tool: Tool, error: BaseException) -> Answer:
    """What the tool says on purpose is told in full; of everything else the type only, as messages quote secrets."""
    logger.info("tool %s failed: %r", tool.name, error, exc_info=error)
    kind = type(error).__name__[:100]
    if isinstance(error, ToolFailure):
        return refused("error", kind, str(error)[:_MOST_MESSAGE], retryable=error.retryable)
    return refused("error", kind, _SILENT)


async def allowed(policy: Any, request: ToolRequest) -> str:
    """What the policy says of a call: `allow`, `deny` or `ask`. What fails, or says something else, is a no."""
    verdict = "ask" if request.tool.approval else "allow"
    if policy is None:
        return verdict
    try:
        said = await settled(policy(request))
    except Exception:
        logger.exception("the policy failed for tool %s", request.tool.name)
        return "deny"
    if said not in ("allow", "deny", "ask"):
        logger.error("the policy said %r for tool %s, which is none of allow, deny and ask", said, request.tool.name)
        return "deny"
    return "ask" if said == "allow" and verdict == "ask" else str(said)


def preview(value: Any, most: int) -> str:
    """The first characters of a value, as JSON; in a time that does not grow with it."""
    text = value if isinstance(value, str) else json.dumps(_cut(value, most), ensure_ascii=False, default=str)
    return text if len(text) <= most else f"{text[:most]}…"


def _cut(value: Any, most: int, depth: int = 0) -> Any:
    if isinstance(value, str):
        return value[: most + 1]
    if isinstance(value, list | dict) and depth > _DEEPEST_SHOWN:
        return "…"
    if isinstance(value, list):
        return [_cut(item, most, depth + 1) for item in value[:_MOST_SHOWN]] + ["…"][len(value) <= _MOST_SHOWN :]
    if isinstance(value, dict):
        first = itertools.islice(value.items(), _MOST_SHOWN)
        shown = {str(name)[:most]: _cut(item, most, depth + 1) for name, item in first}
        return shown if len(value) <= _MOST_SHOWN else {**shown, "…": len(value) - _MOST_SHOWN}
    return value
