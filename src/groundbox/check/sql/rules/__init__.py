"""Rules, a family in each file; `all_rules` has them in the order in which their findings are told."""

from __future__ import annotations

from groundbox.check.sql.finding import Rule


def all_rules() -> tuple[Rule, ...]:
    """Every rule."""
    from groundbox.check.sql.rules import (
        conditions,
        joins,
        mutations,
        recomputed,
        repeats,
        result,
        rewritings,
        values,
        variants,
        wording,
        wording_columns,
    )

    asked = (values, joins, conditions, repeats, result, wording_columns, wording, variants)
    modules = (*asked, rewritings, mutations, recomputed)  # those that ask the most come last
    return tuple(rule for module in modules for rule in module.RULES)
