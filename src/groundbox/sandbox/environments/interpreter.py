"""Which Python an environment is built with.

The newest CPython 3.13 or 3.12 on this machine, else the one groundbox runs on.
It has to be a final release, with the extension modules that the guest side and the common packages need,
and not the free-threaded build, for which many packages have no wheels.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from groundbox.errors import EnvironmentFailed, InvalidArgument

OLDEST: Final = (3, 11)
NEWEST: Final = (3, 13)
_PREFERRED: Final = ("3.13", "3.12")

_QUESTIONS: Final = """
import importlib.util, json, os, sys, sysconfig
wanted = ("_bz2", "_ctypes", "_lzma", "_sqlite3", "_ssl", "venv", "zlib")
print(json.dumps({
    # A venv's interpreter stands for the one it was made from.
    "path": os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable),
    "version": sys.version_info[:3],
    "final": sys.version_info.releaselevel == "final",
    "cpython": sys.implementation.name == "cpython",
    "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    "lacks": [name for name in wanted if importlib.util.find_spec(name) is None],
}))
"""


class Interpreter(NamedTuple):
    """A Python that can be used: its real path, and its version."""

    path: Path
    version: tuple[int, int, int]


def choose(requested: str | None = None) -> Interpreter:
    """The interpreter to build with.

    Args:
        requested: A path, a command on PATH, or a version such as `3.12`;
            by default what $GROUNDBOX_PYTHON says.

    Raises:
        InvalidArgument: `requested` is not there or cannot be used.
        EnvironmentFailed: Nothing on this machine can be used.
    """
    requested = requested or os.environ.get("GROUNDBOX_PYTHON") or None
    if requested is not None:
        return _requested(requested)
    usable = [each for path in _candidates(_PREFERRED) if isinstance(each := _ask(path), Interpreter)]
    # max() keeps the first of equals, and so the order of the candidates.
    if usable:
        return max(usable, key=lambda each: each.version)
    own = _ask(Path(getattr(sys, "_base_executable", None) or sys.executable))
    if isinstance(own, str):
        raise EnvironmentFailed(f"no Python that an environment can be built with: {own}")
    return own


def _requested(requested: str) -> Interpreter:
    if os.sep in requested:
        paths = [Path(requested)]
    else:
        paths = [Path(found)] if (found := shutil.which(requested)) else list(_candidates([requested]))
    refusals = []
    for path in paths:
        answer = _ask(path)
        if isinstance(answer, Interpreter):
            return answer
        refusals.append(answer)
    raise InvalidArgument("python", "; ".join(refusals) or f"there is no {requested!r} on this machine")


def _candidates(releases: Sequence[str]) -> Iterator[Path]:
    """Executables of these releases (`3.12` or `3.12.1`), each real file once."""
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    folders += [Path("/usr/local/bin"), Path("/usr/bin")]
    seen = set()
    for release in releases:
        for path in [*(folder / f"python{release}" for folder in folders), *_from_pyenv(release)]:
            real = os.path.realpath(path)
            if real not in seen and os.access(real, os.X_OK) and os.path.isfile(real):
                seen.add(real)
                yield path


def _from_pyenv(release: str) -> list[Path]:
    versions = Path(os.environ.get("PYENV_ROOT") or Path(os.path.expanduser("~")) / ".pyenv") / "versions"
    try:
        names = sorted(os.listdir(versions), reverse=True)
    except OSError:  # none, or another user's
        return []
    matching = [name for name in names if name == release or name.startswith(f"{release}.")]
    return [versions / name / "bin/python" for name in matching]


def _ask(path: Path) -> Interpreter | str:
    """What the interpreter says about itself, or why it cannot be used."""
    try:
        asked = subprocess.run(
            [path, "-I", "-c", _QUESTIONS],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=30,
            check=True,
        )
        facts = json.loads(asked.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return f"{path} does not run ({error})"
    version = tuple(facts["version"])
    words = f"{path} is Python {'.'.join(map(str, version))}"
    if not facts["cpython"]:
        return f"{path} is not CPython"
    if not OLDEST <= version[:2] <= NEWEST:
        return f"{words}, and 3.11 to 3.13 can be used"
    if not facts["final"]:
        return f"{words}, but not its final release"
    if facts["free_threaded"]:
        return f"{words}, but its free-threaded build"
    if facts["lacks"]:
        return f"{words}, but was built without {', '.join(facts['lacks'])}"
    return Interpreter(Path(facts["path"]), version)
