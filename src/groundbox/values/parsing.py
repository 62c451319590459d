"""Reading other people's Python without repeating what the interpreter has against it.

CPython warns on stderr of escapes in strings such as `"\\d"`, and of numbers that run into words, whenever it reads
such a source; a program's own run says so already. `warnings.catch_warnings` would keep that off, but it sets the
filters of the whole process and puts back what it found, so that two threads in it at once can leave the process
without any. Here one filter stands in front of the others, and is put there again where somebody has taken it away. It
silences what is said of sources that are called FILENAME, and nothing else.
"""

from __future__ import annotations

import ast
import re
import symtable
import warnings
from typing import Final

FILENAME: Final = "<source>"
"""As messages of a SyntaxError call what was read here."""
_PATTERN: Final = re.escape(FILENAME) + r"\Z"


def module_of(source: str | bytes) -> ast.Module:
    """The tree of a program.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: As `ast.parse`.
    """
    _be_quiet()
    return ast.parse(source, FILENAME)


def expression_of(source: str) -> ast.expr:
    """The tree of an expression.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: As `ast.parse`.
    """
    _be_quiet()
    return ast.parse(source, FILENAME, "eval").body


def symbols_of(source: str) -> symtable.SymbolTable:
    """The symbol table of a program.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: As `symtable.symtable`.
    """
    _be_quiet()
    return symtable.symtable(source, FILENAME, "exec")


def _be_quiet() -> None:
    """Put our filter in front. Where another thread takes it away before the source is read, a warning is shown."""
    first = warnings.filters[0] if warnings.filters else None
    pattern = None if first is None else first[3]
    if first is None or first[0] != "ignore" or getattr(pattern, "pattern", pattern) != _PATTERN:
        warnings.filterwarnings("ignore", module=_PATTERN)
