"""SQL: DuckDB or SQLite over the files of the workdir, run by the guest in the process that runs Python cells;
or a real database, asked from the host, whose rows are handed to the guest as data."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from groundbox.errors import InvalidArgument
from groundbox.execution import Execution, Outcome, Warning
from groundbox.guest.sql.card import MAX_TOKENS, asks_for_card, render
from groundbox.guest.sql.result import MIME as ROWS
from groundbox.runtimes.sql_table import bundle_of
from groundbox.sandbox.languages import Ahead, Needs, Program, SelfTest

if TYPE_CHECKING:
    from groundbox.databases.database import Database

MODES: Final = ("cell",)
EXTENSION: Final = ".sql"
NEEDS: Final[Needs | None] = None
SELF_TEST: Final = SelfTest(source="SELECT 6 * 7", mode="cell", prints="")
DIALECTS: Final = ("duckdb", "sqlite")
_MOST_NOTES: Final = 20
_MOST_NAME_CHARS: Final = 200
OPTIONS: Final = frozenset({"dialect", "database", "max_tokens", "aside"})


def profile(source: str) -> str:
    """Results are DataFrames."""
    return "science"


def order(program: Program) -> dict[str, Any]:
    """The order for the worker."""
    if program.mode != "cell":
        raise InvalidArgument("mode", f"SQL runs as 'cell' only, not {program.mode!r}")
    for name in ("argv", "stdin", "call", "args", "kwargs"):
        if getattr(program, name):
            raise InvalidArgument(name, "is nothing for SQL")
    dialect = program.options.get("dialect", DIALECTS[0])
    if dialect not in DIALECTS:
        raise InvalidArgument("dialect", f"{dialect!r} is none of {' and '.join(map(repr, DIALECTS))}")
    if "database" in program.options and "dialect" in program.options:
        raise InvalidArgument("dialect", "is that of the database; leave it out")
    aside = program.options.get("aside", False)
    if not isinstance(aside, bool):
        raise InvalidArgument("aside", f"must be True or False, not {aside!r}")
    max_tokens = program.options.get("max_tokens", MAX_TOKENS)
    if isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 1:
        raise InvalidArgument("max_tokens", f"must be a whole number above 0, not {max_tokens!r}")
    if "max_tokens" in program.options and not asks_for_card(program.source):
        raise InvalidArgument("max_tokens", "belongs to DESCRIBE ALL")
    return {
        "op": "run",
        "mode": "sql",
        "source": program.source,
        "dialect": dialect,
        "max_tokens": max_tokens,
        "aside": aside,
        "bound_by_group": dialect == "duckdb",
    }


def ahead(
    program: Program, databases: Mapping[str, Database | None], wall_s: float | None
) -> Coroutine[Any, Any, Ahead] | None:
    """Ask the database that the program names; None when it names none."""
    return _asked(program, databases, wall_s) if "database" in program.options else None


async def _asked(program: Program, databases: Mapping[str, Database | None], wall_s: float | None) -> Ahead:
    """What the database gave.

    Raises:
        InvalidArgument: The sandbox was given no database of this name.
        DatabaseUnavailable, RoleTooPowerful: See `groundbox.databases.postgres.ask`.
    """
    from groundbox.databases import database
    from groundbox.databases.describing import describe
    from groundbox.databases.servers import server_of

    name = program.options["database"]
    if not isinstance(name, str) or name not in databases:
        given = ", ".join(sorted(databases)) or "none; Sandbox(databases={…}) gives it some"
        raise InvalidArgument("database", f"{name!r} was not given to this sandbox; there is: {given}")
    asked = databases[name] or database.named(name)
    if asks_for_card(program.source):
        described = await describe(name, asked, wall_s=wall_s)
        card = render(described.tables, program.options.get("max_tokens", MAX_TOKENS))
        return Ahead(data=json.dumps({"text": card}).encode(), warnings=_powerful(name, described.powers))
    answer = await server_of(asked).ask(name, asked, program.source, wall_s=wall_s)
    return Ahead(
        data=await asyncio.to_thread(answer.encoded),
        outcome=Outcome.TIMEOUT if answer.timed_out else None,
        warnings=_powerful(name, answer.powers),
    )


def finish(program: Program, execution: Execution, studied: None) -> Execution:
    """With the rows as a bundle of their own kind."""
    if execution.value is None or ROWS not in execution.value:
        return execution
    bundle = bundle_of(execution.value[ROWS])
    notes = [_changed(*change) for change in bundle.changes[:_MOST_NOTES]]
    return dataclasses.replace(execution, value=bundle, warnings=(*execution.warnings, *notes))


def _changed(file: str, column: str, guessed: str, kind: str, reason: str) -> Warning:
    """The note on a column of a CSV file that is read as another type than DuckDB guesses. Names are the guest's."""
    file, column, guessed, kind = (text[:_MOST_NAME_CHARS] for text in (file, column, guessed, kind))
    what = f"column {column!r} of {file!r} is read as {kind}"
    if reason == "later":
        message = f"{what}: the first 20,480 lines look like {guessed}, and later ones would be changed by that"
        hint = f"Name the type if {guessed} is meant: read_csv('file.csv', types = {{'column': '{guessed}'}})."
    elif reason == "day":
        message = f"{what}: its days have no year of four digits, and the order of day, month and year is not certain"
        hint = "Name the order: read_csv('file.csv', dateformat = '%d/%m/%y')."
    elif reason == "quote":
        message = f"{file!r} is read with the quotes {kind}: its first 20,480 lines have none, and later ones do"
        hint = "If they are a part of the texts: read_csv('file.csv', quote = '')."
    else:
        message = f"{file!r} is large, so its types are guessed from the first 20,480 lines, and later ones are cast"
        hint = "read_csv('file.csv', sample_size = -1) looks at all lines."
    evidence = {"file": file, "column": column, "guessed": guessed, "type": kind}
    return Warning(code="sql.csv_types", tier="note", message=message, hint=hint, evidence=evidence)


def _powerful(name: str, powers: Sequence[str]) -> Sequence[Warning]:
    if not powers:
        return ()
    message = f"the role of database {name!r} {'; '.join(powers)}; it was asked because allow_powerful is set"
    warning = Warning(
        code="sql.powerful_role",
        tier="error",
        message=message,
        evidence={"powers": list(powers)},
        hint="docs/sql.md says how to make a role that only reads.",
    )
    return (warning,)
