"""`--option NAME=VALUE`: what only the program's language knows, such as the dialect of SQL.

The names are those of the language's own arguments of `run()`, so that a language of another package has its options
on the command line without a word here. `database` is one of them and more: naming a database lets the sandbox ask it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import click

from groundbox.errors import InvalidArgument
from groundbox.sandbox import languages

_DATABASE: Final = "database"

takes_own: Final[Callable[..., Any]] = click.option(
    "--option",
    "own",
    multiple=True,
    metavar="NAME=VALUE",
    help="What only the language knows, such as dialect=sqlite or database=shop for SQL; repeatable.",
)
"""Gives a command `--option`; it receives what was written as `own`."""


def read(written: Sequence[str], language: str) -> dict[str, Any]:
    """The options by name. A value that is JSON is what JSON says; any other is a text.

    Raises:
        click.BadParameter: One is no pair, stands twice, or is none of the language's.
        InvalidArgument: There is no such language.
    """
    runtime = languages.find(language)
    found: dict[str, Any] = {}
    for each in written:
        name, equals, value = each.partition("=")
        if not name or not equals:
            raise _bad("--option", f"{each!r} is no NAME=VALUE")
        if name in found:
            raise _bad(called(name), "is given twice")
        found[name] = _value(value)
    unknown = found.keys() - languages.option_names(runtime)
    if unknown:
        known = ", ".join(sorted(languages.option_names(runtime))) or "no options of its own"
        raise _bad("--option", f"{min(unknown)!r} is none of {language}, which takes {known}")
    return found


def databases(own: Mapping[str, Any]) -> dict[str, Any]:
    """What a sandbox is given to ask: the database that is named, as `databases.toml` describes it.

    Raises:
        click.BadParameter: It is not described there, or not well.
    """
    name = own.get(_DATABASE)
    if not isinstance(name, str):
        return {}
    from groundbox.databases.database import named

    try:
        return {name: named(name)}
    except InvalidArgument as error:
        raise _bad(called(_DATABASE), error.problem if error.argument == "name" else str(error)) from None


def called(name: str) -> str:
    """What an option of a language is called in complaints."""
    return f"--option {name}"


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _bad(option: str, problem: str) -> click.BadParameter:
    return click.BadParameter(problem, ctx=click.get_current_context(), param_hint=f"'{option}'")
