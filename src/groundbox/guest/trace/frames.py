"""What is known of a frame of user code while it lives."""

from __future__ import annotations

from typing import Any

from .own import protect
from .plan import Code, Line

protect(globals())


class State:
    """One activation. `n` is the line last told, `line` what the plan says about it."""

    __slots__ = (
        "back", "child", "code", "depth", "exception", "f", "folds", "head", "left", "line", "n", "parent", "raised_at",
        "tight", "told", "visits",
    )  # fmt: skip

    def __init__(self, code: Code, f: int, parent: State | None, told: dict[str, tuple[Any, str]]) -> None:
        self.code = code
        self.f = f
        self.parent = parent
        self.told = told
        """For each name: the value, if it is held, and the text that was last told."""
        self.n: int = code.code.co_firstlineno
        self.line: Line = code.blank
        self.head = f'{{"k":"line","f":{f},"n":'
        self.depth = 0
        """Frames on the stack down to it, those of libraries included."""
        self.tight = False
        self.child: State | None = None
        """The function that it has called and that has not ended, if that is known."""
        self.back: list[Any] | None = None
        """What user code returned to the present line."""
        self.raised_at = -1
        """Offset at which an exception came up since the last line event."""
        self.exception = 0
        """`id` of the last exception that came up."""
        self.left: tuple[int, int] | None = None
        """Number and exception of the frame under this one that was last left by an exception."""
        self.visits: dict[int, int] = {}
        """How often the headers of its loops were come to."""
        self.folds = 0
        """How many folds had ended when all its names were last known."""
