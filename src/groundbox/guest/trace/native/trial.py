"""Tries a native tracer that was made elsewhere: `python -I -S -B trial.py FILE`, with the interpreter it is for.

A frame's layout is part of no stable interface, so that a file name that fits is no proof that the file does.
The tracer's program for rehearsals is traced by the plain core and by the file, which have to write the same bytes.
A file that ends the process, with whatever status, is told by the word that is missing then. Standard library only.
"""

from __future__ import annotations

import contextlib
import io
import sys
import types
from pathlib import Path

_BUFFER_BYTES = 2**20


def main() -> int:
    """0, and `build.PASSED` on standard output, if the file can be used; else 1, with the reason on standard error."""
    _find_own_package()
    from groundbox.guest.trace import tracer
    from groundbox.guest.trace.native import build

    tracer.NATIVE = sys.argv[1]
    try:
        native = _trace("native")
    except (ImportError, OSError) as problem:
        print(f"does not load: {problem}", file=sys.stderr)
        return 1
    if native != _trace("plain"):
        print("does not write what the plain core writes", file=sys.stderr)
        return 1
    print(build.PASSED)
    return 0


def _find_own_package() -> None:
    """Without what groundbox itself imports, which is not installed beside this interpreter."""
    top = Path(__file__).resolve().parents[3]
    for name, folder in (("groundbox", top), ("groundbox.guest", top / "guest")):
        module = types.ModuleType(name)
        module.__path__ = [str(folder)]
        sys.modules[name] = module


def _trace(core: str) -> bytes:
    from groundbox.guest.trace import tracer

    memory = bytearray(_BUFFER_BYTES)
    code = compile(tracer.REHEARSED, "trial", "exec")
    with contextlib.redirect_stdout(io.StringIO()):
        recording = tracer.start(code, tracer.REHEARSED, memory, core=core)
        if recording.core != core:
            raise ImportError(f"the core {recording.core!r} was taken in its place")
        exec(code, {"__name__": "trial"})
        recording.stop(ended=True)
    return bytes(memory[8 : 8 + int.from_bytes(memory[:8], "little")])


if __name__ == "__main__":
    sys.exit(main())
