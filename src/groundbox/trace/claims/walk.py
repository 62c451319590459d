"""The run up to a record, in which expressions are worked out: names, objects, results of calls, and conditions.

Nothing is executed: expressions are evaluated by the evaluator of traces, within bounds. Calls of the program's own
functions stand for the results that are recorded, and conditions for the outcomes that are.
"""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from groundbox.trace.claims.course import Course, Lines, asked_by, header_of, truth_of
from groundbox.trace.claims.items import literal_of
from groundbox.trace.claims.run import Run
from groundbox.trace.claims.told import told
from groundbox.trace.record import schema
from groundbox.trace.record.reading import Trace
from groundbox.trace.record.syntax import copied, walked
from groundbox.trace.record.value import kind_of, ref_of
from groundbox.trace.run.objects import Obj
from groundbox.trace.run.python_values import handled_value, recorded
from groundbox.trace.run.state import State
from groundbox.values.equal import as_told
from groundbox.values.evaluate import Lookup, Meter, evaluate
from groundbox.values.parsing import expression_of
from groundbox.values.unknown import Unknown

MOST_WORK: Final = 2_000_000
"""Records and values looked at, and operations of expressions, for all claims of a document, besides one walk."""
_MATH: Final = frozenset(
    (
        *("ceil", "comb", "cos", "degrees", "exp", "fabs", "factorial", "floor", "gcd", "hypot", "isclose", "isqrt"),
        *("lcm", "log", "log10", "log2", "perm", "pow", "radians", "sin", "sqrt", "tan", "trunc"),
    )
)
"""Functions of `math` that are quick for numbers up to `_MOST`."""
_CONSTANTS: Final = frozenset({"e", "inf", "nan", "pi", "tau"})
_MOST: Final = 2_000
_DISPLAYS: Final = frozenset({"frozenset", "range", "set"})
"""Functions whose calls are how values of these types are written."""
_CHANGES: Final = (schema.Set, schema.Del, schema.Mutate, schema.Object, schema.Out)
_OPPOSITE: Final[Mapping[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
NOWHERE: Final = object()
"""In place of a recorded value, of which `None` is one."""


class Walk:
    """The run up to a record.

    Attributes:
        frame: The frame that goes on after the record.
        parents: The frame that called or resumed each frame.
        before: The object that the record changes, as it was.
        left: What may still be looked at, for all claims together.
    """

    def __init__(self, trace: Trace, run: Run) -> None:
        self.trace = trace
        self.records = trace.records
        self.names = run.words
        self.assigned = run.assigned
        self.functions = run.functions
        self.state = State()
        self._tree = run.tree
        self.course = Course(run.tree)
        self.frame = 0
        self.parents: dict[int, int] = {}
        self._made: dict[int, list[int]] = {}
        self._given: dict[int, schema.V] = {}
        self.before: Obj | None = None
        self.left = MOST_WORK

    @functools.cached_property
    def calls(self) -> dict[int, int]:
        """The record of the call of each frame."""
        return {record.f: at for at, record in enumerate(self.records) if isinstance(record, schema.Call)}

    @functools.cached_property
    def code(self) -> frozenset[str]:
        """The expressions that the program is made of."""
        return frozenset(ast.unparse(node) for node in walked(self._tree) if isinstance(node, ast.expr))

    @functools.cached_property
    def lines(self) -> Lines:
        """The lines, tests and iterations of each frame, also those after the record."""
        return Lines(self.records)

    def advance(self, step: int) -> None:
        """Go on until record `step` has been applied."""
        while self.state.t < step:
            at = self.state.t + 1
            record = self.records[at]
            if at == step and isinstance(record, schema.Mutate):
                # Only of the record that is gone to: a change is compared with what was before it.
                self.before = self.state.heap[record.id].copy()
            self.state.apply(record)
            self.course.follow(at, record)
            self._follow(at, record)

    def _follow(self, at: int, record: schema.Record) -> None:
        """Whose turn it is after a record, and which calls its line has made."""
        if isinstance(record, schema.Call | schema.Resume):
            self.parents[record.f] = record.p
            self.frame = record.f
            self._made.setdefault(record.p, []).append(at)
        elif isinstance(record, schema.Return | schema.Unwind | schema.Yield):
            self.frame = self.parents.get(record.f, 0) or record.f
            if isinstance(record, schema.Return):
                self._given[record.f] = record.v
        elif frame := getattr(record, "f", 0):
            self.frame = frame
            if isinstance(record, schema.Line):
                # Calls of the line before are none of this one's.
                self._made.pop(frame, None)

    def call_of(self, step: int) -> int | None:
        """The record of the call that record `step` belongs to."""
        return self.calls.get(getattr(self.records[step], "f", 0))

    @property
    def own(self) -> int:
        """The frame that the record is of, also where that has ended with it."""
        return getattr(self.records[self.state.t], "f", 0) or self.frame

    def settled(self) -> int:
        """The record with which the line has changed all that it changes, as far as it calls nothing more."""
        at = self.state.t
        while at + 1 < len(self.records) and isinstance(self.records[at + 1], _CHANGES):
            at += 1
        return at

    def targets_of(self, node: ast.expr) -> Sequence[ast.expr | ast.Return]:
        """Find what the line under way gives an expression's value to; the statement itself where it returns it."""
        found: list[ast.expr | ast.Return] = []
        line, code = self.lines.before(self.frame, self.state.t), ast.dump(node)
        for statement in self.course.statements.get(line or 0, ()):
            targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
            value = getattr(statement, "value", None)
            if isinstance(statement, ast.Return) and value is not None and ast.dump(value) == code:
                found.append(statement)
            if isinstance(statement, ast.Assign | ast.AnnAssign) and value is not None:
                pairs = (pair for target in targets for pair in _pairs(target, value))
                found += [expression_of(ast.unparse(place)) for place, x in pairs if ast.dump(x) == code]
        return found

    def outcome(self, node: ast.expr) -> bool | None:
        """Return how a condition of the line that runs, or a part of one, came out; None if no record tells it."""
        line = self.lines.before(self.frame, self.state.t)
        code = ast.dump(node)
        found: set[bool | None] = set()
        for statement in self.course.headers.get(line or 0, ()):
            told = self.lines.tests(self.frame, self.state.t, header_of(statement))
            for part in (part for asked in asked_by(statement) for part in walked(asked)) if told else ():
                self.left -= 1
                if self.left > 0 and type(part) is type(node) and ast.dump(part) == code:
                    found.add(truth_of(part, told))
        # What stands twice on a line, with two outcomes, tells nothing.
        found.discard(None)
        return found.pop() if len(found) == 1 else None

    def identity(self, node: ast.expr) -> bool | None:
        """Return whether two names or places hold one object; None if the expression asks for something else."""
        if not (isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Is | ast.IsNot)):
            return None
        labels = [ref_of(self.raw(side)) for side in (node.left, node.comparators[0])]
        return None if None in labels else (labels[0] == labels[1]) is isinstance(node.ops[0], ast.Is)

    def evaluated(self, node: ast.expr) -> Any:
        """The value of an expression in the frame that goes on after the record."""
        lookup = recorded(self.state, self.frame, self.assigned)
        if not _calls_something(node):
            return self.worked_out(node, lookup)
        results = _Results(self, lookup)
        prepared = results.visit(copied(node))
        return self.worked_out(prepared, results.value_of)

    def worked_out(self, node: ast.expr, lookup: Lookup) -> Any:
        """The value of an expression, whose operations count as work. Raises Unknown."""
        meter = Meter()
        try:
            return evaluate(node, lookup, meter)
        finally:
            self.left -= 1 + meter.used

    def is_known(self, node: ast.expr) -> bool:
        try:
            self.evaluated(node)
        except Unknown:
            return False
        return True

    def is_math(self, node: ast.expr) -> bool:
        """Return whether a name stands for the module `math`."""
        raw = self.raw(node) if isinstance(node, ast.Name) else None
        return isinstance(raw, dict) and raw.get("module") == "math"

    def size_of(self, node: ast.expr) -> int | None:
        """Return how many items an object has that is no plain value, as an array; None for others."""
        obj = self.state.heap.get(ref_of(self.raw(node)) or 0)
        if obj is None or obj.type not in ("array", "deque", "list") or "len" in self.assigned:
            return None
        if obj.type == "array":
            return obj.shape[0] if obj.shape and len(obj.shape) == 1 else None
        return len(obj.items) if obj.items is not None else None

    def result(self, node: ast.Call) -> Any:
        """Return what the program's function gave when the line under way called it. Raises Unknown."""
        return handled_value(self.state, self.returned(node))

    def returned(self, node: ast.Call) -> schema.V:
        """Return what the program's function gave when the line under way called it; of a class, its new object."""
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        found: list[schema.V] = []
        for at in self._made.get(self.frame, ()):
            call = self.records[at]
            self.left -= 1
            if not isinstance(call, schema.Call) or not is_of(call, name) or call.f not in self._given:
                continue
            # A method has its object in front; parameters with defaults come after those that are given.
            front = 1 if next(iter(call.args), "") in ("self", "cls") and len(node.args) < len(call.args) else 0
            given = list(call.args.values())[front : front + len(node.args)]
            fits = [self.is_given(one, other, self.frame) for one, other in zip(node.args, given, strict=False)]
            if node.keywords or (len(given) == len(node.args) and (None in fits or all(fits))):
                makes = call.name.endswith(".__init__") and name != "__init__"
                found.append(next(iter(call.args.values()), None) if makes else self._given[call.f])
        # Several calls that may be meant do no harm where all gave the same.
        if not found or any(each != found[0] for each in found):
            raise Unknown("which of its calls is meant is not known")
        return found[0]

    def is_given(self, argument: ast.expr, given: schema.V, caller: int) -> bool | None:
        """Return whether an expression of the caller is the value that a call was given; None if that is not known."""
        # Names of an argument are the caller's.
        frame, self.frame = self.frame, caller
        try:
            raw = self.raw(argument)
            if raw is not NOWHERE:
                return bool(raw == given)
            obj = self.state.heap.get(ref_of(given) or 0)
            if isinstance(argument, ast.List) and obj is not None and obj.items is not None:
                held, said = obj.items.all(), [self.raw(each) for each in argument.elts]
                return None if held is None or any(each is NOWHERE for each in said) else said == list(held)
            return as_told(self.evaluated(argument), self.state.python_value(given))
        except Unknown:
            return None
        finally:
            self.frame = frame

    def plain(self, raw: schema.V) -> Any:
        try:
            return self.state.python_value(raw)
        except Unknown:
            return ref_of(raw)

    def raw(self, node: ast.expr) -> schema.V:
        """The recorded value that a name, an attribute or an item is; `NOWHERE` if it is not that plain."""
        try:
            return self._found(node)
        except (KeyError, Unknown, TypeError, IndexError):
            return NOWHERE

    def _found(self, node: ast.expr) -> schema.V:
        if isinstance(node, ast.Name):
            return self.state.lookup(self.frame, node.id)
        if isinstance(node, ast.Call):
            return self.returned(node)
        if not isinstance(node, ast.Attribute | ast.Subscript):
            return NOWHERE
        owner = self._found(node.value)
        if owner is NOWHERE or owner is None:
            return NOWHERE
        if isinstance(node, ast.Attribute):
            return self.state.heap[owner["ref"]].attrs[node.attr] if kind_of(owner) == "ref" else NOWHERE
        index = self.worked_out(node.slice, recorded(self.state, self.frame, self.assigned))
        if kind_of(owner) == "tuple" and type(index) is int and not owner.get("elided"):
            return owner["tuple"][index]
        obj = self.state.heap.get(ref_of(owner) or 0)
        if obj is None:
            return NOWHERE
        if obj.pairs is not None:
            pairs = ((self.plain(key), value) for key, value in obj.pairs.values())
            return next((value for key, value in pairs if as_told(key, index)), NOWHERE)
        if obj.items is None or type(index) is not int:
            return NOWHERE
        item = obj.items.get(index if index >= 0 else len(obj.items) + index)
        return item[0] if item is not None else NOWHERE

    def fits(self, node: ast.expr, said: ast.expr) -> bool | None:
        """Return whether an expression with values in place of names is this one; None if it is another expression.

        A comparison may be turned into its opposite.
        """
        self.left -= 1
        if (
            isinstance(said, ast.Constant | ast.List | ast.Dict | ast.Set | ast.Tuple | ast.UnaryOp | ast.Name)
            and (literal := closed(said))[0]
        ):
            return self._is_worth(node, literal[1])
        if isinstance(said, ast.Compare) and len(said.ops) == 1 and isinstance(node, ast.Compare):
            return self._fits_comparison(node, said)
        if isinstance(said, ast.Compare) and len(said.ops) == 1 and isinstance(said.ops[0], ast.Eq):
            return self.fits(node, said.left)  # `7 % 2 == 1` for `n % 2`
        if isinstance(said, ast.Call) and self._is_shown_as(node, said):
            return True
        is_display = isinstance(said, ast.Call) and isinstance(said.func, ast.Name) and said.func.id in _DISPLAYS
        if is_display or type(node) is not type(said):
            made = told(ast.unparse(said)) if isinstance(said, ast.Call) else None
            worth = self._is_worth(node, made.value) if made is not None and made.known else None
            if worth or type(node) is not type(said):
                return worth
        if ast.dump(node) == ast.dump(said):
            return True
        parts = list(zip(_parts(node), _parts(said), strict=False))
        if not parts or len(list(_parts(node))) != len(list(_parts(said))) or _form(node) != _form(said):
            return None
        fits = [self.fits(one, other) for one, other in parts]
        return None if None in fits else all(fits)

    def _is_shown_as(self, node: ast.expr, said: ast.Call) -> bool:
        """Return whether a name, attribute or item is an object that the record shows so, such as `deque([4, 9])`."""
        raw = self.raw(node) if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) else NOWHERE
        code = ast.unparse(said)
        return ref_of(raw) is not None and self.state.text(raw, len(code) + 1) == code

    def _is_worth(self, node: ast.expr, value: Any) -> bool | None:
        """Return whether an expression has a value; None if that is not known."""
        try:
            return as_told(self.evaluated(node), value)
        except Unknown:
            return None

    def _fits_comparison(self, node: ast.Compare, said: ast.Compare) -> bool | None:
        sides = [node.left, *node.comparators]
        found: bool | None = None
        for left, op, right in zip(sides, node.ops, sides[1:], strict=False):
            # `3 >= 3` tells why `3 < 3` is false.
            if type(said.ops[0]) not in (type(op), _OPPOSITE[type(op)]):
                continue
            one, other = self.fits(left, said.left), self.fits(right, said.comparators[0])
            if one and other:
                return True
            found = False if one is False or other is False else found
        return found


