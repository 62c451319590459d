"""What a statement failed with on a server that SQLAlchemy asks: the driver's words alone, without secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, quote_plus, unquote

from groundbox.databases.failure import failure_of

_PLACE: Final = re.compile(r"\bline (\d{1,9})(?:, column | column | at position )(\d{1,9})(?!\d)", re.IGNORECASE)
_FROM_0: Final = "at position"
"""Snowflake counts columns from 0, others from 1."""
_NAMED: Final = re.compile(r"""["'`]([\w.$]+)["'`]""")
_SECRET: Final = re.compile(r"pass|pwd|secret|token|key|credential|odbc_connect", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"(?:host|hostaddr|hostname|server|address|dsn)", re.IGNORECASE)
_SHORTEST: Final = 3
"""Less than so many characters are no secret, and would be found in every word."""
_READ_CHARS: Final = 100_000


def told(
    error: BaseException, sql: str, secrets: Iterable[str], known: Mapping[str, Sequence[str]] | None = None
) -> dict[str, Any]:
    """The failure as plain data.

    Args:
        error: The driver's own, not the one that SQLAlchemy puts around it.
        secrets: What is left out of its message.
    """
    said = getattr(error, "diag", None)  # of drivers of PostgreSQL's protocol, whose message quotes what was sent
    message = getattr(said, "message_primary", None) or _message(error)
    return failure_of(
        type(error).__name__,
        masked(message, secrets),
        sql=sql,
        position=_position(message, sql),
        advice=masked(getattr(said, "message_hint", None) or "", secrets),
        known=known,
    )


def _message(error: BaseException) -> str:
    """What it calls so, such as trino's; else its last text: drivers put a number before it."""
    for called in ("message", "msg"):
        if (text := getattr(error, called, None)) and isinstance(text, str):
            return text
    last = next((each for each in reversed(error.args) if isinstance(each, (str, bytes))), None)
    if last is None:
        return str(error)
    return last.decode(errors="replace") if isinstance(last, bytes) else last


def _position(message: str, sql: str) -> int | None:
    """Of what the message blames: by its line and column, or the one place where the name in it stands; from 1."""
    if found := _PLACE.search(message):
        line, column = int(found[1]), int(found[2]) + (_FROM_0 in found[0].casefold())
        lines = sql.split("\n")
        if 0 < line <= len(lines) and 0 < column <= len(lines[line - 1]) + 1:
            return sum(len(each) + 1 for each in lines[: line - 1]) + column
        return None
    named = _NAMED.search(message)
    if named is None or len(sql) > _READ_CHARS:
        return None
    name = re.escape(named[1].rpartition(".")[2])
    places = [match.start() for match in re.finditer(rf"(?<!\w){name}(?!\w)", sql, re.IGNORECASE)]
    return places[0] + 1 if len(places) == 1 else None


def secrets_of(url: Any) -> list[str]:
    """What of SQLAlchemy's URL stands in no message: password and address, however they are written; longest first."""
    found = {str(url.password or ""), str(url.host or "")}
    for key, value in url.query.items():
        for each in (value,) if isinstance(value, str) else value:
            if _SECRET.search(key):
                parts = [part.partition("=")[2] for part in unquote(each).split(";")]
                found |= {each, *parts, *(part.removeprefix("{").removesuffix("}") for part in parts)}
            elif _ADDRESS.fullmatch(key):
                found |= {each, *(part.rpartition(":")[0] or part for part in each.split(","))}
    written = {way(each) for each in found - {"localhost"} for way in (str, quote, quote_plus)}
    return sorted((each for each in written if len(each) >= _SHORTEST), key=len, reverse=True)


def masked(text: str, secrets: Iterable[str]) -> str:
    """The text with `***` for each secret in it."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return text
