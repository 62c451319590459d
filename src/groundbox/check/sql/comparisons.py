"""Finds what the conditions of a select compare: columns with columns, columns with constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from groundbox.check.sql.parts import Edge, Predicate, Ref, Select, constant, resolve, resolve_named, sqlglot_module
from groundbox.check.sql.schema import Schema

_COMPARISONS: Final = {"EQ": "=", "NEQ": "!=", "GT": ">", "GTE": ">=", "LT": "<", "LTE": "<="}
_TURNED: Final = {"=": "=", "!=": "!=", ">": "<", ">=": "<=", "<": ">", "<=": ">="}


def compare(select: Select, schema: Schema) -> None:
    """Find what the select's conditions compare."""
    exp = sqlglot_module("expressions")
    conditions = [join.args["on"] for join in select.node.args.get("joins") or () if join.args.get("on")]
    if select.has("where"):
        conditions.append(select.node.args["where"].this)
    finder = _Finder(select, schema, exp)
    for condition in conditions:
        finder.walk(condition, in_or=False, negated=False)
    for join in select.node.args.get("joins") or ():
        for name in join.args.get("using") or ():
            finder.using(join, name.name)


class _Finder:
    def __init__(self, select: Select, schema: Schema, exp: Any) -> None:
        self._select, self._schema, self._exp, self._group = select, schema, exp, 0

    def walk(self, node: Any, *, in_or: bool, negated: bool) -> None:
        exp = self._exp
        if isinstance(node, exp.Paren):
            self.walk(node.this, in_or=in_or, negated=negated)
        elif isinstance(node, exp.And):
            self.walk(node.left, in_or=in_or, negated=negated)
            self.walk(node.right, in_or=in_or, negated=negated)
        elif isinstance(node, exp.Or):
            outer = self._group
            for side in (node.left, node.right):
                self._last = getattr(self, "_last", 0) + 1
                self._group = self._last
                self.walk(side, in_or=True, negated=negated)
            self._group = outer
        elif isinstance(node, exp.Not):
            self.walk(node.this, in_or=in_or, negated=not negated)
        else:
            self._leaf(node, in_or, negated)

    def using(self, join: Any, name: str) -> None:
        right = resolve_named(self._select, join.alias_or_name, name, self._schema)
        for alias in self._select.tables:
            left = resolve_named(self._select, alias, name, self._schema)
            if alias != join.alias_or_name and left and right:
                self._select.edges.append(Edge(left, right, "join"))
                return

    def _leaf(self, node: Any, in_or: bool, negated: bool) -> None:
        exp = self._exp
        kind = type(node).__name__
        if kind in _COMPARISONS:
            operator = _COMPARISONS[kind]
            if negated:
                operator = {"=": "!=", "!=": "=", ">": "<=", ">=": "<", "<": ">=", "<=": ">"}[operator]
            self._comparison(node, operator, in_or)
        elif isinstance(node, exp.In):
            self._in(node, in_or, negated)
        elif isinstance(node, (exp.Like, exp.ILike)):
            self._predicate(node.this, "not like" if negated else "like", [node.expression], in_or, node)
        elif isinstance(node, exp.Between):
            self._predicate(node.this, ">=", [node.args["low"]], in_or, node)
            self._predicate(node.this, "<=", [node.args["high"]], in_or, node)
        elif isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            ref = self._ref(node.this)
            if ref is not None:
                self._add(ref, "is not null" if negated else "is null", (), in_or, node)

    def _comparison(self, node: Any, operator: str, in_or: bool) -> None:
        exp = self._exp
        left, right = self._ref(node.left), self._ref(node.right)
        if left and right:
            if operator == "=" and left.alias != right.alias:
                self._select.edges.append(Edge(left, right, "join"))
            return
        for ref, other, told in ((left, node.right, operator), (right, node.left, _TURNED[operator])):
            if ref is None:
                continue
            inner = self._looked_up(other)
            if inner is not None and told in ("=", "!="):
                self._select.edges.append(Edge(ref, inner, "subquery", told == "!=", _bare(other, exp)))
            else:
                self._predicate_of(ref, told, [other], in_or, node)

    def _in(self, node: Any, in_or: bool, negated: bool) -> None:
        ref = self._ref(node.this)
        if ref is None:
            return
        query = node.args.get("query")
        inner = self._looked_up(query) if query is not None else None
        if inner is not None:
            self._select.edges.append(Edge(ref, inner, "subquery", negated, _bare(query, self._exp)))
        elif query is None:
            self._predicate_of(ref, "not in" if negated else "in", node.expressions, in_or, node)

    def _predicate(self, left: Any, operator: str, values: Sequence[Any], in_or: bool, node: Any) -> None:
        ref = self._ref(left)
        if ref is not None:
            self._predicate_of(ref, operator, values, in_or, node)

    def _predicate_of(self, ref: Ref, operator: str, values: Sequence[Any], in_or: bool, node: Any) -> None:
        constants = [constant(value) for value in values]
        if constants and None not in constants:
            self._add(ref, operator, tuple(constants), in_or, node)

    def _add(self, ref: Ref, operator: str, values: tuple[Any, ...], in_or: bool, node: Any) -> None:
        table = self._schema.table(ref.table)
        column = table.column(ref.column) if table else None
        if column is not None:
            self._select.predicates.append(
                Predicate(
                    ref=ref, column=column, operator=operator, values=values, in_or=in_or, group=self._group, node=node
                )
            )

    def _ref(self, node: Any) -> Ref | None:
        exp = self._exp
        while isinstance(node, (exp.Paren, exp.Lower, exp.Upper, exp.Trim, exp.Cast, exp.Collate)):
            node = node.this
        return resolve(node, self._select.scope, self._schema) if isinstance(node, exp.Column) else None

    def _looked_up(self, node: Any) -> Ref | None:
        """The column that a subquery gives, when it is a plain one."""
        exp = self._exp
        node = _bare(node, exp)
        if not isinstance(node, exp.Select) or len(node.expressions) != 1:
            return None
        column = node.expressions[0].unalias()
        if not isinstance(column, exp.Column):
            return None
        scopes = self._select.scope.subquery_scopes
        scope = next((each for each in scopes if each.expression is node), None)
        return resolve(column, scope, self._schema) if scope is not None else None


def _bare(node: Any, exp: Any) -> Any:
    """What stands in parentheses."""
    while isinstance(node, (exp.Paren, exp.Subquery)):
        node = node.this
    return node
