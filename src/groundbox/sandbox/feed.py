"""Events of a run on their way to whoever listens, with a bound on how many wait."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Callable
from typing import Final

from groundbox.execution import Display, Event
from groundbox.sandbox import wire
from groundbox.sandbox.report import Listener

_FULL_BYTES: Final = 4 * 1024 * 1024
_LOW_BYTES: Final = 1024 * 1024
_EVENT_BYTES: Final = 512
"""What an event takes besides its text, which may be one character."""


class Feed:
    """A queue that pauses the program's output while a slow consumer lets too much wait.

    Displays are not held back: what a run may show is bounded as it is.
    """

    def __init__(self, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        self._pause, self._resume = pause, resume
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self._waiting_bytes = 0
        self._paused = self._is_cleared = False
        self._decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("stdout", "stderr")}

    def listener(self) -> Listener:
        """What the worker is to call."""
        return Listener(self._output, self._display, self._clear)

    def end(self) -> None:
        """No event will follow."""
        self._queue.put_nowait(None)

    async def next(self) -> Event | None:
        """The next event, or None after the last one."""
        event = await self._queue.get()
        if event is not None and event.kind != "display":
            self._waiting_bytes -= len(event.text) + _EVENT_BYTES
            if self._paused and self._waiting_bytes < _LOW_BYTES:
                self._paused = False
                self._resume()
        return event

    def _output(self, stream: str, data: bytes) -> None:
        text = self._decoders[stream].decode(data)
        if not text:
            return
        self._is_cleared = False
        self._queue.put_nowait(Event(kind=stream, text=text))
        self._waiting_bytes += len(text) + _EVENT_BYTES
        if not self._paused and self._waiting_bytes > _FULL_BYTES:
            self._paused = True
            self._pause()

    def _display(self, shown: wire.Shown) -> None:
        display = Display(data=shown.bundle.data)
        self._is_cleared = False
        self._queue.put_nowait(
            Event(kind="display", display=display, display_id=shown.display_id, updates=shown.updates)
        )

    def _clear(self, cleared: wire.Cleared) -> None:
        if not self._is_cleared:  # what is shown between two of them is bounded, and so are they
            self._is_cleared = True
            self._waiting_bytes += _EVENT_BYTES
            self._queue.put_nowait(Event(kind="clear", waits=cleared.wait))
