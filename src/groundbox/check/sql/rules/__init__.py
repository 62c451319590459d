"""Rules, a subject in each file; `all_rules` has them in the order in which their findings are told."""

from __future__ import annotations

from groundbox.check.sql.finding import Rule


def all_rules() -> tuple[Rule, ...]:
    """Every rule."""
    from groundbox.check.sql.rules import columns, conditions, joins, repeats, result, values, wording

    return tuple(
        rule for module in (values, joins, conditions, repeats, result, columns, wording) for rule in module.RULES
    )
