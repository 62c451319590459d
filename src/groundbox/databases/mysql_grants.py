"""What a role of MySQL or MariaDB could do beside reading what it was granted: its grants, read one by one.

Only what is known to be harmless passes. A grant that is not understood is a power too, and so is every role that was
granted, because it may bring more; whoever may call routines has the rights of those who made them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

_HARMLESS: Final = frozenset({"USAGE", "SELECT", "SHOW VIEW", "SHOW DATABASES"})
_SYSTEM: Final = ("mysql", "performance_schema", "sys")
"""Accounts with their password hashes, and what others ask."""
_NAME: Final = r"(?:`(?:[^`]|``)*`|\"(?:[^\"]|\"\")*\")"
_PRIVILEGE: Final = rf"[A-Z_ ]+?(?: \({_NAME}(?:, {_NAME})*\))?"
_GRANT: Final = re.compile(
    rf"GRANT (?P<privileges>{_PRIVILEGE}(?:, ?{_PRIVILEGE})*) ON (?P<kind>[A-Z ]+ )?"
    rf"(?P<database>\*|{_NAME})\.(?P<table>\*|{_NAME}) TO (?P<rest>.*)",
    re.DOTALL,
)
_COLUMNS: Final = re.compile(rf" \({_NAME}(?:, {_NAME})*\)")
_ROLE: Final = re.compile(rf"GRANT (?P<roles>{_NAME}(?:@{_NAME})?(?:, ?{_NAME}(?:@{_NAME})?)*) TO ")
_SHOWN_CHARS: Final = 60


def powers_of(grants: Iterable[str]) -> list[str]:
    """One sentence for each power, from the lines of SHOW GRANTS."""
    return list(dict.fromkeys(power for line in grants for power in _powers(line)))


def _powers(line: str) -> Iterator[str]:
    if line.startswith("SET DEFAULT ROLE "):  # of a role that has a line of its own
        return
    if role := _ROLE.match(line):
        yield f"is granted the role {role['roles']}"
        return
    found = _GRANT.fullmatch(line)
    if found is None:
        yield f"has a grant that is not understood: {line.partition(' TO ')[0][:_SHOWN_CHARS]}"
        return
    database, table = _plain(found["database"]), _plain(found["table"])
    privileges = [each.strip() for each in _COLUMNS.sub("", found["privileges"]).split(",")]
    may = "is in a server where everybody may" if found["rest"].startswith("PUBLIC") else "may"
    more = [each for each in privileges if each not in _HARMLESS]
    if more:
        yield f"{may} {', '.join(more[:4])}{' and more' if len(more) > 4 else ''} on {database}.{table}"
    elif "SELECT" in privileges and (system := [name for name in _SYSTEM if _covers(database, name)]):
        yield f"{may} read {system[0]}.{table}"
    if found["rest"].rstrip().endswith("OPTION"):
        yield f"{may} grant what it has on {database}.{table}"


def _plain(name: str) -> str:
    return name if name == "*" else name[1:-1].replace(name[0] * 2, name[0])


def _covers(pattern: str, database: str) -> bool:
    """Whether a grant's database, in which % and _ stand for others, is this one too."""
    if pattern == "*":
        return True
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    wild = {"%": ".*", "_": "."}
    regex = "".join(wild.get(part) or re.escape(part[-1]) for part in parts)
    return re.fullmatch(regex, database, re.IGNORECASE | re.DOTALL) is not None
