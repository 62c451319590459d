"""Where a function is called with these arguments."""

from __future__ import annotations

import ast
import bisect
import itertools

from groundbox.trace.proof.claims import Called, Kept, Returned
from groundbox.trace.proof.moments.hit import Hit
from groundbox.trace.proof.moments.search import Search
from groundbox.trace.proof.values.bounds import Unknowable
from groundbox.trace.proof.values.likeness import is_gap, said_value, same
from groundbox.trace.structure import Activation


def called(search: Search, claim: Called, low: int, now: int, after: int) -> Hit | None:
    """The function begins with these arguments."""
    calls = search.ledger.calls.of(claim.function)
    for activation in itertools.islice(calls, bisect.bisect_left(calls, low, key=lambda each: each.first), None):
        if activation.first > after and is_given(search, claim, activation):
            return Hit(activation.first, activation.first)
    return None


def is_given(search: Search, claim: Called | Kept | Returned, activation: Activation) -> bool:
    """Whether the arguments are those of an activation."""
    if claim.arguments is None:
        return True
    search.ledger.spend()
    params = [name for name in activation.args if not (name in ("self", "cls") and next(iter(activation.args)) == name)]
    if len([name for name, _ in claim.arguments if name is None]) == len(activation.args):
        params = list(activation.args)  # a method called with its object, as `Node.show(node)`
    if isinstance(claim, Called) and not claim.whole:
        pass
    elif len([name for name, _ in claim.arguments if name is None]) > len(params):
        return False
    positional = iter(params)
    for name, node in claim.arguments:
        key = name if name is not None else next(positional, None)
        if key is None or key not in activation.args:
            return False
        actual = search.ledger.memory.read(activation.args[key], activation.first)
        if (isinstance(node, ast.Name) and node.id == key) or is_gap(node):
            continue  # `f(graph, 1)`, where the value is too long to be shown
        known, said = said_value(node)
        try:
            value = said if known else search.ledger.value(node, activation.first - 1)
        except Unknowable:
            continue
        if not same(value, actual):
            return False
    return True
