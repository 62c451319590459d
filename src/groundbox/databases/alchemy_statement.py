"""Which statements are sent to servers that SQLAlchemy asks.

How such a server quotes, and what it takes for the end of a statement, is not known here, so that words and separators
are looked for in the whole text, quoted or not, and the message says how to write them in a text. This keeps mistakes
and plain attacks away; it is no guard that the server keeps.
"""

from __future__ import annotations

import re
from typing import Final

from groundbox.databases import blanks
from groundbox.databases.failure import HEAD_CHARS, NO_WORD

STREAMED: Final = frozenset({"select", "with", "values", "table"})
"""What a server-side cursor may be declared for."""
_FIRST_WORDS: Final = STREAMED | {"explain", "describe", "show"}
_ENDING: Final = (
    "alter ansi_defaults backup begin bulk chained commit create dbcc deny drop exec execute grant "
    "implicit_transactions kill merge reconfigure restore revert revoke rollback save setuser shutdown truncate waitfor"
)
_ENDS: Final = re.compile(rf"(?<!\w)(?:\d\w*?)?({'|'.join(_ENDING.split())})(?!\w)", re.IGNORECASE | re.ASCII)
"""What begins a statement of its own, behind another one without anything between them, and is no name in a query.

It may also stand right behind a number: SQL Server reads `1COMMIT`, `1eCOMMIT` and `0xCOMMIT` as two words. Three of
them are settings that SET turns off there, after which each statement commits by itself if no transaction is open yet.
"""
_ENDS_A_LINE: Final = re.compile(r"\r(?!\n)|[\v\f\x1c-\x1e\x85\u2028\u2029]")
"""What ends a comment of one line on some servers (PostgreSQL and Trino: a carriage return) and not on others."""
_RUN: Final = re.compile(r"/\*\w*!")
"""What some servers run, such as TiDB's `/*T! … */`, and others take for a comment."""
_CHAIN: Final = "->>"
_LOOKED_THROUGH_CHARS: Final = 1 << 20


def first_word(sql: str) -> str:
    """The first word behind blanks, comments and brackets, in lower case; "" where there is none."""
    head = sql[:HEAD_CHARS]
    return blanks.word_at(head, _begin(head)).casefold()


def _begin(head: str) -> int:
    at = blanks.after(head)
    while head.startswith("(", at):
        at = blanks.after(head, at + 1)
    return at


def refusal_of(sql: str, *, batches: bool, chains: bool = False) -> str | None:
    """Why a statement is not sent.

    Args:
        batches: Whether the server may take several statements that nothing stands between, as SQL Server does.
        chains: Whether `->>` stands between statements, as on Snowflake.
    """
    if "\0" in sql:
        return "the statement has a NUL character in it"
    try:
        sql.encode()
    except UnicodeEncodeError:
        return "the statement has half of a character in it, which UTF-8 cannot write"
    word = first_word(sql)
    if not word and len(sql) > HEAD_CHARS:
        return NO_WORD
    if word not in _FIRST_WORDS:
        allowed = ", ".join(sorted(_FIRST_WORDS)).upper()
        return f"only statements that read are run here: {allowed}; not {word.upper() or 'this'}"
    before = sql[: _begin(sql[:HEAD_CHARS])]
    if before.count("/*") != before.count("*/"):
        return "a comment before the first word has another one in it, which servers end in different places"
    if "--" in before and _ENDS_A_LINE.search(before):
        return "a comment before the first word has a character in it that ends the line for some servers only"
    if _RUN.search(before):
        return "a comment before the first word is one that some servers run"
    if chains and _CHAIN in sql:
        return "->> begins another statement here, and is refused also in a text or a comment"
    if ";" in bare(sql):
        return (
            "one statement is run at a time, and ; is refused also in a text or a comment, because servers differ in "
            "how they quote; in a text, write the character otherwise, such as CHR(59) or CHAR(59)"
        )
    if batches and len(sql) > _LOOKED_THROUGH_CHARS:
        return "a statement of more than 1 MiB is refused, because it is looked through for a second one"
    if batches and (found := _ENDS.search(sql)):
        return (
            f"{found[1].upper()} may begin another statement here, and is refused also in a text, a name or a comment; "
            "in a text, write it in two parts"
        )
    return None


def bare(sql: str) -> str:
    """The statement without the `;` at its end, which some servers do not take."""
    return sql.rstrip().removesuffix(";")
