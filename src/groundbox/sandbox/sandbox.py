"""A sandbox: one isolated process tree with its workdir, kept alive between runs."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import hashlib
import os
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, SupportsIndex, TypeVar, Unpack, cast

from groundbox.errors import GuestFileError, HostExhausted, InvalidArgument, SandboxClosed, SandboxLost, TracerMissing
from groundbox.execution import (
    Artifact,
    Artifacts,
    Display,
    Event,
    Execution,
    Isolation,
    Outcome,
    Usage,
    Warning,
)
from groundbox.jail import enter
from groundbox.limits import Limits
from groundbox.network import Network
from groundbox.sandbox import answers, catalog, languages, options
from groundbox.sandbox import engine as engines
from groundbox.sandbox.ahead import HostWork
from groundbox.sandbox.aide import Aide
from groundbox.sandbox.branching import Branches, Checkpoint
from groundbox.sandbox.decoding import decoded_trace
from groundbox.sandbox.egress.addresses import permits
from groundbox.sandbox.egress.proxy import EgressProxy
from groundbox.sandbox.egress.refusal import Refusal
from groundbox.sandbox.feed import Feed
from groundbox.sandbox.files import MOST_BYTES, AsyncFiles
from groundbox.sandbox.guestfiles import AsyncGuestFiles
from groundbox.sandbox.inspection.inspector import inspected
from groundbox.sandbox.mounts import Mount, checked_mounts
from groundbox.sandbox.orders import finished, ordered
from groundbox.sandbox.outcome import (
    DISK_FULL,
    failure_of,
    judge,
    lacked_of_the_host,
    limit_cut,
    refused_hosts,
    restarted,
    trust_of,
    warnings_of,
    why_lost,
)
from groundbox.sandbox.process import AsyncProcess, Processes
from groundbox.sandbox.program import checked, trace_options
from groundbox.sandbox.report import Listener, Load, Report
from groundbox.sandbox.telemetry import watched
from groundbox.sandbox.variables import checked_variables
from groundbox.sandbox.workdir import Collected, MadeFile, Workdir
from groundbox.sandbox.worker import Worker
from groundbox.suggestions import refuse_unknown
from groundbox.trace_options import TraceOptions

if TYPE_CHECKING:
    from groundbox.sandbox.bridge.bridge import Bridge
    from groundbox.sandbox.bridge.session import Session
    from groundbox.sandbox.bridge.tools import Grant
    from groundbox.tracer import TraceMemory, Tracer

T = TypeVar("T")

_USUAL_LIMITS: Final = Limits()
_NO_NETWORK: Final = Network()
_OF_PYTHON: Final = frozenset({"cell", "call", "calls", "sql", "script"})
"""Kinds of runs after which cells and scripts are likely to follow."""
_HAND_OVER_S: Final = 5.0  # for the guest to take what the host brought in the time of the run
_LEFT_OUT: Final = {"count": "over the 10,000 files that are listed", "not a regular file": "links and the like"}
_READ_AT_ONCE_BYTES: Final = 2 * 1024 * 1024


class AsyncSandbox:
    """Runs programs in one jailed process tree; variables and files stay until it is closed.

    The process is taken from the pool at the first use, not here. One run at a time; a second waits.
    """

    @options.spelled_out(options.SandboxOptions)
    def __init__(self, **given: Unpack[options.SandboxOptions]) -> None:
        """Prepare a sandbox; nothing is started yet.

        Args:
            limits: What it may use; None for the usual `Limits()`.
            network: What it may reach; None for nothing.
            environment: The packages that guests import (docs/environments.md).
            backend: How the wall is built: `namespaces`, or `landlock` for plain containers; `bare` is none.
            profile: Which libraries are imported already, `bare` or `science`, or `node` for none and a Node that
                waits for JavaScript cells; None chooses by the first program.
            waive: Layers to do without, by the names that `groundbox doctor` prints. Every result
                then lists them as missing.
            hash_seed: Fixes the guest's string hashing; None for a random one.
            databases: What SQL may ask by `database=NAME` (docs/sql.md): names to
                `groundbox.databases.database.Database`, or names alone, which `databases.toml` describes. Credentials
                stay on the host.
            inspect: Whether results tell what their files are (`Artifact.facts`, docs/artifacts.md). Takes another
                sandbox for a moment where a run leaves documents, tables or large pictures.
            tools: What Python code may call on the host (docs/tools.md): functions, `groundbox.tools.Tool`, or a
                `groundbox.tools.Tools` with quotas, approval and a log.
            branching: Whether it can be copied while it lives, by `checkpoint` and `fork` (docs/branching.md). Implied
                by `undo` and `rollback`, and by a `checkpoint` before anything else.
            undo: How many states before a run are kept, the last ones, for `undo` to go back to.
            rollback: `on_error`: after a run that failed, variables and files are as they were before it.
            engine: Of `Sandbox` and `run`: `own` for this process, `background` for the engine that programs and
                commands of this user share. None is `own` for a sandbox, and for `run` the engine in all it can do.
            mounts: Names to files and folders of the host, which programs read at `/inputs/NAME` and which are not
                copied. The first sandbox with them starts a process of its own kind. Not on servers.
            env: Environment variables of all its programs, at most 256 with 64 KiB. They are written to no log.
            restart: `auto` lets a run begin afresh, with the same files, where an earlier one ended the process, and
                tells so in a warning. None or `never`: such a run raises SandboxLost.

        Raises:
            InvalidArgument: An argument cannot be meant. `UnknownArgument`, where there is none of that name.
        """
        refuse_unknown("Sandbox()", given, options.SANDBOX)
        options.check(given)
        if given.get("engine") == "background":
            raise InvalidArgument("engine", "must be 'own' here; groundbox.connect('engine') has other AsyncSandboxes")
        tools = given.get("tools")
        self.limits = _of_kind("limits", given.get("limits"), Limits) or _USUAL_LIMITS
        self.network = _of_kind("network", given.get("network"), Network) or _NO_NETWORK
        self.files = AsyncFiles(self)
        self.guest_files = AsyncGuestFiles(self)
        self._processes = Processes(self)
        self._given = given
        self._branches = Branches(self, undo=given.get("undo", 0), rollback=given.get("rollback"))
        self._branching = bool(given.get("branching") or given.get("undo") or given.get("rollback"))
        self._environment = given.get("environment", options.DEFAULTS["environment"])
        self._backend = given.get("backend", options.DEFAULTS["backend"])
        self._profile = profile = given.get("profile", options.DEFAULTS["profile"])
        self._waive, self._hash_seed = frozenset(given.get("waive", ())), given.get("hash_seed")
        self._host_work = HostWork(given.get("databases", ()))
        self._mounts = checked_mounts(given.get("mounts"), is_root=os.geteuid() == 0)
        self.environ = checked_variables(given.get("env"))
        self._inspect = given.get("inspect", True)
        self._is_watched = True
        self._is_kept = True
        self._restart = _checked_restart(given.get("restart"))
        self._bridge = _bridge(tools) if tools else None
        self._loan: engines.Loan | None = None
        self._borrowing = asyncio.Lock()
        self._proxy: EgressProxy | None = None
        self._refused: dict[Refusal, int] = {}
        self._lock = asyncio.Lock()
        self._aide: Aide | None = None
        self._uses_aide = False
        self._aide_settled = asyncio.Event()
        self._aide_settled.set()
        self._closed = False
        self._lost: str | None = None
        self._programs_file = ""
        self._spoiled = False
        self._start_s = 0.0
        self._runs = 0
        self._used = False
        self._python: str | None = None
        self._isolation: Isolation | None = None
        self._setup(profile or "bare")

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Refuse `copy` and `pickle`: a copy would share descriptors and close them under the other."""
        raise TypeError(
            f"a {type(self).__name__} is a live process, and is neither copied nor pickled; its Executions can be"
        )

    async def __aenter__(self) -> AsyncSandbox:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @options.spelled_out(options.RunOptions)
    async def run(self, source: str, **given: Unpack[options.RunOptions]) -> Execution:
        """Run one program and return what happened.

        Args:
            source: The program, at most 8 MiB.
            language: `python`, `sql`, `shell`, `javascript`, `dot`, or one that another package brings.
            mode: By default the first of the language's own: a cell for Python, a script for shell.
            argv: Arguments of a script.
            stdin: Standard input of a script.
            filename: What messages call it; by default `main` with the language's ending.
            call: With `mode="call"`, the function that is called after the module has run, with `args` and
                `kwargs`: plain Python data, handed over as data. Its result is the value. With `mode="calls"`, it is
                called once for each item of `args`, each time in a module made anew, and told of a call when it has
                answered the one before; `groundbox.sandbox.answers.read` reads what came of them.
            args: Of that call; a script's arguments are `argv`. With `mode="calls"`, pairs `([by place], {by name})`.
            kwargs: Of that call, by name.
            trace: Record what the program does (docs/trace.md); True for the usual options.
            wall_s: A shorter limit for this run alone, in seconds.
            restart: `auto`: begin afresh, with the same files, where an earlier run ended the process; a warning
                says so. None for what the sandbox was made with.
            checks: Of Python: watch for what may make a result wrong (docs/checks.md).
            call_wall_s: Of Python with `mode="calls"`: how long each call may take.
            call_cpu_s: Of Python with `mode="calls"`: how much processor time each call may use.
            namespace: Of Python's cells: a name for variables of their own, which all cells of this name share, with
                a `__main__` and a current folder. Modules and the environment belong to the process, as always.
            dialect: Of SQL: `duckdb` or `sqlite`.
            database: Of SQL: one of the sandbox's `databases`, asked instead.
            max_tokens: Of SQL: how long the answer to DESCRIBE ALL may be.
            aside: Of SQL: leave the variables `result` and `_sql` alone.
            cwd: Of shell: the folder it runs in.
            env: Of Python and shell: environment variables for this run, besides those of the sandbox.
            keep_processes: Of shell: whether what it leaves running lives on.

        Raises:
            InvalidArgument: An argument cannot be meant; nothing ran.
            LanguageUnavailable: The language is not installed; nothing ran.
            SandboxLost: An earlier run ended the process; `restart` first, or ask for `restart="auto"`.
            SandboxUnavailable: A layer of the wall cannot stand here; nothing ran.
        """
        return await self._run(_asked(source, given), None, last=False)

    @options.spelled_out(options.RunOptions)
    async def run_last(self, source: str, **given: Unpack[options.RunOptions]) -> Execution:
        """Run one program as the last one and close: its files are read after every process has ended.

        Takes the arguments of `run`, and raises what it raises.
        """
        asked = _asked(source, given)
        try:
            return await self._run(asked, None, last=True)
        finally:
            await self.close()

    @options.spelled_out(options.StreamOptions)
    async def stream(self, source: str, **given: Unpack[options.StreamOptions]) -> AsyncGenerator[Event, None]:
        """Run one program and yield its events as they come; the last one carries the Execution.

        Leaving the loop early cancels the run. Takes the arguments of `run`, and raises what it raises.

        Args:
            last: The sandbox runs nothing more: every process is ended before its files are read.
        """
        last = given.pop("last", False)
        asked = _asked(source, given)
        feed = Feed(self.pause_output, self.resume_output)
        task = asyncio.ensure_future(self._run(asked, feed.listener(), last=last))
        task.add_done_callback(lambda _: feed.end())
        try:
            while (event := await feed.next()) is not None:
                yield event
            yield Event(kind="end", execution=await task)
        finally:
            if not task.done():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    async def start(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bool = True,
        pty: tuple[int, int] | None = None,
        tag: str | None = None,
        shell: bool = True,
    ) -> AsyncProcess:
        """Start a program that lives beside the runs that follow, until it ends or the sandbox does.

        Waits for the run that is going on. From then on results of this sandbox are the guest's word (`trust`).

        Args:
            command: A command line for bash, or a list of a program and its arguments, which no shell takes apart.
            cwd: The folder it runs in, absolute or relative to the current one; None for that.
            env: Added to the environment.
            stdin: Whether `write` can give it standard input; else that is empty. A terminal always has it.
            pty: Rows and columns of a terminal that it runs in, as three streams and its controlling terminal.
            tag: A name of the caller's own, kept as `tag`.
            shell: Whether bash reads a `command` that is a text; False: it is the name of a program.

        Raises:
            InvalidArgument: An argument cannot be meant; nothing was started.
            GuestProcessError: The program cannot be started, or 64 live already; `errno` has the kernel's reason.
            SandboxClosed, SandboxLost, SandboxUnavailable: As `run`.
        """
        return await self._processes.start(command, cwd=cwd, env=env, stdin=stdin, pty=pty, tag=tag, shell=shell)

    def use_aide(self) -> None:
        """Let `start` and `guest_files` work while a run is under way, from the next run on.

        Without it they wait for the run. It takes one process of `process_count`, which has the current folder and the
        environment that were there before the run. If none can be had, they wait. Results of this sandbox are the
        guest's word (`trust`) from then on.
        """
        self._uses_aide = True

    @property
    def takes_orders(self) -> bool:
        """Whether small orders are carried out now, although a run may be under way."""
        return not self._lock.locked() or (self._aide is not None and self._aide.is_alive)

    @contextlib.asynccontextmanager
    async def order_taker(self) -> AsyncIterator[tuple[Worker, Aide | None]]:
        """Yield the worker when it does nothing else; during a run at once, with its aide if it has one.

        Raises:
            SandboxClosed, SandboxLost, SandboxUnavailable: As `run`.
        """
        await self._aide_settled.wait()  # an order that comes while a run gets its process waits for that alone
        aide = self._aide
        if aide is not None and aide.is_alive and self._lock.locked():
            self._check_open()
            yield aide.worker, aide
            return
        async with self._lock:
            yield await self.worker(), None

    async def checkpoint(self) -> Checkpoint:
        """Keep the state of this moment: variables, files of the workdir and of /tmp, environment, current folder.

        The sandbox goes on. Waits for a run that is under way.

        Raises:
            SandboxBusy: Something cannot be copied, such as a thread; it is named, and nothing was done.
            InvalidArgument: This sandbox was not made for it (`branching`), and has a process already.
            SandboxClosed, SandboxLost, SandboxUnavailable: As `run`.
        """
        return await self._branches.checkpoint()

    async def restore(self, checkpoint: Checkpoint) -> None:
        """Go back to a checkpoint of this sandbox, also where its process has ended since. The checkpoint stays.

        All that runs in the sandbox is ended. Random numbers go on as they would have then.

        Raises:
            CheckpointLost: It is gone; nothing was done.
            SandboxLost: Going back failed, and what was there is ended. Where `lost` is empty, it may be tried again.
            SandboxClosed: The sandbox was closed.
        """
        await self._branches.restore(checkpoint)

    async def undo(self, n: int = 1) -> None:
        """Go back to the state before the last run, or the n-th last; of a sandbox made with `undo`.

        Raises:
            InvalidArgument: So many states are not kept.
            SandboxBusy: The sandbox could not be copied before that run.
            CheckpointLost, SandboxLost: As `restore`.
        """
        await self._branches.undo(n)

    async def fork(self, n: int) -> list[AsyncSandbox]:
        """Make n sandboxes that begin with the state of this one, and have walls, limits and files of their own.

        Their random numbers differ. Each is to be closed by itself.

        Raises:
            SandboxBusy, InvalidArgument, SandboxClosed, SandboxLost, SandboxUnavailable: As `checkpoint`.
        """
        return await self._branches.fork(n)

    @property
    def processes(self) -> dict[int, AsyncProcess]:
        """The processes that were started and live, by `pid`."""
        return self._processes.by_pid

    def interrupt(self) -> bool:
        """Stop the cell that runs now, as Ctrl-C would; variables are kept.

        Returns:
            Whether there was one; between runs, and before a first one has a process, nothing is done.
        """
        self._host_work.interrupt()
        if self._loan is None or not self._lock.locked():
            return False
        self._loan.worker.interrupt()
        return True

    def pause_output(self) -> None:
        """Let the program wait instead of reading what it prints; for a consumer that is slower."""
        if self._loan is not None:
            self._loan.worker.pause_output()

    def resume_output(self) -> None:
        """Read on."""
        if self._loan is not None:
            self._loan.worker.resume_output()

    async def restart(self) -> list[str]:
        """A fresh interpreter with the same files. Variables are gone; that is the point.

        Returns:
            Files that could not be kept: too large for `disk_bytes`, or not readable. What is none of the first 10,000
            regular files is told by number, in brackets.

        Raises:
            SandboxClosed: It was closed.
        """
        self._check_open()
        async with self._lock:
            return await self._begin_afresh()

    async def _begin_afresh(self) -> list[str]:
        """`restart`, for who holds the lock."""
        old = self._loan
        self._loan, self._lost, self._spoiled, self._used = None, None, False, False
        self._branches.begin_afresh()
        if old is None:
            return []
        workdir = old.worker.workdir
        await self._let_go(old)
        await old.worker.wait()
        return [] if workdir is None else await self._carry_over(workdir)

    async def _revived(self, restart: options.Restart | None) -> Warning | None:
        """Begin afresh where the process is gone and that was asked for; what to tell of it."""
        if (restart or self._restart) != "auto":
            return None
        why, was_used = self._lost, self._used
        if why is None and self._loan is not None and self._loan.worker.has_gone:
            why = self._loan.worker.failure or "it ended between two runs"
        if why is None:
            return None
        return restarted(why, await self._begin_afresh(), variables=was_used)

    async def _carry_over(self, workdir: Workdir) -> list[str]:
        """Smallest files first, and together no more than fits: a sparse file is read as long as it says it is.

        What a listing leaves out, links and all files but the first 10,000, is not carried, and told by number.
        """
        listing = await asyncio.to_thread(workdir.list)
        lost = []
        left_bytes = self.limits.disk_bytes or MOST_BYTES
        for path, stamp in sorted(listing.files.items(), key=lambda item: (item[1].size_bytes, item[0])):
            if path == self._programs_file:
                continue
            left_bytes -= stamp.size_bytes
            if left_bytes < 0:
                lost.append(path)
                continue
            try:
                await self.files.write_back(path, workdir.read(path))
            except GuestFileError:
                lost.append(path)
        workdir.close()
        if listing.files and self._loan is not None and self._loan.worker.workdir is not None:
            await asyncio.to_thread(self._loan.worker.workdir.note)
        return [
            *lost,
            *(f"(at least {count} more: {_LEFT_OUT.get(why, why)})" for why, count in listing.skipped.items()),
        ]

    async def close(self) -> None:
        """End every process of the sandbox. Its files go when the last result that needs them goes."""
        self._closed = True
        self._host_work.close()
        self._branches.forget()
        loan, self._loan = self._loan, None
        if loan is not None:
            try:
                if not self._lock.locked():
                    await loan.worker.learn_code()
            finally:
                await self._let_go(loan)
            if not self._lock.locked():  # a run that is under way collects from it
                loan.worker.leave_workdir()

    async def worker(self) -> Worker:
        """The process behind this sandbox, taken from the pool if there is none yet.

        Raises:
            SandboxClosed, SandboxLost, SandboxUnavailable: As `run`.
        """
        return (await self._borrow(self._profile or "science")).worker

    @property
    def lock(self) -> asyncio.Lock:
        """Held during a run or an order on files."""
        return self._lock

    async def _run(self, asked: Asked, listener: Listener | None, *, last: bool) -> Execution:
        program, language, wall_s, trace = asked.program, languages.named(asked.language), asked.wall_s, asked.trace
        runtime = languages.find(language)
        languages.check_options(language, runtime, program.options)
        frame = runtime.order(program)
        frame["last"] = last
        await languages.require(language)
        recorded = trace_options(trace, language)
        limits, cut = self.limits, None
        if wall_s is not None:
            Limits(wall_s=wall_s)
            asked_s, wall_s = wall_s, wall_s if limits.wall_s is None else min(wall_s, limits.wall_s)
            if asked_s > wall_s:
                cut = limit_cut(asked_s, wall_s)
        with watched(language, program) if self._is_watched else contextlib.nullcontext() as watch:
            execution = await self._carried_out(
                program, language, runtime, frame, wall_s, recorded, listener, restart=asked.restart, last=last
            )
            if cut is not None:
                execution = dataclasses.replace(execution, warnings=(*execution.warnings, cut))
            if watch is not None:
                watch.end(execution)
        return execution

    async def _carried_out(
        self,
        program: languages.Program,
        language: str,
        runtime: languages.Runtime,
        frame: dict[str, Any],
        wall_s: float | None,
        recorded: TraceOptions | None,
        listener: Listener | None,
        *,
        restart: options.Restart | None,
        last: bool,
    ) -> Execution:
        """One run, when its turn has come; all that it is given has been checked."""
        limits = self.limits
        async with self._lock:
            self._check_open()
            revived = None if self._loan is None and self._lost is None else await self._revived(restart)
            profile = self._profile or languages.profile_for(language, program.source, program.mode)
            for_cells = not last and frame["mode"] in _OF_PYTHON
            loan = await self._borrow_with_aide(profile, traced=recorded is not None, last=last, for_cells=for_cells)
            native = "" if recorded is None else catalog.native_tracer(loan.template.recipe)
            if recorded is not None and recorded.core == "native" and not native:
                raise _no_tracer(self._environment)
            if (workdir := loan.worker.workdir) is not None and workdir.lacks_space():
                raise HostExhausted(DISK_FULL)
            before = None if last else await self._branches.before_run()
            wall_s = limits.wall_s if wall_s is None else wall_s
            ahead, ahead_s = await self._host_work.run(runtime, program, wall_s)
            if ahead is not None and wall_s is not None:
                wall_s = max(_HAND_OVER_S, wall_s - ahead_s)
            memory = None if recorded is None else _tracer().memory(recorded)
            brought = None if ahead is None else ahead.data
            try:
                session = self._session(loan, frame)
            except BaseException:
                if memory is not None:
                    os.close(memory.descriptor)
                raise
            with ordered(
                program,
                runtime,
                frame,
                limits=limits,
                wall_s=wall_s,
                loan=loan,
                listener=listener,
                memory=memory,
                native=native,
                brought=brought,
                session=session,
                environ=self.environ,
            ) as (order, studying):
                try:
                    clean = self._stays_clean(order.frame)
                    report = await loan.worker.run(order)
                    script = program.source if order.frame["mode"] == "script" else None
                    execution = await self._result(
                        loan, report, language, order.wall_s, last=last, clean=clean, script=script
                    )
                    if session is not None:
                        execution = dataclasses.replace(execution, tool_calls=await session.finished())
                    execution = await finished(runtime, program, execution, studying)
                    if ahead is not None:
                        execution = ahead.finished(execution, ahead_s)
                    if self._inspect and (execution.artifacts or execution.displays):
                        bounds = dataclasses.replace(self.limits, wall_s=order.wall_s)
                        execution = await inspected(execution, lambda limits: self._viewer(profile, limits), bounds)
                    if revived is not None:
                        execution = dataclasses.replace(execution, warnings=(revived, *execution.warnings))
                    if not last:
                        execution = await self._branches.after_run(before, execution)
                    if memory is None:
                        return execution
                    trace_read = await self._trace(memory, program, report, execution)
                    return dataclasses.replace(execution, trace=trace_read)
                except asyncio.CancelledError:
                    self._lost = self._lost or "its run was cancelled"
                    await self._branches.after_cancelled(before)
                    raise

    def _stays_clean(self, frame: Mapping[str, Any]) -> bool:
        """Whether process 1 will have run no guest code when this order is done, and so tells the truth about it.

        A cell runs in it. A program in a child cannot reach it while it runs, but what outlives the program can.
        """
        assert self._isolation is not None
        apart = frame["mode"] in ("script", "command") and "dumpable" in self._isolation.layers
        clean = apart and not self._spoiled
        self._spoiled = not clean or bool(frame.get("keep")) or "pid_ns" not in self._isolation.layers
        return clean

    def spoil(self) -> None:
        """Take no later word of process 1 for the kernel's: what is started can reach it between runs."""
        self._spoiled = True

    def _session(self, loan: engines.Loan, frame: Mapping[str, Any]) -> Session | None:
        """For a run of Python; no other language's process gets the descriptor."""
        if self._bridge is None or frame["mode"] not in ("cell", "call", "script"):
            return None
        workdir = loan.worker.workdir
        assert workdir is not None
        return self._bridge.session(workdir.read)

    def _viewer(self, profile: str, limits: Limits) -> AsyncSandbox:
        """A sandbox that sees no more than this one, from a template that runs already."""
        viewer = AsyncSandbox(
            limits=limits,
            environment=self._environment,
            backend=self._backend,
            profile=profile if profile in ("bare", "science") else "bare",
            waive=self._waive,
            hash_seed=self._hash_seed,
            inspect=False,
        )
        viewer._is_watched = False
        return viewer

    async def _trace(
        self, memory: TraceMemory, program: languages.Program, report: Report, execution: Execution
    ) -> Any:
        from groundbox.tracer import TracedRun

        assert self._python is not None
        run = TracedRun(
            source=program.source,
            filename=program.filename,
            mode=program.mode,
            call=program.call,
            args=program.args,
            kwargs=program.kwargs,
            python=self._python,
            hash_seed=self._hash_seed,
            outcome=execution.outcome.value,
            why=execution.error.message if execution.error else "",
            core=report.done.core if report.done else "",
        )
        if not memory.is_large():
            return _tracer().read(memory, run)
        return await decoded_trace(_tracer().read, memory, run)

    async def _result(
        self,
        loan: engines.Loan,
        report: Report,
        language: str,
        wall_s: float | None,
        *,
        last: bool,
        clean: bool,
        script: str | None,
    ) -> Execution:
        worker = loan.worker
        if (lacked := lacked_of_the_host(report)) is not None:  # what is left of it has no defined state
            worker.kill()
            self._lost = lacked
            raise HostExhausted(lacked)
        dead = worker.ended is not None or report.done is None or report.violation is not None
        if last or dead:
            worker.kill()
            if dead or not worker.is_alone():
                await worker.wait()
                report.ended = worker.ended
        workdir = worker.workdir
        collected = Collected([], 0) if workdir is None else await _collect(workdir)
        if dead and script is not None:
            collected, self._programs_file = _without_program(collected, script)
        if last and workdir is not None and collected.all_held:
            workdir.close()
        outcome, code, ended_by = judge(report)
        was_used, self._used = self._used, self._used or not dead
        if dead:
            self._lost = "it broke the protocol" if report.violation else why_lost(report, outcome)
        self._runs += 1
        first = self._runs == 1
        offline = self._proxy is None and "network_ns" not in self._waive
        assert self._isolation is not None
        return Execution(
            execution_id=uuid.uuid4().hex,
            language=language,
            outcome=outcome,
            exit_code=code,
            exit_signal=ended_by,
            stdout=report.stdout.text(),
            stderr=report.stderr.text(),
            dropped_bytes={
                "stdout": report.stdout.dropped_bytes,
                "stderr": report.stderr.dropped_bytes,
                "displays": report.dropped_displays,
                "artifacts": collected.dropped,
            },
            value=report.value if report.calls is None else answers.told(report, outcome),
            error=failure_of(report, outcome, self.limits, wall_s, offline=offline, beside=len(self._processes.by_pid)),
            displays=[Display(data=data) for data in report.displays],
            artifacts=Artifacts([_artifact(each) for each in collected.artifacts]),
            warnings=(
                *warnings_of(report, outcome, self.limits, offline=offline),
                *self._refusals(outcome),
            ),
            usage=Usage(
                wall_s=report.wall_s,
                cpu_s=report.cpu_s,
                peak_memory_bytes=worker.peak_memory_bytes(),
                start_s=self._start_s if first else 0.0,
                warm=loan.warm if first else True,
            ),
            isolation=self._isolation,
            state="kept" if not (last or dead) else "lost" if was_used else "ended",
            trust=trust_of(report, clean=clean),
            outputs={"stdout": report.stdout, "stderr": report.stderr},
        )

    def _refusals(self, outcome: Outcome) -> tuple[Warning, ...]:
        """What the proxy refused during a run that ended well. A failed one has its hints."""
        if self._proxy is None:
            return ()
        counts = {dataclasses.replace(each, count=0): each.count for each in self._proxy.refusals}
        new = [each for each, count in counts.items() if count > self._refused.get(each, 0)]
        self._refused = counts
        return refused_hosts(new) if new and outcome is Outcome.OK else ()

    async def _borrow(self, profile: str, *, traced: bool = False, for_cells: bool = True) -> engines.Loan:
        async with self._borrowing:  # who asks while the first is waiting for a process gets the same one
            self._check_open()
            if self._lost is not None:
                raise SandboxLost(self._lost)
            if self._loan is None:
                begun = time.monotonic()
                setup = self._setup(profile, traced=traced)
                for_cells = for_cells and self._is_kept
                self._loan = await (await engines.current()).checkout(setup, self.limits, catalog, for_cells=for_cells)
                self._python = self._loan.template.python
                self._isolation = self._wall_of(self._loan)
                self._start_s = time.monotonic() - begun
                if self._closed:  # meanwhile; who closed it found nothing to end
                    loan, self._loan = self._loan, None
                    await self._let_go(loan)
                    raise SandboxClosed
                if self._loan.worker.listener is not None:
                    self._proxy = EgressProxy(
                        self._loan.worker.listener, self.network, address_allowed=permits(self.network)
                    )
                    self._loan.worker.listener = None
                    self._refused.clear()
                    await self._proxy.start()
            elif self._loan.worker.has_gone:
                self._lost = self._loan.worker.failure or "it ended between two runs"
                raise SandboxLost(self._lost)
            return self._loan

    async def _borrow_to_branch(self) -> engines.Loan:
        """A process that can be copied; where there is none yet, one is taken that can."""
        if not self._branching and self._loan is not None:
            raise InvalidArgument("branching", "this sandbox cannot be copied; make it with Sandbox(branching=True)")
        self._branching = True
        return await self._borrow(self._profile or "science")

    async def _go_on_with(self, loan: engines.Loan, *, spoiled: bool, used: bool) -> None:
        """Have another process in place of the one that was ended."""
        self._end_beside()
        if self._loan is None:
            loan.pool.lent_elsewhere()
        else:
            self._loan.worker.leave_workdir()
        self._loan = loan
        self._lost, self._spoiled, self._used = None, spoiled, used
        if self._closed:  # meanwhile
            await self.close()
            raise SandboxClosed

    async def _like_this(self, loan: engines.Loan, *, spoiled: bool, used: bool) -> AsyncSandbox:
        """One more sandbox, made with the same arguments, that has this process."""
        made = type(self)(**self._given)
        loan.pool.lent_elsewhere()
        made._loan = loan
        made._branching, made._used, made._spoiled = True, used, spoiled
        made._python, made._isolation, made._runs = self._python, self._isolation, self._runs
        return made

    def _wall_of(self, loan: engines.Loan) -> Isolation:
        cgroup = loan.worker.cgroup is not None
        return Isolation(
            backend=self._backend,
            layers=enter.standing_layers(loan.template.plan, cgroup=cgroup),
            missing=tuple(sorted(self._waive | (set() if cgroup else {"cgroup"}))),
        )

    async def _let_go(self, loan: engines.Loan) -> None:
        if self._proxy is not None:
            await self._proxy.close()
            self._proxy = None
        self._end_beside()
        loan.worker.kill()
        loan.pool.returned()

    async def _borrow_with_aide(self, profile: str, *, traced: bool, last: bool, for_cells: bool) -> engines.Loan:
        """Borrow the process for a run, and start its aide first if there is to be one; for who holds the lock."""
        if not self._uses_aide or last:
            return await self._borrow(profile, traced=traced, for_cells=for_cells)
        self._aide_settled.clear()
        try:
            loan = await self._borrow(profile, traced=traced, for_cells=for_cells)
            if not loan.worker.is_elsewhere and (self._aide is None or not self._aide.is_alive):
                self.spoil()
                self._aide = await Aide.start(loan.worker)
            return loan
        finally:
            self._aide_settled.set()

    def _end_beside(self) -> None:
        """Take what lives beside the runs as ended, because their process ends."""
        self._processes.end()
        if self._aide is not None:
            self._aide.close()
            self._aide = None

    def _setup(self, profile: str, *, traced: bool = False) -> engines.Setup:
        network = "proxy" if self.network.allow else "loopback" if self.network.loopback else "off"
        return _checked_setup(
            environment=self._environment,
            profile=profile,
            backend=self._backend,
            waive=self._waive,
            network=network,
            hash_seed=self._hash_seed,
            traced=traced,
            branching=self._branching,
            mounts=self._mounts,
        )

    def _check_open(self) -> None:
        if self._closed:
            raise SandboxClosed


