"""Evidence that a run which succeeded may still be wrong: plain functions, without a model and without a framework."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from groundbox.check.answers.checking import check_answer
    from groundbox.check.answers.report import AnswerReport
    from groundbox.check.contract_results import check_contract
    from groundbox.check.contracts import Contract
    from groundbox.check.determinism import check_determinism, check_determinism_async
    from groundbox.check.formulations import Agreement, Candidate, compare_candidates, compare_candidates_async
    from groundbox.check.python.check import check_python
    from groundbox.check.sql.checking import check_sql

_HOME = {
    "Agreement": "formulations",
    "AnswerReport": "answers.report",
    "Candidate": "formulations",
    "Contract": "contracts",
    "check_answer": "answers.checking",
    "check_contract": "contract_results",
    "check_determinism": "determinism",
    "check_determinism_async": "determinism",
    "check_python": "python.check",
    "check_sql": "sql.checking",
    "compare_candidates": "formulations",
    "compare_candidates_async": "formulations",
}

__all__ = [
    "Agreement",
    "AnswerReport",
    "Candidate",
    "Contract",
    "check_answer",
    "check_contract",
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
