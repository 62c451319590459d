"""Evidence that a run which succeeded may still be wrong: plain functions, without a model and without a framework."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from groundbox.check.python.check import check_python
    from groundbox.check.sql.checking import check_sql

_HOME = {
    "check_python": "python.check",
    "check_sql": "sql.checking",
}

__all__ = [
    "check_python",
    "check_sql",
]


def __getattr__(name: str) -> Any:
    """Load a public name at its first use."""
    if name not in _HOME:
        raise AttributeError(f"module 'groundbox.check' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"groundbox.check.{_HOME[name]}"), name)
    globals()[name] = value
    return value
