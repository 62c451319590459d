"""Short descriptions of live values, safe to make right after a failure.

A program's `__repr__` may raise, lie, loop or build a gigabyte. Builtin values are
described without calling any of it; for others `repr` runs under a timer and is cut.
The timer is SIGALRM, so it works in the main thread only, and not when the program
uses the alarm itself; the host's deadline stands behind it. A `__repr__` that
allocates without end is stopped by the sandbox's memory limit, not here.
"""

from __future__ import annotations

import contextlib
import itertools
import signal
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any, Final

TEXT_CHARS: Final = 200
ITEMS: Final = 6
DEPTH: Final = 2
_BIG_INT_BITS: Final = 512


class TooSlow(BaseException):
    """The time for looking at values is over."""


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise `TooSlow` in the body when `seconds` of wall time have passed, again and again."""
    if not _alarm_is_free():
        yield
        return
    armed = True

    def ring(signum: int, frame: types.FrameType | None) -> None:
        if armed:
            raise TooSlow

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.02)
    try:
        yield
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def peek(value: Any, depth: int = DEPTH) -> str:
    """A description of `value` of about 200 characters, with counts of what is left out.

    Raises:
        TooSlow: From the timer of a surrounding `at_most`.
        KeyboardInterrupt: The run was interrupted.
    """
    try:
        return _shortened(_described(value, depth))
    except (TooSlow, KeyboardInterrupt):
        raise
    except BaseException as fault:
        return f"<{type(value).__name__} object; its repr raised {type(fault).__name__}>"


def _described(value: Any, depth: int) -> str:
    kind = type(value)
    if kind in (str, bytes):
        return _text(value)
    if kind is int and value.bit_length() > _BIG_INT_BITS:
        return f"<int of {value.bit_length()} bits>"
    if kind in _BRACKETS:
        return _container(value, depth)
    if isinstance(value, types.ModuleType):
        return f"<module {value.__name__}>"
    return _library_value(value) or str.__str__(repr(value))


def _text(value: str | bytes) -> str:
    if len(value) <= TEXT_CHARS:
        return repr(value)
    return f"{value[: TEXT_CHARS // 2]!r}… ({len(value)} {'characters' if isinstance(value, str) else 'bytes'})"


_BRACKETS: Final[dict[type, tuple[str, str]]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
    dict: ("{", "}"),
}


def _container(value: Any, depth: int) -> str:
    opening, closing = _BRACKETS[type(value)]
    if not value:
        return repr(value)
    if depth == 0:
        return f"{opening}… {len(value)} items{closing}"
    first = itertools.islice(value.items() if type(value) is dict else value, ITEMS)
    if type(value) is dict:
        shown = [f"{peek(key, 0)}: {peek(item, depth - 1)}" for key, item in first]
    else:
        shown = [peek(item, depth - 1) for item in first]
    if len(value) > ITEMS:
        shown.append(f"… {len(value) - ITEMS} more")
    comma = "," if type(value) is tuple and len(value) == 1 else ""
    return f"{opening}{', '.join(shown)}{comma}{closing}"


def _library_value(value: Any) -> str | None:
    """Shape and types of tables and arrays, which say more than their first cells."""
    pandas: Any = sys.modules.get("pandas")
    if pandas is not None and isinstance(value, pandas.DataFrame):
        columns = [f"{str(name)[:40]} ({dtype})" for name, dtype in itertools.islice(value.dtypes.items(), 12)]
        more = f", … {value.shape[1] - 12} more" if value.shape[1] > 12 else ""
        return f"DataFrame, {value.shape[0]} rows × {value.shape[1]} columns: {', '.join(columns)}{more}"
    if pandas is not None and isinstance(value, pandas.Series):
        first = peek(value.head(ITEMS).tolist(), 1)
        return f"Series {value.name!r}, {value.dtype}, {len(value)} values: {first}"
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        values = f": {peek(value.tolist(), 2)}" if value.size <= 12 else ""
        return f"ndarray, shape {value.shape}, {value.dtype}{values}"
    return None


def _shortened(text: str) -> str:
    limit = 2 * TEXT_CHARS
    if len(text) > limit:
        text = f"{text[:limit]}… ({len(text)} characters)"
    return text.encode(errors="backslashreplace").decode()


def _alarm_is_free() -> bool:
    return (
        threading.current_thread() is threading.main_thread()
        and signal.getitimer(signal.ITIMER_REAL)[0] == 0
        and signal.getsignal(signal.SIGALRM) in (signal.SIG_DFL, signal.SIG_IGN)
    )
