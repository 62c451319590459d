"""Checkpoints, undo and forks of one live sandbox (docs/branching.md).

A checkpoint is a copy of the guest's memory, made by the kernel and kept by a process that no guest reaches
(template/branches.py), with parts: files in memory that hold the bytes of the guest's files at that moment. Checkpoints
that follow one another share parts. To go back, the sandbox's process is ended and another one is made of the copy;
to fork, others are made with files, a user id and a control group of their own.

What a guest says of itself here is a claim. That nothing but its one thread runs is asked of its control group, and
that it shares no memory is looked up by the template in the copy, in which nothing runs.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import functools
import os
import stat
import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from groundbox.errors import CheckpointLost, InvalidArgument, SandboxBusy, SandboxClosed, SandboxLost
from groundbox.execution import Execution, Outcome, Warning
from groundbox.jail.cgroup import Cgroup
from groundbox.sandbox import engine as engines
from groundbox.sandbox.memfile import seal_all
from groundbox.sandbox.options import Rollback

if TYPE_CHECKING:
    from groundbox.sandbox.sandbox import AsyncSandbox
    from groundbox.sandbox.template import Kept, Template
    from groundbox.sandbox.worker import Worker

MOST_KEPT: Final = 256
"""Checkpoints of one sandbox that live at the same time; each is a process."""
MOST_FORKS: Final = 64
_MOST_PARTS: Final = 3  # as guest/snapshots.py
_ANSWER_S: Final = 30.0
_LOOKS: Final = 10
_LOOK_S: Final = 0.005
_SPARE_AFTER_S: Final = 0.01
_SPARE_SHARE: Final = 0.75
"""Of its memory, which a sandbox may use for there to be a spare: at the limit, what runs is ended for a copy."""


class Part:
    """Owns a file in memory with bytes of files. It is closed with the last checkpoint that needs it.

    Only the worker that writes it has this descriptor, too. Others get one of their own to read from: an open file has
    one place for all who have it, which any of them sets and the others read.
    """

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("groundbox-files", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.fchmod(self.descriptor, stat.S_IRUSR)  # extended attributes would be left for others by who may write

    def __del__(self) -> None:
        os.close(self.descriptor)


class Checkpoint:
    """The state of a sandbox at one moment: variables, files, environment and current folder.

    It holds memory, which counts as memory of its sandbox, until it is dropped, nobody has this object any more, or
    the sandbox is closed.
    """

    def __init__(
        self, loan: engines.Loan, kept: Kept, group: Cgroup, parts: Sequence[Part], *, spoiled: bool, used: bool
    ) -> None:
        self._loan, self._template, self._kept, self._group = loan, loan.template, kept, group
        self._copies = [kept]
        self._parts = tuple(parts)
        self._spoiled, self._used = spoiled, used
        self._loop = asyncio.get_running_loop()
        self._dropped = ""

    @property
    def lost(self) -> str:
        """Why it can no longer be gone back to; empty as long as it can."""
        return self._dropped or self._kept.refusal

    def drop(self) -> None:
        """Give back what it holds. Idempotent; may be called from any thread."""
        if not self._dropped:
            self._let_go("it was dropped")

    def _let_go(self, why: str) -> None:
        self._dropped, self._parts = self._dropped or why, ()
        with contextlib.suppress(RuntimeError):  # the loop is closed, and with it went the template
            self._loop.call_soon_threadsafe(_drop_all, self._template, self._copies)

    def __del__(self) -> None:
        if not self._dropped:
            self._let_go("nobody had it")


class Branches:
    """What one sandbox keeps of its past. A friend of AsyncSandbox, whose process it exchanges."""

    def __init__(self, box: AsyncSandbox, *, undo: int, rollback: Rollback | None) -> None:
        """Args:
        undo: How many states before a run are kept without being asked for.
        rollback: `on_error` for going back to the state before a run that has failed.
        """
        self._box = box
        self._rollback = rollback
        self._not_copied = "it could not be copied"
        self._parts: tuple[Part, ...] = ()
        self._made: weakref.WeakSet[Checkpoint] = weakref.WeakSet()
        self._spare = _Spare(box)
        self._before: collections.deque[Checkpoint | SandboxBusy] = collections.deque(maxlen=undo)

    async def checkpoint(self) -> Checkpoint:
        """See AsyncSandbox.checkpoint."""
        async with self._box.lock:
            state = await self._take()
        self._spare.make_soon(state)
        return state

    async def restore(self, checkpoint: Checkpoint) -> None:
        """See AsyncSandbox.restore."""
        if not isinstance(checkpoint, Checkpoint):
            raise InvalidArgument("checkpoint", f"must be a Checkpoint, not of type {type(checkpoint).__name__}")
        if checkpoint.lost:
            raise CheckpointLost(checkpoint.lost)
        if checkpoint not in self._made:
            raise InvalidArgument("checkpoint", "is one of another sandbox")
        async with self._box.lock:
            await self._go_back(checkpoint)
        self._spare.make_soon(checkpoint)

    async def undo(self, count: int) -> None:
        """See AsyncSandbox.undo."""
        check_count(count)
        if not self._before.maxlen:
            raise InvalidArgument("undo", "this sandbox keeps no states by itself; make it with Sandbox(undo=8)")
        async with self._box.lock:
            self._box._check_open()
            if count > len(self._before):
                raise InvalidArgument("n", f"is {count}, and {len(self._before)} states are kept")
            aim = self._before[-count]
            if isinstance(aim, SandboxBusy):
                raise SandboxBusy(f"the state before that run was not kept ({aim.why})")
            for _ in range(count):
                self._before.pop()
            await self._go_back(aim, last=True)

    async def fork(self, count: int) -> list[AsyncSandbox]:
        """See AsyncSandbox.fork."""
        check_count(count, most=MOST_FORKS)
        async with self._box.lock:
            state = await self._take(fork=True)
            made: list[AsyncSandbox] = []
            state._group.count_keepers(1)  # each copy begins in there, one after the other
            forks = [asyncio.ensure_future(self._one_fork(state, made)) for _ in range(count)]
            try:
                await asyncio.gather(*forks)
            except BaseException:
                for each in forks:
                    each.cancel()
                await asyncio.wait(forks)
                for box in made:
                    await box.close()
                if self._box._closed:  # meanwhile, and with it went what forks are made of
                    raise SandboxClosed from None
                raise
            finally:
                _uncount(state._group)
                state.drop()
        return made

    async def before_run(self) -> Checkpoint | None:
        """Keep the state that a run begins with, where that is asked for; for who holds the sandbox's lock."""
        if not self._before.maxlen and self._rollback is None:
            return None
        try:
            state: Checkpoint | SandboxBusy = await self._take()
        except SandboxBusy as busy:
            state, self._not_copied = busy, str(busy)
        if self._before.maxlen:
            self._before.append(state)
        return state if isinstance(state, Checkpoint) else None

    async def after_run(self, before: Checkpoint | None, execution: Execution) -> Execution:
        """Go back where a run has failed and that is asked for; for who holds the sandbox's lock."""
        if self._rollback is None or execution.outcome is Outcome.OK:
            return execution
        if before is None or before.lost:
            why = self._not_copied if before is None else before.lost
            return _with_warning(execution, "session.not_rolled_back", f"the state before this run is not there: {why}")
        try:
            await self._go_back(before, last=True)
        except (CheckpointLost, SandboxLost) as lost:
            return _with_warning(execution, "session.not_rolled_back", f"the state before this run is gone: {lost.why}")
        except OSError as error:  # of this host, such as no descriptors: the result is there all the same
            return _with_warning(execution, "session.not_rolled_back", f"going back could not begin: {error.strerror}")
        if self._before.maxlen:
            self._before.pop()
        told = _with_warning(execution, "session.rolled_back", "variables and files are as they were before this run")
        return dataclasses.replace(told, state="kept")

    async def after_cancelled(self, before: Checkpoint | None) -> None:
        """Go back where a run was cancelled and that is asked for; for who holds the sandbox's lock, and keeps it.

        Where it cannot be done the sandbox stays lost, as after any run that was cancelled.
        """
        if self._rollback is None or before is None or before.lost:
            return
        back = asyncio.ensure_future(self._go_back(before, last=True))
        # Whoever cancels once more waits, too: a process that is half exchanged is of no use to the next run.
        while not back.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([back])
        if back.cancelled() or back.exception() is not None:
            return
        if self._before.maxlen:
            self._before.pop()

    def forget(self) -> None:
        """The sandbox is closed: nothing of its past is kept."""
        self._spare.forget()
        self._before.clear()
        for checkpoint in list(self._made):
            checkpoint._let_go("its sandbox was closed")
        self._parts = ()

    def begin_afresh(self) -> None:
        """Another process has no snapshot of its files."""
        self._parts = ()

    async def _take(self, *, fork: bool = False) -> Checkpoint:
        loan, engine = await self._box._borrow_to_branch(), await engines.current()
        worker, group = loan.worker, loan.worker.cgroup
        assert isinstance(group, Cgroup)
        if sum(not each.lost for each in self._made) >= MOST_KEPT:
            raise SandboxBusy(f"{MOST_KEPT} checkpoints of it are kept, and no more can be")
        parts, self._parts = self._parts, ()  # until this one stands, nobody knows what the worker has written down
        parts = await self._park(worker, group, parts if len(parts) < _MOST_PARTS else ())
        group.count_keepers(1)
        engine.hold(group)
        gone = functools.partial(_one_less, engine, group)
        kept = loan.template.keep(worker, fork=fork, memory_bytes=self._box.limits.memory_bytes, on_gone=gone)
        try:
            await asyncio.wait_for(asyncio.shield(kept.answered), _ANSWER_S)
        except BaseException as error:
            loan.template.drop(kept)
            worker.kill()  # of what the kernel makes a copy at this moment, nobody knows
            if isinstance(error, TimeoutError):
                raise SandboxLost(f"it could not be copied within {_ANSWER_S:g} s") from None
            raise
        if kept.refusal:
            if self._box._closed:  # meanwhile
                raise SandboxClosed
            if not kept.busy and group.process_count() > 1:  # it was alone a moment ago, and said that it stands still
                worker.kill()
                raise SandboxLost("it started something while it was being copied")
            raise SandboxBusy(kept.refusal)
        self._parts = parts
        box = self._box
        state = Checkpoint(loan, kept, group, parts, spoiled=box._spoiled, used=box._used)
        if box._closed:  # meanwhile
            state.drop()
            raise SandboxClosed
        self._made.add(state)
        return state

    async def _park(self, worker: Worker, group: Cgroup, parts: tuple[Part, ...]) -> tuple[Part, ...]:
        """Have the worker stand still and write down its files; the parts in which they are.

        Args:
            parts: Those of the last checkpoint. Without them, all files are copied.

        Raises:
            SandboxBusy: It says that something is in the way, or the kernel does.
            SandboxClosed: Meanwhile.
        """
        new = Part()
        try:
            with _opened(parts) as readable:
                done = await worker.order({"op": "park"}, [new.descriptor, *readable])
        except SandboxLost:
            if self._box._closed:  # meanwhile
                raise SandboxClosed from None
            raise
        if not done.ok:
            raise SandboxBusy(done.reason)
        if not seal_all(new.descriptor):
            raise SandboxBusy("it shares or has sealed the file that its files are copied into")
        for _ in range(_LOOKS):  # a process that has just ended may be there for a moment
            if group.process_count() <= 1:
                return (*parts, new) if os.fstat(new.descriptor).st_size else parts
            await asyncio.sleep(_LOOK_S)
        raise SandboxBusy("another process or thread runs")

    async def _go_back(self, to: Checkpoint, *, last: bool = False) -> None:
        """End the process, and have another one that is as the checkpoint is. Its files are put back by itself.

        Args:
            last: Whether the checkpoint is used up by it.
        """
        box, engine, group = self._box, await engines.current(), to._group
        box._check_open()
        if to.lost:
            raise CheckpointLost(to.lost)
        loan, parts = box._loan, to._parts  # which another thread may drop meanwhile
        old = None if loan is None else loan.worker
        is_same = old is not None and old.cgroup is group and old.ended is None
        spare = self._spare.taken(to)
        group.count_keepers(1)
        try:
            worker = to._template.branch(
                spare or to._kept, cgroup=group, on_end=engine.ended, fresh=False, last=last or spare is not None
            )
        except BaseException:  # no descriptors are left: what is there goes on, in its group
            group.count_keepers(-1)
            if spare is not None:
                to._template.drop(spare)
            raise
        engine.revive(group)
        if old is not None:
            if is_same:
                old.cgroup = None  # the group goes on with the next one
            old.kill()
        try:
            await worker.ready()
            if old is not None:
                await old.stopped()
            await _unpack(worker, to._template, parts, cpu_s=box.limits.cpu_s, fork=False)
            if old is not None:
                await old.wait()  # what it held counts to the same limits
        except SandboxLost as failed:
            worker.kill()
            await worker.wait()
            if box._closed:  # meanwhile
                raise SandboxClosed from None
            box._lost = f"going back to a checkpoint failed: {failed.why}"
            raise SandboxLost(box._lost) from None
        except BaseException:
            worker.kill()
            box._lost = "going back to a checkpoint was cancelled"
            raise
        finally:
            if is_same:
                _uncount(group)
        await box._go_on_with(to._loan._replace(worker=worker), spoiled=to._spoiled, used=to._used)
        self._parts = parts
        if last:
            to._dropped, to._parts = "it was gone back to", ()

    async def _one_fork(self, state: Checkpoint, made: list[AsyncSandbox]) -> None:
        box, engine = self._box, await engines.current()
        worker = state._template.branch(
            state._kept, cgroup=engine.new_group(box.limits), on_end=engine.ended, fresh=True
        )
        try:
            await worker.ready()
            await _unpack(worker, state._template, state._parts, cpu_s=box.limits.cpu_s, fork=True)
            fork = await box._like_this(state._loan._replace(worker=worker), spoiled=state._spoiled, used=state._used)
        except BaseException:
            worker.kill()
            raise
        fork._branches._parts = state._parts
        made.append(fork)


