"""Rules on values: numbers that are not exact, texts taken for numbers, identity, defaults, times."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Final

from groundbox.check.python.flow import keyword_of
from groundbox.check.python.program import Program
from groundbox.check.tiers import Finding

_MONEY: Final = re.compile(
    r"(?:^|_)(?:prices?|costs?|amounts?|revenue|salary|salaries|balance|tax|taxes|invoice|fees?|usd|eur|gbp|cents?|"
    r"dollars?|euros?|payment|payments|money|bill|budget|wage|wages|refund|discount|subtotal)(?:$|_|s$)",
    re.IGNORECASE,
)
_LONG_FRACTION: Final = re.compile(r"(?<![\w.])\d{1,20}\.\d{12,25}(?!\d)")
_ORDERED: Final = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_EQUAL: Final = (ast.Eq, ast.NotEq)
_ARITHMETIC: Final = (ast.Add, ast.Sub, ast.Mult, ast.Div)
_TEXT_METHODS: Final = frozenset(
    ["split", "strip", "rstrip", "lstrip", "splitlines", "readline", "read", "readlines", "lower", "upper"]
)
_NUMBER_WORDS: Final = re.compile(
    r"(?:^|_)(?:scores?|amounts?|prices?|counts?|ages?|numbers?|nums?|values?|qty|quantity|totals?|sales|revenue|"
    r"points?|size|rank|weight|height|units|population|temperature|salary)(?:$|_)",
    re.IGNORECASE,
)
_CACHE: Final = re.compile(r"memo|cache|known|lookup", re.IGNORECASE)  # kept between calls on purpose
_CHANGES: Final = frozenset(
    ["append", "add", "extend", "update", "insert", "setdefault", "pop", "remove", "clear", "appendleft"]
)
_MUTABLE: Final = ("list", "dict", "set", "defaultdict", "deque")


def float_money(program: Program) -> Iterator[Finding]:
    """Sums of money in binary floating point, when the output shows digits that no money has."""
    seen = next((shown for shown in _LONG_FRACTION.findall(program.output()) if _is_artefact(shown)), None)
    if seen is None:
        return
    for node in program.nodes:
        if isinstance(node, ast.Name) and _MONEY.search(node.id) and id(node) in program.outgoing:
            yield Finding(
                code="python.float_money",
                evidence={"shown": seen, "line": node.lineno, "names": [node.id[:80]]},
                message=f"{node.id[:80]} is counted in binary floating point, and the output shows {seen}",
                hint="Count money in Decimal or in whole cents, and round once, at the end.",
            )
            return


def _is_artefact(number: str) -> bool:
    """Tell whether the digits are those of a short decimal that binary floating point missed."""
    fraction = number.partition(".")[2][:-1]
    return "000000" in fraction or "999999" in fraction


def float_equality(program: Program) -> Iterator[Finding]:
    """`==` between a result of floating point arithmetic and another such, or a number it cannot be exactly."""
    for compare, left, operator, right in _comparisons(program):
        if not isinstance(operator, _EQUAL):
            continue
        if any(isinstance(side, ast.Constant) and type(side.value) not in (int, float) for side in (left, right)):
            continue
        one, other = _inexact(program, left), _inexact(program, right)
        computed = _is_computed(program, left) or _is_computed(program, right)
        if computed and (one or other):
            yield Finding(
                code="python.float_equality",
                evidence={"line": compare.lineno},
                message=f"line {compare.lineno} compares floating point numbers for equality: "
                f"{ast.unparse(compare)[:80]}",
                hint="Use math.isclose or numpy.isclose, or compute with Decimal or Fraction.",
            )


def text_number_comparison(program: Program) -> Iterator[Finding]:
    """Texts that stand for numbers, compared as texts."""
    for compare, left, operator, right in _comparisons(program):
        for one, other in ((left, right), (right, left)):
            if not _is_text(program, one):
                continue
            number = isinstance(other, ast.Constant) and type(other.value) in (int, float)
            digits = isinstance(other, ast.Constant) and isinstance(other.value, str) and _is_numeral(other.value)
            if (isinstance(operator, _EQUAL) and number) or (isinstance(operator, _ORDERED) and digits):
                yield _text_finding(compare, ast.unparse(compare))
                break
    for call, origin in program.calls():
        if origin in ("max", "min", "sorted") and (key := _text_key(program, call)):
            yield _text_finding(call, key)


def _text_finding(node: ast.expr, what: str) -> Finding:
    return Finding(
        code="python.text_number_compare",
        evidence={"line": node.lineno},
        message=f"line {node.lineno} compares text where numbers are meant: {what[:80]}",
        hint="Convert with int or float first: as text, '10' comes before '9', and '5' is not 5.",
    )


def identity_with_literal(program: Program) -> Iterator[Finding]:
    """`is` with a number or a text asks for the same object."""
    for compare, left, operator, right in _comparisons(program):
        if isinstance(operator, ast.Is | ast.IsNot) and any(map(_is_plain_literal, (left, right))):
            yield Finding(
                code="python.is_literal",
                evidence={"line": compare.lineno},
                message=f"line {compare.lineno} asks whether two values are one object: {ast.unparse(compare)[:80]}",
                hint="Use == and !=; `is` is for None, True, False and singletons.",
            )


def mutable_defaults(program: Program) -> Iterator[Finding]:
    """A default that is changed, in a function that is called more than once without that argument."""
    classes = {
        id(method): node.name
        for node in program.nodes
        if isinstance(node, ast.ClassDef)
        for method in node.body
        if isinstance(method, ast.FunctionDef) and method.name == "__init__"
    }
    for node in program.nodes:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for position, name in _defaults(node):
            if _CACHE.search(name) or not (
                _changed_within(program, node, name) or _changed_in_attribute(program, node, name)
            ):
                continue
            called = classes.get(id(node), node.name)
            if id(node) in classes and position is not None:
                position -= 1  # who makes an object gives no `self`
            program.steps.take(len(program.flow.calls[called]))
            calls = [
                call
                for call in program.flow.calls[called]
                if _leaves_out(call, position, name) and not _within(program, node, call)
            ]
            if len(calls) > 1 or any(id(call) in program.flow.repeated for call in calls):
                yield Finding(
                    code="python.mutable_default",
                    evidence={"line": node.lineno, "names": [called[:80], name[:80]]},
                    message=f"the default of {name[:80]} in {called[:80]} is one object for all calls, is changed, "
                    f"and is used by calls on lines {', '.join(str(call.lineno) for call in calls[:5])}",
                    hint="Make the default None, and put a new value in its place inside the function.",
                )


def naive_times(program: Program) -> Iterator[Finding]:
    """UTC times without a zone taken for local ones, and pytz zones where they give local mean time."""
    naive = [
        call
        for call, origin in program.calls()
        if origin.endswith((".utcnow", ".utcfromtimestamp")) and id(call) in program.outgoing
    ]
    uses_local = any(origin.endswith((".timestamp", ".astimezone", "datetime.now")) for _, origin in program.calls())
    if naive and uses_local:
        yield Finding(
            code="python.naive_time",
            evidence={"line": naive[0].lineno},
            message=f"line {naive[0].lineno} gives UTC without saying so, and is then used like a local time",
            hint="Use datetime.now(timezone.utc) or fromtimestamp(t, tz=timezone.utc).",
        )
    for call, origin in program.calls():
        zone = keyword_of(call, "tzinfo") if origin.rpartition(".")[2] in ("datetime", "replace") else None
        if isinstance(zone, ast.Call) and program.flow.origin(zone.func) == "pytz.timezone":
            yield Finding(
                code="python.naive_time",
                evidence={"line": call.lineno},
                message=f"line {call.lineno} sets a pytz zone as tzinfo, which gives the zone's local mean time",
                hint="Use zone.localize(…), or zoneinfo.ZoneInfo.",
            )


def _comparisons(program: Program) -> Iterator[tuple[ast.Compare, ast.expr, ast.cmpop, ast.expr]]:
    for node in program.nodes:
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
            for left, operator, right in zip(operands, node.ops, operands[1:], strict=False):
                yield node, left, operator, right


def _inexact(program: Program, node: ast.expr, depth: int = 0) -> bool:
    """Tell whether it involves a number that binary floating point has no exact form of."""
    program.steps.take()
    if isinstance(node, ast.Constant):
        return isinstance(node.value, float) and not _is_exact(node.value)
    if isinstance(node, ast.BinOp) and isinstance(node.op, _ARITHMETIC):
        return _inexact(program, node.left, depth) or _inexact(program, node.right, depth)
    if isinstance(node, ast.Name) and depth < 3:
        return any(_inexact(program, value, depth + 1) for value in program.flow.assigned(node.id))
    return False


def _is_exact(number: float) -> bool:
    """Tell whether the decimal that was written is the number that is kept."""
    return number - number == 0 and Fraction(str(number)) == Fraction(number)


def _is_computed(program: Program, node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, _ARITHMETIC)
    if isinstance(node, ast.Call):
        return program.flow.origin(node.func) in ("sum", "math.fsum", "numpy.sum")
    if isinstance(node, ast.Name):
        values = program.flow.assigned(node.id)
        return len(values) > 1 or any(isinstance(value, ast.BinOp) for value in values)
    return False


def _is_text(program: Program, node: ast.expr, depth: int = 0) -> bool:
    """Tell whether everything that is known of it says that it is text from outside."""
    program.steps.take()
    if isinstance(node, ast.Call):
        origin = program.flow.origin(node.func)
        if origin == "input":
            return True
        return isinstance(node.func, ast.Attribute) and node.func.attr in _TEXT_METHODS and origin != ".read"
    if isinstance(node, ast.Subscript):
        if isinstance(node.value, ast.Name):
            # A row, or all rows, of a CSV reader.
            return _is_all(program, node.value.id, _reads_rows) or _is_text(program, node.value, depth)
        return _is_text(program, node.value, depth) or program.flow.origin(node.value) == "sys.argv"
    return isinstance(node, ast.Name) and depth < 3 and _is_all(program, node.id, _is_text, depth + 1)


def _is_all(program: Program, name: str, test: Callable[[Program, ast.expr, int], bool], depth: int = 0) -> bool:
    """Tell whether something is bound to a name, and a test holds of all that is."""
    values = program.flow.assigned(name)
    return bool(values) and all(test(program, value, depth) for value in values)


def _reads_rows(program: Program, node: ast.expr, depth: int = 0) -> bool:
    program.steps.take()
    if isinstance(node, ast.Call):
        origin = program.flow.origin(node.func)
        if origin in ("csv.reader", "csv.DictReader"):
            return True
        if origin in ("list", "next", "iter") and node.args:
            return _reads_rows(program, node.args[0], depth)
    return isinstance(node, ast.Name) and depth < 3 and _is_all(program, node.id, _reads_rows, depth + 1)


def _text_key(program: Program, call: ast.Call) -> str:
    """Return what `max`, `min` or `sorted` compares, if it is a column of texts whose name says number."""
    key = keyword_of(call, "key")
    if isinstance(key, ast.Lambda):
        compared = element = key.body
    elif key is None and len(call.args) == 1:
        compared = call.args[0]
        element = compared.elt if isinstance(compared, ast.GeneratorExp | ast.ListComp) else compared
    else:
        return ""
    column: object = None
    if isinstance(element, ast.Subscript) and isinstance(element.slice, ast.Constant):
        column = element.slice.value
    elif isinstance(element, ast.Name) and key is None:
        column = element.id
    is_number = isinstance(column, str) and bool(_NUMBER_WORDS.search(column))
    return ast.unparse(compared) if is_number and _is_text(program, element) else ""


def _is_numeral(text: str) -> bool:
    return re.fullmatch(r"\s*-?\d+(?:\.\d+)?\s*", text) is not None


def _is_plain_literal(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float | str | bytes) and not isinstance(node.value, bool)
    return isinstance(node, ast.Tuple | ast.List | ast.Dict | ast.Set)


def _defaults(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[int | None, str]]:
    """Position (None for keyword only) and name of each parameter whose default can be changed."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    first = len(positional) - len(arguments.defaults)
    for number, default in enumerate(arguments.defaults, first):
        if _is_mutable(default):
            yield number, positional[number].arg
    for argument, keyword_default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if keyword_default is not None and _is_mutable(keyword_default):
            yield None, argument.arg


