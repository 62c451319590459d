"""Plan of a program before it runs: per code object and line, what must be looked at.

`plan_program(code, source)` walks the constants of the module's code object to all code objects of the program
(the *user code*) and joins two readings: the bytecode says which names an instruction stores and loads and on
which line; the syntax tree (`units`) says which objects a line can change, which only the core in C asks.

Kinds of code: MODULE, FUNCTION (also lambdas), CLASS (a class body), GENERATOR (generators, generator expressions,
coroutines), TRANSPARENT (comprehensions that are frames of their own on 3.11; scopes of type parameters):
transparent frames give no record at all, and code called by them has the next user frame outside as its parent.

Where a name lives (`Name.where`): LOCAL (a fast local or a cell of this frame), FREE (a cell of an outer function),
SPACE (the namespace of a module or class body; what a module stores is global), GLOBAL.

A statement, or the header of a compound one, is a *unit*. All lines of a unit have the names, roots and effects
of the whole unit; lines shared by two units have those of both.

Names. `Line.names` are those that instructions of the line store or delete, in the order of `Code.variables`,
then those of the outer scopes, then globals, both in the order in which the code object lists them.
`Line.last_names` is what is looked at when the frame is left on that line: for functions `names` and
`Code.shared` (cells that inner functions rebind), for module and class bodies all their names. Names that only
instructions without a line number touch (the implicit `del e` after `except … as e`) are part of every line's names.
Names that the compiler makes (`__module__`, `__qualname__`, `__doc__`, `__annotations__`, `.0`, …) are left out,
so are the variables of comprehensions.

Roots. `Line.roots` are the names that the unit loads, line by line in the order of the instructions, without pure
builtins; all names in sight, if it loads one of `eval`, `exec`, `globals`, `locals` and `vars`.

Effects. `Line.effects` says what on the line may change an object without user code telling it by itself:
None (anything: walk from the roots) or a tuple of `Effect`s, empty for a line that changes no object. See `effects`
for how one is resolved. A path is a root (a `Name`) and steps: `("a", name)` an attribute; `("i", CONSTANT, value)`,
`("i", VALUE_OF, name)`, `("i", ANY, None)` an item, by a constant, by the value of a name of this frame that the line
does not store, or any item.

Hidden lines. From 3.12 on comprehensions are inlined; line events at instructions of an inlined comprehension, from
`LOAD_FAST_AND_CLEAR` to `END_FOR` or `END_ASYNC_FOR`, are not recorded, nor are those on line 0, from which a module
without a statement returns. `Code.hidden` are their offsets.

Loops. `Line.loop` is set if the line is the whole header of a loop that may be folded: one line without `yield`. Not
in coroutines and asynchronous generators. A generator expression is such a loop, too (`bytecode.expression_loop`).

Offsets. `Code.exits` maps offsets of return and yield instructions to RETURN or YIELD, and the offset that follows a
yield, too (on 3.13 a frame that yields stands there). `Code.starts` are the offsets
of `RESUME 0`. `Code.quiet` are the offsets at which a StopIteration only ends a loop: no `raise` is recorded there.
`Code.branches` says what the ways of conditional jumps mean (`branches`), and `Code.targets` for each loop in it to
which names its items go.
"""

from __future__ import annotations

import ast
import types
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

from .branches import NONE as NO_BRANCHES
from .branches import Branches, Tests, branches_of
from .bytecode import (
    FREE,
    GLOBAL,
    LOCAL,
    SPACE,
    comprehension_variables,
    expression_loop,
    inner_codes,
    instructions,
    lines_by_offset,
    rebinds,
    restored_variables,
    scope_of,
    uses,
)
from .facts import Facts
from .own import protect
from .units import ANY, VALUE_OF, Effect, LineFacts, Path, Units, read_units

protect(globals())

MODULE, FUNCTION, CLASS, GENERATOR, TRANSPARENT = range(5)
RETURN, YIELD = 1, 2

