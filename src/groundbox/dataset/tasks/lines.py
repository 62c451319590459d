"""The statements of a program by line: which lines can be asked about without a doubt about what is meant."""

from __future__ import annotations

import ast
from collections import Counter

from groundbox.dataset import signature
from groundbox.trace.record.syntax import lines_of


class Lines:
    """A line is plain when it holds one statement, or the head of one, and nothing of it stands on another line.

    Such a line is come to once for each time that its statement runs.
    """

    def __init__(self, source: str) -> None:
        tree = signature.tree_of(source)
        self._texts = lines_of(source)
        self._statements: dict[int, ast.stmt] = {}
        self._functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
        if tree is not None:
            self._read(tree)

    def is_plain(self, line: int) -> bool:
        """Whether the line can be asked about."""
        return line in self._statements

    def statement(self, line: int) -> ast.stmt | None:
        """The statement of a plain line."""
        return self._statements.get(line)

    def text(self, line: int) -> str:
        """The line without its indentation."""
        return self._texts[line - 1].strip() if 0 < line <= len(self._texts) else ""

    @property
    def functions(self) -> list[str]:
        """Names of all functions."""
        return sorted({each.name for each in self._functions})

    def function_at(self, line: int) -> str:
        """Name of the innermost function that a line stands in, or ""."""
        around = [each for each in self._functions if each.lineno <= line <= (each.end_lineno or each.lineno)]
        return max(around, key=lambda each: each.lineno).name if around else ""

    def plain_in(self, function: str) -> list[int]:
        """The plain lines of a function's body that say something when they run."""
        return [
            line
            for line, statement in sorted(self._statements.items())
            if self.function_at(line) == function
            and not isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.Global | ast.Nonlocal | ast.Pass)
            and not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        ]

    def _read(self, tree: ast.Module) -> None:
        statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
        self._functions = [each for each in statements if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
        begun = Counter(each.lineno for each in statements)
        for each in statements:
            if begun[each.lineno] == 1 and _head_end(each) == each.lineno:
                self._statements[each.lineno] = each


def _head_end(statement: ast.stmt) -> int:
    """The last line of a statement, or of what stands before its body; 0 for one that comes to its line twice."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and statement.decorator_list:
        return 0  # it runs on the lines of its decorators, too
    inside = {id(node) for child in _blocks(statement) for node in ast.walk(child)}
    head = [node for node in ast.walk(statement) if node is not statement and id(node) not in inside]
    if any(isinstance(node, ast.GeneratorExp | ast.Lambda) for node in head):
        return 0  # their code comes to the line, too
    own = (statement.end_lineno or 0) if not inside else 0
    return max([statement.lineno, own, *(getattr(node, "end_lineno", None) or 0 for node in head)])


def _blocks(statement: ast.stmt) -> list[ast.AST]:
    fields = (getattr(statement, name, []) for name in ("body", "orelse", "finalbody", "handlers", "cases"))
    return [child for block in fields for child in block]
