"""Effects of the statements of a source: what each of them may change, read from the syntax tree.

A unit is a simple statement or the header of a compound one. Expressions of nested functions, lambdas and generator
expressions belong to those (but for what is evaluated outside: decorators, defaults, the first iterable).
Scopes are found by the name and first line of their code object; if two share both, they share their units.

What is an effect:
- `x[i] = v`, `del x[i]`, `x.a = v`, `del x.a`: STORE with the path of the container `x`
- `x += v`: STORE with the path of `x`, in place; `x[i] += v` and `x.a += v`: STORE with the path of `x`, and of the
  item
- a call of a name or an attribute: CALL with the path of what is called, and with the path of the first argument if
  it has one; not if it is a pure builtin that the source never assigns over, or a method named as those that only
  read
- `super().m(…)`: CALL with the root None, for the first parameter
- a subscript that is read, if the source mentions `defaultdict`; an attribute that is read, if it mentions
  `cached_property`: STORE with the path of the container
- anything else that runs code, or whose path does not start at a name of the scope (a call in the path, a variable of
  a comprehension): no tuple of effects at all, but None
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from typing import Any, NamedTuple

from .bytecode import Scope
from .facts import Facts, read_facts, words
from .own import protect
from .tree import children, first_line, walk

protect(globals())

CONSTANT, VALUE_OF, ANY = range(3)

PURE_BUILTINS = words(
    "abs all any ascii bin bool bytearray bytes callable chr complex dict divmod enumerate filter float format "
    "frozenset getattr hasattr hash hex id input int isinstance issubclass iter len list map max memoryview min next "
    "object oct open ord pow print property range repr reversed round set slice sorted staticmethod classmethod str "
    "sum super tuple type zip ArithmeticError AssertionError AttributeError BaseException Exception IndexError "
    "KeyError LookupError NotImplementedError OSError OverflowError RecursionError RuntimeError StopIteration "
    "TypeError ValueError ZeroDivisionError"
)
PURE_METHODS = words(
    "bit_length capitalize casefold center copy count decode difference elements encode endswith expandtabs find "
    "format get index intersection isalnum isalpha isascii isdecimal isdigit isdisjoint isidentifier islower "
    "isnumeric isspace issubset issuperset istitle isupper items join keys ljust lower lstrip most_common partition "
    "replace rfind rindex rjust rpartition rsplit rstrip split splitlines startswith strip swapcase "
    "symmetric_difference title translate union upper values zfill"
)


class Path(NamedTuple):
    """Way to an object: from a name by steps."""

    root: Any
    """Its name; in a plan, with where it lives (`plan.Name`)."""
    steps: tuple[tuple[Any, ...], ...]


class Effect(NamedTuple):
    """Something on a line that can change an object."""

    calls: bool
    """It is a CALL, else a STORE."""
    path: Path
    """To the object, or to what is called."""
    first: Path | None = None
    """CALL: path of the first argument, if it has one."""
    in_place: bool = False
    """The last step, or the root of a path without steps, may be stored on the line and leads to the new value."""


class LineFacts:
    """Effects of the units of one line, None if they may change anything, and the loop that it heads."""

    def __init__(self) -> None:
        self.effects: list[Effect] | None = []
        self.loop: tuple[int, int] | None = None
        self.unit: set[int] = set()
        """All lines of the units that have this line."""
        self.changing_units = 0
        """Units of this line that have effects."""
        self.stores: Counter[str] = Counter()
        """How often the units store to each name."""

    def add(self, effect: Effect | None) -> None:
        if effect is None:
            self.effects = None
        elif self.effects is not None and effect not in self.effects:
            self.effects.append(effect)


class Units:
    """The units of a whole source."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.pure = PURE_BUILTINS - facts.shadowed
        # Two lambdas of one line cannot be told apart by a code object, and have their units together.
        self.scopes: defaultdict[Scope, defaultdict[int, LineFacts]] = defaultdict(lambda: defaultdict(LineFacts))
        """By line."""


def read_units(tree: ast.Module) -> Units:
    """Read the units of all scopes of a module."""
    units = Units(read_facts(tree))
    # A list rather than recursion: scopes and blocks may be nested deeper than Python's limit.
    todo = [_ScopeReader(units, ("<module>", 1), None, list(tree.body))]
    while todo:
        todo += todo.pop().read()
    return units


