"""How often a join may repeat a row: by keys, without looking at the data."""

from __future__ import annotations

from groundbox.check.sql.parts import Select


def repeaters(select: Select, alias: str) -> list[str]:
    """The aliases whose rows may repeat a row of `alias`: what the join and the conditions fix is no key of them."""
    seen, found, waiting = {alias}, [], [alias]
    while waiting:
        waiting.pop()
        for other in _neighbours(select, seen):
            seen.add(other)
            waiting.append(other)
            table = select.tables.get(other)
            if table is not None and not table.is_key(_fixed(select, other, seen - {other})):
                found.append(other)
    return found


def _neighbours(select: Select, seen: set[str]) -> list[str]:
    result = []
    for edge in select.edges:
        for one, other in ((edge.left, edge.right), (edge.right, edge.left)):
            if edge.kind == "join" and one.alias in seen and other.alias not in seen and other.alias not in result:
                result.append(other.alias)
    return result


def _fixed(select: Select, alias: str, seen: set[str]) -> set[str]:
    """Columns of an alias, folded, that a row of the others or a constant fixes."""
    fixed = {
        each.ref.place[1]
        for each in select.predicates
        if each.ref.alias == alias and each.operator == "=" and not each.in_or
    }
    for edge in select.edges:
        for one, other in ((edge.left, edge.right), (edge.right, edge.left)):
            if edge.kind == "join" and one.alias in seen and other.alias == alias:
                fixed.add(other.place[1])
    return fixed


def components(select: Select) -> list[set[str]]:
    """The aliases, in groups that conditions join."""
    groups: list[set[str]] = [{alias} for alias in select.sources]
    for edge in select.edges:
        touched = [group for group in groups if {edge.left.alias, edge.right.alias} & group]
        if edge.kind == "join" and len(touched) > 1:
            groups = [group for group in groups if group not in touched] + [set().union(*touched)]
    return groups
