"""What was cut from observations, within reach: `read_output(handle, lines | pattern)`.

A handle is the run's number and the part: `3.stdout`, `3.stderr`, `3.value`.
A pattern is no regular expression: a model writes it, over a text that a guest wrote, and the two could agree on one
that takes a host's thread for hours. It is words to be found, `|` between alternatives, `*` for anything between;
a search reads every byte once for each of them.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from groundbox.agent.budget import cut
from groundbox.agent.defusing import fenced, mark_for, shown
from groundbox.agent.observation import bundle_text
from groundbox.execution import Execution, OutputHandle

MOST_RUNS: Final = 32
_PAGE: Final = 1 << 20
_MOST_LINES: Final = 400
_MOST_MATCHES: Final = 100
_LONGEST_LINE: Final = 4 << 20
_LINES: Final = re.compile(r"\s*(\d{1,12})\s*(?:[-:–]\s*(\d{1,12})\s*)?")


class Outputs:
    """The outputs of the last MOST_RUNS runs of one conversation."""

    def __init__(self) -> None:
        self._runs: OrderedDict[int, Execution] = OrderedDict()

    def keep(self, run: int, execution: Execution) -> None:
        """Hold a run's outputs; those of the run that is MOST_RUNS older are let go."""
        self._runs[run] = execution
        while len(self._runs) > MOST_RUNS:
            self._runs.popitem(last=False)

    def read(self, handle: str, *, lines: str = "", pattern: str = "", max_tokens: int = 2000) -> str:
        """What is at a handle, for a model; a sentence that says what is wrong where there is nothing."""
        number, _, part = handle.strip().partition(".")
        execution = self._runs.get(int(number)) if number.isascii() and number.isdigit() and len(number) < 9 else None
        if execution is None:
            held = ", ".join(map(str, self._runs)) or "none"
            return f"There is no such run to read from. Held are the outputs of runs: {held}."
        found = _lines_of(execution, part)
        if found is None:
            return "There is no such part. The parts of a run are stdout, stderr and value."
        if pattern.strip():
            return _search(found, pattern, max_tokens)
        wanted = _LINES.fullmatch(lines) if lines.strip() else None
        if lines.strip() and wanted is None:
            return 'Not understood: `lines` is a range such as "100-160", counted from 1.'
        first = max(1, int(wanted[1])) if wanted else 1
        last = int(wanted[2]) if wanted and wanted[2] else first + _MOST_LINES - 1 if not wanted else first
        return _page(found, first, min(last, first + _MOST_LINES - 1), max_tokens)


def _lines_of(execution: Execution, part: str) -> Iterator[str] | None:
    if part == "value" and execution.value is not None:
        return iter(bundle_text(execution.value).split("\n"))
    if part not in ("stdout", "stderr"):
        return None
    handle = execution.outputs.get(part)
    return _lines(handle) if handle is not None else iter(getattr(execution, part).split("\n"))


def _lines(handle: OutputHandle) -> Iterator[str]:
    rest, offset = b"", 0
    while data := handle.read(offset, _PAGE):
        offset += len(data)
        *lines, rest = (rest + data).split(b"\n")
        if len(rest) > _LONGEST_LINE:
            lines, rest = [*lines, rest], b""
        yield from (line.decode("utf-8", "replace") for line in lines)
    if rest:
        yield rest.decode("utf-8", "replace")


def _page(found: Iterator[str], first: int, last: int, max_tokens: int) -> str:
    kept, count = [], 0
    for number, line in enumerate(found, 1):
        count = number
        if first <= number <= last:
            kept.append(line)
    if not kept:
        return f"There are {count} lines; none from {first}."
    head = f"lines {first} to {first + len(kept) - 1} of {count}"
    return _told(head, "\n".join(kept), max_tokens)


def _search(found: Iterator[str], pattern: str, max_tokens: int) -> str:
    wanted = [[word for word in each.split("*") if word] for each in pattern.casefold().split("|")]
    wanted = [words for words in wanted if words]
    if not wanted:
        return "Not understood: `pattern` is words to be found, with `|` between alternatives and `*` for anything."
    kept, count = [], 0
    for number, line in enumerate(found, 1):
        if any(_has(line.casefold(), words) for words in wanted):
            count += 1
            if count <= _MOST_MATCHES:
                kept.append(f"{number}: {line}")
    if not count:
        return "No line has it."
    shown_of = f"the first {_MOST_MATCHES} of them" if count > _MOST_MATCHES else "with their numbers"
    return _told(f"{count} lines have it, {shown_of}", "\n".join(kept), max_tokens)


def _has(line: str, words: list[str]) -> bool:
    at = 0
    for word in words:
        at = line.find(word, at)
        if at < 0:
            return False
        at += len(word)
    return True


def _told(head: str, text: str, max_tokens: int) -> str:
    piece = cut(text, max_tokens - 40, show=shown).text
    return f"{head}\n{fenced('output', piece, mark_for([piece]))}"
