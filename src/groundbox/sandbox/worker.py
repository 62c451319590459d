"""One worker, seen from the host: its socket, its streams, its life and its death.

Facts about it come from the kernel: its end from the template's wait status, its use from its cgroup, its files
from the workdir's descriptor. Frames on its socket are claims of whatever runs inside.
Deadlines are kept here, on the host's monotonic clock; a worker that is to end is killed with everything in
its pid namespace, and its streams are read up to what is there at that moment, never until end of file.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from groundbox.errors import SandboxLost, WireError
from groundbox.jail.cgroup import Cgroup, memory_stall_s
from groundbox.sandbox import wire
from groundbox.sandbox.control import RunControl
from groundbox.sandbox.deadline import Deadline
from groundbox.sandbox.decoding import decoded
from groundbox.sandbox.descriptors import GuestSocket
from groundbox.sandbox.gvisor import InnerGroup
from groundbox.sandbox.readahead import LOOK_S, MAPPED_BYTES, Mapped, mapped_code, pid_of
from groundbox.sandbox.report import Ended, Load, Order, Report
from groundbox.sandbox.screening import HERE_BYTES, Screen, screened
from groundbox.sandbox.threads import run_for_host
from groundbox.sandbox.workdir import Workdir

_READ: Final = 1 << 18
_DRAIN_BYTES: Final = 1 << 22
_FREE_S: Final = 0.25
_TURN_S: Final = 0.01
"""For frames in one turn of the loop; then it is somebody else's."""
_PAUSES: Final = 9
_CPU_CHECK_S: Final = 0.1
_GUARD_S: Final = 2.0
_CALL_CHECK_S: Final = 0.1
_DISK_CHECK_S: Final = 0.1
_SOON_S: Final = 0.002  # a run that ends sooner needs nobody to listen, as its output waits in the pipes, and no clocks
_CPU_COUNT: Final = os.cpu_count() or 1  # asking reads a file of the kernel's
START_S: Final = 30.0
_STALL_CHECK_S: Final = 0.05  # runs that end sooner do not pay for it
_STARVED_SHARE: Final = 0.5
_BETWEEN_BYTES: Final = 1 << 16
"""As much as waits in a pipe; of what is written between two runs, beside small orders, no more is kept."""


