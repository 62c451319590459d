"""Python: cells with state, and scripts."""

from __future__ import annotations

from typing import Any

from groundbox.errors import InvalidArgument
from groundbox.guest.python.imports import profile_for
from groundbox.sandbox.languages import Program


def profile(source: str) -> str:
    """`science` when the source imports more than the standard library or uses notebook habits."""
    return profile_for(source)


def order(program: Program) -> dict[str, Any]:
    """The order for the worker; argv and stdin belong to scripts."""
    if program.mode == "cell":
        if program.argv:
            raise InvalidArgument("argv", "belongs to a script; add mode='script'")
        if program.stdin is not None:
            raise InvalidArgument("stdin", "belongs to a script; add mode='script'")
    elif program.mode != "script":
        raise InvalidArgument("mode", f"{program.mode!r} is neither 'cell' nor 'script'")
    return {
        "op": "run",
        "mode": program.mode,
        "source": program.source,
        "argv": list(program.argv),
        "filename": program.filename,
    }
