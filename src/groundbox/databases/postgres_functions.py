"""Functions of PostgreSQL that a statement may not call, because they can do more than read.

A read-only transaction runs every function: one that takes a lock, writes into the log or ends a session, too. The
server's catalogue says which functions can have effects: those that are declared VOLATILE. A statement may call such
a function only if it is listed here as harmless.

A call needs the function's name in the text of the statement. Texts, quoted names and comments are not told apart,
so that no mistake in reading them can hide a call. A name of `pg_catalog` therefore counts wherever it stands. Other
functions may share their name with a column, so a name of theirs counts where a call can be.

What has no name in the text is not seen: what a view, an operator, a cast or an aggregate of the database calls, and
what a function calls that its owner declared STABLE or IMMUTABLE.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

_HARMLESS_NAMES: Final = """
array_sample array_shuffle bernoulli clock_timestamp currval gen_random_bytes gen_random_uuid gen_salt lastval
normal_rand pg_collation_actual_version pg_current_wal_flush_lsn pg_current_wal_insert_lsn pg_current_wal_lsn
pg_database_collation_actual_version pg_database_size pg_indexes_size pg_is_in_recovery pg_is_wal_replay_paused
pg_jit_available pg_last_committed_xact pg_last_wal_receive_lsn pg_last_wal_replay_lsn
pg_last_xact_replay_timestamp pg_partition_ancestors pg_partition_tree pg_relation_size pg_sequence_last_value
pg_sleep pg_sleep_for pg_sleep_until pg_table_size pg_tablespace_size pg_total_relation_size
pg_xact_commit_timestamp pg_xact_commit_timestamp_origin pg_xact_status random random_normal setseed system
timeofday txid_status uuid_generate_v1 uuid_generate_v1mc uuid_generate_v4 uuidv4 uuidv7
"""
_HARMLESS: Final = frozenset(_HARMLESS_NAMES.split())
"""Volatile functions of the server and its extensions that change nothing but their own session."""
_RUN_A_TEXT: Final = ("connectby", "crosstab", "crosstab2", "crosstab3", "crosstab4", "xpath_table")
"""Functions of extensions that run a statement from a text although they are declared STABLE."""
_CALLABLE: Final = """
SELECT n.nspname = 'pg_catalog', p.proname,
       pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(p.proname)
       || '(' || pg_catalog.pg_get_function_identity_arguments(p.oid) || ')',
       p.pronargs - p.pronargdefaults <= 1
FROM pg_catalog.pg_proc p
JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
JOIN pg_catalog.pg_language l ON l.oid = p.prolang
WHERE (pg_catalog.lower(p.proname) = ANY (%(words)s) OR p.proname !~ '^[A-Za-z0-9_$]+$')
  AND (p.provolatile = 'v' OR l.lanname = 'c' AND p.proname = ANY (%(run_a_text)s))
  AND NOT (p.proname = ANY (%(harmless)s) AND (n.nspname = 'pg_catalog' OR EXISTS (
      SELECT 1 FROM pg_catalog.pg_depend d
      WHERE d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.objid = p.oid AND d.deptype = 'e')))
  AND p.prorettype <> 'pg_catalog.trigger'::pg_catalog.regtype
  AND pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND pg_catalog.has_function_privilege(p.oid, 'EXECUTE')
ORDER BY 1 DESC, 3
"""
_NAME_BYTES: Final = 63
"""The server cuts a longer name off."""
_WORD: Final = re.compile(r"[^\W\d][\w$]*")
_WORDS_AT_ONCE: Final = 20_000
_ESCAPED_NAME: Final = re.compile(r'u&"', re.IGNORECASE)
_CALLED: Final = re.compile(r'"?\s*(?:\(|/\*|--)')
_FAR_CHARS: Final = 200
ESCAPED_NAME: Final = (
    'names written as U&"…" are refused, also in a text, because they can hide which function is called; '
    'write the name as it is: "name". Nothing was run.'
)


class Function(NamedTuple):
    """A function that the role may call and that can do more than read.

    Attributes:
        is_builtin: Whether it is in `pg_catalog`.
        signature: Schema, name and types of its arguments.
        takes_one: Whether it can be called with one argument, as in `row.name`.
    """

    is_builtin: bool
    name: str
    signature: str
    takes_one: bool

    def refusal(self) -> str:
        """Return why a statement that calls the function is not run."""
        if self.is_builtin:
            return (
                f"{self.name} can do more than read (it is VOLATILE, and not on the list of harmless functions); "
                "the name is refused also in a text. Nothing was run."
            )
        return (
            f"{self.signature} can do more than read, because it is declared VOLATILE. Nothing was run. "
            f"If it only reads, its owner can say so: ALTER FUNCTION {self.signature} STABLE"
        )


def has_escaped_name(sql: str) -> bool:
    """Return whether a name in the statement may be written with escapes."""
    return _ESCAPED_NAME.search(sql) is not None


async def find_volatile_call(connection: Any, sql: str) -> Function | None:
    """Return a function that the statement may call and that is not known to be harmless, or None."""
    words = await _collect_words(sql)
    parameters = {"words": sorted(words), "run_a_text": list(_RUN_A_TEXT), "harmless": sorted(_HARMLESS)}
    cursor = await connection.execute(_CALLABLE, parameters)
    functions = [Function(*row) for row in await cursor.fetchall()]
    # In a thread, so that the event loop goes on while a long statement is looked through.
    return await asyncio.to_thread(first_called, functions, sql, words) if functions else None


async def _collect_words(sql: str) -> set[str]:
    """Return the words of the statement in lower case, cut off as the server cuts names; let others run meanwhile."""
    words = set()
    for count, found in enumerate(_WORD.finditer(sql)):
        word = found[0][: _NAME_BYTES + 1]
        if word.isascii():
            words.add(word[:_NAME_BYTES].lower())
        if count % _WORDS_AT_ONCE == _WORDS_AT_ONCE - 1:
            await asyncio.sleep(0)
    return words


def first_called(functions: Sequence[Function], sql: str, words: set[str]) -> Function | None:
    """Return the first of the functions that the statement may call."""
    folded = ""
    for function in functions:
        if function.is_builtin and function.name.lower() in words:
            return function
        folded = folded or sql.lower()
        if _may_be_called(function, folded):
            return function
    return None


def _may_be_called(function: Function, folded: str) -> bool:
    """Return whether the name stands where a call can be: before a bracket or, with one argument, behind a dot."""
    name = re.escape(function.name.lower().replace('"', '""'))
    if len(function.name.encode()) >= _NAME_BYTES:
        name += r"[\w$]*"
    return any(
        _CALLED.match(folded, found.end()) or (function.takes_one and _is_behind_a_dot(folded, found.start()))
        for found in re.finditer(rf"(?<![\w$]){name}(?![\w$])", folded)
    )


def _is_behind_a_dot(folded: str, at: int) -> bool:
    """Return True also if a comment, or too many blanks, come before the name."""
    near = folded[max(0, at - _FAR_CHARS) : at].removesuffix('"')
    before = near.rstrip()
    if not before:
        return at >= _FAR_CHARS
    has_line_end = not {"\n", "\r"}.isdisjoint(near[len(before) :])
    return before.endswith((".", "*/")) or (has_line_end and "--" in before.splitlines()[-1])
