"""Places of the lines of a source in its syntax tree.

A record says a frame and a line. The frame's name and line lead to its code (module, function, class body, lambda,
generator expression), the line to a statement of that code and to what part of the statement begins there.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

from groundbox.values.parsing import module_of

CodeNode: TypeAlias = (
    ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda | ast.GeneratorExp
)  # fmt: skip
Node = TypeVar("Node", bound=ast.AST)
T = TypeVar("T")
MOST_SOURCE: Final = 1_000_000
"""Characters."""
MOST_KEPT: Final = 20_000
"""Characters of a source whose tree is kept for its next run."""
KEPT_PROGRAMS: Final = 8
"""Programs of which what was worked out is kept: runs of one program come together."""
MOST_DEPTH: Final = 100
"""Levels of a tree; the deepest of 4,080 programs of datasets has 30."""
_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)
# Numbered in the order in which they stand in a source, so that paths compare as their statements do.
_BLOCKS: Final = {"body": 0, "handlers": 1, "cases": 1, "orelse": 2, "finalbody": 3}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Place:
    """A line in one code.

    Attributes:
        statement: The outermost statement that begins or goes on in this line.
        part: `statement` (a simple one), `test` (if, while), `loop` (the header of a for), `with`, `try`, `except`,
            `subject` and `case` (match), `definition`.
        first: The first line of this part.
        clause: The handler or case, for these parts.
        path: Position in the code: alternately an index in a block, and the number of the block in its statement.
            Paths of places compare as their statements stand in the source.
        within: The compound statements around it, the outermost first, each with its block and clause.
        inline: Whether a block of the statement stands on its header's line, as in `if x: y()`.
        loops: The loops whose bodies it stands in, the outermost first.
    """

    statement: ast.stmt
    part: str
    first: int
    clause: ast.ExceptHandler | ast.match_case | None = None
    path: tuple[int, ...]
    within: tuple[Block, ...]
    inline: bool = False
    loops: tuple[ast.stmt, ...] = ()

    def inside(self, owner: ast.stmt, name: str, clause: ast.AST | None = None) -> bool:
        """Return whether it stands in that block of `owner`."""
        return any(b.owner is owner and b.name == name and b.clause is clause for b in self.within)


@dataclasses.dataclass(frozen=True, eq=False)
class Block:
    """A row of statements inside a compound one."""

    owner: ast.stmt
    name: str
    clause: ast.AST | None = None


class Code:
    """Code object of the source: a module, function, class body, lambda or generator expression.

    Attributes:
        qualname: As `__qualname__` has it; `<module>` for the module.
        first: Its first line, decorators included.
        header_end: The last line that its definition may be said to begin on.
    """

    def __init__(self, node: CodeNode, qualname: str) -> None:
        self.node = node
        self.qualname = qualname
        self.first, self.header_end = _extent(node)

    def place(self, line: int) -> Place | None:
        """Return what stands in a line of this code, or None."""
        return self._places.get(line)

    @functools.cached_property
    def _places(self) -> Mapping[int, Place]:
        found: dict[int, Place] = {}
        body = getattr(self.node, "body", None)
        for line, place in _placed(body, (), ()) if isinstance(body, list) else ():
            # `x = 1; y = 2` is found by its first statement.
            found.setdefault(line, place)
        return found


def _placed(body: Sequence[ast.stmt], path: tuple[int, ...], within: tuple[Block, ...]) -> Iterator[tuple[int, Place]]:
    """The lines of a block, with what stands there."""
    loops = tuple(b.owner for b in within if b.name == "body" and isinstance(b.owner, _LOOPS))
    for index, statement in enumerate(body):
        here = (*path, index)
        for part, first, last, clause, inner in _parts(statement):
            place = Place(
                statement=statement,
                part=part,
                first=first,
                clause=clause,
                path=(*here, *inner),
                within=within,
                inline=part != "definition" and _is_inline(statement, clause, last),
                loops=loops,
            )
            for line in range(first, last + 1):
                yield line, place
        # What stands in a function or class is of another code.
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for block, statements, inner in _blocks(statement):
                yield from _placed(statements, (*here, *inner), (*within, block))


_END_OF_LINE: Final = re.compile(r"\r\n|\r|\n")


def lines_of(source: str) -> list[str]:
    """The lines of a source as Python counts them; `str.splitlines` also cuts at form feeds, U+2028 and others."""
    lines = _END_OF_LINE.split(source)
    return lines if lines[-1] else lines[:-1]


class Syntax:
    """The codes of one source. For a source that does not parse (a cell with magics) there are none.

    Attributes:
        tree: None when the source does not parse.
        assigned: Every name that the source assigns, defines or imports anywhere.
    """

    def __init__(self, source: str) -> None:
        self.tree = parse(source)
        self.lines = lines_of(source)
        self._codes: dict[str, list[Code]] = {}
        self.assigned: frozenset[str] = frozenset()
        if self.tree is not None:
            self._add(self.tree, "<module>")
            self._walk(self.tree, "")
            self.assigned = frozenset(assigned_in(self.tree))

    def line(self, number: int) -> str:
        """A line without its indentation; empty where there is none."""
        return self.lines[number - 1].strip() if 1 <= number <= len(self.lines) else ""

    def has_code(self, name: str) -> bool:
        """Return whether the program defines a function of that qualified name."""
        return name in self._codes

    def code(self, name: str, line: int, parameters: Collection[str] | None = None) -> Code | None:
        """The code that a `call` record with this qualified name and line runs, or None when it is not certain.

        Args:
            parameters: The names that the record has arguments for, if they are known.
        """
        found = [c for c in self._codes.get(name, ()) if c.first <= line <= c.header_end]
        if not found:
            # Scopes that are no codes here stand in some names: on 3.11 a lambda may be
            # `f.<locals>.<listcomp>.<locals>.<lambda>`.
            tail = name.rpartition(".")[2]
            found = [
                c for q, codes in self._codes.items() if q.rpartition(".")[2] == tail
                for c in codes if c.first <= line <= c.header_end
            ]  # fmt: skip
        exact = [c for c in found if c.first == line] or found
        # Two lambdas of one line that have the same parameters cannot be told apart by what a record says.
        if len(exact) > 1 and parameters is not None:
            exact = [code for code in exact if _parameters(code.node) == {*parameters}]
        return exact[0] if len(exact) == 1 else None

    @property
    def codes(self) -> Iterator[Code]:
        """Every code of the source."""
        for codes in self._codes.values():
            yield from codes

    def _add(self, node: CodeNode, qualname: str) -> None:
        self._codes.setdefault(qualname, []).append(Code(node, qualname))

    def _walk(self, root: ast.AST, outer: str) -> None:
        waiting: list[tuple[ast.AST, str]] = [(root, outer)]
        while waiting:
            node, prefix = waiting.pop()
            for child in ast.iter_child_nodes(node):
                name = _code_name(child)
                if name is None:
                    # Names of what is no code do not stand in qualified names.
                    waiting.append((child, prefix))
                    continue
                assert isinstance(child, CodeNode)
                self._add(child, prefix + name)
                inner = prefix + name + ("." if isinstance(child, ast.ClassDef) else ".<locals>.")
                waiting.append((child, inner))


def _parameters(node: ast.AST) -> set[str]:
    """The names of the parameters of a function or lambda."""
    arguments = getattr(node, "args", None)
    return {each.arg for each in walked(arguments) if isinstance(each, ast.arg)} if arguments is not None else set()


def _code_name(node: ast.AST) -> str | None:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return node.name
    return _UNNAMED.get(type(node))


_UNNAMED: Final[dict[type[ast.AST], str]] = {
    ast.Lambda: "<lambda>",
    ast.GeneratorExp: "<genexpr>",
}


def kept(read: Callable[[str], T]) -> Callable[[str], T]:
    """Keep what is worked out of the last few sources that are not long; it may be another reader's, too."""
    cached = functools.lru_cache(maxsize=KEPT_PROGRAMS)(read)
    return functools.wraps(read)(lambda source: cached(source) if len(source) <= MOST_KEPT else read(source))


