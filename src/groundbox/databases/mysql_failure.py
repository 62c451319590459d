"""What a statement failed with on MySQL or MariaDB: the kind in the words of PostgreSQL, and its place."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from groundbox.databases.failure import failure_of

_KINDS: Final = {
    1044: "InsufficientPrivilege",
    1052: "AmbiguousColumn",
    1054: "UndefinedColumn",
    1064: "SyntaxError",
    1142: "InsufficientPrivilege",
    1143: "InsufficientPrivilege",
    1146: "UndefinedTable",
    1227: "InsufficientPrivilege",
    1290: "InsufficientPrivilege",
    1305: "UndefinedFunction",
    1317: "QueryCanceled",
    1370: "InsufficientPrivilege",
    1792: "ReadOnlySqlTransaction",
}
_ROLE: Final = re.compile(r" (?:to|for) user '[^']*'@'[^']*'")
_NEAR: Final = re.compile(r" near '(.*)' at line (\d+)$", re.DOTALL)
_NAMED: Final = re.compile(r"(?:Table|column|Column|FUNCTION) '?([\w.$]+)'? ")


def told(error: Exception, sql: str, known: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The failure as plain data, without the role's name and where it comes from."""
    code, message = (*error.args, "", "")[:2] if len(error.args) > 1 else (0, str(error))
    message = _ROLE.sub("", str(message))
    return failure_of(
        _KINDS.get(code, type(error).__name__), message, sql=sql, position=_position(message, sql), known=known
    )


def _position(message: str, sql: str) -> int | None:
    """Where the text begins that the server names, if it stands in one place; counted from 1."""
    if near := _NEAR.search(message):
        return sql.rfind(near[1]) + 1 if sql.count(near[1]) == 1 else None
    named = _NAMED.search(message)
    if named is None:
        return None
    name = re.escape(named[1].rpartition(".")[2])
    places = [match.start() for match in re.finditer(rf"(?<!\w){name}(?!\w)", sql)]
    return places[0] + 1 if len(places) == 1 else None
