"""Straight-line arithmetic of Python, walked node by node, with the results and the text that CPython gives.

The numbers are Python's own: integers are exact, floats are the machine's, and `print` writes what `print` writes.
What could differ from a run in a sandbox is refused by `NotArithmetic`: anything that raises, anything that is not
in the list below, anything over a limit. Then nothing has been shown yet, and the sandbox runs the program from its
beginning.

Known are: assignments to names (also `+=` and several at once), numbers, texts and booleans; + - * / // % **,
comparison, `and`, `or`, `not`, `if` expressions; round, abs, min, max, sum of integers (of floats it depends on the
version), int, float, str, bool, len, pow, divmod of these; sqrt, floor, ceil, trunc, gcd, fabs, pi and e of math;
print; f-strings; functions without parameters, whose last statement returns. A tuple or a list holds numbers and
texts only, and is taken apart or given to a function of numbers: one that held others could be built in sixty lines
and take longer than anybody waits to print or to compare.

`values/evaluate.py` answers for values that were recorded, and says of the rest that it is not known. Here the answer
stands in for a run, so that a function is let in when it is the same in all versions of Python; operators and the order
of evaluation are those of that file.
"""

from __future__ import annotations

import ast
import io
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeGuard

from groundbox.agent.calc.straight import MATH, NotArithmetic, parsed
from groundbox.values.evaluate import BINARY, COMPARE, Branching

MOST_STEPS: Final = 20_000
MOST_BITS: Final = 4_096
"""Below the 4300 digits from which on CPython refuses to print."""
MOST_TEXT: Final = 10_000
MOST_OUTPUT: Final = 60_000

_NUMBERS: Final = (int, float)
_SPEC: Final = re.compile(r"(?:[^{}]?[<>=^])?[+\- ]?#?0?\d{0,2}[,_]?(?:\.\d{1,2})?[bcdeEfFgGnosxX%]?\Z")
_MOST_PLACES: Final = 400
_COMPARED: Final = "it compares a tuple or a list"
_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "round": round, "abs": abs, "min": min, "max": max, "sum": sum, "int": int, "float": float, "str": str,
    "len": len, "pow": pow, "divmod": divmod, "bool": bool,
}  # fmt: skip


KNOWN_NAMES: Final = frozenset([*_FUNCTIONS, "print"])


class Finished:
    """What a program did.

    Attributes:
        value: `repr` of the last expression of a cell, or None.
        names: Variables that it left, in the order in which they came.
    """

    def __init__(self, stdout: str, value: str | None, names: Mapping[str, Any]) -> None:
        self.stdout, self.value, self.names = stdout, value, dict(names)


def run(source: str, *, cell: bool = True) -> Finished:
    """Walks a program.

    Args:
        cell: Whether the value of a last expression is the result, as in a cell.

    Raises:
        NotArithmetic: It is for the sandbox after all: it raises, or is over a limit.
    """
    tree = parsed(source)
    walk = _Walk()
    try:
        value = walk.module(tree, cell=cell)
        walk.out.getvalue().encode()
    except NotArithmetic:
        raise
    except Exception as error:
        raise NotArithmetic(f"it raises {type(error).__name__}") from None
    return Finished(walk.out.getvalue(), value, walk.variables)


