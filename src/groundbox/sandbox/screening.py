"""What may be shown of a display, by the runtime of the language that showed it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

HERE_BYTES: Final = 16 * 1024
"""A smaller display is looked at in the event loop; larger ones take up to a second, for which others would wait."""
Screen = Callable[[dict[str, Any]], dict[str, Any]]


def screened(screen: Screen, data: dict[str, Any]) -> dict[str, Any]:
    """A runtime of another package may fail at it, and then nothing is shown."""
    try:
        return screen(data)
    except Exception as error:
        return {"text/plain": f"not shown, because looking at it failed: {type(error).__name__}: {error}"[:500]}