_checked_setup: Final = functools.lru_cache(maxsize=256, typed=True)(engines.Setup)
"""Checked once for all sandboxes of one kind."""


class Asked(NamedTuple):
    """One run as its caller asked for it."""

    program: languages.Program
    language: str
    wall_s: float | None
    trace: bool | TraceOptions
    restart: options.Restart | None


def expect_one_run(box: AsyncSandbox) -> None:
    """Take a process for this sandbox as for a single run, also if it is files that need the process first."""
    box._is_kept = False


def load_of(box: AsyncSandbox) -> Load | None:
    """What a sandbox holds now; None where the kernel does not count it, or while it has no process."""
    return None if box._loan is None else box._loan.worker.load()


def is_branching(box: AsyncSandbox) -> bool:
    """Whether a sandbox is made to be copied while it lives."""
    return box._branching


Kind = tuple[int | None, tuple[Mount, ...]]
USUAL_KIND: Final[Kind] = None, ()


def kind_of(box: AsyncSandbox) -> Kind:
    """Return the `hash_seed` and the mounts of a sandbox, for which templates are made; forks have their origin's."""
    return box._hash_seed, box._mounts


def is_closed(box: AsyncSandbox) -> bool:
    """Whether a sandbox was closed by whoever has it."""
    return box._closed


