"""The sources of cells: from text to code objects, kept for tracebacks and inspect.

A cell is parsed once. Its statements become one code object and its last
expression, if it has one, another, so that the value is had without touching
`sys.displayhook`. Text that Python cannot parse is given to `transform`
(IPython's, which knows `%`, `!` and `?`) and parsed again.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import linecache
import re
import sys
import types
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from .cell_loop import belongs_in_loop

_FUTURE_MASK: Final = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
_FIRST_CELL: Final = sys.intern("<cell 1>")
"""Compiling interns the name of the file: a write to three places of a table of megabytes, if it is not there yet."""
_COROUTINE: Final = 0x80  # inspect.CO_COROUTINE
_MODES: Final = {ast.Module: "exec", ast.Expression: "eval", ast.Interactive: "single"}
_AFTER_VALUE: Final = re.compile(r"(?:\s|\)|\\|#[^\n]*)*;")


class CellCode(NamedTuple):
    """One cell, compiled.

    Attributes:
        statements: Everything but the value, or None if the cell is one expression.
        value: The last expression, or None.
        shown: Whether the value is to be shown; a closing `;` says no.
        whole: The last expression stands with the statements and gives its value to `_`,
            because a tracer wants all of a cell as one module.
        in_loop: All of it runs in the event loop (cell_loop.py).
        singles: In place of `statements`, one for each of them, which gives the values of expressions to
            `sys.displayhook`, as at a prompt.
    """

    filename: str
    statements: types.CodeType | None
    value: types.CodeType | None
    shown: bool
    whole: bool = False
    in_loop: bool = False
    singles: tuple[types.CodeType, ...] = ()

    @property
    def parts(self) -> tuple[types.CodeType, ...]:
        """All code of the cell, in its order."""
        statements = self.singles or (self.statements,)
        return tuple(part for part in (*statements, self.value) if part is not None)


class Sources:
    """The cells of one sandbox, by file name, and the `__future__` flags they switched on."""

    def __init__(self) -> None:
        self.count = 0
        self.texts: dict[str, str] = {}
        self._flags = 0

    def __contains__(self, filename: object) -> bool:
        return filename in self.texts

    def compile(
        self,
        text: str,
        transform: Callable[[str], str] | None = None,
        *,
        whole: bool = False,
        shows: str = "last_expr",
    ) -> CellCode:
        """Compile the next cell.

        Args:
            shows: Which values it shows: `ast_node_interactivity` of IPython.

        Raises:
            SyntaxError: Also for what else the parser refuses, such as null bytes.
        """
        self.count += 1
        filename = f"<cell {self.count}>"
        self._keep(filename, text)
        if "\n" not in text and not whole and shows != "none":
            code = self._one_expression(text, filename)
            if code is not None:
                return code
        try:
            tree = self._parse(text, filename)
        except SyntaxError:
            changed = transform(text) if transform is not None else text
            if changed == text:
                raise
            if changed.count("\n") != text.count("\n"):
                self._keep(filename, changed)
            text = changed
            tree = self._parse(text, filename)
        looked_at = ast.Module(list(tree.body), [])
        code = self._joined(tree, text, filename) if whole else self._split(tree, text, filename, shows)
        awaits = any(part.co_flags & _COROUTINE for part in code.parts)
        return code._replace(in_loop=belongs_in_loop(looked_at, text, awaits=awaits))

    def restore_lines(self) -> None:
        """Put the cells' lines back where tracebacks look, should the program have cleared them."""
        for filename, text in self.texts.items():
            if filename not in linecache.cache:
                remember_lines(filename, text)

    def forget(self) -> None:
        """Drop all cells, as if none had run."""
        for filename in self.texts:
            linecache.cache.pop(filename, None)
        self.__init__()  # type: ignore[misc]

    def file_of_class(self, name: str) -> str | None:
        """The newest cell that defines the class `name`."""
        pattern = re.compile(rf"^\s*class\s+{re.escape(name)}\b", re.MULTILINE)
        for filename, text in reversed(self.texts.items()):
            if pattern.search(text):
                return filename
        return None

    def _one_expression(self, text: str, filename: str) -> CellCode | None:
        """A cell of one expression, without the detour over a tree, which costs a fork page faults."""
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | self._flags
        try:
            value = compile(text, filename, "eval", flags, dont_inherit=True)
        except (SyntaxError, ValueError):
            return None
        in_loop = belongs_in_loop(text, text, awaits=bool(value.co_flags & _COROUTINE))
        return CellCode(filename, None, value, True, in_loop=in_loop)

    def _keep(self, filename: str, text: str) -> None:
        self.texts[filename] = text
        remember_lines(filename, text)

    def _parse(self, text: str, filename: str) -> ast.Module:
        flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | self._flags
        try:
            tree = compile(text, filename, "exec", flags, dont_inherit=True)
        except (ValueError, UnicodeError) as refused:
            raise SyntaxError(str(refused), (filename, None, None, None)) from None
        assert isinstance(tree, ast.Module)
        return tree

    def _split(self, tree: ast.Module, text: str, filename: str, shows: str) -> CellCode:
        body = tree.body
        if shows == "last_expr_or_assign" and body and (target := _assigned(body[-1])) is not None:
            body.append(target)
        last = body[-1] if body else None
        if not isinstance(last, ast.Expr):
            singles = self._singles(body, filename, shows)
            return CellCode(filename, None if singles else self._code(tree, filename), None, False, singles=singles)
        body.pop()
        singles = self._singles(body, filename, shows)
        statements = self._code(tree, filename) if body and not singles else None
        value = self._code(ast.Expression(last.value), filename)
        shown = shows != "none" and not _is_silenced(text, last)
        return CellCode(filename, statements, value, shown, singles=singles)

    def _singles(self, body: list[ast.stmt], filename: str, shows: str) -> tuple[types.CodeType, ...]:
        if shows != "all":
            return ()
        return tuple(self._code(ast.Interactive([statement]), filename) for statement in body)

    def _joined(self, tree: ast.Module, text: str, filename: str) -> CellCode:
        last = tree.body[-1] if tree.body else None
        if not isinstance(last, ast.Expr):
            return CellCode(filename, self._code(tree, filename), None, False)
        shown = not _is_silenced(text, last)
        target = ast.copy_location(ast.Name("_", ast.Store()), last)
        tree.body[-1] = ast.copy_location(ast.Assign([target], last.value), last)
        return CellCode(filename, self._code(tree, filename), None, shown, whole=True)

    def _code(self, tree: ast.Module | ast.Expression | ast.Interactive, filename: str) -> types.CodeType:
        mode = _MODES[type(tree)]
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | self._flags
        code: types.CodeType = compile(tree, filename, mode, flags, dont_inherit=True)
        self._flags |= code.co_flags & _FUTURE_MASK
        return code


