"""A tool of `sys.monitoring` for one recording: events of the program's code objects, and some from everywhere."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .own import protect
from .plan import TRANSPARENT, Code

protect(globals())

_NAME = "groundbox"


class Tool:
    """Calls back for events of some code objects, and for others of all code."""

    def __init__(
        self,
        codes: Iterable[Code],
        local: Mapping[int, Callable[..., Any]],
        everywhere: Mapping[int, Callable[..., Any]],
    ) -> None:
        """Args:
        local: By event: what is called for it, if it is one of the code objects'.
        everywhere: What is called for an event in whatever code.
        """
        self._codes: list[types.CodeType] = [code.code for code in codes if code.kind != TRANSPARENT]
        self._local, self._everywhere = local, everywhere
        self._monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        self._id = -1

    def start(self) -> None:
        """Take a tool's number that nobody has, and ask for the events."""
        monitoring = self._monitoring
        self._id = next(tool for tool in (4, 3, 1, 2, 0, 5) if monitoring.get_tool(tool) is None)
        monitoring.use_tool_id(self._id, _NAME)
        for event, callback in (*self._local.items(), *self._everywhere.items()):
            monitoring.register_callback(self._id, event, callback)
        monitoring.set_events(self._id, sum(self._everywhere))
        for code in self._codes:
            monitoring.set_local_events(self._id, code, sum(self._local))

    def stop(self) -> bool:
        """Ask for nothing any more; whether all was still as `start` left it. Later calls do nothing."""
        if self._id < 0:
            return True
        monitoring, tool = self._monitoring, self._id
        self._id = -1
        intact: bool = monitoring.get_tool(tool) == _NAME and monitoring.get_events(tool) == sum(self._everywhere)
        if monitoring.get_tool(tool) is None:
            return intact
        for code in self._codes:
            intact = intact and monitoring.get_local_events(tool, code) == sum(self._local)
            monitoring.set_local_events(tool, code, 0)
        monitoring.set_events(tool, 0)
        for event, callback in (*self._local.items(), *self._everywhere.items()):
            intact = monitoring.register_callback(tool, event, None) is callback and intact
        monitoring.free_tool_id(tool)
        return intact