class Worker:
    """One jailed process that serves one sandbox."""

    def __init__(
        self,
        *,
        identity: int,
        control: socket.socket,
        streams: tuple[int, int],
        cgroup: Cgroup | InnerGroup | None,
        on_end: Callable[[Worker], None],
        is_copy: bool = False,
        signal_by: Callable[[int], None] | None = None,
        attends: bool = True,
    ) -> None:
        """Takes ownership of the socket, the streams' reading ends and the cgroup.

        Args:
            is_copy: Whether guest code ran in it before it began, so that no descriptor of it is taken.
            signal_by: Sends it a signal, where it is no process of this kernel.
            attends: Whether to hear at once that it is ready; else when somebody asks, or waits for it.
        """
        self.identity = self.number = identity
        self._is_copy = is_copy
        self._said_ready = False
        self.cgroup = cgroup
        self._peak_bytes: int | None = None
        self._kills: int | None = None
        self._limit_hits: int | None = None
        self._limit_reached: int | None = None
        self._stalled_s: float | None = None
        self._spent_s: float | None = None
        self.code: frozenset[Mapped] = frozenset()
        self.workdir: Workdir | None = None
        self.listener: socket.socket | None = None
        self.ended: Ended | None = None
        self.failure: str | None = None
        self.folder = ""
        self.has_resident = False
        self._control = GuestSocket(control)
        if is_copy:
            self._control.refuse_descriptors()
        self._streams = streams
        self._pidfd = -1
        self._signal_by = signal_by
        self._doomed = self._is_killed = False
        self._interrupted: Report | None = None
        self._is_left = False
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._frames = wire.FrameReader()
        self._unpacking: asyncio.Future[tuple[wire.Frame, float]] | None = None
        self._has_unread = False
        self._is_ending = False
        self._reads_on: asyncio.TimerHandle | None = None
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._is_spawned: asyncio.Future[None] = self._loop.create_future()
        self._stop: asyncio.Future[None] = self._loop.create_future()
        self._end: asyncio.Future[None] = self._loop.create_future()
        self._finished: asyncio.Future[None] | None = None
        self._report: Report | None = None
        self._order: Order | None = None
        self._next_id = 0
        self._between: list[tuple[str, bytes]] = []
        self._listening = False
        self._memory_kills = self._memory_limit_hits = 0
        self._idle_cpu_s: float | None = None
        self._idle_end_s: float | None = None
        self._guard: asyncio.TimerHandle | None = None
        self._cpu_s_when_ready: float | None = None
        self._attending = False
        self._asking: asyncio.Future[None] | None = None
        if attends:
            self._attend()

    @property
    def is_elsewhere(self) -> bool:
        """Whether it runs under another kernel, so that only pipes, sockets and files reach it."""
        return self._signal_by is not None

    @property
    def is_ready(self) -> bool:
        """Whether it waits for an order. Where nobody attends to it, that is heard now."""
        if not self._ready.done() and not self._attending:
            self._on_control()
        return self.workdir is not None and self.ended is None and self._finished is None and not self.failure

    @property
    def has_gone(self) -> bool:
        """Whether it has ended, or is killed and about to."""
        return self.ended is not None or self._doomed

    def was_spawned(self, pidfd: int) -> None:
        """The template made the process; `pidfd` is ours now, and -1 where it is no process of this kernel."""
        self._pidfd = pidfd
        if not self._is_spawned.done():
            self._is_spawned.set_result(None)
        if self._doomed:
            self.kill()
        elif self._interrupted is not None and self._interrupted is self._report:
            self.interrupt()

    def was_refused(self, reason: str) -> None:
        """The template could not make the process."""
        self.failure = reason
        self.has_ended(Ended(1 << 8, 0.0, 0))

    def has_stopped(self) -> None:
        """No process of it runs any more. What a copy had in common with its keeper is not given back yet."""
        if not self._stop.done():
            self._stop.set_result(None)

    def failed_early(self, reason: str) -> None:
        """Where it ends before it was ready, this is why; said by the template before the end."""
        if not self._said_ready and self.failure is None:
            self.failure = reason

    def has_ended(self, ended: Ended) -> None:
        """The process and everything in its pid namespace is gone."""
        if self.ended is not None:
            return
        self._is_ending = True
        begun = time.monotonic()
        while self._on_control():
            if time.monotonic() - begun > _TURN_S:
                self._loop.call_soon(self.has_ended, ended)
                return
        if self._unpacking is not None:
            self._unpacking.add_done_callback(lambda _: self.has_ended(ended))
            return
        if not self._is_left:  # while its group is there, which may serve another sandbox in the next turn of the loop
            self._peak_bytes, self._kills, self._spent_s = self.peak_memory_bytes(), self._killed(), self._cpu_s()
            if self._kills or (self._report is not None and self._report.timed_out):
                self._limit_hits, self._limit_reached = self._hits(), self._reached()
                self._stalled_s = self._stall_s()
        self.ended = ended
        if self._report is not None:
            self._report.ended = ended
        self._finish()
        self._release()
        for future in (self._ready, self._stop, self._end, self._is_spawned):
            if not future.done():
                future.set_result(None)
        self._on_end(self)
        if self._is_left:
            self.workdir = None

    def has_workdir(self, descriptor: int) -> None:
        """Of a copy: the template tells where its files are."""
        self.workdir = Workdir(descriptor, self.folder)

    def leave_workdir(self) -> None:
        """Hold the workdir no longer than this worker lives: then what still reads it keeps it.

        Without this it would stay until a collection of garbage, since a worker is part of a cycle.
        """
        self._is_left = True
        if self.ended is not None:
            self.workdir = None

    async def ready(self) -> None:
        """Wait until the jail stands.

        Raises:
            SandboxLost: It never came to stand; `failure` says why.
        """
        if not self._ready.done():
            self._attend()
            await asyncio.wait([self._ready], timeout=START_S)
        if not self._said_ready:
            late = "the worker ended" if self.ended else f"{START_S:g} s went by"
            raise SandboxLost(self.failure or f"{late} before it was ready")

    async def spawned(self) -> None:
        """Wait until the template has told of it, which may be after it has said that it is ready."""
        await asyncio.wait([self._is_spawned], timeout=START_S)

    async def run(self, order: Order) -> Report:
        """Carry out one order; returns when it is done, or when the worker is gone."""
        self._order, report = order, Report(order)
        self._report = report
        between, self._between = self._between, []
        for name, data in between:
            self._hear(name, data)
        report.ended = self.ended
        self._finished = self._loop.create_future()
        cpu_before, self._cpu_s_when_ready = self._cpu_s_when_ready, None
        if cpu_before is None and self.cgroup and self.ended is None:
            self.cgroup.keep_open()  # this is not the first run, nor likely the last
            cpu_before = self.cgroup.cpu_s()
        timers: list[asyncio.TimerHandle | Deadline] = []
        if order.listener is not None or order.companion is not None:
            self._go_on(order, report, timers, cpu_before)
        else:
            timers.append(self._loop.call_later(_SOON_S, self._go_on, order, report, timers, cpu_before))
        self._idle_end_s = None
        self._attend()
        try:
            await self._send(order.frame, order.descriptors)
            if report.ended is None:
                self._accompany(order, timers, report)
                await self._finished
        except asyncio.CancelledError:
            self.kill()
            raise
        finally:
            for timer in timers:
                timer.cancel()
            if order.companion is not None:
                order.companion.end()
            self.pause_output()
            self._drain()
            cpu_after = self._cpu_s()
            self._rest(cpu_after)
            self._finished = self._report = self._order = self._interrupted = None
        report.wall_s = time.monotonic() - report.begun
        if self.cgroup is not None and cpu_before is not None:
            report.cpu_s = None if cpu_after is None else max(0.0, cpu_after - cpu_before)
            self._note_memory_kills(report)
        report.disk_was_full = report.disk_was_full or self._lacks_disk()
        if report.timed_out:
            report.starved_s = self._starved_s(report)
        return report

    async def order(
        self, frame: dict[str, Any], descriptors: Sequence[int] = (), *, cpu_s: float | None = None
    ) -> wire.Done:
        """Carry out a small order that is no run. What is written meanwhile is for the next run to tell.

        Args:
            cpu_s: Processor time for what the order leaves running, until the next order or run.

        Raises:
            SandboxLost: The worker is gone.
        """
        try:
            report = await self.run(Order(frame, descriptors, START_S, cpu_s, _BETWEEN_BYTES, False))
        except asyncio.CancelledError:
            self.failure = self.failure or f"an order was cancelled before it was done ({frame['op']})"
            raise
        for name, output in (("stdout", report.stdout), ("stderr", report.stderr)):
            if output.total_bytes:
                self._between.append((name, output.read(0, _BETWEEN_BYTES)))
        if report.done is None:
            raise SandboxLost(self.failure or "it ended while it carried out an order")
        return report.done

    def pause_output(self) -> None:
        """Read nothing more of what the program prints, for now; it waits once the pipes are full."""
        if self._listening:
            self._listening = False
            for descriptor in self._streams:
                self._loop.remove_reader(descriptor)

    def resume_output(self) -> None:
        """Read on."""
        if self._finished is not None:
            self._listen()

    def interrupt(self) -> None:
        """Send the equivalent of Ctrl-C; once it is known where to, which may be after a run has begun."""
        self._interrupted = self._report
        if self._report is not None:
            self._report.interrupted = True
        self._signal(signal.SIGINT)

    def kill(self) -> None:
        """End the worker and everything in it, at once or when it is there. Await `wait` for the end."""
        self._doomed = True
        if not self._is_killed:
            self._signal(signal.SIGKILL)
            self._is_killed = self._pidfd >= 0

    async def learn_code(self) -> None:
        """See which files it has mapped, where it is large; `code` has them then. Takes a moment at most."""
        if self._pidfd < 0 or not isinstance(self.cgroup, Cgroup):
            return
        with contextlib.suppress(
            OSError, RuntimeError
        ):  # the group has gone; when the interpreter ends, no thread begins
            if self.cgroup.memory_bytes() < MAPPED_BYTES or (pid := pid_of(self._pidfd)) is None:
                return
            look = run_for_host(mapped_code, pid)
            await asyncio.wait([look], timeout=LOOK_S)
            if look.done():
                self.code = look.result()
            else:
                look.cancel()

    async def stopped(self) -> None:
        """Until no process of the worker runs any more, so that nobody changes its files."""
        await asyncio.shield(self._stop)

    async def wait(self) -> None:
        """Until every process of the worker is gone, and what they held."""
        await asyncio.shield(self._end)

    def is_alone(self) -> bool:
        """Whether the kernel counts a single thread in the sandbox; after `kill`, nothing of it runs on then."""
        if self.cgroup is None:
            return False
        try:
            return self.cgroup.process_count() <= 1
        except OSError:
            return False

    def peak_memory_bytes(self) -> int | None:
        """The most memory the sandbox ever held."""
        if self._peak_bytes is not None:
            return self._peak_bytes
        if self.cgroup is not None:
            with contextlib.suppress(OSError):
                return self.cgroup.peak_memory_bytes()
        return self.ended.peak_memory_bytes if self.ended else None

    def load(self) -> Load | None:
        """What the sandbox holds now, by the kernel; None without a group, or when it is gone."""
        if self.cgroup is not None and self.ended is None:
            with contextlib.suppress(OSError):
                return Load(self.cgroup.cpu_s(), self.cgroup.memory_bytes(), self.cgroup.process_count())
        return None

    def _listen(self) -> None:
        """Hear what is written. Between runs nobody does, so that it waits in the pipes for the next run."""
        if not self._listening and self.ended is None:
            self._listening = True
            for descriptor, name in zip(self._streams, ("stdout", "stderr"), strict=True):
                self._loop.add_reader(descriptor, self._on_output, descriptor, name)

    def _attend(self) -> None:
        """Read frames. Between runs nobody does: what a guest sends then waits in the socket, and costs us one look."""
        if not self._attending and not self._is_ending and self._unpacking is None and self._control.fileno() >= 0:
            self._attending = True
            self._loop.add_reader(self._control.fileno(), self._on_frames)

    def _look_away(self) -> None:
        """Read no frames."""
        if self._attending:
            self._attending = False
            self._loop.remove_reader(self._control.fileno())

    def _rest(self, cpu_s: float | None) -> None:
        """A run is over. What it left running may use as much processor time as a run may, then all is ended."""
        if self.ended is not None or self._control.fileno() < 0:
            return
        if self._order is not None and self._order.cpu_s is not None:
            self._idle_cpu_s = self._order.cpu_s
        if cpu_s is not None and self._idle_cpu_s is not None:
            self._idle_end_s = cpu_s + self._idle_cpu_s
            if self._guard is None:
                self._guard = self._loop.call_later(_GUARD_S, self._check_idle)

    def _check_idle(self) -> None:
        """Between runs, again and again; where a run is under way there is nothing to look at."""
        self._guard = None
        if self.ended is not None or self.cgroup is None or self._idle_end_s is None:
            return
        if self.cgroup.cpu_s() > self._idle_end_s:
            self.failure = "what a run left running, or what was started, was at its limit cpu_s"
            self.kill()
        else:
            self._guard = self._loop.call_later(_GUARD_S, self._check_idle)

    def _signal(self, number: signal.Signals) -> None:
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)
        elif self._signal_by is not None and self._is_spawned.done() and self.ended is None:
            self._signal_by(number)

    def _cpu_s(self) -> float | None:
        """What the group has used until now; None without a group, or when it is gone."""
        if self._spent_s is not None:
            return self._spent_s
        if self.cgroup is not None:
            with contextlib.suppress(OSError):
                return self.cgroup.cpu_s()
        return None

    def _note_memory_kills(self, report: Report) -> None:
        """Note which members the kernel killed for memory since the last run, and whether for the sandbox's own."""
        total = self._killed()
        if total is None or total == self._memory_kills:
            return
        kills, self._memory_kills = total - self._memory_kills, total
        hits_before, self._memory_limit_hits = self._memory_limit_hits, self._hits() or 0
        if self._memory_limit_hits == hits_before:
            report.host_kills = kills
            return
        report.memory_kills = kills
        killed = report.ended is not None and report.ended.exit_signal == signal.SIGKILL
        report.out_of_memory = killed or (report.done is not None and report.done.exit_signal == signal.SIGKILL)

    def _lacks_disk(self) -> bool:
        return self.workdir is not None and self.workdir.lacks_space()

    def _starved_s(self, report: Report) -> float:
        """Return how long processes waited for memory, if it was half of the run and not at the sandbox's own limit."""
        if report.stalled_before_s is None or (stalled_s := self._stall_s()) is None:
            return 0.0
        if self._reached() != report.limit_reached_before:
            return 0.0
        waited_s = stalled_s - report.stalled_before_s
        return waited_s if waited_s >= report.wall_s * _STARVED_SHARE else 0.0

    def _stall_s(self) -> float | None:
        """Return how long processes have waited for memory so far; None where that is not counted."""
        if self._stalled_s is not None:
            return self._stalled_s
        return self.cgroup.memory_stall_s() if isinstance(self.cgroup, Cgroup) else memory_stall_s()

    def _hits(self) -> int | None:
        """How often the memory limit refused memory; None without a group, or when it is gone."""
        if self._limit_hits is not None:
            return self._limit_hits
        if self.cgroup is not None:
            with contextlib.suppress(OSError):
                return self.cgroup.memory_limit_hits()
        return None

    def _reached(self) -> int | None:
        """How often the sandbox was at its memory limit; None without a group, or when it is gone."""
        if self._limit_reached is not None:
            return self._limit_reached
        if self.cgroup is not None:
            with contextlib.suppress(OSError):
                return self.cgroup.memory_limit_reached()
        return None

    def _killed(self) -> int | None:
        """Members that the kernel has ever killed for memory; None without a group, or when it is gone."""
        if self._kills is not None:
            return self._kills
        if self.cgroup is not None:
            with contextlib.suppress(OSError):
                return self.cgroup.out_of_memory_kills()
        return None

    def _accompany(self, order: Order, timers: list[asyncio.TimerHandle | Deadline], report: Report) -> None:
        if order.companion is None:
            return

        def end(interrupt: bool | None) -> None:
            if interrupt is None or (interrupt and not order.interrupt_first):
                self.kill()
                return
            if interrupt:
                self.interrupt()
            timers.append(self._loop.call_later(order.grace_s, self.kill))

        deadline = next(timer for timer in timers if isinstance(timer, Deadline))
        order.companion.begin(RunControl(report, deadline, self.cgroup, end=end))

    def _go_on(
        self,
        order: Order,
        report: Report,
        timers: list[asyncio.TimerHandle | Deadline],
        cpu_before: float | None,
    ) -> None:
        """The run takes a while, or might: hear what it writes, and bound it."""
        self._listen()

        def look_at_memory() -> None:
            report.stalled_before_s, report.limit_reached_before = self._stall_s(), self._reached()

        timers.append(self._loop.call_later(_STALL_CHECK_S, look_at_memory))

        def stop(reason: str) -> None:
            if report.timed_out or self._finished is None or self._finished.done():
                return
            report.timed_out = reason
            if order.interrupt_first:
                self.interrupt()
                timers.append(self._loop.call_later(order.grace_s, self.kill))
            else:
                self.kill()

        def check_cpu() -> None:
            now = self._cpu_s()
            spent = 0.0 if now is None else now - (cpu_before or 0.0)
            assert order.cpu_s is not None
            if spent >= order.cpu_s:
                stop("cpu_s")
            else:
                wait = max(_CPU_CHECK_S, (order.cpu_s - spent) / _CPU_COUNT)
                timers.append(self._loop.call_later(wait, check_cpu))

        calls = report.calls
        seen, seen_cpu_s = -1, 0.0

        def check_call() -> None:
            nonlocal seen, seen_cpu_s
            assert calls is not None
            wait = _CALL_CHECK_S
            if calls.wall_s is not None:
                left_s = report.call_begun + calls.wall_s - time.monotonic()
                if left_s <= 0:
                    stop("call_wall_s")
                    return
                wait = min(wait, left_s) if calls.cpu_s is not None else left_s
            now = None if calls.cpu_s is None else self._cpu_s()
            if now is not None and calls.cpu_s is not None:
                if seen != len(report.answers):
                    seen, seen_cpu_s = len(report.answers), now
                elif now - seen_cpu_s >= calls.cpu_s:
                    stop("call_cpu_s")
                    return
            timers.append(self._loop.call_later(wait, check_call))

        def check_disk() -> None:
            report.disk_was_full = report.disk_was_full or self._lacks_disk()
            timers.append(self._loop.call_later(_DISK_CHECK_S, check_disk))

        if self.folder:
            check_disk()
        if calls is not None and (calls.wall_s is not None or calls.cpu_s is not None):
            check_call()
        if order.companion is not None:
            timers.append(Deadline(order.wall_s, lambda: stop("wall_s")))
        elif order.wall_s is not None:
            left_s = order.wall_s - (time.monotonic() - report.begun)
            timers.append(self._loop.call_later(max(0.0, left_s), stop, "wall_s"))
        if order.cpu_s is not None and cpu_before is not None:
            first = max(_CPU_CHECK_S, order.cpu_s / _CPU_COUNT)
            timers.append(self._loop.call_later(first, check_cpu))

    async def _send(self, frame: dict[str, Any], descriptors: Sequence[int]) -> None:
        self._next_id += 1
        data = memoryview(wire.encode({**frame, "id": self._next_id}))
        try:
            if descriptors:
                data = data[socket.send_fds(self._control.socket, [data[:1]], list(descriptors)) :]
            with contextlib.suppress(BlockingIOError):
                data = data[self._control.socket.send(data) :]
            if data:
                await self._send_rest(data)
        except (BrokenPipeError, ConnectionResetError, OSError):
            if self.ended is None:
                self.kill()

    async def _send_rest(self, data: memoryview) -> None:
        """Send, unless the worker ends before: whoever holds the other end may not let go of it."""
        sending = asyncio.ensure_future(self._loop.sock_sendall(self._control.socket, data))
        try:
            await asyncio.wait({sending, self._end}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            sending.cancel()

    def _on_frames(self) -> None:
        if self._finished is None and self._ready.done():
            self._look_away()
        else:
            self._on_control()

    def _on_control(self) -> bool:
        """Take what has come; whether there may be more."""
        if self._unpacking is not None:
            return False
        if self._has_unread:
            return self._feed(b"")
        try:
            if self.workdir is None and not self._is_copy:  # no guest code has run yet
                data, descriptors, _, _ = socket.recv_fds(self._control.socket, _READ, 4)
                self._adopt(descriptors)
            else:
                data = self._control.receive(_READ)
        except (BlockingIOError, InterruptedError):
            return False
        except WireError as violation:
            self._break_off(violation)
            return False
        except OSError:
            data = b""
        if not data:
            self._look_away()
            return False
        return self._feed(data)

    def _feed(self, data: bytes) -> bool:
        """Take frames until the turn is over or one has to be waited for; the rest stay with the reader of frames."""
        begun, cpu_s = time.monotonic(), time.thread_time()
        self._has_unread = False
        try:
            for body in self._frames.feed(data):
                self._open(body)
                if self._unpacking is not None or time.monotonic() - begun > _TURN_S:
                    self._has_unread = True
                    break
        except WireError as violation:
            self._break_off(violation)
            return False
        if self._pace(time.thread_time() - cpu_s) or not self._has_unread or self._unpacking is not None:
            return True
        self._look_away()
        self._loop.call_soon(self._read_on, self._report)
        return True

    def _break_off(self, violation: WireError) -> None:
        """The guest broke the protocol: nothing more of it is read, and all of it is ended."""
        self.failure = str(violation)
        if self._report is not None:
            self._report.violation = violation
        self._look_away()
        self.kill()

    def _pace(self, spent_s: float) -> bool:
        """Let a guest that sends without end have a tenth of the loop, which others wait for too.

        What is spent in a thread counts as well: it holds the interpreter. Whether there is a pause now.
        """
        report = self._report
        if report is None or self._is_ending:
            return False
        report.reading_s += spent_s
        if report.reading_s <= _FREE_S or (self._finished and self._finished.done()):
            return False
        self._look_away()
        until = self._loop.time() + _PAUSES * spent_s
        if self._reads_on is not None:
            until = max(until, self._reads_on.when())
            self._reads_on.cancel()
        self._reads_on = self._loop.call_at(until, self._read_on, report)
        return True

    def _read_on(self, report: Report | None) -> None:
        """Take what has come already, then what is to come."""
        if self._report is report and self._unpacking is None and not self._is_ending:
            self._attend()
            if self._has_unread:
                self._feed(b"")

    def _adopt(self, descriptors: list[int]) -> None:
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        if descriptors:
            self._control.refuse_descriptors()
            self.workdir = Workdir(descriptors[0], self.folder)
        if len(descriptors) > 1:
            self.listener = socket.socket(fileno=descriptors[1])

    def _open(self, body: bytes) -> None:
        """Decode a frame and take it; in a thread if that may take long. Nothing more is read of the guest until then.

        Raises:
            WireError: It is no frame.
        """
        screen = None if self._order is None else self._order.screen
        if wire.is_small(body) and (screen is None or len(body) <= HERE_BYTES):
            self._take(_unpacked(body, screen))
            return
        report = self._report

        def go_on(done: asyncio.Future[tuple[wire.Frame, float]]) -> None:
            self._unpacking = None
            if done.cancelled():
                return
            try:
                frame, cpu_s = done.result()
            except WireError as violation:
                self._break_off(violation)
                return
            if report is self._report:
                self._take(frame)
            if self._report is not None and not self._pace(cpu_s):
                self._read_on(self._report)

        self._look_away()
        self._unpacking = decoded(_timed, body, screen)
        self._unpacking.add_done_callback(go_on)

    def _take(self, frame: wire.Frame) -> None:
        report = self._report
        if isinstance(frame, wire.Ready):
            if not self._ready.done() and (self._is_copy or self.workdir is not None):
                self._said_ready = True
                self._ready.set_result(None)
                self._prepare()
        elif isinstance(frame, wire.Failed):
            if not self._ready.done():
                self.failure = frame.reason
        elif report is None:
            return
        elif isinstance(frame, wire.Shown):
            if report.show(frame.bundle) and self._order and self._order.listener:
                self._order.listener.display(frame)
        elif isinstance(frame, wire.Cleared):
            report.displays.clear()
            if self._order and self._order.listener:
                self._order.listener.clear(frame)
        elif isinstance(frame, wire.Answered):
            if (reply := report.answered(frame)) is not None:
                self._reply(reply)
        elif frame.id == self._next_id and report.done is None and report.violation is None:
            report.finish(frame)
            self._finish()

    def _reply(self, frame: dict[str, Any]) -> None:
        """Tell the guest, which waits for it, of the next one of many calls."""
        data = memoryview(wire.encode(frame))
        try:
            with contextlib.suppress(BlockingIOError):
                data = data[self._control.socket.send(data) :]
        except OSError:
            return  # it is gone, which is heard elsewhere
        if data:
            self._asking = asyncio.ensure_future(self._send_rest(data))
            self._asking.add_done_callback(lambda done: done.cancelled() or done.exception())

    def _prepare(self) -> None:
        """Do what the first run would otherwise wait for. What was written until now is none of its output."""
        self._drain()
        if self.cgroup is not None and not self.has_resident:  # whose start is no part of the first run
            self._cpu_s_when_ready = self._cpu_s()

    def _finish(self) -> None:
        if self._finished is not None and not self._finished.done():
            self._finished.set_result(None)

    def _on_output(self, descriptor: int, name: str) -> None:
        try:
            data = os.read(descriptor, _READ)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(descriptor)
            return
        self._hear(name, data)

    def _hear(self, name: str, data: bytes) -> None:
        report = self._report
        if report is None:
            return
        (report.stdout if name == "stdout" else report.stderr).add(data)
        if self._order is not None and self._order.listener is not None:
            self._order.listener.output(name, data)

    def _drain(self) -> None:
        """What is in the pipes at this moment, and no more: someone inside may never stop writing."""
        for descriptor, name in zip(self._streams, ("stdout", "stderr"), strict=True):
            left = _DRAIN_BYTES
            while left > 0 and descriptor >= 0:
                try:
                    data = os.read(descriptor, _READ)
                except OSError:
                    break
                if not data:
                    break
                left -= len(data)  # a short read is not the last one: a guest may have set the pipe to packets
                self._hear(name, data)

    def _release(self) -> None:
        """Give everything back; the workdir stays until its last reader lets go."""
        self.pause_output()
        if self._report is not None:
            self._drain()
        for descriptor in self._streams:
            os.close(descriptor)
        self._streams = (-1, -1)
        if self._guard is not None:
            self._guard.cancel()
        self._look_away()
        with contextlib.suppress(ValueError):
            self._loop.remove_writer(self._control.fileno())
        self._control.close()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
        if self.listener is not None:
            self.listener.close()


def _unpacked(body: bytes, screen: Screen | None) -> wire.Frame:
    """The frame, with what may be shown of a display."""
    frame = wire.decode(body)
    if screen is not None and isinstance(frame, wire.Shown):
        bundle = frame.bundle
        data = screened(screen, bundle.data)
        size = max(bundle.size_bytes, sum(len(str(content)) for content in data.values()))
        frame = frame._replace(bundle=bundle._replace(data=data, size_bytes=size))
    return frame


def _timed(body: bytes, screen: Screen | None) -> tuple[wire.Frame, float]:
    """`_unpacked`, and the processor time that it took."""
    begun = time.thread_time()
    return _unpacked(body, screen), time.thread_time() - begun
