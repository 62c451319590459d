"""A loop or a body that runs without records.

From `soft_events` records on, a loop whose header was come to twice already in this activation is folded when its
header is come to again (that line event is the first one folded); a body, when its function has been recorded twice
already in the run. Only code without `yield` and `await` is folded, and nothing once user code has run in a second
thread.

While a fold lasts, line events of all user code are counted as steps and calls as calls; nothing is looked at. A
loop's fold is over at the first line event of its frame outside the loop's lines, or when the frame is left; a
body's, when its frame is left. If an exception came up in the frame and then led out of the loop, its `raise` follows
the fold.

A loop's iterations are the visits to its header, less one if the header was the last line that ran: that visit found
the loop exhausted or its condition false.
"""

from __future__ import annotations

import types

from .frames import State
from .own import protect
from .plan import Code

protect(globals())


class Fold:
    """One fold that is going on."""

    def __init__(
        self,
        frame: types.FrameType,
        state: State,
        room: int,
        header: int,
        first: int | None = None,
        last: int | None = None,
    ) -> None:
        """Args:
        first: First and last line of the loop; None for a body.
        """
        self.key = id(frame)
        self.code = frame.f_code
        self.state = state
        self.steps = 0
        self.calls = 0
        self.nested = 0
        """Activations of the same code inside it; this and `deep` are counted by the core that needs them."""
        self.deep = 0
        """Frames of user code inside it that are on the stack."""
        self.room = room
        """How many there may be before the recursion limit is near."""
        self.at = state.n
        """The line that its frame is on."""
        self.is_call = first is None
        self.exception: BaseException | None = None
        self._header = header
        self._first, self._last = first, last
        self._visits = 0
        if first is not None:
            self.steps = 1
            self.goes_on(header)

    def goes_on(self, number: int) -> bool:
        """The frame comes to a line; whether that is still inside."""
        if self._first is None or self._last is None:
            self.at = number
            self.exception = None
            return True
        if not self._first <= number <= self._last:
            self.steps -= 1  # it was counted, but is outside
            return False
        self.exception = None
        self.at = number
        if number == self._header:
            self._visits += 1
        return True

    def raised(self, exception: BaseException, code: Code, offset: int) -> None:
        """An exception came up in its frame."""
        if offset not in code.quiet or not issubclass(type(exception), StopIteration):
            self.exception = exception

    def record(self) -> str:
        """The `fold` record."""
        head = f'{{"k":"fold","f":{self.state.f},"n":{self._header},"what":'
        if self.is_call:
            return f'{head}"call","steps":{self.steps},"calls":{self.calls}}}\n'
        iterations = self._visits - (self.at == self._header)
        return f'{head}"loop","iterations":{iterations},"steps":{self.steps}}}\n'
