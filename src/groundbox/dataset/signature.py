"""Signatures of programs: see without running whether an input can be given to one at all."""

from __future__ import annotations

import ast
import functools
import inspect
from typing import Final

from groundbox.dataset.problem import Case, Problem
from groundbox.values.parsing import module_of

SYNTAX_ERRORS: Final = frozenset({"SyntaxError", "IndentationError", "TabError"})


def parses(source: str) -> bool:
    """Tell whether this interpreter reads the source. A newer one of a guest may read more."""
    return tree_of(source) is not None


# Asked for each case and each guess of the same few problems.
@functools.lru_cache(maxsize=64)
def tree_of(source: str) -> ast.Module | None:
    """The syntax tree, or None where this interpreter cannot read the source."""
    try:
        return module_of(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def entry_of(problem: Problem) -> ast.FunctionDef | None:
    """The plain function that a problem's entry names, or None when it is something else."""
    tree = tree_of(problem.source)
    nodes = [] if tree is None else [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == problem.entry]
    # The last definition of a name is the one that holds.
    return nodes[-1] if nodes else None


def misfit(problem: Problem, case: Case) -> tuple[str, str] | None:
    """Why the input does not fit the entry, as a reason and its detail; None when it fits or cannot be told."""
    tree = tree_of(problem.source)
    if problem.entry is None or tree is None:
        return None
    if not _may_define(tree, problem.entry):
        return "no-entry", f"nothing in the program is called {problem.entry}"
    node = entry_of(problem)
    # A decorator may take any arguments.
    if node is None or node.decorator_list:
        return None
    try:
        _signature(node).bind(*case.args, **case.kwargs)
    except TypeError as error:
        return "input-does-not-fit", f"{problem.entry}({case.text()[:200]}): {error}"
    except ValueError:  # two parameters of one name, which the parser takes and the compiler does not
        return None
    return None


def _may_define(tree: ast.Module, name: str) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name:
            return True
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store):
            return True
        # `from solution import *` may define anything.
        if isinstance(node, ast.alias) and (node.asname or node.name) in (name, "*"):
            return True
    return False


def defaults_of(node: ast.FunctionDef) -> dict[str, ast.expr]:
    """The defaults of a function's parameters, by name."""
    given = node.args
    positional = [*given.posonlyargs, *given.args]
    late = positional[len(positional) - len(given.defaults) :]
    pairs = [*zip(late, given.defaults, strict=True), *zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    return {each.arg: default for each, default in pairs if default is not None}


def _signature(node: ast.FunctionDef) -> inspect.Signature:
    """The signature of a function that was never made; None stands for each default."""
    kind, given, defaults = inspect.Parameter, node.args, defaults_of(node)
    groups = (
        (given.posonlyargs, kind.POSITIONAL_ONLY),
        (given.args, kind.POSITIONAL_OR_KEYWORD),
        ([given.vararg], kind.VAR_POSITIONAL),
        (given.kwonlyargs, kind.KEYWORD_ONLY),
        ([given.kwarg], kind.VAR_KEYWORD),
    )
    return inspect.Signature(
        [
            kind(each.arg, how, default=None if each.arg in defaults else kind.empty)
            for parameters, how in groups
            for each in parameters
            if each is not None
        ]
    )
