"""The end of an engine in the background: when nobody needs it any more, or its own source has changed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from groundbox.server.service import Service

_LOOK_S: Final = 0.5
_PACKAGE: Final = str(Path(__file__).resolve().parents[1]) + os.sep


class Lifetime:
    """An ASGI application around another one, which counts requests and sets `stop` when the end has come."""

    def __init__(self, app: Any, service: Service, *, idle_s: float, withdraw: Callable[[], None]) -> None:
        """Args:
        idle_s: Seconds without a request and without a sandbox after which it ends.
        withdraw: Takes the socket's name away, so that new clients start another engine.
        """
        self._app, self._service, self._idle_s, self._withdraw = app, service, idle_s, withdraw
        self.stop = asyncio.Event()
        self._requests = 0
        self._used = time.monotonic()
        self._sources = _sources()
        self._outdated = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request, as ASGI has it."""
        if scope["type"] == "lifespan":
            watching = asyncio.create_task(self._watch())
            try:
                await self._app(scope, receive, send)
            finally:
                watching.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await watching
            return
        self._requests += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._requests -= 1
            self._used = time.monotonic()

    async def _watch(self) -> None:
        while not self.stop.is_set():
            await asyncio.sleep(_LOOK_S)
            if not self._outdated and self._is_outdated():
                self._outdated = True
                self._withdraw()
            busy = self._requests > 0 or len(self._service.sandboxes) > 0
            idle_s = time.monotonic() - self._used
            if not busy and idle_s > (_LOOK_S if self._outdated else self._idle_s):
                self._withdraw()  # first, so that nobody finds one that ends
                self.stop.set()

    def _is_outdated(self) -> bool:
        """Whether a source that was loaded has changed; those loaded since are taken note of."""
        for path, stamp in self._sources.items():
            if _stamp(path) != stamp:
                return True
        self._sources = {**_sources(), **self._sources}
        return False


def _sources() -> Mapping[str, tuple[int, int]]:
    """Files of this package that are loaded, and when and how large they were."""
    paths = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    return {path: _stamp(path) for path in paths if isinstance(path, str) and path.startswith(_PACKAGE)}


def _stamp(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size
