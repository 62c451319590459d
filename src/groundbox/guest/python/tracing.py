"""Tracing a run: where the host wants the records, and the tracer that writes them there.

The host hands over memory of a fixed size. It is mapped and the descriptor closed before the program begins,
so that a program finds nothing that it could write to by number.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any, Final

NATIVE = ""
"""File of the native tracer that the template has loaded, or nothing; an order of a run may name another."""

_TRACER: Final = "groundbox.guest.trace.tracer"
_PROT_READ_WRITE: Final = 3
_MAP_SHARED: Final = 1
_MAP_FAILED: Final = ctypes.c_void_p(-1).value
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def rehearse() -> None:
    """Where the tracer is loaded already: do without effect what the start of a trace does before the program runs."""
    tracer: Any = sys.modules.get(_TRACER)
    if tracer is not None:
        tracer.NATIVE = NATIVE
        tracer.rehearse()


class Tracing:
    """One run's trace, from before its code is compiled until the program has ended.

    Attributes:
        core: Which tracer wrote it; empty until one has begun.
    """

    def __init__(self, descriptor: int, options: Mapping[str, Any]) -> None:
        """Takes ownership of the descriptor."""
        self.core = ""
        self._options = dict(options)
        self._native = self._options.pop("native", "") or NATIVE
        self._size = os.fstat(descriptor).st_size
        address = _LIBC.mmap(None, self._size, _PROT_READ_WRITE, _MAP_SHARED, descriptor, 0)
        os.close(descriptor)
        if address == _MAP_FAILED:
            raise OSError(ctypes.get_errno(), "the memory for the trace cannot be mapped")
        self._address: int = address
        self._recording: Any = None

    def begin(self, code: types.CodeType, source: str) -> None:
        """Record what the module code of `source`, and all code within it, does from now on in any thread."""
        from ..trace import tracer

        tracer.NATIVE = self._native
        memory = (ctypes.c_char * self._size).from_address(self._address)
        self._recording = tracer.start(code, source, memoryview(memory).cast("B"), **self._options)
        self.core = self._recording.core

    def end(self) -> None:
        """The program has ended by itself. Idempotent."""
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.stop(ended=True)

    def release(self) -> None:
        """Unmap; nothing may be recorded any more."""
        self.end()
        _LIBC.munmap(self._address, self._size)


@contextlib.contextmanager
def recorded(tracing: Tracing | None, code: types.CodeType | None, source: str) -> Iterator[None]:
    """Trace what happens inside, if that is wanted and there is any code."""
    if tracing is None or code is None:
        yield
        return
    tracing.begin(code, source)
    try:
        yield
    finally:
        tracing.end()
