"""Facts about a source as a whole: which names it shadows, whether it is lazy, whether ends of objects matter.

A source is *lazy* if it hands mutating methods or functions to others by name (`map(stack.append, xs)`), or mentions
`methodcaller`: then calls of pure builtins and `for` headers may change anything. Ends of objects matter if it
mentions `__del__`, `weakref`, `gc`, `getrefcount`, files, sockets or temporary files, or has a generator that cleans
up (`finally`, `with`): then the tracer keeps none of its objects alive.
"""

from __future__ import annotations

import ast
from collections import ChainMap, Counter, OrderedDict, defaultdict, deque
from typing import NamedTuple

from .own import protect
from .tree import walk

protect(globals())


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


_MUTATORS = words(
    "add append appendleft clear discard extend extendleft insert pop popitem popleft remove reverse rotate "
    "setdefault sort update __setitem__ __delitem__ __setattr__ subtract move_to_end heappush heappop heapify"
)
# Functions of the library that call the function that they are given while somebody goes through their result.
_TAKERS = words("map filter starmap accumulate partial takewhile dropwhile filterfalse")
# A program that names one of these may see when an object ends: `ref()` of weakref gives None then, and a file that is
# dropped is closed. An object that the tracer held would end too late.
_FINALIZED = words(
    "__del__ weakref gc getrefcount finalize open fdopen socket tempfile TemporaryFile NamedTemporaryFile "
    "TemporaryDirectory Popen contextmanager"
)


_PLAIN_DECORATORS = words("staticmethod classmethod abstractmethod")
# Modules of which no method changes an object, but for those in `_LIBRARY_ATTRIBUTES`: where the program has a method
# of the same name, the call of either changes nothing that lines of the program do not tell.
_PLAIN_MODULES = words(
    "abc bisect cmath collections copy dataclasses datetime decimal enum fractions functools heapq itertools json math "
    "operator random re statistics string sys time typing __future__"
)
# By these an attribute gets a name that does not stand in the source, so that none is certain to be the program's.
_MAKES_ATTRIBUTES = words("setattr __dict__ __getattr__ __getattribute__ __setattr__ vars type globals exec eval")
_LIBRARY_ATTRIBUTES = frozenset(
    name
    for kind in (list, dict, set, str, bytearray, int, float, tuple, deque, Counter, OrderedDict, defaultdict, ChainMap)
    for name in dir(kind)
) | words(
    "shuffle heappush heappop heapify heapreplace heappushpop insort insort_left insort_right setitem delitem iadd "
    "iand iconcat ior isub ixor imul reduce partial call send throw close setstate seed write writelines read readline"
)


class Facts(NamedTuple):
    """Facts about the source as a whole."""

    shadowed: frozenset[str]
    """Names that the source binds anywhere, by assignment, import, definition or parameter."""
    lazy: bool
    reads_change: frozenset[str]
    """"item" if reading an item may change its container, "attribute" likewise."""
    holds: bool
    """Objects may be kept alive by the tracer: nothing in the source waits for the end of one."""
    imports: frozenset[str]
    """First parts of the modules that it imports."""
    functions: frozenset[str]
    """Names that plain `def` and `class` bind, and nothing else does: to call one runs code of the program only."""
    methods: frozenset[str]
    """Likewise, names of methods that nothing else has which the program may call."""


def read_facts(tree: ast.Module) -> Facts:
    """Read the facts from the whole tree."""
    reader = _FactsReader()
    for node in walk(tree):
        reader.read(node)
    mentioned = reader.mentioned
    # Reading `counts[key]` of a defaultdict makes the pair; a cached property becomes an attribute when it is read.
    reads = {"item"} if mentioned & {"defaultdict", "__missing__"} else set()
    if "cached_property" in mentioned:
        reads.add("attribute")
    return Facts(
        shadowed=frozenset(reader.bound),
        lazy=reader.lazy or "*" in reader.bound or "methodcaller" in mentioned,
        reads_change=frozenset(reads),
        holds=not (mentioned & _FINALIZED or reader.ends_matter()),
        imports=frozenset(reader.imports),
        functions=frozenset() if "*" in reader.bound else frozenset(reader.defined - reader.rebound),
        methods=reader.own_methods(),
    )


