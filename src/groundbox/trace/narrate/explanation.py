"""Explanations of values: the expression again, with recorded values in place of names.

`(lo + hi) // 2` is explained by `(0 + 3) // 2`, `nums[mid] < target` by `3 < 5`, and a condition of several parts by
the part that decided it. Everything that is written here was worked out to the very value that the trace recorded.

Comprehensions are told item by item: which items were kept, and what became of them. The records have no steps inside a
comprehension; that is worked out from the values at its moment, too, and only where the whole expression then has the
recorded value.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from groundbox.trace.narrate.evaluation import Evaluation
from groundbox.trace.narrate.literals import literal
from groundbox.trace.narrate.paths import with_indexes
from groundbox.trace.record.syntax import copied, walked
from groundbox.values.parsing import expression_of
from groundbox.values.unknown import Unknown

MAX_INLINE: Final = 40
"""Characters of a container that is written out in the middle of an expression."""
MAX_TEXT: Final = 100
"""Characters of one explanation; a longer one explains nothing."""
MAX_ITEMS: Final = 10
"""Items of a comprehension that is told item by item."""
MAX_ITEMS_TEXT: Final = 160
"""Characters of what is told of them."""
_CONTAINERS: Final = frozenset(("frozenset", "list", "set", "sorted", "tuple"))
_MUTABLE: Final = frozenset({"deque", "Counter", "OrderedDict", "defaultdict", "bytearray", "set", "ChainMap"})

_Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp

_SIGN: Final[dict[type[ast.cmpop], str]] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.In: "is in",
    ast.NotIn: "is not in",
    ast.Is: "is",
    ast.IsNot: "is not",
}
_OPPOSITE: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


class Worded(NamedTuple):
    """Words, the code that they are about, and what they say of it."""

    text: str
    subject: str
    value: str


class Ground(NamedTuple):
    """Part of a reason.

    Attributes:
        says: Each thing that it says, as kind, subject and value of a claim (docs/proof.md). Without a subject it is
            the condition itself, with values in place of names.
    """

    text: str
    says: Sequence[tuple[str, str, str]]


class Reason(str):
    """Words for what decided a condition: its grounds, joined by `and`."""

    grounds: Sequence[Ground]

    def __new__(cls, grounds: Sequence[Ground]) -> Reason:
        """Join the grounds."""
        reason = super().__new__(cls, " and ".join(ground.text for ground in grounds))
        reason.grounds = grounds
        return reason


class Explanation(Evaluation):
    """Explains expressions at one moment in one frame."""

    def workings(self, node: ast.expr, result: str) -> str | None:
        """The expression with values for names, if it leads to `result` and shows more than that.

        `3 + 5` for `total + x` when the result is `8`; None for `x`, whose value is all there is to say.
        """
        # Worked out anew: what does not come to the recorded value is not told as its workings.
        if self.literal(node) != result or isinstance(node, ast.BoolOp) or _asks_for_identity(node):
            return None  # `None or (5, 3)` and `None is not None` in the middle of a sentence say two things
        text = self._with_values(node)
        # `3 = 3` and `x = x` explain nothing.
        return None if text in (None, result, ast.unparse(node)) or len(text or "") > MAX_TEXT else text

    def literal(self, node: ast.expr, limit: int = 10_000) -> str | None:
        """The value of an expression as text, if it can be worked out and has such a text."""
        try:
            text = literal(self.value(node))
        except Unknown:
            return None
        return text if len(text) <= limit else None

    def code(self, node: ast.expr) -> str | None:
        """The code in backticks, if it is short."""
        text = ast.unparse(node)
        return f"`{text}`" if len(text) <= MAX_INLINE and "`" not in text else None

    def items(self, node: ast.expr) -> Sequence[Worded]:
        """Return what a comprehension in an expression did with its items."""
        return _items_of(node, self)

    def place(self, node: ast.expr) -> str:
        """The code of a name, attribute or item, with the values of its indexes: `dp[3]` for `dp[i + 1]`."""
        return with_indexes(node, self)

    def is_of_an_array(self, node: ast.expr) -> bool:
        """Return whether it reads an array's item, which is made by that: `grid[1, :]` is another array each time."""
        return isinstance(node, ast.Subscript) and self.is_in_an_array(node.value)

    def call(self, node: ast.Call) -> str:
        """The code of a call, with its arguments' values as far as they are short."""
        made = copied(node)
        values = _Values(self)
        made.args = [values.whole(argument) for argument in made.args]
        for keyword in made.keywords:
            keyword.value = values.whole(keyword.value)
        return ast.unparse(made)

    def reason(self, test: ast.expr, truth: bool) -> Reason | None:
        """Return what decided a condition, as a true statement; None where it cannot be worked out to that truth."""
        try:
            reason = Reason(self._reason(test, truth))
        except Unknown:
            return None
        return reason if len(reason) <= MAX_TEXT else None

    def _reason(self, test: ast.expr, truth: bool) -> list[Ground]:
        match test:
            case ast.BoolOp(op=op, values=parts):
                # One true part decides an `or`, one false part an `and`; otherwise all of them do.
                return self._reason_of_several(parts, truth, decided_by_one=isinstance(op, ast.Or) is truth)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self._reason(operand, not truth)
            case ast.Compare():
                return self._reason_of_comparison(test, truth)
            case ast.Constant():
                raise Unknown("a constant condition needs no reason")
        return [self._reason_of_truth(test, truth)]

    def _reason_of_several(self, parts: list[ast.expr], truth: bool, *, decided_by_one: bool) -> list[Ground]:
        if not decided_by_one:
            return [ground for part in parts for ground in self._reason(part, truth)]
        for part in parts:
            if self.truth(part) is truth:
                return self._reason(part, truth)
        raise Unknown("no part decided")

    def _reason_of_truth(self, test: ast.expr, truth: bool) -> Ground:
        if self.truth(test) is not truth:
            raise Unknown("the value does not fit the branch that was taken")
        code, operand = ast.unparse(test), _operand(test)
        try:
            value = self.value(test)
        except Unknown:
            # An instance of the program's classes has no value to show.
            return Ground(f"`{code}` is not None", [("test", f"{operand} is not None", "True")])
        if hasattr(value, "__len__"):
            return Ground(
                f"`{code}` is {'not empty' if truth else 'empty'}", [("test", f"not {operand}", str(not truth))]
            )
        if value is None:
            return Ground(f"`{code}` is None", [("test", f"{operand} is None", "True")])
        told = ("value", code, literal(value))
        if not truth or value is True:
            return Ground(f"`{code}` is {literal(value)}", [told])
        return Ground(f"`{code}` is {literal(value)}, not 0", [told, ("test", f"{operand} != 0", "True")])

    def _reason_of_comparison(self, test: ast.Compare, truth: bool) -> list[Ground]:
        sides = [test.left, *test.comparators]
        pairs = list(zip(sides, test.ops, sides[1:], strict=False))
        if not truth:
            for left, op, right in pairs:
                # The first link of a chain that does not hold is where Python stops.
                if not self.truth(ast.Compare(left, [op], [right])):
                    if not self.truth(ast.Compare(left, [_OPPOSITE[type(op)]()], [right])):
                        raise Unknown("neither holds: one of the two is nan")
                    return self._relation(left, _OPPOSITE[type(op)], right)
            raise Unknown("every part holds")
        if not self.truth(test):
            raise Unknown("the values do not fit the branch that was taken")
        return [ground for left, op, right in pairs for ground in self._relation(left, type(op), right)]

    def _relation(self, left: ast.expr, op: type[ast.cmpop], right: ast.expr) -> list[Ground]:
        """`7 % 2 = 1 and 1 != 0`: what the sides come to, and how these stand to each other."""
        # Two equal values say nothing of identity.
        if op in (ast.Is, ast.IsNot) or _is_none(right):
            return [_identity(left, right, same=op in (ast.Is, ast.Eq))]
        first, second = self._side(left), self._side(right)
        steps = [
            Ground(f"{side.steps} = {side.value}", [("test", "", f"{side.steps} == {side.value}")])
            for side in (first, second)
            if side.steps
        ]
        # `7 % 2 = 1` alone, for `7 % 2 = 1 and 1 == 1`.
        if op is ast.Eq and first.steps and not second.steps:
            return steps
        sign = _SIGN[op]
        relation = f"{first.value.strip('`')} {sign.removeprefix('is ')} {second.value.strip('`')}"
        return [*steps, Ground(f"{first.value} {sign} {second.value}", [("test", "", relation)])]

    def _side(self, node: ast.expr) -> _Side:
        value = literal(self.value(node))
        if len(value) > MAX_INLINE:
            return _Side(f"`{ast.unparse(node)}`", None)
        if not isinstance(node, ast.BinOp | ast.UnaryOp | ast.Call | ast.Subscript):
            return _Side(value, None)
        steps = self._with_values(node)
        return _Side(value, steps if steps != value and len(steps or "") <= MAX_INLINE else None)

    def _with_values(self, node: ast.expr) -> str | None:
        replaced = _Values(self).visit(copied(node))
        try:
            return ast.unparse(ast.fix_missing_locations(replaced))
        except (ValueError, RecursionError):
            return None


