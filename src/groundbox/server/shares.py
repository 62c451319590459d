"""The share that one key may take of something that all keys use: run slots, sandboxes, checkpoints, threads.

If keys can come and go, no key may take everything, because a program may sleep for an hour and a slot cannot be taken
back from it. One key gets at most half, rounded up. The last eighth, at least one, goes only to keys that hold none. A
server that knows only its owner has nobody to protect, so that the owner may take everything.
"""

from __future__ import annotations


def may_take(*, held: int, taken: int, total: int, shared: bool, count: int = 1) -> bool:
    """Return True if a key may take `count` more.

    Args:
        held: How many the key holds.
        taken: How many all keys hold, this one included.
        total: How many there are.
        shared: Whether the server has keys of others than its owner.
    """
    free = total - taken
    if free < count:
        return False
    if not shared or (held == 0 and count == 1):
        return True
    return held + count <= most_of_one_key(total) and free - count >= reserve_of(total)


def most_of_one_key(total: int) -> int:
    """Return how many one key may hold if others may come."""
    return total - total // 2


def reserve_of(total: int) -> int:
    """Return how many stay free for keys that hold none."""
    return max(1, total // 8) if total > 1 else 0
