"""Rules on objects that are other ones than they seem: variables of a loop in functions that run later, the None of
methods in place, lists that change while they are gone through, rows that are one list, iterators that are used up,
labels of a column taken for its values, conditions that always hold, and keys that are equal."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from groundbox.check.python.program import Program
from groundbox.check.python.rules_libraries import frame_names
from groundbox.check.tiers import Finding

_KEEPS: Final = frozenset(["append", "insert", "add", "setdefault", "appendleft"])
_IN_PLACE: Final = frozenset(["append", "extend", "insert", "clear", "update", "add", "remove", "discard"])
_ORDERS: Final = frozenset(["sort", "reverse"])
_TAKES_OUT: Final = frozenset(["remove", "pop"])
_ITERATORS: Final = frozenset(["map", "filter", "zip", "enumerate", "reversed", "iter", "csv.reader", "csv.DictReader"])
_CONSUMES: Final = frozenset(["sum", "list", "sorted", "max", "min", "set", "tuple", "dict", "collections.Counter"])
_DISPLAYS: Final = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
_MAKERS: Final = frozenset(["list", "dict", "set", "collections.defaultdict", "collections.deque", "sorted"])


def late_variables(program: Program) -> Iterator[Finding]:
    """A lambda that is kept in a loop and uses the loop's variable, which has its last value when it is called."""
    for node in program.nodes:
        kept: Iterable[ast.expr]
        if isinstance(node, ast.For):
            kept = _kept_in(program, node.body)
        elif isinstance(node, ast.ListComp | ast.DictComp):
            kept = [node.value if isinstance(node, ast.DictComp) else node.elt]
        else:
            continue
        targets = [node.target] if isinstance(node, ast.For) else [each.target for each in node.generators]
        names = {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
        for function in kept:
            if isinstance(function, ast.Lambda) and (used := _free_names(program, function) & names):
                name = min(used)[:80]
                yield Finding(
                    code="python.late_binding",
                    evidence={"line": function.lineno, "names": [name]},
                    message=f"line {function.lineno} keeps a function that uses {name}, a variable of the loop: "
                    "all of them see its last value when they are called",
                    hint=f"Give it as a default: lambda …, {name}={name}: …",
                )


def results_that_are_none(program: Program) -> Iterator[Finding]:
    """The None of a method that changes its object in place, assigned to a name or printed."""
    for node in program.nodes:
        values: Sequence[ast.expr] = ()
        if isinstance(node, ast.Assign) and all(isinstance(target, ast.Name) for target in node.targets):
            values = [node.value]
        elif isinstance(node, ast.Call) and program.flow.origin(node.func) == "print":
            values = node.args
        for value in values:
            if isinstance(value, ast.Call) and _gives_none(program, value):
                what = value.func.attr if isinstance(value.func, ast.Attribute) else "shuffle"
                yield Finding(
                    code="python.none_result",
                    evidence={"line": value.lineno},
                    message=f"line {value.lineno} takes the None that {what}() gives, which changes its object",
                    hint="Call it in a line of its own, or use a function that gives a new object, such as sorted().",
                )


def lists_changed_in_their_loop(program: Program) -> Iterator[Finding]:
    """Items are taken out of a list while a loop goes through it, so that it skips some."""
    for node in program.nodes:
        if isinstance(node, ast.For) and isinstance(node.iter, ast.Name):
            line = _taken_out(program, node.body, node.iter.id)
            if line is not None and not _puts_back(program, node, node.iter.id):
                name = node.iter.id[:80]
                yield Finding(
                    code="python.changed_in_loop",
                    evidence={"line": line, "names": [name]},
                    message=f"line {line} takes items out of {name} while the loop goes through it, which skips others",
                    hint=f"Go through a copy, for … in list({name}), or make a new list of what is kept.",
                )


def rows_that_are_one(program: Program) -> Iterator[Finding]:
    """`[[0] * 3] * 2` and `dict.fromkeys(keys, [])` hold one list several times, and an item of one is changed."""
    changed = _changed_items(program)
    for name in sorted(changed):
        for value in program.flow.assigned(name):
            shared = False
            match value:
                case (
                    ast.BinOp(op=ast.Mult(), left=ast.List(elts=elts))
                    | ast.BinOp(op=ast.Mult(), right=ast.List(elts=elts))
                ):
                    shared = any(_is_new_object(program, each) for each in elts)
                case ast.Call(func=ast.Attribute(value=ast.Name(id="dict"), attr="fromkeys"), args=[_, each]):
                    shared = _is_new_object(program, each)
            if shared:
                yield Finding(
                    code="python.shared_object",
                    evidence={"line": value.lineno, "names": [name[:80]]},
                    message=f"line {value.lineno} puts one object into {name[:80]} several times, and line "
                    f"{changed[name]} changes it everywhere",
                    hint="Make one for each: [[…] for _ in range(n)], or {key: [] for key in keys}.",
                )


def iterators_used_up(program: Program) -> Iterator[Finding]:
    """A generator, map or filter that is gone through twice: the second time it is empty."""
    for body in _bodies(program):
        made: dict[str, int] = {}
        used: dict[str, int] = {}
        for statement in body:
            for name in _consumed(program, statement):
                if name in used and name in made:
                    yield Finding(
                        code="python.used_up",
                        evidence={"line": statement.lineno, "names": [name[:80]]},
                        message=f"line {statement.lineno} goes through {name[:80]}, of which line {used[name]} left "
                        "nothing",
                        hint="Make it a list first.",
                    )
                    made.pop(name)
                used.setdefault(name, statement.lineno)
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    made.pop(name, None)
                    used.pop(name, None)
                    if _is_iterator(program, value) and len(program.flow.assigned(name)) == 1:
                        made[name] = statement.lineno


def labels_taken_for_values(program: Program) -> Iterator[Finding]:
    """`x in df["column"]` looks among the labels of the rows, not among the values."""
    frames = frame_names(program)
    for node in program.nodes:
        match node:
            case ast.Compare(
                left=ast.Constant(value=str()) | ast.Name(),
                ops=[ast.In() | ast.NotIn()],
                comparators=[ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(column)))],
            ) if name in frames:
                yield Finding(
                    code="pandas.label_membership",
                    evidence={"line": node.lineno, "names": [column[:80]]},
                    message=f"line {node.lineno} looks for a value among the labels of the rows: "
                    f"{ast.unparse(node)[:80]}",
                    hint="Look among the values: … in df['column'].values, or .isin(…).any().",
                )


