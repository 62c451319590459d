"""The tool calls of one run: its socket, its messages, its quotas.

Theory of operation:
1. Each run gets a socket pair of its own; the guest's end goes along with the order, as the other descriptors do.
   When the run is over, the host closes its end: what a process that was left behind sends, nobody reads, and
   nothing of one run can be taken for something of the next.
2. Frames are read as they come, in a share of the event loop. Ids must grow. What does not fit the protocol ends
   the run.
3. Each call is a task: look the tool up, count, decode, check, ask who is to be asked, call, check, answer.
4. While a call is under way the run's wall clock stands still, within `ToolQuotas.waiting_s`; the processor clock
   goes on.

What the guest says decides which granted function is called with which checked arguments, and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from groundbox.errors import WireError
from groundbox.execution import Failure, ToolCalls
from groundbox.sandbox.bridge import frames
from groundbox.sandbox.bridge.approval import Approval
from groundbox.sandbox.bridge.arguments import Arguments
from groundbox.sandbox.bridge.calls import Answer, allowed, carried_out, refused
from groundbox.sandbox.bridge.log import Diverged, Uncertain
from groundbox.sandbox.bridge.tally import Tally
from groundbox.sandbox.bridge.tool import Tool
from groundbox.sandbox.bridge.tools import ToolRequest
from groundbox.sandbox.bridge.values import Unfit
from groundbox.sandbox.descriptors import GuestSocket
from groundbox.sandbox.memfile import Copy

if TYPE_CHECKING:
    from groundbox.sandbox.bridge.bridge import Bridge

logger = logging.getLogger(__name__)

_READ: Final = 1 << 18
_FREE_S: Final = 0.25
_PAUSES: Final = 9
_END_S: Final = 1.0
_MOST_QUESTIONS: Final = 100
_MOST_MEMORY: Final = 256 * 1024 * 1024
"""That the arguments of calls under way may take; values take up to a hundred times their bytes."""
_SMALL_BYTES: Final = 2048
_NEAR: Final = 5
"""Unknown tools for which near names are looked for."""
_MOST_GREETINGS: Final = 8
"""One is enough, unless it was interrupted."""


class Control(Protocol):
    """What a session may do to its run."""

    def pause(self, *, held: bool = False) -> None:
        """Let the wall clock stand still."""

    def resume(self, *, held: bool = False) -> None:
        """Undo one `pause`."""

    def allow(self, seconds: float) -> None:
        """For how long in all it may stand still."""

    def violate(self, violation: WireError) -> None:
        """End the run, because the guest broke the protocol."""

    def stop(self, failure: Failure, *, interrupt: bool) -> None:
        """End the run with a failure that has a name: now, by an `interrupt`, or if it does not end by itself."""

    def freeze(self, frozen: bool) -> None:
        """Let no process of the guest run meanwhile, where the kernel can do that."""


class Session:
    """Serves one run."""

    def __init__(self, bridge: Bridge, read: Callable[[str, int], bytes]) -> None:
        """Args:
        read: Gives the bytes of a file in the workdir, up to a number of them.
        """
        self._bridge = bridge
        self._tools = bridge.tools
        self._quotas = bridge.tools.quotas
        self._arguments = Arguments(read, self._quotas)
        self._approval = Approval(bridge.tools, bridge.questions)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.descriptor = theirs.detach()
        self._socket = GuestSocket(ours)
        self._socket.refuse_descriptors()
        self._loop = asyncio.get_running_loop()
        self._reader = frames.FrameReader()
        self._control: Control | None = None
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._from_files: dict[int, int] = {}
        self._others: set[asyncio.Task[None]] = set()
        self._sending = asyncio.Lock()
        self._last_id = self._frame_count = self._greetings = 0
        self._reading_s = self._spent_s = 0.0
        self._silent = False
        self._over = self._misses = self._memory = 0
        self._received_bytes = 0
        self._tally = Tally()
        self.run = bridge.next_run()

    def begin(self, control: Control) -> None:
        """Serve from now on; the guest has its end."""
        os.close(self.descriptor)
        self.descriptor = -1
        self._control = control
        control.allow(self._quotas.waiting_s)
        self._loop.add_reader(self._socket.fileno(), self._on_readable)

    def end(self) -> None:
        """The run is over: nobody is answered any more. `finished` waits for what was under way."""
        self._silent = True
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
        for task in (*self._tasks.values(), *self._others):
            task.cancel()
        self._control = None

    async def finished(self) -> ToolCalls:
        """Wait for what was cancelled, and say what was called."""
        tasks = {*self._tasks.values(), *self._others}
        if tasks:
            await asyncio.wait(tasks, timeout=_END_S)
        self.close()
        return self._tally.told(
            sandbox=self._bridge.sandbox, sent_bytes=self._arguments.sent_bytes, received_bytes=self._received_bytes
        )

    def close(self) -> None:
        """Close both ends that are still ours. Idempotent."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()

    def _on_readable(self) -> None:
        if self._silent:
            self._loop.remove_reader(self._socket.fileno())
            return
        try:
            data = self._socket.receive(_READ)
        except (BlockingIOError, InterruptedError):
            return
        except WireError as violation:
            self._violate(violation)
            return
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(self._socket.fileno())
            return
        begun = time.monotonic()
        try:
            for frame, size, memory in self._reader.feed(data):
                if not self._silent:
                    self._take(frame, size, memory)
        except WireError as violation:
            self._violate(violation)
            return
        self._spent_s += time.monotonic() - begun
        self._pace()

    def _pace(self) -> None:
        """A guest that sends without end has a tenth of the loop, which others wait for too."""
        spent_s = self._spent_s + self._arguments.spent_s
        self._spent_s = self._arguments.spent_s = 0.0
        self._reading_s += spent_s
        if self._reading_s > _FREE_S:
            self._loop.remove_reader(self._socket.fileno())
            self._loop.call_later(_PAUSES * spent_s, self._read_on)

    def _read_on(self) -> None:
        if self._control is not None and not self._silent:
            self._loop.add_reader(self._socket.fileno(), self._on_readable)

    def _violate(self, violation: WireError) -> None:
        control = self._control
        self.end()
        if control is not None:
            control.violate(violation)

    def _stop(self, kind: str, message: str, hint: str, *, interrupt: bool = True) -> None:
        control = self._control
        self._silent = True
        if control is not None:
            control.stop(Failure(type=kind, message=message, hints=(hint,)), interrupt=interrupt)

    def _take(self, frame: frames.Frame, size: int, memory: int) -> None:
        self._frame_count += 1
        if self._frame_count > self._quotas.frames:
            raise WireError(f"the run sent more than {self._quotas.frames} messages for tools")
        if isinstance(frame, frames.Hello):
            self._greet(frame)
        elif isinstance(frame, frames.Cancel):
            task = self._tasks.get(frame.id)
            if task is not None:
                task.cancel()
        else:
            if frame.id <= self._last_id:
                raise WireError(f"the id {frame.id} is not above {self._last_id}, the last one")
            self._last_id = frame.id
            if isinstance(frame, frames.Call):
                self._memory += memory
                task = self._tasks[frame.id] = asyncio.ensure_future(self._serve(frame, size))
                task.add_done_callback(lambda _: self._served(frame.id, memory))
            else:
                self._look_up(frame)

    def _served(self, identity: int, memory: int) -> None:
        self._memory -= memory + self._from_files.pop(identity, 0)
        self._tasks.pop(identity, None)

    def _greet(self, frame: frames.Hello) -> None:
        self._greetings += 1
        if self._greetings > _MOST_GREETINGS:
            raise WireError(f"the run asked for its tools more than {_MOST_GREETINGS} times")
        if frame.protocol != frames.PROTOCOL:
            raise WireError(f"the protocol {frame.protocol!r} is not {frames.PROTOCOL}")
        told = {"op": "manifest", "protocol": frames.PROTOCOL, "tools": self._tools.manifest}
        self._beside(frames.encode({**told, "quotas": dataclasses.asdict(self._quotas)}))

    def _look_up(self, frame: frames.Search | frames.Describe) -> None:
        if isinstance(frame, frames.Search):
            self._beside(Answer(outcome="ok", value=self._tools.search(frame.query)).frame(frame.id))
            return
        tool = self._tools.get(frame.tool)
        answer = self._unknown(frame.tool) if tool is None else Answer(outcome="ok", value=tool.row())
        self._beside(answer.frame(frame.id))

    def _beside(self, frame: bytes) -> None:
        if len(self._others) >= _MOST_QUESTIONS:
            raise WireError(f"the run has more than {_MOST_QUESTIONS} questions about tools and takes no answer")
        task = asyncio.ensure_future(self._put(frame, []))
        self._others.add(task)
        task.add_done_callback(self._others.discard)

    async def _serve(self, call: frames.Call, size: int) -> None:
        row = self._bridge.opened(self.run, call.tool)
        row["sent_bytes"] = size + (call.file.size_bytes if call.file else 0)
        begun = time.monotonic()
        answer = refused("cancelled", "Cancelled", "the call was taken back, or its run has ended")
        self._count_waiting(1)
        try:
            try:
                answer = await self._answer(call, size, row)
            except (Diverged, Uncertain) as problem:
                answer = refused("diverged", "ToolDiverged", str(problem))
                hint = "Replay a log with the program and the inputs it was written with."
                self._stop(f"Tool{type(problem).__name__}", f"the replay cannot go on: {problem}", hint)
            except Exception:
                logger.exception("a call of tool %s failed in groundbox itself", call.tool)
                answer = refused("internal", "InternalError", "the host could not carry out the call")
        finally:
            self._count_waiting(-1)
            row["wall_s"] = round(time.monotonic() - begun, 6)
            frame, descriptors = self._framed(call.id, answer, row)
            self._note(row, answer)
        if not self._silent:
            await self._put(frame, descriptors)

    def _count_waiting(self, change: int) -> None:
        self._tally.wait(change)
        control = self._control
        if control is None:
            return
        if change > 0:
            control.pause()
        else:
            control.resume()

    async def _answer(self, call: frames.Call, size: int, row: dict[str, Any]) -> Answer:
        if (problem := self._over_quota(size)) is not None:
            return self._refuse(problem)
        tool = self._tools.get(call.tool)
        if tool is None:
            return self._unknown(call.tool)
        if not self._bridge.counted(tool):
            return self._refuse(
                f"{tool.name} was called {tool.max_calls} times, which is all there is for this sandbox"
            )
        limit_s = tool.deadline_s or self._quotas.call_s
        if call.deadline_ms is not None:
            limit_s = min(limit_s, call.deadline_ms / 1000)
        try:
            tagged, arguments, sha256, held_bytes = await self._arguments.of(tool, call, size)
        except Unfit as problem:
            return refused("invalid", "InvalidArguments", f"{tool.name}: {problem}"[:1000])
        self._memory += held_bytes
        self._from_files[call.id] = held_bytes
        if self._memory > _MOST_MEMORY:
            return self._refuse("too many large calls are under way at once; wait for their answers")
        row["args"], row["args_sha256"] = self._bridge.shown("args", tagged, row), sha256
        recorded = self._bridge.replay.take(tool.name, sha256)
        if recorded is not None:
            row["replayed"] = True
            return Answer(outcome=recorded.outcome, **recorded.row["answer"])
        request = ToolRequest(tool=tool, arguments=arguments, run=self.run, seq=row["seq"])
        verdict = await allowed(self._tools.policy, request)
        if verdict == "deny":
            return refused("denied", "ToolDenied", f"{tool.name} was not allowed with these arguments")
        if verdict == "ask" and (no := await self._approved(call.id, request, row)) is not None:
            return no
        try:
            self._bridge.begins(tool, row)
        except OSError as error:
            return self._unwritten(error)
        return await self._within(limit_s, tool, arguments)

    async def _within(self, limit_s: float, tool: Tool, arguments: dict[str, Any]) -> Answer:
        try:
            async with asyncio.timeout(limit_s):
                return await carried_out(tool, arguments, self._bridge.slots)
        except TimeoutError:
            message = f"{tool.name} did not answer within {limit_s:g} s"
            return refused("timeout", "ToolTimeout", message, retryable=tool.read_only or tool.idempotent)

    def _unwritten(self, error: OSError) -> Answer:
        told = f"the log of tool calls could not be written: {error.strerror or error}"
        self._stop("ToolLogFailed", told, "See that the log's file can be written, then run the program again.")
        return refused("error", "ToolLogFailed", "the call could not be noted, so it was not made")

    async def _approved(self, identity: int, request: ToolRequest, row: dict[str, Any]) -> Answer | None:
        """None for a yes. Without an answer the run is ended, and this never returns."""
        assert self._control is not None
        outcome = await self._approval.ask(request, self._control)
        row["approval"] = outcome
        if outcome == "yes":
            return None
        if outcome == "no":
            return refused("denied", "ToolDenied", f"{request.tool.name} was not approved")
        if outcome == "crowded":
            return self._refuse("too many calls wait for approval at once; wait for their answers")
        row["unanswered"] = "expired" if outcome == "expired" else "pending"
        name = request.tool.name
        told = f"nobody approved {name} within {self._tools.approval_s:g} s" if outcome == "expired" else ""
        with contextlib.suppress(OSError):
            await self._put(frames.encode({"op": "pause", "id": identity}), [])
        kind = "ToolApprovalExpired" if outcome == "expired" else "ToolApprovalPending"
        hint = "Decide, then run the program again with Tools.replay(log, approve=…): it goes on where it was."
        self._stop(kind, told or f"{name} needs an approval that is not there yet", hint, interrupt=False)
        await asyncio.Event().wait()
        return None

    def _unknown(self, name: str) -> Answer:
        self._misses += 1
        near = self._tools.near(name) if self._misses <= _NEAR else []
        maybe = f"; there is {', '.join(near)}" if near else ""
        return refused("unknown", "UnknownTool", f"no tool {name!r} was granted to this sandbox{maybe}")

    def _over_quota(self, sent_bytes: int) -> str | None:
        quotas = self._quotas
        self._tally.total += 1
        self._arguments.sent_bytes += sent_bytes
        if self._tally.total > quotas.calls:
            return f"the run has made its {quotas.calls} calls"
        if self._arguments.sent_bytes > quotas.sent_bytes:
            return f"the arguments of the run's calls are over {quotas.sent_bytes} bytes together"
        if self._memory > _MOST_MEMORY:
            return "too many large calls are under way at once; wait for their answers"
        if self._received_bytes >= quotas.received_bytes:
            return f"the results of the run's calls are over {quotas.received_bytes} bytes together"
        return None

    def _refuse(self, problem: str) -> Answer:
        self._over += 1
        if self._over > self._quotas.calls:
            self._violate(WireError(f"the run went on calling tools: {problem}"))
        return refused("quota", "QuotaExceeded", problem)

    def _framed(self, identity: int, answer: Answer, row: dict[str, Any]) -> tuple[bytes, list[bytes]]:
        frame = answer.frame(identity)
        left = self._quotas.received_bytes - self._received_bytes
        most = min(self._quotas.result_bytes, max(left, _SMALL_BYTES))
        if len(frame) > most:
            problem = f"the result of {row['tool']} has {len(frame)} bytes, and may have {most}"
            answer = refused("unfit", "ResultTooLarge", problem)
            row["outcome"] = "unfit"
            frame = answer.frame(identity)
        self._received_bytes += len(frame)
        row["received_bytes"] = len(frame)
        if frames.fits(frame):
            return frame, []
        return frames.encode({"op": "result", "id": identity, "large": len(frame) - 4}), [frame[4:]]

    def _note(self, row: dict[str, Any], answer: Answer) -> None:
        """Write the row, and keep a preview. A row that cannot be written ends the run."""
        row.setdefault("outcome", row.pop("unanswered", answer.outcome))
        shown: Any = ""
        try:
            shown = self._bridge.closed(row, answer)
        except OSError as error:
            self._unwritten(error)
        self._tally.add(row, shown)

    async def _put(self, frame: bytes, large: list[bytes]) -> None:
        """Send one frame whole. What is too large for a frame goes along as a file in memory."""
        async with self._sending:
            data = memoryview(frame)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                for content in large:
                    copy = await asyncio.to_thread(Copy, content)
                    try:
                        data = data[await self._send_descriptor(data[:1], copy.descriptor) :]
                    finally:
                        copy.close()
                await self._loop.sock_sendall(self._socket.socket, data)

    async def _send_descriptor(self, data: memoryview, descriptor: int) -> int:
        while True:
            try:
                return socket.send_fds(self._socket.socket, [data], [descriptor])
            except BlockingIOError:
                writable = asyncio.Event()
                self._loop.add_writer(self._socket.fileno(), writable.set)
                try:
                    await writable.wait()
                finally:
                    self._loop.remove_writer(self._socket.fileno())