def _assigned(statement: ast.stmt) -> ast.Expr | None:
    """Return the name that a statement assigns to, as an expression."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]):
            pass
        case ast.AugAssign(target=ast.Name(id=name)) | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
            pass
        case _:
            return None
    return ast.fix_missing_locations(ast.copy_location(ast.Expr(ast.Name(name, ast.Load())), statement))


def remember_lines(filename: str, text: str) -> None:
    """Give tracebacks and `inspect` the lines of a source that is no file."""
    linecache.cache[filename] = (len(text), None, _lines(text), filename)


def _lines(text: str) -> list[str]:
    """As `linecache` reads a file: the last line ends, too. Python 3.11 places carets by it."""
    return [line if line.endswith("\n") else line + "\n" for line in text.splitlines(keepends=True)]


def _is_silenced(text: str, last: ast.Expr) -> bool:
    if ";" not in text:
        return False
    lines = text.splitlines(keepends=True)
    assert last.end_lineno is not None
    line = lines[last.end_lineno - 1].encode()[last.end_col_offset :].decode()
    return _AFTER_VALUE.match(line + "".join(lines[last.end_lineno :])) is not None


def teach_inspect(sources: Sources) -> None:
    """Let `inspect.getsource` find classes that a cell defined.

    It finds functions by their code object, but classes by the file of their module,
    and `__main__` has none.
    """
    find = inspect.getfile

    def getfile(object: Any) -> str:
        if isinstance(object, type) and object.__module__ == "__main__":
            filename = sources.file_of_class(object.__qualname__.rpartition(".")[2])
            if filename is not None:
                return filename
        return find(object)

    inspect.getfile = getfile