def conditions_that_always_hold(program: Program) -> Iterator[Finding]:
    """`x == 1 or 2`, which is true whatever x is."""
    for node in program.nodes:
        tests = [node.test] if isinstance(node, ast.If | ast.While | ast.IfExp) else []
        tests += node.ifs if isinstance(node, ast.comprehension) else []
        for test in tests:
            match test:
                case ast.BoolOp(op=ast.Or(), values=[ast.Compare(ops=[ast.Eq() | ast.NotEq() | ast.In()]), *others]):
                    held = [each for each in others if isinstance(each, ast.Constant) and _is_true_text(each.value)]
                    if held:
                        yield Finding(
                            code="python.always_true",
                            evidence={"line": test.lineno},
                            message=f"line {test.lineno} always holds: {ast.unparse(test)[:80]}",
                            hint="Compare with each: x in (1, 2).",
                        )


def keys_that_are_equal(program: Program) -> Iterator[Finding]:
    """A dict that is written with 1 and True, or 1.0, as keys: they are one key, and the last value is kept."""
    for node in program.nodes:
        if not isinstance(node, ast.Dict):
            continue
        seen: dict[object, str] = {}
        for key in node.keys:
            program.steps.take()
            if not isinstance(key, ast.Constant):
                continue
            name = ast.unparse(key)[:80]
            if seen.setdefault(key.value, name) != name:
                yield Finding(
                    code="python.equal_keys",
                    evidence={"line": key.lineno},
                    message=f"line {key.lineno} has {name} as a key, which equals {seen[key.value]} and replaces its "
                    "value",
                    hint="1, 1.0 and True are one key: write texts, or numbers of one type.",
                )


def _kept_in(program: Program, body: Sequence[ast.stmt]) -> Iterator[ast.expr]:
    """What a loop puts into a list, a dict or an attribute that it does not make itself."""
    for statement in body:
        for node in program.steps.walk(statement):
            match node:
                case ast.Call(func=ast.Attribute(attr=attr), args=[*_, kept]) if attr in _KEEPS:
                    yield kept
                case ast.Assign(targets=[ast.Subscript()], value=kept):
                    yield kept


