"""What in a statement takes locks on MySQL and MariaDB, which hold up others also in a read-only transaction.

Words are looked for in the whole text, quoted or not: what is a text depends on the mode of the server. Between two
words there may be blanks and comments. How far these are looked through is bounded, so that the time stays in
proportion to the length of the statement; where more of them follow, the statement counts as one that takes a lock.
"""

from __future__ import annotations

import re
from typing import Final

from groundbox.databases import blanks

_BEFORE: Final = re.compile(r"(?<![^\W\d])(?:for|lock)")
_FAR_CHARS: Final = 2000
_FUNCTION: Final = re.compile(r"(?<!\w)(?:service_)?get_(?:read_locks|write_locks|lock)(?!\w)")
_LOOKED_THROUGH_CHARS: Final = 1 << 20


def lock_in(sql: str) -> str | None:
    """Why a statement that would take a lock, or may hide one, is not sent."""
    folded = sql.casefold()
    if "/*!" in folded or "/*m!" in folded:
        return "comments that a server runs (/*! … */) are refused; in a text, write concat('/', '*!')"
    if "_lock" in folded and (found := _FUNCTION.search(folded)):
        return f"{found[0].upper()} takes a lock, which is refused; in a text, write concat('get_', 'lock')"
    if "share" not in folded:
        return None
    if len(sql) > _LOOKED_THROUGH_CHARS:
        return "a statement of more than 1 MiB is refused when it has the word SHARE in it, as in LOCK IN SHARE MODE"
    if any(_takes_share(folded, found.end(), found[0]) for found in _BEFORE.finditer(folded)):
        return (
            "LOCK IN SHARE MODE and FOR SHARE hold up those who write, and are refused; "
            "in a text, write concat('for ', 'share'); behind FOR and LOCK write no long comment"
        )
    return None


def _takes_share(folded: str, at: int, word: str) -> bool:
    """Whether `share` follows FOR, or `in share` LOCK; also where too many blanks and comments follow to be sure."""
    near = folded[at : at + _FAR_CHARS]
    whole = len(near) < _FAR_CHARS
    place = 0
    for wanted in ("share",) if word == "for" else ("in", "share"):
        begin, place = place, blanks.after(near, place, hashes=True)
        if near.startswith("/*", place) or (place == len(near) and not whole):
            return True
        if place == begin or blanks.word_at(near, place) != wanted:
            return False
        place += len(wanted)
    return True
