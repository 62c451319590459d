"""Rules, a subject in each file. A module of this package that has `RULES` is found by itself.

What goes in is a `Context` (`groundbox.check.sql.finding`), what comes out are `Finding`s. A code that has not been
counted yet stands in `CODES` of its module, with what it says, and its findings are notes;
scripts/calibrate_sql_checks.py counts it. docs/contributing/extending.md has an example.
"""

from __future__ import annotations

import functools
import pkgutil
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType

from groundbox.check.sql.calibration import SAYS
from groundbox.check.sql.finding import Rule

_ORDER = ("values", "joins", "conditions", "types", "repeats", "result", "columns", "wording")
"""Findings of one tier and precision are told in this order, whatever the folder's; other modules come after."""


@functools.cache
def _modules() -> Sequence[ModuleType]:
    found = sorted(module.name for module in pkgutil.iter_modules(__path__))
    names = [*_ORDER, *(name for name in found if name not in _ORDER)]
    return [import_module(f"{__name__}.{name}") for name in names]


def all_rules() -> tuple[Rule, ...]:
    """Every rule, in the order in which their findings are told."""
    return tuple(rule for module in _modules() for rule in getattr(module, "RULES", ()))


def all_codes() -> Mapping[str, str]:
    """Every code of a finding with what it says: those of the catalog, and those that modules bring."""
    return {**SAYS, **{code: says for module in _modules() for code, says in getattr(module, "CODES", {}).items()}}