def check_run(source: str, given: Mapping[str, Any]) -> languages.Program:
    """Return the program of a run. Raises what AsyncSandbox.run raises for arguments that cannot be meant."""
    asked = _asked(source, given)
    runtime = languages.find(asked.language)
    languages.check_options(languages.named(asked.language), runtime, asked.program.options)
    runtime.order(asked.program)
    if asked.wall_s is not None:
        Limits(wall_s=asked.wall_s)
    return asked.program


def _asked(source: str, given: Mapping[str, Any]) -> Asked:
    """What was asked, checked as far as it can be before anything is started."""
    rest = dict(given)
    language, wall_s, trace = rest.pop("language", "python"), rest.pop("wall_s", None), rest.pop("trace", False)
    restart = _checked_restart(rest.pop("restart", None))
    return Asked(checked(source, language, **rest), language, wall_s, trace, restart)


def _checked_restart(restart: Any) -> options.Restart | None:
    if restart not in (None, "auto", "never"):
        raise InvalidArgument("restart", f"must be 'auto' or 'never', not {restart!r}")
    return cast("options.Restart | None", restart)


def _of_kind(name: str, value: T | None, kind: type[T]) -> T | None:
    if value is not None and not isinstance(value, kind):
        raise InvalidArgument(name, f"must be {kind.__name__}(…), not of type {type(value).__name__}")
    return value


