"""Data flow of a program by names, read from its syntax tree, and the count of the steps that reading takes.

A step is a node of the tree that is looked at, once for each time; an expression that a name stands for; a binding, and
each condition that it stands under. Whatever a program holds, reading it takes time in proportion to them.

Each assignment binds a name to an expression, under the conditions that it stands in; a name depends on all that
is ever bound to it. The order of statements, aliases and the scopes of functions are not looked at: two variables
of one name are one. So a dependency may be claimed that is none, and hardly one be missed; the rules are made so
that a dependency too many silences them.
"""

from __future__ import annotations

import ast
import builtins
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

MOST_STEPS: Final = 500_000
"""A program of 50,000 characters, as people write them, takes less than a fifth of it."""


class Exhausted(Exception):
    """There are no steps left."""


class Steps:
    """
    Attributes:
        taken: Never more than `most`.
    """

    def __init__(self, most: int) -> None:
        self.taken, self._most = 0, most

    def take(self, count: int = 1) -> None:
        """Count steps before they are made.

        Raises:
            Exhausted: They are more than are left.
        """
        if self.taken + count > self._most:
            raise Exhausted
        self.taken += count

    def walk(self, root: ast.AST) -> Iterator[ast.AST]:
        """Every node under `root`, as `ast.walk` has them."""
        for node in ast.walk(root):
            self.take()
            yield node


BUILTINS: Final = frozenset(dir(builtins))
_WRITER_NAMES: Final = """
    to_csv to_excel to_json to_parquet to_html to_markdown to_sql to_pickle savefig write write_text write_bytes
    writelines writerow writerows dump save savetxt write_html write_image show
"""
_WRITERS: Final = frozenset(_WRITER_NAMES.split())
_MOST_DEPTH: Final = 120
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


class Sink(NamedTuple):
    """A place where something leaves the program, under the conditions that it stands in."""

    node: ast.expr
    shown: Sequence[ast.expr]
    conditions: Sequence[ast.expr]


class _Binding(NamedTuple):
    value: ast.expr
    conditions: tuple[ast.expr, ...]


