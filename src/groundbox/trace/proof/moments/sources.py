"""What the program's loops go through, as its code has it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from groundbox.trace.proof.claims import Looped
from groundbox.trace.proof.moments.hit import Hit, Uncheckable
from groundbox.trace.proof.moments.search import Search
from groundbox.trace.proof.values.code import names_in

_VIEWS: Final = frozenset({"items", "keys", "values"})


def looped(search: Search, claim: Looped, low: int, now: int, after: int) -> Hit | None:
    """Some loop gives items of the source to the target; where it may, but is written otherwise, that is enough."""
    if claim.begin is not None:
        return _begins_with(search, claim, now)
    tree = search.ledger.structure.syntax.tree
    loops = list(_loops(tree)) if tree is not None else []
    if not loops:
        raise Uncheckable("the program's code has no loop")
    fits = _takes(claim, tree, loops) and not _is_of_another(claim, loops) and not _is_another_view(claim.source, loops)
    return Hit(now, -1) if fits else None


def _loops(tree: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The target and the iterable of each loop, those of comprehensions included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            yield node.target, node.iter


def _takes(claim: Looped, tree: ast.AST | None, loops: list[tuple[ast.expr, ast.expr]]) -> bool:
    """Whether the target is one of a loop, or is assigned something of the source, as in `x = stack.pop()`."""
    if claim.target is None or tree is None or claim.source is None:
        return True
    wanted, source = _names(claim.target), _names(claim.source)
    if any(wanted <= _names(target) for target, _ in loops):
        return True
    assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr)]
    targets = [(node.targets if isinstance(node, ast.Assign) else [node.target], node.value) for node in assigned]
    return any(
        value is not None and source & _names(value) and any(wanted <= _names(target) for target in some)
        for some, value in targets
    )


def _is_of_another(claim: Looped, loops: list[tuple[ast.expr, ast.expr]]) -> bool:
    """Whether exactly this call is what a loop with other names goes through, and none with these."""
    if claim.target is None or not isinstance(claim.source, ast.Call):
        return False
    code, wanted = ast.dump(claim.source), _names(claim.target)
    having = [_names(target) for target, iterable in loops if ast.dump(iterable) == code]
    return bool(having) and not any(wanted & names for names in having)


def _is_another_view(source: ast.expr | None, loops: list[tuple[ast.expr, ast.expr]]) -> bool:
    """Whether it is `d.keys()`, where the program goes through `d.items()` only."""
    view = _view(source)
    if view is None:
        return False
    owners = [ast.dump(iterable) for _, iterable in loops]
    views = [found for _, iterable in loops if (found := _view(iterable)) is not None and found[0] == view[0]]
    return bool(views) and view not in views and view[0] not in owners


def _view(node: ast.expr | None) -> tuple[str, str] | None:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in _VIEWS:
        return None
    return ast.dump(node.func.value), node.func.attr


def _names(node: ast.expr) -> set[str]:
    return set(names_in(node)) | {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}


def _begins_with(search: Search, claim: Looped, now: int) -> Hit | None:
    """Some `for` gives the target this value first."""
    assert isinstance(claim.target, ast.Name)
    name = claim.target.id
    runs = [
        run for run in search.ledger.course.loops
        if isinstance(run.loop.statement, ast.For) and getattr(run.loop.statement.target, "id", None) == name
    ]  # fmt: skip
    entries = search.ledger.histories.of(claim.target)
    firsts = [next((each for each in entries if run.start <= each.t <= run.end), None) for run in runs]
    if any(each is not None and each.new == claim.begin for each in firsts):
        return Hit(now, -1)
    if not runs or None in firsts:
        raise Uncheckable("no such loop runs, or its first items are left out")
    return None