class _Results(ast.NodeTransformer):
    """Puts names where calls of the program's functions stand whose results are recorded; they are no Python names."""

    def __init__(self, walk: Walk, lookup: Lookup) -> None:
        self._walk = walk
        self._lookup = lookup
        self.values: dict[str, Any] = {}
        self._bound: frozenset[str] = frozenset()

    def visit(self, node: ast.AST) -> Any:
        """Substitute a node; inside a comprehension or a lambda, names are not those of the frame."""
        if not isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp | ast.Lambda):
            return super().visit(node)
        outside = self._bound
        targets = (each.id for each in walked(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store))
        parameters = (each.arg for each in walked(node) if isinstance(each, ast.arg))
        self._bound = outside.union(targets, parameters)
        try:
            return super().visit(node)
        finally:
            self._bound = outside

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if node.attr in _CONSTANTS and self._walk.is_math(node.value):
            return self._named(getattr(math, node.attr))
        self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if self._bound and any(isinstance(each, ast.Name) and each.id in self._bound for each in walked(node)):
            self.generic_visit(node)
            return node
        try:
            return self._named(self._walk.result(node))
        except Unknown:
            pass
        match node:
            case ast.Call(func=ast.Name(id="len"), args=[argument], keywords=[]):
                if (size := self._walk.size_of(argument)) is not None:
                    return self._named(size)
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in _MATH and self._walk.is_math(node.func.value):
            try:
                given = [self._walk.worked_out(each, self.value_of) for each in node.args]
                if not node.keywords and all(isinstance(each, int | float) and abs(each) <= _MOST for each in given):
                    return self._named(getattr(math, node.func.attr)(*given))
            except (Unknown, KeyError, ArithmeticError, TypeError, ValueError):
                return node
        return node

    def value_of(self, name: str) -> Any:
        """The value of a name, or of one that stands for a result."""
        return self.values[name] if name in self.values else self._lookup(name)

    def _named(self, value: Any) -> ast.expr:
        name = f"·{len(self.values)}"
        self.values[name] = value
        return ast.Name(id=name, ctx=ast.Load())


