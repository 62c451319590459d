"""`display` for environments without IPython: the same calls, straight to the host."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from .bundles import Bundler, clean

Emit = Callable[[dict[str, Any]], None]

_ids = itertools.count(1)


class Handle:
    """What `display(..., display_id=True)` returns: a display that can be replaced."""

    def __init__(self, display_id: str, show: Callable[..., Any]) -> None:
        self.display_id = display_id
        self._show = show

    def display(self, value: Any, **options: Any) -> None:
        """Show `value` under this handle's id."""
        self._show(value, display_id=self.display_id, **options)

    def update(self, value: Any, **options: Any) -> None:
        """Replace what was shown under this handle's id."""
        self._show(value, display_id=self.display_id, update=True, **options)

    def __repr__(self) -> str:
        return f"<Handle display_id={self.display_id}>"


def make_display(bundler: Bundler, emit: Emit) -> Callable[..., Handle | None]:
    """The function that programs call as `display`."""

    def display(
        *values: Any,
        raw: bool = False,
        clear: bool = False,
        display_id: str | bool | None = None,
        update: bool = False,
        **options: Any,
    ) -> Handle | None:
        """Show values: rich forms where they have them. With `raw`, values are MIME bundles."""
        name = str(next(_ids)) if display_id is True else display_id or None
        if clear:
            emit({"ev": "clear"})
        for value in values:
            data = clean(value) if raw else bundler(value)
            if data:
                emit(display_event(data, name, update=update))
        return Handle(name, display) if name and display_id is True else None

    return display


def display_event(data: dict[str, Any], display_id: str | None, *, update: bool = False) -> dict[str, Any]:
    """The event of one display. `update` replaces the one shown before under the same id."""
    event: dict[str, Any] = {"ev": "display", "data": data}
    if display_id is not None:
        event["display_id"] = display_id
    if update:
        event["update"] = True
    return event
