"""What all wires share: one engine, keys, sandboxes, turns, records, the audit log and metrics.

A wire asks this for a run and gets an Execution, or a Refused in the server's own words, which it says in the words of
its protocol. Everything that is counted, kept, bounded or logged about a run happens in `_watched`, so that no wire can
forget it.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import functools
import hashlib
import logging
import resource
import time
import uuid
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from groundbox.errors import InvalidArgument
from groundbox.execution import Event, Execution
from groundbox.limits import Limits
from groundbox.network import Network
from groundbox.sandbox import engine as engines
from groundbox.sandbox.process import AsyncProcess
from groundbox.sandbox.sandbox import USUAL_KIND, AsyncSandbox, Kind, expect_one_run, is_closed, kind_of
from groundbox.server.audit import AuditLog
from groundbox.server.eventloop import keep_measuring
from groundbox.server.keeping import Ledger, size_of
from groundbox.server.keys import Key, Keys
from groundbox.server.metrics import Metrics
from groundbox.server.records import Records
from groundbox.server.refusals import Refused, refusal_of, shutting_down
from groundbox.server.sandboxes import Held, Sandboxes
from groundbox.server.settings import Settings
from groundbox.server.shares import most_of_one_key
from groundbox.server.turns import Pace, Turns
from groundbox.tools import Tools
from groundbox.unseen import on_one_line

logger = logging.getLogger(__name__)

_BRANCHING: Final = ("branching", "undo", "rollback")
_SANDBOX: Final = frozenset(
    (
        "limits",
        "network",
        "environment",
        "profile",
        "hash_seed",
        "inspect",
        "restart",
        "tools",
        "env",
        "mounts",
        *_BRANCHING,
    )
)
"""Arguments of a sandbox that a request may choose; tools are a wire's own."""
_OF_ENDED_SANDBOXES: Final = frozenset(("sandbox_closed", "sandbox_lost", "sandbox_busy", "process_error"))
_KILLING_S: Final = 0.05
_ANSWERING_S: Final = 0.5
_WRITING_S: Final = 0.02
"""For the replies of runs that were called off, before the loop waits for the engine's end."""
_LINGER_S: Final = 1.1
_REPLY_BYTES: Final = 1024
_PROCESS_BYTES: Final = 8 * 1024
_MOST_KINDS: Final = 4
"""Hash seeds and sets of mounts that sandboxes of one key have at once: each takes a template of up to 250 MiB."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """A run that has ended.

    Attributes:
        waited_s: Seconds in the queue before it began.
    """

    execution: Execution
    waited_s: float

    def to_dict(self) -> dict[str, Any]:
        """The JSON of the execution, with the time in the queue beside the other times."""
        told = self.execution.to_dict()
        told["usage"]["queue_s"] = round(self.waited_s, 6)
        return told


class Service:
    """One server without its wires. Begun and ended with the application (`running`)."""

    def __init__(self, settings: Settings, keys: Keys, *, audit: AuditLog | None = None) -> None:
        self.settings, self.keys, self.audit = settings, keys, audit
        self.metrics = Metrics()
        self.turns = Turns(
            at_once=settings.runs_at_once,
            queue_length=settings.queue_length,
            queue_s=settings.queue_s,
            is_shared=lambda: keys.is_shared,
        )
        # One that is kept may hold two descriptors, of output that lies on the disk.
        most = min(settings.kept_executions, max(16, resource.getrlimit(resource.RLIMIT_NOFILE)[1] // 8))
        self.ledger = Ledger(lambda: most_of_one_key(settings.kept_bytes) if keys.is_shared else settings.kept_bytes)
        self.records = Records(most=most, most_bytes=settings.kept_bytes, kept_s=settings.kept_s, ledger=self.ledger)
        self.sandboxes = Sandboxes(settings, keys, self.ledger)
        self.pace = Pace()
        self.replies = Replies(settings.replayed_s, ledger=self.ledger)
        self._unusual: weakref.WeakKeyDictionary[AsyncSandbox, str] = weakref.WeakKeyDictionary()
        self.problem = "the server is starting"
        self.is_ending = self._is_killing = False
        self._refused_at = float("-inf")
        self._working: set[AsyncSandbox] = set()
        self._runs: set[asyncio.Task[Any]] = set()
        self._waiting: set[asyncio.Task[None]] = set()
        self.begun = time.time()
        self.runs = 0
        self._watch()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Do what goes on beside requests; at the end, close all sandboxes."""
        await self.keys.refresh()
        tasks = [
            asyncio.create_task(self.keys.keep_reading()),
            asyncio.create_task(self.sandboxes.keep_sweeping()),
            asyncio.create_task(keep_measuring(self.metrics.lagged)),
            asyncio.create_task(self._warm()),
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.sandboxes.close_all()
            await self.keys.refresh()
            if self.audit is not None:
                self.audit.close()

    def begin_end(self) -> None:
        """Begin to shut down: new work is refused from now on, and so is what waits. Runs in progress go on."""
        if not self.is_ending:
            self.is_ending = self.sandboxes.is_ending = True
            self.problem = "the server is shutting down"
            if self.turns.waiting:
                self._shut()
            self.turns.close()

    async def end(self, *, lingers: bool = True) -> None:
        """Shut down: give runs in progress their `grace_s`, then end all sandboxes, so that every run is answered.

        A client that was refused asks again after a second, and some count their attempts. It must not find a closed
        port before another server has taken over, so requests are refused for a little longer after the last refusal.

        Args:
            lingers: False if the port stays open for the next server when this one has ended.
        """
        self.begin_end()
        await self.turns.wait_until_idle(self.settings.grace_s)
        self._is_killing = True
        boxes = [box.close() for box in self._working]
        closing = asyncio.gather(*boxes, self.sandboxes.close_all(), return_exceptions=True)
        await asyncio.wait([closing], timeout=_KILLING_S)
        for task in self._runs:  # the kernel may take a second to end a sandbox, and clients are answered before
            task.cancel()
        await self.turns.wait_until_idle(_ANSWERING_S)
        await asyncio.sleep(_WRITING_S)
        await closing
        await engines.end_current()
        if lingers:
            await asyncio.sleep(max(0.0, self._refused_at + _LINGER_S - time.monotonic()))

    def check_open(self) -> None:
        """Raises Refused, 503, if this server shuts down and takes no new work."""
        if self.is_ending:
            raise self._shut()

    def _check_living(self) -> None:
        """Raises Refused, 503, if sandboxes are being ended, so that no run begins that nothing would end."""
        if self._is_killing:
            raise self._shut()

    def _shut(self) -> Refused:
        """Return the refusal of a server that ends, and note that its client will ask again."""
        self._refused_at = time.monotonic()
        return shutting_down()

    def standing(self) -> str:
        """What goes on now, or why no program can be run, in one line for people."""
        problem = self.problem or self.keys.problem
        if problem:
            return f"not ready: {problem}"
        return f"{len(self.sandboxes)} sandboxes, {self.turns.running} runs, {self.turns.waiting} waiting"

    async def run(
        self, key: Key, source: str, *, files: Mapping[str, bytes | str] | None = None, wire: str, **options: Any
    ) -> Ran:
        """Run one program in a fresh sandbox of its own.

        Args:
            key: Who asks.
            files: Path in the workdir to content.
            wire: Through which protocol, for the audit log.
            options: Arguments of AsyncSandbox that requests may choose, and those of its `run`.

        Raises:
            Refused: It was not run, or nobody knows how it ended.
        """
        of_box, of_run = _divided(options)
        async with self._turn(key, makes_one=True) as waited_s:
            of_box.setdefault("profile", "science" if files else None)  # as `groundbox.run` chooses
            box = self._made(key, of_box, of_run)
            try:
                self._working.add(box)
                if files:
                    expect_one_run(box)
                    await box.files.write_all(files)
                with self._watched(key, None, source, of_run, wire, waited_s) as ended:
                    return ended(await box.run_last(source, **of_run))
            except Exception as error:
                raise self._refusal(error) from error
            finally:
                self._working.discard(box)
                await box.close()

    async def stream(
        self, key: Key, source: str, *, files: Mapping[str, bytes | str] | None = None, wire: str, **options: Any
    ) -> AsyncGenerator[Event | Ran, None]:
        """`run`, with its events as they come; the last item is the Ran. Leaving early ends the run."""
        of_box, of_run = _divided(options)
        async with self._turn(key, makes_one=True) as waited_s:
            of_box.setdefault("profile", "science" if files else None)  # as `groundbox.run` chooses
            box = self._made(key, of_box, of_run)
            try:
                self._working.add(box)
                if files:
                    expect_one_run(box)
                    await box.files.write_all(files)
                events = box.stream(source, last=True, **of_run)
                told = self._told(key, None, source, of_run, wire, waited_s, events)
                async with contextlib.aclosing(
                    told
                ):  # else whoever leaves would leave the run to the garbage collector
                    async for item in told:
                        yield item
            except Exception as error:
                raise self._refusal(error) from error
            finally:
                self._working.discard(box)
                await box.close()

    def create(
        self,
        key: Key,
        *,
        wire: str,
        labels: Mapping[str, str] | None = None,
        idle_s: float | None = None,
        total_s: float | None = None,
        sandbox_id: str | None = None,
        kept_bytes: int = 0,
        **options: Any,
    ) -> Held:
        """Make a sandbox that stays. Its process is taken from the pool at its first use.

        Args:
            kept_bytes: Memory of what a wire keeps for it, about.
            options: Arguments of AsyncSandbox that requests may choose.

        Raises:
            Refused: The key may have no more, or the server has no more or shuts down.
        """
        self.check_open()
        unknown = options.keys() - _SANDBOX
        if unknown:
            raise Refused(400, "invalid_argument", f"{min(unknown)}: there is no such setting of a sandbox")
        try:
            self.sandboxes.check_room(key)
            box = self._made(key, options, {})
            own = (options.get("undo") or 0) + (options.get("rollback") is not None)
            self.sandboxes.check_checkpoints(key, own)
            if isinstance(network := options.get("network"), Network):
                kept_bytes += size_of(_plain(network))
            return self.sandboxes.add(
                key,
                box,
                kept_bytes=kept_bytes,
                labels=labels,
                idle_s=idle_s,
                total_s=total_s,
                wire=wire,
                sandbox_id=sandbox_id,
                own_checkpoints=own,
            )
        except Refused:
            raise
        except Exception as error:
            raise self._refusal(error) from error

    async def run_in(self, key: Key, held: Held, source: str, *, wire: str | None = None, **options: Any) -> Ran:
        """Run one program in a sandbox that stays.

        Raises:
            Refused: It was not run, or nobody knows how it ended.
        """
        with held.in_use() as box:
            async with self._turn_in(key, held) as waited_s:
                try:
                    with self._watched(key, held, source, options, wire or held.wire, waited_s) as ended:
                        return ended(await box.run(source, **options))
                except Exception as error:
                    raise self._refusal(error) from error

    async def stream_in(
        self,
        key: Key,
        held: Held,
        source: str,
        *,
        wire: str | None = None,
        last: bool = False,
        **options: Any,
    ) -> AsyncGenerator[Event | Ran, None]:
        """`run_in`, with its events as they come; the last item is the Ran. Leaving early ends the run.

        Args:
            last: It runs nothing more and is closed, however this ends.
        """
        with held.in_use() as box:
            async with contextlib.AsyncExitStack() as ends, self._turn_in(key, held) as waited_s:
                if last:
                    ends.push_async_callback(self.sandboxes.close, held)
                try:
                    events = box.stream(source, last=last, **options)
                    told = self._told(key, held, source, options, wire or held.wire, waited_s, events)
                    async with contextlib.aclosing(told):
                        async for item in told:
                            yield item
                except Exception as error:
                    raise self._refusal(error) from error

    async def start_in(self, key: Key, held: Held, command: str | Sequence[str], **options: Any) -> AsyncProcess:
        """Start a process in a sandbox that stays, as `AsyncSandbox.start` does.

        It is counted as a run when it begins, and waits for a turn until then; it holds none while it lives, because
        servers live for hours.

        Raises:
            Refused: It was not started.
        """
        told: dict[str, Any] = {}
        size_bytes = _PROCESS_BYTES + size_of([command, options.get("env"), options.get("cwd"), options.get("tag")])
        with held.in_use() as box:
            async with self._turn_in(key, held, waits=not box.takes_orders):
                try:
                    if self.audit is not None:
                        self.audit.intend("process", _asker(key, held, held.wire))
                    self.sandboxes.keep(held, size_bytes, "process")
                    try:
                        process = await box.start(command, **options)
                    except BaseException:
                        self.sandboxes.forget(held, size_bytes)
                        raise
                except Exception as error:
                    refused = self._refusal(error)
                    told["outcome"] = refused.code
                    raise refused from error
                else:
                    told |= {"outcome": "started", "pid": process.pid}
                    self._forget_when_ended(held, process, size_bytes)
                    return process
                finally:
                    if self.audit is not None:
                        text = command if isinstance(command, str) else "\0".join(command)
                        facts = _asked(key, held, held.wire, text)
                        self.audit.write("process", {"outcome": "abandoned", **facts, **told})

    def _forget_when_ended(self, held: Held, process: AsyncProcess, size_bytes: int) -> None:
        async def wait() -> None:
            await process.wait()
            self.sandboxes.forget(held, size_bytes)

        task = asyncio.create_task(wait())
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    @contextlib.asynccontextmanager
    async def branching(self, key: Key, held: Held, act: str) -> AsyncIterator[dict[str, Any]]:
        """Let a sandbox that stays be copied or go back, when its earlier runs have ended; no run begins within.

        It takes a turn, counts in `runs_a_minute`, and its time is charged as processor time, because it costs as a
        run does. It is not called off when the asker goes away: half a copy would cost the sandbox its process.

        Args:
            act: `checkpoint`, `restore`, `undo` or `fork`.

        Yields:
            Facts for its line of the audit log, to be added to.

        Raises:
            Refused: It was not done.
        """
        facts: dict[str, Any] = {}
        with held.in_use():
            async with self._turn_in(key, held, is_run=False):
                begun, outcome = time.monotonic(), "abandoned"
                try:
                    self.check_branching()
                    if self.audit is not None:
                        self.audit.intend(act, _asker(key, held, held.wire))
                    yield facts
                    outcome = "ok"
                except Exception as error:
                    refused = self._refusal(error)
                    outcome = refused.code
                    raise refused from error
                finally:
                    self.keys.usage(key.id).charge(cpu_s=time.monotonic() - begun)
                    self.metrics.branched(act, outcome)
                    if self.audit is not None:
                        self.audit.write(act, {**_asker(key, held, held.wire), "outcome": outcome, **facts})

    def check_branching(self) -> None:
        """Raises InvalidArgument where this server makes no sandboxes that can be copied."""
        if not self.settings.branching:
            raise InvalidArgument("branching", "is switched off on this server (--no-branching)")

    @contextlib.contextmanager
    def errors(self) -> Any:
        """Within it, errors of the engine and of the machine become refusals, and are counted."""
        try:
            yield
        except Refused:
            raise
        except Exception as error:
            raise self._refusal(error) from error

    @contextlib.asynccontextmanager
    async def _turn(self, key: Key, *, makes_one: bool = False) -> AsyncIterator[float]:
        """Wait for a turn and hold it; with `makes_one`, also the room for a sandbox that lives as long.

        Room is taken when the turn has come: what waits has no sandbox, and must not use up the room of other keys.
        """
        self.check_open()
        usage = self.keys.usage(key.id)
        if makes_one:
            usage.check_sandboxes(key.quotas)
        usage.begin_run(key.quotas)
        async with self.turns.turn(key.id) as waited_s:
            if makes_one:
                async with self.sandboxes.room(key):
                    yield waited_s
            else:
                yield waited_s

    def _made(self, key: Key, options: Mapping[str, Any], of_run: Mapping[str, Any]) -> AsyncSandbox:
        """A sandbox with settings of this server and what a request chose."""
        settings = self.settings
        chosen = dict(options)
        network = chosen.get("network")
        if isinstance(network, Network) and network.allow:
            key.require("network")
        if not isinstance(chosen.get("tools"), Tools | None):
            raise Refused(400, "invalid_argument", "tools: there is no such setting of a sandbox")
        if any(chosen.get(name) for name in _BRANCHING):
            with self.errors():
                self.check_branching()
        if names := chosen.pop("mounts", None):
            chosen["mounts"] = self._mounts(key, names)
        limits = chosen.pop("limits", None)
        wall_s = of_run.get("wall_s")
        if limits is None and isinstance(wall_s, int | float) and wall_s > 0:  # as `groundbox.run` takes it
            usual = Limits()
            limits = Limits(wall_s=wall_s, cpu_s=max(wall_s, usual.cpu_s or wall_s))
        try:
            limits = settings.checked(limits or Limits())
            chosen.setdefault("environment", settings.environment)
            box = AsyncSandbox(limits=limits, backend=settings.backend, waive=settings.waive, **chosen)
        except InvalidArgument as error:
            if error.argument != "mounts":
                raise self._refusal(error) from error
            logger.warning("files that the server shows: %s", error.problem)  # the path is the operator's
            told = f"the files {', '.join(names or ())} cannot be shown now; the log of this server says why"
            raise Refused(503, "mounts_unavailable", told, retry_after_s=60) from error
        except Exception as error:
            raise self._refusal(error) from error
        if kind_of(box) != USUAL_KIND:
            self._check_kind(key, kind_of(box))
            self._unusual[box] = key.id
        return box

    def _mounts(self, key: Key, names: Sequence[str]) -> dict[str, str]:
        """Return the files that a request names, in one order, because each order is a template of its own.

        Raises:
            Refused: The key may name none, or the operator shows nothing of such a name.
        """
        key.require("mounts")
        shown = self.settings.mounts
        if unknown := set(names) - shown.keys():
            there = f"this server shows {', '.join(sorted(shown))}" if shown else "this server shows no files"
            told = f"mounts: there is no {on_one_line(min(unknown), 80)!r}; {there}"
            raise Refused(400, "invalid_argument", told)
        return {name: shown[name] for name in sorted(set(names))}

    def _check_kind(self, key: Key, kind: Kind) -> None:
        """Raises Refused, 429, if this key would have sandboxes of too many kinds at once."""
        alive = {box for box, owner in self._unusual.items() if owner == key.id and not is_closed(box)}
        alive.update(held.box for held in self.sandboxes.list(key))  # forks among them
        used = {kind_of(box) for box in alive} - {USUAL_KIND}
        if kind not in used and len(used) >= _MOST_KINDS:
            told = f"this key has sandboxes of {_MOST_KINDS} hash seeds and sets of mounts; close some, or use theirs"
            raise Refused(429, "busy", told, retry_after_s=5)

    @contextlib.asynccontextmanager
    async def _turn_in(self, key: Key, held: Held, *, is_run: bool = True, waits: bool = True) -> AsyncIterator[float]:
        """A turn for a run in a sandbox that stays, asked for when its earlier runs have ended.

        A sandbox runs one program at a time. Those that wait for it must hold no turn meanwhile, or the requests of one
        sandbox would keep all others of the server waiting.

        Raises:
            Refused: 429, because too many wait for this sandbox, or for too long.
        """
        begun = time.monotonic()
        async with held.order(self.settings.queue_s) if waits else contextlib.nullcontext():
            waited_s = time.monotonic() - begun
            async with self._turn(key) as more_s:
                held.runs += is_run
                yield waited_s + more_s

    async def _told(
        self,
        key: Key,
        held: Held | None,
        source: str,
        options: Mapping[str, Any],
        wire: str,
        waited_s: float,
        events: AsyncGenerator[Event, None],
    ) -> AsyncGenerator[Event | Ran, None]:
        """Events of a run; the last one, with its execution, as the Ran."""
        with self._watched(key, held, source, options, wire, waited_s) as ended:
            async with contextlib.aclosing(events):
                async for event in events:
                    yield event if event.execution is None else ended(event.execution)

    @contextlib.contextmanager
    def _watched(
        self,
        key: Key,
        held: Held | None,
        source: str,
        options: Mapping[str, Any],
        wire: str,
        waited_s: float,
    ) -> Iterator[Callable[[Execution], Ran]]:
        """Watch one run: count it, charge it, keep it, and write its lines of the audit log, however it ends.

        Yields:
            To be called with its execution.
        """
        self._check_living()
        task = asyncio.current_task()
        assert task is not None
        name, facts = uuid.uuid4().hex, {}
        if self.audit is not None:
            facts = {**_asked(key, held, wire, source), "language": options.get("language", "python")}
            self.audit.begin(name, facts)
        begun, has_ended = time.monotonic(), False

        def ended(execution: Execution) -> Ran:
            nonlocal has_ended
            if self._is_killing:  # its sandbox was ended under it, and nobody must take that for the program's own end
                raise self._shut()
            has_ended = True
            if self.sandboxes.tag:
                execution = dataclasses.replace(execution, execution_id=self.sandboxes.tag + execution.execution_id)
            if held is not None and held.notes:
                execution = dataclasses.replace(execution, warnings=[*held.notes, *execution.warnings])
                held.notes.clear()
            self.runs += 1
            self.keys.usage(key.id).charge(cpu_s=execution.usage.cpu_s or 0.0)
            self.metrics.ran(execution, waited_s=waited_s)
            self.records.add(key, execution, "" if held is None else held.id, source)
            if self.audit is not None:
                self.audit.end(name, {**facts, **_audited(execution, waited_s)})
            return Ran(execution=execution, waited_s=waited_s)

        self._runs.add(task)
        try:
            yield ended
        except BaseException as error:
            if not has_ended:
                # How much it used is not known; who leaves before the end does not compute for nothing.
                self.keys.usage(key.id).charge(cpu_s=time.monotonic() - begun)
                if self.audit is not None:
                    outcome = refusal_of(error).code if isinstance(error, Exception) else "abandoned"
                    self.audit.end(name, {**facts, "outcome": outcome})
            if self._is_killing and isinstance(error, asyncio.CancelledError):  # by `end`
                task.uncancel()
                raise self._shut() from None
            raise
        finally:
            self._runs.discard(task)

    def _refusal(self, error: Exception) -> Refused:
        if isinstance(error, Refused):
            return error
        refused = refusal_of(error)
        if self._is_killing and (refused.status >= 500 or refused.code in _OF_ENDED_SANDBOXES):
            return self._shut()
        if refused.status >= 500:
            self.metrics.failed(refused.code)
            if refused.status == 500:
                logger.error("a request failed by a fault of groundbox", exc_info=error)
            else:
                logger.error("a request failed: %s", refused.message)
        return refused

    async def _warm(self) -> None:
        """Fill the pools by one run each, so that the first request pays for no template; try again while it fails."""
        while True:
            try:
                async with self._made_alone("bare") as box:
                    await box.run_last("1", mode="script")
                async with self._made_alone("science") as box:
                    execution = await box.run_last("1")
                self.problem = "" if execution.ok else f"a first program ended with {execution.outcome.value}"
                async with self._made_alone("science") as box:  # sandboxes that stay have a pool of their own
                    await box.run("1")
            except Exception as error:
                self.problem = refusal_of(error).message
                logger.error("no sandbox can be made: %s", self.problem)
            if not self.problem:
                return
            await asyncio.sleep(5.0)

    @contextlib.asynccontextmanager
    async def _made_alone(self, profile: str) -> AsyncIterator[AsyncSandbox]:
        settings = self.settings
        async with AsyncSandbox(
            environment=settings.environment, backend=settings.backend, waive=settings.waive, profile=profile
        ) as box:
            yield box

    def _watch(self) -> None:
        metrics = self.metrics
        metrics.watch("groundbox_sandboxes", "Sandboxes that live now.", lambda: len(self.sandboxes))
        metrics.watch("groundbox_checkpoints", "Checkpoints that are kept now.", lambda: self.sandboxes.checkpoints)
        metrics.watch(
            "groundbox_kept_bytes", "Memory of what is kept for keys, about.", lambda: self.ledger.total_bytes
        )
        if (audit := self.audit) is not None:
            metrics.watch(
                "groundbox_audit_lost_lines", "Lines of the audit log that were lost.", lambda: audit.lost_total
            )
        metrics.watch("groundbox_runs_running", "Runs that go on now.", lambda: self.turns.running)
        metrics.watch("groundbox_runs_waiting", "Runs that wait for a turn.", lambda: self.turns.waiting)
        metrics.watch("groundbox_started_seconds", "When this server was started.", lambda: self.begun)


@dataclasses.dataclass(eq=False, slots=True)
class _Reply:
    """A request that is or was carried out under a name.

    Attributes:
        waiting: Callers that wait for it; when the last one goes away, it is called off.
    """

    begun: float
    digest: str
    task: asyncio.Task[Any]
    waiting: int = 0
    size_bytes: int = 0


class Replies:
    """Replies by `Idempotency-Key`, so that a repeated request gets the same one and runs nothing again.

    A repetition that comes while the first is carried out waits for it with the first caller, and goes on waiting when
    that one goes away. A refusal by 429 or 5xx is not kept: nothing ran, and the next attempt may.
    """

    def __init__(
        self,
        kept_s: float,
        *,
        most: int = 10_000,
        most_bytes: int = 256 * 1024 * 1024,
        ledger: Ledger | None = None,
    ) -> None:
        self._kept_s, self._most, self._most_bytes = kept_s, most, most_bytes
        self._ledger = ledger or Ledger(lambda: most_bytes)
        self._ledger.forget_by(self._forget_oldest)
        self._replies: dict[tuple[str, str], _Reply] = {}
        self._of_keys: dict[str, dict[str, _Reply]] = {}
        self._bytes: collections.Counter[str] = collections.Counter()

    async def once(self, key: Key, name: str | None, request: bytes, work: Callable[[], Awaitable[Any]]) -> Any:
        """The reply to this request of this name, made by `work` if there is none yet.

        Raises:
            Refused: 422 where the name was used for another request.
        """
        if not name:
            return await work()
        if len(name) > 255:
            raise Refused(400, "invalid_argument", "Idempotency-Key: has more than 255 characters")
        self._drop_old()
        digest = hashlib.sha256(request).hexdigest()
        reply = self._replies.get((key.id, name))
        if reply is None:
            task = asyncio.ensure_future(_waited(work()))
            reply = self._replies[key.id, name] = _Reply(time.monotonic(), digest, task)
            self._of_keys.setdefault(key.id, {})[name] = reply
            task.add_done_callback(functools.partial(self._ended, (key.id, name), reply))
        elif reply.digest != digest:
            raise Refused(422, "idempotency_key_reused", "this Idempotency-Key was used for another request")
        reply.waiting += 1
        try:
            await asyncio.wait((reply.task,))
        finally:
            reply.waiting -= 1
            if not reply.waiting and not reply.task.done():
                if self._replies.get((key.id, name)) is reply:
                    self._forget(key.id, name)
                reply.task.cancel()
                await asyncio.wait((reply.task,))
        told = reply.task.result()
        if isinstance(told, Refused):
            raise told.again()
        return told

    def _ended(self, name: tuple[str, str], reply: _Reply, task: asyncio.Task[Any]) -> None:
        if self._replies.get(name) is not reply:
            return
        told = None if task.cancelled() or task.exception() is not None else task.result()
        if told is None or (isinstance(told, Refused) and (told.status >= 500 or told.status == 429)):
            self._forget(*name)
            return
        key_id, size_bytes = name[0], size_of(told) + _REPLY_BYTES
        try:
            self._ledger.take(key_id, size_bytes, "Idempotency-Key")
        except Refused:  # a repetition runs it again, which is better than to keep what is too much
            self._forget(*name)
            return
        reply.size_bytes = size_bytes
        self._bytes[key_id] += size_bytes
        self._drop_old()

    def _drop_old(self) -> None:
        """Forget what is too old, and of what is too much the oldest of the key that has most of it.

        What still goes on stays. It is called twice for each request, so no more is looked at than is forgotten or
        still goes on.
        """
        before = time.monotonic() - self._kept_s
        old = []
        for name, reply in self._replies.items():
            if reply.begun >= before:
                break
            if reply.task.done():
                old.append(name)
        for name in old:
            self._forget(*name)
        while len(self._replies) > self._most:
            if not self._forget_oldest(max(self._of_keys, key=lambda each: len(self._of_keys[each]))):
                break
        while self._bytes.total() > self._most_bytes:
            if not self._forget_oldest(max(self._bytes, key=lambda each: self._bytes[each])):
                break

    def _forget_oldest(self, key_id: str) -> bool:
        """Forget the oldest reply of a key that is complete. Returns False if there is none."""
        for name, reply in self._of_keys.get(key_id, {}).items():
            if reply.task.done():
                self._forget(key_id, name)
                return True
        return False

    def _forget(self, key_id: str, name: str) -> None:
        reply = self._replies.pop((key_id, name))
        own = self._of_keys[key_id]
        del own[name]
        if not own:
            del self._of_keys[key_id]
        if reply.size_bytes:
            self._bytes[key_id] -= reply.size_bytes
            self._ledger.give_back(key_id, reply.size_bytes)


async def _waited(work: Awaitable[Any]) -> Any:
    """What it gives; a refusal is given, too, so that everyone who waits can raise one of their own."""
    try:
        return await work
    except Refused as refused:
        return refused.again()


def _plain(network: Network) -> dict[str, Any]:
    return {"allow": list(network.allow), "headers": {host: dict(each) for host, each in network.headers.items()}}


def _asker(key: Key, held: Held | None, wire: str) -> dict[str, Any]:
    """Facts of the audit log about who asked, and for which sandbox."""
    return {"key": key.id, "owner": key.owner, "wire": wire, "sandbox": "" if held is None else held.id}


def _asked(key: Key, held: Held | None, wire: str, source: str) -> dict[str, Any]:
    """Facts of the audit log about what was asked for, and by whom."""
    data = source.encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(data).hexdigest()
    return {**_asker(key, held, wire), "source_sha256": digest, "source_bytes": len(data)}


def _divided(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments of the sandbox, and those of the run."""
    of_box = {name: value for name, value in options.items() if name in _SANDBOX}
    return of_box, {name: value for name, value in options.items() if name not in _SANDBOX}


def _audited(execution: Execution, waited_s: float) -> dict[str, Any]:
    usage = execution.usage
    facts: dict[str, Any] = {
        "execution": execution.execution_id,
        "outcome": execution.outcome.value,
        "exit_code": execution.exit_code,
        "exit_signal": execution.exit_signal,
        "trust": execution.trust,
        "queue_s": round(waited_s, 6),
        "wall_s": round(usage.wall_s, 6),
        "cpu_s": usage.cpu_s,
        "peak_memory_bytes": usage.peak_memory_bytes,
        "warnings": [warning.code for warning in execution.warnings],
        "missing_layers": list(execution.isolation.missing),
    }
    if execution.error is not None:
        facts["error_type"] = execution.error.type
    if execution.tool_calls is not None:
        facts["tool_calls"] = execution.tool_calls.total
    return facts
