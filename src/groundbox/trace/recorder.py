"""groundbox's own tracer (`groundbox.tracer.Tracer`): memory for a guest to write records to, and the trace of them.

The memory has a fixed size, sealed, so that a guest can make neither it nor us grow, and is charged to the
guest that fills it. Its first eight bytes count the bytes that hold whole records; all of it is a claim, copied
before it is read, as a process of the guest may still live.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path
from typing import Any, Final

from groundbox.trace import native
from groundbox.trace.record.reading import Trace, assemble
from groundbox.trace.record.schema import Entry
from groundbox.trace_options import TraceOptions
from groundbox.tracer import Effort, Interpreter, Native, TracedRun, TraceMemory
from groundbox.values import codec

_COUNT: Final = struct.Struct("<Q")
_TAGS: Final = [[tag] for tag in ("int", "float", "complex", "bytes", "tuple", "set", "frozenset", "dict")]
"""Keys of dicts that would be taken for tagged values."""
LARGE_BYTES: Final = 32 * 1024
"""More is decoded in a thread, so that other sandboxes do not wait."""


class RecordMemory:
    """Memory of a fixed size. Its descriptor is the caller's to close."""

    def __init__(self, options: TraceOptions) -> None:
        self.options = options
        self._size = _COUNT.size + options.max_bytes
        self.descriptor = os.memfd_create("groundbox-trace", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.descriptor, self._size)
            fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        except BaseException:
            os.close(self.descriptor)
            raise

    def order(self) -> dict[str, Any]:
        """What the guest is told of it."""
        return {
            "soft_events": self.options.soft_events,
            "max_events": self.options.max_events,
            "core": self.options.core,
        }

    def is_large(self) -> bool:
        """Whether reading the records takes a while."""
        return self._used_bytes() >= LARGE_BYTES

    def body(self) -> bytes:
        """The records as the guest left them."""
        return os.pread(self.descriptor, self._used_bytes(), _COUNT.size)

    def _used_bytes(self) -> int:
        (count,) = _COUNT.unpack(os.pread(self.descriptor, _COUNT.size, 0))
        return int(min(count, self.options.max_bytes))


def for_environment(environment: Interpreter, folder: Path, *, effort: Effort = "find") -> Native:
    """Return the native tracer for an environment's interpreter (native.py)."""
    return native.for_environment(environment, folder, effort=effort)


def memory(options: TraceOptions) -> RecordMemory:
    """Return new memory for the records of one run."""
    return RecordMemory(options)


def read(memory: TraceMemory, run: TracedRun) -> Trace:
    """Return the trace that these records make."""
    assert isinstance(memory, RecordMemory)
    options = memory.options
    return assemble(
        memory.body(),
        source=run.source,
        filename=run.filename if run.mode != "cell" else "<cell>",
        mode=run.mode,
        entry=None if run.call is None else _entry(run.call, run),
        python=run.python,
        hash_seed=run.hash_seed,
        limits={name: getattr(options, name) for name in ("soft_events", "max_events", "max_bytes")},
        outcome=run.outcome,
        why=run.why,
        core=run.core,
    )


def loads(data: bytes, core: str | None = None) -> Trace:
    """Return the trace that `Trace.dumps` gave."""
    return Trace.loads(data, core)


def _entry(call: str, run: TracedRun) -> Entry:
    args = [_told(codec.encode(each)) for each in run.args]
    kwargs = {name: _told(codec.encode(each)) for name, each in run.kwargs.items()}
    return Entry(call=call, args=args, kwargs=kwargs)


def _told(encoded: Any) -> Any:
    """Tagged JSON in which a dict stands for itself, where JSON can hold it and it looks like no tagged value."""
    if isinstance(encoded, list):
        return [_told(each) for each in encoded]
    if not isinstance(encoded, dict):
        return encoded
    ((tag, inner),) = encoded.items()
    inner = _told(inner) if isinstance(inner, list) else inner
    if tag != "dict" or not all(isinstance(key, str) for key, _ in inner) or [key for key, _ in inner] in _TAGS:
        return {tag: inner}
    return dict(inner)
