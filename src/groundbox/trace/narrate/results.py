"""Which call in the text of a statement led to which activation."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from groundbox.trace.narrate.evaluation import Results, position
from groundbox.trace.run.structure import Activation, Step

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)


def results_of(step: Step, generators: frozenset[int]) -> Results:
    """What the calls in a step's own text returned, as far as text and activations fit one to one.

    Args:
        generators: Frames of generators, whose calls return no value of their own.
    """
    if not step.calls:
        return {}
    found: Results = {}
    nodes = list(_calls(expressions_of(step)))
    for name in {callee(node) for node in nodes}:
        same = [node for node in nodes if callee(node) == name]
        called = [activation for activation in step.calls if _name(activation) == name]
        if len(same) == len(called):
            for node, activation in zip(same, called, strict=True):
                if activation.outcome == "return" and activation.frame not in generators:
                    found[position(node)] = activation.value
    return found


def expressions_of(step: Step) -> Sequence[ast.AST]:
    """The parts of a statement that this step runs."""
    match step.statement:
        case ast.If(test=test) | ast.While(test=test):
            return [test]
        case ast.For(iter=items) | ast.AsyncFor(iter=items):
            return [items]
        case ast.With(items=managers) | ast.AsyncWith(items=managers):
            return [manager.context_expr for manager in managers]
        case ast.Match(subject=subject):
            return [subject] if step.part == "subject" else []
        case None | ast.Try() | ast.FunctionDef() | ast.ClassDef() | ast.AsyncFunctionDef():
            return []
    return [step.statement]


def callee(node: ast.Call) -> str:
    """The last part of the called name; empty where there is none."""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _name(activation: Activation) -> str:
    return activation.name.rpartition(".")[2]


def _calls(nodes: Sequence[ast.AST]) -> Iterator[ast.Call]:
    """Calls in the order in which they are made, those in comprehensions left out."""
    for node in nodes:
        if isinstance(node, _COMPREHENSIONS):
            continue
        yield from _calls(list(ast.iter_child_nodes(node)))
        if isinstance(node, ast.Call):
            yield node