_MADE_BY_COMPILER = frozenset(
    ("__module__", "__qualname__", "__doc__", "__annotations__", "__static_attributes__", "__firstlineno__",
     "__classcell__", "__type_params__", "__classdict__", "__conditional_annotations__", ".0", ".defaults",
     ".type_params", ".generic_base")
)  # fmt: skip
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>")
_ASYNC = 0x80 | 0x200  # CO_COROUTINE, CO_ASYNC_GENERATOR
_WAITS = 0x20 | _ASYNC  # CO_GENERATOR
_NEWLOCALS = 0x2  # CO_NEWLOCALS, which modules and class bodies do not have
_VARARGS, _VARKEYWORDS = 0x4, 0x8
_ENDS_LOOP = ("FOR_ITER", "SEND", "END_FOR", "END_SEND", "CLEANUP_THROW")


class Name(NamedTuple):
    """A name and where it lives."""

    name: str
    where: int


class Loop(NamedTuple):
    """A loop that may be folded: its first line and the last one of its body; whether a `yield` is in it."""

    first: int
    last: int
    gives: bool


class Line(NamedTuple):
    """Possible doings of one line of one code object. The module's docstring says what the fields mean."""

    names: tuple[Name, ...]
    last_names: tuple[Name, ...]
    roots: tuple[Name, ...]
    effects: tuple[Effect, ...] | None
    loop: Loop | None


class Code(NamedTuple):
    """Code object of the program."""

    code: types.CodeType
    kind: int
    name: str
    parameters: tuple[str, ...]
    variables: tuple[Name, ...]
    lines: dict[int, Line]
    hidden: frozenset[int]
    blank: Line
    """Stands for a line that the bytecode does not have, and for the time before the first line."""
    shared: tuple[Name, ...]
    exits: dict[int, int]
    starts: frozenset[int]
    quiet: frozenset[int]
    folds: bool
    """Its body may run unrecorded: no yield or await in it."""
    line_at: dict[int, int | None]
    """The line of each offset."""
    owners: dict[str, types.CodeType]
    """For each name it rebinds by `nonlocal`: the code object whose variable it is."""
    branches: Branches
    targets: tuple[tuple[Name, ...], ...]


class Program(NamedTuple):
    """All user code of a program."""

    codes: dict[int, Code]
    """By `id` of the code object; `Code.code` keeps it alive."""
    globals: tuple[Name, ...]
    """Global names that the program stores: those of the module in its order, then those only functions store."""
    facts: Facts