def _free_names(program: Program, function: ast.Lambda) -> set[str]:
    arguments = function.args
    bound = {each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    nodes = program.steps.walk(function.body)
    return {each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)} - bound


def _gives_none(program: Program, call: ast.Call) -> bool:
    if program.flow.origin(call.func) == "random.shuffle":
        return True
    if not isinstance(call.func, ast.Attribute) or call.func.attr in program.flow.functions:
        return False
    owner, attr = call.func.value, call.func.attr
    if isinstance(owner, ast.Name) and attr in (_IN_PLACE | _ORDERS):
        values = program.flow.assigned(owner.id)
        return bool(values) and all(_is_new_object(program, each) or each is call for each in values)
    return False


def _is_new_object(program: Program, node: ast.expr) -> bool:
    """Return whether an expression makes a new list, dict or set."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return isinstance(node.left, ast.List) or isinstance(node.right, ast.List)
    return isinstance(node, _DISPLAYS) or (isinstance(node, ast.Call) and program.flow.origin(node.func) in _MAKERS)


def _taken_out(program: Program, body: Sequence[ast.stmt], name: str) -> int | None:
    """The line that takes an item out of the list and lets the loop go on; None without one."""
    for place, statement in enumerate(body):
        ends = any(isinstance(each, ast.Break | ast.Return | ast.Raise) for each in body[place + 1 :])
        below = [getattr(statement, part, None) or [] for part in ("body", "orelse", "finalbody")]
        blocks = [block for block in below if block and isinstance(block[0], ast.stmt)]
        if ends or isinstance(statement, ast.FunctionDef | ast.ClassDef):
            continue
        if blocks:
            found = next((line for block in blocks if (line := _taken_out(program, block, name)) is not None), None)
            if found is not None:
                return found
            continue
        program.steps.take()
        match statement:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=attr))):
                if owner == name and attr in _TAKES_OUT:
                    return statement.lineno
            case ast.Delete(targets=[ast.Subscript(value=ast.Name(id=owner))]) if owner == name:
                return statement.lineno
            case ast.Assign(targets=[ast.Name(id=owner)]) if owner == name:
                return None  # another list from here on
    return None


def _puts_back(program: Program, loop: ast.For, name: str) -> bool:
    for node in program.steps.walk(loop):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="add" | "append" | "insert")):
                if owner == name:
                    return True
    return False


def _changed_items(program: Program) -> dict[str, int]:
    """Names of which an item is changed, with the line: `x[i][j] = …`, `x[i].append(…)`."""
    found: dict[str, int] = {}
    for node in program.nodes:
        match node:
            case ast.Subscript(value=ast.Subscript(value=ast.Name(id=name)), ctx=ast.Store()):
                found.setdefault(name, node.lineno)
            case ast.Call(func=ast.Attribute(value=ast.Subscript(value=ast.Name(id=name)), attr=attr)):
                if attr in _IN_PLACE | _ORDERS | {"pop", "setdefault"}:
                    found.setdefault(name, node.lineno)
    return found


def _bodies(program: Program) -> Iterator[Sequence[ast.stmt]]:
    yield program.tree.body
    for node in program.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.body


def _is_iterator(program: Program, node: ast.expr) -> bool:
    return isinstance(node, ast.GeneratorExp) or (
        isinstance(node, ast.Call) and program.flow.origin(node.func) in _ITERATORS
    )


def _consumed(program: Program, statement: ast.stmt) -> Iterator[str]:
    """Names that a statement goes through to their end, if it runs: not under a condition of its own."""
    if isinstance(statement, ast.For) and isinstance(statement.iter, ast.Name):
        if not any(isinstance(each, ast.Break | ast.Return) for each in program.steps.walk(statement)):
            yield statement.iter.id
        return
    if not isinstance(statement, ast.Assign | ast.Expr | ast.Return | ast.AugAssign):
        return
    for node in program.steps.walk(statement):
        match node:
            case ast.Call(func=function, args=[ast.Name(id=name), *_]) if program.flow.origin(function) in _CONSUMES:
                yield name
            case ast.Call(func=ast.Attribute(attr="join"), args=[ast.Name(id=name)]):
                yield name


def _is_true_text(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool) and bool(value)


RULES: Final = (
    late_variables,
    results_that_are_none,
    lists_changed_in_their_loop,
    rows_that_are_one,
    iterators_used_up,
    labels_taken_for_values,
    conditions_that_always_hold,
    keys_that_are_equal,
)
