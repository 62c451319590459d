"""Where a cell ends, of the lines that are typed or piped in.

A cell ends where Python's own prompt would end it: with a statement that is complete, after a blank line
where more lines could follow. A cell that starts with `%%`, and every cell of another language, ends with
a blank line; one of JavaScript not before its brackets are closed, one of SQL also with a semicolon at a line's end.
A blank line within a pasted block does not end it: the line after it is there already, and shows that it goes on.

A line such as `%undo` that a cell would begin with is none of any language: it is for the prompt itself.
"""

from __future__ import annotations

import ast
import codeop
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from groundbox.cli.prompt import Dropped, Lines

COMMANDS: Final = {
    "undo": "[N]",
    "checkpoint": "[NAME]",
    "checkpoints": "",
    "restore": "NAME",
    "drop": "NAME",
    "fork": "[NAME]",
    "switch": "NAME",
    "branches": "",
}
"""Lines that are for the prompt itself, after a `%`, to what each takes (states.py)."""

_LEAVE: Final = frozenset({"exit", "quit", "exit()", "quit()"})
_MOST_PARSED: Final = 64 * 1024
_WITHIN: Final = re.compile(r"\s|[)\]}]|(?:else|elif|except|finally)\b")
"""Begins a line that goes on with a block which a blank line came in."""
_NO_CODE: Final = re.compile(
    r"""//[^\n]*|/\*.*?\*/|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`""", re.DOTALL
)

_NO_SQL: Final = re.compile(r"""--[^\n]*|/\*.*?(?:\*/|\Z)|'(?:[^']|'')*(?:'|\Z)|"[^"]*(?:"|\Z)""", re.DOTALL)


class Command(NamedTuple):
    """A line for the prompt itself, and what it says after its name."""

    name: str
    argument: str


def command_in(text: str) -> Command | None:
    """The command that a text is; None for a cell."""
    name, *rest = text.split(maxsplit=1) or [""]
    if not name.startswith("%") or name[1:] not in COMMANDS or "\n" in text.strip():
        return None
    return Command(name[1:], rest[0].strip() if rest else "")


def cells(lines: Lines, language: str) -> Iterator[str]:
    """The cells that lines make up, and the prompt's commands between them."""
    begun: list[str] = []
    while True:
        try:
            begun.append(lines.read(bool(begun)))
        except Dropped:
            begun.clear()
            continue
        except EOFError:
            break
        text = "\n".join(begun)
        if not text.strip():
            begun.clear()
        elif len(begun) == 1 and command_in(text):
            begun.clear()
            yield text
        elif is_complete(text, language) and not _goes_on(text, lines):
            begun.clear()
            if text.strip() in _LEAVE:
                return
            yield text
    if begun:
        yield "\n".join(begun)


def _goes_on(text: str, lines: Lines) -> bool:
    """Whether the blank line at the end is one within a block: what comes next is there, and belongs to it."""
    if text.rpartition("\n")[2].strip():
        return False
    following = lines.peek()
    return following is not None and _WITHIN.match(following) is not None


def is_complete(text: str, language: str = "python") -> bool:
    """Whether a cell ends here. What cannot be parsed is complete: the guest says what is wrong with it."""
    ended = not text.rpartition("\n")[2].strip()
    if language == "javascript":
        return ended and not _has_open_brackets(text)
    if language == "sql" and _NO_SQL.sub(" ", text[:_MOST_PARSED]).rstrip().endswith(";"):
        return True
    if language != "python" or text.lstrip().startswith("%%") or len(text) > _MOST_PARSED:
        return ended
    compiler = codeop.Compile()
    compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _compiled(text, compiler) is not None
        except (SyntaxError, ValueError, OverflowError, MemoryError, RecursionError):
            return True


def _compiled(text: str, compiler: Callable[..., Any]) -> Any:
    command = codeop.CommandCompiler()
    command.compiler = compiler  # type: ignore[assignment]
    return command(text, "<cell>", "single")


def _has_open_brackets(text: str) -> bool:
    """Of a program in the manner of C, strings and comments left out."""
    bare = _NO_CODE.sub("", text[:_MOST_PARSED])
    return sum(map(bare.count, "([{")) > sum(map(bare.count, ")]}"))