class _Walk(Branching):
    def __init__(self) -> None:
        self.out = io.StringIO()
        self.variables: dict[str, Any] = {}
        self._functions: dict[str, ast.FunctionDef] = {}
        self._names_assigned: dict[int, frozenset[str]] = {}
        self._math: dict[str, Any] = {}
        self._locals: list[dict[str, Any] | None] = [None]
        self._assigned: list[frozenset[str]] = [frozenset()]
        self._steps = 0

    def module(self, tree: ast.Module, *, cell: bool) -> str | None:
        value = None
        for position, statement in enumerate(tree.body):
            last = position == len(tree.body) - 1
            if isinstance(statement, ast.Expr) and not _is_print(statement.value):
                result = self._single(statement.value, "its value is no number")
                value = repr(result) if cell and last and result is not None else None
            else:
                self.statement(statement)
        return value

    def statement(self, node: ast.stmt) -> None:
        self._step()
        if isinstance(node, ast.Assign):
            value = self.value(node.value)
            for target in node.targets:
                self._assign(target, value)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            self._assign(node.target, self._operate(node.op, self._name(node.target.id), self.value(node.value)))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value and node.simple:
            self._annotation(node.annotation)
            self._assign(node.target, self.value(node.value))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _is_print(node.value):
            self._print(node.value)
        elif isinstance(node, ast.Expr):
            self.value(node.value)
        elif isinstance(node, ast.FunctionDef) and len(self._locals) == 1:
            self._forget(node.name)
            self._functions[node.name] = node
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self._import(node)
        elif not isinstance(node, ast.Pass):
            raise NotArithmetic(f"it uses {type(node).__name__}")

    def _annotation(self, node: ast.expr) -> None:
        if not (isinstance(node, ast.Name) and node.id in ("int", "float", "str", "bool")):
            raise NotArithmetic("it has an annotation that is more than a name")

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.Import):
            self._forget("math")
            self._math["math"] = MATH
        else:
            for alias in node.names:
                self._forget(alias.name)
                self._math[alias.name] = MATH[alias.name]

    def _forget(self, name: str) -> None:
        for names in (self.variables, self._functions, self._math):
            names.pop(name, None)

    def _step(self, count: int = 1) -> None:
        self._steps += count
        if self._steps > MOST_STEPS:
            raise NotArithmetic("it takes many steps")

    def _assign(self, target: ast.expr, value: Any) -> None:
        self._step()
        if isinstance(target, ast.Name):
            if target.id in _FUNCTIONS or target.id in ("print", "math") or target.id.startswith("__"):
                raise NotArithmetic(f"it gives {target.id} another meaning")
            local = self._locals[-1]
            if local is None:
                self._forget(target.id)
                self.variables[target.id] = value
            else:
                local[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (tuple, list)):
            if len(target.elts) != len(value):
                raise NotArithmetic("it raises ValueError")
            for one, item in zip(target.elts, value, strict=True):
                self._assign(one, item)
        else:
            raise NotArithmetic("it assigns to more than names")

    def value(self, node: ast.expr) -> Any:
        """The value of an expression, within the limits."""
        self._step()
        value = self._value(node)
        if type(value) is int and value.bit_length() > MOST_BITS:
            raise NotArithmetic(f"it makes a number of more than {MOST_BITS} bits")
        if type(value) is str and len(value) > MOST_TEXT:
            raise NotArithmetic("it makes a long text")
        if type(value) not in (int, float, bool, str, tuple, list, type(None)):
            raise NotArithmetic(f"it makes a {type(value).__name__}")
        return value

    def _single(self, node: ast.expr, problem: str) -> Any:
        value = self.value(node)
        if isinstance(value, (tuple, list)):
            raise NotArithmetic(problem)
        return value

    def _value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self._name(node.id)
        if isinstance(node, ast.BinOp):
            return self._operate(node.op, self.value(node.left), self.value(node.right))
        if isinstance(node, ast.UnaryOp):
            return self._unary(node)
        if isinstance(node, ast.Compare):
            return self.comparison(node)
        if isinstance(node, ast.BoolOp):
            return self.either(node)
        if isinstance(node, ast.IfExp):
            return self.choice(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.JoinedStr):
            return self._joined(node)
        if isinstance(node, (ast.Tuple, ast.List)):
            items = [self._single(item, "it has a tuple or a list in another") for item in node.elts]
            return tuple(items) if isinstance(node, ast.Tuple) else items
        if _is_math(node) and self._math.get("math") is MATH and isinstance(MATH[node.attr], float):
            return MATH[node.attr]
        raise NotArithmetic(f"it uses {type(node).__name__} here")

    def _name(self, name: str) -> Any:
        local = self._locals[-1]
        if local is not None and name in self._assigned[-1]:
            if name not in local:
                raise NotArithmetic("it raises UnboundLocalError")
            return local[name]
        if name in self.variables:
            return self.variables[name]
        if isinstance(self._math.get(name), float):
            return self._math[name]
        raise NotArithmetic(f"{name} is not assigned in it")

    def _operate(self, node: ast.operator, left: Any, right: Any) -> Any:
        if isinstance(left, str) and isinstance(right, str) and isinstance(node, ast.Add):
            return left + right
        if not isinstance(left, _NUMBERS) or not isinstance(right, _NUMBERS):
            raise NotArithmetic("it works with more than numbers")
        if isinstance(node, ast.Pow):
            _check_power(left, right)
        return BINARY[type(node)](left, right)

    def _unary(self, node: ast.UnaryOp) -> Any:
        value = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            return not value
        if not isinstance(value, _NUMBERS):
            raise NotArithmetic("it works with more than numbers")
        return -value if isinstance(node.op, ast.USub) else +value

    def operand(self, node: ast.expr) -> Any:
        return self._single(node, _COMPARED)

    def compared(self, op: ast.cmpop, left: Any, right: Any) -> Any:
        return COMPARE[type(op)](left, right)

    def _call(self, node: ast.Call) -> Any:
        if any(isinstance(argument, ast.Starred) for argument in node.args):
            raise NotArithmetic("it spreads arguments")
        function = self._function(node.func)
        if isinstance(function, ast.FunctionDef):
            if node.args or node.keywords:
                raise NotArithmetic("it raises TypeError")
            return self._own(function)
        arguments = [self.value(argument) for argument in node.args]
        named = self._named(node)
        if set(named) - {"ndigits", "start"} or (named and function not in (round, sum)):
            raise NotArithmetic("it calls a function with names of arguments")
        if function is pow:
            if len(arguments) != 2:
                raise NotArithmetic("it calls pow with other than two arguments")
            return self._operate(ast.Pow(), *arguments)
        if function is not len and function not in (str, bool) and not _all_numbers(arguments):
            raise NotArithmetic("it calls a function of more than numbers")
        if function is str and any(isinstance(one, (tuple, list)) for one in arguments):
            raise NotArithmetic("it writes a tuple or a list")
        self._step(sum(len(one) for one in arguments if isinstance(one, (tuple, list))))
        if function is sum and any(isinstance(one, float) for one in _flat([*arguments, *named.values()])):
            raise NotArithmetic("the sum of floats depends on the version of Python")
        if function is round and any(abs(one) > _MOST_PLACES for one in [*arguments[1:], *named.values()] if one):
            raise NotArithmetic("it rounds to many places")
        return function(*arguments, **named)

    def _named(self, node: ast.Call) -> dict[str, Any]:
        """Arguments by name, in order."""
        return {keyword.arg or "**": self.value(keyword.value) for keyword in node.keywords}

    def _function(self, node: ast.expr) -> Any:
        if _is_math(node):
            function = self._math.get("math", {}).get(node.attr)
        elif isinstance(node, ast.Name):
            if node.id in self.variables or node.id in self._assigned[-1]:
                raise NotArithmetic("it raises TypeError")
            function = self._functions.get(node.id) or self._math.get(node.id) or _FUNCTIONS.get(node.id)
        else:
            function = None
        if function is None or isinstance(function, float):
            raise NotArithmetic("it calls a function that is not known here")
        return function

    def _own(self, function: ast.FunctionDef) -> Any:
        """Call a function of the program."""
        if len(self._locals) > 20:
            raise NotArithmetic("its functions call each other")
        self._locals.append({})
        self._assigned.append(self._assigned_in(function))
        for statement in function.body[:-1]:
            self.statement(statement)
        last = function.body[-1]
        assert isinstance(last, ast.Return)
        value = None if last.value is None else self.value(last.value)
        self._locals.pop()
        self._assigned.pop()
        return value

    def _assigned_in(self, function: ast.FunctionDef) -> frozenset[str]:
        """Found once for each function, since it is called more often than it is long."""
        known = self._names_assigned.get(id(function))
        if known is None:
            nodes = ast.walk(function)
            known = frozenset(n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
            self._names_assigned[id(function)] = known
        return known

    def _joined(self, node: ast.JoinedStr) -> str:
        parts, size = [], 0
        for part in node.values:
            parts.append(self._part(part))
            size += len(parts[-1])
            if size > MOST_TEXT:
                raise NotArithmetic("it makes a long text")
        return "".join(parts)

    def _part(self, node: ast.expr) -> str:
        if isinstance(node, ast.Constant):
            return str(node.value)
        if not isinstance(node, ast.FormattedValue):
            raise NotArithmetic("it uses an f-string that is not plain")
        value = self._single(node.value, "it formats more than numbers and texts")
        if node.conversion == ord("r"):
            value = repr(value)
        elif node.conversion == ord("s"):
            value = str(value)
        elif node.conversion != -1:
            raise NotArithmetic("it uses an f-string that is not plain")
        spec = self.value(node.format_spec) if node.format_spec is not None else ""
        if not _SPEC.match(spec) or spec.endswith("n"):
            raise NotArithmetic("it uses a format that is not plain")
        return format(value, spec)

    def _print(self, node: ast.Call) -> None:
        if any(isinstance(argument, ast.Starred) for argument in node.args):
            raise NotArithmetic("it spreads arguments")
        values = [self._single(argument, "it writes a tuple or a list") for argument in node.args]
        given = self._named(node)
        if set(given) - {"sep", "end"} or not all(isinstance(one, (str, type(None))) for one in given.values()):
            raise NotArithmetic("it prints elsewhere")
        print(*values, file=self.out, **given)
        if self.out.tell() > MOST_OUTPUT:
            raise NotArithmetic("it prints much")


def _is_math(node: ast.expr) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "math"


def _is_print(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"


def _check_power(base: Any, exponent: Any) -> None:
    whole = isinstance(base, int) and isinstance(exponent, int) and abs(base) > 1
    if whole and (abs(base).bit_length() - 1) * abs(exponent) > MOST_BITS:
        raise NotArithmetic(f"it makes a number of more than {MOST_BITS} bits")


def _all_numbers(arguments: list[Any]) -> bool:
    return all(isinstance(one, _NUMBERS) for one in _flat(arguments))


def _flat(arguments: list[Any]) -> list[Any]:
    return [one for argument in arguments for one in (argument if isinstance(argument, (tuple, list)) else [argument])]
