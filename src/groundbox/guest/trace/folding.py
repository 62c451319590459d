"""A loop or a body that runs without records.

From `soft_events` records on, a loop whose header was come to twice already in this activation is folded when its
header is come to again (that line event is the first one folded); a body, when its function has been recorded twice
already in the run. Coroutines and the bodies of generators are not folded, and nothing is once user code has run in a
second thread.

While a fold lasts, line events of all user code are counted as steps and calls as calls; nothing is looked at. A
loop's fold is over at the first line event of its frame outside the loop's lines, or when the frame is left; a
body's, when its frame is left. If an exception came up in the frame and then led out of the loop, its `raise` follows
the fold.

A loop's iterations are the visits to its header, less one if the header was the last line that ran: that visit found
the loop exhausted or its condition false.

**Generators.** The fold of a generator's loop rests while the generator waits, if what it gave and its variables can be
held without a trace: atoms, objects with a label, and tuples of these. Nothing but library code can run then:
the next event of user code is either the generator's, and the fold goes on, or somebody else's, and the fold is over.
Then the iteration that the generator waits in is not counted, and a `yield` of what it gave last follows the fold; the
rest of this iteration is recorded. So a loop that yields is only folded if one line of the caller has made the
generator go on twice already, with no other user code between: then the caller is library code that goes through it.
"""

from __future__ import annotations

import types
from typing import Any

from .frames import Rest, State
from .own import protect
from .plan import Code, Loop

protect(globals())


class Fold:
    """One fold that is going on."""

    def __init__(
        self,
        frame: types.FrameType,
        state: State,
        room: int,
        header: int,
        loop: Loop | None = None,
    ) -> None:
        """Args:
        loop: None for a body.
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
        self.is_call = loop is None
        self.exception: BaseException | None = None
        self.rest: Rest | None = None
        """Of its frame, while the fold rests."""
        self.waits = False
        """Its frame is in the middle of an iteration."""
        self.value: Any = None
        """What it gave last."""
        self.header = header
        self._began = False
        """Something was given since the last line event, so the last visit to the header has begun an iteration."""
        self._loop = loop
        self._visits = 0
        if loop is not None:
            self.steps = 1
            self.goes_on(header)

    def goes_on(self, number: int) -> bool:
        """The frame comes to a line; whether that is still inside."""
        if self._loop is None:
            self.at = number
            self.exception = None
            return True
        if not self._loop.first <= number <= self._loop.last:
            self.steps -= 1  # it was counted, but is outside
            return False
        self.exception = None
        self.at = number
        self._began = False
        if number == self.header:
            self._visits += 1
        return True

    def raised(self, exception: BaseException, code: Code, offset: int) -> None:
        """An exception came up in its frame."""
        if offset not in code.quiet or not issubclass(type(exception), StopIteration):
            self.exception = exception

    def gives(self) -> None:
        """Its frame gives a value and waits."""
        self.exception = None
        self._began = self.waits = True

    def wakes(self) -> None:
        """Its frame goes on."""
        self.rest = self.value = None
        self.waits = False

    def record(self) -> str:
        """The `fold` record."""
        head = f'{{"k":"fold","f":{self.state.f},"n":{self.header},"what":'
        if self.is_call:
            return f'{head}"call","steps":{self.steps},"calls":{self.calls}}}\n'
        open_visit = self.waits or (self.at == self.header and not self._began)
        iterations = self._visits - open_visit
        return f'{head}"loop","iterations":{iterations},"steps":{self.steps}}}\n'
