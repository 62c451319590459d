"""What a statement failed with on a server, with the keys of a guest's failure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from groundbox.guest.python.fault import either, listing, nearest

HEAD_CHARS: Final = 1 << 16
"""The first word of a statement is looked for in so many characters; more would hold up the host."""
NO_WORD: Final = "the statement has no word in its first 64 KiB: put blanks and comments behind the first word"
_UNKNOWN_TABLE: Final = re.compile(
    r"""relation "(.+?)" does not exist|missing FROM-clause entry for table "(.+?)"|Table '(.+?)' doesn't exist"""
    r"|SELECT command denied for table `.+?`\.`(.+?)`"
    r"""|Table unknown\s+-"?(\S+)|Invalid object name '(.+?)'|Object '(.+?)' does not exist"""
    r"""|table or view "(.+)" does not exist"""
)
_UNKNOWN_COLUMN: Final = re.compile(
    r"""column "?([\w.]+?)"? does not exist|column (\S+) does not exist|Unknown column '(.+?)' in"""
    r"""|Column unknown\s+-"?(\S+)|Invalid column name '(.+?)'|invalid identifier '(.+?)'|(\S+): invalid identifier"""
)
"""In the words of PostgreSQL, MySQL, Firebird, SQL Server, Snowflake and Oracle."""
_AMBIGUOUS: Final = re.compile(r"""column reference "(.+?)" is ambiguous|Column '(.+?)' in .+? is ambiguous""")
_WORD: Final = re.compile(r"\w+")
_MESSAGE_CHARS: Final = 2000
_READ_CHARS: Final = 100_000
_SHOWN_CHARS: Final = 400


def failure_of(
    kind: str,
    message: str,
    *,
    sql: str = "",
    position: int | None = None,
    advice: str = "",
    known: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Any]:
    """The failure as plain data.

    Args:
        position: Of the character that the server blames, counted from 1.
        known: Tables that may be read, each with its columns.
    """
    message = message[:_MESSAGE_CHARS]
    line, mark = None, ""
    if position is not None and 0 < position <= len(sql) + 1:
        above = sql[: position - 1]
        line, column = above.count("\n") + 1, position - 1 - (above.rfind("\n") + 1)
        mark = f"line {line}, column {column + 1}\n"
        if column < _SHOWN_CHARS:
            begin = position - 1 - column
            shown = sql[begin : begin + _SHOWN_CHARS].partition("\n")[0]
            mark += f"    {shown}\n    {' ' * column}^\n"
    hints = [*_hints(message, sql, known or {}), *([advice] if advice else [])]
    return {
        "type": kind,
        "message": message,
        "line": line,
        "traceback": f"{mark}{kind}: {message}",
        "locals": {},
        "hints": list(dict.fromkeys(hints))[:5],
    }


def _hints(message: str, sql: str, known: Mapping[str, Sequence[str]]) -> Iterator[str]:
    words = set(_WORD.findall(sql[:_READ_CHARS].casefold()))
    named = {table: columns for table, columns in known.items() if _names(words, table)}
    if found := _UNKNOWN_TABLE.search(message):
        close = nearest(_named(found).rpartition(".")[2].strip('"'), known)
        yield from [f"Did you mean {either(close)}?"] if close else []
        yield f"The tables are: {listing(known)}." if known else "The role may read no table."
    elif found := _UNKNOWN_COLUMN.search(message):
        name = _named(found).rpartition(".")[2].strip('"')
        close = nearest(name, dict.fromkeys(column for columns in named.values() for column in columns))
        owners = [f"{c} of {' and '.join(t for t, columns in named.items() if c in columns)}" for c in close]
        yield from [f"Did you mean {either(owners)}?"] if owners else []
        yield from (f"The columns of {table} are: {listing(columns)}." for table, columns in named.items())
    elif found := _AMBIGUOUS.search(message):
        name = _named(found).rpartition(".")[2]
        owners = [table for table, columns in named.items() if name in columns]
        yield f"`{name}` is a column of {' and of '.join(owners)}: write it with the table or its alias before it."


def _named(found: re.Match[str]) -> str:
    return next(group for group in found.groups() if group is not None)


def _names(words: set[str], table: str) -> bool:
    """Whether a statement of these words may mean the table; a word in a text counts too."""
    return words.issuperset(_WORD.findall(table.rpartition(".")[2].casefold()))
