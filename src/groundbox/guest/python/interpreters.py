"""Python processes that programs start by `multiprocessing` or joblib: with the packages that cells have.

A template runs with -S, -s and -P, so that nothing of the environment is imported before its jail stands;
libraries hand such flags on to the interpreters that they start, which then find no package. joblib's helper
for leftover files ended like that, with a traceback in the program's output.
"""

from __future__ import annotations

import functools
from typing import Any, Final

from .after_import import after_import

_TEMPLATES_OWN: Final = frozenset({"-S", "-s", "-P"})


def install() -> None:
    """Adapt the function that tells the flags, when `subprocess` is imported."""
    after_import("subprocess", _adapt)


def _adapt(subprocess: Any) -> None:
    real = subprocess._args_from_interpreter_flags
    if hasattr(real, "__wrapped__"):  # done before, for cells
        return

    @functools.wraps(real)
    def flags() -> list[str]:
        return [each for each in real() if each not in _TEMPLATES_OWN]

    subprocess._args_from_interpreter_flags = flags