class Flow(ast.NodeVisitor):
    """The flow of one module.

    Attributes:
        sinks: Where something is printed, written, or returned to the caller, in their order.
        functions: Functions by name; of two with one name the later.
        modules: Names of imports, to what was imported with its dots.
        calls: Calls by the name or attribute that is called.
        repeated: Ids of the calls that stand in a loop.
        is_cut: Whether it is nested so deeply that a part was not read.
        steps: What reading it takes is counted here.
    """

    def __init__(self, tree: ast.Module, *, cell: bool, steps: Steps) -> None:
        """Args:
        cell: Whether the last expression is the value.

        Raises:
            Exhausted: It takes more steps than there are.
        """
        self.steps = steps
        self.sinks: list[Sink] = []
        self.functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        self.modules: dict[str, str] = {}
        self.calls: dict[str, list[ast.Call]] = defaultdict(list)
        self.repeated: set[int] = set()
        self.is_cut = False
        self._bindings: dict[str, list[_Binding]] = defaultdict(list)
        self._returns: list[tuple[str, Sink]] = []
        # Where the visit stands: under which conditions, in which function, how deep, and in how many loops.
        self._conditions: list[ast.expr] = []
        self._function = ""
        self._depth = self._repeats = 0
        self.visit(tree)
        if cell and tree.body and isinstance(tree.body[-1], ast.Expr):
            self._add_value(tree.body[-1].value)
        used = set(self.calls) | {node.id for node in self.steps.walk(tree) if isinstance(node, ast.Name)}
        self.sinks += [sink for name, sink in self._returns if name not in used]
        self.sinks.sort(key=lambda sink: sink.node.lineno)
        self._bind_parameters()

    def assigned(self, name: str) -> list[ast.expr]:
        """All expressions that are bound to `name`."""
        bindings = self._bindings.get(name, ())
        self.steps.take(1 + len(bindings))
        return [binding.value for binding in bindings]

    def names(self) -> list[str]:
        """All names that an expression is bound to."""
        return list(self._bindings)

    def is_known(self, name: str) -> bool:
        """Tell whether the program says itself what `name` is."""
        return name in self._bindings or name in self.functions or name in self.modules or name in BUILTINS

    def origin(self, node: ast.expr) -> str:
        """The dotted name of what an expression names, by its import: `pd.read_csv` is `pandas.read_csv`."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ".".join(["", *reversed(parts)])
        return ".".join([self.modules.get(node.id, node.id), *reversed(parts)])

    def reaching(self, starts: Iterable[ast.AST]) -> Iterator[ast.AST]:
        """Every node that `starts` depend on, each once, with the starts themselves."""
        seen_names: set[str] = set()
        seen: set[int] = set()
        todo = list(starts)
        while todo:
            root = todo.pop()
            if id(root) in seen:
                continue
            seen.add(id(root))
            for node in self.steps.walk(root):
                yield node
                name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None
                if name is None or name in seen_names:
                    continue
                if isinstance(node, ast.Attribute) and name not in self.functions:
                    continue
                seen_names.add(name)
                for binding in self._bindings.get(name, ()):
                    self.steps.take(1 + len(binding.conditions))
                    todo.append(binding.value)
                    todo.extend(binding.conditions)

    def outgoing(self) -> Iterator[ast.AST]:
        """Every node that something shown depends on."""
        return self.reaching(node for sink in self.sinks for node in (*sink.shown, *sink.conditions))

    def _add_value(self, value: ast.expr) -> None:
        if isinstance(value, ast.Call) and any(sink.node is value for sink in self.sinks):
            return
        self.sinks.append(Sink(value, (value,), ()))

    def _bind_parameters(self) -> None:
        """Bind parameters to what their function is called with, which is bound to its name in brackets."""
        for name, function in self.functions.items():
            arguments = function.args
            for parameter in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                self._bind(parameter.arg, ast.Name(id=f"({name})", ctx=ast.Load()), ())
            for default in (*arguments.defaults, *filter(None, arguments.kw_defaults)):
                for parameter in (*arguments.args, *arguments.kwonlyargs):
                    self._bind(parameter.arg, default, ())

    def visit(self, node: ast.AST) -> None:
        """Deep nesting is given up rather than failing."""
        self.steps.take()
        self._depth += 1
        if self._depth < _MOST_DEPTH:
            super().visit(node)
        else:
            self.is_cut = True
        self._depth -= 1

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            package = alias.name.partition(".")[0]
            self.modules[alias.asname or package] = alias.name if alias.asname else package

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            self.modules[alias.asname or alias.name] = f"{node.module or ''}.{alias.name}"

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._assign(target, node.value)
        self.visit(node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign | ast.AugAssign | ast.NamedExpr) -> None:
        if node.value is not None:
            self._assign(node.target, node.value)
            self.visit(node.value)

    visit_AugAssign = visit_NamedExpr = visit_AnnAssign

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self._assign(node.target, node.iter)
        self._loop(node.iter, [*node.body, *node.orelse])

    visit_AsyncFor = visit_For

    def visit_While(self, node: ast.While) -> None:
        self._loop(node.test, [*node.body, *node.orelse])

    def visit_If(self, node: ast.If) -> None:
        """With its `elif`s, which the tree nests."""
        before = len(self._conditions)
        rest: list[ast.stmt] = [node]
        while len(rest) == 1 and isinstance(branch := rest[0], ast.If):
            self.visit(branch.test)
            self._conditions.append(branch.test)
            for statement in branch.body:
                self.visit(statement)
            rest = branch.orelse
        for statement in rest:
            self.visit(statement)
        del self._conditions[before:]

    def visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        for case in node.cases:
            for part in self.steps.walk(case.pattern):
                name = getattr(part, "name", None) or getattr(part, "rest", None)
                if isinstance(name, str):
                    self._bind(name, node.subject, self._conditions)
            self._under(node.subject, case.body)

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            if item.optional_vars is not None:
                self._assign(item.optional_vars, item.context_expr)
            self.visit(item.context_expr)
        for statement in node.body:
            self.visit(statement)

    visit_AsyncWith = visit_With

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self._assign(node.target, node.iter)
        self._repeats += 1
        self.generic_visit(node)
        self._repeats -= 1

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.functions[node.name] = node
        before, self._function = self._function, node.name
        conditions, self._conditions = self._conditions, []
        before_repeats, self._repeats = self._repeats, 0
        for part in (*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body):
            self.visit(part)
        self._repeats = before_repeats
        self._function, self._conditions = before, conditions

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for statement in node.body:
            self.visit(statement)
            if isinstance(statement, _FUNCTIONS):
                self._bind(node.name, ast.Name(id=statement.name, ctx=ast.Load()), ())
                self._bind(statement.name, ast.Name(id="self", ctx=ast.Load()), ())

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None:
            self._bind(self._function, node.value, self._conditions)
            sink = Sink(node.value, (node.value,), tuple(self._conditions))
            self.steps.take(1 + len(self._conditions))
            self._returns.append((self._function, sink))
            self.visit(node.value)

    def visit_Yield(self, node: ast.Yield | ast.YieldFrom) -> None:
        if node.value is not None:
            self._bind(self._function, node.value, self._conditions)
            self.visit(node.value)

    visit_YieldFrom = visit_Yield

    def visit_Expr(self, node: ast.Expr) -> None:
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(call, ast.Call) and not _is_print(call):
            for name in _changed_by(call):
                self._bind(name, call, self._conditions)
        self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        name = _called(node)
        self.calls[name].append(node)
        if self._repeats:
            self.repeated.add(id(node))
        function = self.functions.get(name)
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        for part in given:
            # By name when all is read, since a function may be called above its definition: bound to all arguments.
            self._bind(f"({name})", part, self._conditions)
            if isinstance(part, ast.Lambda):
                receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
                others = [other for other in (*given, receiver) if other is not None and other is not part]
                for parameter in part.args.args:
                    for other in others:
                        self._bind(parameter.arg, other, ())
        if _is_print(node) or (name in _WRITERS and function is None):
            shown = given if _is_print(node) else [node]
            self.steps.take(1 + len(self._conditions))
            self.sinks.append(Sink(node, shown, tuple(self._conditions)))
        self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> None:
        """Annotations are no data."""

    def _bind(self, name: str, value: ast.expr, conditions: Sequence[ast.expr]) -> None:
        self.steps.take(1 + len(conditions))
        self._bindings[name].append(_Binding(value, tuple(conditions)))

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        names = list(_roots(target))
        for name in names:
            self._bind(name, value, self._conditions)
        for part in self.steps.walk(target):
            if isinstance(part, ast.Subscript):
                for name in names:
                    self._bind(name, part.slice, self._conditions)

    def _loop(self, condition: ast.expr, body: Iterable[ast.stmt]) -> None:
        self.visit(condition)
        self._repeats += 1
        self._under(condition, body)
        self._repeats -= 1

    def _under(self, condition: ast.expr, body: Iterable[ast.stmt]) -> None:
        self._conditions.append(condition)
        for statement in body:
            self.visit(statement)
        self._conditions.pop()


def keyword_of(call: ast.Call, name: str) -> ast.expr | None:
    """Return what a call is given by that keyword."""
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def _roots(target: ast.expr) -> Iterator[str]:
    """The names that an assignment to `target` changes."""
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, ast.Attribute | ast.Subscript | ast.Starred):
        yield from _roots(target.value)
    elif isinstance(target, ast.Tuple | ast.List):
        for element in target.elts:
            yield from _roots(element)
    elif isinstance(target, ast.Call):
        yield from _roots(target.func)


def _changed_by(call: ast.Call) -> Iterator[str]:
    """Yield what a call whose result is thrown away may change: its receiver and its arguments."""
    if isinstance(call.func, ast.Attribute):
        yield from _roots(call.func.value)
    for argument in call.args:
        if isinstance(argument, ast.Name):
            yield argument.id


def _is_print(call: ast.Call) -> bool:
    name = _called(call)
    if isinstance(call.func, ast.Name):
        return name in ("print", "display", "pprint")
    return name == "write" and isinstance(call.func, ast.Attribute) and _is_stdout(call.func.value)


def _is_stdout(node: ast.expr) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == "stdout" and isinstance(node.value, ast.Name) and node.value.id == "sys"
    return isinstance(node, ast.Name) and node.id == "stdout"


def _called(call: ast.Call) -> str:
    if isinstance(call.func, ast.Name):
        return call.func.id
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""
