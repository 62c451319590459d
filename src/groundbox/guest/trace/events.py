"""The boundary between the program and the tracer: what goes wrong in the tracer never reaches the program.

Each function that an interpreter event calls is wrapped by `Guarded.guarded`: under a lock, since events come from
all threads; an error of the tracer becomes a `lost` record, and tracing stops. An exception that a signal handler
raised while the tracer ran belongs to the program: tracing stops, and it goes on its way.

**Room.** A callback needs frames on the stack that the program may have used up. Near the recursion limit
(`Recorder.tight`) the limit is raised while a callback works, and put back after it. When it cannot be put back,
since the callback itself stands at the limit, it stays raised until one can; only the very last frames that the limit
allows are concerned.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

from .memory import Full
from .own import protect
from .recorder import Recorder

protect(globals())

MORE_FRAMES = 150
_getrecursionlimit, _setrecursionlimit = sys.getrecursionlimit, sys.setrecursionlimit


class Guarded:
    """What the cores have in common."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.stopped = False
        self.lock = recorder.lock
        self.own_fault: BaseException | None = None
        """An exception that is raised on purpose."""

    def stop(self) -> None:
        """Trace no more."""
        raise NotImplementedError

    def guarded(self, handle: Callable[..., Any]) -> Callable[..., Any]:
        """`handle`, kept from harming the program."""
        lock, recorder = self.lock, self.recorder

        def event(*args: Any) -> Any:
            if self.stopped:
                return None
            if recorder.tight and not self.recorder.own_limit:
                self.recorder.own_limit = _getrecursionlimit()
                _setrecursionlimit(self.recorder.own_limit + MORE_FRAMES)
            try:
                with lock:
                    return handle(*args)
            except BaseException as fault:
                if self._is_foreign(fault):
                    raise
                return None
            finally:
                if self.recorder.own_limit:
                    self.put_limit_back()

        return event

    def put_limit_back(self) -> None:
        """Give the program its limit back, if that is possible here."""
        try:
            _setrecursionlimit(self.recorder.own_limit)
        except RecursionError:
            return
        self.recorder.own_limit = 0

    def _is_foreign(self, fault: BaseException) -> bool:
        """Give up after an error; whether it is the program's, who must see it."""
        if fault is self.own_fault:
            return True
        foreign = not isinstance(fault, Exception) or _comes_from_outside(fault)
        if not isinstance(fault, Full):
            why = (
                "a signal interrupted the tracer" if foreign else f"the tracer failed: {type(fault).__name__}: {fault}"
            )
            self.recorder.lost(why)
        self.give_up()
        return foreign

    def give_up(self) -> None:
        """Write nothing more, and trace nothing more."""
        self.recorder.seal()
        self.stopped = True
        self.stop()


def _comes_from_outside(fault: BaseException) -> bool:
    """Whether its innermost frame is none of this package: a signal handler of the program raised it."""
    tb = fault.__traceback__
    code: types.CodeType | None = None
    while tb is not None:
        code = tb.tb_frame.f_code
        tb = tb.tb_next
    return code is not None and not code.co_filename.startswith(_HERE)


_HERE = __file__.rpartition("/")[0]
