"""Where a function is called with these arguments."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from groundbox.trace.proof.claims import Called, Kept, Returned
from groundbox.trace.proof.moments.hit import Hit
from groundbox.trace.proof.moments.search import Search
from groundbox.trace.proof.records.scene import is_called
from groundbox.trace.proof.values.bounds import Unknowable
from groundbox.trace.proof.values.likeness import is_gap, said_value, same
from groundbox.trace.structure import Activation


def called(search: Search, claim: Called, low: int, now: int, after: int) -> Hit | None:
    """The function begins with these arguments."""
    for activation in search.ledger.course.activations:
        if (
            activation.first >= low
            and activation.first > after
            and is_called(activation, claim.function)
            and is_given(search, claim, activation)
        ):
            return Hit(activation.first, activation.first)
    return None


def is_given(search: Search, claim: Called | Kept | Returned, activation: Activation) -> bool:
    """Whether the arguments are those of an activation."""
    if claim.arguments is None:
        return True
    search.ledger.spend()
    params = [name for name in activation.args if not (name in ("self", "cls") and next(iter(activation.args)) == name)]
    count = len([name for name, _ in claim.arguments if name is None])
    spread = search.spread.get(activation.short_name.rpartition(".")[2])
    if count == len(activation.args):
        return _are_given(
            search, claim, activation, list(activation.args), spread
        )  # `Node.show(node)`, with its object
    if spread is None and count > len(params) and (claim.whole if isinstance(claim, Called) else True):
        return False
    with_object = spread is not None and _are_given(search, claim, activation, list(activation.args), spread)
    return with_object or _are_given(search, claim, activation, params, spread)


def _are_given(
    search: Search, claim: Called | Kept | Returned, activation: Activation, params: list[str], spread: str | None
) -> bool:
    """Whether the arguments have these parameters' values."""
    positional = iter(params)
    for name, node in _gathered(claim.arguments or (), params, spread):
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


def _gathered(
    given: Sequence[tuple[str | None, ast.expr]], params: Sequence[str], spread: str | None
) -> Sequence[tuple[str | None, ast.expr]]:
    """The arguments by parameter: those that come to `*args` are one tuple."""
    if spread is None or spread not in params:
        return given
    at = params.index(spread)
    values = [node for name, node in given if name is None]
    rest = [] if len(values) <= at else [(spread, ast.Tuple(values[at:], ast.Load()))]
    return [*((None, node) for node in values[:at]), *rest, *((name, node) for name, node in given if name is not None)]
