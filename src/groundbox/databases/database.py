"""A database that a sandbox may ask: where it is, and how much of it may be asked at once."""

from __future__ import annotations

import dataclasses
import math
import os
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from groundbox.errors import InvalidArgument

SCHEMES: Final = {"postgresql": "postgres", "postgres": "postgres", "mysql": "mysql", "mariadb": "mysql"}
"""How a URL begins to the module that asks such a server."""
_NOT_SERVED: Final = {
    "oracle": "SET TRANSACTION READ ONLY, ALTER SYSTEM CANCEL SQL, a resource plan with a time, DBA_SYS_PRIVS",
    "mssql": "a read-only transaction, which it has not, KILL, and a look at fn_my_permissions",
}
"""Dialects of SQLAlchemy to what groundbox would need of them for promises that their server keeps."""
IN_PROCESS: Final = {
    "sqlite": "ATTACH the file in the sandbox, with dialect='sqlite'",
    "duckdb": "ATTACH the file in the sandbox",
    **dict.fromkeys(
        ("access", "chdb", "derby", "gpkg", "gsheets", "h2", "hsqldb", "shillelagh"), "hand the files to the sandbox"
    ),
}
"""Dialects whose engine would meet the guest's statements within the host's process, to what is done instead."""
_SCHEME: Final = re.compile(r"[a-z]\w*(?:\+\w+)?", re.ASCII)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Database:
    """One database, with the role that queries run as.

    Attributes:
        url: `postgresql://role:password@host:port/name`, or the same with `mysql` or `mariadb`; never printed, and in
            no message. With `allow_powerful` also that of any server that SQLAlchemy has a dialect for.
        timeout_s: What the server gives one query; reached: outcome `timeout`.
        max_rows: Rows that are handed over; the result says when there were more.
        max_bytes: Bytes of text in them. One row that is larger ends the query with an error.
        allow_powerful: Ask also as a role that could do more than read, or reach the server's files, and servers whose
            roles are not looked at. Every result then carries a warning.
        setup: Statements that run first on each connection, such as SET TRANSACTION READ ONLY; only where SQLAlchemy
            asks. Never printed.
    """

    url: str = dataclasses.field(repr=False)
    timeout_s: float = 30.0
    max_rows: int = 100_000
    max_bytes: int = 16 * 1024 * 1024
    allow_powerful: bool = False
    setup: Sequence[str] = dataclasses.field(default=(), repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.allow_powerful, bool):
            raise InvalidArgument("allow_powerful", f"must be True or False, not {self.allow_powerful!r}")
        scheme = str(self.url).partition("://")[0]
        if scheme not in SCHEMES and (complaint := _complaint(scheme, asked=self.allow_powerful)):
            raise InvalidArgument("url", complaint)
        if not isinstance(self.setup, (list, tuple)) or any(type(s) is not str or not s.strip() for s in self.setup):
            raise InvalidArgument("setup", "must be a list of statements")
        if self.setup and scheme in SCHEMES:
            raise InvalidArgument("setup", f"is for servers that SQLAlchemy asks; {scheme} is held without it")
        object.__setattr__(self, "setup", tuple(self.setup))
        for name in ("timeout_s", "max_rows", "max_bytes"):
            value = getattr(self, name)
            if isinstance(value, bool) or not math.isfinite(value) or value <= 0:
                raise InvalidArgument(name, f"must be above 0, not {value!r}")


def _complaint(scheme: str, *, asked: bool) -> str | None:
    """Why a server is not asked.

    It names a scheme that is known only: what stands before :// may be anything, a password too.

    Args:
        asked: Whether it is to be asked without a guard that the server keeps.
    """
    kinds = ", ".join(f"{each}://" for each in SCHEMES)
    dialect = scheme.partition("+")[0].casefold()
    if dialect in SCHEMES:
        return f"must begin with {dialect}://, without a driver"
    if dialect in IN_PROCESS:
        return f"{dialect} is not asked, because there is no guard for it; it would need nothing: {IN_PROCESS[dialect]}"
    if asked:
        return None if _SCHEME.fullmatch(scheme) else f"must begin with one of {kinds}, or a dialect of SQLAlchemy"
    all_the_same = "allow_powerful=True asks all the same, through SQLAlchemy, and every result then has a warning"
    if dialect not in _NOT_SERVED:
        guard = "no other server is asked, for want of a guard that the server keeps"
        return f"must begin with one of {kinds}; {guard}; {all_the_same}"
    needed = f"it would need {_NOT_SERVED[dialect]}"
    return f"{dialect} is not asked, because there is no guard for it; {needed}; {all_the_same}"


def named(name: str, *, file: Path | None = None) -> Database:
    """The database that `databases.toml` in GROUNDBOX_HOME describes in its table `[name]`.

    Its `url` stands there, or `url_env` names a variable of the environment that holds it.

    Raises:
        InvalidArgument: There is no such table, others than its owner may read the file, or what stands there
            cannot be meant.
    """
    path = file or _home() / "databases.toml"
    try:
        if path.stat().st_mode & 0o077:
            raise InvalidArgument("databases.toml", f"others may read it; chmod 600 {path}")
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidArgument("name", f"there is no {path}, where {name!r} would be described") from None
    except tomllib.TOMLDecodeError:
        tables = None
    if tables is None:  # out here, because the decoder's exception holds the file, and the passwords in it
        raise InvalidArgument("databases.toml", f"{path} is not TOML")
    if not isinstance(tables.get(name), dict):
        raise InvalidArgument("name", f"{name!r} is not described in {path}; there is: {', '.join(sorted(tables))}")
    settings = dict(tables[name])
    variable = settings.pop("url_env", None)
    if variable is not None:
        settings["url"] = os.environ.get(variable, "")
    unknown = settings.keys() - {field.name for field in dataclasses.fields(Database)}
    if unknown or "url" not in settings:
        raise InvalidArgument(name, f"takes {', '.join(f.name for f in dataclasses.fields(Database))} and url_env")
    return Database(**settings)


def _home() -> Path:
    home = os.environ.get("GROUNDBOX_HOME")
    if home:
        return Path(home)
    if os.geteuid() == 0:
        return Path("/var/lib/groundbox")
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "groundbox"