class _ScopeReader:
    """Reads the statements, or the expressions, of one scope."""

    def __init__(self, units: Units, scope: Scope, class_name: str | None, body: list[ast.AST]) -> None:
        self._units = units
        self._lines = units.scopes[scope]
        self._class_name = class_name
        self._body = body
        self._inner: list[_ScopeReader] = []
        self._open: list[LineFacts] = []
        self._bound: list[set[str]] = []
        self._has_effects = False

    def read(self) -> list[_ScopeReader]:
        """Read the scope, and return the scopes in it, unread."""
        todo = self._body
        while todo:
            todo += self._statement(todo.pop())
        return self._inner

    def _statement(self, node: Any) -> list[ast.AST]:
        """Read one statement, or the header of one, and return the parts of it that have statements."""
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            self._definition(node)
            return []
        if isinstance(node, (ast.If, ast.While)):
            self._unit([node.test], node.lineno)
            if isinstance(node, ast.While):
                self._loop(node, node.test)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            self._unit([node.target, node.iter], node.lineno)
            # Taking an item from `map(stack.append, xs)`, or awaiting one, runs code that may change anything.
            if self._units.facts.lazy or isinstance(node, ast.AsyncFor):
                self._effect(None)
            self._loop(node, node.iter)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            # `__enter__` and `__exit__` run on this line, and it does not name them.
            self._unit([item.context_expr for item in node.items], node.lineno)
            self._effect(None)
        elif isinstance(node, ast.Match):
            self._unit([node.subject], node.lineno)
            return list(node.cases)
        elif isinstance(node, ast.match_case):
            self._unit([node.guard] if node.guard else [], node.pattern.lineno, node.pattern.end_lineno)
        elif isinstance(node, ast.ExceptHandler):
            self._unit([node.type] if node.type else [], node.lineno)
        elif not isinstance(node, (ast.Try, ast.TryStar)):
            self._unit([node])
            return []
        return [part for name in ("body", "orelse", "finalbody", "handlers") for part in getattr(node, name, ())]

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        class_name = self._class_name
        if isinstance(node, ast.ClassDef):
            class_name = node.name
            values = [*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)]
        else:
            values = [*_defaults(node.args), *node.decorator_list]
        # The header ends before the body, unless that is on the same line.
        self._unit(values, first_line(node), max(node.lineno, first_line(node.body[0]) - 1))
        # `@register` calls its function without an `ast.Call`.
        for decorator in node.decorator_list:
            self._call(decorator, None)
        self._enter((node.name, first_line(node)), class_name, list(node.body))

    def _enter(self, scope: Scope, class_name: str | None, body: list[ast.AST]) -> None:
        self._inner.append(_ScopeReader(self._units, scope, class_name, body))

    def _loop(self, node: ast.While | ast.For | ast.AsyncFor, header: ast.expr) -> None:
        last = node.body[-1].end_lineno or node.lineno
        one_line = node.lineno == header.lineno == header.end_lineno
        waits = any(isinstance(part, (ast.Yield, ast.YieldFrom)) for part in walk(header))
        # A header of several lines is come to at several line events, so that they do not count iterations.
        if one_line and not waits and not isinstance(node, ast.AsyncFor):
            self._lines[node.lineno].loop = (node.lineno, last)

    def _unit(self, nodes: list[Any], first: int | None = None, last: int | None = None) -> None:
        if first is None:
            first = min(node.lineno for node in nodes)
        if last is None:
            last = max([first, *(node.end_lineno or first for node in nodes)])
        lines = range(first, last + 1)
        self._open = [self._lines[number] for number in lines]
        for facts in self._open:
            facts.unit.update(lines)
        self._has_effects = False
        for node in nodes:
            self._visit(node)

    def _effect(self, effect: Effect | None) -> None:
        for facts in self._open:
            facts.changing_units += not self._has_effects
            facts.add(effect)
        self._has_effects = True

    def _visit(self, node: ast.AST) -> None:
        """Read a statement's or an expression's parts without recursion but into comprehensions."""
        todo = [node]
        while todo:
            part = todo.pop()
            if isinstance(part, (ast.Name, ast.Constant)):
                if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load):
                    for facts in self._open:
                        facts.stores[self._mangled(part.id)] += 1
                continue
            if isinstance(part, ast.Lambda):
                # Defaults are worked out where the lambda stands, its body when it is called.
                self._enter(("<lambda>", part.lineno), self._class_name, [part.body])
                todo += _defaults(part.args)
            elif isinstance(part, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
                self._comprehension(part)
            else:
                self._part(part)
                todo += reversed(children(part))

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> None:
        elements = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        first, *others = node.generators
        inside: list[ast.AST] = [*elements, first.target, *first.ifs]
        for generator in others:
            inside += [generator.target, generator.iter, *generator.ifs]
        # The first iterable is worked out outside of a generator expression or comprehension, all else inside (language
        # reference, 6.2.4).
        self._visit(first.iter)
        if isinstance(node, ast.GeneratorExp):
            self._enter(("<genexpr>", node.lineno), self._class_name, inside[::-1])
            return
        if self._units.facts.lazy:
            self._effect(None)
        targets = [part for generator in node.generators for part in walk(generator.target)]
        # Variables of a comprehension are no names of the frame: a path that starts at one cannot be resolved.
        self._bound.append({part.id for part in targets if isinstance(part, ast.Name)})
        for part in inside:
            self._visit(part)
        self._bound.pop()

    def _part(self, node: ast.AST) -> None:
        if isinstance(node, ast.Call):
            self._call(node.func, node.args[0] if node.args else None)
        elif isinstance(node, ast.AugAssign):
            # `xs += ys` calls `xs.__iadd__`: it may be the old list that changes.
            self._store(node.target, in_place=True)
        elif isinstance(node, (ast.Subscript, ast.Attribute)):
            kind = "item" if isinstance(node, ast.Subscript) else "attribute"
            if not isinstance(node.ctx, ast.Load) or kind in self._units.facts.reads_change:
                self._store(node.value)

    def _store(self, container: ast.expr, *, in_place: bool = False) -> None:
        path = self._path(container)
        self._effect(path and Effect(calls=False, path=path, in_place=in_place))

    def _call(self, function: ast.expr, first: ast.expr | None) -> None:
        facts = self._units.facts
        if isinstance(function, ast.Name) and function.id in self._units.pure:
            if facts.lazy:
                self._effect(None)
            return
        # What a function of the program changes, its own lines tell.
        if isinstance(function, ast.Name) and function.id in facts.functions:
            return
        if isinstance(function, ast.Name) and function.id in ("setattr", "delattr") and first is not None:
            self._store(first)
            return
        if isinstance(function, ast.Attribute) and (
            function.attr in facts.methods or (function.attr in PURE_METHODS and not facts.lazy)
        ):
            return
        path = self._path(function)
        argument = self._path(first) if first is not None else None
        known = argument if argument is not None and argument.root is not None else None
        self._effect(path and Effect(calls=True, path=path, first=known))

    def _path(self, node: ast.expr) -> Path | None:
        """Return root name and steps, or None if a path does not start at a name of the scope."""
        steps: list[tuple[Any, ...]] = []
        while True:
            if isinstance(node, ast.Attribute):
                steps.append(("a", self._mangled(node.attr)))
            elif isinstance(node, ast.Subscript):
                steps.append(_item_step(node.slice, self._mangled))
            else:
                break
            node = node.value
        if isinstance(node, ast.Name) and not any(node.id in names for names in self._bound):
            return Path(self._mangled(node.id), tuple(reversed(steps)))
        # Of all calls in a path only `super()` leads to a known object.
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
            return Path(None, tuple(reversed(steps)))
        return None

    def _mangled(self, name: str) -> str:
        # Private names: `self.__size` in `class _Node` is the attribute `_Node__size`.
        if self._class_name is None or not name.startswith("__") or name.endswith("__") or "." in name:
            return name
        stripped = self._class_name.lstrip("_")
        return f"_{stripped}{name}" if stripped else name


def _item_step(index: Any, mangled: Any) -> tuple[Any, ...]:
    # Keys whose lookup runs no code of the program.
    if isinstance(index, ast.Constant) and type(index.value) in (int, str, bool, type(None), bytes):
        return ("i", CONSTANT, index.value)
    if isinstance(index, ast.UnaryOp) and isinstance(index.op, ast.USub):
        number = getattr(index.operand, "value", None)
        return ("i", CONSTANT, -number) if type(number) is int else ("i", ANY, None)
    if isinstance(index, ast.Name):
        return ("i", VALUE_OF, mangled(index.id))
    return ("i", ANY, None)


def _defaults(arguments: ast.arguments) -> list[ast.expr]:
    return [*arguments.defaults, *(value for value in arguments.kw_defaults if value is not None)]
