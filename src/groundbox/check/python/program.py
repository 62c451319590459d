"""A program as the rules look at it: its tree, its flow, and what its run showed."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from groundbox.check.python.flow import Flow, flow_of
from groundbox.check.python.steps import Steps
from groundbox.execution import Execution
from groundbox.values.parsing import module_of

MOST_SOURCE_CHARS: Final = 50_000
MOST_TEXT_CHARS: Final = 200_000
_MAGIC: Final = re.compile(r"^([ \t]*)[%!](?!=).*$", re.MULTILINE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """What a rule found; its tier is added from the table."""

    code: str
    message: str
    line: int | None = None
    names: tuple[str, ...] = ()
    hint: str = ""
    more: Mapping[str, Any] = dataclasses.field(default_factory=dict)


class Program:
    """
    Attributes:
        steps: What looking at it takes is counted here.
        nodes: Every node of the tree.
        outgoing: Ids of the nodes that something shown depends on.
    """

    def __init__(self, source: str, tree: ast.Module, execution: Execution, *, steps: Steps | None = None) -> None:
        """Args:
        steps: By default as many as there are.

        Raises:
            Exhausted: It takes more.
            RecursionError: It is nested deeper than anybody writes.
        """
        self.steps = steps or Steps()
        self.source, self.tree, self.execution = source, tree, execution
        self.flow: Flow = flow_of(tree, cell=execution.value is not None, steps=self.steps)
        if self.flow.is_cut:
            raise RecursionError
        self.nodes = list(self.steps.walk(tree))
        self.outgoing = {id(node) for node in self.flow.outgoing()}

    def calls(self) -> Iterator[tuple[ast.Call, str]]:
        """Every call, with the dotted name of what is called."""
        for node in self.nodes:
            if isinstance(node, ast.Call):
                self.steps.take()
                yield node, self.flow.origin(node.func)

    def output(self) -> str:
        """What was printed, and the value, as text; the beginning and the end of much."""
        text = f"{self.execution.stdout}\n{self.execution.text or ''}"
        return text if len(text) <= MOST_TEXT_CHARS else text[: MOST_TEXT_CHARS // 2] + text[-MOST_TEXT_CHARS // 2 :]


def parsed(source: str) -> ast.Module | None:
    """The tree of a program, lines for the shell left out; None when it is no Python, or very large."""
    if len(source) > MOST_SOURCE_CHARS:
        return None
    return _tree(source) or _tree(_MAGIC.sub(r"\1pass", source))


def _tree(text: str) -> ast.Module | None:
    try:
        return module_of(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
