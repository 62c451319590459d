"""The event loop of cells, which all of them share.

A cell that awaits outside a function runs in the loop from its first statement on, as in a notebook: what it starts
before the `await` belongs to the loop that the `await` waits for. So does a cell that makes a task. Other cells run
outside, so that `asyncio.run` works in them, which refuses to run inside of a loop.
"""

from __future__ import annotations

import ast
import contextlib
import re
import sys
import warnings
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import asyncio

_NEED_A_LOOP: Final = frozenset(
    {
        "create_task",
        "current_task",
        "ensure_future",
        "gather",
        "get_running_loop",
        "shield",
        "all_tasks",
        "as_completed",
    }
)
_MENTIONED: Final = re.compile("|".join(sorted(_NEED_A_LOOP)))
_RUNS_ONE: Final = re.compile(
    r"\b(?:asyncio|anyio|uvloop|trio|curio)\.(?:run|Runner)\(|(?<![\w.])(?:run|Runner)\("
    r"|\brun_(?:until_complete|forever)\b|\bget_ipython\(|\bnest_asyncio\b"
)
"""A cell that runs a loop itself, or hands text to a magic that may."""
_NOTHING: Final = object()


def belongs_in_loop(tree: ast.Module | str, text: str, *, awaits: bool) -> bool:
    """Return whether all of a cell is to run in the loop.

    Args:
        tree: The cell; a text if it is one expression.
        awaits: Whether it awaits outside a function.
    """
    if not awaits and not _MENTIONED.search(text):
        return False
    if _RUNS_ONE.search(text):
        return False
    return awaits or any(map(_needs_a_loop, _outside_functions(ast.parse(tree) if isinstance(tree, str) else tree)))


def _outside_functions(tree: ast.AST) -> list[ast.AST]:
    found: list[ast.AST] = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        found.append(node)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))
    return found


def _needs_a_loop(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    match node.func:
        case ast.Attribute(value=ast.Name(id="asyncio"), attr=name) | ast.Name(id=name):
            return name in _NEED_A_LOOP
    return False


class CellLoop:
    """The loop of one sandbox, made at the first cell that needs it."""

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine, and return its result. Context variables that it sets keep their values for later cells."""
        import contextvars

        loop, context = self._loop(), contextvars.copy_context()
        task = loop.create_task(work, context=context)
        try:
            return loop.run_until_complete(task)
        except BaseException:
            if not task.done():  # interrupted while it waited
                _cancel(loop, task)
            raise
        finally:
            now = contextvars.copy_context()
            for variable, value in context.items():
                if now.get(variable, _NOTHING) is not value:
                    variable.set(value)

    def be_current(self) -> None:
        """Be what `asyncio.get_event_loop` returns, also after an `asyncio.run`, which takes it away."""
        if self._runner is not None:
            sys.modules["asyncio"].set_event_loop(self._runner.get_loop())

    def close(self) -> None:
        """Close the loop, unless something waits in it; the next cell that needs one gets a new one."""
        runner = self._runner
        if runner is None or sys.modules["asyncio"].all_tasks(runner.get_loop()):
            return
        self._runner = None
        sys.modules["asyncio"].set_event_loop(None)
        runner.close()

    def _loop(self) -> asyncio.AbstractEventLoop:
        import asyncio  # pulls in ssl: 20 mappings that every fork of a small template would copy

        if self._runner is None or self._runner.get_loop().is_closed():
            self._runner = asyncio.Runner(loop_factory=lambda: _current_loop(asyncio))
        loop = self._runner.get_loop()
        asyncio.set_event_loop(loop)
        return loop


def _current_loop(asyncio: Any) -> Any:
    """Return the loop that the program has asked for already, or a new one."""
    try:
        with warnings.catch_warnings(action="ignore"):
            loop = asyncio.get_event_loop()
    except RuntimeError:
        return asyncio.new_event_loop()
    return asyncio.new_event_loop() if loop.is_closed() else loop


def _cancel(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> None:
    task.cancel()
    with contextlib.suppress(BaseException):
        loop.run_until_complete(task)