class _Spare:
    """One more copy of the checkpoint that a sandbox took or went back to last, made while nobody waits for it.

    Going back uses it up, which takes half the time: the kernel has copied the page tables already. Who takes
    checkpoints one after the other, or goes back at once, pays for no copy but those.
    """

    def __init__(self, box: AsyncSandbox) -> None:
        self._box = weakref.ref(box)
        self._of: weakref.ref[Checkpoint] | None = None
        self._kept: Kept | None = None
        self._soon: asyncio.TimerHandle | None = None
        self._making: asyncio.Task[None] | None = None

    def make_soon(self, of: Checkpoint) -> None:
        """Have one of this checkpoint, and of no other, when nothing was done for a moment."""
        self.forget()
        self._soon = of._loop.call_later(_SPARE_AFTER_S, self._begin, weakref.ref(of))

    def forget(self) -> None:
        """Make none, and let go of the one that there is."""
        if self._soon is not None:
            self._soon.cancel()
        if self._making is not None:
            self._making.cancel()
        of, kept = None if self._of is None else self._of(), self._kept
        if of is not None and kept in of._copies:
            of._copies.remove(kept)
            of._template.drop(kept)
        self._soon = self._making = self._of = self._kept = None

    def taken(self, of: Checkpoint) -> Kept | None:
        """That of this checkpoint, which is the caller's now; None where there is none."""
        kept = self._kept
        if self._of is None or self._of() is not of or kept is None or kept.refusal:
            return None
        self._of = self._kept = None
        of._copies.remove(kept)
        return kept

    def _begin(self, reference: weakref.ref[Checkpoint]) -> None:
        self._making = asyncio.ensure_future(self._make(reference))

    async def _make(self, reference: weakref.ref[Checkpoint]) -> None:
        """Where it cannot be made, going back makes its copy itself."""
        if (box := self._box()) is None:
            return
        async with box.lock:  # or a copy for somebody who waits might wait for this one
            of = reference()
            if of is None or of.lost or box._closed:
                return
            engine, group, most_bytes = await engines.current(), of._group, box.limits.memory_bytes
            is_counted = False

            def gone() -> None:
                if is_counted:
                    _uncount(group)
                engine.let_go(group)

            with contextlib.suppress(OSError):  # its group may have ended, and with it all that was in there
                if most_bytes is not None and group.memory_bytes() > _SPARE_SHARE * most_bytes:
                    return
                group.expect_keepers(1)
                engine.hold(group)
                kept = of._template.keep(of._kept, fork=False, memory_bytes=None, on_gone=gone)
                of._copies.append(kept)
                self._of, self._kept = reference, kept
                del of  # it may be dropped meanwhile
                try:
                    await asyncio.wait([kept.answered], timeout=_ANSWER_S)
                finally:
                    group.expect_keepers(-1)
                if kept.answered.done() and not kept.refusal:
                    is_counted = True
                    group.count_keepers(1)


