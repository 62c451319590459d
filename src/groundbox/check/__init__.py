"""Evidence that a run which succeeded may still be wrong: plain functions, without a model and without a framework."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from groundbox.check.determinism import check_determinism, check_determinism_async
    from groundbox.check.formulations import Agreement, Candidate, compare_candidates, compare_candidates_async
    from groundbox.check.python.check import check_python
    from groundbox.check.sql.checking import check_sql

_HOME = {
    "Agreement": "formulations",
    "Candidate": "formulations",
    "check_determinism": "determinism",
    "check_determinism_async": "determinism",
    "check_python": "python.check",
    "check_sql": "sql.checking",
    "compare_candidates": "formulations",
    "compare_candidates_async": "formulations",
}

__all__ = [
    "Agreement",
    "Candidate",
    "check_determinism",
    "check_determinism_async",
    "check_python",
    "check_sql",
    "compare_candidates",
    "compare_candidates_async",
]


def __getattr__(name: str) -> Any:
    """Load a public name at its first use."""
    if name not in _HOME:
        raise AttributeError(f"module 'groundbox.check' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"groundbox.check.{_HOME[name]}"), name)
    globals()[name] = value
    return value