async def _collect(workdir: Workdir) -> Collected:
    """The run's artifacts; in a thread when there is much to read, so that other sandboxes do not wait."""
    if workdir.is_crowded():
        return await asyncio.to_thread(workdir.collect)
    listing = workdir.list()
    if workdir.unread_bytes(listing) < _READ_AT_ONCE_BYTES:
        return workdir.collect(listing)
    return await asyncio.to_thread(workdir.collect, listing)


def _artifact(made: MadeFile) -> Artifact:
    """Return the artifact of a file that the run made."""
    fields = made._asdict()
    return Artifact(_read=fields.pop("read"), **fields)


def _without_program(collected: Collected, source: str) -> tuple[Collected, str]:
    """Leave out the file of a script whose process was ended before it could remove it (guest/programfile.py)."""
    digest = hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()
    own = next((each.path for each in collected.artifacts if each.sha256 == digest and "/" not in each.path), "")
    return collected._replace(artifacts=[each for each in collected.artifacts if each.path != own or not own]), own


def _bridge(tools: Grant) -> Bridge | None:
    """Only a sandbox with tools pays for the import of what serves them."""
    from groundbox.sandbox.bridge.bridge import Bridge
    from groundbox.sandbox.bridge.tools import granted

    given = granted(tools)
    return None if given is None else Bridge(given)


def _no_tracer(name: str) -> TracerMissing:
    """The error of a trace by the native tracer where there is none."""
    from groundbox.sandbox import environments
    from groundbox.sandbox.environments import tracer

    return TracerMissing(name, "; ".join(tracer.standing(environments.get(name)).passed_over) or "it is not ready")


def _tracer() -> Tracer:
    """Return the tracer that is installed. Only a traced run pays for its import."""
    from groundbox import tracer

    return tracer.find()
