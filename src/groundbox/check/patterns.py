"""Patterns that are matched in time linear in the text: a small part of regular expressions, run without backtracking.

Letters, `.`, `\\d \\w \\s` and their opposites, `[a-z]`, groups, `|`, `* + ?` and `{m,n}`. The whole text has to match.
A pattern is a program of steps; a set of them advances together over the text, so that nested repetition costs nothing.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from groundbox.errors import InvalidArgument

MOST_CHARS: Final = 500
MOST_STATES: Final = 2_000
"""As Thompson's construction has them: two for a letter and a repetition, two and one per branch for a group."""
MOST_REPEATS: Final = 200
MOST_DEPTH: Final = 30
MOST_TEXT: Final = 20_000
# As `re` has them for texts: letters and digits of all scripts.
_CLASSES: Final[dict[str, Callable[[str], bool]]] = {
    "d": str.isdecimal, "D": lambda c: not c.isdecimal(), "s": str.isspace, "S": lambda c: not c.isspace(),
    "w": lambda c: c.isalnum() or c == "_", "W": lambda c: not (c.isalnum() or c == "_"),
}  # fmt: skip
_ESCAPED: Final = {"n": "\n", "t": "\t"}
_REPEAT: Final = re.compile(r"[*+?]|\{(\d{1,4})(,?)(\d{0,4})\}")
_SIGNS: Final[dict[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_RANGE: Final = re.compile(r"-([^\]])")


class _Step(NamedTuple):
    """Takes a character that `accepts` and goes on with the next step, or goes on at once.

    Attributes:
        jumps: Steps to go on with at once, as distances from this one: a run of steps may be repeated as it is.
    """

    accepts: Callable[[str], bool] | None = None
    jumps: Sequence[int] = ()


@dataclasses.dataclass(frozen=True)
class Pattern:
    """A pattern.

    Attributes:
        text: As it was written.
    """

    text: str
    _steps: Sequence[_Step] = dataclasses.field(repr=False, compare=False)

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
        # Thompson's simulation (Regular expression search algorithm, CACM 1968): all steps at once, so that a text of
        # n characters costs n times the number of steps, whatever the pattern.
        current = self._reach([0])
        for character in text:
            taken = []
            for position in current:
                accepts = self._steps[position].accepts
                if accepts is not None and accepts(character):
                    taken.append(position + 1)
            if not taken:
                return False
            current = self._reach(taken)
        return len(self._steps) - 1 in current

    def _reach(self, waiting: list[int]) -> set[int]:
        found: set[int] = set()
        while waiting:
            position = waiting.pop()
            if position not in found:
                found.add(position)
                waiting += [position + jump for jump in self._steps[position].jumps]
        return found


class _Reader:
    def __init__(self, argument: str, text: str) -> None:
        self._argument, self._text = argument, text.removeprefix("^")
        # The whole text has to match in any case, so that anchors at both ends say nothing.
        if self._text.endswith("$") and not self._text.endswith("\\$"):
            self._text = self._text[:-1]
        self._whole, self._at, self._depth, self._states = text, 0, 0, 0

    def pattern(self) -> Pattern:
        steps = self._choice()
        if self._at < len(self._text):
            raise self._error("has a ) that nothing opened")
        return Pattern(self._whole, [*steps, _Step()])

    def _error(self, problem: str) -> InvalidArgument:
        return InvalidArgument(
            self._argument,
            f"{problem} (at character {self._at + 1}); known are letters, . \\d \\w \\s [a-z] ( ) | * + ? {{m,n}}",
        )

    def _count(self, states: int) -> None:
        self._states += states
        if self._states > MOST_STATES:
            raise InvalidArgument(self._argument, f"repeats more than is followed here ({MOST_STATES} states)")

    def _choice(self) -> list[_Step]:
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise self._error(f"nests more than {MOST_DEPTH} deep")
        self._count(2)
        branches = [self._sequence()]
        while self._text.startswith("|", self._at):
            self._at += 1
            branches.append(self._sequence())
        self._depth -= 1
        steps = branches.pop()
        for branch in reversed(branches):
            steps = [_Step(jumps=(1, len(branch) + 2)), *branch, _Step(jumps=(len(steps) + 1,)), *steps]
        return steps

    def _sequence(self) -> list[_Step]:
        self._count(1)
        steps: list[_Step] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            before = self._states
            part = self._one()
            size = self._states - before
            least, most = self._repeat()
            if (least, most) != (1, 1):
                self._count(2 + size * (max(least, most or 0, 1) - 1) + (most == 0))
                part = _repeated(part, least, most)
            steps += part
        return steps

    def _repeat(self) -> tuple[int, int | None]:
        found = _REPEAT.match(self._text, self._at)
        if found is None:
            if self._text.startswith("{", self._at):
                raise self._error("has a { that is no repetition; write \\{ for the sign")
            return 1, 1
        self._at = found.end()
        least, most = _SIGNS.get(found[0], (int(found[1] or 0), int(found[3]) if found[3] else None))
        if found[1] and not found[2]:
            most = least
        if max(least, most or 0) > MOST_REPEATS or (most is not None and most < least):
            raise self._error(f"repeats more than {MOST_REPEATS} times, or less than nothing")
        if self._text.startswith(("*", "+", "?", "{"), self._at):
            raise self._error("repeats a repetition; put it in ( )")
        return least, most

    def _one(self) -> list[_Step]:
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
        self._count(2)
        return [_Step(accepts)]

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
            elif found := _RANGE.match(self._text, self._at):
                parts.append(_between(character, found[1]))
                self._at += 2
            else:
                parts.append(_equal(character))
        if self._at >= len(self._text):
            raise self._error("has a [ that nothing closes")
        self._at += 1
        return lambda c: any(part(c) for part in parts) is not opposite


def _repeated(part: list[_Step], least: int, most: int | None) -> list[_Step]:
    if most is not None:
        return part * least + [_Step(jumps=(1, len(part) + 1)), *part] * (most - least)
    if least:
        return [*part * least, _Step(jumps=(-len(part), 1))]
    return [_Step(jumps=(1, len(part) + 2)), *part, _Step(jumps=(-len(part) - 1,))]


# Functions and not lambdas in the loop above, which would all see its last characters.
def _between(low: str, high: str) -> Callable[[str], bool]:
    return lambda c: low <= c <= high


def _equal(wanted: str) -> Callable[[str], bool]:
    return lambda c: c == wanted