def plan_program(code: types.CodeType, source: str) -> Program:
    """Read a program before it runs.

    Args:
        code: The module's code object, compiled from `source`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the compiler has told them
        tree = ast.parse(source)
    units = read_units(tree)
    codes: dict[int, Code] = {}
    _add(code, (), units, Tests(tree), codes)
    return Program(codes, _global_names(codes), units.facts)


def _add(
    code: types.CodeType, outer: tuple[types.CodeType, ...], units: Units, tests: Tests, codes: dict[int, Code]
) -> None:
    # Code objects are constants of the one around them. Each is known by its `id`, since those of equal lambdas are
    # equal.
    codes[id(code)] = _Reader(code, outer, units, tests).read()
    for inner in inner_codes(code):
        _add(inner, (*outer, code), units, tests, codes)


def _global_names(codes: dict[int, Code]) -> tuple[Name, ...]:
    found: dict[Name, None] = {}
    for plan in codes.values():
        for name in plan.variables:
            if name.where == GLOBAL or (name.where == SPACE and plan.kind == MODULE):
                found[Name(name.name, GLOBAL)] = None
    return tuple(found)


def kind_of(code: types.CodeType) -> int:
    """MODULE, FUNCTION, CLASS, GENERATOR or TRANSPARENT."""
    # Nothing else of a source gets such a name: `<` begins no identifier.
    if code.co_name in _COMPREHENSIONS or code.co_name.startswith("<generic parameters of"):
        return TRANSPARENT
    if code.co_flags & _WAITS:
        return GENERATOR
    if code.co_flags & _NEWLOCALS:
        return FUNCTION
    return MODULE if code.co_name == "<module>" else CLASS


_REACHES_ALL = frozenset(("eval", "exec", "globals", "locals", "vars"))
"""Builtins that lead to objects whose names the line does not have."""


class _Access(NamedTuple):
    """Use of a name by an instruction."""

    line: int | None
    name: Name
    stores: bool


class _Reader:
    """Reads one code object."""

    def __init__(self, code: types.CodeType, outer: tuple[types.CodeType, ...], units: Units, tests: Tests) -> None:
        self._code = code
        self._tests = tests
        self._outer = outer
        self._kind = kind_of(code)
        self._facts: dict[int, LineFacts] = units.scopes.get(scope_of(code), {})
        self._instructions = instructions(code)
        self._comprehension = comprehension_variables(code, self._instructions)
        self._line_at = lines_by_offset(code)
        self._pure = units.pure
        self._expression: tuple[int, int, int] | None = None
        if code.co_name == "<genexpr>":
            self._expression = expression_loop(self._instructions, self._line_at)

    def read(self) -> Code:
        accesses = list(self._accesses(self._code))
        for inner in inner_codes(self._code):
            # Comprehensions of 3.11 and scopes of type parameters are frames of which no record is made.
            if kind_of(inner) == TRANSPARENT:
                accesses += self._borrowed(inner)
        variables = self._variables(accesses)
        shared = tuple(name for name in variables if name.where == LOCAL and self._is_shared(name.name))
        hidden = {offset for offset, line in self._line_at.items() if line is not None and line < 1}
        hidden.update(self._comprehension)
        branches = NO_BRANCHES
        if self._kind != TRANSPARENT:
            branches = branches_of(self._code, self._instructions, self._tests, hidden)
        return Code(
            code=self._code,
            kind=self._kind,
            name=self._code.co_qualname,
            parameters=_parameters(self._code) if self._kind in (FUNCTION, GENERATOR) else (),
            variables=variables,
            lines=self._lines(accesses, variables, shared),
            hidden=frozenset(hidden),
            blank=Line((), variables if self._is_body() else shared, (), (), None),
            shared=shared,
            exits=self._exits(),
            starts=frozenset(i.offset for i in self._instructions if i.opname == "RESUME" and i.arg == 0),
            quiet=frozenset(i.offset for i in self._instructions if i.opname in _ENDS_LOOP),
            folds=not self._code.co_flags & _WAITS and self._kind == FUNCTION,
            line_at=self._line_at,
            owners=self._owners(variables),
            branches=branches,
            targets=tuple(_named(loop.targets, variables) for loop in branches.loops),
        )

    def _is_body(self) -> bool:
        return self._kind in (MODULE, CLASS)

    def _accesses(self, code: types.CodeType) -> Iterator[_Access]:
        own = code is self._code
        # An inner code that is read here is a comprehension of 3.11 with a frame of its own: nothing is inlined in it.
        comprehension = self._comprehension if own else {}
        restored = restored_variables(code, self._instructions) if comprehension else set()
        for instruction in self._instructions if own else instructions(code):
            # Offsets of an inner code are none of this one; `_borrowed` says on which line it stands.
            line = self._line_at[instruction.offset] if own else None
            for name, where, stores in uses(code, instruction):
                if where == LOCAL and (
                    name in comprehension.get(instruction.offset, ()) or (name, instruction.position) in restored
                ):
                    continue
                # A body that is no function has fast locals only for comprehensions that are inlined into it (PEP 709),
                # and for the cell `__class__`. What the compiler makes is no name of the program.
                if name in _MADE_BY_COMPILER or (where == LOCAL and self._is_body() and name not in code.co_freevars):
                    continue
                yield _Access(line, Name(name, self._where(code, name, where)), stores)

    def _where(self, code: types.CodeType, name: str, where: int) -> int:
        if where == GLOBAL and self._kind == MODULE:  # a function declares it global
            return SPACE
        return FREE if where == LOCAL and name in code.co_freevars else where

    def _borrowed(self, inner: types.CodeType) -> Iterator[_Access]:
        """Yield what a comprehension's own frame does to names outside it, on the line that makes it (3.11)."""
        constants = self._code.co_consts
        makes = (i.offset for i in self._instructions if i.opname == "LOAD_CONST" and constants[i.arg] is inner)
        line = self._line_at.get(next(makes, -1))
        # A comprehension may stand in another one.
        inners = [inner, *(deeper for deeper in inner_codes(inner) if kind_of(deeper) == TRANSPARENT)]
        for code in inners:
            for access in self._accesses(code):
                name, where = access.name
                if where in (GLOBAL, SPACE):
                    yield _Access(line, access.name, access.stores)
                elif where == FREE:
                    # Free in the comprehension, it is a cell of this frame, or free here, too.
                    mine = FREE if name in self._code.co_freevars else LOCAL
                    yield _Access(line, Name(name, mine), access.stores)

    def _variables(self, accesses: list[_Access]) -> tuple[Name, ...]:
        stored = {access.name for access in accesses if access.stores}
        code = self._code
        fast = dict.fromkeys((*code.co_varnames, *code.co_cellvars))
        kept = [Name(name, LOCAL) for name in fast if Name(name, LOCAL) in stored or name in _parameters(code)]
        if self._is_body():
            # `co_names` is in the order of first use; names that only comprehensions of 3.11 bind (`:=`) are not in it.
            names = dict.fromkeys((*code.co_names, *sorted(name.name for name in stored if name.where == SPACE)))
            kept = [Name(name, SPACE) for name in names if Name(name, SPACE) in stored]
        kept += [Name(name, FREE) for name in code.co_freevars if Name(name, FREE) in stored]
        names = dict.fromkeys((*code.co_names, *(n.name for n in sorted(stored))))
        return (*kept, *(Name(name, GLOBAL) for name in names if Name(name, GLOBAL) in stored))

    def _is_shared(self, name: str) -> bool:
        return name in self._code.co_cellvars and any(rebinds(inner, name) for inner in inner_codes(self._code))

    def _owners(self, variables: tuple[Name, ...]) -> dict[str, types.CodeType]:
        owners = {}
        for name, where in variables:
            if where == FREE:
                # The innermost function around that has the variable, as Python's scoping rules have it.
                owner = next((code for code in reversed(self._outer) if name in code.co_cellvars), None)
                if owner is not None:
                    owners[name] = owner
        return owners

    def _exits(self) -> dict[int, int]:
        exits = {i.offset: RETURN for i in self._instructions if i.opname in ("RETURN_VALUE", "RETURN_CONST")}
        # `f_lasti` of a frame that waits is behind its YIELD_VALUE on 3.13, and at it before.
        yields = [i.offset for i in self._instructions if i.opname == "YIELD_VALUE"]
        return exits | dict.fromkeys((*yields, *(offset + 2 for offset in yields)), YIELD)

    def _lines(self, accesses: list[_Access], variables: tuple[Name, ...], shared: tuple[Name, ...]) -> dict[int, Line]:
        numbers = {line for line in self._line_at.values() if line is not None}
        order = {name: index for index, name in enumerate(variables)}
        by_line: dict[int | None, list[_Access]] = {}
        for access in accesses:
            by_line.setdefault(access.line, []).append(access)
        return {number: self._line(number, by_line, order, shared) for number in sorted(numbers)}

    def _line(
        self, number: int, by_line: dict[int | None, list[_Access]], order: dict[Name, int], shared: tuple[Name, ...]
    ) -> Line:
        facts = self._facts.get(number)
        here = [access for line in (sorted(facts.unit) if facts else (number,)) for access in by_line.get(line, ())]
        stored = {access.name for access in (*here, *by_line.get(None, ())) if access.stores}
        roots = dict.fromkeys(access.name for access in here if not access.stores)
        if any(name.name in _REACHES_ALL for name in roots):
            module = self._outer[0] if self._outer else self._code
            # `exec(text)` may change whatever it can name.
            roots |= order | dict.fromkeys(Name(name, GLOBAL) for name in module.co_names)
        # A name of a body may be set by other lines than its own, by `global` or by `exec`, and a cell of a function by
        # the functions in it.
        last = order if self._is_body() else {*stored, *shared}
        return Line(
            names=tuple(sorted(stored, key=order.__getitem__)),
            last_names=tuple(sorted(last, key=order.__getitem__)),
            roots=tuple(name for name in roots if name.where in (LOCAL, FREE) or name.name not in self._pure),
            effects=self._effects(facts, stored) if facts else None,
            loop=self._loop_at(number, facts.loop if facts else None),
        )

    def _loop_at(self, number: int, stated: tuple[int, int] | None) -> Loop | None:
        """The loop whose header a line is, if it may be folded."""
        if self._code.co_name == "<genexpr>":
            found = self._expression
            stated = found[1:] if found is not None and found[0] == number else None
        if stated is None or self._code.co_flags & _ASYNC:
            return None
        gives = any(
            i.opname == "YIELD_VALUE" and stated[0] <= (self._line_at[i.offset] or 0) <= stated[1]
            for i in self._instructions
        )
        return Loop(*stated, gives)

    def _effects(self, facts: LineFacts, stored: set[Name]) -> tuple[Effect, ...] | None:
        """The line's effects as this frame can resolve them; None if one of them cannot be."""
        effects = facts.effects
        if effects is None:
            return None
        names = {name.name for name in stored}
        calls = any(effect.calls for effect in effects)

        def resolved(root: str, steps: tuple[tuple[Any, ...], ...]) -> Path:
            return Path(self._root(root), tuple(self._step(step, names, calls) for step in steps))

        kept: dict[Effect, None] = {}
        for effect in effects:
            root, steps = effect.path
            if root is None:  # `super().m()` is a call on the first parameter, whatever it is called
                if not self._code.co_argcount:
                    return None
                root = self._code.co_varnames[0]
            # Of several statements, another one may store there last.
            in_place = effect.in_place and (facts.changing_units == 1 if steps else facts.stores[root] == 1)
            # Of `xs = make(); xs.append(1)` on one line: which object is changed is not known beforehand.
            if root in names and (steps or not in_place):
                return None
            # The first argument matters to functions that change it, such as `heappush`; one that is not known
            # beforehand is as one without a path.
            first = resolved(*effect.first) if effect.first is not None and effect.first.root not in names else None
            kept[effect._replace(path=resolved(root, steps), first=first, in_place=in_place)] = None
        return tuple(kept)

    def _root(self, name: str) -> Name:
        code = self._code
        if self._is_body():
            return Name(name, FREE if name in code.co_freevars else SPACE)
        if name in code.co_varnames or name in code.co_cellvars:
            return Name(name, LOCAL)
        return Name(name, FREE if name in code.co_freevars else GLOBAL)

    def _step(self, step: tuple[Any, ...], stored: set[str], calls: bool) -> tuple[Any, ...]:
        if step[0] != "i" or step[1] != VALUE_OF:
            return step
        name = step[2]
        # Nobody but this frame's own lines can change it before the item is looked up: a cell or a global may be set by
        # what the line calls.
        mine = name in self._code.co_varnames and name not in self._code.co_cellvars
        if name in stored or not (mine or (self._kind == MODULE and not calls)):
            return ("i", ANY, None)
        return step


def _named(targets: tuple[str, ...], variables: tuple[Name, ...]) -> tuple[Name, ...]:
    """The variables of these names; none if one of them is no variable of the code."""
    by_name = {name.name: name for name in variables}
    return tuple(by_name[name] for name in targets) if all(name in by_name for name in targets) else ()


def _parameters(code: types.CodeType) -> tuple[str, ...]:
    # Parameters are the first of the local variables: those by place, by name, then `*args` and `**options`.
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & _VARARGS) + bool(code.co_flags & _VARKEYWORDS)
    return tuple(name for name in code.co_varnames[:count] if name not in _MADE_BY_COMPILER)
