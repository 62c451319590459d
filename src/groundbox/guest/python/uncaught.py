"""Printing an uncaught exception as CPython does, also if its traceback has a million frames.

CPython works out a column for each frame, 30 microseconds each, before it folds repeated lines. Here lines are folded
first, by the same rule. If more than `MOST_FRAMES` frames remain, those in the middle are left out and counted.
"""

from __future__ import annotations

import itertools
import sys
import traceback
import types
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

MOST_FRAMES: Final = 2000
"""Frames of an exception and its causes that are printed as CPython prints them; its recursion limit is 1,000."""
_FEWEST_FRAMES: Final = 20
_REPEATED: Final = 3
"""After so many equal lines, CPython counts the others."""


def print_exception(exc: BaseException) -> None:
    """Print what `traceback.print_exception` prints, in a time that does not follow the depth of the recursion."""
    related = list(_related(exc))
    entries = (entry for each in related for entry in _entries(each.__traceback__))
    if next(itertools.islice(entries, MOST_FRAMES, None), None) is None or hasattr(sys, "tracebacklimit"):
        traceback.print_exception(exc)
        return
    most = max(_FEWEST_FRAMES, MOST_FRAMES // len(related))
    shortened = {id(each): _shorten(each.__traceback__, most) for each in related}
    whole = [(each, each.__traceback__) for each in related]
    try:
        for each in related:
            each.__traceback__ = shortened[id(each)].traceback
        summary = traceback.TracebackException.from_exception(exc, compact=True)
    finally:
        for each, entry in whole:
            each.__traceback__ = entry
    _count_left_out(summary, exc, shortened)
    summary.print()


class _Shortened(NamedTuple):
    """A traceback without some of its entries; `notes` are the lines that follow the entry with that index."""

    traceback: types.TracebackType | None
    notes: Mapping[int, str]


class _Stack(traceback.StackSummary):
    """A stack that is printed with notes between its frames, and folded no further."""

    notes: Mapping[int, str]

    def format(self, **options: Any) -> list[str]:
        """Return the lines of all frames, with the notes."""
        lines = []
        for index, frame in enumerate(self):
            lines.append(self.format_frame_summary(frame, **options))
            if index in self.notes:
                lines.append(self.notes[index])
        return lines


def _related(exc: BaseException) -> Iterator[BaseException]:
    """Yield the exception, its causes, its contexts and the members of groups, each once."""
    waiting, seen = [exc], set[int]()
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        waiting += [link for link in (each.__cause__, each.__context__) if link is not None]
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions


def _entries(tb: types.TracebackType | None) -> Iterator[types.TracebackType]:
    while tb is not None:
        yield tb
        tb = tb.tb_next


class _Row:
    """One entry that is printed, and how many equal ones follow it unprinted."""

    __slots__ = ("again", "entry")

    def __init__(self, entry: types.TracebackType) -> None:
        self.entry, self.again = entry, 0


def _shorten(tb: types.TracebackType | None, most: int) -> _Shortened:
    rows: list[_Row] = []
    half, left_out, equal = most // 2, 0, 0
    for entry in _entries(tb):
        last = rows[-1].entry if rows else None
        same = last is not None and last.tb_lineno == entry.tb_lineno and last.tb_frame.f_code is entry.tb_frame.f_code
        equal = equal + 1 if same else 1
        if equal > _REPEATED:
            rows[-1].again += 1
            continue
        rows.append(_Row(entry))
        if len(rows) > 4 * most:
            left_out += _cut_middle(rows, half)
    if len(rows) > most or left_out:
        left_out += _cut_middle(rows, half)
    notes = {index: _repeated_line(row.again) for index, row in enumerate(rows) if row.again}
    if left_out:
        notes[half - 1] = notes.get(half - 1, "") + f"  … {left_out} frames left out …\n"
    short: types.TracebackType | None = None
    for row in reversed(rows):
        short = types.TracebackType(short, row.entry.tb_frame, row.entry.tb_lasti, row.entry.tb_lineno)
    return _Shortened(short, notes)


def _cut_middle(rows: list[_Row], half: int) -> int:
    """Keep the first and last `half` rows; return how many frames the others stood for."""
    count = sum(1 + row.again for row in rows[half:-half])
    del rows[half:-half]
    return count


def _repeated_line(again: int) -> str:
    return f"  [Previous line repeated {again} more time{'s' if again > 1 else ''}]\n"


def _count_left_out(
    summary: traceback.TracebackException, exc: BaseException, shortened: Mapping[int, _Shortened]
) -> None:
    """Give each stack of the summary the notes of its exception."""
    waiting: list[tuple[Any, BaseException | None]] = [(summary, exc)]
    while waiting:
        told, each = waiting.pop()
        if told is None or each is None:
            continue
        stack = _Stack(told.stack)
        stack.notes = shortened[id(each)].notes
        told.stack = stack
        waiting += [(told.__cause__, each.__cause__), (told.__context__, each.__context__)]
        if isinstance(each, BaseExceptionGroup):
            waiting += zip(told.exceptions or (), each.exceptions, strict=False)
