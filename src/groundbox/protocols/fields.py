"""Fields that several protocols have, each with its largest length or count; more of them are in `server.schemas`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, Final, TypeVar

import msgspec

from groundbox.server.schemas import Argument, Word

_T = TypeVar("_T")

Arguments = Annotated[list[Argument], msgspec.Meta(max_length=1000)]
Variables = Annotated[dict[Word, Argument], msgspec.Meta(max_length=1000)]
"""Variables of the environment."""
_MOST_HERE: Final = 64 * 1024


async def beside(length: int, call: Callable[..., _T], *args: Any) -> _T:
    """Return what a call returns that takes time for each of `length` characters, from a thread if they are many."""
    return await asyncio.to_thread(call, *args) if length > _MOST_HERE else call(*args)
