"""DataFrames among the variables of Python cells."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

Namespace = Callable[[], dict[str, Any]]
"""Gives the variables of Python cells, as they are now."""


def is_frame(value: Any) -> bool:
    """Whether a query can read it as a table."""
    pandas: Any = sys.modules.get("pandas")
    return pandas is not None and issubclass(type(value), pandas.DataFrame)


def frames_in(namespace: dict[str, Any]) -> dict[str, Any]:
    """Those that the program named itself, by their names."""
    return {name: value for name, value in list(namespace.items()) if name[:1] != "_" and is_frame(value)}
