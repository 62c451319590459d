"""What an engine was given under a name: a DataFrame, a sheet, a copy of a file.

Engines take `Sales` and `sales` for one name, where variables and files are two. So a name is offered in one spelling
at a time, each statement decides which one, and what is offered is looked at again before every statement: a view or
a prepared statement may read it without naming it.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, Final, NamedTuple

_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


class AmbiguousName(Exception):
    """Two variables or files are meant whose names are one name in SQL."""

    def __init__(self, one: str, other: str, where: str) -> None:
        super().__init__(
            f"{one!r} and {other!r} are one name in SQL, where upper and lower case are the same: {where}; "
            "give one of them a name of its own"
        )


class Offer(NamedTuple):
    """One name that is offered.

    Attributes:
        name: As the variable or the file is spelled.
        source: A DataFrame, or what tells whether a file has changed.
    """

    name: str
    source: Any


def folded(name: str) -> str:
    """A name as both engines compare it: only the letters of ASCII are the same in upper and lower case."""
    return name.translate(_LOWER)


def offers(
    said: Mapping[str, Any],
    words: Iterable[str],
    known: Mapping[str, Offer],
    find: Callable[[str], Any],
    stored: Callable[[], Container[str]],
) -> dict[str, Offer]:
    """All that an engine is to have for a statement, by folded names.

    Args:
        said: The variables and files that the statement names; None for a file that is not there.
        words: Of the statement, unquoted.
        known: What the engine has.
        find: Gives what a name means now, or None.
        stored: Gives the names in views and whatever else the engine keeps.

    Raises:
        AmbiguousName: Two spellings of a name are needed at once.
    """
    wanted: dict[str, Offer] = {}
    for name, source in said.items():
        one = wanted.setdefault(folded(name), Offer(name, source))
        if not same(one.source, source):
            raise AmbiguousName(one.name, name, "a statement cannot read both")
    misspelled = {folded(word) for word in words if folded(word) in known and known[folded(word)].name != word}
    for name, old in known.items():
        new = wanted.get(name)
        if new is None:
            if name not in misspelled or old.name in stored():
                wanted[name] = Offer(old.name, find(old.name))
        elif new.name != old.name and not same(new.source, old.source) and old.name in stored():
            raise AmbiguousName(old.name, new.name, f"a view or the like reads {old.name!r}")
    return {name: offer for name, offer in wanted.items() if offer.source is not None}


def same(old: Any, new: Any) -> bool:
    """Whether two sources are one, and unchanged."""
    return bool(old == new) if isinstance(new, tuple) and isinstance(old, tuple) else old is new
