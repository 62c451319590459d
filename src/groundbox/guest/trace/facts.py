"""Facts about a source as a whole: which names it shadows, whether it is lazy, whether ends of objects matter.

A source is *lazy* if it hands mutating methods or functions to others by name (`map(stack.append, xs)`), or mentions
`methodcaller`: then calls of pure builtins and `for` headers may change anything. Ends of objects matter if it
mentions `__del__`, `weakref`, `gc`, `getrefcount`, files, sockets or temporary files, or has a generator that cleans
up (`finally`, `with`): then the tracer keeps none of its objects alive.
"""

from __future__ import annotations

import ast
from collections import ChainMap, Counter, OrderedDict, defaultdict, deque
from typing import Any, NamedTuple

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
    nodes: defaultdict[type, list[Any]] = defaultdict(list)
    for node in walk(tree):
        nodes[type(node)].append(node)
    names, attributes, calls = nodes[ast.Name], nodes[ast.Attribute], nodes[ast.Call]
    functions = nodes[ast.FunctionDef] + nodes[ast.AsyncFunctionDef]
    definitions = functions + nodes[ast.ClassDef]
    aliases = [alias for node in nodes[ast.Import] + nodes[ast.ImportFrom] for alias in node.names]
    modules = [alias.name for node in nodes[ast.Import] for alias in node.names]
    modules += [node.module for node in nodes[ast.ImportFrom] if node.module]
    imports = {module.partition(".")[0] for module in modules}
    mentioned = {node.id for node in names} | {node.attr for node in attributes} | {node.name for node in definitions}
    mentioned.update(part for text in (*modules, *(alias.name for alias in aliases)) for part in text.split("."))
    # Bound by anything but a plain definition: `@cache def f` binds what the decorator gives, which is no function of
    # the program.
    rebound = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
    rebound.update(node.arg for node in nodes[ast.arg])
    rebound.update(node.name for node in definitions if node.decorator_list)
    rebound.update(alias.asname or alias.name.partition(".")[0] for alias in aliases)
    named = nodes[ast.ExceptHandler] + nodes[ast.MatchAs] + nodes[ast.MatchStar]
    rebound.update(node.name for node in named if node.name)
    rebound.update(node.rest for node in nodes[ast.MatchMapping] if node.rest)
    defined = {node.name for node in definitions}
    # Reading `counts[key]` of a defaultdict makes the pair; a cached property becomes an attribute when it is read.
    reads = {"item"} if mentioned & {"defaultdict", "__missing__"} else set()
    if "cached_property" in mentioned:
        reads.add("attribute")
    everything = "*" in rebound
    ends_matter = bool(nodes[ast.Yield] or nodes[ast.YieldFrom]) and any(map(_waits_with_care, functions))
    return Facts(
        shadowed=frozenset(rebound | defined),
        lazy=everything or "methodcaller" in mentioned or _hands_on(attributes, calls),
        reads_change=frozenset(reads),
        holds=not (mentioned & _FINALIZED or ends_matter),
        imports=frozenset(imports),
        functions=frozenset() if everything else frozenset(defined - rebound),
        methods=(
            frozenset()
            if mentioned & _MAKES_ATTRIBUTES or not imports <= _PLAIN_MODULES
            else frozenset(_own_methods(nodes[ast.ClassDef], attributes) - rebound - _LIBRARY_ATTRIBUTES)
        ),
    )


def _hands_on(attributes: list[ast.Attribute], calls: list[ast.Call]) -> bool:
    """Return whether a function that mutates may be handed on by its name, to be called later."""
    # `xs.append` of `xs.append(1)` is handed to nobody.
    called = {id(call.func) for call in calls}
    return any(map(_takes_mutator, calls)) or any(
        node.attr in _MUTATORS and isinstance(node.ctx, ast.Load) and id(node) not in called for node in attributes
    )


def _takes_mutator(node: ast.Call) -> bool:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    # `iter(stack.pop, None)` calls its function for each item of the loop.
    if name == "iter" and len(node.args) == 2:
        return True
    return name in _TAKERS and bool(node.args) and getattr(node.args[0], "id", "") in _MUTATORS


def _own_methods(classes: list[ast.ClassDef], attributes: list[ast.Attribute]) -> set[str]:
    """Return the names of methods that classes define, and that no attribute has which is stored or decorated."""
    stored = {node.attr for node in attributes if not isinstance(node.ctx, ast.Load)}
    methods: set[str] = set()
    for part in (part for node in classes for part in node.body):
        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)):
            decorators = {getattr(decorator, "id", "?") for decorator in part.decorator_list}
            (methods if decorators <= _PLAIN_DECORATORS else stored).add(part.name)
    return methods - stored


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