class _FactsReader:
    """Gathers what holds for a whole source, node by node."""

    def __init__(self) -> None:
        self.bound: set[str] = set()
        self.rebound: set[str] = set()
        """Bound by anything but a plain definition."""
        self.defined: set[str] = set()
        self.methods: set[str] = set()
        self.stored: set[str] = set()
        self.mentioned: set[str] = set()
        self.imports: set[str] = set()
        self.lazy = False
        self._functions: set[int] = set()
        self._defined: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
        self._gives = False

    def read(self, node: ast.AST) -> None:
        if isinstance(node, ast.Constant):
            return
        if isinstance(node, ast.Name):
            self.mentioned.add(node.id)
            if not isinstance(node.ctx, ast.Load):
                self._bind(node.id)
        elif isinstance(node, ast.Attribute):
            self.mentioned.add(node.attr)
            if not isinstance(node.ctx, ast.Load):
                self.stored.add(node.attr)
            # `walk` gives a call before its function, so that `xs.append` of `xs.append(1)` is known by now: it is
            # handed to nobody.
            if node.attr in _MUTATORS and isinstance(node.ctx, ast.Load) and id(node) not in self._functions:
                self.lazy = True
        elif isinstance(node, ast.Call):
            self._functions.add(id(node.func))
            self._taker(node)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self._import(node)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            self._define(node)
        else:
            self._other(node)

    def _other(self, node: ast.AST) -> None:
        if isinstance(node, ast.arg):
            self._bind(node.arg)
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            self._bind(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            self._bind(node.rest)
        elif isinstance(node, (ast.Yield, ast.YieldFrom)):
            self._gives = True

    def _bind(self, name: str) -> None:
        self.bound.add(name)
        self.rebound.add(name)

    def _define(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        self.bound.add(node.name)
        self.mentioned.add(node.name)
        # `@cache def f` binds what the decorator gives, which is no function of the program.
        (self.rebound if node.decorator_list else self.defined).add(node.name)
        if not isinstance(node, ast.ClassDef):
            self._defined.append(node)
            return
        for part in node.body:
            if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)):
                names = {getattr(decorator, "id", "?") for decorator in part.decorator_list}
                (self.methods if names <= _PLAIN_DECORATORS else self.stored).add(part.name)

    def ends_matter(self) -> bool:
        """Return whether a generator has something to do when it is dropped."""
        return self._gives and any(map(_waits_with_care, self._defined))

    def own_methods(self) -> frozenset[str]:
        """Return the names of methods that can only be methods of the program's classes."""
        if self.mentioned & _MAKES_ATTRIBUTES or not self.imports <= _PLAIN_MODULES:
            return frozenset()
        return frozenset(self.methods - self.stored - self.rebound - _LIBRARY_ATTRIBUTES)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            self._bind(alias.asname or alias.name.partition(".")[0])
            self.mentioned.update(alias.name.split("."))
            if isinstance(node, ast.Import):
                self.imports.add(alias.name.partition(".")[0])
        if isinstance(node, ast.ImportFrom) and node.module:
            self.imports.add(node.module.partition(".")[0])
            self.mentioned.update(node.module.split("."))

    def _taker(self, node: ast.Call) -> None:
        """Note a function that is handed on by its name, to be called later: it may be one that mutates."""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        # `iter(stack.pop, None)` calls its function for each item of the loop.
        if name == "iter" and len(node.args) == 2:
            self.lazy = True
        if name in _TAKERS and node.args and isinstance(node.args[0], ast.Name) and node.args[0].id in _MUTATORS:
            self.lazy = True


def _waits_with_care(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a generator has a `finally` or `with`, which runs at the very moment at which it is dropped."""
    parts = list(walk(node))
    if not any(isinstance(part, (ast.Yield, ast.YieldFrom)) for part in parts):
        return False
    return any(isinstance(part, (ast.With, ast.AsyncWith)) or _cleans_up(part) for part in parts)


def _cleans_up(node: ast.AST) -> bool:
    if not isinstance(node, ast.Try):
        return False
    # A generator that is dropped is closed: GeneratorExit comes up at its `yield`.
    names = {getattr(handler.type, "id", "") for handler in node.handlers}
    return bool(node.finalbody or names & {"", "GeneratorExit", "BaseException"})