class _Side(NamedTuple):
    """Side of a comparison: its value, and what that was worked out from, if that says more."""

    value: str
    steps: str | None


class _Values(ast.NodeTransformer):
    """Puts values where names, items, attributes and lengths stand; operators and other calls stay."""

    def __init__(self, evaluation: Evaluation) -> None:
        self._evaluation = evaluation

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._replaced(node) if isinstance(node.ctx, ast.Load) else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return self._replaced(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        found = self._replaced(node)
        return self.generic_visit(node) if found is node else found  # type: ignore[return-value]

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if self._evaluation.called(node) is not None or (isinstance(node.func, ast.Name) and node.func.id == "len"):
            found = self._replaced(node)
            if found is not node:
                return found
        # Kept as it was: the parts of `node` are replaced in place.
        whole = copied(node)
        if isinstance(node.func, ast.Attribute):
            node.func.value = self._owner(node.func.value)
        node.args = [self.visit(argument) for argument in node.args]
        return node if len(ast.unparse(node)) <= MAX_INLINE else self._replaced(whole)

    def _owner(self, node: ast.expr) -> ast.expr:
        """Return what a method is called of: a number keeps its name, since `10.bit_length()` is no code."""
        found = self.visit(copied(node))
        is_number = isinstance(found, ast.UnaryOp) or (
            isinstance(found, ast.Constant) and isinstance(found.value, int | float | complex)
        )
        return node if is_number and not isinstance(node, ast.UnaryOp | ast.Constant) else found

    # Names in these may be variables of their own: they stay as they are written.
    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        return node

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_Lambda = visit_ListComp  # type: ignore[assignment]

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        return self._replaced(node)

    def whole(self, node: ast.expr) -> ast.expr:
        """The value of an argument as an expression; an object, which the call may have changed, goes by its code."""
        found = self._replaced(node)
        return node if any(_can_change(part) for part in ast.walk(found)) else found

    def _replaced(self, node: ast.expr) -> ast.expr:
        try:
            text = literal(self._evaluation.value(node))
        except Unknown:
            return node
        return expression_of(text) if len(text) <= MAX_INLINE else node


def _can_change(node: ast.AST) -> bool:
    """Return whether a literal is of an object that can change, as `deque([1])` is and `frozenset({1})` is not."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in _MUTABLE
    return isinstance(node, ast.List | ast.Dict | ast.Set)


def _asks_for_identity(node: ast.expr) -> bool:
    compared = (part for part in walked(node) if isinstance(part, ast.Compare))
    return any(isinstance(op, ast.Is | ast.IsNot) for part in compared for op in part.ops)


def _identity(left: ast.expr, right: ast.expr, *, same: bool) -> Ground:
    code, word = ast.unparse(left), "is" if same else "is not"
    other = ast.unparse(right)
    if not isinstance(right, ast.Constant):
        return Ground(f"`{code}` {word} `{other}`", [("test", f"{code} {word} {other}", "True")])
    said = ("test", f"{_operand(left) if _is_none(right) else code} {word} {other}", "True")
    # `x is True` tells the value.
    return Ground(f"`{code}` {word} {other}", [("value", code, other) if same and not _is_none(right) else said])


def _operand(node: ast.expr) -> str:
    """The code of an expression, such that it may stand beside an operator."""
    alone = ast.Name | ast.Attribute | ast.Subscript | ast.Call | ast.Constant
    return ast.unparse(node) if isinstance(node, alone) else f"({ast.unparse(node)})"


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _items_of(node: ast.expr, evaluation: Evaluation) -> Sequence[Worded]:
    """Return what to say of the only comprehension in an expression; nothing where it is long or not known."""
    found = [part for part in walked(node) if isinstance(part, ast.comprehension)]
    holders = [part for part in walked(node) if isinstance(part, _Comprehension)]
    # Of two comprehensions, or of one with two `for`s, no single row of items can be told.
    if len(found) != 1 or len(holders) != 1:
        return ()
    try:
        said = _details(holders[0], found[0], evaluation, whole=_shows_all(node, holders[0]))
    except Unknown:
        return ()
    return [detail for detail in said if len(detail.text) <= MAX_ITEMS_TEXT]


def _details(holder: _Comprehension, clause: ast.comprehension, evaluation: Evaluation, *, whole: bool) -> list[Worded]:
    """For `whole`, the value of the line shows what became of the items."""
    items = evaluation.value(clause.iter)
    # A set or dict has an order that the text cannot rely on.
    if not isinstance(clause.target, ast.Name) or isinstance(items, set | dict | frozenset) or len(items) > MAX_ITEMS:
        raise Unknown("it is not told")
    name = clause.target.id
    kept = [item for item in items if all(evaluation.value_with(test, name, item) for test in clause.ifs)]
    said: list[Worded] = []
    if clause.ifs and items:
        code = ast.unparse(clause.ifs[0] if len(clause.ifs) == 1 else ast.BoolOp(ast.And(), clause.ifs))
        row = "all" if len(kept) == len(items) else f"the items {_row(kept)}" if kept else "none"
        said.append(Worded(f"{row} of {literal(items)} pass `{code}`", code, row))
    if kept and not whole and not (isinstance(holder.elt, ast.Name) and holder.elt.id == name):
        code = ast.unparse(holder.elt)
        row = _row([evaluation.value_with(holder.elt, name, item) for item in kept])
        said.append(Worded(f"`{code}` gives {row} for the items {_row(kept)}", code, row))
    return said


def _shows_all(node: ast.expr, holder: _Comprehension) -> bool:
    """Return whether the value of the expression is the comprehension's, or its items in a container."""
    makes = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CONTAINERS
    return node is holder or (isinstance(node, ast.Call) and makes and node.args == [holder])


def _row(items: Sequence[Any]) -> str:
    return ", ".join(literal(item) for item in items)
