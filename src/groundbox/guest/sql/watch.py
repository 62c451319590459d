"""SIGINT during a query: native code stops too.

CPython runs a signal's handler between two instructions of the main thread, and a query is one instruction that
may never end. What CPython does at once, in its handler in C, is to write a byte to the wakeup descriptor. A thread
waits for that byte and calls the engine's own `interrupt`, again and again until the query has returned, because
one that comes just before the query begins is forgotten by the engine. See `signal.set_wakeup_fd`.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` wraps it in Python, where another signal could be handled
import _thread
import os
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Final

_AGAIN_S: Final = 0.01
_CAUGHT_UP: Final = b"\0"
_END: Final = b"\xff"
"""Neither is the number of a signal."""
_MOST_LOOKS: Final = 200
_LOOK_S: Final = 0.0005


class Watch:
    """While it is open, SIGINT raises KeyboardInterrupt in Python code and interrupts the engine in native code.

    Its thread is started at the first use and waits until `let_go`; without room for one more thread only Python code
    hears of a signal, and the host's deadline holds all the same.

    Attributes:
        heard: Whether a SIGINT came since it was opened.
    """

    def __init__(self, interrupt: Callable[[], object]) -> None:
        self.heard = False
        self._interrupt = interrupt
        self._open = False
        self._interrupting = _thread.allocate_lock()
        self._caught_up = _thread.allocate_lock()
        self._caught_up.acquire()
        self._reader = self._writer = self._thread = -1

    def __enter__(self) -> Watch:
        if self._writer < 0:
            self._start()
        self.heard, self._open = False, True
        self._before_fd = _signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        self._before = _signal.signal(_signal.SIGINT, self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
        _signal.set_wakeup_fd(self._before_fd)
        with self._interrupting:
            self._open = False
        if self.heard and self._waits:  # what is still in the pipe must not interrupt the next query
            os.write(self._writer, _CAUGHT_UP)
            self._caught_up.acquire()
        _signal.signal(_signal.SIGINT, self._before)

    def let_go(self) -> None:
        """End the thread and close the pipe, neither of which can be copied (parking.py). The next use has others."""
        if self._writer < 0:
            return
        reader, writer = self._reader, self._writer
        self._reader = self._writer = -1
        try:
            if self._waits:
                os.write(writer, _END)
                if not self._caught_up.acquire(timeout=_MOST_LOOKS * _LOOK_S):
                    return  # a cell has closed or exchanged the pipe: who looks for threads finds this one
            os.close(writer)
            os.close(reader)
        except OSError:
            return
        for _ in range(_MOST_LOOKS):  # it has said that it ends, and is there until the kernel has ended it
            if not self._waits or not os.path.exists(f"/proc/self/task/{self._thread}"):
                return
            time.sleep(_LOOK_S)

    def _start(self) -> None:
        self._reader, self._writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._writer, False)
        try:
            _thread.start_new_thread(self._wait, (self._reader,))
            self._waits = True
        except RuntimeError:
            self._waits = False

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.heard = True
        if frame is None or frame.f_code not in (Watch.__enter__.__code__, Watch.__exit__.__code__):
            raise KeyboardInterrupt

    def _wait(self, reader: int) -> None:
        self._thread = _thread.get_native_id()
        while True:
            byte = os.read(reader, 1)
            if not byte:  # a cell has closed the other end
                return
            if byte == _END:
                self._caught_up.release()
                return
            if byte == _CAUGHT_UP:
                self._caught_up.release()
            elif byte[0] == _signal.SIGINT:
                while self._interrupted():
                    time.sleep(_AGAIN_S)

    def _interrupted(self) -> bool:
        with self._interrupting:
            if self._open:
                self.heard = True
                self._interrupt()
            return self._open
