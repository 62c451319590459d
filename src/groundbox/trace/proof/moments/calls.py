"""Where a function is called with these arguments."""

from __future__ import annotations

import ast
import bisect
import itertools
from collections.abc import Sequence
from typing import Any

from groundbox.trace.proof.claims import BackIn, Called, Claim, Kept, Returned, Unwound
from groundbox.trace.proof.moments.hit import Hit, Uncheckable
from groundbox.trace.proof.moments.loops import begin_of
from groundbox.trace.proof.moments.search import Search
from groundbox.trace.proof.records.scene import is_called
from groundbox.trace.proof.values.bounds import Unknowable
from groundbox.trace.proof.values.likeness import is_gap, said_value, same
from groundbox.trace.structure import Activation


def called(search: Search, claim: Called, low: int, now: int, after: int) -> Hit | None:
    """The function begins with these arguments."""
    calls = search.ledger.calls.of(claim.function)
    for activation in itertools.islice(calls, bisect.bisect_left(calls, low, key=lambda each: each.first), None):
        if activation.first <= after or not is_given(search, claim, activation):
            continue
        if _is_by(search, claim, activation) and _has_turn(search, claim, activation):
            return Hit(activation.first, activation.first)
    if claim.turn is not None and search.ledger.folds:
        raise Uncheckable("a part of the run is left out")
    return None


def _has_turn(search: Search, claim: Called, activation: Activation) -> bool:
    """Whether it is the call of that number: in the run, a call, loop or iteration, or of those so given."""
    if claim.turn is None:
        return True
    begun = [each for each in search.ledger.calls.of(claim.function) if each.first <= activation.first]
    search.ledger.spend(len(begun))
    starts, above = [0], search.ledger.structure.activations.get(activation.parent)
    while above is not None:
        starts.append(above.first)
        above = search.ledger.structure.activations.get(above.parent)
    for run in search.ledger.course.loops:
        if run.start <= activation.first <= run.end:
            begins = [begin_of(run, each.number) or run.start for each in run.loop.iterations]
            starts += [run.start, max((t for t in begins if t <= activation.first), default=run.start)]
    so_given = [each for each in begun if is_given(search, claim, each)]
    return any(
        len([each for each in some if each.first >= t]) == claim.turn for some in (begun, so_given) for t in starts
    )


def _is_by(search: Search, claim: Called, activation: Activation) -> bool:
    """Whether one of the calls in which it is called is of the function that the text names."""
    above = search.ledger.structure.activations.get(activation.parent)
    while claim.by is not None and above is not None and not is_called(above, claim.by):
        above = search.ledger.structure.activations.get(above.parent)
    return claim.by is None or above is not None


def back_in(search: Search, claim: BackIn, low: int, now: int, after: int) -> Hit | None:
    """Such a call, which had begun before, goes on, now or as soon as it does."""
    meant = {each.frame for each in search.ledger.calls.of(claim.function) if is_given(search, claim, each)}
    frames = search.ledger.frames
    begin = bisect.bisect_right(frames.switches, now)
    for t in (now, *itertools.islice(frames.switches, begin, None)):
        search.ledger.spend()
        activation = search.ledger.structure.activations.get(frames.running(t))
        if activation is not None and activation.frame in meant and activation.first <= now:
            return Hit(t, -1)
    return None


def is_timeless(claim: Claim) -> bool:
    """A call with its arguments gives its result whenever one speaks of it; `f runs with n = 3` says that it begins."""
    if isinstance(claim, Called) and any(name is not None for name, _ in claim.arguments or ()):
        return False
    return isinstance(claim, Returned | Called) and bool(claim.arguments)


def is_given(search: Search, claim: BackIn | Called | Kept | Returned | Unwound, activation: Activation) -> bool:
    """Whether the arguments are those of an activation."""
    if claim.arguments is None:
        return True
    search.ledger.spend()
    params = [name for name in activation.args if not (name in ("self", "cls") and next(iter(activation.args)) == name)]
    whole = list(activation.args)  # with its object, as in `Node.show(node)`
    count = len([name for name, _ in claim.arguments if name is None])
    declared = search.parameters(activation)
    if declared is not None and declared.vararg is not None and declared.vararg.arg in params:
        by_name = {each.arg for each in (*declared.kwonlyargs, declared.kwarg) if each is not None}
        rows = [[name for name in row if name not in by_name] for row in (params, whole)]
        spread = any(_are_given(search, claim, activation, row, declared.vararg.arg) for row in rows)
        as_parameters = [row for row in (params, whole) if count > row.index(declared.vararg.arg) or not count]
        return spread or (
            bool(claim.arguments) and any(_are_given(search, claim, activation, row, None) for row in as_parameters)
        )
    if count == len(whole):
        return _are_given(search, claim, activation, whole, None)
    if count > len(params) and (not isinstance(claim, Called) or claim.whole):
        return False
    return _are_given(search, claim, activation, params, None)


def _are_given(
    search: Search,
    claim: BackIn | Called | Kept | Returned | Unwound,
    activation: Activation,
    params: list[str],
    spread: str | None,
) -> bool:
    """Whether the arguments have these parameters' values."""
    positional = iter(params)
    for name, node in _gathered(claim.arguments or (), params, spread):
        key = name if name is not None else next(positional, None)
        held = _held(search, activation, key)
        if key is None or held is None:
            return False
        if (isinstance(node, ast.Name) and node.id == key) or is_gap(node):
            continue  # `f(graph, 1)`, where the value is too long to be shown
        known, said = said_value(node)
        try:
            value = said if known else search.ledger.value(node, activation.first - 1)
        except Unknowable:
            continue
        if not same(value, held[0]):
            return False
    return True


def _held(search: Search, activation: Activation, key: str | None) -> tuple[Any] | None:
    """What a parameter was given, or `**options` by that name."""
    read = search.ledger.memory.read
    if key is not None and key in activation.args:
        return (read(activation.args[key], activation.first),)
    declared = search.parameters(activation)
    rest = activation.args.get(declared.kwarg.arg) if declared is not None and declared.kwarg is not None else None
    options = read(rest, activation.first)
    return (options[key],) if isinstance(options, dict) and key in options else None


def _gathered(
    given: Sequence[tuple[str | None, ast.expr]], params: Sequence[str], spread: str | None
) -> Sequence[tuple[str | None, ast.expr]]:
    """The arguments by parameter: those that come to `*args` are one tuple."""
    if spread is None or spread not in params:
        return given
    at = params.index(spread)
    values = [node for name, node in given if name is None]
    rest = [] if len(values) < at else [(spread, ast.Tuple(values[at:], ast.Load()))]
    return [*((None, node) for node in values[:at]), *rest, *((name, node) for name, node in given if name is not None)]
