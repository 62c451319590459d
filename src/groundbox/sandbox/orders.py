"""The order of one run for the worker, with the descriptors that go with it, and what the host does beside it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from groundbox.execution import Execution, Warning
from groundbox.limits import Limits
from groundbox.sandbox import engine as engines
from groundbox.sandbox import languages
from groundbox.sandbox.memfile import sealed
from groundbox.sandbox.report import GRACE_S, Calls, Listener, Order

if TYPE_CHECKING:
    from groundbox.sandbox.bridge.session import Session
    from groundbox.tracer import TraceMemory

_PROCESS_GRACE_S: Final = 2.0  # the worker itself ends who does not heed the interrupt, and has to get its turn for it


class Ordered(NamedTuple):
    """
    Attributes:
        studying: What the runtime finds out about the source meanwhile, for `finished`.
    """

    order: Order
    studying: asyncio.Future[Any] | None


@contextlib.contextmanager
def ordered(
    program: languages.Program,
    runtime: languages.Runtime,
    frame: dict[str, Any],
    *,
    limits: Limits,
    wall_s: float | None,
    loan: engines.Loan,
    listener: Listener | None,
    memory: TraceMemory | None,
    brought: bytes | None,
    native: str = "",
    session: Session | None = None,
    environ: Mapping[str, str] | None = None,
) -> Iterator[Ordered]:
    """The order, and what it needs for as long as it runs.

    Args:
        frame: What the runtime ordered; it is added to.
        memory: Where the trace goes. It is closed at the end.
        brought: What the host has for the guest.
        native: The file of the native tracer, or "".
        session: Serves its tool calls.
        environ: Variables of all programs of the sandbox; the worker takes them with its first order.
    """
    with contextlib.ExitStack() as held:
        descriptors: list[int] = []

        def hold(descriptor: int) -> None:
            held.callback(os.close, descriptor)
            descriptors.append(descriptor)

        if session is not None:
            held.callback(session.close)
        if memory is not None:
            held.callback(os.close, memory.descriptor)
        if program.stdin is not None:
            hold(sealed(program.stdin))
        if memory is not None:
            frame["trace"] = {**memory.order(), "native": native}
            descriptors.append(memory.descriptor)
        if brought is not None:
            frame["given"] = True
            hold(sealed(brought))
        if session is not None:
            frame["tools"] = True
            descriptors.append(session.descriptor)
        if environ:
            frame["set_environ"] = dict(environ)
        frame["stream"] = listener is not None
        frame["limits"] = {
            "cpu_s": limits.cpu_s,
            "memory_bytes": limits.memory_bytes,
            "private_bytes": _private_bytes(frame, limits, loan),
            "process_count": limits.process_count,
        }
        calls = frame.pop("calls", None)
        order = Order(
            frame=frame,
            descriptors=descriptors,
            wall_s=wall_s,
            cpu_s=limits.cpu_s,
            output_bytes=limits.output_bytes,
            interrupt_first=frame["mode"] != "script",
            listener=listener,
            screen=languages.optional(runtime, "screen"),
            companion=session,
            calls=None
            if calls is None
            else Calls(
                cases=calls,
                wall_s=program.options.get("call_wall_s"),
                cpu_s=program.options.get("call_cpu_s"),
            ),
            grace_s=_PROCESS_GRACE_S if frame["mode"] in languages.PROCESSES else GRACE_S,
        )
        study: languages.Study | None = languages.optional(runtime, "study")
        studying = None if study is None else asyncio.ensure_future(asyncio.to_thread(study, program))
        if studying is not None:
            held.callback(studying.cancel)
        yield Ordered(order, studying)


async def finished(
    runtime: languages.Runtime, program: languages.Program, execution: Execution, studying: asyncio.Future[Any] | None
) -> Execution:
    """With what the runtime can tell of it. A runtime that fails at that loses no result."""
    finish: languages.Finish | None = languages.optional(runtime, "finish")
    if finish is None:
        return execution
    try:
        return finish(program, execution, None if studying is None else await studying)
    except Exception as error:
        fault = Warning(
            code="language.unread",
            tier="note",
            message=f"what there is to tell of this run could not be found out: {type(error).__name__}: {error}"[:500],
        )
        return dataclasses.replace(execution, warnings=(*execution.warnings, fault))


def _private_bytes(frame: Mapping[str, Any], limits: Limits, loan: engines.Loan) -> int | None:
    """The limit of one process's private memory.

    Other languages' programs ask for far more than they use and cannot go on without it, and DuckDB's threads
    crash where memory is refused to them, so that the group's limit alone is theirs, where there is a group.
    """
    if (frame["mode"] in languages.PROCESSES or frame.get("bound_by_group")) and loan.worker.cgroup is not None:
        return None
    return limits.memory_bytes