def _parts(node: ast.AST) -> Iterator[ast.expr]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.keyword):
            yield child.value
        elif isinstance(child, ast.expr):
            yield child


def _form(node: ast.expr) -> list[str]:
    """List what tells an expression from others with the same parts: its operators, and names of its attributes."""
    kinds = (ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
    found = [type(child).__name__ for child in ast.iter_child_nodes(node) if isinstance(child, kinds)]
    return [*found, getattr(node, "attr", "")]


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Targets with what they get, also within `a, b = b, a`."""
    if isinstance(target, ast.Tuple | ast.List):
        if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
            for one, other in zip(target.elts, value.elts, strict=True):
                yield from _pairs(one, other)
    else:
        yield target, value


@functools.lru_cache(maxsize=4096)
def _calls_something(node: ast.expr) -> bool:
    return any(isinstance(part, ast.Call | ast.Attribute) for part in walked(node))


def closed(node: ast.expr) -> tuple[bool, Any]:
    """Return whether an expression is a literal, or one of floats such as `-inf`, and its value."""
    literal = literal_of(node)
    if literal[0] or not isinstance(node, ast.UnaryOp | ast.Name):
        return literal
    value = told(ast.unparse(node))
    return value.known, value.value


def is_of(call: schema.Call, name: str) -> bool:
    """Return whether a call is of a function of this name, or makes an object of a class of this name."""
    *owner, last = call.name.split(".")
    return name == last or (last == "__init__" and bool(owner) and name == owner[-1])
