"""The native tracer for an environment's interpreter: built once, if there is a compiler.

    $GROUNDBOX_HOME/tracers/KEY/_groundbox_tracer.cpython-313-x86_64-linux-gnu.so

KEY is a digest of the tracer's C sources and the interpreter's version and binary interface, so that no tracer is
loaded into an interpreter that it was not made for, or by a groundbox that knows another one.
It is built when an environment is made, never when a program runs. Without it the tracers in Python are used,
which write the same traces more slowly; `groundbox environment list` tells which, and `groundbox doctor` why.
"""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path
from typing import Final

from groundbox.guest.trace.native import build as native
from groundbox.sandbox.environments.store import Environment, data_home

_SOURCES: Final = Path(native.__file__).parent
_WHY: Final = "why-not.txt"


def find(environment: Environment) -> Path | None:
    """The tracer that was built for this environment's interpreter."""
    built = sorted(_folder(environment).glob("_groundbox_tracer*.so"))
    return built[0] if built else None


def why_not(environment: Environment) -> str | None:
    """Why there is none, as the last attempt to build it said; None when there is one."""
    if find(environment) is not None:
        return None
    try:
        return (_folder(environment) / _WHY).read_text("utf-8")
    except OSError:
        return "it was not built yet; `groundbox environment create` does"


def ensure(environment: Environment) -> Path | None:
    """Build it if it is not there. A failure is kept for `why_not`; traces work without it."""
    if (found := find(environment)) is not None:
        return found
    folder = _folder(environment)
    folder.mkdir(parents=True, exist_ok=True)
    os.chmod(folder, 0o755)
    built = native.build(environment.python, folder)
    if isinstance(built, native.NotBuilt):
        (folder / _WHY).write_text(built.reason, "utf-8")
        return None
    os.chmod(built, 0o755)
    (folder / _WHY).unlink(missing_ok=True)
    return built


def _folder(environment: Environment) -> Path:
    return data_home() / "tracers" / _key(str(environment.base_prefix), environment.python_version)


@functools.cache
def _key(prefix: str, version: tuple[int, int, int]) -> str:
    digest = hashlib.sha256(f"{prefix} {version}".encode())
    for source in sorted([*_SOURCES.glob("*.c"), *_SOURCES.glob("*.h")]):
        digest.update(source.read_bytes())
    return f"{'.'.join(map(str, version))}-{digest.hexdigest()[:16]}"
