"""The face of the tracer: start recording a program's own code, stop again.

Who does what: the caller compiles the source, calls `start`, runs `exec(code, namespace)` and perhaps
`namespace[f](*args, **kwargs)` itself, then calls `Recording.stop`. From `start` to `stop` records are appended
to `memory` (bytes 0-7: little-endian count of the bytes that are whole records, data from offset 8), so that
a process that is killed leaves what it had.
"""

from __future__ import annotations

import types
from typing import Any

from .guards import GUARDS
from .native.bridge import NativeCore, load
from .output import Output
from .plain.core import PlainCore
from .plan import Program, plan_program

NATIVE = ""
"""File of the core in C, built for this interpreter; set by whoever has one."""


_REHEARSAL_BYTES = 1 << 12
REHEARSED = """
import math
from collections import deque

class Part:
    made = 0

    def __init__(self, size, *rest, **more):
        self.size, self.rest = size, [*rest]
        Part.made += 1

    def grow(self, by=1):
        self.size += by
        self.rest.append(by)
        return self.size if self.size > 1 else None

def sizes(parts):
    for part in parts:
        yield part.size

def fail(depth):
    seen = {depth: [depth]}
    if depth == 0:
        raise ValueError(seen)
    return fail(depth - 1)

def total(parts, table=None):
    table = table or {"all": parts[0], "some": {1, 2.5}}
    for index, part in enumerate(parts):
        if part.size not in table and not index % 2:
            table[part.size] = [value for value in part.rest if value]
        else:
            table.setdefault(part.size, []).append(-math.sqrt(index))
    while parts and parts[0].size < 3:
        parts.popleft().grow(by=2)
    del table["all"]
    try:
        fail(depth=3)
    except ValueError as error:
        return sum(len(found) for found in table.values()) / len(table), f"{len(parts)} left", error.args

parts = deque(Part(n, n, n + 1) for n in range(4))
parts[1].rest.append(parts)
add = lambda n: sum(size for size in sizes(parts) if size is not parts) + n
print(add(10**20), sorted(total(parts), key=lambda item: str(item)))
"""
"""Program of all kinds of statements and values, for rehearsals and trials of the core in C."""


class Recording:
    """A trace that is being written. `core` is "native" or "plain"."""

    def __init__(self, core: Any) -> None:
        self.core: str = core.name
        self._core = core
        self._output = Output(core.printed)
        self._stopped = False

    def stop(self, *, ended: bool) -> None:
        """Stop tracing, put `sys.stdout` and `sys.stderr` back, write `end`. Later calls do nothing.

        The buffer is not touched any more when this returns.

        Args:
            ended: The program came to its end by itself, be it by an exception or `SystemExit`.
        """
        if self._stopped:
            return
        self._stopped = True
        GUARDS.end()
        self._core.stop()
        self._output.put_back()
        self._core.finish(ended=ended)

    def leave(self) -> None:
        """This is a forked child: trace no more, and write nothing."""
        self._stopped = True
        self._core.abandon()
        self._core.stop()
        self._output.put_back()

    def lost(self, why: str) -> None:
        """Write a `lost` record: the trace is not complete."""
        if not self._stopped:
            self._core.lost(why)


def start(
    code: types.CodeType,
    source: str,
    memory: Any,
    *,
    soft_events: int = 20_000,
    max_events: int = 200_000,
    core: str = "auto",
) -> Recording:
    """Trace `code` and all code objects in it from now on, in every thread.

    One recording at a time. The core in C is not used for a source that waits for the end of objects; the plain core
    is, which is slow and folds nothing, so that a long run ends at its limits.

    Args:
        code: What `compile(source, filename, "exec")` gave; the very object that will be run.
        memory: A writable buffer of bytes, such as an mmap shared with the host. Its size less 8 is `max_bytes`.
        core: "native", "plain", or "auto": the first of these that there is.

    Raises:
        ValueError: This interpreter does not have the core that was asked for.
    """
    program = plan_program(code, source)
    chosen = _core(core, program, memory, soft_events=soft_events, max_events=max_events)
    recording = Recording(chosen)
    chosen.start()
    GUARDS.watch(recording, program)
    return recording


def rehearse() -> None:
    """Do what `start` does before anything runs, for a source of our own, and forget it.

    A process that is copied does so ahead: its copies then have the core in C loaded, and code that has settled.
    What cannot be loaded is told when a recording starts.
    """
    code = compile(REHEARSED, "<rehearsal>", "exec")
    try:
        core = _core("auto", plan_program(code, REHEARSED), bytearray(_REHEARSAL_BYTES), soft_events=1, max_events=1)
    except (ImportError, OSError):
        return
    core.finish(ended=False)


def _core(wanted: str, program: Program, memory: Any, *, soft_events: int, max_events: int) -> Any:
    if wanted not in ("auto", "native", "plain"):
        raise ValueError(f"no core {wanted!r}")
    if wanted == "native" and not NATIVE:
        raise ValueError("no native core was built for this interpreter")
    if wanted != "plain" and NATIVE and program.facts.holds:
        return NativeCore(load(NATIVE), program, memory, soft_events=soft_events, max_events=max_events)
    return PlainCore(program, memory, max_events=max_events)
