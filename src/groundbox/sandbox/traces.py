"""The trace of one run, seen from the host: memory for a guest to write records to, and what is made of them.

The memory has a fixed size, sealed, so that a guest can make neither it nor us grow, and is charged to the
guest that fills it. Its first eight bytes count the bytes that hold whole records; all of it is a claim, copied
before it is read, as a process of the guest may still live.
"""

from __future__ import annotations

import fcntl
import os
import struct
from typing import Any, Final

from groundbox.execution import Outcome
from groundbox.sandbox import arguments
from groundbox.sandbox.languages import Program
from groundbox.trace.record.options import TraceOptions
from groundbox.trace.record.reading import Trace, assemble
from groundbox.trace.record.schema import Entry

_COUNT: Final = struct.Struct("<Q")
_TAGS: Final = [[tag] for tag in ("int", "float", "complex", "bytes", "tuple", "set", "frozenset", "dict")]
"""Keys of dicts that would be taken for tagged values."""
LARGE_BYTES: Final = 32 * 1024
"""More is decoded in a thread, so that other sandboxes do not wait."""


class TraceMemory:
    """The descriptor is the caller's to close."""

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


def read(
    memory: TraceMemory,
    program: Program,
    *,
    python: str,
    hash_seed: int | None,
    outcome: Outcome,
    why: str,
    core: str,
) -> Trace:
    """The trace that these records make.

    Args:
        why: For an outcome that is neither ok nor error: what stopped the program.
    """
    call, options = program.call, memory.options
    return assemble(
        memory.body(),
        source=program.source,
        filename=program.filename if program.mode != "cell" else "<cell>",
        mode=program.mode,
        entry=None if call is None else _entry(call, program),
        python=python,
        hash_seed=hash_seed,
        limits={name: getattr(options, name) for name in ("soft_events", "max_events", "max_bytes")},
        outcome=outcome.value,
        why=why,
        core=core,
    )


def _entry(call: str, program: Program) -> Entry:
    args = [_told(arguments.encode("args", each)) for each in program.args]
    return Entry(
        call=call,
        args=args,
        kwargs={name: _told(arguments.encode("kwargs", each)) for name, each in program.kwargs.items()},
    )


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
