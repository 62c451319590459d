"""groundbox runs code that a language model wrote, where it can reach nothing it was not given,
and returns what happened."""

from __future__ import annotations

TYPE_CHECKING = False  # that of `typing` has to be imported first, which each call of the command line would pay for
if TYPE_CHECKING:
    from typing import Any

    from groundbox.errors import (
        CheckpointLost,
        GroundboxError,
        InvalidArgument,
        LanguageUnavailable,
        ProgramFailed,
        SandboxBusy,
        SandboxClosed,
        SandboxLost,
        SandboxUnavailable,
    )
    from groundbox.execution import Artifact, Display, Event, Execution, Outcome
    from groundbox.limits import GiB, Limits, MiB
    from groundbox.network import Network
    from groundbox.remote.background import warm
    from groundbox.remote.connect import connect
    from groundbox.sandbox.branching import Checkpoint
    from groundbox.sandbox.portal import Sandbox, run, run_async
    from groundbox.sandbox.sandbox import AsyncSandbox
    from groundbox.trace_options import TraceOptions

    __version__: str

_HOME = {
    "GroundboxError": "errors",
    "InvalidArgument": "errors",
    "LanguageUnavailable": "errors",
    "ProgramFailed": "errors",
    "CheckpointLost": "errors",
    "SandboxBusy": "errors",
    "SandboxClosed": "errors",
    "SandboxLost": "errors",
    "SandboxUnavailable": "errors",
    "Artifact": "execution",
    "Display": "execution",
    "Event": "execution",
    "Execution": "execution",
    "Outcome": "execution",
    "GiB": "limits",
    "Limits": "limits",
    "MiB": "limits",
    "Network": "network",
    "connect": "remote.connect",
    "warm": "remote.background",
    "Checkpoint": "sandbox.branching",
    "Sandbox": "sandbox.portal",
    "run": "sandbox.portal",
    "run_async": "sandbox.portal",
    "AsyncSandbox": "sandbox.sandbox",
    "TraceOptions": "trace_options",
    "load_ipython_extension": "notebook",
    "unload_ipython_extension": "notebook",
}

__all__ = [
    "Artifact",
    "AsyncSandbox",
    "Checkpoint",
    "CheckpointLost",
    "Display",
    "Event",
    "Execution",
    "GiB",
    "GroundboxError",
    "InvalidArgument",
    "LanguageUnavailable",
    "Limits",
    "MiB",
    "Network",
    "Outcome",
    "ProgramFailed",
    "Sandbox",
    "SandboxBusy",
    "SandboxClosed",
    "SandboxLost",
    "SandboxUnavailable",
    "TraceOptions",
    "connect",
    "run",
    "run_async",
    "warm",
]


def __dir__() -> list[str]:
    """All public names, loaded or not, for editors and `dir`."""
    return sorted({*globals(), *__all__, "__version__"})


def __getattr__(name: str) -> Any:
    """Load a public name at its first use, so that importing groundbox costs and does nothing else."""
    if name == "__version__":
        from groundbox.version import own_version

        globals()[name] = own_version()
        return globals()[name]
    if name not in _HOME:
        raise AttributeError(f"module 'groundbox' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"groundbox.{_HOME[name]}"), name)
    globals()[name] = value
    return value
