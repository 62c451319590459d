"""The native tracer for an environment's interpreter: one that came with groundbox, else one compiled here, once.

    $GROUNDBOX_HOME/tracers/KEY/_groundbox_tracer.cpython-313-x86_64-linux-gnu.so
                               /told.json

KEY is a digest of the tracer's C sources and the interpreter's version and binary interface, so that no tracer is
loaded into an interpreter that it was not made for, or by a groundbox that knows another one.
A prebuilt one is copied there, because guests see that folder wherever groundbox is installed.
It is compiled when an environment is made, never when a program runs. Without it the plain tracer in Python is used,
which is slow and folds nothing, so that traces of long runs end at their limits; `groundbox environment list` tells
which, and `groundbox doctor` why.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import tempfile
import threading
from pathlib import Path
from typing import Final

from groundbox.guest.trace.native import build
from groundbox.trace import prebuilt
from groundbox.tracer import Effort, Interpreter, Native, Origin

PREBUILT: Final = "prebuilt"
COMPILED: Final = "compiled"
_TOLD: Final = "told.json"
_NOT_YET: Final = "none was made ready yet; `groundbox environment create` or `update` does"

_TAKING: Final[dict[Path, threading.Lock]] = {}


def for_environment(environment: Interpreter, folder: Path, *, effort: Effort) -> Native:
    """Return the native tracer for an environment's interpreter, made ready as far as `effort` goes."""
    found = {"find": find, "copy": for_a_trace, "build": ensure}[effort](environment, folder)
    return Native(found, origin_of(environment, folder))


def find(environment: Interpreter, folder: Path) -> Path | None:
    """The tracer that was made ready for this environment's interpreter."""
    built = sorted(_folder(environment, folder).glob("_groundbox_tracer*.so"))
    return built[0] if built else None


def origin_of(environment: Interpreter, folder: Path) -> Origin:
    """What the last attempt to make one ready came to."""
    found = find(environment, folder) is not None
    told = _told(_folder(environment, folder))
    if told is None or found != (told.origin is not None):
        # Before told.json was written, all were compiled.
        return Origin(COMPILED, ()) if found else Origin(None, (_NOT_YET,))
    return told


def ensure(environment: Interpreter, folder: Path) -> Path | None:
    """Makes one ready if there is none. A failure is kept for `origin_of`; traces work without it."""
    if (found := find(environment, folder)) is not None:
        return found
    folder = _made(environment, folder)
    passed_over: list[str] = []
    passing = False
    for origin, make in ((PREBUILT, prebuilt.take), (COMPILED, build.build)):
        made = make(environment.python, folder)
        if not isinstance(made, build.NotBuilt):
            os.chmod(made, 0o755)
            _tell(folder, Origin(origin, tuple(passed_over)))
            return made
        passed_over.append(made.reason)
        passing |= made.passing
    if passing:
        (folder / _TOLD).unlink(missing_ok=True)
    else:
        _tell(folder, Origin(None, tuple(passed_over)))
    return None


def for_a_trace(environment: Interpreter, folder: Path) -> Path | None:
    """The one that is ready, else a prebuilt one, which takes a moment and no compiler.

    So environments that were made by an older groundbox are traced by the newer one's tracer. What does not
    fit is not tried again, and a data directory that cannot be written to is left as it is. Takes seconds, and waits
    for another thread that does the same.
    """
    if (found := find(environment, folder)) is not None or not prebuilt.FOLDER.is_dir():
        return found
    with _TAKING.setdefault(_folder(environment, folder), threading.Lock()):
        return find(environment, folder) or _taken(environment, folder)


def _taken(environment: Interpreter, folder: Path) -> Path | None:
    if _told(_folder(environment, folder)) is not None:
        return None
    try:
        folder = _made(environment, folder)
        made = prebuilt.take(environment.python, folder)
        if isinstance(made, build.NotBuilt):
            if not made.passing:
                _tell(folder, Origin(None, (made.reason, _NOT_YET)))
            return None
        _tell(folder, Origin(PREBUILT, ()))
    except OSError:
        return None
    return made


def _made(environment: Interpreter, folder: Path) -> Path:
    folder = _folder(environment, folder)
    folder.mkdir(parents=True, exist_ok=True)
    os.chmod(folder, 0o755)
    return folder


def _tell(folder: Path, origin_of: Origin) -> None:
    with tempfile.TemporaryDirectory(prefix=".told-", dir=folder) as scratch:
        told = Path(scratch) / _TOLD
        told.write_text(json.dumps(origin_of._asdict()), "utf-8")
        os.chmod(told, 0o644)  # whoever uses the environment may ask
        told.replace(folder / _TOLD)


def _told(folder: Path) -> Origin | None:
    try:
        told = json.loads((folder / _TOLD).read_text("utf-8"))
        return Origin(told["origin"], tuple(told["passed_over"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _folder(environment: Interpreter, folder: Path) -> Path:
    return folder / _key(str(environment.base_prefix), environment.python_version)


@functools.cache
def _key(prefix: str, version: tuple[int, int, int]) -> str:
    digest = hashlib.sha256(f"{prefix} {version}".encode())
    for source in sorted([*build.SOURCES.glob("*.c"), *build.SOURCES.glob("*.h")]):
        digest.update(source.read_bytes())
    return f"{'.'.join(map(str, version))}-{digest.hexdigest()[:16]}"