def _is_mutable(node: ast.expr) -> bool:
    if isinstance(node, ast.List | ast.Dict | ast.Set):
        return True
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _MUTABLE


def _changed_within(program: Program, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> bool:
    """Tell whether the body changes the object itself, before any other object takes the name."""
    for node in program.steps.walk(function):
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            return False
        target: ast.expr | None = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
            target = node.func.value
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            target = node.value
        elif isinstance(node, ast.AugAssign):
            target = node.target
        if isinstance(target, ast.Name) and target.id == name:
            return True
    return False


def _changed_in_attribute(program: Program, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> bool:
    """Tell whether the object is kept in an attribute, and changed there, wherever that is."""
    kept = {
        target.attr
        for node in program.steps.walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id == name
        for target in node.targets
        if isinstance(target, ast.Attribute)
    }
    if not kept:
        return False
    for node in program.nodes:
        target: ast.expr | None = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
            target = node.func.value
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            target = node.value
        elif isinstance(node, ast.AugAssign):
            target = node.target
        if isinstance(target, ast.Attribute) and target.attr in kept:
            return True
    return False


def _leaves_out(call: ast.Call, position: int | None, name: str) -> bool:
    if any(keyword.arg in (name, None) for keyword in call.keywords):
        return False
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        return False
    return position is None or len(call.args) <= position


def _within(program: Program, function: ast.AST, call: ast.Call) -> bool:
    return any(node is call for node in program.steps.walk(function))


RULES: Final = (
    *(float_money, float_equality, text_number_comparison),
    *(identity_with_literal, mutable_defaults, naive_times),
)
