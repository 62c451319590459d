"""Compiling the native recorder for one interpreter, with the C compiler that is there.

The sources beside this file are compiled in one go against the interpreter's own headers, the internal ones included:
the layout of a frame is part of no stable interface, so the result fits that one minor version only, and says so in
its file name. Nothing is needed but a C compiler and the headers that an interpreter built from source brings along.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

MODULE = "_groundbox_tracer"
VERSIONS = ((3, 11), (3, 12), (3, 13))
# CPython is built with -fwrapv itself, and its headers count on it. What is hidden cannot clash with other modules.
FLAGS = ("-std=gnu11", "-O2", "-g0", "-fPIC", "-shared", "-fvisibility=hidden", "-fwrapv", "-fno-strict-aliasing")
PASSED = "the tracer can be used"
"""Words that `trial.py` prints, and no others, once it has compared all."""

SOURCES = Path(__file__).parent
_COMPILERS = ("cc", "gcc", "clang")
_WITHIN_S = 300
_ASK = """
import json, sys, sysconfig
paths = sysconfig.get_paths()
print(json.dumps({
    "implementation": sys.implementation.name,
    "version": list(sys.version_info[:2]),
    "include": paths["include"],
    "platinclude": paths["platinclude"],
    "suffix": sysconfig.get_config_var("EXT_SUFFIX"),
    "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
}))
"""


class NotBuilt(NamedTuple):
    """Reason for which an interpreter has no native recorder. Its programs are traced by the plain one.

    Attributes:
        passing: Another attempt may go well: it took too long, or a file could not be written.
    """

    reason: str
    passing: bool = False


class Target(NamedTuple):
    """Build settings that an interpreter tells of the modules that it loads.

    Attributes:
        suffix: How their file names end: implementation, version, architecture and C library.
    """

    includes: tuple[Path, ...]
    suffix: str


def build(interpreter: Path, into: Path, *, flags: Sequence[str] = ()) -> Path | NotBuilt:
    """Compile the module for `interpreter` into the folder `into`, and return its path.

    The file appears complete or not at all; one that is there already is replaced.

    Args:
        interpreter: A CPython of a version in `VERSIONS`. It is run once, isolated, to ask where its headers are.
        into: An existing folder.
        flags: Given to the compiler after `FLAGS`.
    """
    target = ask(interpreter)
    if isinstance(target, NotBuilt):
        return target
    # The layout of a frame is in the latter, which is part of no stable interface.
    for header in ("Python.h", "internal/pycore_frame.h"):
        if not (target.includes[0] / header).is_file():
            return NotBuilt(f"no headers: {target.includes[0] / header} does not exist")
    compiler = _compiler()
    if compiler is None:
        return NotBuilt("no C compiler: $CC is not set, and there is no cc, gcc or clang")
    return _compile(compiler, target, into, flags)


def ask(interpreter: Path) -> Target | NotBuilt:
    """Return what a module for `interpreter` has to be like, or why there is none for it. Headers may be missing."""
    try:
        asked = subprocess.run(
            [interpreter, "-I", "-S", "-c", _ASK], capture_output=True, text=True, check=True, timeout=_WITHIN_S
        )
        told = json.loads(asked.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as problem:
        return NotBuilt(f"{interpreter} does not tell its build settings: {problem}", passes(problem))
    if told["implementation"] != "cpython" or tuple(told["version"]) not in VERSIONS or told["free_threaded"]:
        kind = f"{told['implementation']} {'.'.join(map(str, told['version']))}"
        return NotBuilt(f"{kind}{' (free-threaded)' if told['free_threaded'] else ''} is not supported")
    includes = dict.fromkeys((Path(told["include"]), Path(told["platinclude"])))
    return Target(tuple(includes), told["suffix"])


def passes(problem: Exception) -> bool:
    """Return whether another attempt may go well."""
    return isinstance(problem, OSError | subprocess.TimeoutExpired)


def sources_sha256() -> str:
    """Return the digest of the C sources: tracers of another digest may write other records."""
    digest = hashlib.sha256()
    for source in sorted([*SOURCES.glob("*.c"), *SOURCES.glob("*.h")]):
        content = source.read_bytes()
        # Name and length, so that nothing that moves from one file to another keeps the digest.
        digest.update(f"{source.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _compiler() -> list[str] | None:
    wanted = shlex.split(os.environ.get("CC", ""))
    if wanted and shutil.which(wanted[0]):
        return wanted
    return next(([found] for name in _COMPILERS if (found := shutil.which(name))), None)


def _compile(compiler: list[str], target: Target, into: Path, flags: Sequence[str]) -> Path | NotBuilt:
    result = into / (MODULE + target.suffix)
    with tempfile.TemporaryDirectory(prefix=f".{MODULE}-", dir=into) as scratch:
        made = Path(scratch) / result.name
        # As headers of the system, so that their warnings are not ours.
        includes = [f"-isystem{folder}" for include in target.includes for folder in (include, include / "internal")]
        sources = sorted(str(path) for path in SOURCES.glob("*.c"))
        command = [*compiler, *FLAGS, *flags, *includes, "-o", str(made), *sources]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_WITHIN_S)
        except (OSError, subprocess.SubprocessError) as problem:
            return NotBuilt(f"the C compiler could not be run: {problem}")
        if done.returncode:
            return NotBuilt(f"{' '.join(compiler)} failed with status {done.returncode}:\n{done.stderr[-2000:]}")
        made.replace(result)
    return result