def check_count(count: int, *, most: int | None = None) -> None:
    """Raise InvalidArgument where this is no number of states or forks."""
    if type(count) is not int or count < 1 or (most is not None and count > most):
        to = "on" if most is None else f"to {most}"
        raise InvalidArgument("n", f"must be a whole number from 1 {to}, not {count!r}")


@contextlib.contextmanager
def _opened(parts: Sequence[Part]) -> Iterator[list[int]]:
    """Descriptors of their own for one worker, which share nothing but the bytes with those of others."""
    opened: list[int] = []
    try:
        for part in parts:
            opened.append(os.open(f"/proc/self/fd/{part.descriptor}", os.O_RDONLY | os.O_CLOEXEC))
        yield opened
    finally:
        for descriptor in opened:
            os.close(descriptor)


async def _unpack(
    worker: Worker, template: Template, parts: Sequence[Part], *, cpu_s: float | None, fork: bool
) -> None:
    """Let a copy put its files as they were; find them, and take them as known, in a thread when there are many.

    Args:
        cpu_s: What may be used by what it runs besides, as after a run.

    Raises:
        SandboxLost: It cannot, or has ended.
    """
    order = {"op": "unpack", "fork": fork}
    found = asyncio.ensure_future(template.find_workdir(worker))  # meanwhile: where there is a folder now, it stays
    try:
        with _opened(parts) as readable:
            done = await worker.order(order, readable, cpu_s=cpu_s)
        if not done.ok:
            raise SandboxLost(done.reason)
    finally:
        await asyncio.wait([found])  # whose descriptor somebody has to take
        missing = found.exception()
    if missing is not None:  # something else was in its place
        await template.find_workdir(worker)
    assert worker.workdir is not None
    await asyncio.to_thread(worker.workdir.note) if worker.workdir.is_crowded() else worker.workdir.note()


def _drop_all(template: Template, copies: Sequence[Kept]) -> None:
    for kept in copies:
        template.drop(kept)


def _one_less(engine: engines.Engine, group: Cgroup) -> None:
    _uncount(group)
    engine.let_go(group)


def _uncount(group: Cgroup) -> None:
    """One keeper less is in there. That the group has ended with its sandbox or its engine is no error."""
    with contextlib.suppress(OSError):
        group.count_keepers(-1)


def _with_warning(execution: Execution, code: str, message: str) -> Execution:
    warning = Warning(code=code, tier="note", message=message)
    return dataclasses.replace(execution, warnings=(*execution.warnings, warning))
