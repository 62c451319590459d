"""How much is looked at: steps, counted and not timed, so that one program is always looked at alike.

A step is a node of the tree that is looked at, once for each time; an expression that a name stands for; a binding, and
each condition that it stands under. Whatever a program holds, reading it takes time in proportion to them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

MOST_STEPS: Final = 500_000
"""A program of 50,000 characters, as people write them, takes less than a fifth of it."""


class Exhausted(Exception):
    """There are no steps left."""


class Steps:
    """
    Attributes:
        taken: Never more than `most`.
    """

    def __init__(self, most: int = MOST_STEPS) -> None:
        self.taken, self._most = 0, most

    def take(self, count: int = 1) -> None:
        """Count steps before they are made.

        Raises:
            Exhausted: They are more than are left.
        """
        if self.taken + count > self._most:
            raise Exhausted
        self.taken += count

    def walk(self, root: ast.AST) -> Iterator[ast.AST]:
        """Every node under `root`, as `ast.walk` has them."""
        for node in ast.walk(root):
            self.take()
            yield node
