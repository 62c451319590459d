"""Patterns that are matched in time linear in the text: a small part of regular expressions, run without backtracking.

Letters, `.`, `\\d \\w \\s` and their opposites, `[a-z]`, groups, `|`, `* + ?` and `{m,n}`. The whole text has to match.
A pattern is a set of states that advance together over the text, so that nested repetition costs nothing.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from groundbox.errors import InvalidArgument

MOST_CHARS: Final = 500
MOST_STATES: Final = 2_000
MOST_REPEATS: Final = 200
MOST_DEPTH: Final = 30
MOST_TEXT: Final = 20_000
# As `re` has them for texts: letters and digits of all scripts.
_CLASSES: Final[dict[str, Callable[[str], bool]]] = {
    "d": str.isdecimal, "D": lambda c: not c.isdecimal(), "s": str.isspace, "S": lambda c: not c.isspace(),
    "w": lambda c: c.isalnum() or c == "_", "W": lambda c: not (c.isalnum() or c == "_"),
}  # fmt: skip
_ESCAPED: Final = {"n": "\n", "t": "\t"}


class _State(NamedTuple):
    """Takes a character that `accepts`, or with None goes on at once; `follows` are positions of states."""

    accepts: Callable[[str], bool] | None
    follows: list[int]


@dataclasses.dataclass(frozen=True)
class Pattern:
    """A pattern.

    Attributes:
        text: As it was written.
    """

    text: str
    _states: list[_State] = dataclasses.field(repr=False, compare=False)
    _start: int = dataclasses.field(repr=False, compare=False)
    _end: int = dataclasses.field(repr=False, compare=False)

    @staticmethod
    def of(argument: str, text: str) -> Pattern:
        """Reads a pattern.

        Raises:
            InvalidArgument: It is too long, or uses what is not known here.
        """
        if len(text) > MOST_CHARS:
            raise InvalidArgument(argument, f"has {len(text)} characters, and {MOST_CHARS} is the most")
        return _Reader(argument, text).pattern()

    def matches(self, text: str) -> bool:
        """Tell whether the whole text matches. A text of over `MOST_TEXT` characters does not."""
        if len(text) > MOST_TEXT:
            return False
        # Thompson's simulation (Regular expression search algorithm, CACM 1968): all states at once, so that a text of
        # n characters costs n times the number of states, whatever the pattern.
        current = self._reach({self._start})
        for character in text:
            taken: set[int] = set()
            for position in current:
                state = self._states[position]
                if state.accepts is not None and state.accepts(character):
                    taken.update(state.follows)
            if not taken:
                return False
            current = self._reach(taken)
        return self._end in current

    def _reach(self, positions: set[int]) -> set[int]:
        waiting = list(positions)
        while waiting:
            state = self._states[waiting.pop()]
            if state.accepts is None:
                fresh = [position for position in state.follows if position not in positions]
                positions.update(fresh)
                waiting += fresh
        return positions


class _Reader:
    def __init__(self, argument: str, text: str) -> None:
        self._argument, self._text = argument, text.removeprefix("^")
        # The whole text has to match in any case, so that anchors at both ends say nothing.
        if self._text.endswith("$") and not self._text.endswith("\\$"):
            self._text = self._text[:-1]
        self._whole, self._at, self._depth = text, 0, 0
        self._states: list[_State] = []

    def pattern(self) -> Pattern:
        start, end = self._choice()
        if self._at < len(self._text):
            raise self._error("has a ) that nothing opened")
        return Pattern(self._whole, self._states, start, end)

    def _error(self, problem: str) -> InvalidArgument:
        return InvalidArgument(
            self._argument,
            f"{problem} (at character {self._at + 1}); known are letters, . \\d \\w \\s [a-z] ( ) | * + ? {{m,n}}",
        )

    def _new(self, accepts: Callable[[str], bool] | None = None) -> int:
        if len(self._states) >= MOST_STATES:
            raise InvalidArgument(self._argument, f"repeats more than is followed here ({MOST_STATES} states)")
        self._states.append(_State(accepts, []))
        return len(self._states) - 1

    def _join(self, one: int, other: int) -> None:
        self._states[one].follows.append(other)

    def _choice(self) -> tuple[int, int]:
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise self._error(f"nests more than {MOST_DEPTH} deep")
        start, end = self._new(), self._new()
        while True:
            first, last = self._sequence()
            self._join(start, first)
            self._join(last, end)
            if self._at >= len(self._text) or self._text[self._at] != "|":
                break
            self._at += 1
        self._depth -= 1
        return start, end

    def _sequence(self) -> tuple[int, int]:
        start = last = self._new()
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            begin = self._at
            first, end = self._one()
            least, most = self._repeat()
            after = self._at
            first, end = self._repeated(begin, after, first, end, least, most)
            self._join(last, first)
            last = end
        return start, last

    def _repeated(self, begin: int, after: int, first: int, end: int, least: int, most: int | None) -> tuple[int, int]:
        """The part between `begin` and the repetition, as often as wanted; it is read anew for each time."""
        if (least, most) == (1, 1):
            return first, end
        start = last = self._new()
        out = self._new()
        # `x{2,4}` is x x x? x?: copies beyond `least` may be left by `out`. `*` and `+` loop in their last copy.
        for number in range(max(least, most or least, 1)):
            if number:
                self._at = begin
                first, end = self._one()
            if number >= least:
                self._join(last, out)
            self._join(last, first)
            if most is None and number == max(least, 1) - 1:
                self._join(end, first)
            last = end
        self._join(last, out)
        # `x{0}` was built once, to be read and counted, and is then gone around.
        if most == 0:
            start = self._new()
            self._join(start, out)
        self._at = after
        return start, out

    def _repeat(self) -> tuple[int, int | None]:
        sign = self._text[self._at : self._at + 1]
        if sign and sign in "*+?":
            self._at += 1
            bounds = {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
        elif sign == "{":
            match = re.compile(r"\{(\d{1,4})(,?)(\d{0,4})\}").match(self._text, self._at)
            if match is None:
                raise self._error("has a { that is no repetition; write \\{ for the sign")
            self._at = match.end()
            least = int(match[1])
            bounds = (least, int(match[3]) if match[3] else None if match[2] else least)
            if max(bounds[0], bounds[1] or 0) > MOST_REPEATS or (bounds[1] is not None and bounds[1] < least):
                raise self._error(f"repeats more than {MOST_REPEATS} times, or less than nothing")
        else:
            return 1, 1
        if self._text[self._at : self._at + 1] in ("*", "+", "?", "{"):
            raise self._error("repeats a repetition; put it in ( )")
        return bounds

    def _one(self) -> tuple[int, int]:
        character = self._text[self._at]
        self._at += 1
        if character == "(":
            self._at += 2 * self._text.startswith("?:", self._at)
            part = self._choice()
            if self._text[self._at : self._at + 1] != ")":
                raise self._error("has a ( that nothing closes")
            self._at += 1
            return part
        if character in "*+?{^$":
            self._at -= 1
            raise self._error(f"has a {character} that repeats or means nothing here; write \\{character}")
        accepts = self._set() if character == "[" else self._letter(character)
        first, end = self._new(accepts), self._new()
        self._join(first, end)
        return first, end

    def _letter(self, character: str) -> Callable[[str], bool]:
        if character == ".":
            return lambda c: c != "\n"
        return self._escape() if character == "\\" else _equal(character)

    def _escape(self) -> Callable[[str], bool]:
        escaped = self._text[self._at : self._at + 1]
        self._at += 1
        if escaped in _CLASSES:
            return _CLASSES[escaped]
        if not escaped or (escaped.isalnum() and escaped not in _ESCAPED):
            raise self._error(f"has \\{escaped}, which is not known here")
        return _equal(_ESCAPED.get(escaped, escaped))

    def _set(self) -> Callable[[str], bool]:
        opposite = self._text.startswith("^", self._at)
        self._at += opposite
        parts: list[Callable[[str], bool]] = []
        # A `]` that stands first is a letter of the set, as in POSIX.
        while self._at < len(self._text) and (self._text[self._at] != "]" or not parts):
            character = self._text[self._at]
            self._at += 1
            if character == "\\":
                parts.append(self._escape())
            elif self._text[self._at : self._at + 1] == "-" and self._text[self._at + 1 : self._at + 2] not in (
                "]",
                "",
            ):
                parts.append(_between(character, self._text[self._at + 1]))
                self._at += 2
            else:
                parts.append(_equal(character))
        if self._at >= len(self._text):
            raise self._error("has a [ that nothing closes")
        self._at += 1
        return lambda c: any(part(c) for part in parts) is not opposite


# Functions and not lambdas in the loop above, which would all see its last characters.
def _between(low: str, high: str) -> Callable[[str], bool]:
    return lambda c: low <= c <= high


def _equal(wanted: str) -> Callable[[str], bool]:
    return lambda c: c == wanted
