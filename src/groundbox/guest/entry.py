"""The names that a template calls: `groundbox.template.guest_code.GuestCode` says what each is for."""

from groundbox.guest.python import tracing
from groundbox.guest.python.cells import CellRunner
from groundbox.guest.python.duckdb_limits import install as limit_libraries
from groundbox.guest.python.machine import limit as limit_memory
from groundbox.guest.python.reseed import start_keys
from groundbox.guest.python.tracing import rehearse as rehearse_tracing
from groundbox.guest.wire import Wire
from groundbox.guest.worker import Worker

__all__ = ["Wire", "Worker", "cells", "limit_libraries", "limit_memory", "rehearse_tracing", "start_keys"]


def cells(*, ipython: bool, tracer: str) -> CellRunner:
    """Return the runner of cells. `tracer` is the file of the native tracer, or ""."""
    runner = CellRunner(ipython=ipython)
    tracing.NATIVE = tracer
    return runner
