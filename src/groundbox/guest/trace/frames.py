"""What is known of a frame of user code while it lives."""

from __future__ import annotations

import types
from typing import Any

from .own import protect
from .plan import Code, Line, Name

protect(globals())


class Rest:
    """What a generator's frame had when it began to wait, by the names that a frame has for it.

    A generator may go away without an event, and then its frame's variables must not be read (3.13 leaves addresses of
    what is gone in them).
    """

    __slots__ = ("f_globals", "f_locals", "frame", "names")

    def __init__(self, frame: types.FrameType) -> None:
        self.frame = frame
        """Held, so that no other frame gets its address; only compared."""
        self.f_locals: Any = {}
        self.f_globals = frame.f_globals
        self.names: list[Name] = []
        """The variables that are known here; others have the text last told for them."""


class State:
    """One activation. `n` is the line last told, `line` what the plan says about it."""

    __slots__ = (
        "back", "begins", "child", "code", "counts", "depth", "drives", "exception", "f", "folds", "head", "jump",
        "left", "line", "n", "parent", "raised_at", "resumes", "source", "tight", "told", "visits",
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
        self.drives = 0
        """Number of the generator that its present line made go on last, if no other user code has run since; or 0."""
        self.resumes = 0
        """Of a generator: how often the line that drives it has done so."""
        self.left: tuple[int, int] | None = None
        """Number and exception of the frame under this one that was last left by an exception."""
        self.visits: dict[int, int] = {}
        """How often the headers of its loops were come to."""
        self.folds = 0
        """How many folds had ended when all its names were last known."""
        self.counts = [0] * len(code.branches.loops)
        """How many iterations of each of its loops have begun, since the loop was entered last."""
        self.begins = -1
        """The loop that has taken an item, while no line after its header was come to; or -1."""
        self.source = 0
        """Of the loops that share the head that it jumps to: how many go on within their iteration."""
        self.jump = -1
        """For a core that sees instructions: the offset of the conditional jump that was the last one, or -1."""
