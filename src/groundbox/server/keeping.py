"""What a key makes the server keep in memory, counted in one budget for each key.

Kept results, replies by `Idempotency-Key`, variables and labels of sandboxes, arguments of processes, watched folders:
each is small or bounded by itself, and a key could still have many of all of them. Whoever keeps something for a key
takes its bytes here first, and gives them back when it is forgotten. If a key is over its budget, its oldest results
and replies are forgotten; nothing of another key is. If that does not suffice, the request is refused.
"""

from __future__ import annotations

import collections
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from groundbox import guestjson
from groundbox.server.refusals import Refused
from groundbox.server.replies import encoded

_SMALL_BYTES: Final = 64


class Ledger:
    """The bytes that each key has taken."""

    def __init__(self, most_bytes: Callable[[], int]) -> None:
        """Args:
        most_bytes: Returns how much one key may have.
        """
        self._most_bytes = most_bytes
        self._taken: collections.Counter[str] = collections.Counter()
        self._forget: list[Callable[[str], bool]] = []

    @property
    def total_bytes(self) -> int:
        """Bytes of all keys."""
        return self._taken.total()

    def taken_bytes(self, key_id: str) -> int:
        """Bytes of one key."""
        return self._taken[key_id]

    def forget_by(self, forget_oldest: Callable[[str], bool]) -> None:
        """Add a way to make room: it forgets the oldest thing of a key, gives its bytes back, and returns True.

        It returns False if the key has nothing there.
        """
        self._forget.append(forget_oldest)

    def take(self, key_id: str, size_bytes: int, what: str) -> None:
        """Count bytes that are about to be kept for a key.

        Args:
            what: Names them in the refusal.

        Raises:
            Refused: 429, the key keeps too much. Nothing was counted.
        """
        most = self._most_bytes()
        if size_bytes <= most:
            while self._taken[key_id] + size_bytes > most and any(forget(key_id) for forget in self._forget):
                pass
        if self._taken[key_id] + size_bytes > most:
            told = (
                f"{what}: the server would keep {self._taken[key_id] + size_bytes} bytes for this key, which may have "
                f"{most}; close sandboxes, or send less. Nothing was done"
            )
            raise Refused(429, "quota.kept_bytes", told, retry_after_s=5)
        self._taken[key_id] += size_bytes

    def give_back(self, key_id: str, size_bytes: int) -> None:
        """Count bytes that are kept no longer."""
        self._taken[key_id] -= size_bytes
        if self._taken[key_id] <= 0:
            del self._taken[key_id]


def size_of(value: Any) -> int:
    """Return the memory of plain data, about, in bytes, without a step of Python for each value in it."""
    if isinstance(value, str | bytes):
        return sys.getsizeof(value)
    if isinstance(value, Mapping):
        return _SMALL_BYTES + sum(_SMALL_BYTES + sys.getsizeof(name) + _weight(each) for name, each in value.items())
    return _weight(value)


def _weight(value: Any) -> int:
    if isinstance(value, str | bytes):
        return sys.getsizeof(value)
    try:
        return guestjson.weigh(encoded(value))
    except (msgspec.EncodeError, TypeError, ValueError, RecursionError):  # no plain data: what a runtime has made
        return sys.getsizeof(repr(value))