@kept
def parse(source: str) -> ast.Module | None:
    """The syntax tree, or None for a source that is too long, is nested too deeply, or does not parse here.

    Whoever goes through a tree by recursion, as `ast.unparse` does, relies on the bound of its depth. A tree may be
    another reader's, too, as a dataset has many runs of one program: nobody changes one that is not `copied`.
    """
    if len(source) > MOST_SOURCE:
        return None
    try:
        tree = module_of(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    # Level by level, without the recursion that it is to spare others.
    level: list[ast.AST] = [tree]
    for _ in range(MOST_DEPTH):
        level = [inner for outer in level for inner in ast.iter_child_nodes(outer)]
        if not level:
            return tree
    return None


@kept
def syntax_of(source: str) -> Syntax:
    """The codes of a source."""
    return Syntax(source)


def copied(node: Node) -> Node:
    """An expression or statement with everything below it, to be changed; what has no parts, such as `Load`, is shared.

    As `copy.deepcopy`, which takes seven times as long.
    """
    # Without `__init__`, which takes fields one by one and warns of missing ones from 3.13 on.
    made: Node = node.__class__.__new__(node.__class__)
    fields = made.__dict__
    for name, value in node.__dict__.items():
        if isinstance(value, ast.AST):
            fields[name] = copied(value) if value.__dict__ else value
        elif isinstance(value, list):
            fields[name] = [copied(each) if isinstance(each, ast.AST) and each.__dict__ else each for each in value]
        else:
            fields[name] = value
    return made


def walked(node: ast.AST) -> Sequence[ast.AST]:
    """A node and everything below it, in the order of `ast.walk`, which takes three times as long."""
    return _walked_program(node) if isinstance(node, ast.Module) else _walked(node)


def _walked(node: ast.AST) -> list[ast.AST]:
    found = [node]
    for each in found:
        for name in each._fields:
            value = getattr(each, name, None)
            if isinstance(value, ast.AST):
                found.append(value)
            elif isinstance(value, list):
                found += [part for part in value if isinstance(part, ast.AST)]
    return found


_walked_program: Final = functools.lru_cache(maxsize=KEPT_PROGRAMS)(_walked)


def _extent(node: CodeNode) -> tuple[int, int]:
    if isinstance(node, ast.Module):
        # Versions of Python differ in the line on which a module is called.
        return 0, node.body[0].lineno if node.body else 1
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        return first, max(node.lineno, header_end(node))
    return node.lineno, node.end_lineno or node.lineno


def header_end(statement: ast.AST) -> int:
    """The last line of a header: where its last expression ends."""
    ends = [getattr(statement, "lineno", 0)]
    for name, value in ast.iter_fields(statement):
        # Whatever the statement is, these are its blocks; all else is its header.
        if name in ("body", "orelse", "handlers", "finalbody", "cases"):
            continue
        for node in value if isinstance(value, list) else [value]:
            ends.extend(n.end_lineno for n in _located(node) if n.end_lineno is not None)
    return max(ends)


def _located(node: object) -> Iterator[ast.expr | ast.pattern | ast.arg]:
    if not isinstance(node, ast.AST):
        return
    for each in ast.walk(node):
        if isinstance(each, (ast.expr, ast.pattern, ast.arg)):
            yield each


def _parts(
    statement: ast.stmt,
) -> Iterator[tuple[str, int, int, ast.ExceptHandler | ast.match_case | None, tuple[int, ...]]]:
    """The lines that belong to a statement itself, by part: name, first line, last line, clause, path in it."""
    first = statement.lineno
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield "definition", *_extent(statement), None, ()
    elif isinstance(statement, (ast.If, ast.While)):
        yield "test", first, header_end(statement), None, ()
    elif isinstance(statement, (ast.For, ast.AsyncFor)):
        yield "loop", first, header_end(statement), None, ()
    elif isinstance(statement, (ast.With, ast.AsyncWith)):
        yield "with", first, header_end(statement), None, ()
    elif isinstance(statement, (ast.Try, ast.TryStar)):
        yield "try", first, first, None, ()
        for number, handler in enumerate(statement.handlers):
            yield "except", handler.lineno, header_end(handler), handler, (1, number)
    elif isinstance(statement, ast.Match):
        yield "subject", first, statement.subject.end_lineno or first, None, ()
        for number, case in enumerate(statement.cases):
            # `match_case` has no line of its own.
            yield "case", case.pattern.lineno, header_end(case), case, (1, number)
    else:
        yield "statement", first, statement.end_lineno or first, None, ()


def _blocks(statement: ast.stmt) -> Iterator[tuple[Block, Sequence[ast.stmt], tuple[int, ...]]]:
    """The blocks of a compound statement, each with its statements and its path in it."""
    for name, number in _BLOCKS.items():
        inner = getattr(statement, name, ())
        if name in ("handlers", "cases"):
            for place, clause in enumerate(inner):
                yield Block(statement, "body", clause), clause.body, (number, place, 0)
        elif inner:
            yield Block(statement, name), inner, (number,)


def _is_inline(statement: ast.stmt, clause: ast.ExceptHandler | ast.match_case | None, last: int) -> bool:
    body: list[ast.stmt] = clause.body if clause is not None else getattr(statement, "body", [])
    return bool(body) and body[0].lineno <= last


def assigned_in(tree: ast.AST) -> Iterator[str]:
    """Every name that a tree assigns, defines, imports or takes as a parameter, anywhere."""
    for node in walked(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            yield node.name


def within_code(statement: ast.AST) -> Iterator[ast.AST]:
    """A statement and all in it that runs in the same code: not the bodies of functions, classes and lambdas."""
    waiting = [statement]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _SCOPES):
            waiting.extend(ast.iter_child_nodes(node))


def always_true(test: ast.expr) -> bool:
    """Return whether a test is a constant that holds, so that the compiler leaves it out."""
    return isinstance(test, ast.Constant) and bool(test.value)
