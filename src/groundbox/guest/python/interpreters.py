"""Python processes that programs start by `multiprocessing` or joblib: with the packages that cells have.

A template runs with -S, -s and -P, so that nothing of the environment is imported before its jail stands;
libraries hand such flags on to the interpreters that they start, which then find no package. joblib's helper
for leftover files ended like that, with a traceback in the program's output.

Processes of `multiprocessing` write each line at once. A pool ends its processes by a signal, and what one has not
written by then is lost.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, Final

from . import orphans
from .after_import import after_import

_TEMPLATES_OWN: Final = frozenset({"-S", "-s", "-P"})
_WRITE_LINES: Final = "import sys; sys.stdout and sys.stdout.reconfigure(line_buffering=True); del sys; "


def install() -> None:
    """Adapt the function that returns the flags, and `multiprocessing`, when they are imported."""
    after_import("subprocess", _adapt)
    after_import("multiprocessing.util", _adapt_multiprocessing)


def _adapt(subprocess: Any) -> None:
    orphans.adapt(subprocess)
    real = subprocess._args_from_interpreter_flags
    if hasattr(real, "__wrapped__"):  # done before, for cells
        return

    @functools.wraps(real)
    def flags() -> list[str]:
        return [each for each in real() if each not in _TEMPLATES_OWN]

    subprocess._args_from_interpreter_flags = flags


def _adapt_multiprocessing(util: Any) -> None:
    real = util.spawnv_passfds
    if hasattr(real, "__wrapped__"):  # done before, for cells
        return
    util.register_after_fork(util, _write_lines)

    @functools.wraps(real)
    def start(path: Any, args: Any, passfds: Any) -> Any:
        args = list(args)
        if "-c" in args[:-1]:
            place = args.index("-c") + 1
            args[place] = _WRITE_LINES + args[place]
        return real(path, args, passfds)

    util.spawnv_passfds = start


def _write_lines(util: Any) -> None:
    try:
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):  # the program has put something else there
        return
