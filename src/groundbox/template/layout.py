"""Where a template's objects lie: what a copy writes to, together; what it only reads, elsewhere.

The kernel copies a page of 4 KiB at the first write to it, which costs as much as some thousand instructions.
Two things that every copy does spread such writes over many pages. Running a function counts in the function's code,
wherever that lies; and making an object takes room that others left, in whichever pool has some. So code that every
copy runs is copied to one place, and room that others left is used up before the first fork.
All this rests on how CPython and glibc hand out memory, and costs nothing but speed where they do it otherwise.
"""

import gc
import sys
import types
from collections.abc import Callable, Collection
from types import CodeType, FrameType
from typing import Final

_POOL, _FIRST_IN_POOL = 16 << 10, 48
_CHUNK_HEAD: Final = 16
_SMALL: Final = 512
_CHUNKS: Final = (
    *(64 << 10, 32 << 10, 16 << 10, 8 << 10, 6 << 10, 4 << 10, 3 << 10, 2 << 10),
    *(1536, 1280, 1024, 896, 768, 640, 576, 544),
)
_MOST_TRIES: Final = 4096
_KEPT: Final[list[object]] = []


def code_run_by(call: Callable[[], object]) -> set[CodeType]:
    """The code of all Python functions that `call` enters."""
    found = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            found.add(frame.f_code)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def lay_together(codes: Collection[CodeType]) -> None:
    """Let the functions that have these codes run copies, made one after the other.

    A copy has not adapted to anything yet; run it some times before the first fork.
    """
    functions = [f for f in gc.get_objects() if type(f) is types.FunctionType and f.__code__ in codes]
    for function in functions:
        function.__code__ = function.__code__.replace()


def start_afresh() -> None:
    """Use up what is free between older objects, so that whatever is made from here on lies together.

    Bytes are made of each size that memory is handed out in, and kept, until three lie side by side: the
    third such is where no older object is.
    """
    for size in _CHUNKS:
        _use_up(bytes, size - _CHUNK_HEAD - bytes.__basicsize__, size)
    start_pools()


def start_pools() -> None:
    """Have small objects come from pools that hold none yet: a pool in which one ends is the first to have others."""
    for size in range(_SMALL, 32, -16):
        _use_up(bytes, size - bytes.__basicsize__, size)
    _use_up(_large_int, 0, 32)


def _large_int(_: int) -> int:
    return (1 << 60) + len(_KEPT)


def _use_up(make: Callable[[int], object], length: int, size: int) -> None:
    """Keep what `make(length)` makes, which takes `size` bytes of memory, until three lie side by side."""
    before = last = 0
    for _ in range(_MOST_TRIES):
        item = make(length)
        _KEPT.append(item)
        side_by_side = id(item) - last == last - before == size
        if side_by_side and (size > _SMALL or before % _POOL == _FIRST_IN_POOL):
            return
        before, last = last, id(item)
