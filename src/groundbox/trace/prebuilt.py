"""Native tracers that came with groundbox: those in a wheel for one platform.

    tracers/_groundbox_tracer.cpython-313-x86_64-linux-gnu.so   one for each version of Python
    tracers/made-from.json                                      the C sources and the headers they were made from

`scripts/build_wheels.py` makes them. A checkout, the source distribution and the wheel for every platform have none.
One is taken if it was made from the C sources that are installed beside it, bears the name that the interpreter looks
for (version, architecture, C library), and writes in a trial on that interpreter what the plain core writes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from groundbox.guest.trace.native import build as native
from groundbox.guest.trace.native.build import NotBuilt

FOLDER: Final = Path(__file__).with_name("tracers")
MADE_FROM: Final = "made-from.json"
_TRIAL: Final = native.SOURCES / "trial.py"
_WITHIN_S: Final = 60


def take(interpreter: Path, into: Path) -> Path | NotBuilt:
    """Copies the tracer that fits `interpreter` into the folder `into`, and gives its path.

    The file appears when its trial has gone well, complete or not at all.

    Args:
        interpreter: Run twice, isolated: for the name it looks for, and for the trial.
        into: An existing folder, which guests can see; those where packages are installed they may not.
    """
    if not FOLDER.is_dir():
        return NotBuilt("this groundbox came without prebuilt tracers")
    if (made_from := _made_from()) != native.sources_sha256():
        return NotBuilt(f"the prebuilt tracers were made from other C sources ({made_from[:12] or 'unknown'})")
    target = native.ask(interpreter)
    if isinstance(target, NotBuilt):
        return target
    name = native.MODULE + target.suffix
    if not (FOLDER / name).is_file():
        return NotBuilt(f"there is no prebuilt {name}")
    try:
        problem = _copy(FOLDER / name, into, interpreter)
    except (OSError, subprocess.SubprocessError) as error:
        return NotBuilt(f"the prebuilt {name} could not be copied and tried: {error}", native.passes(error))
    return NotBuilt(f"the prebuilt {name} {problem}") if problem else into / name


def _copy(file: Path, into: Path, interpreter: Path) -> str:
    """Empty if `into` has it now, else what is wrong with it."""
    with tempfile.TemporaryDirectory(prefix=f".{native.MODULE}-", dir=into) as scratch:
        copy = Path(scratch) / file.name
        shutil.copyfile(file, copy)
        os.chmod(copy, 0o755)
        problem = _trial(interpreter, copy)
        if not problem:
            copy.replace(into / file.name)
    return problem


def _made_from() -> str:
    try:
        return str(json.loads((FOLDER / MADE_FROM).read_text("utf-8"))["sources_sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _trial(interpreter: Path, file: Path) -> str:
    """What is wrong with `file`; empty if nothing is."""
    # Another process, since a file that does not fit may end it.
    tried = subprocess.run(
        [interpreter, "-I", "-S", "-B", _TRIAL, file],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=_WITHIN_S, check=False,
    )  # fmt: skip
    if tried.returncode < 0:
        return f"ended its trial by signal {-tried.returncode}"
    if tried.returncode == 0 and tried.stdout.strip() == native.PASSED:
        return ""
    last = tried.stderr.strip().rpartition("\n")[2]
    return last.replace(f"{file.parent}/", "") or f"ended its trial with status {tried.returncode}"
